"""Where in a TOML file each key and table stands: tomllib keeps no lines, and an error without one is half an error."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_TEXT = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*"{3,5}|"(?:[^"\\\n]|\\.)*"'''
    r"""|'''(?:[^']|'(?!''))*'{3,5}|'[^'\n]*'""",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")


class Lines:
    """The lines of *text*, which must be valid TOML: anything else was turned away by tomllib before."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._found: dict[tuple[str | int, ...], int] = {}
        self._last: dict[tuple[str | int, ...], int] = {}
        self._headers: list[tuple[tuple[str | int, ...], int]] = []
        self._read()

    def of(self, place: tuple[str | int, ...]) -> int:
        """The line (from 1) of the keys and indices in *place*; of the nearest of its parents if it is not there."""
        while place and place not in self._found:
            place = place[:-1]
        return self._found.get(place, 1)

    def headers(self) -> list[tuple[tuple[str | int, ...], int]]:
        """(keys and indices, line) of each table that has a header of its own, in order."""
        return self._headers

    def _read(self) -> None:
        table: tuple[str | int, ...] = ()
        while self._skip() < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> tuple[str | int, ...]:
        line, array = self._at, self._text.startswith("[[", self._at)
        self._at += 2 if array else 1
        *parents, name = self._keys()
        place = (*self._inside(parents, line), name)
        if array:
            self._note(place, line)
            self._last[place] = self._last.get(place, -1) + 1
            place = (*place, self._last[place])
        self._note(place, line)
        self._headers.append((place, bisect_right(self._starts, line)))
        self._at += 2 if array else 1
        return place

    def _inside(self, keys: Sequence[str], line: int) -> tuple[str | int, ...]:
        """The place of *keys*, each array of tables on the way taken at its last table, as TOML does."""
        place: tuple[str | int, ...] = ()
        for key in keys:
            place = (*place, key)
            self._note(place, line)
            if place in self._last:
                place = (*place, self._last[place])
        return place

    def _pair(self, table: tuple[str | int, ...]) -> None:
        line, place = self._at, table
        for key in self._keys():
            place = (*place, key)
            self._note(place, line)
        self._at += 1  # the equals sign
        self._value(place)

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip()
            word = self._take(_KEY)
            keys.append(word[1:-1] if word[:1] in ("'", '"') else word)
            self._skip()
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _value(self, place: tuple[str | int, ...]) -> None:
        self._skip()
        self._note(place, self._at)
        first = self._text[self._at : self._at + 1]
        if first == "[":
            for index, _ in enumerate(self._items("]")):
                self._value((*place, index))
        elif first == "{":
            for _ in self._items("}"):
                self._pair(place)
        else:
            self._take(_TEXT if first in ("'", '"') else _SCALAR)

    def _items(self, end: str) -> Iterator[None]:
        """Stop at each item between here and *end*; whoever asks takes the item before asking again."""
        self._at += 1
        while not self._text.startswith(end, self._skip()):
            if self._text.startswith(",", self._at):
                self._at += 1
            else:
                yield
        self._at += 1

    def _skip(self) -> int:
        self._take(_BLANK)
        return self._at

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError(f"not TOML at offset {self._at}")
        self._at = match.end()
        return match.group()

    def _note(self, place: tuple[str | int, ...], offset: int) -> None:
        self._found.setdefault(place, bisect_right(self._starts, offset))
