"""What a person made of a conflict: taken if all of it is resolved, and nothing befell it that nobody meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from patchset.bump.state import Waiting
from patchset.errors import StoreError, WorktreeError
from patchset.merging import marked_parts
from patchset.placing import lines_of
from patchset.store import Entry, Store

_MARKER = re.compile(rb"(?:<{7}|\|{7}|>{7})(?: .*)?\r?\n?", re.DOTALL)
#: The marker without a name. Headings are underlined so too, so it counts how often it stands there.
_SEPARATOR = re.compile(rb"={7}\r?\n?")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def resolved_tree(store: Store, directory: Path, waiting: Waiting) -> str:
    """The tree that a person made of the conflict, staged or not.

    :raises WorktreeError: it is not all resolved, holds files that nobody added or that an editor turned into something
        else, or is no checkout any more.
    """
    try:
        tree = store.worktree_tree(directory)
        unmerged, new = store.unmerged(directory), store.not_added(directory)
        if not store.has_object(waiting.ours):
            store.bring_head(directory)  # the store was deleted and made again since
        paths = tuple(dict.fromkeys([*waiting.paths, *store.changed_paths(waiting.attempt, tree)]))
        ours, attempt, made = (_contents(store, side, paths) for side in (waiting.ours, waiting.attempt, tree))
    except (StoreError, OSError) as error:
        raise WorktreeError(
            f"the checkout with the conflict cannot be read: {getattr(error, 'what', error)}",
            where=str(directory),
            next="make room if that disk is full, and ./inv bump --continue again; else ./inv bump --restart lays it out "
            "again, and keeps what is there now beside it",
        ) from error
    known = {line for path in paths for line in _looking_so(ours[path], attempt[path], path in waiting.paths)}
    left = [
        place
        for path in paths
        for place in _markers(path, made[path], known)
        or (_separators(path, ours[path], attempt[path], made[path]) if path in waiting.paths else [])
    ]
    if left:
        raise WorktreeError(
            f"{len(left)} conflict markers are left in {waiting.patch}, the first is at {left[0]}",
            where=str(directory / left[0]),
            detail="\n".join(left),
            next="resolve them, then ./inv bump --continue; a line that only looks so must be longer than seven",
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
    for path in paths:
        _require_same_kind(directory, path, attempt[path], made[path])
    return tree


def told(
    store: Store, directory: Path, waiting: Waiting, tree: str, stages: Sequence[tuple[str, int, Entry]]
) -> tuple[str, ...]:
    """What *tree* does that the merge did not and that may well not be meant, a line each: files deleted, modes changed.

    :param stages: the sides of the conflict: (path, 1 to 3 for base, ours and theirs, entry).
    :raises WorktreeError: a file that clashes is gone, neither side deletes it, and nobody told git so.
    """
    sides = {(path, stage) for path, stage, _ in stages}
    gone, modes = [], []
    for path in store.changed_paths(waiting.attempt, tree):
        before, after = store.entry(waiting.attempt, path), store.entry(tree, path)
        deleting_is_a_side = path in waiting.paths and not {(path, 2), (path, 3)} <= sides
        if before and not after and not deleting_is_a_side:
            gone.append(path)
        elif before and after and before.mode != after.mode:
            modes.append(f"{path} has mode {after.mode} now; the merge left it at {before.mode}")
    for path in gone:
        if path in waiting.paths and path in store.unmerged(directory):
            raise WorktreeError(
                f"{path} is gone: the release changes it and the patch changes it, and neither deletes it",
                where=str(directory / path),
                next=f"in {directory}: git checkout --conflict=diff3 {path} brings the conflict back, git rm {path} says that it is "
                "meant; then ./inv bump --continue",
            )
    return (*(f"{path} is deleted; neither the release nor the patch deletes it" for path in gone), *modes)


def _contents(store: Store, tree: str, paths: Sequence[str]) -> dict[str, bytes]:
    return {path: store.read(tree, path) or b"" for path in paths}


def _looking_so(ours: bytes, attempt: bytes, clashing: bool) -> list[bytes]:
    """Lines that look like markers and are none: they stand in the release, or where nothing clashes."""
    merged = [part for part in marked_parts("", attempt) if isinstance(part, bytes)] if clashing else [attempt]
    return [line for text in (ours, *merged) for line in lines_of(text) if _MARKER.fullmatch(line)]


def _markers(path: str, made: bytes, known: Collection[bytes]) -> list[str]:
    """The places of conflict markers in *made*, whatever file they were put in; those that are *known* are none."""
    if b"\0" in made:
        return []
    lines = enumerate(lines_of(made), 1)
    return [f"{path}:{number}" for number, line in lines if _MARKER.fullmatch(line) and line not in known]


def _separators(path: str, ours: bytes, attempt: bytes, made: bytes) -> list[str]:
    """The places of the marker between the sides, where *made* has more lines like it than the sides have by themselves."""
    merged, theirs = 0, 0
    for part in marked_parts(path, attempt):
        if isinstance(part, bytes):
            merged += len(_separated(lines_of(part)))
        else:
            clash = part[0]
            merged += sum(line.rstrip("\r") == "=" * 7 for line in clash.ours)
            theirs += sum(line.rstrip("\r") == "=" * 7 for line in clash.theirs)
    lines, before = lines_of(made), lines_of(ours)
    found, had = _separated(lines), _separated(before)
    if len(found) <= max(merged, len(had)) + theirs:
        return []
    headings = {before[at - 1] for at in had if at}
    strange = [at for at in found if not at or lines[at - 1] not in headings]
    return [f"{path}:{at + 1}" for at in strange or found]


def _separated(lines: Sequence[bytes]) -> list[int]:
    return [at for at, line in enumerate(lines) if _SEPARATOR.fullmatch(line)]


def _require_same_kind(directory: Path, path: str, before: bytes, after: bytes) -> None:
    """No editor did something to every line of *path*, which would make a patch that replaces the whole file.

    :raises WorktreeError: its lines end otherwise, or it has a byte order mark now.
    """
    ends, end = _endings(before), _endings(after)
    if b"\0" in after:
        return
    if after.startswith(_BYTE_ORDER_MARK) and before and not before.startswith(_BYTE_ORDER_MARK):
        what, mend = "begins with a byte order mark, as the release's does not", r"1s/^\xEF\xBB\xBF//"
    elif ends.keys() == {"LF"} and "CRLF" in end:
        what, mend = f"has {end['CRLF']} lines that end in CRLF, the release's end in LF", r"s/\r$//"
    elif ends.keys() == {"CRLF"} and "LF" in end:
        what, mend = f"has {end['LF']} lines that end in LF, the release's end in CRLF", r"s/\r*$/\r/"
    else:
        return
    raise WorktreeError(
        f"{path} {what}: an editor's work, and not the patch's",
        where=str(directory / path),
        next=f"in {directory}: sed -i '{mend}' {path}; then ./inv bump --continue",
    )


def _endings(data: bytes) -> dict[str, int]:
    """How many lines of *data* end in LF and in CRLF; those that none ends in are left out."""
    windows = data.count(b"\r\n")
    found = {"LF": data.count(b"\n") - windows, "CRLF": windows}
    return {name: number for name, number in found.items() if number}
