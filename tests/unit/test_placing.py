"""Where hunks fit: by git's own rule for the ends of a file."""

from __future__ import annotations

import pytest

from patchset import diff
from patchset.placing import Place, places

HEAD = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n"


def place(body: bytes, data: bytes | None, head: bytes = HEAD) -> Place:
    (found,) = places(diff.read(head + body, "x.patch"), lambda path: data)
    return found


MIDDLE = b"@@ -2,3 +2,3 @@\n a\n-b\n+B\n c\n"


@pytest.mark.parametrize(
    ("body", "data", "fits", "done"),
    [
        (MIDDLE, b"0\na\nb\nc\n", (2,), ()),
        (MIDDLE, b"0\n0\n0\na\nb\nc\n", (4,), ()),
        (MIDDLE, b"0\na\nb\nc\na\nb\nc\n", (2, 5), ()),
        (MIDDLE, b"0\na\nB\nc\n", (), (2,)),
        (MIDDLE, b"0\na\nB\nc\na\nb\nc\n", (5,), (2,)),
        (MIDDLE, b"0\na\nx\nc\n", (), ()),
        (MIDDLE, b"0\na\nb\nc", (), ()),  # the last line has no newline: it is another line
        (MIDDLE, b"0\na\r\nb\r\nc\r\n", (), ()),
        (MIDDLE, b"", (), ()),
        (b"@@ -1,2 +1,2 @@\n-a\n+A\n b\n", b"a\nb\na\nb\n", (1,), ()),  # from line 1: only at the start
        (b"@@ -1,2 +1,2 @@\n-a\n+A\n b\n", b"0\na\nb\n", (), ()),
        (b"@@ -2,2 +2,3 @@\n a\n b\n+c\n", b"a\nb\na\nb\n", (3,), ()),  # no context behind: only at the end
        (b"@@ -2,2 +2,3 @@\n a\n b\n+c\n", b"a\nb\n0\n", (), ()),
        (b"@@ -1,2 +1,3 @@\n a\n b\n+c\n", b"a\nb\n", (1,), ()),
        (b"@@ -1,2 +1,3 @@\n a\n b\n+c\n", b"a\nb\n0\n", (), ()),  # both ends: the whole file
    ],
)
def test_a_hunk_fits_where_git_would_take_it(
    body: bytes, data: bytes, fits: tuple[int, ...], done: tuple[int, ...]
) -> None:
    found = place(body, data)
    assert (found.fits, found.done, found.missing) == (fits, done, False)


def test_missing_file_is_told_from_one_without_the_lines() -> None:
    assert place(MIDDLE, None).missing


def test_new_file_fits_where_there_is_none_and_is_done_where_it_stands() -> None:
    head, body = b"diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n", b"@@ -0,0 +1 @@\n+x\n"
    found = [place(body, data, head) for data in (None, b"x\n", b"y\n")]
    assert [(item.fits, item.done, item.missing) for item in found] == [
        ((0,), (), False),
        ((), (1,), False),
        ((), (), False),
    ]


def test_offset_is_to_the_nearest_place() -> None:
    assert place(MIDDLE, b"a\nb\nc\n0\n0\n0\n0\na\nb\nc\n").offset == -1
