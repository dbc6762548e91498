"""The offline compiler as a program: found or not, what its end means, what is kept, and what its file may hold."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from patchset.smoke.lanes import CannotRun
from patchset.smoke.toolchains import CACHE
from patchset.smoke.toolchains.ocloc import WORDS, Ocloc, find

MODULE = b"not read by these compilers"
REFUSES = """
print("error: total scratch space exceeds HW supported limit for kernel whole_row: 411136 bytes (max permitted PTSS 262144 bytes)")
sys.exit(245)
"""


def compiler(folder: Path, compiling: str, cache: Path | None = None) -> dict[str, str]:
    """Variables that name a compiler which knows the B70 and does *compiling* when it is to compile."""
    program = folder / "ocloc.py"
    program.write_text(
        "import sys, time\n"
        "if sys.argv[1] == '--version':\n    print('26.27.1')\n"
        "elif sys.argv[1] == 'ids':\n    print('Matched ids:\\n20.2.0')\n"
        "else:\n"
        + "\n".join(
            f"    {line}" for line in f"open({str(folder / 'calls')!r}, 'a').write('x')\n{compiling}".splitlines()
        ),
        "utf-8",
    )
    kept = {CACHE: str(cache)} if cache else {}
    return {WORDS: shlex.join([sys.executable, str(program)]), **kept}


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text("ascii"))


def test_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=WORDS):
        find({"PATH": str(tmp_path)})


@pytest.mark.parametrize("words", ["/nowhere/ocloc", "sh -c 'exit 3'", "sh -c 'echo bmg-g31 is unknown'"])
def test_one_that_does_not_start_or_does_not_know_the_card_is_told(words: str) -> None:
    with pytest.raises(CannotRun):
        find({WORDS: words})


def test_the_one_on_the_path_is_taken(tmp_path: Path) -> None:
    script = tmp_path / "bin" / "ocloc"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {compiler(tmp_path, "sys.exit(1)")[WORDS]} "$@"\n', "utf-8")
    script.chmod(0o755)
    assert find({"PATH": str(script.parent)}).words == (str(script),)


def test_scratch_that_it_refuses_is_read(tmp_path: Path) -> None:
    made = find(compiler(tmp_path, REFUSES)).compile(MODULE, "whole_row", "default")
    assert (made.code, made.scratch, made.timed_out) == (None, 411136, False)
    assert "status 245" in made.told and "PTSS" in made.told


@pytest.mark.parametrize(
    ("compiling", "told"),
    [
        ("sys.exit(0)", "status 0"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "status -11"),
    ],
    ids=["nothing-made", "crash"],
)
def test_a_good_status_alone_is_no_machine_code(tmp_path: Path, compiling: str, told: str) -> None:
    made = find(compiler(tmp_path, compiling)).compile(MODULE, "any", "default")
    assert made.code is None and told in made.told


def test_one_that_never_ends_is_stopped_and_that_is_not_kept(tmp_path: Path) -> None:
    found = find(compiler(tmp_path, "while True: pass", tmp_path / "cache"))
    for _ in range(2):
        made = found.compile(MODULE, "any", "default", limit=1)
        assert made.timed_out and made.code is None
    assert calls(tmp_path) == 2


def test_what_was_compiled_is_known_by_module_kernel_mode_and_compiler(tmp_path: Path) -> None:
    found = find(compiler(tmp_path, REFUSES, tmp_path / "cache"))
    first = found.compile(MODULE, "whole_row", "default")
    assert found.compile(MODULE, "whole_row", "default") == first and calls(tmp_path) == 1
    found.compile(MODULE, "whole_row", "256")
    found.compile(MODULE, "other", "default")
    found.compile(MODULE + b"!", "whole_row", "default")
    Ocloc(found.words, "another", found.cache).compile(MODULE, "whole_row", "default")
    assert calls(tmp_path) == 5


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"code": null}', b'{"code": {"simd": 1}, "seconds": 1}'])
def test_an_entry_that_was_damaged_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    found = find(compiler(tmp_path, REFUSES, tmp_path / "cache"))
    first = found.compile(MODULE, "whole_row", "default")
    (entry,) = (tmp_path / "cache").rglob("*.json")
    entry.write_bytes(damage)
    assert found.compile(MODULE, "whole_row", "default").scratch == first.scratch and calls(tmp_path) == 2
