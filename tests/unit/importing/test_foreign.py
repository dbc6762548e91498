"""Patches as others keep them, read strictly, their diffs byte for byte; and what is turned away, at its line."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path

import pytest

from patchset.errors import DiffRefused
from patchset.importing import foreign

ONE = (
    b"diff --git a/f.py b/f.py\nindex %s..%s 100644\n--- a/f.py\n+++ b/f.py\n@@ -1,3 +1,3 @@\n a\xff\r\n-b\n+B\x0c\n c\n"
    % (b"1" * 40, b"2" * 40)
)
TWO = b"diff --git a/g b/g\nnew file mode 100755\n--- /dev/null\n+++ b/g\n@@ -0,0 +1,2 @@\n+-- \n+x\n\\ No newline at end of file\n"
MOVED = b"diff --git a/h b/i\nsimilarity index 100%\nrename from h\nrename to i\n"
PLAIN = b"--- f.py\n+++ f.py\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
MAIL = (
    b"From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"
    b"From: =?UTF-8?q?J=C3=B6rg?= <j@x>\nDate: Tue, 1 Dec 2026 10:00:00 +0200\nSubject: [PATCH 1/2] Mend\n it\n"
    b"\nBecause it broke.\n\n---\n f.py | 2 +-\n 1 file changed\n\n"
)
COVER = MAIL.replace(b"[PATCH 1/2] Mend\n it", b"[PATCH 0/2] All").replace(
    b"---\n f.py", b"Somebody (1):\n  Mend\n\n f.py"
)
SIGNATURE = b"-- \n2.39.5\n\n"


@pytest.fixture
def source(tmp_path: Path) -> Callable[..., Path]:
    """Files by name → the folder; one unnamed file → that file."""

    def write(data: bytes = b"", **files: bytes) -> Path:
        folder = tmp_path / "source"
        folder.mkdir()
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_bytes(content)
        if data:
            (folder / "one.patch").write_bytes(data)
            return folder / "one.patch"
        return folder

    return write


def test_mail_becomes_its_diff_byte_for_byte_and_what_its_header_says(source: Callable[..., Path]) -> None:
    data = MAIL + ONE + TWO + MOVED + SIGNATURE
    (item,) = foreign.read(source(data)).patches
    assert item.data == ONE + TWO + MOVED
    assert (item.title, item.message, item.author) == ("Mend it", "Because it broke.", "Jörg <j@x>")
    assert item.date == datetime(2026, 12, 1, 8, tzinfo=timezone.utc)
    assert (item.origin, item.sha256, item.note) == ("one.patch", sha256(data).hexdigest(), "")
    assert [file.path for file in item.files] == [b"f.py", b"g", b"i"]


def test_last_hunk_that_ends_like_a_signature_is_kept_whole(source: Callable[..., Path]) -> None:
    ends = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,3 +1,2 @@\n a\n-- \n b\n"
    assert foreign.read(source(ends)).patches[0].data == ends


def test_mbox_gives_its_patches_in_order_and_says_what_it_leaves_out(source: Callable[..., Path]) -> None:
    data = COVER + MAIL + ONE + SIGNATURE + MAIL.replace(b"1/2] Mend", b"2/2] End") + TWO + SIGNATURE
    series = foreign.read(source(data))
    assert [(item.title, item.data, item.origin) for item in series.patches] == [
        ("Mend it", ONE, "one.patch, mail 2"),
        ("End it", TWO, "one.patch, mail 3"),
    ]
    assert series.skipped == ("one.patch, mail 1 (All): no diff in it, so it is a cover letter or talk",)


def test_bare_diff_has_its_first_line_or_its_name_as_title(source: Callable[..., Path]) -> None:
    folder = source(a__diff=b"# Why so\n\nMore.\n" + ONE, b__patch=TWO)
    first, second = foreign.read(folder).patches
    assert (first.title, first.message, first.data) == ("Why so", "# Why so\n\nMore.", ONE)
    assert (second.title, second.message, second.date, second.data) == ("b", "", None, TWO)


def test_folder_is_read_in_the_order_of_names_and_other_files_are_named(source: Callable[..., Path]) -> None:
    folder = source(b__patch=TWO, a__diff=ONE, README=b"x", **{"0000-cover__patch": COVER})
    (folder / "d.patch").mkdir()
    series = foreign.read(folder)
    assert [item.origin for item in series.patches] == ["a.diff", "b.patch"]
    assert [line.split(":")[0] for line in series.skipped] == [
        "README",
        "d.patch",
        "0000-cover.patch (All)",
    ]


def test_quilt_folder_is_read_as_its_series_declares(source: Callable[..., Path]) -> None:
    folder = source(a__patch=b"Index: f.py\n===================\n" + PLAIN, b__patch=ONE, left__patch=b"not listed")
    (folder / "patches").mkdir()
    for name in ("a.patch", "b.patch", "left.patch"):
        (folder / name).rename(folder / "patches" / name)
    (folder / "patches" / "series").write_bytes(b"# ours\nb.patch\na.patch -p0\n")
    first, second = foreign.read(folder).patches
    assert (first.data, first.note) == (ONE, "")
    assert second.data == b"diff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py\n" + PLAIN.split(b"\n", 2)[2]
    assert "declared -p0; 1 files" in second.note


def test_parts_are_the_sections_of_the_diff_and_nothing_is_lost(source: Callable[..., Path]) -> None:
    (item,) = foreign.read(source(MAIL + ONE + TWO + MOVED + SIGNATURE)).patches
    parts = foreign.parts(item)
    assert [part.data for part in parts] == [ONE, TWO, MOVED]
    assert [(part.title, len(part.files)) for part in parts] == [
        ("Mend it: f.py", 1),
        ("Mend it: g", 1),
        ("Mend it: i", 1),
    ]


COPY = b"diff --git a/f.py b/z.py\nsimilarity index 90%\ncopy from f.py\ncopy to z.py\n"


def test_parts_copy_before_the_source_changes_and_keep_a_file_together(source: Callable[..., Path]) -> None:
    gone = b"diff --git a/l b/l\ndeleted file mode 100644\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    link = b"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+f.py\n\\ No newline at end of file\n"
    (item,) = foreign.read(source(ONE + gone + link + MOVED + COPY)).patches
    assert [part.data for part in foreign.parts(item)] == [COPY, ONE, gone + link, MOVED]


def test_talk_between_the_mails_is_left_out_by_name(source: Callable[..., Path]) -> None:
    talk = (
        MAIL.replace(b"[PATCH 1/2] Mend\n it", b"Re: \x1b[31m it")
        + b"--- Original message\ndiff is fine\n> diff --git a/x b/x\n"
    )
    series = foreign.read(source(talk + MAIL + ONE + SIGNATURE))
    assert [item.origin for item in series.patches] == ["one.patch, mail 2"]
    assert series.skipped == ("one.patch, mail 1 (Re: �[31m it): no diff in it, so it is a cover letter or talk",)


@pytest.mark.parametrize(
    "more",
    [
        PLAIN,
        b"*** f.py\n--- f.py\n***************\n",
        b"@@ -1 +1 @@\n",
        b"diff -r x y\n",
        b"Index: f.py\n",
        b"diff --cc f\n",
    ],
)
def test_mail_with_anything_like_a_diff_is_not_taken_for_talk(more: bytes, source: Callable[..., Path]) -> None:
    with pytest.raises(DiffRefused):
        foreign.read(source(MAIL + more + SIGNATURE + MAIL + ONE))


def test_quoted_line_of_an_mboxrd_starts_no_mail(source: Callable[..., Path]) -> None:
    said = MAIL.replace(b"Because it broke.", b"Because:\n>From a@x Tue Dec  1 10:00:00 2026\n>>From b")
    (item,) = foreign.read(source(said + ONE + SIGNATURE)).patches
    assert item.message == "Because:\n>From a@x Tue Dec  1 10:00:00 2026\n>>From b" and item.data == ONE


def test_names_that_are_no_text_are_told_as_text(source: Callable[..., Path]) -> None:
    folder = source()
    for name, data in ((b"a\xff\x1b.patch", ONE), (b"b\n\xfe", b"")):
        (folder / os.fsdecode(name)).write_bytes(data)
    series = foreign.read(folder)
    assert [(item.title, item.origin) for item in series.patches] == [("a��", "a��.patch")]
    assert [line.partition(":")[0] for line in series.skipped] == ["b �"]


@pytest.mark.parametrize("declared", [False, True])
def test_link_out_of_the_folder_is_refused(declared: bool, source: Callable[..., Path], tmp_path: Path) -> None:
    folder = source(b__patch=ONE)
    (tmp_path / "secret").write_bytes(b"b.patch\n" if declared else ONE)
    (folder / ("series" if declared else "a.patch")).symlink_to(tmp_path / "secret")
    with pytest.raises(DiffRefused, match="link out of the folder") as error:
        foreign.read(folder)
    assert error.value.where == str(folder / ("series" if declared else "a.patch")) and error.value.next


def test_more_patches_than_the_bound_are_refused_and_not_cut(
    source: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = source(**{f"{number}__patch": ONE for number in range(4)})
    monkeypatch.setattr(foreign, "FILES_LIMIT", 4)
    assert len(foreign.read(folder).patches) == 4
    monkeypatch.setattr(foreign, "FILES_LIMIT", 3)
    with pytest.raises(DiffRefused, match="more than 3 patches"):
        foreign.read(folder)
    monkeypatch.setattr(foreign, "FILES_LIMIT", 4)
    monkeypatch.setattr(foreign, "SIZE_LIMIT", 2 * len(ONE))
    with pytest.raises(DiffRefused, match="larger than") as error:
        foreign.read(folder)
    assert error.value.where.endswith("2.patch")
    monkeypatch.setattr(foreign, "SIZE_LIMIT", 10_000)
    (folder / "0.patch").write_bytes(5 * (MAIL + ONE))
    with pytest.raises(DiffRefused, match="more than 4 patches"):
        foreign.read(folder / "0.patch")
    monkeypatch.setattr(foreign, "SKIPPED_LIMIT", 2)
    (folder / "0.patch").write_bytes(4 * COVER + MAIL + ONE)
    with pytest.raises(DiffRefused, match="or 2 mails"):
        foreign.read(folder / "0.patch")


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"", 1, "empty"),
        (b"text\n", 1, "no diff"),
        (ONE[:-1], 9, "final newline"),
        (b"\xef\xbb\xbf" + MOVED + ONE, 1, "byte order mark"),
        (b"\x1b[1mdiff --git a/x b/x\x1b[m\n" + ONE, 1, "colour"),
        (ONE.replace(b"-1,3", b"-1,4"), 5, "fewer lines"),
        (ONE.replace(b"b/f.py", b"b/../f.py").replace(b"a/f.py", b"a/../f.py"), 1, r"'\.\.'"),
        (MAIL + ONE.replace(b"+1,3 @@", b"+1,2 @@") + SIGNATURE, 17, "add up"),
        (MAIL + ONE + SIGNATURE + MAIL + ONE.replace(b"+1,3 @@", b"+1,2 @@"), 41, "add up"),
        (MAIL.replace(b"Subject", b"Content-Transfer-Encoding: base64\nSubject") + b"ZGlmZg==\n", 4, "base64"),
        (MAIL + b"From x@y Mon Sep 17 00:00:00 2001\n" + ONE, 13, "no header"),
        (MAIL.replace(b"\n", b"\r\n") + ONE.replace(b"\n", b"\r\n"), 13, "CRLF"),
        (PLAIN, 1, "without its `diff --git` line"),
        (ONE.replace(b"a/f.py", b"f.py").replace(b"b/f.py", b"f.py"), 1, "prefix"),
    ],
)
def test_what_the_strict_reader_refuses_is_refused_at_its_line(
    data: bytes, line: int, words: str, source: Callable[..., Path]
) -> None:
    file = source(data) if data else source(one__patch=b"") / "one.patch"
    with pytest.raises(DiffRefused, match=words) as error:
        foreign.read(file)
    assert error.value.where == f"{file}:{line}" and error.value.next


def test_diff_of_another_tool_is_refused_with_the_way_in(source: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(DiffRefused) as error:
        foreign.read(source(PLAIN))
    assert "`one.patch -p0`" in error.value.next and "`series`" in error.value.next
    odd = tmp_path / "source" / "my fix #1.patch"
    odd.write_bytes(PLAIN)
    with pytest.raises(DiffRefused) as error:
        foreign.read(odd)
    assert "renamed to my_fix_1.patch" in error.value.next


def test_advice_of_a_refusal_is_the_way_in(source: Callable[..., Path]) -> None:
    folder = source(a__patch=PLAIN, series=b"a.patch -p0\n")
    assert foreign.read(folder).patches[0].data.endswith(PLAIN[PLAIN.index(b"@@") :])


def test_line_of_a_refusal_is_that_of_the_file_also_where_headers_were_added(source: Callable[..., Path]) -> None:
    folder = source(
        a__patch=b"why\nIndex: f.py\n===================\n" + PLAIN.replace(b"+1,3", b"+1,9"), series=b"a.patch -p0\n"
    )
    with pytest.raises(DiffRefused) as error:
        foreign.read(folder)
    assert error.value.where == f"{folder / 'a.patch'}:6"


def test_nothing_to_import_says_what_was_there(source: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DiffRefused, match="no diff in it") as error:
        foreign.read(tmp_path / "empty")
    assert error.value.where == str(tmp_path / "empty")
    with pytest.raises(DiffRefused, match="cover letter"):
        foreign.read(source(COVER))
    with pytest.raises(DiffRefused, match="no such file"):
        foreign.read(tmp_path / "nowhere")


def test_file_beyond_the_bound_is_not_read(source: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "SIZE_LIMIT", 10)
    with pytest.raises(DiffRefused, match="larger than 10 bytes"):
        foreign.read(source(ONE))
