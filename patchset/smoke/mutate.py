"""Planted faults: one changed operator in a kernel's source. A smoke that stays green on one proves nothing by it.

Works on the text of a file by its syntax tree; knows no kernel.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.GtE: ast.Gt,
    ast.Gt: ast.GtE,
    ast.LtE: ast.Lt,
    ast.Lt: ast.LtE,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}


class MutationError(Exception):
    """The mutant does not fit the source: the function or the expression is not there."""


@dataclass(frozen=True)
class Mutant:
    """One changed expression.

    :param function: the function that it is in; of one in a class ``Class.function``.
    :param old: the expression, as ``ast.unparse`` writes it.
    :param new: what it becomes.
    :param occurrence: which of several equal expressions, in source order.
    """

    function: str
    old: str
    new: str
    occurrence: int = 0

    def __str__(self) -> str:
        which = f" (#{self.occurrence})" if self.occurrence else ""
        return f"{self.function}: {self.old} → {self.new}{which}"


def apply(text: str, mutant: Mutant) -> str:
    """*text* of a Python file with the mutant in it; only the function's own lines change.

    :raises MutationError: nothing to change.
    """
    function = _function(text, mutant.function)
    wanted = _place(function, mutant)
    margin = " " * function.col_offset
    changed = _Replace(wanted, ast.parse(mutant.new, mode="eval").body).visit(function)
    lines = text.splitlines()
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    written = [margin + line if line else line for line in ast.unparse(changed).splitlines()]
    return "\n".join([*lines[: first - 1], *written, *lines[function.end_lineno or first :]]) + "\n"


def line_of(text: str, mutant: Mutant) -> int:
    """The line of *text* that the mutant changes.

    :raises MutationError: nothing to change.
    """
    return _place(_function(text, mutant.function), mutant).lineno


def mutants(text: str) -> Iterator[Mutant]:
    """Every mutant of the functions of a file: comparisons, arithmetic, and/or, not."""
    for name, function in _functions(text):
        seen: dict[str, int] = {}
        for place in _places(function):
            old = ast.unparse(place)
            occurrence = seen.get(old, 0)
            seen[old] = occurrence + 1
            new = _other(place)
            if new is not None:
                yield Mutant(name, old, new, occurrence)


def _functions(text: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{part.name}", part) for part in node.body if isinstance(part, ast.FunctionDef))


def _function(text: str, name: str) -> ast.FunctionDef:
    found = next((node for other, node in _functions(text) if other == name), None)
    if found is None:
        raise MutationError(f"no function {name}")
    return found


def _place(function: ast.FunctionDef, mutant: Mutant) -> ast.expr:
    places = [place for place in _places(function) if ast.unparse(place) == mutant.old]
    if len(places) <= mutant.occurrence:
        raise MutationError(f"{mutant.function} has {len(places)} times {mutant.old!r}, wanted #{mutant.occurrence}")
    return places[mutant.occurrence]


def _places(function: ast.FunctionDef) -> list[ast.expr]:
    found = [node for part in function.body for node in ast.walk(part) if isinstance(node, ast.expr)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset, -(node.end_col_offset or 0)))


def _other(node: ast.expr) -> str | None:
    twin = copy.deepcopy(node)
    if isinstance(twin, ast.Compare) and len(twin.ops) == 1 and type(twin.ops[0]) in _COMPARE:
        twin.ops = [_COMPARE[type(twin.ops[0])]()]
    elif isinstance(twin, ast.BinOp) and type(twin.op) in _BINARY:
        twin.op = _BINARY[type(twin.op)]()
    elif isinstance(twin, ast.BoolOp):
        twin.op = ast.Or() if isinstance(twin.op, ast.And) else ast.And()
    elif isinstance(twin, ast.UnaryOp) and isinstance(twin.op, ast.Not):
        twin = twin.operand
    else:
        return None
    return ast.unparse(twin)


class _Replace(ast.NodeTransformer):
    def __init__(self, wanted: ast.expr, new: ast.expr) -> None:
        self.wanted, self.new = wanted, new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self.wanted:
            return ast.copy_location(self.new, node)
        return self.generic_visit(node)
