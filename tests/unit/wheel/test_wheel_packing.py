"""Members in, the same bytes out, and every zip reader reads them."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wheel_samples import record_line

from patchset.errors import WheelError
from patchset.wheel import packing
from patchset.wheel.draft import Draft
from patchset.wheel.packing import Packed, pack
from patchset.wheel.record import Member, read_members, record_faults

INFO = "vllm-1.dist-info"
MEMBERS = (
    Member("vllm/b.py", b"b\n" * 500),
    Member(f"{INFO}/METADATA", b"Name: vllm\n"),
    Member("vllm/run.sh", b"#!/bin/sh\n", executable=True),
    Member('vllm/a,"quoted".json', b"{}"),
    Member("vllm/empty", b""),
    Member("vllm/größe.txt", b"1"),
)


def finished(members: tuple[Member, ...] = MEMBERS) -> tuple[Packed, ...]:
    return Draft(tuple(map(pack, members)), INFO, "1").finished({"patchset.json": b"{}\n"})


def test_dist_info_stands_last_and_record_at_its_end() -> None:
    made = finished()
    assert [member.name for member in made] == [
        'vllm/a,"quoted".json', "vllm/b.py", "vllm/empty", "vllm/größe.txt", "vllm/run.sh",
        f"{INFO}/METADATA", f"{INFO}/patchset.json", f"{INFO}/RECORD",
    ]  # fmt: skip
    lines = made[-1].content().decode().splitlines(keepends=True)
    assert lines[1] == record_line("vllm/b.py", b"b\n" * 500)
    assert lines[0].startswith('"vllm/a,""quoted"".json",sha256=')
    assert lines[-1] == f"{INFO}/RECORD,,\n"


def test_equal_members_give_equal_bytes_whatever_the_order_and_umask(tmp_path: Path) -> None:
    packing.write(finished(), tmp_path / "one.whl", epoch=1_780_000_000)
    before = os.umask(0o077)
    try:
        packing.write(finished(MEMBERS[::-1]), tmp_path / "two.whl", epoch=1_780_000_000)
    finally:
        os.umask(before)
    assert (tmp_path / "one.whl").read_bytes() == (tmp_path / "two.whl").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.whl") as archive:
        assert archive.testzip() is None
        assert {info.date_time for info in archive.infolist()} == {(2026, 5, 28, 20, 26, 40)}
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    assert modes["vllm/run.sh"] == stat.S_IFREG | 0o755
    assert set(modes.values()) == {stat.S_IFREG | 0o644, stat.S_IFREG | 0o755}


def test_another_reader_gets_the_same_members(tmp_path: Path) -> None:
    packing.write(finished(), tmp_path / "x.whl", epoch=0)
    read = read_members(tmp_path / "x.whl")
    assert [(m.name, m.data, m.executable) for m in read] == [(m.name, m.content(), m.executable) for m in finished()]
    assert record_faults(read, f"{INFO}/RECORD") == []


def test_what_was_written_is_read_without_unpacking(tmp_path: Path) -> None:
    made = finished()
    packing.write(made, tmp_path / "x.whl", epoch=1_780_000_000)
    assert packing.read(tmp_path / "x.whl", [(m.name, m.sha256) for m in made]) == made


def test_a_damaged_or_foreign_archive_is_an_error(tmp_path: Path) -> None:
    made = finished()
    hashes = [(m.name, m.sha256) for m in made]
    path = tmp_path / "x.whl"
    packing.write(made, path, epoch=0)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(WheelError, match="cannot be read"):
        packing.read(path, hashes)
    path.write_bytes(whole)
    with pytest.raises(WheelError, match="cannot be read"):
        packing.read(path, hashes[:-1])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("vllm/b.py", b"b")
    with pytest.raises(WheelError, match="not deflated"):
        packing.read(path, [("vllm/b.py", "0" * 64)])


@given(st.binary(max_size=5000))
def test_any_content_comes_back(data: bytes) -> None:
    packed = pack(Member("x", data))
    assert packed.content() == data and packed.size == len(data)
