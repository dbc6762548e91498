"""What is said of the compiler, and to it; that it compiles, and always the same, is in tests/real/apart/test_native.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchset.environment import locked_pins
from patchset.errors import WheelError
from patchset.wheel import compiler
from patchset.wheel.compiler import COMPILER_REQUIREMENTS, TARGET, Compiler, fill_cache

STANDIN = Path(compiler.__file__).with_name("standin")


def test_the_lock_is_one_hashed_compiler_and_names_no_index() -> None:
    text = COMPILER_REQUIREMENTS.read_text()
    assert list(locked_pins(COMPILER_REQUIREMENTS)) == ["ziglang"] and "--hash=sha256:" in text and "://" not in text


def test_the_record_names_compiler_and_target() -> None:
    assert re.fullmatch(r"zig c\+\+ \d+\.\d+\.\d+ for x86_64-linux-gnu\.2\.28", compiler.version())


def test_a_build_gets_a_copy_of_the_cache_and_writes_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "cache" / "o").mkdir(parents=True)
    (tmp_path / "cache" / "o" / "libc++.a").write_bytes(b"library")
    (tmp_path / "a room").mkdir()
    made = Compiler(("/a folder/zig", "c++", "-target", TARGET), tmp_path / "cache").environment(tmp_path / "a room")
    copy = Path(made["ZIG_GLOBAL_CACHE_DIR"])
    assert made["ZIG_LOCAL_CACHE_DIR"] == str(copy) and copy.parent == tmp_path / "a room"
    (copy / "o" / "libc++.a").write_bytes(b"something else")
    assert (tmp_path / "cache" / "o" / "libc++.a").read_bytes() == b"library"
    assert made["PATCHSET_CXX"] == f"/a folder/zig;c++;-target;{TARGET}"
    assert Path(made["CMAKE_TOOLCHAIN_FILE"]).is_file()


def test_what_the_toolchain_file_reads_is_what_a_build_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    told = Compiler(("zig",), tmp_path / "cache").environment(tmp_path)
    asked = re.findall(r"\$ENV\{(\w+)\}", (STANDIN / "native" / "toolchain.cmake").read_text())
    assert asked == ["PATCHSET_CXX"] and "PATCHSET_CXX" in told


def a_compiler(folder: Path, program: str) -> Compiler:
    """One that notes each call: a shell program that gets the words of a real one."""
    (folder / "cxx").write_text(f"echo called >> '{folder}/calls'\n{program}\n")
    return Compiler(("/bin/sh", str(folder / "cxx")), folder / "cache")


WORKS = """
while [ "$1" != -o ]; do shift; done
grep -q vector "$3" && echo library > "$ZIG_GLOBAL_CACHE_DIR/library" && echo > "$2"
"""


def test_the_cache_is_filled_once(tmp_path: Path) -> None:
    made = a_compiler(tmp_path, WORKS)
    (tmp_path / "cache.part").mkdir()
    (tmp_path / "cache.part" / "half").touch()
    fill_cache(made)
    fill_cache(made)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["library"]
    assert not (tmp_path / "cache.part").exists() and (tmp_path / "calls").read_text() == "called\n"


def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    made = a_compiler(tmp_path, WORKS)
    fill_cache(made)
    (tmp_path / "cache" / "library").write_bytes(b"cut")
    fill_cache(made)
    assert (tmp_path / "cache" / "library").read_bytes() == b"library\n"
    assert (tmp_path / "calls").read_text() == "called\n" * 2


@pytest.mark.parametrize("program", ["echo no room; exit 3", "echo no room", "echo no room; kill -9 $$"])
def test_a_compiler_that_does_not_work_leaves_no_cache(tmp_path: Path, program: str) -> None:
    made = a_compiler(tmp_path, program)
    for _ in range(2):
        with pytest.raises(WheelError, match="could not make its C") as caught:
            fill_cache(made)
        assert "no room" in caught.value.detail and caught.value.next
        assert not (tmp_path / "cache").exists()
