"""RECORD, the list of the files of a wheel or of an installed distribution: its rows, and what is wrong with them.

Facts: the packaging specifications "Recording installed projects" and "Binary distribution format".
"""

from __future__ import annotations

import base64
import csv
import io
from dataclasses import dataclass
from itertools import islice

#: torch's RECORD has some 15,000, and no wheel of ours a third of that.
MOST_ROWS = 200_000


@dataclass(frozen=True)
class Row:
    """One row as it stands in the file."""

    line: int
    path: str
    digest: str
    size: str


def spell_hash(sha256: bytes) -> str:
    """A sha256 as RECORD spells it."""
    return "sha256=" + base64.urlsafe_b64encode(sha256).rstrip(b"=").decode()


def read_rows(data: bytes, name: str) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """The rows of the RECORD called *name*, each path once, and what is wrong with the file, a sentence each."""
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8"), newline=""))
        table = list(islice(reader, MOST_ROWS + 1))
    except (UnicodeDecodeError, csv.Error) as error:
        return (), (f"{name} is not a CSV file in UTF-8: {error}",)
    if len(table) > MOST_ROWS:
        return (), (f"{name} has over {MOST_ROWS} rows",)
    rows: dict[str, Row] = {}
    faults = []
    for number, row in enumerate(table, 1):
        if len(row) != 3:
            faults.append(f"{name}:{number} has {len(row)} fields, not 3")
        elif row[0] in rows:
            faults.append(f"{name}:{number} lists {row[0]} again")
        else:
            rows[row[0]] = Row(number, *row)
    return tuple(rows.values()), tuple(faults)
