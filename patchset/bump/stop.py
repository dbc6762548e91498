"""A conflict laid out for a person, and the checkout cleared away again."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from patchset.bases import Bases
from patchset.bump.carry import Clash
from patchset.changes import free_name
from patchset.console import Console
from patchset.errors import StoreError, WorktreeError
from patchset.patch import Patch
from patchset.placing import lines_of
from patchset.store import Entry, Store
from patchset.workspace import free_megabytes, make_folder

_NAMED = re.compile(rb"(<{7}|\|{7}|>{7}) [0-9a-f]{7,40}(?::.*)?(\r?\n?)", re.DOTALL)
_SIDES = (b"<<<<<<<", b"|||||||", b">>>>>>>")


@contextmanager
def laid_out(
    store: Store,
    bases: Bases,
    release: str,
    carried: Sequence[tuple[Patch, str]],
    clash: Clash,
    patch: Patch,
    directory: Path,
) -> Iterator[str]:
    """Lay *clash* out in *directory*, which is not there yet, and give the tree that it then holds.

    It is made beside it, and put there with one rename when the block ends well: what must be remembered about it is
    remembered first. If that fails, nothing is left of it.

    It is a git repository with a commit for each of *carried* (patch, tree after it), and the three
    sides of each file in the index: `git status`, `git mergetool` and `git checkout --ours` work.

    :raises WorktreeError: it cannot be made: no room, or no right.
    """
    commit = bases.commit(release)
    for earlier, tree in carried:
        commit = store.commit(tree, (commit,), f"{earlier.title}\n\nPatch: {earlier.id}", earlier.date)
    if clash.ours != (carried[-1][1] if carried else bases.tree(release)):
        commit = store.commit(clash.ours, (commit,), f"Donor files\n\nPatch: {patch.id}", patch.date)
    names = (f"vLLM {release} with the series so far", f"common base: vLLM {clash.source}", f"patch {patch.id}")
    files: dict[str, Entry | None] = {}
    for path in clash.merged.conflicts:
        entry = store.entry(clash.attempt, path)
        if entry is not None:
            files[path] = Entry(entry.mode, store.write_blob(_named(store.blob(entry.blob), names)))
    written = store.with_files(clash.attempt, files)
    fresh = _aside(directory)
    try:
        try:
            make_folder(fresh)
            store.make_conflict(fresh, commit, clash.attempt, clash.merged.stages, written)
        except (StoreError, OSError) as error:
            raise WorktreeError(
                f"the checkout with the conflict of {patch.id} cannot be laid out: {getattr(error, 'what', error)}",
                where=str(directory),
                detail=getattr(error, "detail", ""),
                next=f"check room ({free_megabytes(directory)} MB are free) and rights there, then run again "
                "(--continue, where ./inv bump --status says that one is under way)",
            ) from error
        yield written
        os.rename(fresh, directory)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def put_aside(store: Store, directory: Path, known: Collection[str], console: Console) -> None:
    """Remove the checkout at *directory* if it holds one of the trees *known*; else it is a person's: renamed, and said."""
    if not os.path.lexists(directory):
        return
    if not _holds(store, directory, known):
        aside = _free(directory.with_name(f"{directory.name}.aborted-{time.strftime('%Y%m%dT%H%M%S')}"))
        os.rename(directory, aside)
        console.say(f"  the checkout has changes of yours, and is kept: {aside}")
        return
    doomed = _aside(directory)
    os.rename(directory, doomed)  # so that a run killed here leaves none that looks whole
    shutil.rmtree(doomed)


def sweep(work: Path) -> None:
    """Remove what a killed run left half made or half removed below *work*."""
    for left in work.glob(".bump-*"):
        shutil.rmtree(left, ignore_errors=True)


def _holds(store: Store, directory: Path, known: Collection[str]) -> bool:
    if directory.is_symlink() or not (directory / ".git").is_dir() or not known:
        return False
    try:
        others = [*store.not_added(directory), *store.not_added(directory, ignored=True)]
        if any(_is_theirs(path) for path in others) or store.worktree_tree(directory) not in known:
            return False
        # A branch or a stash of theirs may hold what the files do not.
        return all(tree in known for tree in store.only_there(directory))
    except (StoreError, OSError):
        return False  # whatever it is now, it is not what was made


def _is_theirs(path: str) -> bool:
    """Is a file that git does not track worth keeping? Backups of `git mergetool` and compiled Python are not."""
    return not path.endswith((".orig", ".pyc"))


def _aside(directory: Path) -> Path:
    """A hidden place beside *directory*, where nothing is: see :func:`sweep`."""
    return _free(directory.with_name(f".{directory.name}-{os.getpid()}"))


def _free(wanted: Path) -> Path:
    return wanted.with_name(free_name(wanted.name, lambda name: os.path.lexists(wanted.with_name(name))))


def _named(data: bytes, names: Sequence[str]) -> bytes:
    """*data* with the sides of its conflict markers named for a person."""
    out = []
    for line in lines_of(data):
        found = _NAMED.fullmatch(line)
        out.append(
            found.group(1) + b" " + names[_SIDES.index(found.group(1))].encode() + found.group(2) if found else line
        )
    return b"".join(out)
