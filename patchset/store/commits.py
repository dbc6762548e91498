"""What a commit says, read from the bytes that git keeps of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """The ids of its tree and parents; its author with date, as git writes it; and its message as text."""

    tree: str
    parents: tuple[str, ...]
    author: str
    message: str


def read_commit_object(data: bytes) -> Said:
    """*data* is the content of a commit object."""
    head, _, message = data.partition(b"\n\n")
    lines = [line.split(b" ", 1) for line in head.split(b"\n") if b" " in line]

    def values(key: bytes) -> list[bytes]:
        return [value for name, value in lines if name == key]

    encoding = next((value.decode("ascii", "replace") for value in values(b"encoding")), "utf-8")
    return Said(
        values(b"tree")[0].decode("ascii"),
        tuple(value.decode("ascii") for value in values(b"parent")),
        values(b"author")[0].decode("utf-8", "replace"),
        _text(message, encoding),
    )


def _text(message: bytes, encoding: str) -> str:
    """*message* as text. A person's git may write commits in another encoding (``i18n.commitEncoding``), or only say so."""
    try:
        return message.decode("utf-8")
    except UnicodeDecodeError:
        with suppress(LookupError):  # an encoding that Python does not know
            return message.decode(encoding, "replace")
        return message.decode("utf-8", "replace")
