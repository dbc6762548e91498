"""A whole wheel: objects, symbols that none of them defines, operators, modules; and wheels that are none."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_kernels import EQUAL, FILE, X86, compile_object, registering, write_wheel

from patchset.errors import KernelsError
from patchset.kernels import read as reading
from patchset.kernels.have import Had
from patchset.sources.archive import hash_file

HELPER = "namespace at { struct Tensor; } namespace gdn { int helper(at::Tensor *t) { return t != 0; } }"
MORE = """
namespace at { struct Tensor; }
namespace gdn { int helper(at::Tensor *); }
namespace c10 { int plain(int); __attribute__((weak)) int perhaps(int); namespace xpu { int current_device(); } }
namespace sycl { inline namespace _V1 { class queue { public: void wait(); }; } }
extern "C" int outside(void);
extern "C" int all(sycl::queue &q) {
  q.wait();
  return gdn::helper(0) + c10::plain(2) + c10::xpu::current_device() + outside() + (c10::perhaps ? c10::perhaps(1) : 0);
}
"""


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("members")
    own = compile_object(folder, "libgdn.so", HELPER, "-Wl,-soname,libgdn.so")
    source = registering({"_xpu_C": ["f(Tensor x) -> Tensor"]}, EQUAL, more=MORE)
    main = compile_object(folder, "_xpu_C.abi3.so", source, "-L.", "-lgdn", "-Wl,-rpath,$ORIGIN")
    return {
        "libgdn.so": own.read_bytes(),
        "_xpu_C.abi3.so": main.read_bytes(),
        "__init__.py": b"from .a import f\ntry:\n    import torch as t\nexcept ImportError:\n    t = None\n",
        "a.py": b"X: int = 1\nif X:\n    def f(n): y = n\nclass C: z = 1\nfor i in (): pass\n",
        "broken.py": b"def (",
        "libs/libccl.so.1": own.read_bytes(),
    }


@pytest.fixture
def wheel(members: dict[str, bytes], tmp_path: Path) -> Path:
    return write_wheel(tmp_path / "wheel", members)


def test_symbols_by_family_without_those_that_the_wheel_defines_or_can_do_without(wheel: Path, tmp_path: Path) -> None:
    objects = {item.file.rpartition("/")[2]: item for item in reading.read(wheel, tmp_path).objects}
    main = objects["_xpu_C.abi3.so"]
    assert "_ZN3c105plainEi" in main.torch and main.xpu == ("_ZN3c103xpu14current_deviceEv",)
    assert main.sycl == ("_ZN4sycl3_V15queue4waitEv",)
    assert any("5torch7Library3def" in name for name in main.torch)
    assert main.others >= 1 and not any("helper" in name or "perhaps" in name for name in (*main.torch, *main.xpu))
    assert "libgdn.so" in main.needed and main.search_path == ("$ORIGIN",)
    assert objects["libgdn.so"].torch == ()


@X86
def test_operators_rules_modules_and_bundled_runtimes(wheel: Path, tmp_path: Path) -> None:
    found = reading.read(wheel, tmp_path)
    assert [(op.name, op.told_by) for op in found.ops] == [("_xpu_C.f", "function")]
    assert found.groups == (("vllm_xpu_kernels/_xpu_C.abi3.so", "=="),) and found.mixed == ()
    assert found.modules["vllm_xpu_kernels.a"] == ("C", "X", "f", "i")
    assert found.modules["vllm_xpu_kernels"] == ("f", "t")
    assert found.modules["vllm_xpu_kernels._xpu_C"] == found.modules["vllm_xpu_kernels.broken"] == ("*",)
    assert found.bundled == ("vllm_xpu_kernels/libs/libccl.so.1",)


def test_nothing_is_left_in_scratch(wheel: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    reading.read(wheel, scratch)
    assert list(scratch.iterdir()) == []


def test_contents_are_known_by_the_hash_of_the_wheel(wheel: Path, tmp_path: Path) -> None:
    entered: list[int] = []

    @contextlib.contextmanager
    def scratch() -> Iterator[Path]:
        entered.append(1)
        yield tmp_path

    had = Had(wheel, "0.1.15.4", (), *hash_file(wheel), False)
    cache = tmp_path / "cache"
    first = reading.contents(had, cache=cache, scratch=scratch)
    again = reading.contents(had, cache=cache, scratch=scratch)
    assert (first[1], again[1], len(entered)) == (False, True, 1)
    assert first[0] == again[0] and first[0].ops
    assert not reading.contents(had, cache=cache, scratch=scratch, fresh=True)[1]
    kept = next(cache.rglob("*.json"))
    for damage in (b"", b"[]", b"{}", kept.read_bytes()[:-20], kept.read_bytes().replace(b"-> Tensor", b"-> Tensur")):
        kept.write_bytes(damage)
        read, reused = reading.contents(had, cache=cache, scratch=scratch)
        assert read == first[0] and not reused
    other = Had(wheel, "0.1.15.4", (), "0" * 64, 1, False)
    assert not reading.contents(other, cache=cache, scratch=scratch)[1]


def test_a_wheel_without_objects(tmp_path: Path) -> None:
    found = reading.read(write_wheel(tmp_path, {"__init__.py": b""}), tmp_path)
    assert found.objects == () == found.ops and dict(found.modules) == {"vllm_xpu_kernels": ()}


@pytest.mark.parametrize("data", [b"", b"not a zip at all", b"PK\x03\x04" + b"\0" * 40])
def test_what_is_no_zip(data: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(KernelsError, match="cannot be read"):
        reading.read(tmp_path / FILE, tmp_path)


@pytest.mark.parametrize("data", [b"", b"text", b"\x7fELF\x02\x01" + b"\0" * 70, b"\x7fELF\x02\x01" + b"\xff" * 200])
def test_an_object_that_is_none(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(KernelsError, match=r"_C\.abi3\.so is no shared object"):
        reading.read(write_wheel(tmp_path, {"_C.abi3.so": data}), tmp_path)


def test_every_truncation_and_flipped_bytes_end_in_an_error_of_ours_or_the_same_contents(
    wheel: Path, tmp_path: Path
) -> None:
    whole, data = reading.read(wheel, tmp_path), wheel.read_bytes()
    refused = 0
    hurt = tmp_path / "hurt" / FILE
    hurt.parent.mkdir()
    step = len(data) // 40
    damaged = [data[:length] for length in range(0, len(data), step)]
    damaged += [data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :] for at in range(11, len(data), step)]
    for bad in damaged:
        hurt.write_bytes(bad)
        try:
            found = reading.read(hurt, tmp_path)
        except KernelsError:
            refused += 1
        else:
            assert found.objects == whole.objects and found.ops == whole.ops
    assert refused > 50


@pytest.mark.parametrize("limit", ["OBJECT_LIMIT", "TOTAL_LIMIT", "_MEMBERS_LIMIT"])
def test_too_big_is_said_before_anything_is_unpacked(
    limit: str, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, limit, 3)
    with pytest.raises(KernelsError, match="no kernels wheel is that big"):
        reading.read(wheel, tmp_path / "not there")


def test_a_member_that_holds_more_than_it_says(members: dict[str, bytes], tmp_path: Path) -> None:
    """A bomb: the directory says 10 bytes, the stream holds 16 MB."""
    path = write_wheel(tmp_path, {"_C.abi3.so": b"\0" * 16_000_000})
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("vllm_xpu_kernels/_C.abi3.so")
    size = info.file_size.to_bytes(4, "little")
    data = path.read_bytes().replace(size, (10).to_bytes(4, "little"))
    path.write_bytes(data)
    with pytest.raises(KernelsError):
        reading.read(path, tmp_path)


def test_no_room_is_not_the_wheels_fault(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        reading.read(wheel, tmp_path / "not there")
