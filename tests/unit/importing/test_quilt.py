"""quilt's series file, and diffs of other tools put under the names that it declares."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from patchset import diff
from patchset.errors import DiffRefused
from patchset.importing import quilt

HUNK = b"@@ -1,3 +1,3 @@\n a\n--- b\n+++ b\n c\n"


def read(data: bytes, strip: int) -> tuple[bytes, int]:
    made = quilt.normalised(data, strip, "x")
    return made.data, made.files


def series(folder: Path, text: str) -> Path:
    for name in ("a.patch", "b.diff"):
        (folder / name).write_bytes(b"x\n")
    file = folder / "series"
    file.write_text(text, encoding="utf-8")
    return file


def test_series_has_levels_and_comments(tmp_path: Path) -> None:
    found = quilt.listed(
        series(tmp_path, "# all of it\n\na.patch # the first\nb.diff -p0\na.patch -p 2\nb.diff -p ab\n")
    )
    assert [(item.file.name, item.strip) for item in found] == [
        ("a.patch", 1),
        ("b.diff", 0),
        ("a.patch", 2),
        ("b.diff", 1),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("../a.patch", "leaves the folder"),
        ("/etc/passwd", "leaves the folder"),
        ("-p0", "leaves the folder"),
        ("c.patch", "not there"),
        ("\0", "not there"),
        ("x" * 5000, "not there"),
        ("loop.patch", "not there"),
        ("a.patch -R", "reversed"),
        ("a.patch -p1 -R", "reversed"),
        ("a.patch --fuzz=3", "only -pN"),
    ],
)
def test_line_of_a_series_that_cannot_be_followed_is_named(line: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "loop.patch").symlink_to("loop.patch")
    with pytest.raises(DiffRefused, match=words) as error:
        quilt.listed(series(tmp_path, f"a.patch\n{line}\n"))
    assert error.value.where == f"{tmp_path / 'series'}:2"


def test_series_with_windows_line_ends_is_read(tmp_path: Path) -> None:
    found = quilt.listed(series(tmp_path, "a.patch\r\n# no\r\nb.diff -p0\r\n\r\n"))
    assert [(item.file.name, item.strip) for item in found] == [("a.patch", 1), ("b.diff", 0)]


def test_name_that_is_no_text_is_found(tmp_path: Path) -> None:
    file = series(tmp_path, "")
    (tmp_path / os.fsdecode(b"\xff.patch")).write_bytes(b"x\n")
    file.write_bytes(b"\xff.patch\n")
    assert [os.fsencode(item.file.name) for item in quilt.listed(file)] == [b"\xff.patch"]


def test_patch_that_is_a_link_out_of_the_folder_is_refused_at_its_line(tmp_path: Path) -> None:
    folder = tmp_path / "patches"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"x\n")
    (folder / "out.patch").symlink_to("../secret")
    (folder / "dir").symlink_to(tmp_path)
    (folder / "in.patch").symlink_to("a.patch")
    assert len(quilt.listed(series(folder, "in.patch\n"))) == 1
    for name in ("out.patch", "dir/secret"):
        with pytest.raises(DiffRefused, match="link out of the folder") as error:
            quilt.listed(series(folder, f"a.patch\n{name}\n"))
        assert error.value.where == f"{folder / 'series'}:2" and error.value.next


@pytest.mark.parametrize(
    "moment", ["0001-01-01 00:00:00 +9900", "9999-12-31 23:59:59 -9900", "0000-00-00 00:00:00 +0000"]
)
def test_moment_that_is_none_is_not_the_epoch(moment: str) -> None:
    data = f"--- a\t{moment}\n+++ a\t{moment}\n@@ -0,0 +1 @@\n+x\n".encode()
    assert read(data, 0)[0] == b"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -0,0 +1 @@\n+x\n"


def test_series_of_too_many_patches_is_refused_and_not_cut(tmp_path: Path) -> None:
    with pytest.raises(DiffRefused, match="more than 2000 patches"):
        quilt.listed(series(tmp_path, "a.patch\n" * 2001))


@pytest.mark.parametrize(("strip", "prefix"), [(0, b""), (1, b"linux/"), (2, b"x/y/")])
def test_names_are_those_that_the_level_leaves(strip: int, prefix: bytes) -> None:
    data = b"Why.\n\nIndex: f\n=======================\n--- %sd/f\t2026-01-01 00:00:00\n+++ %sd/f\t(new)\n" % (
        prefix,
        prefix,
    )
    wanted = b"Why.\n\ndiff --git a/d/f b/d/f\n--- a/d/f\n+++ b/d/f\n" + HUNK
    assert read(data + HUNK, strip) == (wanted, 1)
    (file,) = diff.read(wanted, "x")
    assert file.hunks[0].old == (b"a\n", b"-- b\n", b"c\n")


EPOCH = b"\t1970-01-01 00:00:00.000000000 +0000"
ELSEWHERE = b"\t1969-12-31 19:00:00.000000000 -0500"


@pytest.mark.parametrize(
    ("old", "new", "hunk", "change"),
    [
        (b"/dev/null", b"b/f", b"@@ -0,0 +1 @@\n+x\n", "add"),
        (b"a/f" + EPOCH, b"b/f\t2026-01-01 00:00:00 +0000", b"@@ -0,0 +1 @@\n+x\n", "add"),
        (b"a/f" + ELSEWHERE, b"b/f", b"@@ -0,0 +1 @@\n+x\n", "add"),
        (b"a/f", b"/dev/null", b"@@ -1 +0,0 @@\n-x\n", "delete"),
        (b"a/f", b"b/f" + EPOCH, b"@@ -1 +0,0 @@\n-x\n", "delete"),
        (b"a/f\t2026-01-01 00:00:00 +0000", b"b/f", b"@@ -0,0 +1 @@\n+x\n", "modify"),
        (b"a/f" + EPOCH, b"b/f", b"@@ -1 +1 @@\n-x\n+y\n", "modify"),
    ],
)
def test_file_is_made_or_deleted_where_the_diff_says_so(old: bytes, new: bytes, hunk: bytes, change: str) -> None:
    data, files = read(b"--- " + old + b"\n+++ " + new + b"\n" + hunk, 1)
    assert files == 1
    assert [file.change for file in diff.read(data, "x")] == [change]


@pytest.mark.parametrize(
    ("data", "strip", "words"),
    [
        (b"--- f.old\n+++ f\n" + HUNK, 0, "not one file's"),
        (b"--- a/f.orig\n+++ b/f\n" + HUNK, 1, "not one file's"),
        (b"--- a/f\n+++ b/f\n" + HUNK, 0, "not one file's"),
        (b"--- f\n+++ f\n" + HUNK, 1, "no path"),
        (b"--- a//f\n+++ b//f\n" + HUNK, 1, "no path"),
        (b'--- "a/f"\n+++ "b/f"\n' + HUNK, 1, "quoted"),
        (b"diff --git a/f b/f\n--- a/f\n+++ b/f\n" + HUNK, 0, "prefixes"),
        (b"diff --git a/f b/f\n--- a/f\n+++ b/f\n" + HUNK, 2, "git's own"),
    ],
)
def test_names_that_the_level_does_not_explain_are_refused(data: bytes, strip: int, words: str) -> None:
    with pytest.raises(DiffRefused, match=words) as error:
        quilt.normalised(b"text\n" + data, strip, "x")
    assert error.value.where == "x:2" and error.value.next


def test_path_that_leaves_the_tree_stays_refused() -> None:
    data, _ = read(b"--- ../f\n+++ ../f\n" + HUNK, 0)
    with pytest.raises(DiffRefused, match=r"\.\."):
        diff.read(data, "x")


def test_git_s_own_diff_is_left_as_it_is() -> None:
    data = b"diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n" + HUNK + b"-- \n2.39\n"
    assert read(data, 1) == (data, 0)


def test_git_s_diff_without_prefixes_gets_them_where_p0_is_declared() -> None:
    data = b"diff --git d/f d/f\n--- d/f\n+++ d/f\n" + HUNK
    moved = b'diff --git "x\\ty" n\nsimilarity index 100%\nrename from "x\\ty"\nrename to n\n'
    out, files = read(data + moved, 0)
    assert files == 2
    assert [(file.change, file.old_path, file.new_path) for file in diff.read(out, "x")] == [
        ("modify", b"d/f", b"d/f"),
        ("rename", b"x\ty", b"n"),
    ]


def test_lines_are_known_by_where_they_came_from() -> None:
    made = quilt.normalised(b"why\nIndex: f\n============\n--- f\n+++ f\n" + HUNK + b"rest\n", 0, "x")
    lines = made.data.split(b"\n")
    assert len(lines) == len(made.origins)
    assert made.origins[lines.index(b"rest")] == 10


def test_levels_that_can_be_read_are_offered() -> None:
    assert quilt.levels(b"--- a/f\n+++ b/f\n" + HUNK, "x") == [1]
    assert quilt.levels(b"--- f\n+++ f\n" + HUNK, "x") == [0]
    assert quilt.levels(b"--- d/f\n+++ d/f\n" + HUNK, "x") == [1, 0]
    assert quilt.levels(b"text\n", "x") == []


@pytest.mark.skipif(not shutil.which("quilt"), reason="quilt is not installed")
@pytest.mark.parametrize("level", ["0", "1", "ab"])
def test_what_quilt_itself_writes_is_read(level: str, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"a\nb\nc\n")
    (tmp_path / "gone").write_bytes(b"x\n")

    def run(*words: str) -> None:
        subprocess.run(["quilt", "--quiltrc", "-", *words], cwd=tmp_path, check=True, capture_output=True)

    run("new", "one.patch")
    run("add", "d/f", "gone", "made")
    (tmp_path / "d" / "f").write_bytes(b"a\nB\nc\n")
    (tmp_path / "gone").unlink()
    (tmp_path / "made").write_bytes(b"y\n")
    run("refresh", "-p", level)
    (item,) = quilt.listed(tmp_path / "patches" / "series")
    made = quilt.normalised(item.file.read_bytes(), item.strip, "one.patch")
    found = {file.path: file.change for file in diff.read(made.data, "one.patch")}
    assert found == {b"d/f": "modify", b"gone": "delete", b"made": "add"}
    assert made.files == 3
