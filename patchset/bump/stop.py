"""A conflict laid out for a person, and what they made of it."""

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
from patchset.bump.state import Waiting
from patchset.console import Console
from patchset.errors import StoreError, WorktreeError
from patchset.merging import marked_parts
from patchset.patch import Patch
from patchset.placing import lines_of
from patchset.store import Entry, Store

_MARKER = re.compile(rb"(?:<{7}|\|{7}|>{7})(?: .*)?\r?\n?", re.DOTALL)
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
    remembered first. It is a git repository with a commit for each of *carried* (patch, tree after it), and the three
    sides of each file in the index: `git status`, `git mergetool` and `git checkout --ours` work.
    """
    commit = bases.commit(release)
    for earlier, tree in carried:
        commit = store.commit(tree, (commit,), f"{earlier.title}\n\nPatch: {earlier.id}", earlier.date)
    if clash.ours != (carried[-1][1] if carried else bases.tree(release)):
        commit = store.commit(clash.ours, (commit,), f"Donor files\n\nPatch: {patch.id}", patch.date)
    names = (f"vLLM {release} with the series so far", f"common base: vLLM {clash.source}", f"patch {patch.id}")
    files: dict[str, Entry | None] = {}
    for path in clash.merged.conflicts:
        entry = store.entry(clash.merged.tree, path)
        if entry is not None:
            files[path] = Entry(entry.mode, store.write_blob(_named(store.blob(entry.blob), names)))
    written = store.with_files(clash.merged.tree, files)
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh = _aside(directory)
    try:
        fresh.mkdir()
        store.make_conflict(fresh, commit, clash.merged.tree, clash.merged.stages, written)
        yield written
        os.rename(fresh, directory)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def resolved_tree(store: Store, directory: Path, waiting: Waiting) -> str:
    """The tree that a person made of the conflict, staged or not.

    :raises WorktreeError: it is not all resolved, holds files that nobody added, or is no checkout any more.
    """
    try:
        tree = store.worktree_tree(directory)
        unmerged, new = store.unmerged(directory), store.not_added(directory)
        attempt = {path: store.read(waiting.attempt, path) or b"" for path in waiting.paths}
    except (StoreError, OSError) as error:
        raise WorktreeError(
            f"the checkout with the conflict cannot be read: {error}",
            where=str(directory),
            next="./inv bump --restart lays it out again; what is there now is kept beside it",
        ) from error
    left = [place for path in waiting.paths for place in _markers(directory, path, attempt[path])]
    if left:
        raise WorktreeError(
            f"{len(left)} conflict markers are left in {waiting.patch}, the first is at {left[0]}",
            where=str(directory / left[0]),
            detail="\n".join(left),
            next="resolve them, then ./inv bump --continue",
        )
    for path in waiting.paths:
        by_lines = any(not isinstance(part, bytes) for part in marked_parts(path, attempt[path]))
        if not by_lines and path in unmerged and store.entry(tree, path) == store.entry(waiting.written, path):
            raise WorktreeError(
                f"{path} cannot be merged by lines (one side deleted it, or it is no text), and nobody decided about it",
                where=str(directory / path),
                next=f"in {directory}: git add {path} keeps it as it is there, git rm {path} deletes it; "
                "then ./inv bump --continue",
            )
    strange = [path for path in new if path.removesuffix(".orig") not in waiting.paths]
    if strange:
        raise WorktreeError(
            f"{len(strange)} files are new there and were not added, the first is {strange[0]}",
            where=str(directory / strange[0]),
            detail="\n".join(strange),
            next="git add those that belong to the patch, delete the others; then ./inv bump --continue",
        )
    if tree == waiting.ours:
        raise WorktreeError(
            f"nothing is left of {waiting.patch}: the checkout holds the release as it was without it",
            where=str(directory),
            next='to leave the patch out, say so: ./inv bump --skip "REASON"',
        )
    return tree


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
        return not any(_is_theirs(path) for path in others) and store.worktree_tree(directory) in known
    except (StoreError, OSError):
        return False  # whatever it is now, it is not what was made


def _is_theirs(path: str) -> bool:
    """Is a file that git does not track worth keeping? Backups of `git mergetool` and compiled Python are not."""
    return not path.endswith((".orig", ".pyc"))


def _aside(directory: Path) -> Path:
    """A hidden place beside *directory*, where nothing is: see :func:`sweep`."""
    return _free(directory.with_name(f".{directory.name}-{os.getpid()}"))


def _free(wanted: Path) -> Path:
    number, path = 1, wanted
    while os.path.lexists(path):
        number += 1
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path


def _named(data: bytes, names: Sequence[str]) -> bytes:
    """*data* with the sides of its conflict markers named for a person."""
    out = []
    for line in lines_of(data):
        found = _NAMED.fullmatch(line)
        out.append(
            found.group(1) + b" " + names[_SIDES.index(found.group(1))].encode() + found.group(2) if found else line
        )
    return b"".join(out)


def _markers(directory: Path, path: str, attempt: bytes) -> list[str]:
    """The places of conflict markers in the file *path* of *directory*; lines that only look so in all sides are none."""
    file = directory / path
    if not file.is_file() or file.is_symlink():
        return []
    text = {line for part in marked_parts(path, attempt) if isinstance(part, bytes) for line in lines_of(part)}
    lines = enumerate(lines_of(file.read_bytes()), 1)
    return [f"{path}:{number}" for number, line in lines if _MARKER.fullmatch(line) and line not in text]
