"""Small diffs as bytes: sound ones, and parts to make unsound ones of."""

from __future__ import annotations

import zlib
from base64 import b85encode

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
