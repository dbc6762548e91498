"""Triton kernels in the files that are watched which the catalogue does not know: upstream has added one, say.

A kernel is whatever ``triton.jit``, ``autotune`` or ``heuristics`` is put on, under whatever name they were imported: at the
top of a file, in a class, a function or a condition.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchset.smoke import catalogue
from patchset.smoke.report import Unknown
from patchset.smoke.sources import Source

_MAKERS = ("jit", "autotune", "heuristics")


def unknown_kernels(source: Source) -> tuple[Unknown, ...]:
    """Those of *source*; a watched file that cannot be read as Python is named with the reason.

    :raises SourceError: a file is too large, or not UTF-8.
    """
    found: list[Unknown] = []
    for file in filter(catalogue.is_watched, source.files()):
        text = source.read(file) or ""
        try:
            there = dict(jit_functions(text))
        except (SyntaxError, ValueError, RecursionError) as error:
            found.append(Unknown(file, getattr(error, "lineno", None) or 1, f"cannot be read: {error}"))
            continue
        found += [Unknown(file, there[name], name) for name in catalogue.unknown(file, there)]
    return tuple(found)


def jit_functions(text: str) -> Iterator[tuple[str, int]]:
    """Name and line of each Triton kernel in a file's *text*; of one in a class or function ``Outer.name``.

    :raises SyntaxError: it is no Python.
    """
    tree = ast.parse(text)
    yield from _within(tree, "", _imported(tree))


def _within(node: ast.AST, prefix: str, names: dict[str, str]) -> Iterator[tuple[str, int]]:
    for part in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{prefix}{part.name}."
            if any(_makes_kernel(decorator, names) for decorator in part.decorator_list):
                yield f"{prefix}{part.name}", part.lineno
        elif isinstance(part, ast.Assign) and isinstance(part.value, ast.Call) and _makes_kernel(part.value, names):
            yield from ((f"{prefix}{ast.unparse(target)}", part.lineno) for target in part.targets)
        yield from _within(part, inner, names)


def _makes_kernel(expression: ast.expr, names: dict[str, str]) -> bool:
    while isinstance(expression, ast.Call):
        expression = expression.func
    first, *rest = ast.unparse(expression).split(".")
    full = [*names.get(first, first).split("."), *rest]
    return len(full) > 1 and full[0] == "triton" and full[-1] in _MAKERS


def _imported(tree: ast.Module) -> dict[str, str]:
    """What is bound to Triton, or to something in it, by an import anywhere in the file."""
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            bound.update({alias.asname: alias.name for alias in node.names if alias.asname})
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                origin = "" if alias.name == "triton" else f"{node.module or ''}."
                bound[alias.asname or alias.name] = f"{origin}{alias.name}"
    return bound
