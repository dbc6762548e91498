"""Rules for the names in a diff: how git quotes them, and which of them may be written."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable

from patchset.errors import DiffRefused

#: The modes that a file of a tree can have: plain, executable, link.
MODES = ("100644", "100755", "120000")

#: What Linux takes for a path.
PATH_LIMIT = 4096

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
_RAW = re.compile(rb"[\x00-\x1f\x7f]")
_CONTROL = re.compile(rb'[\x00-\x1f\x7f"\\]')

_IGNORED_BY_HFS = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))


def check_link(path: bytes, targets: Iterable[bytes], refuse: Refuse) -> None:
    """A link at *path* to any of *targets* must stay inside the tree, and must not stand where git reads a file of its own."""
    if re.match(r"\.gitmodules\Z|(gitmod|gi7eba)~", _plain(path.rpartition(b"/")[2])):
        raise refuse("a link in place of .gitmodules, which git refuses in any tree")
    for target in targets:
        parts = target.split(b"/")
        if any(_is_repository(part.rstrip(b"\n")) for part in parts):
            raise refuse("a link into a repository's own .git")
        if not target or b"\n" in target or b"\0" in target:
            raise refuse(
                "a link whose target is empty, or holds a newline or NUL (its `\\ No newline at end of file` may be lost)"
            )
        if target.startswith(b"/"):
            raise refuse("a link to an absolute path")
        depth = path.count(b"/")
        for part in parts:
            depth += -1 if part == b".." else 0 if part in (b"", b".") else 1
            if depth < 0:
                raise refuse("a link that leaves the tree")
        down = itertools.dropwhile(lambda part: part in (b"", b".", b".."), parts)
        if b".." in down:
            raise refuse("a link whose target goes down and up again: what it goes through may be a link itself")


def check_path(path: bytes, refuse: Refuse) -> None:
    """A path of a diff must name a file inside the tree, and none of a repository's own."""
    if len(path) > PATH_LIMIT:
        raise refuse(f"a path of {len(path)} bytes: more than {PATH_LIMIT}")
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
    return _plain(part) in (".git", "git~1")


def _plain(part: bytes) -> str:
    """*part* of a path as the most forgiving file system would read it."""
    # git~1 is .git's short name on FAT and NTFS, a colon starts a stream there; HFS+ ignores some characters
    return part.decode("utf-8", "replace").translate(_IGNORED_BY_HFS).partition(":")[0].lower().rstrip(" .")


def same_names(header: bytes, old: bytes, new: bytes, refuse: Refuse) -> bool:
    """Does `diff --git` name *old* and *new* (quoted or not)?"""
    quoted = _QUOTED.match(header)
    middle = quoted.end() if quoted else len(b"a/" + old)
    if header[middle : middle + 1] != b" ":
        return False
    names = unquote(header[:middle], refuse), unquote(header[middle + 1 :], refuse)
    return names == (b"a/" + old, b"b/" + new)


def unquote(name: bytes, refuse: Refuse) -> bytes:
    """A name as git writes it: in double quotes with C escapes where it must be, or as it is.

    git quotes control characters, quotes and backslashes. Where they stand bare, it ends the name there or takes it
    otherwise, so they are refused.
    """
    if not name.startswith(b'"'):
        if _CONTROL.search(name):
            raise refuse(f"the name {show(name)!r} holds a control character, a quote or a backslash, unquoted")
        return name
    if len(name) < 2 or not _QUOTED.fullmatch(name) or _RAW.search(name):
        raise refuse(
            f"the name {show(name)} is not quoted as git quotes: a quote, backslash or control character is bare"
        )

    def plain(match: re.Match[bytes]) -> bytes:
        text = match.group(1)
        if text in _ESCAPES:
            return _ESCAPES[text]
        if not re.fullmatch(rb"[0-3][0-7]{2}", text):
            raise refuse(f"the name {show(name)} holds an escape that is none: a backslash before {show(text)}")
        return bytes([int(text, 8)])

    return re.sub(rb"\\([0-7]{1,3}|.)", plain, name[1:-1])


def show(path: bytes) -> str:
    """*path* for a message."""
    return path.decode("utf-8", "backslashreplace")
