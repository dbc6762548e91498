"""What a wheel must carry so that a reader with nothing but the wheel can make the patched tree's id from its files.

The wheel holds most files of the tree as they are. What it does not hold is told by git mode, name and object id, whole
subtrees by one id. Format 2 of the record: ``wheel.proof``. The reader is :mod:`patchset.verify`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from patchset.errors import WheelError
from patchset.store import Entry
from patchset.verify.trees import DIRECTORY, EXECUTABLE, PLAIN, forest_of, split


def tree_proof(entries: Mapping[str, Entry], members: Iterable[str], tree: str) -> dict[str, object]:
    """The proof for a wheel with *members* that was made of the tree with *entries*.

    :param entries: path → mode and blob of every file of the patched tree.
    :param members: names of the wheel's members; those that are not in the tree do not matter.
    :param tree: the id of that tree.
    :returns: ``rest``: for each directory that holds members ('' is the root) what the wheel does not hold as a plain
        file, as lists of mode, name and object id, sorted by name, left out where there is nothing; ``executable``: the
        members that git has as executable. (A build does not keep that bit on Python files, nor does every installer.)
    :raises WheelError: *entries* are not those of *tree*.
    """
    forest = forest_of({path: (entry.mode, entry.blob) for path, entry in entries.items()})
    if forest.root != tree:
        raise WheelError(
            f"the files make the tree {forest.root}, not {tree}", next="./inv runtime (and tell if it happens again)"
        )
    present = {name for name in members if name in entries}
    held = {path for path in present if entries[path].mode in (PLAIN, EXECUTABLE)}
    directories = {directory for path in present for directory in _above(path)}
    rest = {}
    for directory in sorted(directories | {""}):
        prefix = f"{directory}/" if directory else ""
        left = [
            [mode, name, oid]
            for name, (mode, oid) in sorted(forest.levels[directory].items())
            if not (prefix + name in directories if mode == DIRECTORY else prefix + name in held)
        ]
        if left:
            rest[directory] = left
    return {"rest": rest, "executable": sorted(path for path in held if entries[path].mode == EXECUTABLE)}


def _above(path: str) -> Iterable[str]:
    while path:
        path = split(path)[0]
        yield path
