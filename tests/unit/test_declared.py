"""Strict TOML: what is wrong is refused, and the error names the file and the very line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from patchset import declared
from patchset.declared import Table
from patchset.errors import DeclarationError
from patchset.toml_lines import Lines

TEXT = '''\
# top
title = "t"
why = """
number = 1      # a text, not the key
[fake]
"""
list = [
    "a",        # ]
    "b",
]
inline = [
    { p = "x", q = [1,
                    2] },
    { p = "y" },
]

[part]
number = 2
"odd key".sub = true

[[item]]
name = "one"

[[item]]
name = "two"
[[item.deep]]
x = 1
[[item.deep]]
x = 2
'''


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], Table]:
    def table(text: str) -> Table:
        file = tmp_path / "x.toml"
        file.write_text(text, encoding="utf-8")
        return declared.read(file)

    return table


def line_of(error: pytest.ExceptionInfo[DeclarationError]) -> int:
    match = re.fullmatch(r".*/x\.toml:(\d+)", error.value.where)
    assert match, error.value.where
    return int(match.group(1))


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("title",), 2),
        (("why",), 3),
        (("list",), 7),
        (("list", 1), 9),
        (("inline", 0, "q", 1), 13),
        (("inline", 1, "p"), 14),
        (("part",), 17),
        (("part", "number"), 18),
        (("part", "odd key", "sub"), 19),
        (("item",), 21),
        (("item", 0, "name"), 22),
        (("item", 1), 24),
        (("item", 1, "name"), 25),
        (("item", 1, "deep", 0, "x"), 27),
        (("item", 1, "deep", 1), 28),
        (("part", "missing"), 17),
        (("item", 1, "missing"), 24),
        (("missing",), 1),
    ],
)
def test_line_of_a_place_is_where_a_person_sees_it(place: tuple[str | int, ...], line: int) -> None:
    assert Lines(TEXT).of(place) == line


@pytest.mark.parametrize(
    "file",
    sorted([*Path(__file__).parents[2].glob("recipes/**/*.toml"), Path(__file__).parents[2] / "pyproject.toml"]),
    ids=lambda file: file.name if file.name != "patch.toml" else file.parent.name,
)
def test_every_key_of_our_own_files_is_found_on_its_line(file: Path) -> None:
    text = file.read_text("utf-8")
    rows, lines = text.splitlines(), Lines(text)
    table = declared.read(file)
    for key in table.names():
        assert re.match(rf'\[*\s*"?{re.escape(key)}\b', rows[lines.of((key,)) - 1])


def test_unknown_key_is_named_at_its_line_with_those_that_are_known(read: Callable[[str], Table]) -> None:
    table = read('a = 1\n\n[t]\nname = "x"\nnmae = "y"\n').table("t")
    table.text("name")
    with pytest.raises(DeclarationError, match=r"unknown key 'nmae'.*known here: name") as error:
        table.done()
    assert line_of(error) == 5


@pytest.mark.parametrize(
    ("ask", "row"),
    [
        (lambda t: t.text("k"), "k = 1"),
        (lambda t: t.text("k"), 'k = ""'),
        (lambda t: t.one_of("k", ("a", "b")), 'k = "c"'),
        (lambda t: t.boolean("k", False), "k = 1"),
        (lambda t: t.boolean("k", False), 'k = "true"'),
        (lambda t: t.integer("k"), "k = true"),
        (lambda t: t.integer("k"), "k = 1.0"),
        (lambda t: t.moment("k"), "k = 2026-11-30T00:00:00"),
        (lambda t: t.moment("k"), "k = 2026-11-30"),
        (lambda t: t.texts("k"), 'k = "a"'),
        (lambda t: t.table("k"), "k = []"),
        (lambda t: t.tables("k"), "k = {}"),
        (lambda t: t.parsed("k", int), 'k = "x"'),
    ],
)
def test_wrong_type_or_value_is_refused_at_its_line(
    ask: Callable[[Table], object], row: str, read: Callable[[str], Table]
) -> None:
    with pytest.raises(DeclarationError, match=r"k must|k =|k is|k has") as error:
        ask(read(f"a = 1\n# comment\n{row}\n"))
    assert line_of(error) == 3


@pytest.mark.parametrize(("ask", "wrong"), [(lambda t: t.texts("k"), "1"), (lambda t: t.tables("k"), '"x"')])
def test_wrong_item_of_a_list_is_refused_at_the_items_line(
    ask: Callable[[Table], object], wrong: str, read: Callable[[str], Table]
) -> None:
    good = '"x"' if wrong == "1" else "{}"
    with pytest.raises(DeclarationError) as error:
        ask(read(f"k = [\n  {good},\n  {wrong},\n]\n"))
    assert line_of(error) == 3


def test_missing_key_is_refused_at_its_table(read: Callable[[str], Table]) -> None:
    with pytest.raises(DeclarationError, match="name is missing") as error:
        read("a = 1\n\n[t]\nb = 2\n").table("t").text("name")
    assert line_of(error) == 3
    assert "add name" in error.value.next


def test_values_come_back_as_they_are(read: Callable[[str], Table]) -> None:
    table = read('s = "x"\nb = true\ni = 7\nd = 2026-11-30T02:00:00+02:00\nl = ["x"]\n[[t]]\nv = "y"\n')
    assert (table.text("s"), table.boolean("b", False), table.integer("i"), table.texts("l")) == ("x", True, 7, ("x",))
    assert table.moment("d").isoformat() == "2026-11-30T00:00:00+00:00"
    assert [item.text("v") for item in table.tables("t")] == ["y"]
    assert (table.text("no", "default"), table.texts("nol", ()), table.tables("not")) == ("default", (), ())
    table.done()


def test_broken_toml_names_its_line(read: Callable[[str], Table]) -> None:
    with pytest.raises(DeclarationError, match="not valid TOML") as error:
        read('a = 1\nb = "open\n')
    assert line_of(error) == 2


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5000 + "]" * 5000, "a = " + "9" * 5000], ids=["deep brackets", "huge number"]
)
def test_toml_that_would_break_the_parser_is_refused(text: str, read: Callable[[str], Table]) -> None:
    with pytest.raises(DeclarationError):
        read(text + "\n").integer("a")


def test_file_over_the_bound_not_utf8_or_missing_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    with pytest.raises(DeclarationError, match="no such file"):
        declared.read(file)
    file.write_bytes(b'a = "\xff"\n')
    with pytest.raises(DeclarationError, match="cannot be read"):
        declared.read(file)
    file.write_bytes(b"#" * (declared.SIZE_LIMIT + 1))
    with pytest.raises(DeclarationError, match="larger than"):
        declared.read(file)
    with pytest.raises(DeclarationError, match="cannot be read"):
        declared.read(tmp_path)


@pytest.mark.parametrize("toml", ['key = "a\\u0000b"', 'key = ["a", "\\u0007"]'])
def test_control_characters_are_refused_with_their_line(tmp_path: Path, toml: str) -> None:
    file = tmp_path / "f.toml"
    file.write_text(f"# one line\n{toml}\n")
    table = declared.read(file)
    with pytest.raises(DeclarationError, match="control character") as caught:
        table.texts("key") if "[" in toml else table.text("key")
    assert caught.value.where == f"{file}:2"


@pytest.mark.parametrize("year", ["0001", "1969", "9999"])
def test_dates_that_git_or_zip_cannot_hold_are_refused(tmp_path: Path, year: str) -> None:
    file = tmp_path / "f.toml"
    file.write_text(f"date = {year}-01-01T00:00:00+14:00\n")
    with pytest.raises(DeclarationError, match="the year"):
        declared.read(file).moment("date")
