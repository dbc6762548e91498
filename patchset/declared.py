"""Strict reading of the TOML files that people write: an unknown key or a wrong type is an error with file and line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from patchset.errors import DeclarationError
from patchset.toml_lines import Lines

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: No recipe comes near this; a file that does is not one.
SIZE_LIMIT = 1024 * 1024

#: No text here needs them, and a NUL ends a commit message, a path or an argument early.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

T = TypeVar("T")


class Table:
    """One table of a TOML file that is read key by key; :meth:`done` then refuses what nobody asked for.

    :param place: the keys and indices that lead to this table, to find its line again.
    """

    def __init__(self, file: Path, text: str, data: dict[str, Any], place: tuple[str | int, ...] = ()) -> None:
        self.file = file
        self._text = text
        self._data = data
        self._place = place
        self._asked: set[str] = set()
        self._known: set[str] = set()

    def error(self, what: str, *, key: str | None = None, item: int | None = None, next: str = "") -> DeclarationError:
        """A :class:`DeclarationError` that points at *key* of this table, and at its *item* if it is a list."""
        line = Lines(self._text).of((*self._place, *([] if key is None else [key]), *([] if item is None else [item])))
        return DeclarationError(what, where=f"{self.file}:{line}", next=next or f"edit {self.file.name}, line {line}")

    def names(self) -> tuple[str, ...]:
        """The keys of this table in the file's order."""
        return tuple(self._data)

    def text(self, key: str, default: str | None = None) -> str:
        """The string at *key*; it is required when there is no *default*."""
        value = self._get(key, str, "a string", default)
        if value == "" and default != "":
            raise self.error(f"{key} is empty", key=key)
        if _CONTROL.search(value):
            raise self.error(f"{key} holds a control character", key=key)
        return value

    def one_of(self, key: str, allowed: Sequence[str], default: str | None = None) -> str:
        """The string at *key*, which must be one of *allowed*."""
        value = self.text(key, default)
        if value not in allowed:
            raise self.error(f"{key} = {value!r} is none of {', '.join(allowed)}", key=key)
        return value

    def boolean(self, key: str, default: bool) -> bool:
        """The boolean at *key*."""
        return self._get(key, bool, "true or false", default)

    def integer(self, key: str) -> int:
        """The integer at *key*."""
        return self._get(key, int, "a whole number", None)

    def moment(self, key: str) -> datetime:
        """The date-time with offset at *key*, in UTC."""
        value = self._get(key, datetime, "a date-time such as 2026-11-30T00:00:00Z", None)
        if value.tzinfo is None:
            raise self.error(f"{key} has no time zone: two machines would read two moments", key=key)
        if not 1970 < value.year < 2100:
            raise self.error(f"{key}: the year {value.year} is none that git and zip files can both hold", key=key)
        return value.astimezone(timezone.utc)

    def texts(self, key: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        """The list of strings at *key*."""
        value = self._get(key, list, "a list of strings", None if default is None else list(default))
        for index, item in enumerate(value):
            if not isinstance(item, str):
                raise self.error(f"{key} must be a list of strings", key=key, item=index)
            if _CONTROL.search(item):
                raise self.error(f"{key} holds a control character", key=key, item=index)
        return tuple(value)

    def table(self, key: str, default: dict[str, Any] | None = None) -> Table:
        """The table at *key*."""
        return Table(self.file, self._text, self._get(key, dict, "a table", default), (*self._place, key))

    def tables(self, key: str) -> tuple[Table, ...]:
        """The tables of the array at *key*; none if it is not there."""
        value = self._get(key, list, "an array of tables", [])
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.error(f"{key} must be an array of tables", key=key, item=index)
        return tuple(Table(self.file, self._text, item, (*self._place, key, i)) for i, item in enumerate(value))

    def parsed(self, key: str, parse: Callable[[str], T], default: str | None = None) -> T:
        """The string at *key*, through *parse*; its ValueError becomes an error at that line."""
        value = self.text(key, default)
        try:
            return parse(value)
        except ValueError as error:
            raise self.error(f"{key} = {value!r}: {error}", key=key) from error

    def has(self, key: str) -> bool:
        """Is *key* there? (Does not count as asking for it.)"""
        self._known.add(key)
        return key in self._data

    def done(self) -> None:
        """Nothing more will be asked.

        :raises DeclarationError: a key was never asked for: it is unknown.
        """
        for key in self._data:
            if key not in self._asked:
                known = ", ".join(sorted(self._asked | self._known)) or "none"
                raise self.error(f"unknown key {key!r} (known here: {known})", key=key)

    def _get(self, key: str, kind: type, named: str, default: Any) -> Any:
        self._asked.add(key)
        if key not in self._data:
            if default is None:
                raise self.error(f"{key} is missing", next=f"add {key} = … ({named}) to {self.file.name}")
            return default
        value = self._data[key]
        # bool is an int in Python and is none in TOML
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(f"{key} must be {named}, not {type(value).__name__}", key=key)
        return value


def read(file: Path) -> Table:
    """The top table of *file*.

    :raises DeclarationError: it is missing, over :data:`SIZE_LIMIT`, not UTF-8 or not TOML.
    """
    try:
        if file.stat().st_size > SIZE_LIMIT:
            raise DeclarationError(
                f"larger than {SIZE_LIMIT} bytes", where=str(file), next="check that it is the right file"
            )
        text = file.read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        raise DeclarationError("no such file", where=str(file), next="ls recipes, or: ./inv --list") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DeclarationError(f"cannot be read: {error}", where=str(file), next=f"check {file.name}") from error
    return parse(text, file)


def parse(text: str, file: Path) -> Table:
    """The top table of *text*, which stands in *file*.

    :raises DeclarationError: it is not TOML.
    """
    try:
        return Table(file, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        where = f"{file}:{line.group(1)}" if line else str(file)
        raise DeclarationError(f"not valid TOML: {error}", where=where, next=f"edit {file.name}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; brackets a thousand deep
        raise DeclarationError(
            f"not valid TOML: {type(error).__name__}", where=str(file), next=f"check {file.name}"
        ) from error
