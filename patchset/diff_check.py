"""A second and a third reading of a diff: what ``diff.py`` read must be what git and unidiff read."""

from __future__ import annotations

import os
from collections import Counter

from patchset.diff_model import FileDiff
from patchset.diff_rules import show
from patchset.errors import DiffRefused


def cross_check(files: tuple[FileDiff, ...], numstat: list[tuple[str, str, str]], data: bytes, name: str) -> None:
    """Compare what was read with git's own numstat and, for text, with unidiff.

    :raises DiffRefused: they disagree: one of them reads another change than the others.
    """
    ours = Counter(
        ("-", "-", file.path) if file.binary else (str(_added(file)), str(_removed(file)), file.path) for file in files
    )
    gits = Counter((added, removed, os.fsencode(path)) for added, removed, path in numstat)
    if ours != gits:
        odd = sorted({show(path) for _, _, path in (ours - gits) + (gits - ours)})
        raise DiffRefused(
            f"git reads this diff differently: {', '.join(odd)}",
            where=name,
            next="make the diff again: git diff --full-index",
        )
    _check_with_unidiff(files, data, name)


def _check_with_unidiff(files: tuple[FileDiff, ...], data: bytes, name: str) -> None:
    from unidiff import PatchSet, UnidiffParseError

    try:
        theirs = PatchSet(_under_plain_names(files, data))
    except UnidiffParseError as error:
        raise DiffRefused(
            f"unidiff cannot read it: {error}", where=name, next="make the diff again: git diff --full-index"
        ) from error
    theirs_counts = [(file.added, file.removed) for file in theirs]
    ours_counts = [(_added(file), _removed(file)) for file in files if file.hunks]
    if theirs_counts != ours_counts:
        raise DiffRefused(
            f"unidiff counts {theirs_counts} added and removed lines a file, this reader {ours_counts}",
            where=name,
            next="make the diff again: git diff --full-index",
        )


def _under_plain_names(files: tuple[FileDiff, ...], data: bytes) -> list[str]:
    """The hunks as they are, each file under a number: unidiff guesses at names such as `x b/y.txt`, and git checks those."""
    # latin-1 keeps every byte apart, and only \n ends a line: str.splitlines would break at form feeds too
    lines = [line + "\n" for line in data.decode("latin-1").split("\n")[:-1]]
    ends = [*(file.line - 1 for file in files[1:]), len(lines)]
    plain: list[str] = []
    for number, (file, end) in enumerate(zip(files, ends, strict=True)):
        if file.hunks:
            plain += [f"--- a/{number}\n", f"+++ b/{number}\n", *lines[file.hunks[0].line - 1 : end]]
    return plain


def _added(file: FileDiff) -> int:
    return sum(hunk.added for hunk in file.hunks)


def _removed(file: FileDiff) -> int:
    return sum(hunk.removed for hunk in file.hunks)
