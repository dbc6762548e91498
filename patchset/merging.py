"""Three-way merge of a diff into a tree that it was not made for, and what clashes there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from patchset.diff_model import FileDiff
from patchset.placing import Place, lines_of
from patchset.store import Entry, Store

#: Lines shown of one side of a conflict: enough to see what clashes.
_SHOWN = 60
_MARKER = re.compile(rb"(<<<<<<<|\|\|\|\|\|\|\||=======|>>>>>>>)(?: [^\n]*)?\r?\n?\Z")


@dataclass(frozen=True)
class Conflict:
    """One clash: ``ours`` is what the tree has, ``theirs`` what the patch wants, ``base`` what it was made for.

    ``line`` is where ``ours`` starts in the tree's file (0: unknown). Sides are lines without their newline.
    """

    path: str
    line: int
    base: tuple[str, ...]
    ours: tuple[str, ...]
    theirs: tuple[str, ...]


@dataclass(frozen=True)
class ThreeWay:
    """A three-way merge: the tree, the paths that clash, and each clash."""

    tree: str
    clashing: tuple[str, ...]
    conflicts: tuple[Conflict, ...]


def three_way(store: Store, tree: str, data: bytes, files: Sequence[FileDiff]) -> ThreeWay | None:
    """Merge the diff *data* into *tree*; None where its old files are not known or it does not apply to them.

    A file that *tree* does not have conflicts. That it moved can only be told with the release it moved from, in which the
    place it moved to is not there yet: without that, its change could land in a look-alike that was always there.
    """
    old: dict[str, Entry] = {}
    for file in files:
        if file.old_path is not None:
            if not file.old_blob or not store.has_object(file.old_blob):
                return None
            old[os.fsdecode(file.old_path)] = Entry(file.old_mode or "100644", file.old_blob)
    base = store.with_files(tree, old)
    theirs, _ = store.apply(base, data)
    if not theirs:
        return None
    merged = store.merge(base, tree, theirs)
    conflicts = tuple(clash for path in merged.conflicts for clash in conflicts_in(store, merged.tree, tree, path))
    return ThreeWay(merged.tree, merged.conflicts, conflicts)


def conflicts_in(store: Store, merged: str, tree: str, path: str) -> tuple[Conflict, ...]:
    """The clashes that stand in the file *path* of the tree *merged* between diff3 markers; *tree* is our side."""
    data = store.read(merged, path)
    ours = store.read(tree, path)
    clashes = marked(path, data or b"")
    if clashes or ours is not None:
        return clashes or (Conflict(path, 0, (), ("the file is there, and cannot be merged line by line",), ()),)
    return (Conflict(path, 0, (), ("the file is not there",), ()),)


def marked(path: str, data: bytes) -> tuple[Conflict, ...]:
    """Every clash between diff3 conflict markers in *data*; ``line`` counts as in our side's file. Long sides are cut."""
    return tuple(
        Conflict(path, clash.line, *(side[:_SHOWN] for side in (clash.base, clash.ours, clash.theirs)))
        for clash, _ in (part for part in marked_parts(path, data) if not isinstance(part, bytes))
    )


def marked_parts(path: str, data: bytes) -> Iterator[bytes | tuple[Conflict, bytes]]:
    """*data* in order: text without conflicts, and each clash with its own text, markers included.

    The parts' texts together are *data*. Markers that do not make a whole clash are text.
    """
    lines, text, at, line = lines_of(data), [], 0, 1
    while at < len(lines):
        end = _clash_end(lines, at)
        if end is None:
            text.append(lines[at])
            at, line = at + 1, line + 1
            continue
        if text:
            yield b"".join(text)
            text = []
        sides: list[list[str]] = []
        for part in lines[at : end - 1]:
            if _kind(part) in (b"<", b"|", b"=") and len(sides) == {b"<": 0, b"|": 1, b"=": 2}[_kind(part)]:
                sides.append([])
            else:
                sides[-1].append(_text(part))
        ours, base, theirs = (tuple(side) for side in sides)
        yield Conflict(path, line, base, ours, theirs), b"".join(lines[at:end])
        at, line = end, line + len(ours)
    if text:
        yield b"".join(text)


def _clash_end(lines: Sequence[bytes], at: int) -> int | None:
    """The index behind the clash that begins at *at*, if one does."""
    wanted = [b"<", b"|", b"=", b">"]
    for index in range(at, len(lines)):
        kind = _kind(lines[index])
        if index == at and kind != b"<":
            return None
        if kind == wanted[0]:
            wanted.pop(0)
            if not wanted:
                return index + 1
        elif kind == b"<":
            return None
    return None


def _kind(line: bytes) -> bytes:
    marker = _MARKER.match(line)
    return marker.group(1)[:1] if marker else b""


def from_hunks(
    files: Sequence[FileDiff], found: Sequence[Place], read: Callable[[bytes], bytes | None]
) -> tuple[Conflict, ...]:
    """Both sides of each hunk that goes nowhere, where no merge could be tried: the hunk's, and the tree's lines there."""
    clashes, remaining = [], list(found)
    for file in files:
        lines = lines_of(read(file.old_path or file.new_path or b"") or b"")
        for hunk in file.hunks:
            place = remaining.pop(0)
            if place.fits or place.done:
                continue
            start = _nearest(lines, hunk.old, hunk.old_start)
            ours = lines[start - 1 : start - 1 + max(len(hunk.old), 1)]
            shown = (tuple(_text(line) for line in side[:_SHOWN]) for side in (hunk.old, ours, hunk.new))
            clashes.append(Conflict(place.path, start if lines else 0, *shown))
    return tuple(clashes)


def _nearest(lines: Sequence[bytes], wanted: Sequence[bytes], claimed: int) -> int:
    """The line (from 1) at which *wanted* would stand, judged by its lines that occur just once; else *claimed*."""
    where: dict[bytes, list[int]] = {}
    for number, line in enumerate(lines, 1):
        where.setdefault(line, []).append(number)
    starts = [where[line][0] - index for index, line in enumerate(wanted) if len(where.get(line, [])) == 1]
    best = min(starts, key=lambda start: (-starts.count(start), abs(start - claimed)), default=claimed)
    return max(1, min(best, len(lines) or 1))


def _text(line: bytes) -> str:
    return line.rstrip(b"\n").decode("utf-8", "surrogateescape")
