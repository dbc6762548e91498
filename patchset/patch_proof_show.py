"""What ``inv proof`` shows: a table a proof for a person, the documents for a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from patchset.console import Console
from patchset.patch_proof import Cell, Table

#: More of a cell is in the document only.
_SHOWN = 120


def show(console: Console, recipe: str, tables: Sequence[Table]) -> None:
    """The end of ``inv proof``."""
    console.json({"format": 1, "recipe": recipe, "proofs": [table.as_dict() for table in tables]})
    for table in tables:
        rows = [[row.name, *map(_cell, row.cells)] for row in table.rows]
        console.table(["scenario", *table.columns], rows, table.title)
        for note in table.notes:
            console.line(f"  {note}")
        console.line(f"{table.source}: {_counts(table)}; {'proved' if table.ok else 'NOT PROVED'}")
        console.line()
    if not tables:
        console.line(f"no patch of {recipe} has something to prove")


def _cell(cell: Cell) -> str:
    text = cell.text if len(cell.text) <= _SHOWN else f"{cell.text[: _SHOWN - 1]}…"
    return f"{cell.verdict.value}: {text}" if text else cell.verdict.value


def _counts(table: Table) -> str:
    """Of each column, how many scenarios came to what."""
    told = []
    for index, column in enumerate(table.columns):
        counts = Counter(row.cells[index].verdict.value for row in table.rows)
        told.append(f"{column} " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return "; ".join(told)
