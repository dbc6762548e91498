"""The strict reader: kinds of input that the nasty cases do not hold, each with the line and the rule it must name."""

from __future__ import annotations

import zlib
from base64 import b85encode
from collections.abc import Callable
from pathlib import Path

import pytest

from patchset import diff
from patchset.diff import FileDiff
from patchset.errors import DiffRefused
from patchset.outcome import Outcome, apply_diff
from patchset.store import Store

BODY = b"@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"


def patch(header: bytes = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n", body: bytes = BODY) -> bytes:
    return header + body


def new_file(name: bytes, mode: bytes = b"100644", text: bytes = b"+x\n") -> bytes:
    return (
        b"diff --git a/%s b/%s\nnew file mode %s\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n" % (name, name, mode, name)
    ) + text


def new_link(name: bytes, target: bytes) -> bytes:
    return new_file(name, b"120000", b"+%s\n\\ No newline at end of file\n" % target)


def binary(data: bytes) -> bytes:
    packed = zlib.compress(data)
    letter = bytes([ord("A") + len(packed) - 1])
    return b"GIT binary patch\nliteral %d\n%s\n\nliteral 0\nHcmV?d00001\n\n" % (
        len(data),
        letter + b85encode(packed + b"\0" * (-len(packed) % 4)),
    )


#: name → (diff, line it must be refused at, words that the rule must hold)
REFUSED = {
    # paths
    "path with dot-dot inside": (new_file(b"d/../../f"), 1, "'..'"),
    "path that is one dot-dot": (new_file(b".."), 1, "'..'"),
    "path with an empty part": (new_file(b"d//f"), 1, "empty"),
    "path with a single dot": (new_file(b"d/./f"), 1, "'.'"),
    "absolute path behind the prefix": (new_file(b"/etc/passwd"), 1, "absolute"),
    "path in .GIT": (new_file(b".GIT/hooks/pre-commit"), 1, ".git"),
    "path in a .git further down": (new_file(b"sub/.Git/config"), 1, ".git"),
    "path in git~1, the short name of .git": (new_file(b"GIT~1/config"), 1, ".git"),
    "path in .git with a trailing dot, which Windows drops": (new_file(b".git./config"), 1, ".git"),
    "path in .git as an NTFS stream": (new_file(b".git::$INDEX_ALLOCATION/config"), 1, ".git"),
    "path in .git with a character that HFS+ drops": (new_file(".g\u200cit/config".encode()), 1, ".git"),
    "path with a backslash": (new_file(b"d\\..\\f"), 1, "backslash"),
    "path with a newline in octal": (
        new_file(b"f").replace(b"a/f", b'"a/x\\012y"').replace(b"b/f", b'"b/x\\012y"'),
        1,
        "newline",
    ),
    "path with a NUL in octal": (
        new_file(b"f").replace(b"a/f", b'"a/x\\000y"').replace(b"b/f", b'"b/x\\000y"'),
        1,
        "NUL",
    ),
    "quoted dot-dot": (
        new_file(b"f").replace(b"a/f", b'"a/\\056\\056/f"').replace(b"b/f", b'"b/\\056\\056/f"'),
        1,
        "'..'",
    ),
    "octal escape over one byte": (
        new_file(b"f").replace(b"a/f", b'"a/\\777"').replace(b"b/f", b'"b/\\777"'),
        1,
        "backslash",
    ),
    "rename out of the tree": (
        b"diff --git a/f b/../f\nsimilarity index 100%\nrename from f\nrename to ../f\n",
        1,
        "'..'",
    ),
    "copy into .git": (b"diff --git a/f b/.git/f\nsimilarity index 100%\ncopy from f\ncopy to .git/f\n", 1, ".git"),
    "second file's path": (patch() + new_file(b"../f"), 9, "'..'"),
    # links, gitlinks and modes
    "link to an absolute path": (new_link(b"l", b"/etc/passwd"), 1, "absolute"),
    "link that leaves the tree": (new_link(b"d/l", b"../../x"), 1, "leaves"),
    "link that leaves the tree after going down": (new_link(b"l", b"d/../../x"), 1, "leaves"),
    "link into .git": (new_link(b"l", b".git/hooks"), 1, ".git"),
    "link changed to leave the tree": (
        b"diff --git a/l b/l\nindex %s..%s 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-f\n\\ No newline at end of file\n+/etc\n"
        b"\\ No newline at end of file\n" % (b"1" * 40, b"2" * 40),
        1,
        "absolute",
    ),
    "link as a binary patch": (
        b"diff --git a/l b/l\nnew file mode 120000\nindex %s..%s\n" % (b"0" * 40, b"1" * 40) + binary(b"/etc"),
        1,
        "link",
    ),
    "file behind a link of the same diff": (new_link(b"l", b"d") + new_file(b"l/f"), 8, "behind a link"),
    "gitlink": (new_file(b"sub", b"160000", b"+Subproject commit %s\n" % (b"1" * 40)), 1, "160000"),
    "gitlink that moves": (
        b"diff --git a/s b/s\nindex 1111111..2222222 160000\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n-Subproject commit 1\n"
        b"+Subproject commit 2\n",
        1,
        "submodule",
    ),
    "set-uid mode": (new_file(b"f", b"104755"), 1, "104755"),
    "group-writable mode": (new_file(b"f", b"100664"), 1, "100664"),
    "directory mode": (new_file(b"f", b"040000"), 1, "040000"),
    "mode that is no number": (new_file(b"f", b"rwxr-x"), 1, "rwxr-x"),
    "old mode alone": (b"diff --git a/f b/f\nold mode 100644\n", 1, "says nothing"),
    "header alone": (b"diff --git a/f b/f\n", 1, "says nothing"),
    "the same header twice": (b"diff --git a/f b/f\nold mode 100644\nold mode 100755\nnew mode 100755\n", 3, "twice"),
    "index line without ids": (patch(b"diff --git a/f b/f\nindex x..y\n--- a/f\n+++ b/f\n"), 2, "index"),
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
        "name a/f",
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
    "binary patch with a line that is none": (
        b"diff --git a/f b/f\nindex 1111111..2222222 100644\nGIT binary patch\nliteral 1\n~~ ~\n\n",
        5,
        "none",
    ),
    "binary differ inside": (
        b"diff --git a/f b/f\nindex 1..2 100644\n".replace(b"1..2", b"1111111..2222222")
        + b"Binary files a/f and b/f differ\n",
        3,
        "without the data",
    ),
}


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


def test_no_prefix_names_the_setting_as_the_remedy() -> None:
    with pytest.raises(DiffRefused) as refusal:
        diff.read(patch(b"diff --git f f\n--- f\n+++ f\n"), "x.patch")
    assert "diff.noprefix" in refusal.value.next


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


def test_hunk_counts_and_places_are_those_of_the_diff() -> None:
    (file,) = diff.read(patch(body=b"@@ -5,4 +6,5 @@ def f():\n a\n-b\n+c\n+d\n e\n f\n"), "x.patch")
    (hunk,) = file.hunks
    assert (hunk.old_start, hunk.new_start, hunk.added, hunk.removed, hunk.trailing, hunk.line) == (5, 6, 2, 1, 2, 4)
