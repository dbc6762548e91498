"""Members in, the same bytes out; and nothing half-written."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest
from wheel_samples import record_line

from patchset.errors import WheelError
from patchset.wheel.record import Member, publish, read_members, record_faults, with_dist_info, write_wheel

INFO = "vllm-1.dist-info"
MEMBERS = (
    Member("vllm/b.py", b"b\n" * 500),
    Member(f"{INFO}/METADATA", b"Name: vllm\n"),
    Member("vllm/run.sh", b"#!/bin/sh\n", executable=True),
    Member(f"{INFO}/RECORD", b"stale\n"),
    Member('vllm/a,"quoted".json', b"{}"),
)


def test_record_is_remade_and_stands_last() -> None:
    made = with_dist_info(MEMBERS, INFO, {"patchset.json": b"{}\n"})
    assert [member.name for member in made] == [
        'vllm/a,"quoted".json', "vllm/b.py", "vllm/run.sh",
        f"{INFO}/METADATA", f"{INFO}/patchset.json", f"{INFO}/RECORD",
    ]  # fmt: skip
    lines = made[-1].data.decode().splitlines(keepends=True)
    assert lines[1] == record_line("vllm/b.py", b"b\n" * 500)
    assert lines[0].startswith('"vllm/a,""quoted"".json",sha256=')
    assert lines[-1] == f"{INFO}/RECORD,,\n"
    assert record_faults(made, f"{INFO}/RECORD") == []


def test_an_older_record_of_ours_is_replaced() -> None:
    once = with_dist_info(MEMBERS, INFO, {"patchset.json": b"old"})
    twice = with_dist_info(once, INFO, {"patchset.json": b"new"})
    assert [member.data for member in twice if member.name.endswith("patchset.json")] == [b"new"]
    assert record_faults(twice, f"{INFO}/RECORD") == []


def test_equal_members_give_equal_bytes_whatever_the_umask(tmp_path: Path) -> None:
    write_wheel(with_dist_info(MEMBERS, INFO, {}), tmp_path / "one.whl", epoch=1_780_000_000)
    before = os.umask(0o077)
    try:
        write_wheel(with_dist_info(MEMBERS[::-1], INFO, {}), tmp_path / "two.whl", epoch=1_780_000_000)
    finally:
        os.umask(before)
    assert (tmp_path / "one.whl").read_bytes() == (tmp_path / "two.whl").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.whl") as archive:
        assert {info.date_time for info in archive.infolist()} == {(2026, 5, 28, 20, 26, 40)}
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    assert modes["vllm/run.sh"] == stat.S_IFREG | 0o755
    assert set(modes.values()) == {stat.S_IFREG | 0o644, stat.S_IFREG | 0o755}


def test_members_survive_the_round_trip(tmp_path: Path) -> None:
    made = with_dist_info(MEMBERS, INFO, {})
    write_wheel(made, tmp_path / "x.whl", epoch=0)
    assert read_members(tmp_path / "x.whl") == made


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
    write_wheel(MEMBERS, tmp_path / "x.whl", epoch=0)
    monkeypatch.setattr("patchset.wheel.record.MOST_MEMBERS", 4)
    with pytest.raises(WheelError, match="over 4 members"):
        read_members(tmp_path / "x.whl")


def test_damage_is_an_error_of_ours_or_changes_nothing_that_counts(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    write_wheel(MEMBERS[:2], path, epoch=0)
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
