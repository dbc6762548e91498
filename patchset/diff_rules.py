"""Rules for the names in a diff: how git quotes them, and which of them may be written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from patchset.errors import DiffRefused

#: Makes the error for a rule; the reader binds file and line to it.
Refuse = Callable[..., DiffRefused]

_ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b'"': b'"',
    b"\\": b"\\",
}

_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')

_IGNORED_BY_HFS = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))


def check_link(path: bytes, targets: Iterable[bytes], refuse: Refuse) -> None:
    """A link at *path* to any of *targets* must stay inside the tree."""
    for target in targets:
        parts = target.rstrip(b"\n").split(b"/")
        if any(_is_repository(part) for part in parts):
            raise refuse("a link into a repository's own .git")
        depth = path.count(b"/")
        for part in parts:
            depth += -1 if part == b".." else 0 if part in (b"", b".") else 1
            if depth < 0:
                raise refuse("a link that leaves the tree")
        if target.startswith(b"/"):
            raise refuse("a link to an absolute path")


def check_path(path: bytes, refuse: Refuse) -> None:
    """A path of a diff must name a file inside the tree, and none of a repository's own."""
    parts = path.split(b"/")
    if path.startswith(b"/"):
        raise refuse(f"{show(path)} is an absolute path")
    if b".." in parts or b"." in parts or b"" in parts:
        raise refuse(f"{show(path)} has a part that is empty, '.' or '..'")
    if any(_is_repository(part) for part in parts):
        raise refuse(f"{show(path)} would write into a repository's own .git")
    if b"\\" in path or b"\0" in path or b"\n" in path:
        raise refuse(f"{show(path)} holds a backslash, a NUL or a newline")


def _is_repository(part: bytes) -> bool:
    """Would some file system take *part* for ``.git``?"""
    # git~1 is its short name on FAT and NTFS, a colon starts a stream there; HFS+ ignores some characters
    name = part.decode("utf-8", "replace").translate(_IGNORED_BY_HFS).partition(":")[0].lower().rstrip(" .")
    return name in (".git", "git~1")


def same_names(header: bytes, old: bytes, new: bytes) -> bool:
    """Does `diff --git` name *old* and *new* (quoted or not)?"""
    quoted = _QUOTED.match(header)
    middle = quoted.end() if quoted else len(b"a/" + old)
    return (unquote(header[:middle]), header[middle : middle + 1], unquote(header[middle + 1 :])) == (
        b"a/" + old,
        b" ",
        b"b/" + new,
    )


def unquote(name: bytes) -> bytes:
    """A name as git writes it: in double quotes with C escapes, or as it is."""
    if len(name) < 2 or not (name.startswith(b'"') and name.endswith(b'"')):
        return name

    def plain(match: re.Match[bytes]) -> bytes:
        text = match.group(1)
        return _ESCAPES[text] if text in _ESCAPES else bytes([int(text, 8) & 255])

    return re.sub(rb'\\([abfnrtv"\\]|[0-3][0-7]{2})', plain, name[1:-1])


def show(path: bytes) -> str:
    """*path* for a message."""
    return path.decode("utf-8", "backslashreplace")
