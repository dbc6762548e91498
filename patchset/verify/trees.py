"""git's object ids, made without git: of a file's bytes, of a directory, and of a whole tree up to its root.

Facts: git's "Git Objects" chapter and gitformat documentation: an object's id is the SHA-1 of ``TYPE SIZE NUL CONTENT``; a
tree lists ``MODE SPACE NAME NUL ID(20)``, sorted by name, where a directory's name counts as if it ended with ``/``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

DIRECTORY = "040000"
PLAIN = "100644"
EXECUTABLE = "100755"
LINK = "120000"
SUBMODULE = "160000"
MODES = frozenset({DIRECTORY, PLAIN, EXECUTABLE, LINK, SUBMODULE})

#: (mode, object id) by name: one directory.
Level = dict[str, tuple[str, str]]


class BadTree(ValueError):
    """No tree of git can look like this."""


@dataclass(frozen=True)
class Forest:
    """The directories of a tree by path ('' is the root), and the id of each that is known in full."""

    levels: Mapping[str, Level]
    ids: Mapping[str, str]

    @property
    def root(self) -> str:
        """The id of the whole tree."""
        return self.ids[""]

    def root_without(self, path: str) -> str:
        """The id that the whole tree would have without the file or directory *path*."""
        directory, name = split(path)
        level = {key: value for key, value in self.levels[directory].items() if key != name}
        while directory:
            parent, name = split(directory)
            above = dict(self.levels[parent])
            if level:
                above[name] = (DIRECTORY, tree_id(level))
            else:
                del above[name]
            directory, level = parent, above
        return tree_id(level)


def blob_id(data: bytes) -> str:
    """The id of a file that holds *data*."""
    return _object_id(b"blob", data)


def blob_hash(size: int) -> hashlib._Hash:
    """A hash to feed the *size* bytes of a file to, piece by piece; its digest is the blob's id."""
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)


def tree_id(level: Mapping[str, tuple[str, str]]) -> str:
    """The id of the directory with these entries.

    :raises BadTree: a name, mode or id that git could not hold.
    """
    entries = []
    for name, (mode, oid) in level.items():
        encoded = _encode(name)
        if not encoded or b"/" in encoded or b"\0" in encoded or encoded in (b".", b"..") or mode not in MODES:
            raise BadTree(f"no entry of a git tree: mode {mode}, name {name!r}")
        key = encoded + b"/" if mode == DIRECTORY else encoded
        entries.append((key, b"%s %s\0%s" % (mode.lstrip("0").encode(), encoded, _raw(oid))))
    return _object_id(b"tree", b"".join(line for _, line in sorted(entries)))


def forest_of(files: Mapping[str, tuple[str, str]], rest: Mapping[str, Level] | None = None) -> Forest:
    """The tree that *files* (path → mode, blob id) make together with *rest* (directory → name → mode, id).

    :raises BadTree: one name is there twice, or git could not hold it.
    """
    levels: dict[str, Level] = {"": {}}
    for path, entry in files.items():
        directory, name = split(path)
        _level(levels, directory)[name] = entry
    for directory, entries in (rest or {}).items():
        level = _level(levels, directory)
        for name, entry in entries.items():
            if name in level:
                raise BadTree(f"{directory}/{name} is there twice")
            level[name] = entry
    ids: dict[str, str] = {}
    for directory in sorted(levels, key=lambda path: (-path.count("/"), path == "")):
        ids[directory] = tree_id(levels[directory])
        if directory:
            parent, name = split(directory)
            if name in levels[parent]:
                raise BadTree(f"{directory} is a directory and something else too")
            levels[parent][name] = (DIRECTORY, ids[directory])
    return Forest(levels, ids)


def split(path: str) -> tuple[str, str]:
    """(directory, name) of *path*; the root is ''."""
    directory, _, name = path.rpartition("/")
    return directory, name


def _level(levels: dict[str, Level], directory: str) -> Level:
    above = directory
    while above not in levels:
        levels[above] = {}
        above = split(above)[0]
    return levels[directory]


def _encode(name: str) -> bytes:
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadTree(f"the name {name!r} is no text") from error


def _raw(oid: str) -> bytes:
    try:
        raw = bytes.fromhex(oid)
    except ValueError as error:
        raise BadTree(f"{oid!r} is no object id") from error
    if len(raw) != 20 or len(oid) != 40:
        raise BadTree(f"{oid!r} is no object id")
    return raw


def _object_id(kind: bytes, data: bytes) -> str:
    return hashlib.sha1(b"%s %d\0" % (kind, len(data)) + data, usedforsecurity=False).hexdigest()
