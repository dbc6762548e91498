"""What a diff makes of a tree's files, where that can be told without git. Pure.

Forecast, graph and bisect try one diff on hundreds of trees; a git process for each try would be nearly all of the time.
So the plain case is computed here: text changes, each of whose hunks fits in exactly one place. Everything else (binary,
renames, copies, links, a hunk that fits twice) is for git. Where a runtime is made, git computes this a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from patchset.diff_model import FileDiff
from patchset.placing import Place, lines_of

PLAIN = ("100644", "100755")

#: A file of a tree: mode and content; None where there is none.
File = tuple[str, bytes] | None


def result(
    files: Sequence[FileDiff], found: Sequence[Place], file_at: Callable[[bytes], File], free: Callable[[bytes], bool]
) -> Mapping[bytes, File] | None:
    """The files that *files* change, as they are afterwards: path → (mode, content), None for one that is deleted.

    :param found: every hunk of *files*, in order, placed on the same tree.
    :param free: may a file be made at this path (nothing is there, and no parent of it is a file)?
    :return: None where it cannot be told here, which does not say that the diff does not apply.
    """
    paths = [path for file in files for path in {file.old_path, file.new_path} if path]
    if len(set(paths)) != len(paths):
        return None
    made: dict[bytes, File] = {}
    remaining = list(found)
    for file in files:
        places = [remaining.pop(0) for _ in file.hunks]
        changed = _change(file, places, file_at, free)
        if changed is None:
            return None
        made[changed[0]] = changed[1]
    return made


def _change(
    file: FileDiff, places: Sequence[Place], file_at: Callable[[bytes], File], free: Callable[[bytes], bool]
) -> tuple[bytes, File] | None:
    if file.binary or file.change not in ("modify", "add", "delete", "mode"):
        return None
    if file.change == "add":
        path, mode = file.new_path or b"", file.new_mode or PLAIN[0]
        content = b"".join(line for hunk in file.hunks for line in hunk.new)
        return (path, (mode, content)) if mode in PLAIN and len(file.hunks) <= 1 and free(path) else None
    path = file.old_path or b""
    there = file_at(path)
    if there is None or there[0] not in PLAIN or file.old_mode not in (None, there[0]):
        return None
    mode = file.new_mode or there[0]
    content = patched(there[1], file, places)
    if content is None or mode not in PLAIN:
        return None
    if file.change == "delete":
        return (path, None) if not content else None
    return (path, (mode, content)) if (mode, content) != there else None


def patched(content: bytes, file: FileDiff, places: Sequence[Place]) -> bytes | None:
    """*content* with the hunks of *file* in; None unless each fits once, and they follow each other."""
    lines, out, at = lines_of(content), [], 0
    for hunk, place in zip(file.hunks, places, strict=True):
        if len(place.fits) != 1 or not hunk.old or place.fits[0] - 1 < at:
            return None
        start = place.fits[0] - 1
        out += [*lines[at:start], *hunk.new]
        at = start + len(hunk.old)
    return b"".join([*out, *lines[at:]])
