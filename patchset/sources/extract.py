"""Unpacking an archive that is not trusted: everything it asks for is checked before it is done.

:mod:`tarfile` parses; every rule is ours, since its extraction filters differ between the Pythons supported here.
Nothing is extracted by tarfile: regular files are written one by one, links are judged when all members are known and
made last, so that nothing can be written through one.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from patchset.errors import SourceError

_CHUNK = 256 * 1024
# Anything tarfile reads beyond file content is headers. Without a bound, a long-name or extended header of
# gigabytes would be read into memory whole before any rule here sees it.
_HEADER_LIMIT = 2 * 1024 * 1024
_REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE)
_KINDS = {
    tarfile.CHRTYPE: "a character device",
    tarfile.BLKTYPE: "a block device",
    tarfile.FIFOTYPE: "a named pipe",
    tarfile.CONTTYPE: "a contiguous file",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


@dataclass(frozen=True)
class Limits:
    """Bounds of an archive. They count what is really written, not what a header claims."""

    total_bytes: int = 2 * 1024 * 1024 * 1024
    file_bytes: int = 512 * 1024 * 1024
    members: int = 200_000
    path_bytes: int = 1024
    name_bytes: int = 255


@dataclass
class _Seen:
    """What the members so far amount to. Paths are relative to the destination, without a slash at either end."""

    files: set[str] = field(default_factory=set)
    directories: set[str] = field(default_factory=set)
    stated_directories: set[str] = field(default_factory=set)
    symlinks: dict[str, str] = field(default_factory=dict)
    written: int = 0
    members: int = 0


def extract(archive: Path, destination: Path, *, limits: Limits = Limits()) -> Path:
    """Unpack a ``.tar.gz`` into the empty directory *destination*, and return its one top-level directory.

    Files get mode 755 where the owner may execute them, else 644; directories 755. Owner and times are not taken over.
    Names that differ only by case are let through: they are two files here, as they are in git.

    :raises SourceError: the archive is damaged or breaks a rule. *destination* is then empty again.
    """
    if not destination.is_dir() or any(destination.iterdir()):
        raise SourceError(f"{destination} is not an empty directory", next="give an empty one")
    try:
        return _extract(archive, destination, limits)
    except BaseException as error:
        for left in destination.iterdir():
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
            else:
                left.unlink()
        if isinstance(error, _Broken):
            raise SourceError(
                f"the archive is damaged or not a .tar.gz: {error}",
                where=str(archive),
                next="remove it and run again, so that it is fetched anew",
            ) from error
        if isinstance(error, _Refused):
            raise SourceError(
                f"refused to unpack: {error}",
                where=str(archive),
                next="do not use this archive; check where it comes from",
            ) from error
        if isinstance(error, OSError):
            raise SourceError(
                f"cannot unpack: {error.strerror or error}", where=str(archive), next="make room, then run again"
            ) from error
        raise


class _Broken(Exception):
    pass


class _Refused(Exception):
    pass


class _StrictInfo(tarfile.TarInfo):
    """tarfile takes an unreadable header, or a missing end mark, for the end of the archive; here it is damage."""

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> Any:
        try:
            return super().fromtarfile(tar)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise _Broken(f"bad header at byte {tar.offset}: {error}") from error


class _Unpacked:
    """The bytes inside the gzip layer, with a bound on how many may be read before the next :meth:`allow`."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._gzip = gzip.GzipFile(fileobj=stream, mode="rb")
        self._left = _HEADER_LIMIT

    def allow(self, amount: int) -> None:
        self._left = amount + _HEADER_LIMIT

    def read(self, amount: int) -> bytes:
        try:
            data = self._gzip.read(min(amount, _CHUNK))
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise _Broken(str(error)) from error
        self._left -= len(data)
        if self._left < 0:
            raise _Refused(f"a member's headers are bigger than {_HEADER_LIMIT} bytes")
        return data


def _extract(archive: Path, destination: Path, limits: Limits) -> Path:
    seen = _Seen()
    with open(archive, "rb") as packed:
        unpacked = _Unpacked(packed)
        with _damage_named():
            with tarfile.open(fileobj=unpacked, mode="r|", tarinfo=_StrictInfo) as tar:  # type: ignore[call-overload]
                while (member := tar.next()) is not None:
                    seen.members += 1
                    if seen.members > limits.members:
                        raise _Refused(f"more than {limits.members} members")
                    path = _checked_path(member, limits, seen)
                    if member.isfile():
                        _check_size(member, limits, seen)
                        unpacked.allow(member.size)
                    _unpack_member(tar, member, path, destination, limits, seen)
                    unpacked.allow(0)
                _check_end(tar, unpacked)
    if not seen.files:
        raise _Broken("it holds no file")
    for path, target in sorted(seen.symlinks.items()):
        _check_symlink(path, target, seen)
        os.symlink(target, destination / path)
    return destination / next(iter(seen.directories)).split("/", 1)[0]


@contextlib.contextmanager
def _damage_named() -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, UnicodeError, ValueError, OverflowError) as error:
        raise _Broken(str(error)) from error


def _checked_path(member: tarfile.TarInfo, limits: Limits, seen: _Seen) -> str:
    """The member's path, after every rule that a name can break."""
    shown = repr(member.name[:200])
    name = member.name[:-1] if member.isdir() and member.name.endswith("/") else member.name
    if not (member.type in _REGULAR or member.isdir() or member.issym() or member.islnk()):
        raise _Refused(f"{shown} is {_KINDS.get(member.type, f'of the unknown type {member.type!r}')}")
    if member.sparse is not None or any(key.startswith("GNU.sparse") for key in member.pax_headers):
        raise _Refused(f"{shown} is a sparse file")
    if member.size and not member.isfile():
        # tarfile does not skip such content but reads it as headers; other programs skip it and see other members.
        raise _Refused(f"{shown} is a link or directory with content")
    _check_text(name, shown, limits)
    if name.startswith("/"):
        raise _Refused(f"{shown} is an absolute name")
    parts = name.split("/")
    for part in parts:
        if part in ("", ".", ".."):
            raise _Refused(f"{shown} has the component {part!r}")
        if len(os.fsencode(part)) > limits.name_bytes:
            raise _Refused(f"{shown[:80]}… has a component longer than {limits.name_bytes} bytes")
        # The second is how some file systems spell the first; git turns both away.
        if part.casefold().rstrip(". ") in (".git", "git~1"):
            raise _Refused(f"{shown} has the component {part!r}, which is git's own")
    if len(parts) == 1 and not member.isdir():
        raise _Refused(f"{shown} is not in a top-level directory")
    top = next(iter(seen.directories), parts[0]).split("/", 1)[0]
    if parts[0] != top:
        raise _Refused(f"more than one top-level directory: {top!r} and {parts[0]!r}")
    _check_collisions(name, member.isdir(), shown, seen)
    return name


def _check_text(name: str, shown: str, limits: Limits) -> None:
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        raise _Refused(f"{shown} has a control character")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in name):
        raise _Refused(f"{shown} is not UTF-8")
    if "\\" in name:
        raise _Refused(f"{shown} has a backslash")
    if len(name.encode()) > limits.path_bytes:
        raise _Refused(f"{shown[:80]}… is longer than {limits.path_bytes} bytes")


def _check_collisions(name: str, is_directory: bool, shown: str, seen: _Seen) -> None:
    if name in seen.files or name in seen.symlinks or name in seen.stated_directories:
        raise _Refused(f"{shown} is there twice")
    if not is_directory and name in seen.directories:
        raise _Refused(f"{shown} is a directory and something else")
    for parent in _parents(name):
        if parent in seen.symlinks:
            raise _Refused(f"{shown} would be written through the link {parent!r}")
        if parent in seen.files:
            raise _Refused(f"{shown} is below {parent!r}, which is a file")


def _parents(name: str) -> list[str]:
    return [str(parent) for parent in PurePosixPath(name).parents][:-1]


def _check_size(member: tarfile.TarInfo, limits: Limits, seen: _Seen) -> None:
    if member.size < 0 or member.size > limits.file_bytes:
        raise _Refused(f"{member.name!r} has {member.size} bytes; the bound is {limits.file_bytes}")
    if seen.written + member.size > limits.total_bytes:
        raise _Refused(f"more than {limits.total_bytes} bytes in all")


def _unpack_member(
    tar: tarfile.TarFile, member: tarfile.TarInfo, path: str, destination: Path, limits: Limits, seen: _Seen
) -> None:
    _make_directories([path, *_parents(path)] if member.isdir() else _parents(path), destination, seen)
    if member.isdir():
        seen.stated_directories.add(path)
    elif member.issym():
        _check_text(member.linkname, f"the target {member.linkname!r} of {path!r}", limits)
        seen.symlinks[path] = member.linkname
    elif member.islnk():
        source = member.linkname
        if source not in seen.files:
            raise _Refused(f"{path!r} is a hard link to {source!r}, which is no earlier file of the archive")
        size = os.stat(destination / source).st_size
        if seen.written + size > limits.total_bytes:
            raise _Refused(f"more than {limits.total_bytes} bytes in all")
        with open(destination / source, "rb") as content:
            _write(destination / path, os.stat(destination / source).st_mode, size, content.read)
        seen.written += size
        seen.files.add(path)
    else:
        data = tar.extractfile(member)
        assert data is not None  # by its type, checked above
        _write(destination / path, member.mode, member.size, data.read)
        seen.written += member.size
        seen.files.add(path)


def _make_directories(paths: list[str], destination: Path, seen: _Seen) -> None:
    for path in sorted(set(paths) - seen.directories, key=len):
        os.mkdir(destination / path)
        os.chmod(destination / path, 0o755)
        seen.directories.add(path)


def _write(path: Path, mode: int, size: int, read: Callable[[int], bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as sink:
        left = size
        while left:
            chunk = read(min(left, _CHUNK))
            if not chunk:
                raise _Broken(f"it ends in the middle of {path.name!r}")
            sink.write(chunk)
            left -= len(chunk)
        os.fchmod(sink.fileno(), 0o755 if mode & 0o100 else 0o644)


def _check_symlink(path: str, target: str, seen: _Seen) -> None:
    """Judge a link lexically. That is sound only where no other link is on the way, so those are turned away too."""
    shown = f"the link {path!r} → {target!r}"
    parts = target.split("/")
    if not target or target.startswith("/"):
        raise _Refused(f"{shown} leaves the archive")
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    if any(part in ("", ".", "..") for part in parts[ups:]):
        raise _Refused(f"{shown} is not written in the shortest way")
    home = path.split("/")[:-1]
    # The top-level directory is the tree; one more step up would leave it.
    if ups >= len(home):
        raise _Refused(f"{shown} leaves the archive")
    reached = "/".join([*home[: len(home) - ups], *parts[ups:]])
    for stop in [reached, *_parents(reached)]:
        if stop in seen.symlinks:
            raise _Refused(f"{shown} goes through the link {stop!r}")


def _check_end(tar: tarfile.TarFile, unpacked: _Unpacked) -> None:
    """Read to the end of the gzip layer, so that its checksum is verified; after the end mark only zeros may come."""
    while chunk := tar.fileobj.read(_CHUNK):
        unpacked.allow(0)
        if chunk.strip(b"\0"):
            raise _Broken("there is something after its end mark")
