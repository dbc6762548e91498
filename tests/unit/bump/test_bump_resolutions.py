"""How conflicts were resolved before: learnt from what a person made, kept strictly, offered for the same clash only."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchset.bump.resolutions import Resolution, key, learn, read, resolve
from patchset.errors import DeclarationError
from patchset.merging import Conflict

TODAY = date(2026, 12, 1)


def clash(ours: bytes, base: bytes, theirs: bytes) -> bytes:
    return b"<<<<<<< 1234567\n" + ours + b"||||||| 1234567\n" + base + b"=======\n" + theirs + b">>>>>>> 1234567\n"


ONE = clash(b"ours\n", b"base\n", b"theirs\n")
TWO = clash(b"", b"gone\n", b"kept\n")
ATTEMPT = b"a\nb\nc\n" + ONE + b"d\ne\n" + TWO + b"f\n"


def learnt(attempt: bytes, resolved: bytes) -> dict[str, Resolution]:
    return {item.key: item for item, _ in learn(attempt, resolved, "p", "0.21.0", TODAY)}


def test_each_clash_is_learnt_and_offered_again_elsewhere() -> None:
    found = learnt(ATTEMPT, b"a\nb\nc\nboth\nof them\nd\ne\nf\n")
    assert sorted(item.lines for item in found.values()) == [(), ("both", "of them")]
    data, used, left = resolve(b"quite\nanother\nfile\n" + ONE + b"end", found)
    assert (data, left) == (b"quite\nanother\nfile\nboth\nof them\nend", 0)
    assert [line for line, _ in used] == [4]


def test_another_clash_is_left_as_it_is() -> None:
    found = learnt(ATTEMPT, b"a\nb\nc\nboth\nd\ne\nf\n")
    other = clash(b"ours\n", b"base\n", b"theirs \n")
    assert resolve(other, found) == (other, [], 1)


@pytest.mark.parametrize(
    ("attempt", "resolved"),
    [
        (b"a\n" + ONE + b"b\n", b"a\nx\nB\n"),  # the text beside it was edited too
        (b"a\n" + ONE + b"b\n", b"A\nx\nb\n"),
        (b"a\n" + ONE + b"b\n", b"a\nb\nx\nb\n"),  # where it ends cannot be told
        (b"a\n" + ONE + b"b\n", b"a\na\nb\n"),
        (b"a\n" + ONE, b"a\nx"),  # lines cannot say that the last has no newline
        (ONE + b"m\n" + ONE, b"x\nm\ny\n"),  # one clash, two ways
        (b"no clash\n", b"no clash\n"),
    ],
)
def test_nothing_is_learnt_where_it_would_be_a_guess(attempt: bytes, resolved: bytes) -> None:
    assert learnt(attempt, resolved) == {}


def test_neighbours_that_repeat_are_looked_at_further_out() -> None:
    block = b"".join(b"%d\n" % n for n in range(20)) + b"same\n" * 4
    found = learnt(block + ONE + b"same\n" * 4 + b"end\n", block + b"x\n" + b"same\n" * 4 + b"end\n")
    assert [item.lines for item in found.values()] == [("x",)]


_line = st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"\xff\n", b"x\r\n"])
_text = st.lists(_line, min_size=1, max_size=6).map(b"".join)


@given(st.lists(st.tuples(_text, st.tuples(_text, _text, _text), _text), min_size=1, max_size=3), _text)
def test_what_is_learnt_never_makes_another_file(
    pieces: list[tuple[bytes, tuple[bytes, bytes, bytes], bytes]], tail: bytes
) -> None:
    attempt = b"".join(text + clash(*sides) for text, sides, _ in pieces) + tail
    resolved = b"".join(text + made for text, _, made in pieces) + tail
    found = learnt(attempt, resolved)
    data, _, left = resolve(attempt, found)
    assert left or data == resolved


def saved(folder: Path, **changes: object) -> Path:
    sides = {"base": ["b"], "ours": ["o\udcff"], "theirs": ["t"]}
    name = key(Conflict("", 0, *(tuple(side) for side in sides.values())))
    document = {"format": 1, "patch": "p", "release": "0.21.0", "made": "2026-12-01", **sides, "resolution": ["x"]}
    document |= changes
    file = folder / f"{name}.json"
    file.write_bytes(json.dumps(document).encode())
    return file


def test_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    resolution, of = learn(ATTEMPT, b"a\nb\nc\n\xff \xe2\x80\xa8\r\nd\ne\nf\n", "p", "0.21.0", TODAY)[0]
    (tmp_path / f"{resolution.key}.json").write_bytes(resolution.document(of))
    assert read(tmp_path) == {resolution.key: resolution}
    assert resolve(ONE, read(tmp_path))[0] == b"\xff \xe2\x80\xa8\r\n"
    assert read(tmp_path / "none") == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"base": ["other"]},
        {"ours": "o"},
        {"ours": [1]},
        {"resolution": "x"},
        {"resolution": ["a\nb"]},
        {"resolution": ["\ud800"]},
        {"resolution": None},
        {"resolution": ["x" * 5_000_000]},
        {"made": {"a": 1}},
        {"made": "2026-12-01\nand more"},
        {"patch": "\x1b[31m"},
        {"release": ""},
        {"more": 1},
    ],
)
def test_damaged_or_hostile_one_is_named(changes: dict[str, object], tmp_path: Path) -> None:
    file = saved(tmp_path)
    assert len(read(tmp_path)) == 1
    saved(tmp_path, **changes)
    with pytest.raises(DeclarationError, match="not a resolution") as error:
        read(tmp_path)
    assert error.value.where == str(file)


@given(st.binary(max_size=100))
def test_no_bytes_make_it_fail_otherwise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("resolutions")
    (folder / f"{'a' * 64}.json").write_bytes(data)
    with pytest.raises(DeclarationError):
        read(folder)
