"""Files and JSON of a stranger's: only plain files are opened, nothing is read without an end, and odd JSON is refused."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .trees import blob_hash

#: The largest file that is hashed: triton's library, the largest beside vLLM, has some 500 MB.
MOST_BYTES = 8 * 1024**3
#: The largest text that is read; torch's RECORD has 1.5 MB.
MOST_TEXT = 32 * 1024**2
#: The largest JSON document: a receipt has some 50 kB. As Python's objects it takes thirty times as much.
MOST_JSON = 8 * 1024**2

_DEEPEST_JSON = 64
_DIGITS = 20
_LONGEST_PATH = 1024
_DEEPEST_PATH = 64
_CHUNK = 1024**2


class Unread(Exception):
    """A file is not there to be read: its text says why, without the path."""


class NotPlain(Unread):
    """It is there, and is a folder, a pipe or a device."""

    def __init__(self) -> None:
        super().__init__("it is not a plain file")


class Malformed(ValueError):
    """A document is not what it must be: its text says where in it, and what."""


@dataclass(frozen=True)
class Held:
    """A file without its bytes: its size, and the two hashes it can be compared by."""

    size: int
    sha256: str
    blob: str


def is_plain_path(path: str) -> bool:
    """Is *path* relative, in one spelling, printable, and without a way out of its folder?"""
    parts = path.split("/")
    return (
        len(path) <= _LONGEST_PATH
        and len(parts) <= _DEEPEST_PATH
        and all(parts)
        and not {".", ".."} & set(parts)
        and "\\" not in path
        and ":" not in path
        and path.isprintable()
    )


@contextmanager
def opened(path: str | Path) -> Iterator[tuple[IO[bytes], int]]:
    """The plain file *path* (links are followed) and its size. A pipe or a device is never waited for.

    :raises Unread: it is not there, not a plain file, or may not be read.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise NotPlain
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        stream = open(os.open(path, flags), "rb")
    except (OSError, ValueError) as error:  # a name with NUL is a ValueError
        raise Unread(_reason(error)) from error
    with stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise NotPlain
        try:
            yield stream, found.st_size
        except OSError as error:
            raise Unread(_reason(error)) from error


def read(path: str | Path, limit: int = MOST_TEXT) -> bytes:
    """The bytes of the plain file *path*.

    :raises Unread: see :func:`opened`; or it has more than *limit* bytes.
    """
    with opened(path) as (stream, _):
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise Unread(f"it has more than {limit} bytes")
    return data


def held(path: str | Path) -> Held:
    """The hashes of the plain file *path*.

    :raises Unread: see :func:`opened`; or it is larger than :data:`MOST_BYTES`, or changes while it is read.
    """
    with opened(path) as (stream, size):
        return held_stream(stream, size)


def held_stream(stream: IO[bytes], size: int) -> Held:
    """The hashes of the *size* bytes that *stream* still has.

    :raises Unread: it has more or fewer.
    """
    if size > MOST_BYTES:
        raise Unread(f"it has more than {MOST_BYTES} bytes")
    sha256, blob, left = hashlib.sha256(), blob_hash(size), size
    while data := stream.read(min(_CHUNK, left + 1)):
        left -= len(data)
        if left < 0:
            break
        sha256.update(data)
        blob.update(data)
    if left:
        raise Unread("it changes while it is read")
    return Held(size, sha256.hexdigest(), blob.hexdigest())


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def parse_json(data: bytes) -> Any:
    """The JSON document *data*: UTF-8, each key once, finite numbers of a sane length.

    :raises Malformed: it is not one.
    """
    if len(data) > MOST_JSON:
        raise Malformed(f"it has more than {MOST_JSON} bytes")
    try:
        document = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_once,
            parse_constant=_refuse,
            parse_int=_integer,
            parse_float=_finite,
        )
    except RecursionError as error:
        raise Malformed("it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise Malformed("it is not UTF-8") from error
    except Malformed:
        raise
    except ValueError as error:
        raise Malformed(f"it is not JSON: {error}") from error
    _refuse_deep(document)
    return document


def _refuse_deep(document: Any) -> None:
    level = [document]
    for _ in range(_DEEPEST_JSON):
        level = [inner for item in level if isinstance(item, dict | list) for inner in _inside(item)]
        if not level:
            return
    raise Malformed("it is nested too deeply")


def _inside(item: dict[str, Any] | list[Any]) -> list[Any]:
    return list(item.values()) if isinstance(item, dict) else item


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed("an object has one key twice")
    return found


def _refuse(word: str) -> None:
    raise Malformed(f"{word} is no JSON")


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise Malformed("a number is too long")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Malformed("a number is out of range")
    return number


class Node:
    """One value of a JSON document, with the place it stands at; every reading says what it must be."""

    def __init__(self, value: Any, place: str = "") -> None:
        self.value = value
        self.place = place

    def __getitem__(self, key: str) -> Node:
        found = self.get(key)
        if found is None:
            raise Malformed(f"{self.place or 'the document'} has no {key!r}")
        return found

    def get(self, key: str) -> Node | None:
        """The value under *key* of an object, if it has it."""
        value = self._a(dict, "an object")
        return Node(value[key], f"{self.place}.{key}" if self.place else key) if key in value else None

    def items(self) -> list[tuple[str, Node]]:
        """The keys and values of an object."""
        return [(key, Node(value, f"{self.place}[{key!r}]")) for key, value in self._a(dict, "an object").items()]

    def list(self) -> list[Node]:
        """The items of an array."""
        return [Node(value, f"{self.place}[{number}]") for number, value in enumerate(self._a(list, "an array"))]

    def text(self, pattern: str = ".+") -> str:
        """A string that *pattern* matches as a whole."""
        value = self._a(str, "a string")
        if not re.fullmatch(pattern, value, re.DOTALL):
            raise Malformed(f"{self.place} is {value[:80]!r}, which does not look like it should")
        return value

    def path(self) -> str:
        """A string that is a plain relative path."""
        value = self._a(str, "a string")
        if not is_plain_path(value):
            raise Malformed(f"{self.place} is {value[:80]!r}, not a plain relative path")
        return value

    def flag(self) -> bool:
        """True or false."""
        return self._a(bool, "true or false")

    def number(self) -> int:
        """A whole number."""
        if isinstance(self.value, bool):
            raise Malformed(f"{self.place} is not a whole number")
        return self._a(int, "a whole number")

    def or_null(self, reading: Callable[[Node], Any]) -> Any:
        """None for null, else what *reading* makes of it."""
        return None if self.value is None else reading(self)

    def _a(self, kind: type, name: str) -> Any:
        if not isinstance(self.value, kind):
            raise Malformed(f"{self.place or 'the document'} is not {name}")
        return self.value
