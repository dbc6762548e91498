"""The strict reader: kinds of input that the nasty cases do not hold, each with the line and the rule it must name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_diffs import BODY, new_file, patch

from patchset import diff
from patchset.diff import FileDiff
from patchset.errors import DiffRefused
from patchset.outcome import Outcome, apply_diff
from patchset.store import Store

#: name → (diff, line it must be refused at, words that the rule must hold)
REFUSED = {
    # hunks
    "count one too small": (patch(body=BODY.replace(b"-1,3 +1,3", b"-1,2 +1,2")), 8, "no file's diff"),
    "count one too great": (patch(body=BODY.replace(b"-1,3 +1,3", b"-1,4 +1,4")), 4, "fewer lines"),
    "new count wrong only": (patch(body=BODY.replace(b"+1,3", b"+1,2")), 4, "counts"),
    "number over 2**31": (patch(body=BODY.replace(b"-1,3", b"-2147483648,3")), 4, "2**31"),
    "count over 2**31": (patch(body=BODY.replace(b"-1,3", b"-1,99999999999")), 4, "2**31"),
    "number of five thousand digits": (patch(body=BODY.replace(b"-1,3", b"-1" + b"0" * 5000 + b",3")), 4, "2**31"),
    "negative number": (patch(body=BODY.replace(b"-1,3", b"--1,3")), 4, "hunk header"),
    "header cut short": (patch(body=BODY.replace(b" @@\n", b"\n", 1)), 4, "hunk header"),
    "line 0 with lines": (patch(body=BODY.replace(b"-1,3", b"-0,3")), 4, "line 0"),
    "hunk of context only": (patch(body=b"@@ -1,2 +1,2 @@\n one\n two\n"), 4, "changes nothing"),
    "hunks out of order": (patch(body=b"@@ -9 +9 @@\n-a\n+b\n@@ -1 +1 @@\n-a\n+b\n"), 7, "out of order"),
    "hunks over each other": (patch(body=BODY + b"@@ -3 +3 @@\n-three\n+x\n"), 9, "out of order"),
    "insertion without context in the middle": (patch(body=b"@@ -5,0 +6 @@\n+x\n"), 4, "-U0"),
    "insertion without context behind the first line": (patch(body=b"@@ -1,0 +2 @@\n+x\n"), 4, "-U0"),
    # taken back, it is an insertion without context, and git would put it at the end of any file
    "deletion without context": (patch(body=b"@@ -2 +1,0 @@\n-x\n"), 4, "a deletion without context"),
    "second hunk in an empty file": (new_file(b"f") + b"@@ -0,0 +1 @@\n+y\n", 7, "out of order"),
    "line behind the last one of its side": (
        patch(body=b"@@ -1 +1,2 @@\n-x\n+y\n\\ No newline at end of file\n+z\n"),
        8,
        "marked as the last",
    ),
    "hunk behind the end of the file": (
        patch(body=b"@@ -1 +1 @@\n-x\n+y\n\\ No newline at end of file\n@@ -9 +9 @@\n-x\n+y\n"),
        8,
        "end of the file",
    ),
    "marker without a line before it": (
        patch(body=b"@@ -1 +1 @@\n\\ No newline at end of file\n-x\n+y\n"),
        5,
        "marker",
    ),
    "marker twice": (patch(body=b"@@ -1 +1 @@\n-x\n+y\n" + b"\\ No newline at end of file\n" * 2), 8, "marker"),
    # git takes it inside a hunk, and ignores it as the last line of the diff
    "marker of eleven letters": (patch(body=b"@@ -1 +1 @@\n-x\n+y\n\\ No nefile\n"), 7, "too short"),
    "blank context line of a CRLF file, stripped to its CR": (patch(body=b"@@ -1,2 +1 @@\n-x\r\n\r\n"), 6, "none of"),
    "number over 2**31 on the new side": (patch(body=BODY.replace(b"+1,3", b"+2147483648,3")), 4, "2**31"),
    "stray sign in a hunk": (patch(body=BODY.replace(b" three", b"three")), 8, "none of"),
    "combined hunk": (patch(body=b"@@@ -1 -1 +1 @@@\n--a\n++b\n"), 4, "combined"),
    "new file with old lines": (new_file(b"f").replace(b"-0,0 +1 @@\n", b"-1 +1 @@\n-y\n"), 1, "new file"),
    "deleted file with new lines": (
        b"diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +1 @@\n-x\n+y\n",
        1,
        "deleted",
    ),
    "hunk without names": (patch(b"diff --git a/f b/f\nindex 1111111..2222222 100644\n"), 1, "without `---`"),
    "old name without new name": (b"diff --git a/f b/f\n--- a/f\n@@ -1 +1 @@\n-x\n+y\n", 3, "without `+++`"),
    # names
    "names that disagree in the header": (patch(b"diff --git a/f b/g\n--- a/f\n+++ b/g\n"), 1, "disagree"),
    "old name other than the header's": (patch(b"diff --git a/f b/f\n--- a/g\n+++ b/f\n"), 1, "name a/g"),
    "new name other than the header's": (patch(b"diff --git a/f b/f\n--- a/f\n+++ b/g\n"), 1, "name b/g"),
    "name with a date behind it": (
        patch(b"diff --git a/f b/f\n--- a/f\t2026-01-01\n+++ b/f\t2026-01-01\n"),
        1,
        "control character",
    ),
    "new file whose old name is not /dev/null": (new_file(b"f").replace(b"--- /dev/null", b"--- a/f"), 1, "/dev/null"),
    "modified file whose new name is /dev/null": (
        patch(b"diff --git a/f b/f\n--- a/f\n+++ /dev/null\n"),
        1,
        "name /dev/null",
    ),
    "rename that names others than its header": (
        b"diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to h\n",
        1,
        "disagree",
    ),
    "rename from without rename to": (
        b"diff --git a/f b/g\nsimilarity index 100%\nrename from f\n",
        1,
        "without rename to",
    ),
    "no prefix, no hunk": (b"diff --git f f\nold mode 100644\nnew mode 100755\n", 1, "prefixes"),
    "index and worktree prefixes": (patch(b"diff --git i/f w/f\n--- i/f\n+++ w/f\n"), 1, "mnemonic"),
    # the file as a whole
    "zero bytes": (b"", 1, "empty"),
    "no final newline": (patch()[:-1], 8, "final newline"),
    "byte order mark": (b"\xef\xbb\xbf" + patch(), 1, "byte order mark"),
    "UTF-16 little endian": (b"\xff\xfe" + patch().decode().encode("utf-16-le"), 1, "UTF-16"),
    "context diff": (b"*** a/f\n--- b/f\n***************\n*** 1 ****\n! x\n--- 1 ----\n! y\n", 1, "context"),
    "combined diff of a merge": (
        b"diff --cc f\nindex 1,2..3\n--- a/f\n+++ b/f\n@@@ -1 -1 +1 @@@\n++x\n",
        1,
        "combined",
    ),
    "mail in quoted-printable": (
        b"Subject: x\nContent-Transfer-Encoding: quoted-printable\n\n" + patch(),
        2,
        "encoding",
    ),
    "diff in the message": (b"Subject: x\n\n" + patch() + b"\nabove is wrong\n---\n" + patch(), 11, "no file's diff"),
    "blank lines only": (b"\n\n", 1, "no diff"),
    "context diff behind a real one": (patch() + b"*** a/g\n--- b/g\n", 9, "no file's diff"),
    "bare unified diff without its git header": (b"--- a/f\n+++ b/f\n" + BODY, 1, "diff --git"),
    "Subversion diff": (b"Index: f\n=====\n--- f\n+++ f\n" + BODY, 1, "diff --git"),
    "output of diff -r": (b"diff -ru a/f b/f\n--- a/f\n+++ b/f\n" + BODY, 1, "diff --git"),
    "ed script with a range": (b"1,2d\n", 1, "ed diff"),
    "UTF-16 big endian": (b"\xfe\xff" + patch().decode().encode("utf-16-be"), 1, "UTF-16"),
    "UTF-16 without its mark": (patch().decode().encode("utf-16-le"), None, ""),
    "combined diff by name": (b"diff --combined f\nindex 1,2..3\n", 1, "combined"),
    "colours in the header only": (b"\x1b[1mdiff --git a/f b/f\x1b[m\n", 1, "colour"),
    "CRLF in a hunk header only": (patch(body=BODY.replace(b" @@\n", b" @@\r\n", 1)), 4, "CRLF"),
    "CRLF behind a hunk's heading only": (patch(body=BODY.replace(b" @@\n", b" @@ def f():\r\n", 1)), 4, "CRLF"),
    "CRLF in an extended header only": (b"diff --git a/f b/f\nold mode 100644\r\nnew mode 100755\n", 2, "CRLF"),
    "CRLF in a name only": (patch(b"diff --git a/f b/f\n--- a/f\r\n+++ b/f\n"), 2, "CRLF"),
    "two mails in one file": (
        b"From %s Mon Sep 17 00:00:00 2001\nSubject: x\n\nFrom %s Mon\n" % (b"1" * 40, b"2" * 40) + patch(),
        4,
        "mail",
    ),
    "mail separator of a person's in the message": (
        b"From %s Mon Sep 17 00:00:00 2001\nSubject: x\n\nFrom me@x Mon Sep 17 00:00:00 2001\n" % (b"1" * 40) + patch(),
        4,
        "mail",
    ),
    "second mail behind the signature": (
        patch() + b"-- \n2.39\n\nFrom %s Mon\nSubject: y\n\n" % (b"1" * 40) + patch(),
        9,
        "no file's diff",
    ),
    "hunk header in the message": (b"Subject: x\n\n@@ -1 +1 @@\n\n" + patch(), 3, "diff --git"),
    "name line in the message": (b"Subject: x\n\n+++ b/g\n\n" + patch(), 3, "diff --git"),
    "binary patch without data": (
        b"diff --git a/f b/f\nindex 1111111..2222222 100644\nGIT binary patch\n\n",
        4,
        "without its data",
    ),
    "binary differ inside": (
        b"diff --git a/f b/f\nindex 1..2 100644\n".replace(b"1..2", b"1111111..2222222")
        + b"Binary files a/f and b/f differ\n",
        3,
        "without the data",
    ),
}


@pytest.mark.parametrize("name", ["--directory=x.patch", "p/-R", "-"])
def test_a_patch_file_called_like_an_option_is_refused(name: str) -> None:
    with pytest.raises(DiffRefused, match="looks like an option") as refusal:
        diff.read(patch(), name)
    assert (refusal.value.where, refusal.value.next) == (f"{name}:1", "rename the file")


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_line_and_rule(name: str) -> None:
    data, line, words = REFUSED[name]
    with pytest.raises(DiffRefused) as refusal:
        diff.read(data, "x.patch")
    assert words in refusal.value.what
    assert line is None or refusal.value.where == f"x.patch:{line}"
    assert refusal.value.next


def test_bounds_are_refused_just_above_and_not_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff, "BYTES_LIMIT", len(patch()))
    assert diff.read(patch(), "x.patch")
    with pytest.raises(DiffRefused, match="larger than"):
        diff.read(b"\n" + patch(), "x.patch")


def test_a_line_over_its_bound_is_named() -> None:
    long = patch(body=BODY.replace(b"TWO", b"x" * diff.LINE_LIMIT))
    with pytest.raises(DiffRefused, match="a line of more than") as refusal:
        diff.read(long, "x.patch")
    assert refusal.value.where == "x.patch:7"


@pytest.mark.parametrize(
    ("prefixes", "setting"),
    [
        (("", ""), "diff.noprefix"),
        *((pair, "diff.mnemonicPrefix") for pair in (("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("1/", "2/"))),
    ],
)
def test_other_prefixes_name_the_setting_as_the_remedy(prefixes: tuple[str, str], setting: str) -> None:
    with pytest.raises(DiffRefused) as refusal:
        diff.read(patch("diff --git {0}f {1}f\n--- {0}f\n+++ {1}f\n".format(*prefixes).encode()), "x.patch")
    assert setting in refusal.value.next
    assert "--src-prefix=a/" in refusal.value.next


# -- accepted, and kept as they are -------------------------------------------------------------------------------------

LINES = b"".join(b"line %d\n" % number for number in range(1, 21))

#: name → (old files, new files): git makes the diff, and it must bring the one to the other.
ACCEPTED = {
    "form feed, U+2028 and NEL in lines": (
        {"f": b"a\x0cb\n" + LINES},
        {"f": b"a\x0cb\nx\x0c\xe2\x80\xa8y\xc2\x85z\x1c\x1d\n" + LINES},
    ),
    "lone CR in a changed line": ({"f": b"a\rb\n" + LINES}, {"f": b"a\rB\rc\n" + LINES}),
    "Latin-1 in lines": ({"f": LINES}, {"f": b"\xe4\xf6\xfc\n" + LINES}),
    "escape codes in lines": ({"f": LINES}, {"f": b"\x1b[31mred\x1b[m\n" + LINES}),
    "CRLF file": (
        {"f": LINES.replace(b"\n", b"\r\n")},
        {"f": LINES.replace(b"\n", b"\r\n").replace(b"line 9\r", b"LINE 9\r")},
    ),
    "newline at the end goes": ({"f": LINES}, {"f": LINES[:-1]}),
    "newline at the end comes": ({"f": LINES[:-1]}, {"f": LINES}),
    "no newline on either side": ({"f": LINES + b"x"}, {"f": LINES + b"y"}),
    "empty new file": ({"f": LINES}, {"f": LINES, "g": b""}),
    "empty file goes": ({"f": LINES, "g": b""}, {"f": LINES}),
    "file becomes empty": ({"f": LINES}, {"f": b""}),
    "file goes": ({"f": LINES, "g": LINES}, {"f": LINES}),
    "file becomes executable and changes": ({"f": LINES}, {"f": ("100755", LINES + b"x\n")}),
    "file becomes a link": ({"f": LINES, "g": LINES}, {"f": ("120000", b"g"), "g": LINES}),
    "link becomes a file": ({"f": ("120000", b"g"), "g": LINES}, {"f": LINES + b"x\n", "g": LINES}),
    "link inside the tree, upward": ({"f": LINES}, {"f": LINES, "d/l": ("120000", b"../f")}),
    "folder becomes a link": ({"d/f": LINES, "e/f": LINES}, {"d": ("120000", b"e"), "e/f": LINES}),
    "rename": ({"f": LINES}, {"g/h": LINES}),
    "rename with a change": ({"f": LINES}, {"g": LINES + b"x\n"}),
    "rename with spaces and quotes": ({"f ": LINES}, {'g "h" i': LINES}),
    "rename between a quoted and a plain name": (
        {"x b/y": LINES, "t\tt": LINES[:60]},
        {'q"q': LINES, "u v": LINES[:60]},
    ),
    "copy with a change": ({"f": LINES}, {"f": LINES + b"y\n", "g": LINES + b"x\n"}),
    "names with spaces and b/": ({"x b/y.txt": LINES}, {"x b/y.txt": LINES + b"x\n"}),
    "name that ends in a space": ({"f ": LINES}, {"f ": LINES + b"x\n"}),
    "name with a newline's neighbours: tab, quote, bell": ({'t\t"\a': LINES}, {'t\t"\a': LINES + b"x\n"}),
    "name in UTF-8": ({"grün/日本": LINES}, {"grün/日本": LINES + b"x\n"}),
    "name in Latin-1": ({"gr\udcfcn": LINES}, {"gr\udcfcn": LINES + b"x\n"}),
    "name like an option": ({"--directory=x": LINES}, {"--directory=x": LINES + b"x\n"}),
    "name like a null device": ({"dev/null": LINES}, {"dev/null": LINES + b"x\n"}),
    "names .gitignore and .github": (
        {".gitignore": LINES, ".github/x": LINES},
        {".gitignore": LINES + b"x\n", ".github/x": b"y\n" + LINES},
    ),
    "lines that look like a diff": (
        {"f": b"-- a/f\n" + LINES},
        {"f": b"++ b/f\n@@ -1 +1 @@\ndiff --git a/x b/x\n-- \n" + LINES},
    ),
    "binary file": ({"f": bytes(range(256)) * 9}, {"f": bytes(range(255, -1, -1)) * 9}),
    "binary file comes": ({"f": LINES}, {"f": LINES, "g": bytes(range(256))}),
    "many hunks": (
        {"f": b"".join(b"%d\n" % n for n in range(300))},
        {"f": b"".join(b"%d\n" % n + b"x\n" * (n % 9 == 0) for n in range(300))},
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_git_writes_is_read_and_gives_the_new_tree(
    name: str, make_tree: Callable[..., str], git_diff: Callable[..., bytes], bench: Store, tmp_path: Path
) -> None:
    old, new = (make_tree(files) for files in ACCEPTED[name])
    file = tmp_path / "x.patch"
    file.write_bytes(git_diff(old, new, "--binary", "--find-copies"))
    became = apply_diff(bench, old, file)
    assert (became.outcome, became.tree) == (Outcome.APPLIES, new), became.evidence


def test_stripped_blank_context_is_a_blank_line_on_both_sides() -> None:
    (file,) = diff.read(patch(body=b"@@ -1,3 +1,3 @@\n\n-two\n+TWO\n three\n"), "x.patch")
    assert file.hunks[0].old == (b"\n", b"two\n", b"three\n")
    assert file.hunks[0].new == (b"\n", b"TWO\n", b"three\n")


def test_marker_in_another_language_is_read_as_one() -> None:
    (file,) = diff.read(patch(body=b"@@ -1 +1 @@\n-x\n\\ Kein Zeilenumbruch am Dateiende.\n+y\n"), "x.patch")
    assert (file.hunks[0].old, file.hunks[0].new) == ((b"x",), (b"y\n",))


def test_mail_with_message_and_signature_is_only_its_diff() -> None:
    mail = (
        b"From %s Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\nSubject: [PATCH] x\n\nwhy\n---\n f | 2 +-\n 1 file changed\n\n"
        % (b"1" * 40)
    )
    assert [file.path for file in diff.read(mail + patch() + b"-- \n2.39.5\n\n", "x.patch")] == [b"f"]


BASE = b"\nbase-commit: %s\nprerequisite-patch-id: %s\n" % (b"1" * 40, b"2" * 40)


@pytest.mark.parametrize("end", [BASE, BASE + b"-- \n2.39.5\n\n"])
def test_mail_that_names_its_base_is_only_its_diff(end: bytes, make_tree: Callable[..., str], bench: Store) -> None:
    assert [file.path for file in diff.read(patch() + end, "x.patch")] == [b"f"]
    became = apply_diff(bench, make_tree({"f": b"one\ntwo\nthree\n"}), patch() + end)
    assert became.tree == make_tree({"f": b"one\nTWO\nthree\n"})


@pytest.mark.parametrize(
    "end", [b"\n", b"\nbase\n", BASE + b"\n" + patch(), BASE + b"-- \n" + patch(), b"base-commit: 1\n"]
)
def test_anything_else_behind_a_diff_is_left_over(end: bytes) -> None:
    with pytest.raises(DiffRefused, match="belongs to no file's diff") as refusal:
        diff.read(patch() + end, "x.patch")
    assert refusal.value.where == "x.patch:9"


def test_what_a_file_diff_says_is_told_apart() -> None:
    data = (
        b"diff --git a/m b/m\nold mode 100644\nnew mode 100755\n"
        b"diff --git a/r b/s\nsimilarity index 100%\nrename from r\nrename to s\n"
        b"diff --git a/c b/d\nsimilarity index 100%\ncopy from c\ncopy to d\n"
        + new_file(b"n", b"100755")
        + b"diff --git a/g b/g\ndeleted file mode 100644\nindex "
        + b"a" * 40
        + b".."
        + b"0" * 40
        + b"\n--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    )
    files: tuple[FileDiff, ...] = diff.read(data, "x.patch")
    assert [(f.change, f.old_path, f.new_path, f.old_mode, f.new_mode, f.line) for f in files] == [
        ("mode", b"m", b"m", "100644", "100755", 1),
        ("rename", b"r", b"s", None, None, 4),
        ("copy", b"c", b"d", None, None, 8),
        ("add", None, b"n", None, "100755", 12),
        ("delete", b"g", None, "100644", None, 18),
    ]
    assert files[-1].old_blob == "a" * 40


def test_a_diff_that_only_deletes_is_read() -> None:
    data = b"".join(
        b"diff --git a/%s b/%s\ndeleted file mode 100644\nindex %s..%s\n" % (name, name, b"1" * 40, b"0" * 40) + body
        for name, body in ((b"empty", b""), (b"f", b"--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n"))
    )
    files = diff.read(data, "x.patch")
    assert [(f.change, f.old_path, f.new_path, sum(h.removed for h in f.hunks)) for f in files] == [
        ("delete", b"empty", None, 0),
        ("delete", b"f", None, 2),
    ]


def test_marker_of_twelve_letters_is_read_as_git_reads_it(
    make_tree: Callable[..., str], bench: Store, tmp_path: Path
) -> None:
    file = tmp_path / "x.patch"
    file.write_bytes(patch(body=b"@@ -1 +1 @@\n-x\n+y\n\\ No newfile \n"))
    became = apply_diff(bench, make_tree({"f": b"x\n"}), file)
    assert (became.outcome, became.tree) == (Outcome.APPLIES, make_tree({"f": b"y"}))


def test_hunk_counts_and_places_are_those_of_the_diff() -> None:
    (file,) = diff.read(patch(body=b"@@ -5,4 +6,5 @@ def f():\n a\n-b\n+c\n+d\n e\n f\n"), "x.patch")
    (hunk,) = file.hunks
    assert (hunk.old_start, hunk.new_start, hunk.added, hunk.removed, hunk.trailing, hunk.line) == (5, 6, 2, 1, 2, 4)
