"""What stands behind the strict reader: git's and unidiff's readings, and the tree itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patchset import diff, diff_check
from patchset.errors import DiffRefused
from patchset.outcome import Outcome, apply_diff
from patchset.store import Store

BODY = b"@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"
BINARY = b"diff --git a/g b/g\nnew file mode 100644\nindex %s..%s\nGIT binary patch\n" % (b"0" * 40, b"1" * 40)


def patch(body: bytes = BODY) -> bytes:
    return b"diff --git a/f b/f\n--- a/f\n+++ b/f\n" + body


def test_cross_check_refuses_when_git_counts_otherwise() -> None:
    files = diff.read(patch(), "x.patch")
    diff_check.cross_check(files, [("1", "1", "f")], patch(), "x.patch")
    with pytest.raises(DiffRefused, match="git reads this diff differently: f"):
        diff_check.cross_check(files, [("2", "1", "f")], patch(), "x.patch")


def test_cross_check_refuses_when_git_names_another_file() -> None:
    with pytest.raises(DiffRefused, match="f, g"):
        diff_check.cross_check(diff.read(patch(), "x.patch"), [("1", "1", "g")], patch(), "x.patch")


def test_cross_check_refuses_when_unidiff_counts_otherwise() -> None:
    more = patch(BODY + b"@@ -9 +9 @@\n-a\n+b\n")
    with pytest.raises(DiffRefused, match="unidiff counts"):
        diff_check.cross_check(diff.read(patch(), "x.patch"), [("1", "1", "f")], more, "x.patch")


def test_cross_check_refuses_when_git_does_not_see_a_binary_file() -> None:
    """A damaged binary patch can make git pass over the rest of it with status 0."""
    data = patch() + BINARY + b"literal 0\nHcmV?d00001\n\nliteral 0\nHcmV?d00001\n\n"
    files = diff.read(data, "x.patch")
    diff_check.cross_check(files, [("1", "1", "f"), ("-", "-", "g")], data, "x.patch")
    with pytest.raises(DiffRefused, match="git reads this diff differently: g"):
        diff_check.cross_check(files, [("1", "1", "f")], data, "x.patch")


def test_link_that_a_rename_moves_out_of_the_tree_is_refused(
    bench: Store, make_tree: Callable[..., str], tmp_path: Path
) -> None:
    """The diff does not say that it is a link: only the tree does."""
    file = tmp_path / "x.patch"
    file.write_bytes(b"diff --git a/d/l b/l\nsimilarity index 100%\nrename from d/l\nrename to l\n")
    with pytest.raises(DiffRefused, match="leaves the tree") as refusal:
        apply_diff(bench, make_tree({"d/l": ("120000", b"../f"), "f": b"x\n"}), file)
    assert refusal.value.where.endswith("x.patch:1")


def test_file_behind_a_link_of_the_tree_is_not_written(
    bench: Store, make_tree: Callable[..., str], tmp_path: Path
) -> None:
    tree = make_tree({"l": ("120000", b"d"), "d/f": b"x\n"})
    file = tmp_path / "x.patch"
    file.write_bytes(b"diff --git a/l/g b/l/g\nnew file mode 100644\n--- /dev/null\n+++ b/l/g\n@@ -0,0 +1 @@\n+x\n")
    became = apply_diff(bench, tree, file)
    assert (became.outcome, became.tree) == (Outcome.CONFLICTS, tree)
