"""What clashes, and where: from conflict markers, and from hunks that go nowhere."""

from __future__ import annotations

from collections.abc import Callable

from patchset.merging import Conflict, marked, three_way
from patchset.outcome import Outcome, apply_diff
from patchset.store import Store

MakeTree = Callable[..., str]
OLD = b"".join(b"line %d\n" % number for number in range(1, 31))


def test_every_clash_is_read_from_its_markers_with_our_own_line_numbers() -> None:
    data = (
        b"a\n<<<<<<< x\no1\no2\n||||||| y\nb\n=======\nt\n>>>>>>> z\nc\n<<<<<<< x\n||||||| y\nb\n=======\n>>>>>>> z\n"
    )
    assert marked("f", data) == (
        Conflict("f", 2, ("b",), ("o1", "o2"), ("t",)),
        Conflict("f", 5, ("b",), (), ()),
    )


def test_markers_that_belong_to_the_text_are_text() -> None:
    """reStructuredText underlines its headings this way."""
    assert marked("f", b"Heading\n=======\n>>>>>>> quoted\n||||||| table\n<<<<<<< never closed\n") == ()


def test_three_way_tells_both_sides(bench: Store, make_tree: MakeTree) -> None:
    old, new = make_tree({"d/f": OLD}), make_tree({"d/f": OLD.replace(b"line 15\n", b"ours to add\n")})
    on = make_tree({"d/f": b"first\n" + OLD.replace(b"line 15\n", b"theirs already\n")})
    became = apply_diff(bench, on, bench.diff(old, new))
    assert became.outcome is Outcome.CONFLICTS
    assert became.conflicts == (Conflict("d/f", 16, ("line 15",), ("theirs already",), ("ours to add",)),)


def test_without_the_old_file_both_sides_come_from_hunk_and_tree(bench: Store, make_tree: MakeTree) -> None:
    old, new = make_tree({"f": OLD}), make_tree({"f": OLD.replace(b"line 15\n", b"LINE 15\n")})
    on = make_tree({"f": b"0\n" * 4 + OLD.replace(b"line 15\n", b"other 15\n")})
    data = bench.diff(old, new).replace(bench.entries(old)["f"].blob.encode(), b"1" * 40)
    (clash,) = apply_diff(bench, on, data).conflicts
    assert (clash.path, clash.line) == ("f", 16)
    assert clash.base == tuple(f"line {number}" for number in range(12, 19))
    assert clash.ours == tuple(f"{'other' if number == 15 else 'line'} {number}" for number in range(12, 19))
    assert clash.theirs[3] == "LINE 15"


def test_file_that_is_gone_is_said_to_be(bench: Store, make_tree: MakeTree) -> None:
    """A look-alike may always have been there: without the release it came from, nothing is merged into it."""
    old, new = make_tree({"f": OLD}), make_tree({"f": OLD.replace(b"line 15\n", b"LINE 15\n")})
    on = make_tree({"look/alike": OLD})
    became = apply_diff(bench, on, bench.diff(old, new))
    assert (became.outcome, became.tree) == (Outcome.CONFLICTS, on)
    assert became.conflicts == (Conflict("f", 0, (), ("the file is not there",), ()),)


def test_old_file_that_nobody_knows_cannot_be_merged(bench: Store, make_tree: MakeTree) -> None:
    from patchset import diff

    data = b"diff --git a/f b/f\nindex 1111111..2222222 100644\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    assert three_way(bench, make_tree({"f": b"x\n"}), data, diff.read(data, "x")) is None
