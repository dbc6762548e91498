"""One input of about 1 MB, made to be slow to read: ``python fuzz_large.py NAME`` reads it under bounds on time and memory.

The reader and the cross-check with git and unidiff must come to an end, with a reading or a refusal; the kernel ends the
process past the bounds. Each input here is the worst of its kind for some way of reading.
"""

from __future__ import annotations

import base64
import resource
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

from fuzz_harness import LARGEST, MEGABYTES, SECONDS

from patchset import diff, diff_check
from patchset.errors import DiffRefused, StoreError
from patchset.store import Store

FILE = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n"
PLAIN = FILE + b"@@ -1 +1 @@\n-a\n+b\n"
LINK = b"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
DEEP = b"d/" * 1000


def many(part: Callable[[int], bytes], head: bytes = b"") -> bytes:
    """*head* and as many parts as fit."""
    out, size, number = [head], len(head), 0
    while size < LARGEST:
        out.append(part(number))
        size, number = size + len(out[-1]), number + 1
    return b"".join(out)


def long_hunk() -> bytes:
    pairs = LARGEST // 6
    return FILE + b"@@ -1,%d +1,%d @@\n" % (pairs, pairs) + b"-a\n+b\n" * pairs


def bomb() -> bytes:
    """Unpacks to seven hundred times its size."""
    packed = zlib.compress(b"\0" * (256 * LARGEST), 9)
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    parts = [packed[at : at + 52] for at in range(0, len(packed), 52)]
    lines = [letters[len(p) - 1 : len(p)] + base64.b85encode(p + b"\0" * (-len(p) % 4)) + b"\n" for p in parts]
    head = b"diff --git a/f b/f\nnew file mode 100644\nindex %s..%s\nGIT binary patch\n" % (b"0" * 40, b"1" * 40)
    return head + b"literal %d\n" % (256 * LARGEST) + b"".join(lines) + b"\n"


CASES: dict[str, Callable[[], bytes]] = {
    "modes": lambda: many(lambda n: b"diff --git a/%d b/%d\nold mode 100644\nnew mode 100755\n" % (n, n)),
    "links": lambda: many(lambda n: LINK.replace(b"/l", b"/l%d" % n)),
    "deep-paths": lambda: many(
        lambda n: b"diff --git a/%s b/%s\nnew file mode 100644\n" % ((DEEP + b"%d" % n,) * 2), LINK
    ),
    "hunks": lambda: many(lambda n: b"@@ -%d,3 +%d,3 @@\n a\n-b\n+c\n a\n" % (n * 9 + 1, n * 9 + 1), FILE),
    "long-hunk": long_hunk,
    "long-line": lambda: FILE + b"@@ -1 +1 @@\n-a\n+%s\n" % (b"x" * (LARGEST - 100)),
    "too-long-line": lambda: FILE + b"@@ -1 +1 @@\n-a\n+%s\n" % (b"x" * LARGEST),
    "long-message": lambda: b"x\n" * (LARGEST // 2) + PLAIN,
    "message-of-mail-separators": lambda: b"x\n" + b"From a b c d\n" * (LARGEST // 13) + PLAIN,
    "long-signature": lambda: PLAIN + b"-- \n" + b"\n" * LARGEST,
    "signatures": lambda: PLAIN + b"-- \n" * (LARGEST // 4),
    "long-name": lambda: b"diff --git a/%s b/%s\nold mode 100644\nnew mode 100755\n" % ((b"a b/" * 130_000,) * 2),
    "quotes": lambda: b'diff --git "a/%s" "b/%s"\nold mode 100644\nnew mode 100755\n' % ((b"\\001" * 130_000,) * 2),
    "backslashes": lambda: b'diff --git "a/%s\n' % (b"\\" * (LARGEST - 100)),
    "digits": lambda: FILE + b"@@ -%s +1 @@\n" % (b"1" * (LARGEST - 100)),
    "headings": lambda: FILE + b"@@ -1 +1 @@ %s\n-a\n+b\n" % (b"@@ " * (LARGEST // 3 - 100)),
    "same-header": lambda: b"diff --git a/f b/f\n" + b"index 1111111..2222222\n" * (LARGEST // 23),
    "markers": lambda: PLAIN + b"\\ No newline at end of file\n" * (LARGEST // 28),
    "same-file": lambda: many(lambda n: FILE + b"@@ -1 +1 @@\n-%d\n+%d\n" % (n, n + 1)),
    "copies": lambda: many(
        lambda n: b"diff --git a/f b/%d\nsimilarity index 100%%\ncopy from f\ncopy to %d\n" % (n, n)
    ),
    "blank-lines": lambda: b"\n" * LARGEST,
    "binary-bomb": bomb,
}


def main(name: str) -> None:
    """Read the input *name* within the bounds and say what became of it."""
    data = CASES[name]()
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEGABYTES * 1024 * 1024,) * 2)
    try:
        files = diff.read(data, "x.patch")
        with tempfile.TemporaryDirectory() as folder:
            diff_check.cross_check(files, Store.open(Path(folder, "store.git")).numstat(data), data, "x.patch")
        print(f"{len(files)} files")
    except (DiffRefused, StoreError) as refusal:
        print(f"refused: {refusal}")


if __name__ == "__main__":
    main(sys.argv[1])
