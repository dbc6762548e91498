"""Archives and records that somebody made to harm, or that were harmed: a finding, never a surprise."""

from __future__ import annotations

import stat
import struct
import zipfile
from pathlib import Path

import made_verify as mv
import pytest
from made_verify import edited, kinds, told

from patchset.verify import verify
from patchset.verify.model import Unusable

MADE = mv.make()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("format", 3),
        ("format", True),
        ("format", 2.0),
        ("tree", "A" * 40),
        ("tree", None),
        ("series", {}),
        ("series:0:applied", False),
        ("series:0:outcome", "upstream"),
        ("series:0:patch", "second"),
        ("series:0:touched", ["../../etc/passwd"]),
        ("wheel:files", {"/etc/passwd": {"sha256": None, "base": None, "patches": []}}),
        ("wheel:files", {"vllm/\x1b[31m.py": {"sha256": None, "base": None, "patches": []}}),
        ("wheel:files", {"vllm/a.py": None}),
        ("wheel:proof", []),
        ("wheel:proof:rest", {"": [["100644", "a"]]}),
        ("wheel:proof:rest", {"": [["100645", "a", "1" * 40]]}),
        ("wheel:proof:rest", {"": [["100644", "a/b", "1" * 40]]}),
        ("wheel:proof:rest", {"": [["100644", "a\0b", "1" * 40]]}),
        ("wheel:proof:rest", {"": [["100644", "a", "1" * 40], ["100644", "a", "2" * 40]]}),
        ("wheel:proof:rest", {"../x": []}),
        ("wheel:proof:rest", {"/".join("x" * 100): []}),
    ],
)
def test_a_patchset_json_that_is_none(tmp_path: Path, path: str, value: object) -> None:
    report = verify(MADE.with_record(edited(path, value)).write(tmp_path))
    assert (told(report), report.exit_code) == ({("record", "patchset.json")}, 26)


@pytest.mark.parametrize("name", ["\ud800", ".", "..", ""])
def test_names_that_git_cannot_hold(tmp_path: Path, name: str) -> None:
    report = verify(_with_rest(tmp_path, name))
    assert kinds(report) <= {"tree", "record"} and report.findings


def _with_rest(tmp_path: Path, name: str) -> Path:
    def add(record: dict) -> None:
        record["wheel"]["proof"]["rest"]["vllm"].append(["100644", name, "1" * 40])

    return MADE.with_record(add).write(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"format": NaN}',
        b'{"format": 1e999}',
        b'{"format": ' + b"9" * 5000 + b"}",
        b'{"format": 2, "format": 2}',
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 500 + b"1" + b"}" * 500,
        "é".encode("latin-1"),
        '{"format": 2}'.encode("utf-16"),
        b"\xef\xbb\xbf{}",
        b"[" + b"[]," * 3_000_000 + b"[]]",
    ],
    ids=lambda data: repr(data[:16]),
)
def test_hostile_json(tmp_path: Path, data: bytes) -> None:
    files = {**MADE.files(), f"{MADE.folder}/patchset.json": data}
    report = verify(mv.write_zip(tmp_path / MADE.filename, mv.with_right_record(files, f"{MADE.folder}/RECORD")))
    assert (told(report), report.exit_code) == ({("record", "patchset.json")}, 26)


@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", "vllm/../../x", "vllm//x", "vllm\\x", "C:x", "./x", "vllm/\x1b[2J", "x" * 2000]
)
def test_a_member_that_could_leave_the_folder(tmp_path: Path, name: str) -> None:
    report = verify(mv.write_zip(tmp_path / MADE.filename, {**MADE.files(), name: b""}))
    assert (kinds(report), report.exit_code) == ({"unsafe"}, 33)


def test_doubles_links_and_clashes(tmp_path: Path) -> None:
    path = tmp_path / MADE.filename
    link = zipfile.ZipInfo("vllm/x")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    for name, data in [(link, b"/etc/passwd"), ("vllm/a.py", b""), ("vllm/a.py/b", b"")]:
        mv.write_zip(path, MADE.files())
        with zipfile.ZipFile(path, "a") as archive:
            if name == "vllm/a.py":
                with pytest.warns(UserWarning, match="Duplicate"):
                    archive.writestr(name, data)
            else:
                archive.writestr(name, data)
        report = verify(path)
        assert (kinds(report), report.exit_code) == ({"unsafe"}, 33)


def test_bombs(tmp_path: Path) -> None:
    path = MADE.with_member("vllm/zeros", bytes(1024**2)).write(tmp_path)
    data = path.read_bytes()
    for claimed in (2**31 + 1, 2**32 - 2):
        path.write_bytes(data.replace((1024**2).to_bytes(4, "little"), claimed.to_bytes(4, "little")))
        report = verify(path)
        assert (kinds(report), report.exit_code) == ({"unsafe"}, 33)


def test_a_member_that_says_less_than_it_unpacks_to(tmp_path: Path) -> None:
    path = MADE.with_member("vllm/zeros", bytes(10 * 1024**2)).write(tmp_path)
    size = (10 * 1024**2).to_bytes(4, "little")
    data = path.read_bytes()
    assert data.count(size) >= 2
    path.write_bytes(data.replace(size, (1000).to_bytes(4, "little")))
    assert ("changed", "vllm/zeros") in told(verify(path))


@pytest.mark.parametrize(("members", "said"), [(1_000_000, 10), (50_001, 50_001), (1_000_000, 0xFFFF)])
def test_too_many_members(tmp_path: Path, members: int, said: int) -> None:
    directory = (b"PK\1\2" + bytes(24) + b"\1" + bytes(17) + b"x") * members
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, said, said, len(directory), 0, 0)
    path = tmp_path / MADE.filename
    path.write_bytes(directory + end)
    report = verify(path)
    assert (kinds(report), report.exit_code) == ({"unsafe"}, 33)


def test_the_64_bit_format(tmp_path: Path) -> None:
    path = MADE.write(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:-22] + b"PK\6\7" + bytes(16) + data[-22:])
    assert kinds(verify(path)) == {"unsafe"}


def test_something_before_or_behind(tmp_path: Path) -> None:
    path = MADE.write(tmp_path)
    sound = path.read_bytes()
    path.write_bytes(b"#!/bin/sh\n" + sound)
    assert kinds(verify(path)) == {"unsafe"}
    path.write_bytes(sound + b"x")
    with pytest.raises(Unusable, match="end record"):
        verify(path)


@pytest.mark.parametrize("data", [b"", b"x", b"PK\5\6" + bytes(18), bytes(100)])
def test_no_zip_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / MADE.filename
    path.write_bytes(data)
    try:
        assert verify(path).exit_code
    except Unusable as error:
        assert error.where == str(path)
        assert error.next
