"""quilt: what its ``series`` file declares, and diffs without git's header put under the names that this declares.

A diff that git did not write leaves to a guess how many leading parts its paths have, and whether a file is new. In a
series that is declared, so such a diff can be read; its hunks stay as they are, byte for byte.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from patchset import diff
from patchset.diff_rules import show
from patchset.errors import DiffRefused

#: What no series of patches comes near.
SERIES_LIMIT = 1024 * 1024
FILES_LIMIT = 2000

_LEVEL = re.compile(r"-p ?(\d|ab)\Z")
_HUNK = re.compile(rb"@@ -(\d{1,10})(?:,(\d{1,10}))? \+(\d{1,10})(?:,(\d{1,10}))? @@")
#: What svn, cvs, quilt and diff -r write above the names of a file.
_ABOVE = re.compile(rb"Index: .*|={10,}|diff (?!--git|--cc|--combined).*")
_MOMENT = re.compile(rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.0+)? ([+-])(\d\d)(\d\d)\s*\Z")
_NOWHERE = b"/dev/null"


@dataclass(frozen=True)
class Listed:
    """A file of a series, and how many leading parts its paths have that are not the tree's (1: a/ and b/)."""

    file: Path
    strip: int


def listed(series: Path) -> list[Listed]:
    """What *series* lists, in order: a line a patch, with -pN where it is not -p1, and comments.

    :raises DiffRefused: a line names a file outside the folder, one that is not there, or an option other than -pN.
    """
    if series.stat().st_size > SERIES_LIMIT:
        raise DiffRefused(f"larger than {SERIES_LIMIT} bytes", where=str(series), next="check that it is a series file")
    found = []
    for number, line in enumerate(os.fsdecode(series.read_bytes()).split("\n"), 1):
        words = re.sub(r"(?:^|\s)#.*", "", line).split()
        if not words:
            continue
        where = f"{series}:{number}"
        file = series.parent / words[0]
        if ".." in Path(words[0]).parts or Path(words[0]).is_absolute() or words[0].startswith("-"):
            raise DiffRefused(f"{words[0]!r} leaves the folder", where=where, next="edit that line")
        if not os.path.isfile(
            file
        ):  # unlike Path.is_file, it takes any name: with a NUL in it, too long, a loop of links
            raise DiffRefused(
                f"{words[0][:200]!r} is not there", where=where, next="restore it, or take it out of the series"
            )
        check_inside(series.parent, file, where)
        level = _LEVEL.match(" ".join(words[1:]) or "-p1")
        if level is None:
            raise DiffRefused(
                f"option {' '.join(words[1:])!r}: only -pN and -p ab are read here; a reversed patch is none",
                where=where,
                next="quilt refresh -p1 that patch, and take the option out",
            )
        found.append(Listed(file, 1 if level.group(1) == "ab" else int(level.group(1))))
        if len(found) > FILES_LIMIT:
            raise DiffRefused(f"more than {FILES_LIMIT} patches", where=where, next="import it in parts")
    return found


def check_inside(folder: Path, file: Path, where: str) -> None:
    """:raises DiffRefused: *file* is, or is behind, a link out of *folder*: it would be another file for everybody else."""
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):
        raise DiffRefused(f"{file.name} is a link out of the folder", where=where, next="put the file itself there")


@dataclass(frozen=True)
class Normalised:
    """A diff as git writes it: its bytes, how many files got git's header, and where each line comes from (from 0)."""

    data: bytes
    files: int
    origins: tuple[int, ...]


def normalised(data: bytes, strip: int, name: str) -> Normalised:
    """*data* as git writes a diff, where the level *strip* is declared.

    Files whose diff is git's own already are left as they are (at level 1). What this cannot read is passed on as it is,
    for the strict reader to refuse.

    :raises DiffRefused: names that the level leaves nothing of, or that are not one file's.
    """
    return _Normaliser(data.split(b"\n"), strip, name).run()


def levels(data: bytes, name: str) -> list[int]:
    """The levels at which *data* can be read strictly, for an error's advice."""
    found = []
    for strip in (1, 0):
        try:
            made = normalised(data, strip, name)
            if made.files and diff.read(made.data, name):
                found.append(strip)
        except DiffRefused:
            continue
    return found


class _Normaliser:
    def __init__(self, lines: list[bytes], strip: int, name: str) -> None:
        self._lines = lines
        self._strip = strip
        self._name = name
        self._at = 0
        self._out: list[tuple[bytes, int]] = []
        self._rewritten = 0

    def run(self) -> Normalised:
        while self._at < len(self._lines):
            if self._line().startswith(b"diff --git "):
                self._git_file()
            elif self._starts_plain_file():
                self._plain_file()
            else:
                self._keep()
        lines = b"\n".join(line for line, _ in self._out)
        return Normalised(lines, self._rewritten, tuple(origin for _, origin in self._out))

    def _line(self, ahead: int = 0) -> bytes:
        at = self._at + ahead
        return self._lines[at] if at < len(self._lines) else b""

    def _write(self, line: bytes) -> None:
        self._out.append((line, self._at))

    def _keep(self) -> None:
        self._write(self._line())
        self._at += 1

    def _refuse(self, rule: str, next: str) -> DiffRefused:
        return DiffRefused(rule, where=f"{self._name}:{self._at + 1}", next=next)

    def _starts_plain_file(self) -> bool:
        return (
            self._line().startswith(b"--- ")
            and self._line(1).startswith(b"+++ ")
            and _HUNK.match(self._line(2)) is not None
        )

    # -- a file whose diff git did not write ------------------------------------------------------------------------------

    def _plain_file(self) -> None:
        (old, old_moment), (new, new_moment) = (self._named(line[4:]) for line in (self._line(), self._line(1)))
        hunk = _HUNK.match(self._line(2))
        assert hunk is not None
        made = old == _NOWHERE or (_is_epoch(old_moment) and hunk.group(1, 2) == (b"0", b"0"))
        gone = new == _NOWHERE or (_is_epoch(new_moment) and hunk.group(3, 4) == (b"0", b"0"))
        if self._strip == 0 and old == new + b".orig":
            old = new  # as `quilt refresh -p0` writes it
        names = {self._stripped(name) for name in (old, new) if name != _NOWHERE}
        if len(names) != 1:
            raise self._refuse(
                f"under -p{self._strip} the names {show(old)} and {show(new)} are not one file's",
                "declare the level that they have, or quilt refresh -p1 that patch",
            )
        path = names.pop()
        while self._out and _ABOVE.fullmatch(self._out[-1][0]):
            self._out.pop()
        self._write(b"diff --git a/" + path + b" b/" + path)
        if made or gone:
            self._write(b"new file mode 100644" if made else b"deleted file mode 100644")
        self._write(b"--- " + (_NOWHERE if made else b"a/" + path))
        self._write(b"+++ " + (_NOWHERE if gone else b"b/" + path))
        self._at += 2
        self._rewritten += 1
        self._hunks()

    def _named(self, text: bytes) -> tuple[bytes, bytes]:
        """(name, time) of a ``---`` or ``+++`` line."""
        name, _, moment = text.partition(b"\t")
        if name.startswith(b'"'):
            raise self._refuse(
                f"the quoted name {show(name)} in a diff that git did not write", "make that diff with git: git diff"
            )
        return name, moment

    def _stripped(self, name: bytes) -> bytes:
        parts = name.split(b"/")[self._strip :]
        if not parts or b"" in parts:
            raise self._refuse(
                f"under -p{self._strip} the name {show(name)} is no path of a tree", "declare the level that it has"
            )
        return b"/".join(parts)

    # -- a file whose diff git wrote --------------------------------------------------------------------------------------

    def _git_file(self) -> None:
        if self._strip == 1:
            self._keep()
        elif self._strip == 0:
            self._write(self._git_header(self._line()[len(b"diff --git ") :]))
            self._rewritten += 1
            self._at += 1
        else:
            raise self._refuse(f"git's own diff under -p{self._strip}", "git writes -p1, or -p0 with --no-prefix")
        while self._at < len(self._lines) and not self._line().startswith((b"diff --git ", b"@@ ")):
            if self._strip == 0 and self._line().startswith((b"--- ", b"+++ ")):
                self._write(self._prefixed_line(self._line()))
                self._at += 1
            else:
                self._keep()
        self._hunks()

    def _git_header(self, names: bytes) -> bytes:
        half = len(names) // 2
        if names[:half] == names[half + 1 :] and names[half : half + 1] == b" ":
            old = new = names[:half]
        else:
            said = {}
            for ahead in range(1, 8):
                match = re.match(rb"(?:rename|copy) (from|to) (.*)\Z", self._line(ahead))
                if match:
                    said[match.group(1)] = match.group(2)
            old, new = said.get(b"from", b""), said.get(b"to", b"")
            if names != old + b" " + new:
                raise self._refuse(
                    "declared -p0, and the two names of `diff --git` are not one file's: they have prefixes",
                    "declare -p1 in the series",
                )
        return b"diff --git " + _prefixed(b"a/", old) + b" " + _prefixed(b"b/", new)

    def _prefixed_line(self, line: bytes) -> bytes:
        if line[4:] == _NOWHERE:
            return line
        return line[:4] + _prefixed(b"a/" if line.startswith(b"-") else b"b/", line[4:])

    # -- hunks --------------------------------------------------------------------------------------------------------------

    def _hunks(self) -> None:
        """Pass hunks on by their counts: a removed line may look like a name."""
        while True:
            hunk = _HUNK.match(self._line())
            if hunk is None:
                return
            old, new = (int(hunk.group(index) or b"1") for index in (2, 4))
            self._keep()
            while self._at < len(self._lines) and (old > 0 or new > 0 or self._line().startswith(b"\\ ")):
                sign = self._line()[:1]
                if sign not in (b" ", b"-", b"+", b"\\", b"", b"\r"):
                    return
                old -= sign in (b" ", b"-", b"", b"\r")
                new -= sign in (b" ", b"+", b"", b"\r")
                self._keep()


def _prefixed(prefix: bytes, name: bytes) -> bytes:
    return b'"' + prefix + name[1:] if name.startswith(b'"') else prefix + name


def _is_epoch(moment: bytes) -> bool:
    """Does ``diff -N`` say with this time that the file is not there?"""
    match = _MOMENT.match(moment.strip())
    if match is None:
        return False
    try:
        told = datetime.strptime(match.group(1).decode("ascii"), "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return False
    offset = timedelta(hours=int(match.group(3)), minutes=int(match.group(4)))
    return told - datetime(1970, 1, 1, tzinfo=timezone.utc) == (offset if match.group(2) == b"+" else -offset)
