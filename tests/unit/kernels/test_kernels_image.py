"""The tables of a shared object beyond what it needs: search path, symbols, symbol versions; whole and damaged."""

from __future__ import annotations

import mmap
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from made_kernels import compile_object

from patchset.wheel import elf

SOURCE = """
#include <string>
extern "C" int strong(void);
extern "C" __attribute__((weak)) int weak(void);
static int hidden(int n) { return n + strong(); }
extern "C" int use(const std::string &s) { return hidden(s.at(1)) + (weak ? weak() : 0); }
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = ("-Wl,-rpath,$ORIGIN:/opt/x", "-O0")
    return compile_object(tmp_path_factory.mktemp("image"), "x.so", SOURCE, *options)


def test_search_path_in_parts(made: Path) -> None:
    assert elf.Image(made.read_bytes()).search_path() == ("$ORIGIN", "/opt/x")


def test_symbols_by_which_it_is_linked(made: Path) -> None:
    symbols = {symbol.name: symbol for symbol in elf.Image(made.read_bytes()).dynamic_symbols()}
    assert not symbols["strong"].defined and not symbols["strong"].weak
    assert not symbols["weak"].defined and symbols["weak"].weak
    assert symbols["use"].defined and symbols["use"].size > 0
    assert not any("hidden" in name for name in symbols)


def test_the_linkers_own_table_knows_local_functions_and_a_stripped_object_has_none(made: Path, tmp_path: Path) -> None:
    local = [symbol for symbol in elf.Image(made.read_bytes()).all_symbols() if "hidden" in symbol.name]
    assert len(local) == 1 and local[0].size > 0
    stripped = compile_object(tmp_path, "y.so", SOURCE, "-Wl,-s")
    assert list(elf.Image(stripped.read_bytes()).all_symbols()) == []


@pytest.mark.skipif(not shutil.which("readelf"), reason="compares with binutils")
def test_versions_are_those_that_readelf_prints(made: Path) -> None:
    text = subprocess.run(
        ["readelf", "-W", "-V", str(made)], check=True, capture_output=True, text=True, env={"LC_ALL": "C"}
    ).stdout
    printed, library = set(), ""
    for line in text.partition("Version needs section")[2].splitlines():
        match = re.search(r"File: (\S+)", line)
        library = match[1] if match else library
        match = re.search(r"Name: (\S+)", line)
        printed |= {(library, match[1])} if match else set()
    assert printed and set(elf.Image(made.read_bytes()).versions_needed()) == printed


def test_a_memory_map_reads_as_the_bytes_do(made: Path) -> None:
    with open(made, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        assert everything(elf.Image(data)) == everything(elf.Image(made.read_bytes()))


def test_no_damage_raises_anything_but_what_is_said(made: Path) -> None:
    data, refused = made.read_bytes(), 0
    tables = [section for section in elf.Image(data).sections if section.kind in (2, 6, 11, 0x6FFFFFFE)]
    places = [*range(64), *range(len(data) - 2500, len(data), 5)]
    places += [at for table in tables for at in range(table.offset, table.offset + min(table.size, 200), 3)]
    for at in places:
        for byte in (b"\xff", b"\x00"):
            try:
                everything(elf.Image(data[:at] + byte + data[at + 1 :]))
            except elf.NotElf:
                refused += 1
    assert refused > 20


def everything(image: elf.Image) -> list[object]:
    return [
        image.sections,
        image.needed(),
        image.search_path(),
        list(image.dynamic_symbols()),
        list(image.all_symbols()),
        image.versions_needed(),
        [image.bytes_of(section) for section in image.sections if section.size < 10_000],
    ]
