"""Where the hunks of a diff fit in the files of a tree, and where their result already stands. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from patchset.diff_model import FileDiff, Hunk
from patchset.diff_rules import show


@dataclass(frozen=True)
class Place:
    """One hunk on one file. Line numbers count from 1.

    ``fits`` are the lines at which its old side stands, ``done`` those at which its new side stands; ``claimed`` is the
    line the diff names. ``missing`` is set when the file itself is not there.
    """

    path: str
    number: int
    claimed: int
    fits: tuple[int, ...]
    done: tuple[int, ...]
    missing: bool

    @property
    def offset(self) -> int:
        """How many lines from where the diff says it is the hunk fits best (0 if it fits nowhere)."""
        return min((line - self.claimed for line in self.fits), key=abs, default=0)

    @property
    def ambiguous(self) -> bool:
        """Does the old side stand in more than one place?"""
        return len(self.fits) > 1

    def __str__(self) -> str:
        return f"{self.path}, hunk {self.number} (line {self.claimed})"


def places(files: Sequence[FileDiff], read: Callable[[bytes], bytes | None]) -> tuple[Place, ...]:
    """Every hunk of *files* on the tree that *read* gives the files of (path → bytes, or None)."""
    found = []
    for file in files:
        path = file.old_path or file.new_path or b""
        data = read(path)
        for number, hunk in enumerate(file.hunks, 1):
            found.append(
                Place(
                    show(path),
                    number,
                    hunk.old_start,
                    fits=_positions(data or b"", hunk.old, hunk) if (data is None) == (file.change == "add") else (),
                    done=() if data is None else _positions(data, hunk.new, hunk),
                    missing=data is None and file.change != "add",
                )
            )
    return tuple(found)


def lines_of(data: bytes) -> list[bytes]:
    """The lines of *data*, each with its newline, the last one perhaps without. Only LF ends a line, as for git."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _positions(data: bytes, side: tuple[bytes, ...], hunk: Hunk) -> tuple[int, ...]:
    """The lines (from 1) at which *side* stands, by git's rule: a hunk without context at an end belongs to that end."""
    if not side:
        return (0,) if not data else ()
    text, found, line, counted = b"".join(side), [], 1, 0
    for at in _occurrences(data, text):
        line, counted = line + data.count(b"\n", counted, at), at
        if (hunk.old_start > 1 or at == 0) and (hunk.trailing > 0 or at + len(text) == len(data)):
            found.append(line)
    return tuple(found)


def _occurrences(data: bytes, text: bytes) -> Iterator[int]:
    """Where in *data* the whole lines *text* stand, also where they overlap themselves."""
    at = data.find(text)
    while at >= 0:
        whole = text.endswith(b"\n") or at + len(text) == len(data)
        if whole and (at == 0 or data[at - 1 : at] == b"\n"):
            yield at
        at = data.find(text, at + 1)
