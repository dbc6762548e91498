"""The data of a binary patch: git passes over the rest of a diff, with status 0, where a line of it is damaged."""

from __future__ import annotations

import base64
import zlib

import pytest

from patchset import diff, diff_binary
from patchset.errors import DiffRefused

HEAD = b"diff --git a/f b/f\nnew file mode 100644\nindex %s..%s\nGIT binary patch\n" % (b"0" * 40, b"1" * 40)
EMPTY = b"literal 0\nHcmV?d00001\n\n"


def lines(packed: bytes) -> list[bytes]:
    """*packed* in lines of 52 bytes, as git writes them."""
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    parts = [packed[at : at + 52] for at in range(0, len(packed), 52)]
    return [letters[len(p) - 1 : len(p)] + base64.b85encode(p + b"\0" * (-len(p) % 4)) + b"\n" for p in parts]


def literal(data: bytes, said: int | None = None) -> bytes:
    return b"literal %d\n" % (len(data) if said is None else said) + b"".join(lines(zlib.compress(data))) + b"\n"


DATA = bytes(range(256)) * 3

#: name → (what follows `GIT binary patch`, line it must be refused at, words that the rule must hold)
REFUSED = {
    "no data": (b"\n", 5, "without its data"),
    "a line of other letters": (b"literal 1\n~~ ~\n\n", 6, "none"),
    "a line of another length than its letter says": (literal(DATA).replace(b"\nz", b"\nB", 1), 6, "none"),
    "a line cut short": (b"literal 9\nQAAAA\n\n", 6, "none"),
    "a line less": (b"".join([*literal(DATA).splitlines(keepends=True)[:2], b"\n"]), 5, "is not the"),
    "a line twice": (
        literal(DATA).replace(lines(zlib.compress(DATA))[0], lines(zlib.compress(DATA))[0] * 2),
        5,
        "damaged",
    ),
    "no line": (b"literal 9\n\n", 5, "is not the"),
    "a size too small": (literal(DATA, said=len(DATA) - 1), 5, "is not the"),
    "a size too great": (literal(DATA, said=len(DATA) + 1), 5, "is not the"),
    "a size over the bound": (literal(DATA, said=2**31), 5, "more than"),
    "a size of five thousand digits": (b"literal " + b"9" * 5000 + b"\n\n", 5, "more than"),
    "more data behind the end": (
        b"literal 1\n" + b"".join(lines(zlib.compress(b"x") + b"more")) + b"\n",
        5,
        "is not the",
    ),
    "no empty line at the end": (literal(DATA)[:-1], 5, "breaks off"),
    "a damaged second part": (literal(DATA) + b"literal 17\n\n", 5 + literal(DATA).count(b"\n"), "is not the 17"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_line_and_rule(name: str) -> None:
    data, line, words = REFUSED[name]
    with pytest.raises(DiffRefused) as refusal:
        diff.read(HEAD + data, "x.patch")
    assert words in refusal.value.what
    assert refusal.value.where == f"x.patch:{line}"


def test_data_is_read_in_one_or_two_parts() -> None:
    for parts in (literal(DATA), literal(DATA) + EMPTY, literal(b"") + literal(DATA)):
        (file,) = diff.read(HEAD + parts, "x.patch")
        assert (file.binary, file.hunks) == (True, ())


def test_data_that_unpacks_to_more_than_it_says_is_not_unpacked_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff_binary, "_CHUNK", 64)
    with pytest.raises(DiffRefused, match="is not the 100 bytes"):
        diff.read(HEAD + literal(b"\0" * 10_000_000, said=100), "x.patch")


@pytest.mark.parametrize("index", [b"", b"index 1111111..2222222\n"])
def test_whole_ids_are_required(index: bytes) -> None:
    """Without any header git does not even take it for a file's diff, and reads on behind it."""
    data = b"diff --git a/f b/f\n" + index + b"GIT binary patch\n" + literal(DATA)
    with pytest.raises(DiffRefused, match="whole ids") as refusal:
        diff.read(data, "x.patch")
    assert refusal.value.where == "x.patch:1"
