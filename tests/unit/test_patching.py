"""A diff's result, computed without git: the plain cases are right, and every other case is left to git."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from patchset import diff, patching
from patchset.placing import places
from patchset.store import Store

MakeTree = Callable[..., str]
OLD = b"".join(b"line %d\n" % number for number in range(1, 31))
NEW = OLD.replace(b"line 5\n", b"LINE 5\n").replace(b"line 25\n", b"LINE 25\n")


@pytest.fixture
def result(bench: Store, make_tree: MakeTree) -> Callable[..., Mapping[bytes, patching.File] | None]:
    """(files before, files after, files of the tree it is tried on, edit of the diff) → what is made of it."""

    def run(old: dict, new: dict, on: dict, edit: Callable[[bytes], bytes] = lambda data: data) -> object:
        files = diff.read(edit(bench.diff(make_tree(old), make_tree(new))), "x.patch")
        on = {path.encode(): content for path, content in on.items()}
        plain = {path: ("100644", c) if isinstance(c, bytes) else c for path, c in on.items()}
        found = places(files, lambda path: plain[path][1] if path in plain else None)
        return patching.result(files, found, plain.get, lambda path: path not in plain)

    return run


@pytest.mark.parametrize(
    ("on", "made"),
    [
        (OLD, NEW),
        (b"x\ny\n" + OLD, b"x\ny\n" + NEW),
        (OLD.rstrip(b"\n"), NEW.rstrip(b"\n")),
        (OLD + b"end", NEW + b"end"),
    ],
)
def test_each_hunk_goes_where_it_fits(on: bytes, made: bytes, result: Callable[..., object]) -> None:
    assert result({"f": OLD}, {"f": NEW}, {"f": on}) == {b"f": ("100644", made)}


def test_files_come_go_and_change_their_mode(result: Callable[..., object]) -> None:
    old = {"f": OLD, "gone": b"x\n", "tool": ("100644", b"#!\n")}
    new = {"f": OLD, "d/new": b"y\n", "empty": b"", "tool": ("100755", b"#!\n")}
    assert result(old, new, old) == {
        b"gone": None,
        b"d/new": ("100644", b"y\n"),
        b"empty": ("100644", b""),
        b"tool": ("100755", b"#!\n"),
    }


@pytest.mark.parametrize(
    ("old", "new", "on"),
    [
        ({"f": OLD}, {"f": NEW}, {"f": OLD + b"x\n" + OLD}),
        ({"f": OLD}, {"f": NEW}, {"f": OLD.replace(b"line 24", b"other")}),
        ({"f": OLD}, {"f": NEW}, {"g": OLD}),
        ({"f": OLD}, {"f": NEW}, {"f": ("100755", OLD)}),
        ({"f": b"x\n"}, {}, {"f": b"x\ny\n"}),
        ({}, {"f": b"x\n"}, {"f": b"y\n"}),
        ({"f": b"\0a"}, {"f": b"\0b"}, {"f": b"\0a"}),
        ({"l": ("120000", b"a")}, {"l": ("120000", b"b")}, {"l": ("120000", b"a")}),
        ({}, {"l": ("120000", b"a")}, {}),
    ],
    ids=["twice", "nowhere", "gone", "other mode", "more to delete", "there already", "binary", "link", "new link"],
)
def test_all_else_is_left_to_git(old: dict, new: dict, on: dict, result: Callable[..., object]) -> None:
    assert result(old, new, on) is None


def test_two_diffs_of_one_file_are_left_to_git(result: Callable[..., object]) -> None:
    assert result({"f": OLD}, {"f": NEW}, {"f": OLD}, lambda data: data + data) is None
