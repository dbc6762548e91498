"""A series as a repository a person can look at: one commit a patch, on a branch of its own. Never over changes."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from patchset.errors import WorktreeError
from patchset.store import Store


def write_checkout(store: Store, commit: str, directory: Path) -> str:
    """Put *commit* and its history into *directory* as a git repository of its own; 'made', 'moved' or 'unchanged'.

    A directory that is missing or empty gets one, whole or not at all. One that this made earlier is moved to
    *commit* if nothing in it was touched and nothing committed on top.

    :raises WorktreeError: the directory holds anything else.
    """
    directory = directory.absolute()
    if directory.is_dir() and not directory.is_symlink() and any(directory.iterdir()):
        return _move(store, commit, directory)
    if os.path.lexists(directory) and (directory.is_symlink() or not directory.is_dir()):
        raise WorktreeError(
            "not a directory", where=str(directory), next="name a directory that is empty or not there yet"
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        os.chmod(fresh, 0o755)
        store.make_checkout(fresh, commit)
        os.rename(fresh, directory)  # replaces an empty directory, and fails on any other
    except OSError as error:
        raise WorktreeError(
            f"cannot write there: {error.strerror}",
            where=str(directory),
            next="name a directory that is empty or not there yet",
        ) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return "made"


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
