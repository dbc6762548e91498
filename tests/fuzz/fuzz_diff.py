"""Coverage-guided search for a diff that breaks the strict reader, or that git reads differently.

For each input: the reader and unidiff's second reading raise nothing but ``DiffRefused``. For a sample of the inputs
that are read (each new kind, and one in some thirty of the rest), real git in a store of its own: its names and counts are
ours or the diff is refused; on a tree made for the diff, the tree that git makes is the one our reading says; and there, on
that tree, and on one with more lines above, this tool's own computation comes to the same as git's.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import zlib
from collections.abc import Iterator

import atheris
from fuzz_harness import ROOT, main, room
from fuzz_model import Tree, before_and_after
from fuzz_mutator import Mutator

with atheris.instrument_imports(
    include=[
        f"patchset.{name}"
        for name in ("diff", "diff_file", "diff_rules", "diff_check", "placing", "patching", "outcome")
    ]
):
    from patchset import diff, diff_check, outcome, placing

from patchset.diff_model import FileDiff
from patchset.errors import DiffRefused, StoreError
from patchset.store import Entry, Store

#: Of inputs of a kind that git has seen already, one in so many is shown to it: it takes a hundred times as long.
SAMPLE = 32

_kinds: set[tuple[object, ...]] = set()


@functools.cache
def store() -> Store:
    """A store of this run's own."""
    return Store.open(room() / "store.git")


def one(data: bytes) -> None:
    """One input; raises where an invariant does not hold."""
    try:
        files = diff.read(data, "x.patch")
    except DiffRefused as refusal:
        assert refusal.where.startswith("x.patch:") and refusal.next, refusal
        return
    assert files and all(file.path for file in files)
    try:
        diff_check.cross_check(files, _as_numstat(files), data, "x.patch")  # git left out: unidiff only
    except DiffRefused:
        return
    made = before_and_after(files)
    if made and _apart(files):
        found = placing.places(files, lambda path: made[0].get(path, (None, None))[1])
        assert all(place.fits for place in found), "the reading's own old side is not found where it stands"
    kind = _kind(files, data)
    if kind not in _kinds or zlib.crc32(data) % SAMPLE == 0:
        _kinds.add(kind)
        with_git(files, data, made)


def with_git(files: tuple[FileDiff, ...], data: bytes, made: tuple[Tree, Tree] | None) -> None:
    """git's names, counts and tree are those of our reading, or the diff is refused."""
    try:
        numstat = store().numstat(data)
    except StoreError as error:  # outcome.apply_diff makes a refusal of it
        return _note(error.what, data)
    try:
        diff_check.cross_check(files, numstat, data, "x.patch")
    except DiffRefused as refusal:
        return _note(refusal.what, data)
    if made is None:
        both_ways(tree_of({}), data)
        return
    before, after = made
    tree, wanted = tree_of(before), tree_of(after)
    by_git, _ = store().apply(tree, data)
    assert by_git in (None, wanted), f"git makes {by_git} of this diff, our reading {wanted}: {before} -> {after}"
    became = both_ways(tree, data)
    assert became is None or not became.outcome.changes_tree or became.tree == wanted, became
    if wanted != tree:
        both_ways(wanted, data)
    # The same files, changed above what the diff changes: it fits with an offset, or not at all.
    above = {path: (mode, b"one more\n" + text if mode != "120000" else text) for path, (mode, text) in before.items()}
    both_ways(tree_of(above), data)


def both_ways(tree: str, data: bytes) -> outcome.Became | None:
    """What becomes of the diff on *tree*, which is the same with and without git's own computation; None: it is refused."""
    try:
        became = outcome.apply_diff(store(), tree, data, "x.patch")
    except DiffRefused:
        return None
    quick = outcome.apply_diff(store(), tree, data, "x.patch", verify=False)
    assert (quick.outcome, quick.tree) == (became.outcome, became.tree), (quick, became)
    return became


def _note(what: str, data: bytes) -> None:
    """Keep what git refuses or reads otherwise, and the reader alone does not: each is a rule that the reader could have."""
    if "FUZZ_NOTES" in os.environ:
        with open(os.environ["FUZZ_NOTES"], "a", encoding="utf-8") as notes:
            notes.write(json.dumps([what, data.decode("latin-1")]) + "\n")


def _apart(files: tuple[FileDiff, ...]) -> bool:
    """Is each path named by one file's diff only?"""
    paths = [path for file in files for path in {file.old_path, file.new_path} if path]
    return len(set(paths)) == len(paths)


def tree_of(files: Tree) -> str:
    """The id of a tree in the store that holds *files*."""
    empty = store().run("mktree").decode().strip()
    entries = {os.fsdecode(path): Entry(mode, store().write_blob(data)) for path, (mode, data) in files.items()}
    return store().with_files(empty, entries)


def _as_numstat(files: tuple[FileDiff, ...]) -> list[tuple[str, str, str]]:
    return [
        ("-", "-", os.fsdecode(file.path))
        if file.binary
        else (str(sum(h.added for h in file.hunks)), str(sum(h.removed for h in file.hunks)), os.fsdecode(file.path))
        for file in files
    ]


def _kind(files: tuple[FileDiff, ...], data: bytes) -> tuple[object, ...]:
    """What git could read differently: which changes, in which order, and what is odd about names, lines and modes."""
    return (
        tuple(file.change for file in files[:4]),
        tuple((file.old_mode, file.new_mode, file.binary, min(len(file.hunks), 3)) for file in files[:3]),
        len({file.path for file in files}) == len(files),
        b"\n\\ " in data,
        b"\r" in data,
        b'"' in data[:200],
        b"\n\n" in data,
        data.startswith(b"diff "),
        b"\n-- \n" in data,
    )


@functools.cache
def seeds() -> tuple[bytes, ...]:
    """What the search starts from."""
    return tuple(_seeds())


def _seeds() -> Iterator[bytes]:
    """The nasty inputs, the project's own diffs, and what the unit tests accept and refuse."""
    for case in json.loads((ROOT / "tests" / "unit" / "nasty.json").read_bytes()):
        yield base64.b64decode(case["patch"])
    import test_diff
    import test_diff_binary
    import test_diff_file
    import test_diff_rules

    for module in (test_diff, test_diff_file, test_diff_rules):
        yield from (data for data, _, _ in module.REFUSED.values() if len(data) < 4096)
    yield from (test_diff_binary.HEAD + data for data, _, _ in test_diff_binary.REFUSED.values() if len(data) < 4096)
    yield from (data for data, _ in test_diff_file.ACCEPTED.values())
    from made_trees import tree_in

    for old, new in test_diff.ACCEPTED.values():
        trees = tree_in(store(), old), tree_in(store(), new)
        made = store().run(
            "diff-tree",
            "-r",
            "-p",
            "--full-index",
            "--binary",
            "--find-copies",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            *trees,
        )
        if len(made) < 4096:
            yield made
    yield from hypothesis_made()


def hypothesis_made() -> Iterator[bytes]:
    """Diffs that git makes of small trees which hypothesis makes up."""
    import test_diff_properties as properties
    from hypothesis import HealthCheck, given, settings
    from made_trees import tree_in

    made: list[bytes] = []

    @settings(max_examples=60, database=None, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    @given(old=properties.TREE, other=properties.TREE, at=properties.st.integers(0, 12), line=properties.LINE)
    def make(old: dict, other: dict, at: int, line: bytes) -> None:
        before, after = tree_in(store(), old), tree_in(store(), {**properties.edited(old, at, line), **other})
        if before != after:
            made.append(store().diff(before, after))

    make()
    yield from made


if __name__ == "__main__":
    main(one, Mutator(seeds, lambda data, size: atheris.Mutate(data, size)), seeds)
