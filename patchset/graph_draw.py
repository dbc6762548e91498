"""A graph of patches drawn: as a tree of text, in the DOT language, and as a picture."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from patchset import process
from patchset.errors import MissingTool
from patchset.page import require_writable
from patchset.workspace import write_atomically

if TYPE_CHECKING:
    from patchset.graph import Graph

_DRAWING_SECONDS = 120


def lines(found: Graph) -> list[str]:
    """The graph for a terminal: each patch below the last one that it needs, with what else is to be said of it."""
    hanging: dict[str, list[str]] = {"": []}
    for patch in found.outcomes:
        hanging[patch] = []
        needs = found.needs[patch]
        hanging[needs[-1] if needs else ""].append(patch)
    width = max((len(label) for label, _ in _branches(found, hanging, "", "")), default=0)
    told = [f"{found.recipe} on {found.release}: {len(found.outcomes)} patches"]
    told += [f"{label:<{width}}  {note}" for label, note in _branches(found, hanging, "", "")]
    told += [f"order matters: {item.first} before {item.second}: {item.how}" for item in found.order_matters]
    if not any(found.needs.values()):
        told.append("no patch needs another one here")
    return told


def _branches(found: Graph, hanging: dict[str, list[str]], below: str, indent: str) -> Iterator[tuple[str, str]]:
    for index, patch in enumerate(hanging[below]):
        last = index == len(hanging[below]) - 1
        yield f"{indent}{'└─' if last else '├─'} {patch}", _note(found, patch)
        yield from _branches(found, hanging, patch, indent + ("   " if last else "│  "))


def _note(found: Graph, patch: str) -> str:
    also, only, undeclared = found.needs[patch][:-1], found.declared_only(patch), found.undeclared(patch)
    parts = [found.outcomes[patch].value]
    if found.outcomes[patch].stops:
        stopper = found.stopped_by.get(patch)
        parts.append(f"goes in without {stopper}" if stopper else "does not go into the base either")
    parts += [f"also needs {', '.join(also)}"] if also else []
    parts += [f"not declared in requires: {', '.join(undeclared)}"] if undeclared else []
    parts += [f"declared only, not by its text: {', '.join(only)}"] if only else []
    return "; ".join(parts)


def dot(found: Graph) -> str:
    """The graph in the DOT language: an arrow from a patch to what it needs; dashed is what changes nothing, or is only said."""
    out = [f"digraph {_quoted(f'{found.recipe} on {found.release}')} {{", "  rankdir=BT;", "  node [shape=box];"]
    for patch, outcome in found.outcomes.items():
        style = "" if outcome.changes_tree else ", style=dashed"
        out.append(f"  {_quoted(patch)} [label={_quoted(patch, outcome.value)}{style}];")
    for patch in found.outcomes:
        out += [f"  {_quoted(patch)} -> {_quoted(name)};" for name in found.needs[patch]]
        out += [
            f'  {_quoted(patch)} -> {_quoted(name)} [style=dashed, label="declared only"];'
            for name in found.declared_only(patch)
        ]
    out += [
        f'  {_quoted(stopped)} -> {_quoted(by)} [color=red, label="stopped by"];'
        for stopped, by in found.stopped_by.items()
        if by
    ]
    out += [
        f'  {_quoted(item.second)} -> {_quoted(item.first)} [style=dotted, label="order matters"];'
        for item in found.order_matters
    ]
    return "\n".join([*out, "}", ""])


def svg(text: str) -> bytes:
    """*text*, in the DOT language, as a picture.

    :raises MissingTool: graphviz is not installed, or cannot draw it.
    """
    program = shutil.which("dot")
    if not program:
        raise MissingTool(
            "graphviz is not installed", next="sudo apt install graphviz; or --dot FILE for the text of the graph"
        )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "graph.dot")
        source.write_text(text, encoding="utf-8")
        ended = process.run(
            [program, "-Tsvg", source], cwd=folder, env=process.clean_environment(), timeout=_DRAWING_SECONDS
        )
    if ended.returncode or b"<svg" not in ended.stdout:
        raise MissingTool(
            "dot could not draw the graph", detail=ended.tail(), next="--dot FILE writes what it was given"
        )
    return ended.stdout


def require_places(dot_file: str, svg_file: str) -> None:
    """The files that are named (empty: none) can be written, and replace nothing but older graphs.

    :raises WorktreeError: one cannot.
    """
    for name, flag, mark in ((dot_file, "--dot", b"digraph "), (svg_file, "--svg", b"<svg")):
        if name:
            require_writable(Path(name).absolute(), flag, lambda head, mark=mark: mark in head, "an older graph")


def write(found: Graph, dot_file: str, svg_file: str) -> tuple[Path, ...]:
    """Write the graph to the files that are named (empty: none), and return them. What cannot be drawn writes none.

    :raises MissingTool: as :func:`svg`.
    """
    text = dot(found)
    contents = [(dot_file, text.encode())] if dot_file else []
    contents += [(svg_file, svg(text))] if svg_file else []
    files = [(Path(name).absolute(), content) for name, content in contents]
    for file, content in files:
        write_atomically(file, content)
    return tuple(file for file, _ in files)


def _quoted(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
