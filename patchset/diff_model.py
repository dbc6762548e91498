"""What a diff says, once it was read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hunk:
    """One hunk. Line numbers are those of the diff's own claim, from 1 (0 for an empty side).

    ``old`` and ``new`` are the lines of both sides, each with its newline (the last one without, if the diff says so);
    ``trailing`` is how many lines of context end the hunk; ``line`` is the hunk header's line in the diff.
    """

    old_start: int
    new_start: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    added: int
    removed: int
    trailing: int
    line: int


@dataclass(frozen=True)
class FileDiff:
    """What becomes of one file. A path is None where the file does not exist on that side.

    ``change`` is one of ``modify``, ``add``, ``delete``, ``rename``, ``copy``, ``mode``; modes are None where not said.
    ``old_blob`` is the whole blob id of the old side if the diff gives all 40 digits. ``line`` is where it starts.
    """

    change: str
    old_path: bytes | None
    new_path: bytes | None
    old_mode: str | None
    new_mode: str | None
    old_blob: str | None
    hunks: tuple[Hunk, ...]
    binary: bool
    line: int

    @property
    def path(self) -> bytes:
        """The path after the change; the path before it for a file that is deleted."""
        return self.new_path or self.old_path or b""
