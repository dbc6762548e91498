"""Several files changed together: all of them or none, whatever ends the run in between.

The new contents are staged in a journal and synced; one rename makes the journal ready; then each file is renamed into
place. A journal that is ready is finished by the next run, one that is not is thrown away.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from patchset.errors import PatchsetError
from patchset.workspace import make_folder, write_atomically

_LIST = "list.json"
_STAGING = ".staging"

#: Bytes that a file takes on a disk are a multiple of this.
_BLOCK = 4096


@dataclass(frozen=True)
class Change:
    """What *path* shall hold; None: it shall not be there."""

    path: Path
    data: bytes | None

    def is_one(self) -> bool:
        """Does *path* not hold that already?"""
        return _content(self.path) != self.data


def commit_changes(changes: Sequence[Change], journal: Path) -> tuple[Path, ...]:
    """Make all *changes* or none, and return the paths that were not so already.

    :param journal: a path where nothing is; gone afterwards. After a run that was killed, :func:`finish_changes` ends
        what it began.
    :raises PatchsetError: one path is named twice, or something that is no folder is where one must be.
    :raises OSError: no room or no right; then nothing was changed.
    """
    finish_changes(journal)
    if len({change.path.absolute() for change in changes}) != len(changes):
        raise PatchsetError(
            "one file would be changed twice", where=str(journal), next="report it: a fault of this tool"
        )
    needed = [change for change in changes if change.is_one()]
    if not needed:
        return ()
    room = sum(_BLOCK + len(change.data or b"") for change in needed)
    require_writable((change.path.parent for change in needed), room)
    staging = journal.with_name(journal.name + _STAGING)
    shutil.rmtree(staging, ignore_errors=True)
    make_folder(staging)
    try:
        listed = []
        for number, change in enumerate(needed):
            if change.data is not None:
                # fails on a full disk, or where the folder cannot be made, before anything is in place
                write_atomically(staging / str(number), change.data)
            listed.append([str(change.path.absolute()), None if change.data is None else str(number)])
        write_atomically(staging / _LIST, json.dumps(listed).encode())
        os.rename(staging, journal)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    finish_changes(journal)
    return tuple(change.path for change in needed)


def finish_changes(journal: Path) -> tuple[Path, ...]:
    """End what a killed run began: a ready journal is carried out, an unready one removed. The paths that it is about.

    :raises PatchsetError: the journal is damaged.
    """
    shutil.rmtree(journal.with_name(journal.name + _STAGING), ignore_errors=True)
    if not journal.is_dir():
        return ()
    try:
        listed = [(Path(path), name and str(name)) for path, name in json.loads((journal / _LIST).read_bytes())]
    except (OSError, ValueError, TypeError) as error:
        raise PatchsetError(
            f"the journal of a change that was interrupted cannot be read: {error}",
            where=str(journal / _LIST),
            next=f"look at {journal}: its files are the new contents; move it away, and check git status",
        ) from error
    for path, name in listed:
        if name is None:
            path.unlink(missing_ok=True)
        elif (journal / name).exists():  # else it is in place already
            path.parent.mkdir(parents=True, exist_ok=True)
            _move(journal / name, path)
    for path, name in listed:
        if name is None:
            _remove_empty(path.parent)
    # one rename, so that a run killed while it deletes leaves nothing that looks like a journal
    done = journal.with_name(journal.name + _STAGING)
    os.rename(journal, done)
    shutil.rmtree(done, ignore_errors=True)
    return tuple(path for path, _ in listed)


def require_writable(folders: Iterable[Path], room: int = 0) -> None:
    """Files of *room* bytes together can be made in each of *folders*, or in what is there of the way to it.

    A journal that is ready is carried out by whatever runs next, so what is missing must show before it is. On the journal's
    own disk moving a file there needs no room; on another it does.

    :raises OSError: in one they cannot, with its path.
    """
    for folder in dict.fromkeys(next(place for place in (f, *f.parents) if place.exists()) for f in folders):
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                if room:
                    os.posix_fallocate(file.fileno(), 0, room)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(folder)) from error


def free_name(wanted: str, taken: Callable[[str], bool], suffix: str = "") -> str:
    """*wanted*, or *wanted* with a number behind it, with *suffix*: the first such name that is not *taken*."""
    names = chain([wanted], (f"{wanted}-{number}" for number in count(2)))
    return next(name for name in (f"{stem}{suffix}" for stem in names) if not taken(name))


def _move(source: Path, target: Path) -> None:
    """Put the file *source* in the place of *target* in one step, also from another file system."""
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        write_atomically(target, source.read_bytes())
        source.unlink()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _remove_empty(folder: Path) -> None:
    """Folders that deletions left empty go, as git has none."""
    while folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
