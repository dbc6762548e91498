"""Which names, links and modes the strict reader lets a diff write, each refusal with its line and rule."""

from __future__ import annotations

import pytest
from made_diffs import binary, new_file, new_link, patch

from patchset import diff
from patchset.errors import DiffRefused

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
    "link that goes down and up again, perhaps through a link": (new_link(b"l", b"d/e/../../x"), 1, "down and up"),
    "link whose target ends in a newline": (new_file(b"l", b"120000", b"+d\n"), 1, "newline"),
    "link without a target": (b"diff --git a/l b/l\nnew file mode 120000\n", 1, "target is empty"),
    "link into .git, below a folder": (new_link(b"d/l", b"../.GIT/config"), 1, ".git"),
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
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_line_and_rule(name: str) -> None:
    data, line, words = REFUSED[name]
    with pytest.raises(DiffRefused) as refusal:
        diff.read(data, "x.patch")
    assert words in refusal.value.what
    assert refusal.value.where == f"x.patch:{line}"
    assert refusal.value.next


@pytest.mark.parametrize("target", [b"f", b"d/f", b"../e/f", b"./f", b"../../f", b"f.git", b".gitignore", b"..f/g.."])
def test_links_inside_the_tree_are_read(target: bytes) -> None:
    (file,) = diff.read(new_link(b"d/d/l", target), "x.patch")
    assert (file.new_mode, file.hunks[0].new) == ("120000", (target,))
