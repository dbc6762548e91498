"""A wheel's archive, read with bounds: hashes of its members, and the bytes of those in ``.dist-info``.

Facts: PKWARE's APPNOTE 6.3.10, sections 4.3.7 (a member's own header), 4.3.16 (end record) and 4.3.14-15 (the 64-bit format,
which no vLLM wheel for XPU needs); Info-ZIP's extra field 0x7075 gives a member another name in some readers; what is said
here of :mod:`zipfile` is so in Python 3.10 to 3.13.
"""

from __future__ import annotations

import hashlib
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .bounded import MOST_TEXT, Held, Unread, held_stream, is_plain_path, opened
from .generated import MOST_VERSION, VERSION_FILE
from .model import Finding, Kind, Unusable, few

#: vLLM's largest wheel for XPU has some 4,000 members and unpacks to 70 MB.
MOST_MEMBERS = 50_000
MOST_UNPACKED = 2 * 1024**3

_MOST_DIRECTORY = MOST_MEMBERS * 256
_END = struct.Struct("<4s4H2LH")
_LOCATOR_SIZE = 20
#: A member's own header: mark, version needed, flags, method, time and date, CRC, packed, unpacked, length of name and extra.
_LOCAL = struct.Struct("<4s3H4x3L2H")
_UTF8 = 0x800
_ENCRYPTED = 0x1
#: What :mod:`zipfile` raises on a file that is none, or is damaged.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    struct.error,
)
_AGAIN = "do not install it; copy it again from where it was made, or make it again with ./inv runtime"


@dataclass(frozen=True)
class Archive:
    """What is in a wheel.

    ``held``: member → hashes. ``info``: name in ``.dist-info`` → bytes. ``damaged``: member → why it cannot be unpacked.
    ``version_file``: the first bytes of ``vllm/_version.py``, one more than it may have; None if it is not there or damaged.
    ``unsafe``: findings that forbid to look any further; then the rest is empty.
    """

    path: Path
    sha256: str
    size: int
    held: Mapping[str, Held]
    info: Mapping[str, bytes]
    dist_info: str
    damaged: Mapping[str, str]
    unsafe: tuple[Finding, ...] = ()
    version_file: bytes | None = None


def read_archive(path: Path) -> Archive:
    """Read the wheel *path*; nothing of it is unpacked to disk.

    :raises Unusable: it cannot be read as a zip file.
    """
    try:
        with opened(path) as (stream, size):
            if size > MOST_UNPACKED:
                raise Unusable(f"the wheel has more than {MOST_UNPACKED} bytes", where=str(path), next=_AGAIN)
            sha256 = held_stream(stream, size).sha256
            unsafe = _end_faults(stream, size)
            if unsafe:
                return Archive(path, sha256, size, {}, {}, "", {}, few(_unsafe("", what) for what in unsafe))
            with zipfile.ZipFile(stream) as archive:
                unsafe = few(_unsafe(name, what) for name, what in _unsafe_members(archive.infolist()))
                unsafe = unsafe or few(_unsafe(name, what) for name, what in _header_faults(archive, stream))
                if unsafe:
                    return Archive(path, sha256, size, {}, {}, "", {}, unsafe)
                return _members(archive, path, sha256, size)
    except Unread as error:
        raise Unusable(
            f"the wheel cannot be read: {error}", where=str(path), next="name a wheel that is there"
        ) from error
    except DAMAGE as error:
        raise Unusable(f"the wheel cannot be read as a zip file: {error}", where=str(path), next=_AGAIN) from error


def _members(archive: zipfile.ZipFile, path: Path, sha256: str, size: int) -> Archive:
    files = [info for info in archive.infolist() if not info.is_dir()]
    folders = sorted({_top(info.filename) for info in files if _top(info.filename).endswith(".dist-info")})
    dist_info = folders[0] if len(folders) == 1 else ""
    held: dict[str, Held] = {}
    texts: dict[str, bytes] = {}
    damaged: dict[str, str] = {}
    version_file = None
    for info in files:
        try:
            if dist_info and info.filename.startswith(f"{dist_info}/"):
                data = _text(archive, info)
                texts[info.filename.removeprefix(f"{dist_info}/")] = data
                held[info.filename] = Held(len(data), hashlib.sha256(data).hexdigest(), "")
            else:
                with archive.open(info) as stream:
                    held[info.filename] = held_stream(stream, info.file_size)
                if info.filename == VERSION_FILE:
                    with archive.open(info) as stream:
                        version_file = stream.read(MOST_VERSION + 1)
        except Unread as error:
            damaged[info.filename] = str(error)
        except DAMAGE as error:
            damaged[info.filename] = str(error) or type(error).__name__
    return Archive(path, sha256, size, held, texts, dist_info, damaged, version_file=version_file)


def _end_faults(stream: IO[bytes], size: int) -> list[str]:
    """What is wrong with the end record, before :mod:`zipfile` reads a whole directory on its word."""
    if size < _END.size:
        raise zipfile.BadZipFile("it is too short")
    stream.seek(max(size - _END.size - _LOCATOR_SIZE, 0))
    tail = stream.read(_END.size + _LOCATOR_SIZE)
    mark, disk, first, here, members, directory, offset, comment = _END.unpack(tail[-_END.size :])
    if mark != b"PK\5\6":
        raise zipfile.BadZipFile("it has no end record, or something stands behind it")
    if tail[:4] == b"PK\6\7" and len(tail) == _END.size + _LOCATOR_SIZE:
        return ["the archive is in the 64-bit format, which hides how much is in it and which no vLLM wheel needs"]
    if members > MOST_MEMBERS or directory > _MOST_DIRECTORY:
        return [f"the archive has over {MOST_MEMBERS} members"]
    if comment or disk or first or here != members or offset + directory + _END.size != size:
        return ["the archive has something before, behind or between its members and its directory"]
    return []


def _unsafe_members(infos: Sequence[zipfile.ZipInfo]) -> Iterable[tuple[str, str]]:
    if len(infos) > MOST_MEMBERS:
        yield "", f"the archive has over {MOST_MEMBERS} members"
        return
    if sum(info.file_size for info in infos) > MOST_UNPACKED:
        yield "", f"the archive unpacks to over {MOST_UNPACKED} bytes"
    seen: set[str] = set()
    for info in infos:
        name = info.filename.removesuffix("/")
        if not is_plain_path(name) or info.orig_filename != info.filename:
            yield info.orig_filename, "the name of this member is not a plain relative path"
        if name in seen:
            yield name, "this member is there twice"
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            yield name, "this member is a link or a device"
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & _ENCRYPTED:
            yield name, "this member is packed in a way that no wheel is"
        if info.extra:
            yield name, "this member has an extra field, which can give it another name, and which no wheel of ours has"
        seen.add(name)
    folders = {name[:end] for name in seen for end in _slashes(name)}
    for info in infos:
        if not info.is_dir() and info.filename in folders:
            yield info.filename, "this member is a file and a folder"


def _header_faults(archive: zipfile.ZipFile, stream: IO[bytes]) -> Iterable[tuple[str, str]]:
    """Members whose own header is not as the directory says, or that do not follow one another without a gap.

    Some readers go by the headers alone: they must find what was verified here, and nothing else.
    """
    place = 0
    for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
        name = info.filename.removesuffix("/")
        if info.header_offset != place:
            yield name, "the archive has something before or between its members, or two share their bytes"
            return
        stream.seek(place)
        head = stream.read(_LOCAL.size)
        if len(head) < _LOCAL.size:
            yield name, "this member has no header of its own"
            return
        mark, _, flags, method, *numbers, length, extra = _LOCAL.unpack(head)
        spelled = stream.read(length).decode("utf-8" if flags & _UTF8 else "cp437", "replace")
        said = (mark, flags, method, numbers, spelled, extra)
        sizes = [info.CRC, info.compress_size, info.file_size]
        if said != (b"PK\3\4", info.flag_bits, info.compress_type, sizes, info.orig_filename, 0):
            yield name, "this member's own header says something else than the directory of the archive"
        place += _LOCAL.size + length + extra + info.compress_size
    if place != archive.start_dir:
        yield "", "the archive has something between its members and its directory"


def _slashes(name: str) -> list[int]:
    return [position for position, character in enumerate(name) if character == "/"]


def _text(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.file_size > MOST_TEXT:
        raise Unread(f"it has more than {MOST_TEXT} bytes")
    return archive.read(info)


def _top(name: str) -> str:
    return name.partition("/")[0]


def _unsafe(path: str, what: str) -> Finding:
    return Finding(Kind.UNSAFE, path, what, _AGAIN)
