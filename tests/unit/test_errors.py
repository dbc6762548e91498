"""Every failure can be told apart by a script and acted on by a person."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from patchset import errors
from patchset.errors import PatchsetError, exit_codes

PACKAGE = Path(errors.__file__).parent
CLASSES = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, PatchsetError)}


def test_kinds_and_exit_codes_are_distinct_and_none_is_taken() -> None:
    codes = exit_codes()
    assert len(codes) == len(set(codes.values())) == len(CLASSES)
    assert not {0, 2} & set(codes.values())
    assert all(0 < code < 126 for kind, code in codes.items() if kind != "interrupted")


def test_text_holds_place_and_advice() -> None:
    assert str(PatchsetError("it broke", where="f:1", next="do x")) == "f:1: it broke (next: do x)"
    assert str(PatchsetError("it broke")) == "it broke"


def made_in(tree: ast.AST) -> list[ast.Call]:
    """Every place where an error of ours is made, raised or handed to somebody who raises it."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLASSES
    ]


@pytest.mark.parametrize(
    "file",
    sorted(path for path in PACKAGE.rglob("*.py") if "smoke" not in path.relative_to(PACKAGE).parts),
    ids=lambda path: path.relative_to(PACKAGE).as_posix(),
)
def test_every_error_says_what_to_do_next(file: Path) -> None:
    silent = [
        call.lineno
        for call in made_in(ast.parse(file.read_bytes()))
        if not any(
            keyword.arg == "next" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
            for keyword in call.keywords
        )
    ]
    assert silent == []


def test_the_reading_above_finds_errors() -> None:
    """So that a renamed class cannot make it pass over everything."""
    found = [call for path in PACKAGE.rglob("*.py") for call in made_in(ast.parse(path.read_bytes()))]
    assert len(found) > 60
