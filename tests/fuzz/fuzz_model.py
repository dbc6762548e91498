"""What a diff does to the tree it was made for, told from our reading alone: the second opinion against which git is held.

This shares nothing with ``patchset.placing`` and ``patchset.patching`` but the reading itself, and unlike them it also
knows renames, copies, links, and a second diff of the same file.
"""

from __future__ import annotations

from collections.abc import Sequence

from patchset.diff_model import FileDiff, Hunk

#: path → (mode, content)
Tree = dict[bytes, tuple[str, bytes]]


def before_and_after(files: Sequence[FileDiff]) -> tuple[Tree, Tree] | None:
    """A tree that *files* were made for, and that tree with them in; None where *files* do not say enough, or clash."""
    base: Tree = {}
    now: Tree = {}
    for file in files:
        if file.binary:
            return None
        if file.change == "add":
            if file.new_path in now or len(file.hunks) > 1:
                return None
            content = b"".join(line for hunk in file.hunks for line in hunk.new)
            now[file.new_path or b""] = (file.new_mode or "100644", content)
            continue
        old, new = file.old_path or b"", file.new_path
        # git takes what is renamed or copied from the tree as it was, and anything else from what earlier diffs made of it
        source = base if file.change in ("rename", "copy") else now
        if old not in source:
            if old in base or old in now:
                return None
            made = made_for(file.hunks)
            if made is None:
                return None
            base[old] = now[old] = (file.old_mode or "100644", made)
        mode, content = source[old]
        changed = applied(content, file.hunks)
        if changed is None or file.old_mode not in (None, mode):
            return None
        if file.change == "delete":
            if changed:
                return None
            del now[old]
            continue
        if file.change in ("rename", "copy"):
            if new in now or new in base or old not in now:
                return None
            if file.change == "rename":
                del now[old]
        now[new or b""] = (file.new_mode or mode, changed)
    return None if _clashes(base) or _clashes(now) else (base, now)


def made_for(hunks: Sequence[Hunk]) -> bytes | None:
    """A file in which each of *hunks* stands where it says, with lines between them that occur nowhere else."""
    lines: list[bytes] = []
    for hunk in hunks:
        start = max(hunk.old_start - 1, 0)
        if start > 100_000 or start < len(lines) or (lines and not lines[-1].endswith(b"\n")):
            return None
        lines += [b"~ %d\n" % number for number in range(len(lines), start)]
        lines += hunk.old
    if hunks and hunks[-1].trailing and lines and lines[-1].endswith(b"\n"):
        lines.append(b"~ end\n")
    return b"".join(lines)


def applied(content: bytes, hunks: Sequence[Hunk]) -> bytes | None:
    """*content* with *hunks* in, each at the very line it names; None where its old side is not there."""
    lines = content.split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    out: list[bytes] = []
    at = 0
    for hunk in hunks:
        start = max(hunk.old_start - 1, 0)
        if start < at or tuple(lines[start : start + len(hunk.old)]) != hunk.old:
            return None
        out += [*lines[at:start], *hunk.new]
        at = start + len(hunk.old)
        if not hunk.trailing and at < len(lines):
            return None
    return b"".join([*out, *lines[at:]])


def _clashes(tree: Tree) -> bool:
    """Is something a file and a folder at once?"""
    return any(
        b"/".join(parts[:depth]) in tree
        for parts in (path.split(b"/") for path in tree)
        for depth in range(1, len(parts))
    )
