"""Change diffs as diffs: hunks, counts, headers, quoting, line ends, modes. Pure, and the same for the same seed.

A mutator that knows no diffs breaks the first hunk count and then only ever tests that refusal. So most changes here are
followed by a recount, which makes the damaged diff add up again and lets it through to what stands behind.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Sequence

HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)", re.DOTALL)

NUMBERS = (b"0", b"1", b"2", b"3", b"00001", b"2147483647", b"2147483648", b"4294967296", b"-1", b"9" * 30, b"")
MODES = (b"100644", b"100755", b"120000", b"160000", b"040000", b"100664", b"104755", b"0100644", b"", b"777777")
NAMES = (
    *(b"f", b"g", b"d/f", b"a b", b"x b/y.txt", b"f ", b" f", b"d/e/f", b"dev/null", b"-o", b"a/f", b"b/f", b"d", b"c"),
    *(
        b"../f",
        b"/f",
        b".git/f",
        b".GIT/f",
        b"d/.git",
        b"git~1/f",
        b"./f",
        b"d//f",
        b"f\\g",
        b"~",
        b"",
        b"f\tg",
        b"\xff",
    ),
    *(b"\xc3\xbc", b'q"q', b"f\rg", b".gitmodules", b".gitattributes", b"d/../f", b"f\x0cg", b"con", b"f:x"),
)
LINES = (
    *(b" ", b"", b"+", b"-", b"\\ No newline at end of file", b"\\", b"\\ ", b"-- ", b"--", b"--- a/f", b"+++ b/f"),
    *(b"--- /dev/null", b"+++ /dev/null", b"@@ -1 +1 @@", b"@@ -0,0 +1 @@", b"@@ -1 +0,0 @@", b"@@@ -1 -1 +1 @@@"),
    *(b"diff --git a/f b/f", b"diff --cc f", b"diff --combined f", b"diff -u a b", b"index 1111111..2222222 100644"),
    *(b"index 1111111..2222222", b"old mode 100644", b"new mode 100755", b"new file mode 100644", b"GIT binary patch"),
    *(
        b"deleted file mode 100644",
        b"similarity index 100%",
        b"dissimilarity index 50%",
        b"rename from f",
        b"literal 0",
    ),
    *(b"rename to g", b"copy from f", b"copy to g", b"rename old f", b"rename new g", b"HcmV?d00001", b"delta 3"),
    *(b"Binary files a/f and b/f differ", b"From 1111111111111111111111111111111111111111 Mon", b"---", b"Index: f"),
    *(
        b"From a@b Mon Sep 17 00:00:00 2001",
        b"*** a/f",
        b"1,2d",
        b"1c",
        b"+\x0c",
        b" \x0b",
        b"+\xe2\x80\xa8x",
        b"+\x85",
    ),
    *(
        b"+\r",
        b" \r",
        b"\r",
        b"-x\r",
        b"+\x00",
        b"+\x1b[31m",
        b"\x1b[1m",
        b"+a\rb",
        b"+\xef\xbb\xbf",
        b"+\x1c",
        b"#",
        b"\t",
    ),
)


class Mutator:
    """Mutates diffs, with pieces of *seeds* to splice in. *plain* is libFuzzer's own mutation: (data, size) → data."""

    def __init__(self, seeds: Callable[[], Sequence[bytes]], plain: Callable[[bytes, int], bytes]) -> None:
        self._plain = plain
        self._seeds = seeds

    @functools.cached_property
    def _pieces(self) -> list[bytes]:
        return [piece for seed in self._seeds() for piece in _files(seed)]

    @functools.cached_property
    def _hunks(self) -> list[bytes]:
        return [hunk for piece in self._pieces for hunk in _hunks(piece)]

    def __call__(self, data: bytes, max_size: int, seed: int) -> bytes:
        """*data*, changed in one to four ways; at most *max_size* bytes."""
        chance = random.Random(seed)
        if chance.random() < 0.15:
            return self._plain(data, max_size)
        ways = (self._splice, self._hunk, _number, _line, _line, _name, _quote, _end, _mode, _body, _body, _move, _file)
        for _ in range(chance.choice((1, 1, 2, 3, 4))):
            data = chance.choice(ways)(data, chance)
        if chance.random() < 0.75:
            data = recounted(data)
        if chance.random() < 0.95 and not data.endswith(b"\n"):
            data += b"\n"
        return data[:max_size]

    def _splice(self, data: bytes, chance: random.Random) -> bytes:
        """Another diff's file, put before, behind or between."""
        parts = _files(data)
        parts.insert(chance.randrange(len(parts) + 1), chance.choice(self._pieces))
        return b"".join(parts)

    def _hunk(self, data: bytes, chance: random.Random) -> bytes:
        """Another diff's hunk at the end of a file, moved on behind the one before."""
        if not self._hunks:
            return data
        parts = _files(data)
        at = chance.randrange(len(parts))
        parts[at] += chance.choice(self._hunks)
        return b"".join(parts)


def _number(data: bytes, chance: random.Random) -> bytes:
    """One number of one hunk header, a mode, a size or a percentage."""
    found = list(re.finditer(rb"\d+", data[:100_000]))
    headers = [item for item in found if b"@@" in data[max(0, item.start() - 12) : item.start()]]
    if not found:
        return data
    hit = chance.choice(headers if headers and chance.random() < 0.7 else found)
    number = chance.choice((*NUMBERS, b"%d" % (int(hit[0][:18]) + chance.choice((-1, 1, 2)))))
    return data[: hit.start()] + number + data[hit.end() :]


def _line(data: bytes, chance: random.Random) -> bytes:
    """A line comes, goes, is doubled, is another one's, or moves."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            lines.insert(at, chance.choice(LINES))
        case 1:
            del lines[at]
        case 2:
            lines.insert(at, lines[at])
        case 3:
            lines[at] = chance.choice(LINES)
        case _:
            lines.insert(chance.randrange(len(lines)), lines.pop(at))
    return b"\n".join(lines)


def _body(data: bytes, chance: random.Random) -> bytes:
    """A line of a hunk gets another sign, another text, or a marker that it has no newline."""
    lines = data.split(b"\n")
    inside = [number for number, line in enumerate(lines) if line[:1] in (b" ", b"+", b"-") and line[:4] != b"--- "]
    if not inside:
        return data
    at = chance.choice(inside)
    match chance.randrange(4):
        case 0:
            lines[at] = chance.choice((b" ", b"+", b"-", b"")) + lines[at][1:]
        case 1:
            lines[at] = lines[at][:1] + chance.choice(
                (b"", b"x", b"\\ x", b"-- a", b"\r", b"a\rb", b"\x0c", b"\xff", b"@@")
            )
        case 2:
            lines.insert(at + 1, b"\\ No newline at end of file")
        case _:
            lines.insert(at, chance.choice((b" ", b"+", b"-")) + chance.choice((b"", b"x", b"y", b"z\r")))
    return b"\n".join(lines)


def _name(data: bytes, chance: random.Random) -> bytes:
    """A name becomes another one: everywhere in one file's diff, or in one place only."""
    parts = _files(data)
    at = chance.randrange(len(parts))
    found = re.search(rb"^diff --git a/(.*?) b/", parts[at], re.MULTILINE)
    if not found or not found[1]:
        return data
    old, new = found[1], chance.choice(NAMES)
    count = -1 if chance.random() < 0.8 else 1
    head, mark, body = parts[at].partition(b"\n@@")
    for before in (b" a/", b" b/", b" from ", b" to "):
        head = head.replace(before + old, before + new, count)
    parts[at] = head + mark + body
    return b"".join(parts)


def _quote(data: bytes, chance: random.Random) -> bytes:
    """A name in quotes, with an octal escape, or with a tab behind it."""
    lines = data.split(b"\n")
    named = [n for n, line in enumerate(lines) if re.match(rb"diff --git |--- |\+\+\+ |(rename|copy) (from|to) ", line)]
    if not named:
        return data
    at = chance.choice(named)
    head, space, name = lines[at].rpartition(b" ")
    match chance.randrange(5):
        case 0:
            lines[at] = head + space + b'"' + name + b'"'
        case 1:
            lines[at] = re.sub(rb'([ab]/[^ "\t]+)', rb'"\1"', lines[at])
        case 2 if name:
            where = chance.randrange(len(name))
            escape = chance.choice(
                (b"\\%03o" % name[where], b"\\000", b"\\777", b"\\12", b"\\n", b"\\q", b'\\"', b"\\")
            )
            lines[at] = head + space + b'"' + name[:where] + escape + name[where + 1 :] + b'"'
        case 3:
            lines[at] += chance.choice((b"\t", b"\t2026-01-01 00:00:00", b" ", b'"', b"\t\t"))
        case _:
            lines[at] = lines[at].replace(b'"', b"")
    return b"\n".join(lines)


def _end(data: bytes, chance: random.Random) -> bytes:
    """CRLF for one line, for all, or for those inside hunks; or no final newline."""
    lines = data.split(b"\n")
    match chance.randrange(4):
        case 0:
            lines[chance.randrange(len(lines))] += b"\r"
        case 1:
            lines = [line + b"\r" for line in lines[:-1]] + lines[-1:]
        case 2:
            lines = [line + b"\r" if line[:1] in (b" ", b"+", b"-") else line for line in lines]
        case _:
            return data.rstrip(b"\n")
    return b"\n".join(lines)


def _mode(data: bytes, chance: random.Random) -> bytes:
    """A mode line, or the mode of an index line."""
    parts = _files(data)
    at = chance.randrange(len(parts))
    first, mark, rest = parts[at].partition(b"\n")
    mode, other = chance.choice(MODES), chance.choice(MODES)
    match chance.randrange(4):
        case 0:
            new = b"old mode %s\nnew mode %s\n" % (mode, other)
        case 1:
            new = chance.choice((b"new file mode %s\n", b"deleted file mode %s\n")) % mode
        case 2:
            new = b"index %s..%s %s\n" % (b"1" * 40, b"2" * 40, mode)
        case _:
            parts[at] = re.sub(rb"\b(100644|100755|120000)\b", mode, parts[at], count=1)
            return b"".join(parts)
    parts[at] = first + mark + new + rest
    return b"".join(parts)


def _move(data: bytes, chance: random.Random) -> bytes:
    """Two files or two hunks change places."""
    parts = _files(data) if chance.random() < 0.5 else re.split(rb"(?m)^(?=@@ )", data)
    one, two = chance.randrange(len(parts)), chance.randrange(len(parts))
    parts[one], parts[two] = parts[two], parts[one]
    return b"".join(parts)


def _file(data: bytes, chance: random.Random) -> bytes:
    """A whole new file's diff: made, deleted, renamed, copied, or of another mode."""
    name, other = chance.choice(NAMES), chance.choice(NAMES)
    text = chance.choice((b"x", b"y\r", b"", b"../x", b"d", b"/x"))
    match chance.randrange(5):
        case 0:
            mode = chance.choice(MODES)
            new = b"diff --git a/%s b/%s\nnew file mode %s\n--- /dev/null\n+++ b/%s\n" % (name, name, mode, name)
            new += b"@@ -0,0 +1 @@\n+%s\n" % text
        case 1:
            new = b"diff --git a/%s b/%s\ndeleted file mode 100644\n--- a/%s\n+++ /dev/null\n" % (name, name, name)
            new += b"@@ -1 +0,0 @@\n-%s\n" % text
        case 2 | 3:
            word = chance.choice((b"rename", b"copy"))
            new = b"diff --git a/%s b/%s\nsimilarity index 100%%\n" % (name, other)
            new += b"%s from %s\n%s to %s\n" % (word, name, word, other)
        case _:
            new = b"diff --git a/%s b/%s\nold mode 100644\nnew mode 100755\n" % (name, name)
    return data + new if chance.random() < 0.7 else new + data


def recounted(data: bytes) -> bytes:
    """*data* with the counts of each hunk header made those of the lines that follow it."""
    out: list[bytes] = []
    lines = data.split(b"\n")
    for number, line in enumerate(lines):
        header = HUNK.match(line)
        if not header:
            out.append(line)
            continue
        old = new = 0
        for body in lines[number + 1 :]:
            sign = body[:1]
            if sign not in (b" ", b"+", b"-", b"\\", b"") or re.match(rb"--- [ab/]|-- \Z", body):
                break
            if not sign and number + 1 + old + new >= len(lines) - 2:
                break
            old += sign in (b" ", b"-", b"")
            new += sign in (b" ", b"+", b"")
        out.append(b"@@ -%s,%d +%s,%d @@%s" % (header[1], old, header[3], new, header[5]))
    return b"\n".join(out)


def _files(data: bytes) -> list[bytes]:
    return [part for part in re.split(rb"(?m)^(?=diff --git )", data) if part] or [data]


def _hunks(piece: bytes) -> list[bytes]:
    return [part for part in re.split(rb"(?m)^(?=@@ )", piece)[1:] if part]
