"""The only module that prints: tables, progress and errors for a person, JSON for a program."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from patchset.errors import PatchsetError

_STYLES = {
    "applies": "green",
    "merges": "green",
    "upstream": "cyan",
    "absent": "cyan",
    "sound": "green",
    "passed": "green",
    "defect": "red",
    "unknown": "yellow",
    "mind": "yellow",
    "conflicts": "bold red",
    "partial": "bold red",
    "ambiguous": "bold red",
    "refused": "bold red",
    "failed": "bold red",
    "good": "green",
    "bad": "bold red",
    "flaky": "yellow",
    "skipped": "yellow",
    "cannot-apply": "yellow",
    "cannot-build": "yellow",
    "cannot-load": "yellow",
    "omitted": "yellow",
    "not run": "yellow",
    "FAILED": "bold red",
    "MISSING": "bold red",
    "known": "yellow",
}


#: What would make a terminal do something: controls but tab and newline.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def harmless(text: str) -> str:
    r"""*text* with control characters written as ``\xNN``: a title, a path or a line of a diff may hold any."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


class Console:
    """Where a task's words go.

    With ``as_json`` standard output carries one JSON document and nothing else; progress then goes to standard error.
    Colour and moving progress only on a terminal, and never with ``NO_COLOR`` or ``TERM=dumb``.
    """

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self._said = False
        for stream in (sys.stdout, sys.stderr):
            # A path need not be text, and a terminal need not be UTF-8; saying it oddly beats not saying it.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        self._plain_err = not sys.stderr.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"

    def say(self, text: str) -> None:
        """One line of progress, on standard error."""
        self._rich(sys.stderr).print(harmless(text), markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, text: str) -> Iterator[Step]:
        """A step that may take long: a spinner on a terminal, a line when it ends; both say what it was and how long."""
        step, started = Step(), time.monotonic()
        if self._plain_err:
            yield step
        else:
            with self._rich(sys.stderr).status(text):
                yield step
        note = f" ({step.note})" if step.note else ""
        self.say(f"  {text}{note}  {time.monotonic() - started:.1f} s")

    def line(self, text: str = "") -> None:
        """One line of the result; nothing with ``as_json``."""
        if not self.as_json:
            self._rich(sys.stdout).print(harmless(text), markup=False, highlight=False, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
        """A table of the result; nothing with ``as_json``. Words that are states get their colour."""
        if self.as_json:
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(title=harmless(title) or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for index, column in enumerate(columns):
            table.add_column(column, overflow="fold", no_wrap=index == 0)
        for row in rows:
            table.add_row(*(Text(harmless(cell), style=_style(cell)) for cell in row))
        self._rich(sys.stdout).print(table)

    @property
    def width(self) -> int:
        """Columns that a line of the result has room for."""
        return self._rich(sys.stdout).width

    def json(self, document: Mapping[str, Any] | Sequence[Any]) -> None:
        """The result as JSON; nothing without ``as_json``. The first is the only one: an error after it has its exit code."""
        if self.as_json and not self._said:
            self._said = True
            sys.stdout.write(json.dumps(document, indent=2, sort_keys=True) + "\n")

    def error(self, error: PatchsetError) -> None:
        """A failure: what, where, next; with ``as_json`` as a document too."""
        err = self._rich(sys.stderr)
        err.print(f"error: {harmless(error.what)}", style="bold red", markup=False, highlight=False, soft_wrap=True)
        for name, text in (("where", error.where), ("next", error.next)):
            if text:
                err.print(f"  {name}: {harmless(text)}", markup=False, highlight=False, soft_wrap=True)
        if error.detail:
            err.print(
                "\n".join(f"    {harmless(line)}" for line in error.detail.splitlines()),
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
        self.json({"error": error.as_dict()})

    def _rich(self, stream: Any) -> RichConsole:
        from rich.console import Console as RichConsole  # 0.1 s that `inv --list` does not need

        # Not on a terminal, rich would wrap at 80 columns, and a path in a log would no longer be one word.
        plain = not stream.isatty()
        return RichConsole(
            file=stream, emoji=False, width=None if not plain else 200, no_color="NO_COLOR" in os.environ or None
        )


def _style(cell: str) -> str:
    """The colour of the state that *cell* is, or that it begins with: "applies (offset 3)", "sound (known)"."""
    words = cell.split() or [""]
    return _STYLES.get(" ".join(words)) or _STYLES.get(words[0].rstrip(",:;"), "")


class Step:
    """What a step wants to add to its line when it ends, for example that a result was reused."""

    note = ""


def relative(path: Path, root: Path) -> str:
    """*path* as a person in the clone types it."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
