"""A series as a repository a person can look at: one commit a patch, on a branch of its own. Never over changes."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

from patchset.errors import StoreError, WorktreeError
from patchset.store import Store
from patchset.workspace import free_megabytes, make_folder

#: Megabytes that a checkout takes while it is made: its files, and their objects twice.
_NEEDED = 300


def write_checkout(store: Store, commit: str, directory: Path) -> str:
    """Put *commit* and its history into *directory* as a git repository of its own; 'made', 'moved' or 'unchanged'.

    A directory that is missing or empty gets one, whole or not at all. One that this made earlier is moved to
    *commit* if nothing in it was touched and nothing committed on top.

    :raises WorktreeError: the directory holds anything else, or cannot be made: no room, or no right.
    """
    directory = directory.absolute()
    if directory.is_dir() and not directory.is_symlink() and any(directory.iterdir()):
        return _move(store, commit, directory)
    if os.path.lexists(directory) and (directory.is_symlink() or not directory.is_dir()):
        raise WorktreeError(
            "not a directory", where=str(directory), next="name a directory that is empty or not there yet"
        )
    fresh = None
    try:
        make_folder(directory.parent)
        fresh = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
        os.chmod(fresh, 0o755)
        store.make_checkout(fresh, commit)
        os.rename(fresh, directory)  # replaces an empty directory, and fails on any other
    except (StoreError, OSError) as error:
        _explain(error, directory)
        raise
    finally:
        if fresh:
            shutil.rmtree(fresh, ignore_errors=True)
    return "made"


def _explain(error: StoreError | OSError, directory: Path) -> None:
    """Why no checkout could be made at *directory*, where that is no fault of the store.

    :raises WorktreeError: no room, no right, or something came there meanwhile.
    """
    free = free_megabytes(directory.parent)
    if isinstance(error, StoreError) and free >= _NEEDED:
        return
    what = error.what if isinstance(error, StoreError) else str(error.strerror or error)
    taken = getattr(error, "errno", None) in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
    raise WorktreeError(
        f"the checkout cannot be written there: {what}",
        where=str(directory),
        detail=getattr(error, "detail", ""),
        next="name a directory that is empty or not there yet"
        if taken
        else f"check room ({free} MB are free, {_NEEDED} needed) and rights there; or name another directory",
    ) from error


def _move(store: Store, commit: str, directory: Path) -> str:
    made = store.made_checkout(directory)
    if made is None:
        raise WorktreeError(
            "the directory is not empty, and no checkout of this tool",
            where=str(directory),
            next="name a directory that is empty or not there yet",
        )
    branch, head, changes = store.checkout_state(directory)
    if branch != "refs/heads/patchset":
        raise WorktreeError(
            f"{branch.removeprefix('refs/heads/') or 'no branch'} is checked out there, not the branch patchset",
            where=str(directory),
            next=f"git -C {directory} switch patchset, or name another directory",
        )
    if changes:
        raise WorktreeError(
            f"{len(changes)} files there have changes or are new, the first is {changes[0]}",
            where=str(directory),
            next="commit them to a branch of yours and switch back, or name another directory",
        )
    if head != made:
        raise WorktreeError(
            f"HEAD is at {head[:12]}, not at {made[:12]} where this tool left it",
            where=str(directory),
            next=f"./inv export --from {directory} writes your commits back into their patches; to leave them, "
            f"git -C {directory} branch yours, then git -C {directory} reset --hard {made[:12]}; or name another directory",
        )
    if head == commit:
        return "unchanged"
    store.move_checkout(directory, commit)
    return "moved"
