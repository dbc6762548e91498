"""What a shared object needs, on objects compiled here and on ones that this interpreter loads."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from patchset.wheel import elf

SOURCE = """
#include <string>
namespace at { struct Tensor { Tensor(); long size() const; }; }
extern "C" int plain(void);
extern "C" char use(const std::string &s, const at::Tensor *t) { return s.at(plain()) + (t ? TORCH : 0); }
"""


def shared_object(folder: Path, torch: str) -> bytes:
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "these tests need a C++ compiler of the machine (the wheel does not)"
    (folder / "x.cpp").write_text(SOURCE)
    argv = [compiler, "-shared", "-fPIC", "-O1", f"-DTORCH={torch}", "-o", "x.so", "x.cpp"]
    subprocess.run(argv, cwd=folder, check=True)
    return (folder / "x.so").read_bytes()


def test_an_object_that_uses_no_torch(tmp_path: Path) -> None:
    found = elf.read(shared_object(tmp_path, "0"))
    assert "libstdc++.so.6" in found.needed and "plain" in found.undefined and "use" not in found.undefined
    assert found.torch_use() == ()


def test_an_object_that_uses_torch(tmp_path: Path) -> None:
    assert elf.read(shared_object(tmp_path, "t->size()")).torch_use() == ("_ZNK2at6Tensor4sizeEv",)


@pytest.mark.parametrize(
    "symbol",
    ["_ZN3c106detail14torchCheckFailEPKcS2_jS2_", "_ZN5torch7Library4_defE", "_ZNK2at10TensorBase4dataEv",
     "_ZNSt6vectorIN2at6TensorESaIS1_EE9push_backEv", "aoti_torch_get_dtype", "torch_call_dispatcher", "THPVariable"],
)  # fmt: skip
def test_symbols_of_torch(symbol: str) -> None:
    assert elf.SharedObject((), (symbol,)).torch_use() == (symbol,)


@pytest.mark.parametrize(
    "symbol", ["_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE2atEm", "PyObject_Call", "format"]
)
def test_symbols_that_only_look_like_it(symbol: str) -> None:
    assert elf.SharedObject((), (symbol,)).torch_use() == ()


def test_a_needed_library_of_torch_counts() -> None:
    assert elf.SharedObject(("libtorch_cpu.so", "libc10.so", "libc.so.6"), ()).torch_use() == (
        "libtorch_cpu.so",
        "libc10.so",
    )


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    data = shared_object(tmp_path, "0")
    for length in range(0, len(data), 97):
        with pytest.raises(elf.NotElf):
            elf.read(data[:length])


def test_no_damage_raises_anything_else(tmp_path: Path) -> None:
    data = shared_object(tmp_path, "0")
    refused = 0
    for position in [*range(64), *range(len(data) - 3000, len(data), 7)]:
        try:
            elf.read(data[:position] + b"\xff" + data[position + 1 :])
        except elf.NotElf:
            refused += 1
    assert refused > 10


def test_what_is_not_elf() -> None:
    with pytest.raises(elf.NotElf, match="not a little-endian"):
        elf.read(Path(sys.executable).parent.joinpath("none").as_posix().encode())
