"""A conflict laid out for a person, and what they made of it."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from patchset.bases import Bases
from patchset.bump.carry import Clash
from patchset.bump.state import Waiting
from patchset.console import Console
from patchset.errors import StoreError, WorktreeError
from patchset.patch import Patch
from patchset.store import Store

_MARKER = re.compile(rb"^(?:<{7}|\|{7}|>{7})(?: |$)", re.MULTILINE)
_ENDS = ((b"<<<<<<< ", 0), (b"||||||| ", 1), (b">>>>>>> ", 2))


def write_conflict(
    store: Store,
    bases: Bases,
    release: str,
    carried: Sequence[tuple[Patch, str]],
    clash: Clash,
    patch: Patch,
    directory: Path,
) -> str:
    """Lay *clash* out in *directory*, which is not there yet, whole or not at all; return the tree that it then holds.

    It is a git repository with a commit for each of *carried* (patch, tree after it), and the three sides of each file in
    the index: `git status`, `git mergetool` and `git checkout --ours` work.
    """
    commit = bases.commit(release)
    for earlier, tree in carried:
        commit = store.commit(tree, (commit,), f"{earlier.title}\n\nPatch: {earlier.id}", earlier.date)
    names = (f"vLLM {release} with the series so far", f"vLLM {clash.source}", f"patch {patch.id}")
    files = {}
    for path in clash.merged.conflicts:
        data = store.read(clash.merged.tree, path)
        if data is not None:
            files[path] = _named(data, names)
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh = directory.with_name(f".{directory.name}-{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir()
        store.make_conflict(fresh, commit, clash.merged.tree, clash.merged.stages, files)
        written = store.worktree_tree(fresh)
        os.rename(fresh, directory)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return written


def resolved_tree(store: Store, directory: Path, waiting: Waiting) -> str:
    """The tree that a person made of the conflict, staged or not.

    :raises WorktreeError: it is not all resolved, or the checkout is gone.
    """
    if not (directory / ".git").is_dir():
        raise WorktreeError(
            "the checkout with the conflict is gone", where=str(directory), next="./inv bump --restart, or --abort"
        )
    left = [place for path in waiting.paths for place in _markers(directory, path)]
    if left:
        raise WorktreeError(
            f"{len(left)} conflict markers are left in {waiting.patch}, the first is at {left[0]}",
            where=str(directory / left[0]),
            next="resolve them, then ./inv bump --continue",
        )
    tree = store.worktree_tree(directory)
    if tree == waiting.written and waiting.paths:
        raise WorktreeError(
            f"nothing was changed there, and {', '.join(waiting.paths)} must be resolved",
            where=str(directory),
            next="resolve them, then ./inv bump --continue; or leave the patch out: ./inv bump --skip REASON",
        )
    return tree


def put_aside(store: Store, directory: Path, waiting: Waiting | None, console: Console, *, keep: bool) -> None:
    """Remove the checkout at *directory*; with *keep*, one that a person changed is renamed instead, and said."""
    if not os.path.lexists(directory):
        return
    if keep and not _untouched(store, directory, waiting):
        aside = directory.with_name(f"{directory.name}.aborted-{time.strftime('%Y%m%dT%H%M%S')}")
        os.rename(directory, aside)
        console.say(f"  the checkout with changes of yours is kept: {aside}")
        return
    doomed = directory.with_name(f".{directory.name}-{os.getpid()}")
    os.rename(directory, doomed)  # so that a run killed here leaves none that looks whole
    shutil.rmtree(doomed)


def _untouched(store: Store, directory: Path, waiting: Waiting | None) -> bool:
    if waiting is None:
        return False
    try:
        branch, head, _ = store.checkout_state(directory)
        moved = branch != "refs/heads/patchset" or head != store.made_checkout(directory)
        return not moved and store.worktree_tree(directory) == waiting.written
    except (StoreError, OSError):
        return False  # whatever it is now, it is not what was made


def _named(data: bytes, names: Sequence[str]) -> bytes:
    """*data* with the sides of its conflict markers named for a person."""
    out = []
    for line in data.split(b"\n"):
        for start, side in _ENDS:
            if re.fullmatch(re.escape(start) + rb"[0-9a-f]{7,40}(:.*)?", line):
                line = start + names[side].encode()
        out.append(line)
    return b"\n".join(out)


def _markers(directory: Path, path: str) -> list[str]:
    file = directory / path
    if not file.is_file() or file.is_symlink():
        return []
    data = file.read_bytes()
    return [f"{path}:{data[: match.start()].count(bytes([10])) + 1}" for match in _MARKER.finditer(data)]
