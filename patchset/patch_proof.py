"""Proofs of patches: a table of what each approach does in each scenario, made by the optional ``proof.py`` of a patch.

A probe says whether the defect is there. A proof says more: that the patch is right, and what other ways get wrong. It is run as
``python -I -B proof.py BASE_TREE PATCHED_TREE`` in the laboratory, as probes are, and the last line that it prints is one
JSON object, the *document*; :func:`read` takes a document from anywhere else too, for example from a real engine::

    {
      "title": "mtp-boundary on ...",
      "columns": ["unpatched", "public approach", "ours"],       # approaches; the last one is the patch
      "rows": [                                                  # scenarios
        {"name": "cut group, alone", "cells": [{"verdict": "dies", "text": "Expected spec_token == ..."}, ...]}
      ],
      "notes": ["..."],                                          # what the table cannot show, one sentence or more each
      "ok": true                                                 # the patch is proved: nothing in its column speaks against it
    }

``verdict`` is one of ``good`` (as without the feature, proved by comparison), ``wrong`` (no crash, and not the right answer),
``dies`` (refused or crashed) and ``not run`` (``text`` says why). A row has one cell a column; every text is short, and of ``wrong``,
``dies`` and ``not run`` never empty. ``ok`` cannot be true where the last column is wrong or not run, is good nowhere, or dies where
the first does not.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from patchset import lab
from patchset.console import Console
from patchset.errors import DeclarationError, ProbeError
from patchset.lab import Lab
from patchset.patch import Patch
from patchset.probe import last_line, loaded
from patchset.recipe import Recipe
from patchset.resolve import Project, Resolved, resolve
from patchset.store import Store

#: More than this in one table is no table for a person.
_COLUMNS, _ROWS, _NOTES, _TEXT = 8, 64, 16, 1000


class Verdict(str, enum.Enum):
    """What a scenario came to under one approach."""

    GOOD = "good"
    WRONG = "wrong"
    DIES = "dies"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Cell:
    """One scenario under one approach."""

    verdict: Verdict
    text: str


@dataclass(frozen=True)
class Row:
    """One scenario, a cell for each column."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A document that was read: see above. ``source`` says what made it: a patch's id, or a flag of the task."""

    source: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    ok: bool

    def as_dict(self) -> dict[str, Any]:
        """The document again, with its source."""
        rows = [
            {"name": row.name, "cells": [{**asdict(cell), "verdict": cell.verdict.value} for cell in row.cells]}
            for row in self.rows
        ]
        return {**asdict(self), "columns": list(self.columns), "rows": rows, "notes": list(self.notes)}


def prove_recipe(project: Project, recipe: Recipe, console: Console, *, only: str = "") -> tuple[Table, ...]:
    """The tables of *recipe*'s patches, or of the one called *only*, on its base and its patched tree.

    A patch that changes nothing on this release, or has no ``proof.py``, has no table.

    :raises DeclarationError: *only* is no patch of the recipe, or has no proof.
    :raises ProbeError: a proof printed no table.
    """
    wanted = _wanted(project, recipe, only)
    store = Store.open(project.workspace.store)
    with console.step(f"base and series of {recipe.name}"):
        resolved = resolve(project, recipe, store, console.say)
    provable = []
    for patch in wanted:
        step = next(step for step in resolved.applied.steps if step.patch == patch.id)
        if step.outcome.changes_tree:
            provable.append(patch)
        else:
            console.say(
                f"{patch.id}: nothing to prove on {resolved.release.version}, where it changes nothing ({step.outcome.value})"
            )
    return _prove(project, resolved, provable, store, console) if provable else ()


def _wanted(project: Project, recipe: Recipe, only: str) -> list[Patch]:
    series = project.series_of(recipe)
    found = [patch for patch in series if patch.proof and only in ("", patch.id)]
    if only and not found:
        have = ", ".join(patch.id for patch in series if patch.proof) or "none"
        raise DeclarationError(
            f"recipe {recipe.name} has no patch {only!r} with a proof (it has: {have})",
            where=str(project.workspace.patches / only / "proof.py"),
            next=f"./inv proof -r {recipe.name}",
        )
    return found


def _prove(
    project: Project, resolved: Resolved, patches: Sequence[Patch], store: Store, console: Console
) -> tuple[Table, ...]:
    with console.step("laboratory: torch, Triton and what vLLM imports"):
        laboratory = lab.ensure(project.workspace.environments, console.say)
    tables = []
    with project.workspace.scratch() as scratch:
        base, patched = scratch / "base", scratch / "patched"
        store.export(resolved.applied.base_tree, base)
        store.export(resolved.applied.tree, patched)
        for patch in patches:
            with console.step(f"proof of {patch.id}"):
                tables.append(run(patch, base, patched, laboratory))
    return tuple(tables)


def run(patch: Patch, base: Path, patched: Path, laboratory: Lab) -> Table:
    """What *patch*'s ``proof.py``, which must be there, says of the trees in the folders *base* and *patched*.

    :raises ProbeError: it ran too long, ended badly, or printed no table.
    """
    line, again = last_line(patch.folder / "proof.py", [base, patched], laboratory), f"./inv proof --patch {patch.id}"
    try:
        document = loaded(line)
    except (ValueError, RecursionError) as error:
        raise ProbeError(f"the proof did not print a table: {error}", where=patch.id, next=again) from error
    return read(document, patch.id, again)


def require(tables: Sequence[Table]) -> None:
    """Every table is ok.

    :raises ProbeError: one is not; the cells that speak against it are named.
    """
    bad = [table for table in tables if not table.ok]
    if bad:
        cells = [(table, row, row.cells[-1]) for table in bad for row in table.rows]
        raise ProbeError(
            f"not proved: {', '.join(table.source for table in bad)}",
            where=bad[0].title,
            detail="\n".join(
                f"{table.source}: {row.name}: {cell.verdict.value}: {cell.text}"
                for table, row, cell in cells
                if cell.verdict is not Verdict.GOOD
            ),
            next="look at the last column above, then mend the patch or its proof",
        )


def read(document: object, source: str, again: str) -> Table:
    """The table that *document* is, strictly.

    :param source: what it came from, for errors and for the table. :param again: the command that makes it once more.
    :raises ProbeError: it is not one, is too large, or claims to be ok against its own cells.
    """
    try:
        table = _table(document, source)
        for complaint in _against(table):
            raise ValueError(f"it says ok, and {complaint}")
        return table
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProbeError(
            f"the proof did not print a table: {type(error).__name__}: {error}", where=source, next=again
        ) from error


def _table(document: object, source: str) -> Table:
    data = _shaped(document, "title", "columns", "rows", "notes", "ok")
    columns = tuple(_text(item, "a column") for item in _list(data["columns"], "columns", 1, _COLUMNS))
    rows = tuple(_row(item, len(columns)) for item in _list(data["rows"], "rows", 1, _ROWS))
    names = [row.name for row in rows]
    for values, what in ((columns, "columns"), (names, "rows")):
        if len(set(values)) != len(values):
            raise ValueError(f"two {what} have one name")
    notes = tuple(_text(item, "a note") for item in _list(data["notes"], "notes", 0, _NOTES))
    if not isinstance(data["ok"], bool):
        raise ValueError(f"ok is {data['ok']!r}, neither true nor false")
    return Table(source, _text(data["title"], "title"), columns, rows, notes, data["ok"])


def _row(item: object, columns: int) -> Row:
    data = _shaped(item, "name", "cells")
    cells = tuple(_cell(cell) for cell in _list(data["cells"], "cells", columns, columns))
    return Row(_text(data["name"], "the name of a row"), cells)


def _cell(item: object) -> Cell:
    data = _shaped(item, "verdict", "text")
    verdict = Verdict(data["verdict"])
    return Cell(verdict, _text(data["text"], f"the text of {verdict.value}", empty=verdict is Verdict.GOOD))


def _shaped(item: object, *keys: str) -> Mapping[str, Any]:
    if not isinstance(item, dict) or set(item) != set(keys):
        raise ValueError(f"an object with {', '.join(keys)} was expected")
    return item


def _list(item: object, what: str, least: int, most: int) -> list[Any]:
    if not isinstance(item, list) or not least <= len(item) <= most:
        raise ValueError(f"{what} is not a list of {least} to {most}" if least < most else f"{what}: not {least}")
    return item


def _text(item: object, what: str, *, empty: bool = False) -> str:
    if not isinstance(item, str) or len(item) > _TEXT or not (empty or item.strip()):
        raise ValueError(f"{what} is no text of {0 if empty else 1} to {_TEXT} characters")
    return item


def _against(table: Table) -> list[str]:
    """What in the patch's own column speaks against a table that says ok."""
    if not table.ok:
        return []
    found = [f"{row.name!r} is {row.cells[-1].verdict.value}" for row in table.rows if _counts_against(row)]
    if all(row.cells[-1].verdict is not Verdict.GOOD for row in table.rows):
        found.append(f"{table.columns[-1]!r} is good nowhere")
    return found


def _counts_against(row: Row) -> bool:
    first, last = row.cells[0].verdict, row.cells[-1].verdict
    # What kernels refuse with and without a patch is a limit that it does not lift, and no fault of it.
    return last in (Verdict.WRONG, Verdict.NOT_RUN) or (last is Verdict.DIES and first is not Verdict.DIES)
