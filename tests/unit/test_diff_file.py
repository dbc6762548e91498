"""What the headers of one file's diff, and the files of one diff, must say together. Most of these were found by fuzzing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patchset import diff
from patchset.errors import DiffRefused
from patchset.outcome import Outcome, apply_diff
from patchset.store import Store

IDS = b"1" * 40 + b".." + b"2" * 40
BODY = b"@@ -1 +1 @@\n-x\n+y\n"


def change(name: bytes, headers: bytes = b"", body: bytes = BODY) -> bytes:
    return b"diff --git a/%s b/%s\n%s--- a/%s\n+++ b/%s\n" % (name, name, headers, name, name) + body


def new(name: bytes, headers: bytes = b"new file mode 100644\n", text: bytes = b"+x\n") -> bytes:
    return b"diff --git a/%s b/%s\n%s--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n" % (name, name, headers, name) + text


def gone(name: bytes, mode: bytes = b"100644", text: bytes = b"-x\n") -> bytes:
    head = b"diff --git a/%s b/%s\ndeleted file mode %s\n--- a/%s\n+++ /dev/null\n" % (name, name, mode, name)
    return head + b"@@ -1 +0,0 @@\n" + text


def moved(word: bytes, old: bytes, to: bytes) -> bytes:
    return b"diff --git a/%s b/%s\nsimilarity index 100%%\n%s from %s\n%s to %s\n" % (old, to, word, old, word, to)


#: name → (diff, line it must be refused at, words that the rule must hold)
REFUSED = {
    # git takes the last of two headers that contradict each other
    "new file beside another mode": (
        new(b"f", b"old mode 120000\nnew mode 100755\nnew file mode 100644\n"),
        1,
        "new file mode beside another mode",
    ),
    "deleted file beside another mode": (
        b"diff --git a/f b/f\nold mode 100755\nnew mode 100644\ndeleted file mode 100644\n",
        1,
        "deleted file mode beside another mode",
    ),
    "new and deleted at once": (new(b"f", b"new file mode 100644\ndeleted file mode 100644\n"), 1, "add and delete"),
    "renamed and copied at once": (
        moved(b"rename", b"f", b"g") + b"copy from f\ncopy to g\n",
        1,
        "rename and copy at once",
    ),
    "mode in the index line and in another": (
        change(b"f", b"old mode 100644\nnew mode 100755\nindex " + IDS + b" 100644\n"),
        1,
        "index line beside another",
    ),
    "new mode alone": (change(b"f", b"new mode 100755\n"), 1, "without an old one"),
    "names without a hunk": (change(b"f", b"old mode 100644\nnew mode 100755\n", b""), 1, "without a hunk"),
    "rename to without rename from": (b"diff --git a/f b/g\nsimilarity index 100%\nrename to g\n", 1, "the reverse"),
    "ids of another length than a hash has": (
        change(b"f", b"index " + b"1" * 41 + b".." + IDS[-40:] + b"\n"),
        2,
        "index",
    ),
    "similarity that is no percentage": (moved(b"rename", b"f", b"g").replace(b"100%", b"101%"), 2, "similarity index"),
    # git ends a name at a control character that is not quoted
    "name with a bare carriage return": (moved(b"copy", b"f", b"g\rh"), 1, "control character"),
    "name with a bare tab": (moved(b"copy", b"f", b"g\th"), 1, "control character"),
    "name with a bare quote": (change(b'f"g'), 1, "quote"),
    "name with a bare form feed": (change(b"f\x0cg"), 1, "control character"),
    "name whose quotes do not close": (change(b"f").replace(b"--- a/f", b'--- "a/f'), 1, "not quoted as git quotes"),
    "name with a bare quote inside quotes": (moved(b"rename", b"f", b'"g"h"'), 1, "not quoted as git quotes"),
    "name with an escape that is none": (moved(b"rename", b"f", b'"g\\qh"'), 1, "an escape that is none"),
    "name with an escape of two digits": (moved(b"rename", b"f", b'"g\\12"'), 1, "an escape that is none"),
    "name with an escape over one byte": (moved(b"rename", b"f", b'"g\\777"'), 1, "an escape that is none"),
    "path of more bytes than a file system takes": (new(b"d/" * 2100 + b"f"), 1, "more than 4096"),
    # git removes before it writes, and takes what is renamed from the tree as it was
    "changed, and renamed away": (change(b"f") + moved(b"rename", b"f", b"g"), 7, "the order would decide"),
    "changed, and deleted": (change(b"f") + gone(b"f", text=b"-y\n"), 7, "the order would decide"),
    "deleted, and changed": (gone(b"f") + change(b"f"), 7, "the order would decide"),
    "made, and deleted": (new(b"f") + gone(b"f"), 7, "the order would decide"),
    "made twice": (new(b"f") + new(b"f"), 7, "the order would decide"),
    "changed, and made by a copy": (change(b"f") + moved(b"copy", b"g", b"f"), 7, "the order would decide"),
    "renamed in a chain": (moved(b"rename", b"f", b"g") + moved(b"rename", b"g", b"h"), 5, "the order would decide"),
    "renamed onto each other": (
        moved(b"rename", b"f", b"g") + moved(b"rename", b"g", b"f"),
        5,
        "the order would decide",
    ),
    "two files renamed to one": (
        moved(b"rename", b"f", b"h") + moved(b"rename", b"g", b"h"),
        5,
        "the order would decide",
    ),
    "file and folder at once": (new(b"l", b"new file mode 100755\n") + new(b"l/f"), 7, "behind a file"),
    "file behind one that is changed": (change(b"l") + new(b"l/d/f"), 7, "behind a file"),
    "file behind a link that another file is renamed to": (
        b"diff --git a/f b/l\nold mode 100644\nnew mode 120000\nsimilarity index 100%\nrename from f\nrename to l\n"
        + new(b"l/f"),
        7,
        "behind a link",
    ),
    "link in place of .gitmodules": (new(b"d/.GitModules", b"new file mode 120000\n"), 1, ".gitmodules"),
    "link in place of .gitmodules that goes": (gone(b".gitmodules", b"120000"), 1, ".gitmodules"),
    "link in place of .gitmodules that is renamed": (
        b"diff --git a/.gitmodules b/l\nindex " + IDS + b" 120000\nrename from .gitmodules\nrename to l\n",
        1,
        ".gitmodules",
    ),
    "link in place of .gitmodules by its short name": (new(b"GITMOD~1", b"new file mode 120000\n"), 1, ".gitmodules"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_line_and_rule(name: str) -> None:
    data, line, words = REFUSED[name]
    with pytest.raises(DiffRefused) as refusal:
        diff.read(data, "x.patch")
    assert words in refusal.value.what
    assert refusal.value.where == f"x.patch:{line}"
    assert refusal.value.next


#: name → (diff, what it makes of a tree with the files f and g that hold a line x each)
ACCEPTED = {
    "the second diff of a file goes on top of the first": (
        change(b"f") + change(b"f", body=b"@@ -1 +1 @@\n-y\n+z\n"),
        {"f": b"z\n", "g": b"x\n"},
    ),
    "a new file that is changed": (
        new(b"h") + change(b"h"),
        {"f": b"x\n", "g": b"x\n", "h": b"y\n"},
    ),
    "a renamed file that is changed": (moved(b"rename", b"f", b"h") + change(b"h"), {"g": b"x\n", "h": b"y\n"}),
    "a changed file that is copied as it was": (
        change(b"f") + moved(b"copy", b"f", b"h"),
        {"f": b"y\n", "g": b"x\n", "h": b"x\n"},
    ),
    "one file copied twice and renamed": (
        moved(b"copy", b"f", b"h") + moved(b"copy", b"f", b"i") + moved(b"rename", b"f", b"j"),
        {"g": b"x\n", "h": b"x\n", "i": b"x\n", "j": b"x\n"},
    ),
    "a file that becomes a link": (
        gone(b"f") + new(b"f", b"new file mode 120000\n", b"+g\n\\ No newline at end of file\n"),
        {"f": ("120000", b"g"), "g": b"x\n"},
    ),
    "a file that becomes a folder": (gone(b"f") + new(b"f/f"), {"f/f": b"x\n", "g": b"x\n"}),
    "a file renamed into a folder of its name": (moved(b"rename", b"f", b"f/f"), {"f/f": b"x\n", "g": b"x\n"}),
    "a rename that changes mode and text": (
        b"diff --git a/f b/h\nold mode 100644\nnew mode 100755\nsimilarity index 50%\nrename from f\nrename to h\nindex "
        + IDS
        + b"\n--- a/f\n+++ b/h\n"
        + BODY,
        {"g": b"x\n", "h": ("100755", b"y\n")},
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_as_git_does_it(name: str, make_tree: Callable[..., str], bench: Store, tmp_path: Path) -> None:
    data, made = ACCEPTED[name]
    file = tmp_path / "x.patch"
    file.write_bytes(data)
    before = make_tree({"f": b"x\n", "g": b"x\n"})
    became = apply_diff(bench, before, file)
    assert (became.outcome, became.tree) == (Outcome.APPLIES, make_tree(made)), became.evidence
    assert apply_diff(bench, before, file, verify=False) == became


@pytest.mark.parametrize(
    "data",
    [
        gone(b"f"),
        moved(b"rename", b"f", b"g"),
        change(b"g") + change(b"g", body=b"@@ -1 +1 @@\n-y\n+z\n"),
    ],
    ids=["deleted", "renamed", "changed twice"],
)
@pytest.mark.parametrize("tree", [{"g": b"x\n"}, {"g": b"z\n"}, {"f": b"x\n", "g": b"x\n"}])
def test_without_verification_the_outcome_is_the_same(
    data: bytes, tree: dict[str, bytes], make_tree: Callable[..., str], bench: Store
) -> None:
    became = apply_diff(bench, make_tree(tree), data)
    assert apply_diff(bench, make_tree(tree), data, verify=False) == became


def test_ids_of_a_sha256_repository_are_read_past(make_tree: Callable[..., str], bench: Store, tmp_path: Path) -> None:
    file = tmp_path / "x.patch"
    file.write_bytes(change(b"f", b"index " + b"1" * 64 + b".." + b"2" * 64 + b" 100644\n"))
    became = apply_diff(bench, make_tree({"f": b"x\n"}), file)
    assert (became.outcome, became.tree) == (Outcome.APPLIES, make_tree({"f": b"y\n"}))
    assert diff.read(file.read_bytes(), "x.patch")[0].old_blob is None
