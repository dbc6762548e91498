"""A wheel is read with bounds, and put where it belongs whole or not at all."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from patchset.errors import WheelError
from patchset.wheel import packing
from patchset.wheel.record import Member, publish, read_members

INFO = "vllm-1.dist-info"
MEMBERS = (
    Member("vllm/b.py", b"b\n" * 500),
    Member(f"{INFO}/METADATA", b"Name: vllm\n"),
    Member("vllm/run.sh", b"#!/bin/sh\n", executable=True),
    Member(f"{INFO}/RECORD", b"stale\n"),
    Member('vllm/a,"quoted".json', b"{}"),
)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "vllm/../../x", "vllm//x", "vllm\\x", "C:x", "./x"])
def test_a_name_that_could_leave_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, b"")
    with pytest.raises(WheelError, match="not a plain relative path"):
        read_members(path)


def test_links_and_doubles_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    link = zipfile.ZipInfo("vllm/x")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(link, b"/etc/passwd")
    with pytest.raises(WheelError, match="is a link"):
        read_members(path)
    with zipfile.ZipFile(path, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("vllm/x", b"1")
        archive.writestr("vllm/x", b"2")
    with pytest.raises(WheelError, match="is there twice"):
        read_members(path)


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packing.write(tuple(map(packing.pack, MEMBERS)), tmp_path / "x.whl", epoch=0)
    monkeypatch.setattr("patchset.wheel.record.MOST_MEMBERS", 4)
    with pytest.raises(WheelError, match="over 4 members"):
        read_members(tmp_path / "x.whl")


def test_damage_is_an_error_of_ours_or_changes_nothing_that_counts(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    packing.write(tuple(map(packing.pack, MEMBERS[:2])), path, epoch=0)
    sound = path.read_bytes()
    noticed = 0
    for position in range(len(sound)):
        path.write_bytes(sound[:position] + bytes([sound[position] ^ 0xFF]) + sound[position + 1 :])
        try:
            found = read_members(path)
        except WheelError as error:
            noticed += 1
            assert error.next
        else:
            assert {member.data for member in found} <= {member.data for member in MEMBERS[:2]}
    assert noticed > len(sound) // 2


def test_publishing_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(b"new")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.whl").write_bytes(b"old")
    assert publish(wheel, tmp_path / "out").read_bytes() == b"new"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x.whl"]


def test_publishing_that_fails_keeps_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.whl").write_bytes(b"old")
    with pytest.raises(FileNotFoundError):
        publish(tmp_path / "x.whl", tmp_path / "out")
    assert [path.read_bytes() for path in (tmp_path / "out").iterdir()] == [b"old"]
