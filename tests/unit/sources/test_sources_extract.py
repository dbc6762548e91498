from __future__ import annotations

import gzip
import io
import os
import random
import struct
import tarfile
from pathlib import Path

import pytest

from patchset.errors import SourceError
from patchset.sources.extract import Limits, extract


def member(
    name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, **more: object
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def packed(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=form) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, kind=tarfile.SYMTYPE, linkname=target)


def hard(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, kind=tarfile.LNKTYPE, linkname=target)


def raw_header(name: bytes, size: int, kind: bytes) -> bytes:
    head = struct.pack(
        "100s8s8s8s12s12s8s1s100s8s32s32s8s8s155s12x",
        name,
        b"0000644\0",
        b"0000000\0",
        b"0000000\0",
        b"%011o\0" % size,
        b"00000000000\0",
        b" " * 8,
        kind,
        b"",
        b"ustar\x0000",
        b"",
        b"",
        b"",
        b"",
        b"",
    )
    return head[:148] + b"%06o\0 " % sum(head) + head[156:]


GOOD = member("t/good.py", b"x = 1\n")
CUT = packed(GOOD, member("t/long", random.Random(1).randbytes(100_000)))
UNZIPPED = gzip.decompress(packed(GOOD, GOOD))

HOSTILE = {
    "absolute": (packed(GOOD, member("/t/x")), "absolute"),
    "absolute link": (packed(GOOD, link("t/l", "/etc/passwd")), "leaves the archive"),
    "up": (packed(GOOD, member("t/../../x")), "component '..'"),
    "up at the start": (packed(GOOD, member("../x")), "component '..'"),
    "dot": (packed(GOOD, member("t/./x")), "component '.'"),
    "empty component": (packed(GOOD, member("t//x")), "component ''"),
    "link out": (packed(GOOD, link("t/l", "../x")), "leaves the archive"),
    "link to the top's parent": (packed(GOOD, link("t/l", "..")), "leaves the archive"),
    "link out from below": (packed(GOOD, link("t/a/l", "../../x")), "leaves the archive"),
    "link out by a detour": (packed(GOOD, link("t/l", "a/../../x")), "shortest"),
    "empty link": (packed(GOOD, link("t/l", "")), "leaves the archive"),
    "link out through a link": (packed(GOOD, link("t/a/b/up", "../.."), link("t/l", "a/b/up/x")), "through the link"),
    "links in a circle": (packed(GOOD, link("t/a", "b"), link("t/b", "a")), "through the link"),
    "write through a link": (packed(GOOD, link("t/l", "a"), member("t/l/x", b"1")), "written through the link"),
    "link over a directory": (packed(GOOD, member("t/d/x"), link("t/d", "e")), "a directory and something else"),
    "file over a link": (packed(GOOD, link("t/l", "good.py"), member("t/l", b"1")), "there twice"),
    "hard link out": (packed(GOOD, hard("t/h", "../../etc/passwd")), "no earlier file"),
    "hard link absolute": (packed(GOOD, hard("t/h", "/etc/passwd")), "no earlier file"),
    "hard link to a link": (packed(GOOD, link("t/l", "good.py"), hard("t/h", "t/l")), "no earlier file"),
    "hard link to a later file": (packed(GOOD, hard("t/h", "t/later"), member("t/later")), "no earlier file"),
    "character device": (packed(GOOD, member("t/d", kind=tarfile.CHRTYPE)), "character device"),
    "block device": (packed(GOOD, member("t/d", kind=tarfile.BLKTYPE)), "block device"),
    "pipe": (packed(GOOD, member("t/d", kind=tarfile.FIFOTYPE)), "named pipe"),
    "contiguous": (packed(GOOD, member("t/d", kind=tarfile.CONTTYPE)), "contiguous"),
    "unknown type": (packed(GOOD, member("t/d", kind=b"Z")), "unknown type"),
    "sparse by header": (
        packed(GOOD, member("t/s", pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": "9"})),
        "sparse",
    ),
    "twice": (packed(GOOD, GOOD), "there twice"),
    "directory twice": (
        packed(GOOD, member("t/d", kind=tarfile.DIRTYPE), member("t/d", kind=tarfile.DIRTYPE)),
        "there twice",
    ),
    "file and directory": (packed(GOOD, member("t/a"), member("t/a/b")), "below 't/a', which is a file"),
    "directory and file": (packed(GOOD, member("t/a/b"), member("t/a")), "a directory and something else"),
    ".git": (packed(GOOD, member("t/.git/config")), "git's own"),
    ".GIT": (packed(GOOD, member("t/a/.GIT/hooks/x")), "git's own"),
    ".git.": (packed(GOOD, member("t/.git. /x")), "git's own"),
    "git~1": (packed(GOOD, member("t/GIT~1/x")), "git's own"),
    "newline": (packed(GOOD, member("t/a\nb")), "control character"),
    "escape": (packed(GOOD, member("t/a\x1b[2J")), "control character"),
    "escape in a target": (packed(GOOD, link("t/l", "a\x1b")), "control character"),
    "not UTF-8": (packed(GOOD, member("t/\udcff"), form=tarfile.GNU_FORMAT), "not UTF-8"),
    "backslash": (packed(GOOD, member("t/..\\..\\x")), "backslash"),
    "two tops": (packed(GOOD, member("u/x")), "more than one top-level"),
    "no top": (packed(GOOD, member("x")), "not in a top-level"),
    "top is a file": (packed(member("t", b"1"), GOOD), "not in a top-level"),
    "top is a link": (packed(link("t", "/tmp"), GOOD), "not in a top-level"),
    "too many": (packed(*[member(f"t/{n}") for n in range(60)]), "more than 50 members"),
    "file too big": (packed(GOOD, member("t/a", bytes(30_001))), "the bound is 30000"),
    "too big in all": (packed(*[member(f"t/{n}", bytes(25_000)) for n in range(5)]), "more than 100000 bytes"),
    "too big by hard links": (
        packed(member("t/a", bytes(25_000)), *[hard(f"t/{n}", "t/a") for n in range(4)]),
        "more than 100000 bytes",
    ),
    "long name": (packed(GOOD, member("t/" + "n" * 300)), "component longer"),
    "long path": (packed(GOOD, member("t/" + "n/" * 600)), "longer than 1024"),
    "header bomb": (
        gzip.compress(raw_header(b"x", 3_000_000, b"x") + bytes(3_000_320) + raw_header(b"t/a", 0, b"0") + bytes(1024)),
        "headers are bigger",
    ),
    "directory with content": (
        gzip.compress(raw_header(b"t/d/", 512, b"5") + bytes(512) + bytes(1024)),
        "with content",
    ),
    "no gzip": (b"x" * 5000, "damaged"),
    "nothing": (b"", "damaged"),
    "no member": (packed(), "damaged"),
    "cut in the gzip": (CUT[:-3000], "damaged"),
    "cut before the end mark": (gzip.compress(UNZIPPED[:1024]), "bad header"),
    "bad header in the middle": (gzip.compress(UNZIPPED[:1024] + b"\xff" * 512 + bytes(1024)), "bad header"),
    "bad checksum": (CUT[:-8] + b"\0\0\0\0" + CUT[-4:], "damaged"),
    "more after the end": (gzip.compress(UNZIPPED[:1024] + bytes(1024) + UNZIPPED[:1024]), "after its end"),
}
LIMITS = Limits(total_bytes=100_000, file_bytes=30_000, members=50)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_leave_nothing(tmp_path: Path, name: str) -> None:
    data, said = HOSTILE[name]
    (tmp_path / "a.tar.gz").write_bytes(data)
    (tmp_path / "out").mkdir()
    limits = Limits() if name.startswith(("cut", "bad")) else LIMITS
    with pytest.raises(SourceError) as raised:
        extract(tmp_path / "a.tar.gz", tmp_path / "out", limits=limits)
    assert said in raised.value.what and raised.value.next and raised.value.where == str(tmp_path / "a.tar.gz")
    assert os.listdir(tmp_path / "out") == [] and sorted(os.listdir(tmp_path)) == ["a.tar.gz", "out"]


def test_a_bomb_stops_at_the_bound(tmp_path: Path) -> None:
    # 128 MiB, packed to half a megabyte: turned away by its header, before any of it is written.
    with gzip.open(tmp_path / "a.tar.gz", "wb", compresslevel=1) as out:
        out.write(raw_header(b"t/a", 1 << 27, b"0"))
        for _ in range(128):
            out.write(bytes(1 << 20))
    (tmp_path / "out").mkdir()
    with pytest.raises(SourceError, match="the bound is 30000"):
        extract(tmp_path / "a.tar.gz", tmp_path / "out", limits=LIMITS)
    assert os.listdir(tmp_path / "out") == []


def test_what_is_right_comes_out_right(tmp_path: Path) -> None:
    long = "t/" + "d" * 120 + "/" + "e" * 120 + ".py"
    data = packed(
        member("t", kind=tarfile.DIRTYPE, mode=0o700),
        member("t/run", b"#!", mode=0o4711),
        member("t/plain", b"1", mode=0o666),
        member("t/group", b"1", mode=0o654),
        member("t/Plain", b"2"),
        member("t/späße", b"3"),
        member(long, b"4"),
        member("t/sub/deep/x", b"5"),
        link("t/sub/deep/up", "../../plain"),
        link("t/dir", "sub/deep"),
        link("t/nowhere", "missing"),
        hard("t/again", "t/run"),
        member("t/empty", b""),
        member("t/sub", kind=tarfile.DIRTYPE),
    )
    (tmp_path / "a.tar.gz").write_bytes(data)
    (tmp_path / "out").mkdir()
    before = os.umask(0o077)
    try:
        root = extract(tmp_path / "a.tar.gz", tmp_path / "out")
    finally:
        os.umask(before)
    assert root == tmp_path / "out" / "t"

    def mode(name: str) -> int:
        return (root / name).stat().st_mode & 0o7777

    assert [mode(name) for name in ("run", "plain", "group", "again", ".", "sub/deep")] == [
        0o755,
        0o644,
        0o644,
        0o755,
        0o755,
        0o755,
    ]
    assert (root / "plain").read_bytes() == b"1" and (root / "Plain").read_bytes() == b"2"
    assert (root / "späße").read_bytes() == b"3" and (tmp_path / "out" / long).read_bytes() == b"4"
    assert os.readlink(root / "sub/deep/up") == "../../plain" and (root / "dir/x").read_bytes() == b"5"
    assert (root / "again").read_bytes() == b"#!" and (root / "again").stat().st_nlink == 1
    assert (root / "empty").read_bytes() == b"" and (root / "nowhere").is_symlink()


def test_the_destination_must_be_empty(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(packed(GOOD))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("kept")
    with pytest.raises(SourceError, match="not an empty directory"):
        extract(tmp_path / "a.tar.gz", tmp_path / "out")
    assert (tmp_path / "out" / "mine").read_text() == "kept"
