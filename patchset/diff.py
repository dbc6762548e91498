"""Strict reading of a unified diff, before git ever sees it: bytes in, structure out.

What git reads leniently, and what other tools read differently from git, is turned away with the line and the rule:
a diff is a description of a change that must mean one thing only. ``diff_check.cross_check`` then compares what was read with
git's own numstat and with unidiff.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from patchset.diff_model import FileDiff, Hunk
from patchset.diff_rules import Refuse, check_link, check_path, same_names, show, unquote
from patchset.errors import DiffRefused

#: Bounds on input nobody has vouched for. The largest public XPU diff has 14,790 lines.
BYTES_LIMIT = 16 * 1024 * 1024
LINE_LIMIT = 1024 * 1024
NUMBER_LIMIT = 2**31

MODES = ("100644", "100755", "120000")

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(?: .*)?\Z", re.DOTALL)
_INDEX = re.compile(rb"index ([0-9a-f]{7,64})\.\.([0-9a-f]{7,64})(?: (\d{6}))?\Z")
#: What mail programs and `git mailsplit` take for the start of another mail: it ends in a date.
_MAIL = re.compile(rb"From (?:[0-9a-f]{40} |\S.* \d\d?:\d\d:\d\d )")
_NO_NEWLINE = b"\\ "


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
            if self._is_signature():
                break
            if not self.lines[self.at].startswith(b"diff --git "):
                raise self.refuse(
                    "a line that belongs to no file's diff (a hunk count too small leaves such lines over)"
                )
            files.append(self._read_file())
        if not files:
            raise self.refuse("no diff in this file", line=0)
        links = tuple(file.path + b"/" for file in files if file.new_mode == "120000" and file.new_path)
        for file in files:
            if file.new_path and file.path.startswith(links):
                raise self.refuse(f"{show(file.path)} lies behind a link that this diff makes", line=file.line - 1)
        return tuple(files)

    # -- the file as a whole --------------------------------------------------------------------------------------

    def _check_bytes(self) -> None:
        data = self.data
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
            if number > 0 and _MAIL.match(line):
                raise self.refuse("more than one mail in one file", line=number, next="split it: git mailsplit")
        raise self.refuse("no diff in this file", line=0)

    def _is_signature(self) -> bool:
        """`-- ` and what follows it, at the end of a mail."""
        return self.lines[self.at] == b"-- " and not any(
            line.startswith((b"diff ", b"--- ", b"+++ ", b"@@ ")) for line in self.lines[self.at :]
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
        return self._assemble(header, said, old_line, new_line, hunks, binary, start)

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
        for key in (
            "old mode",
            "new mode",
            "deleted file mode",
            "new file mode",
            "copy from",
            "copy to",
            "rename from",
            "rename to",
            "similarity index",
            "dissimilarity index",
            "index",
        ):
            if line.startswith(key.encode() + b" "):
                value = self._header_line(key.encode() + b" ")
                if key == "index" and not _INDEX.match(line):
                    raise self.refuse("an index line that is none")
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
        while self.at < len(self.lines) and re.match(rb"(literal|delta) \d{1,10}\Z", self.lines[self.at]):
            self.at += 1
            while self.at < len(self.lines) and self.lines[self.at]:
                if not re.match(rb"[A-Za-z][0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]+\Z", self.lines[self.at]):
                    raise self.refuse("a line of a binary patch that is none")
                self.at += 1
            self.at += 1
            parts += 1
        if parts not in (1, 2):
            raise self.refuse("a binary patch without its data")
        return True

    # -- hunks ----------------------------------------------------------------------------------------------------

    def _hunks(self) -> Iterator[Hunk]:
        last_end = 0
        while self.at < len(self.lines) and self.lines[self.at].startswith(b"@@"):
            if self.lines[self.at].startswith(b"@@@"):
                raise self.refuse("a combined diff (of a merge) does not say what to do to one file")
            hunk = self._hunk()
            if hunk.old_start < last_end:
                raise self.refuse("hunks out of order, or over each other", line=hunk.line - 1)
            last_end = hunk.old_start + len(hunk.old)
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
        if old_start > 1 and not old:
            raise self.refuse(
                "an insertion without context (-U0) fits anywhere",
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
            elif sign in (b" ", b"") or line == b"\r":
                # An editor that strips trailing blanks turns the context line " " into "": git reads it so too.
                old.append(rest if sign == b" " else line + b"\n")
                new.append(old[-1])
                trailing += 1
            elif sign == b"-":
                old.append(rest)
                removed, trailing = removed + 1, 0
            elif sign == b"+":
                new.append(rest)
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

    def _at_marker(self) -> bool:
        return self.at < len(self.lines) and self.lines[self.at].startswith(_NO_NEWLINE)

    def _end_without_newline(self, old: list[bytes], new: list[bytes]) -> None:
        sign = self.lines[self.at - 1][:1]
        for side, signs in ((old, (b" ", b"-", b"")), (new, (b" ", b"+", b""))):
            if sign in signs and side:
                side[-1] = side[-1][:-1]

    # -- putting a file together ----------------------------------------------------------------------------------

    def _assemble(
        self,
        header: bytes,
        said: dict[str, bytes],
        old_line: bytes | None,
        new_line: bytes | None,
        hunks: tuple[Hunk, ...],
        binary: bool,
        start: int,
    ) -> FileDiff:
        def refuse(rule: str, next: str = "") -> DiffRefused:
            return self.refuse(rule, line=start, next=next)

        change = (
            "add"
            if "new file mode" in said
            else "delete"
            if "deleted file mode" in said
            else "rename"
            if "rename from" in said
            else "copy"
            if "copy from" in said
            else "mode"
            if not hunks and not binary
            else "modify"
        )
        modes = {key: said[key].decode("ascii", "replace") for key in said if key.endswith("mode")}
        for key, mode in modes.items():
            if mode not in MODES:
                raise refuse(f"{key} {mode}: only {', '.join(MODES)} are files of a tree")
        if change == "mode" and not {"old mode", "new mode"} <= set(said):
            raise refuse("a file's diff that says nothing: no hunk, no mode, no rename")
        if change in ("rename", "copy"):
            if f"{change} to" not in said:
                raise refuse(f"{change} from without {change} to")
            old, new = unquote(said[f"{change} from"]), unquote(said[f"{change} to"])
            if not same_names(header, old, new):
                raise refuse("the names of `diff --git` and of the rename or copy disagree")
        else:
            old = new = self._one_name(header, old_line, new_line, change, refuse)
        for line, path, gone in ((old_line, old, change == "add"), (new_line, new, change == "delete")):
            if line is not None:
                self._check_name(line, path, gone, b"a/" if line is old_line else b"b/", refuse)
        if hunks and old_line is None:
            raise refuse("hunks without `---` and `+++`")
        for path in {old, new}:
            check_path(path, refuse)
        if (change == "add" and any(hunk.old for hunk in hunks)) or (
            change == "delete" and any(hunk.new for hunk in hunks)
        ):
            raise refuse("a new file that has old lines, or a deleted one that has new lines")
        index = _INDEX.match(b"index " + said["index"]) if "index" in said else None
        blob = (
            index.group(1).decode()
            if index and len(index.group(1)) == 40 and set(index.group(1)) != {ord("0")}
            else None
        )
        plain = index.group(3).decode() if index and index.group(3) else None
        if plain is not None and plain not in MODES:
            raise refuse(f"mode {plain}: only {', '.join(MODES)} are files of a tree (160000 is a submodule)")
        if "120000" in (*modes.values(), plain):
            if binary:
                raise refuse("a link's target as a binary patch")
            check_link(new, (b"".join(hunk.new) for hunk in hunks), refuse)
        return FileDiff(
            change,
            None if change == "add" else old,
            None if change == "delete" else new,
            modes.get("old mode") or modes.get("deleted file mode") or plain,
            modes.get("new mode") or modes.get("new file mode") or plain,
            blob,
            hunks,
            binary,
            start + 1,
        )

    def _one_name(
        self, header: bytes, old_line: bytes | None, new_line: bytes | None, change: str, refuse: Refuse
    ) -> bytes:
        """The one path of a file that is not renamed: `diff --git a/X b/X`, where X may hold spaces and ` b/`."""
        if header.startswith(b'"'):
            match = re.match(rb'("(?:[^"\\]|\\.)*") (.+)\Z', header, re.DOTALL)
            halves = (match.group(1), match.group(2)) if match else (b"", b"")
        else:
            middle = len(header) // 2
            halves = (header[:middle], header[middle + 1 :]) if header[middle : middle + 1] == b" " else (b"", b"")
        old, new = unquote(halves[0]), unquote(halves[1])
        if old.startswith(b"a/") and new.startswith(b"b/") and old[2:] == new[2:]:
            return old[2:]
        if old and old == new:
            raise refuse(
                "names without the prefixes a/ and b/: how much to strip would be a guess",
                "make the diff again with --src-prefix=a/ --dst-prefix=b/ (diff.noprefix is set)",
            )
        if re.match(rb"[ciwo]/", header) and re.search(rb" [ciwo]/", header):
            raise refuse(
                "mnemonic prefixes (i/ w/ c/ o/)",
                "make the diff again with --src-prefix=a/ --dst-prefix=b/ (diff.mnemonicPrefix is set)",
            )
        raise refuse("the two names of `diff --git` disagree, and it is no rename or copy")

    def _check_name(self, line: bytes, path: bytes, gone: bool, prefix: bytes, refuse: Refuse) -> None:
        name = unquote(line[:-1] if line.endswith(b"\t") else line)
        if gone:
            if name != b"/dev/null":
                raise refuse("a file that is new or deleted, and whose missing side is not /dev/null")
        elif name != prefix + path:
            raise refuse(f"`---`/`+++` name {show(name)}, `diff --git` names {show(path)}")
