"""Operator schemas as torch writes them: ``name(Tensor x, int n=1) -> Tensor``. Pure; torch is not asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: The longest text that is looked at; the longest schema of any kernels wheel known has some 1,200 characters.
LONGEST = 8000

# torch's own parser knows these base types (aten/src/ATen/native/README.md); a C++ expression that merely looks like a
# schema, `desc()->ndims`, has none.
_BASE = (
    r"(?:Tensor|SymInt|SymBool|Scalar|ScalarType|int|float|bool|str|complex|number|Layout|Device|MemoryFormat|Generator"
    r"|Dimname|Storage|Stream|QScheme|ConstQuantizerPtr|Any|t|DeviceIndex|__torch__(?:\.\w+)+)"
)
_SIMPLE = rf"{_BASE}(?:\([a-z|*! >-]+\)|!)?(?:\[\d*\]|\?|!)*"
_TYPE = rf"(?:{_SIMPLE}|\({_SIMPLE}(?:, ?{_SIMPLE})*\)(?:\[\d*\]|\?)*)"
_HEAD = re.compile(r"(?:\w+::)?([A-Za-z_]\w*(?:\.\w+)?)\((.*)\)\s*->\s*(.+)\Z", re.DOTALL)
_ARGUMENT = re.compile(rf"({_TYPE})\s+(\w+)(?:\s*=\s*(.+))?\Z", re.DOTALL)
_RETURN = re.compile(rf"{_TYPE}(?:\s+\w+)?\Z")


@dataclass(frozen=True)
class Argument:
    """One argument. ``default`` is its text, None where it must be given; ``keyword``: only by name."""

    name: str
    type: str
    default: str | None
    keyword: bool


@dataclass(frozen=True)
class Schema:
    """``name`` with its overload (``add.out``), arguments in order, and the whole text with single spaces."""

    name: str
    arguments: tuple[Argument, ...]
    text: str


def parse(text: str) -> Schema | None:
    """*text* as a schema; None if it is none."""
    words = " ".join(text.split())
    match = _HEAD.match(words) if len(text) <= LONGEST else None
    if not match or not _is_return(match[3]):
        return None
    found: list[Argument] = []
    keyword = False
    for part in _parts(match[2]):
        argument = _ARGUMENT.match(part)
        if part == "*" and not keyword:
            keyword = True
        elif argument:
            found.append(Argument(argument[2], argument[1], argument[3], keyword))
        else:
            return None
    return Schema(match[1], tuple(found), words)


def refusal(schema: Schema, positional: int, keywords: frozenset[str]) -> str:
    """Why torch refuses a call with so many positional arguments and these keywords; empty if it does not."""
    in_order = [argument for argument in schema.arguments if not argument.keyword]
    if positional > len(in_order):
        return f"{positional} positional arguments; it takes {len(in_order)}"
    unknown = keywords - {argument.name for argument in schema.arguments}
    if unknown:
        return f"no argument named {', '.join(sorted(unknown))}"
    given = {argument.name for argument in in_order[:positional]}
    if given & keywords:
        return f"{', '.join(sorted(given & keywords))} given twice"
    missing = [a.name for a in schema.arguments if a.default is None and a.name not in given | keywords]
    return f"{', '.join(missing)} not given" if missing else ""


def _is_return(text: str) -> bool:
    if text == "()" or _RETURN.match(text):
        return True
    if not (text.startswith("(") and text.endswith(")")):
        return False
    return all(_RETURN.match(part) for part in _parts(text[1:-1]))


def _parts(text: str) -> Iterator[str]:
    """The parts of *text* between commas that stand in no bracket and no quotes."""
    depth, start, quote = 0, 0, ""
    for at, letter in enumerate(text):
        if quote or letter in "'\"":
            quote = "" if letter == quote else quote or letter
            continue
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()
