"""Source archives on this machine: brought once, kept under their file name, and hashed before each use."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from patchset.errors import SourceError
from patchset.sources.index import Found, PipSettings, open_download

#: The biggest archive that is taken; releases have 30-50 MB.
SIZE_LIMIT = 512 * 1024 * 1024

#: Called with the bytes had so far and the bytes to come in all (None: the server does not say).
Progress = Callable[[int, "int | None"], None]

_FILENAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,199}\.(tar\.gz|whl)\Z")
_PART = ".part"


@dataclass(frozen=True)
class Archive:
    """A verified archive on disk. ``note`` says what a person should know about how it came (empty: nothing)."""

    path: Path
    filename: str
    sha256: str
    size: int
    note: str = ""


def fetch(
    filename: str,
    sha256: str | None,
    *,
    cache: Path,
    locate: Callable[[], Found],
    settings: PipSettings | None = None,
    progress: Progress | None = None,
    size_limit: int = SIZE_LIMIT,
) -> Archive:
    """The archive *filename* out of *cache*, brought there first if it is missing or not what it should be.

    With a known hash and the file in place nothing is asked of anybody. A cached file with another hash is never used;
    once the right one is here it is moved aside under a name that says so.

    :param sha256: what the lock says; None: whatever the index says (or, where it says nothing, what comes).
    :param locate: finds the file on an index; called only when that is needed.
    :raises SourceError: it cannot be had as asked. What was in *cache* before is then as it was.
    """
    if not _FILENAME.match(filename):
        raise SourceError(f"{filename!r} is no name for a source archive or wheel", next="check the lock and the index")
    path = cache / filename
    kept = _look(path)
    if kept and kept.sha256 == sha256:
        return kept
    try:
        found = locate()
        if sha256 and found.sha256 and found.sha256 != sha256:
            raise SourceError(
                f"the index lists {filename} with sha256 {found.sha256}; the lock says {sha256}",
                where=found.place,
                next="find out which of the two is the release, then lock again",
            )
        expected = sha256 or found.sha256
        if kept and kept.sha256 == expected:
            return kept
        cache.mkdir(parents=True, exist_ok=True)
        with _alone_in(cache):
            # Looked at again: the run that was waited for has most likely brought it.
            kept = _look(path)
            if kept and kept.sha256 == expected:
                return kept
            return _bring(found, path, expected, kept, settings, progress, size_limit)
    except SourceError as error:
        if kept and kept.sha256 != sha256 and sha256:
            error.detail = f"{path} is there, but with sha256 {kept.sha256}: changed, not used\n{error.detail}".strip()
        raise
    except OSError as error:
        raise SourceError(
            f"cannot write {filename}: {error.strerror or error}",
            where=str(cache),
            next="make room or set the permissions right, then run again",
        ) from error


def hash_file(path: Path) -> tuple[str, int]:
    """sha256 and size of a file."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as stream:
        while chunk := stream.read(1024 * 1024):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def _look(path: Path) -> Archive | None:
    try:
        sha256, size = hash_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(
            f"cannot read {path.name}: {error.strerror or error}",
            where=str(path.parent),
            next="set its permissions right, or move it away",
        ) from error
    return Archive(path, path.name, sha256, size)


def _bring(
    found: Found,
    path: Path,
    expected: str | None,
    changed: Archive | None,
    settings: PipSettings | None,
    progress: Progress | None,
    size_limit: int,
) -> Archive:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_PART, dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as sink:
            sha256, size = _stream(found, sink.write, settings, progress, size_limit)
            if expected and sha256 != expected:
                raise SourceError(
                    f"{path.name} arrived with sha256 {sha256} ({size} bytes); expected {expected}",
                    where=found.place,
                    next="run again; if it stays, the index or a proxy alters the file",
                )
            sink.flush()
            os.fchmod(sink.fileno(), 0o644)
            os.fsync(sink.fileno())
        note = ""
        if changed and changed.sha256 != sha256:
            aside = path.with_name(f"{path.name}.changed-{changed.sha256[:8]}")
            os.replace(path, aside)
            note = f"{path.name} in the cache had sha256 {changed.sha256}: moved to {aside.name} and brought again"
        os.replace(part, path)
        _sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)
    return Archive(path, path.name, sha256, size, note)


def _stream(
    found: Found,
    write: Callable[[bytes], object],
    settings: PipSettings | None,
    progress: Progress | None,
    size_limit: int,
) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with open_download(found.url, settings=settings) as download:
        if (download.length or 0) > size_limit:
            raise _too_big(found, size_limit)
        for chunk in download.chunks:
            size += len(chunk)
            if size > size_limit:
                raise _too_big(found, size_limit)
            digest.update(chunk)
            write(chunk)
            if progress:
                progress(size, download.length)
        if download.length is not None and size != download.length:
            raise SourceError(
                f"the download broke off after {size} of {download.length} bytes", where=found.place, next="run again"
            )
    return digest.hexdigest(), size


def _too_big(found: Found, size_limit: int) -> SourceError:
    return SourceError(
        f"{found.filename} is bigger than {size_limit} bytes",
        where=found.place,
        next="check the index: no source archive is that big",
    )


@contextlib.contextmanager
def _alone_in(cache: Path) -> Iterator[None]:
    """Only one run at a time brings files into *cache*; what a killed one left half done is removed.

    The folder itself is locked, so nothing is left behind, and the system lets go when a process dies.
    """
    folder = os.open(cache, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        for leftover in cache.glob(f".*{_PART}"):
            leftover.unlink(missing_ok=True)
        yield
    finally:
        os.close(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
