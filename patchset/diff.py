"""Strict reading of a unified diff, before git ever sees it: bytes in, structure out.

What git reads leniently, and what other tools read differently from git, is turned away with the line and the rule:
a diff is a description of a change that must mean one thing only. ``diff_check.cross_check`` then compares what was read with
git's own numstat and with unidiff.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from patchset.diff_binary import check_part
from patchset.diff_file import HEADERS, Headers, assemble, check_together
from patchset.diff_model import FileDiff, Hunk
from patchset.errors import DiffRefused

#: Bounds on input nobody has vouched for. The largest public XPU diff has 14,790 lines.
BYTES_LIMIT = 16 * 1024 * 1024
LINE_LIMIT = 1024 * 1024
NUMBER_LIMIT = 2**31

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(?: .*)?\Z", re.DOTALL)
#: What mail programs and `git mailsplit` take for the start of another mail: it ends in a date.
_MAIL = re.compile(rb"From (?:[0-9a-f]{40} |\S.* \d\d?:\d\d:\d\d )")
_BINARY = re.compile(rb"(?:literal|delta) (\d+)\Z")
_ENCODED = re.compile(rb"content-transfer-encoding:\s*(quoted-printable|base64)\s*\Z", re.IGNORECASE)
_BASE = re.compile(rb"(?:base-commit|prerequisite-patch-id): [0-9a-f]{40,64}\Z")
_NO_NEWLINE = b"\\ "
#: The shortest marker that git takes for one everywhere, whatever its language; at the end of a diff it ignores one of 11.
_MARKER_LENGTH = 12


def read(data: bytes, name: str) -> tuple[FileDiff, ...]:
    """Read *data*, a diff as git writes it (`a/` and `b/` prefixes), and return its files in order.

    :param name: the file's name, for messages.
    :raises DiffRefused: with *name*, line and rule.
    """
    return _Reader(data, name).read()


@dataclass
class _Reader:
    data: bytes
    name: str
    lines: list[bytes] = field(default_factory=list)
    at: int = 0

    def refuse(self, rule: str, *, line: int | None = None, next: str = "") -> DiffRefused:
        number = (self.at if line is None else line) + 1
        return DiffRefused(
            rule,
            where=f"{self.name}:{number}",
            next=next or "make the diff again: git diff --full-index --no-color --src-prefix=a/ --dst-prefix=b/",
        )

    def read(self) -> tuple[FileDiff, ...]:
        self._check_bytes()
        self.lines = self.data.split(b"\n")[:-1]
        self._skip_preamble()
        files: list[FileDiff] = []
        while self.at < len(self.lines):
            if self._is_end():
                break
            if not self.lines[self.at].startswith(b"diff --git "):
                raise self.refuse(
                    "a line that belongs to no file's diff (a hunk count too small leaves such lines over)"
                )
            files.append(self._read_file())
        if not files:
            raise self.refuse("no diff in this file", line=0)
        check_together(files, self.refuse)
        return tuple(files)

    # -- the file as a whole --------------------------------------------------------------------------------------

    def _check_bytes(self) -> None:
        data = self.data
        if self.name.rpartition("/")[2].startswith("-"):
            raise self.refuse("the patch file's name looks like an option", next="rename the file")
        if not data:
            raise self.refuse("the file is empty")
        if len(data) > BYTES_LIMIT:
            raise self.refuse(f"larger than {BYTES_LIMIT} bytes")
        if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
            raise self.refuse(
                "a byte order mark, or UTF-16: a diff is bytes, and git writes none", next="save it as plain bytes"
            )
        if not data.endswith(b"\n"):
            self.at = data.count(b"\n")
            raise self.refuse("patch lacks its final newline: an editor or strip() took it, and perhaps more")
        for number, line in enumerate(data.split(b"\n")):
            if len(line) > LINE_LIMIT:
                raise self.refuse(f"a line of more than {LINE_LIMIT} bytes", line=number)

    def _skip_preamble(self) -> None:
        """What stands before the first diff: nothing, or a mail as `git format-patch` writes it."""
        for number, line in enumerate(self.lines):
            if line.startswith(b"diff --git "):
                self.at = number
                return
            if line.startswith((b"diff --cc ", b"diff --combined ")):
                raise self.refuse("a combined diff (of a merge) does not say what to do to one file", line=number)
            if b"\x1b[" in line:
                raise self.refuse("colour codes", line=number, next="make the diff again with --no-color")
            if line.startswith((b"--- ", b"+++ ", b"*** ", b"@@ ", b"Index: ")) or re.match(
                rb"diff -|\d+(,\d+)?[acd](\d|\Z)", line
            ):
                kind = "a context or ed diff, or a diff without its `diff --git` line"
                raise self.refuse(f"{kind}: names and modes are then a guess", line=number)
            if _ENCODED.match(line):
                raise self.refuse(
                    "a mail in an encoding: what stands here is not yet the diff",
                    line=number,
                    next="decode it: git mailinfo -n message diff < mail",
                )
            if number > 0 and _MAIL.match(line):
                raise self.refuse("more than one mail in one file", line=number, next="split it: git mailsplit")
        raise self.refuse("no diff in this file", line=0)

    def _is_end(self) -> bool:
        """What `git format-patch` writes behind the last diff: which commit it is for, then `-- ` and what follows it."""
        at = self.at
        if self.lines[at] == b"" and self.lines[at + 1 : at + 2] and _BASE.match(self.lines[at + 1]):
            at += 1
            while at < len(self.lines) and _BASE.match(self.lines[at]):
                at += 1
        elif self.lines[at] != b"-- ":
            return False
        rest = self.lines[at:]
        return rest[:1] in ([], [b"-- "]) and not any(
            line.startswith((b"diff ", b"--- ", b"+++ ", b"@@ ")) for line in rest
        )

    # -- one file -----------------------------------------------------------------------------------------------------

    def _read_file(self) -> FileDiff:
        start = self.at
        header = self._header_line(b"diff --git ")
        self.at += 1
        said: dict[str, bytes] = {}
        while self.at < len(self.lines):
            key, value = self._extended_header(self.lines[self.at])
            if not key:
                break
            if key in said:
                raise self.refuse(f"{key!r} is said twice")
            said[key] = value
            self.at += 1
        old_line, new_line = self._names()
        binary = self._skip_binary()
        hunks = tuple(self._hunks()) if not binary else ()
        return assemble(
            Headers(header, said, old_line, new_line, start + 1),
            hunks,
            binary,
            lambda rule, next="": self.refuse(rule, line=start, next=next),
        )

    def _header_line(self, prefix: bytes) -> bytes:
        line = self.lines[self.at]
        if line.endswith(b"\r"):
            raise self.refuse(
                "CRLF in headers: the whole file was saved with Windows line ends",
                next="take the file again as bytes (git config core.autocrlf changes patches on checkout)",
            )
        if b"\x1b[" in line:
            raise self.refuse("colour codes", next="make the diff again with --no-color")
        return line[len(prefix) :]

    def _extended_header(self, line: bytes) -> tuple[str, bytes]:
        for key, form in HEADERS.items():
            if line.startswith(key.encode() + b" "):
                value = self._header_line(key.encode() + b" ")
                if not form.fullmatch(value):
                    raise self.refuse(f"an {key} line that is none" if key[0] == "i" else f"a {key} line that is none")
                return key, value
        return "", b""

    def _names(self) -> tuple[bytes | None, bytes | None]:
        if self.at >= len(self.lines) or not self.lines[self.at].startswith(b"--- "):
            return None, None
        old = self._header_line(b"--- ")
        self.at += 1
        if self.at >= len(self.lines) or not self.lines[self.at].startswith(b"+++ "):
            raise self.refuse("`---` without `+++`")
        new = self._header_line(b"+++ ")
        self.at += 1
        return old, new

    def _skip_binary(self) -> bool:
        if self.at >= len(self.lines):
            return False
        line = self.lines[self.at]
        if line.startswith(b"Binary files "):
            raise self.refuse(
                '"Binary files differ" without the data: nothing can be applied', next="make the diff with --binary"
            )
        if line != b"GIT binary patch":
            return False
        self.at += 1
        parts = 0
        while self.at < len(self.lines) and (part := _BINARY.match(self.lines[self.at])):
            start = self.at + 1
            try:
                self.at = self.lines.index(b"", start)
            except ValueError:
                raise self.refuse("a binary patch that breaks off: no empty line ends its last part") from None
            check_part(self.lines[start : self.at], part[1], start, self.refuse)
            self.at += 1
            parts += 1
        if parts not in (1, 2):
            raise self.refuse("a binary patch without its data")
        return True

    # -- hunks ----------------------------------------------------------------------------------------------------

    def _hunks(self) -> Iterator[Hunk]:
        before: Hunk | None = None
        while self.at < len(self.lines) and self.lines[self.at].startswith(b"@@"):
            if self.lines[self.at].startswith(b"@@@"):
                raise self.refuse("a combined diff (of a merge) does not say what to do to one file")
            hunk = self._hunk()
            # line 0 is that of an empty file, which has no second place
            if before and (hunk.old_start < before.old_start + len(before.old) or before.old_start == 0):
                raise self.refuse("hunks out of order, or over each other", line=hunk.line - 1)
            if before and any(side and not side[-1].endswith(b"\n") for side in (before.old, before.new)):
                raise self.refuse(
                    "a hunk behind the end of the file, which the hunk before it says", line=hunk.line - 1
                )
            before = hunk
            yield hunk

    def _hunk(self) -> Hunk:
        start = self.at
        match = _HUNK.match(b"@@" + self._header_line(b"@@"))
        if not match:
            raise self.refuse("a hunk header that is none")
        if any(len(group) > len(str(NUMBER_LIMIT)) or int(group) >= NUMBER_LIMIT for group in match.groups() if group):
            raise self.refuse("a number over 2**31")
        numbers = [1 if group is None else int(group) for group in match.groups()]
        old_start, old_count, new_start, new_count = numbers
        self.at += 1
        old, new, added, removed, trailing = self._body(old_count, new_count, start)
        if (old_count and old_start == 0) or (new_count and new_start == 0):
            raise self.refuse("a hunk that starts at line 0 and has lines there", line=start)
        # an empty side is that of an empty file, and its line is then 0
        if (old_start > 0 and not old) or (new_start > 0 and not new):
            raise self.refuse(
                f"{'an insertion' if new else 'a deletion'} without context (-U0) fits anywhere{'' if new else ' when taken back'}",
                line=start,
                next="make the diff again with context: git diff -U3",
            )
        if not added and not removed:
            raise self.refuse("a hunk that changes nothing", line=start)
        return Hunk(old_start, new_start, old, new, added, removed, trailing, start + 1)

    def _body(
        self, old_count: int, new_count: int, start: int
    ) -> tuple[tuple[bytes, ...], tuple[bytes, ...], int, int, int]:
        old: list[bytes] = []
        new: list[bytes] = []
        added = removed = trailing = 0
        while len(old) < old_count or len(new) < new_count or self._at_marker():
            if self.at >= len(self.lines):
                raise self.refuse("the hunk has fewer lines than its header says", line=start)
            line = self.lines[self.at]
            sign, rest = line[:1], line[1:] + b"\n"
            if line.startswith(_NO_NEWLINE):
                self._end_without_newline(old, new)
            elif sign in (b" ", b""):
                # An editor that strips trailing blanks turns the context line " " into "": git reads it so too.
                self._grow(old, rest)
                self._grow(new, rest)
                trailing += 1
            elif sign == b"-":
                self._grow(old, rest)
                removed, trailing = removed + 1, 0
            elif sign == b"+":
                self._grow(new, rest)
                added, trailing = added + 1, 0
            else:
                raise self.refuse(
                    "a line in a hunk that starts with none of ' ', '+', '-', '\\' "
                    "(or the hunk has fewer lines than its header says)"
                )
            self.at += 1
        if len(old) != old_count or len(new) != new_count:
            raise self.refuse("the hunk's lines do not add up to its header's counts", line=start)
        return tuple(old), tuple(new), added, removed, trailing

    def _grow(self, side: list[bytes], line: bytes) -> None:
        if side and not side[-1].endswith(b"\n"):
            raise self.refuse("a line behind the one that is marked as the last of the file")
        side.append(line)

    def _at_marker(self) -> bool:
        return self.at < len(self.lines) and self.lines[self.at].startswith(_NO_NEWLINE)

    def _end_without_newline(self, old: list[bytes], new: list[bytes]) -> None:
        """`\\ No newline at end of file`, in any language: the line before it is the last of its side, and ends bare."""
        sign = self.lines[self.at - 1][:1]
        if sign not in (b" ", b"-", b"+", b"") or not (old or new):
            raise self.refuse("a marker that a line has no newline, and no line before it")
        if len(self.lines[self.at]) < _MARKER_LENGTH:
            raise self.refuse(
                "a line that starts with a backslash, and is too short for git's marker of a missing newline"
            )
        for side, signs in ((old, (b" ", b"-", b"")), (new, (b" ", b"+", b""))):
            if sign in signs:
                side[-1] = side[-1][:-1]
