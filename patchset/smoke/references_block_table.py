"""What the block-table kernels must give, written from how the cache is laid out and how ranks share it.

A block of the cache holds ``block`` tokens. With context parallelism one block on each rank together hold
``block * ranks`` tokens, dealt out in turns. A block may be split into smaller ones for the kernels; tables then have
those.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle

import numpy as np

#: vLLM's slot for "write nowhere" (PAD_SLOT_ID).
PAD = -1


@dataclass(frozen=True)
class Sharing:
    """How ranks share a sequence.

    :param turn: tokens that a rank gets in a row.
    """

    ranks: int = 1
    rank: int = 0
    turn: int = 1


def dealt(block: int, sharing: Sharing) -> list[int | None]:
    """For each token that a block on every rank holds together: its place in this rank's block, None if not there."""
    places: list[int | None] = []
    mine = 0
    for owner in cycle(range(sharing.ranks)):
        for _ in range(sharing.turn):
            if len(places) == block * sharing.ranks:
                return places
            places.append(mine if owner == sharing.rank else None)
            mine += owner == sharing.rank
    raise AssertionError("there is no rank")


def slots(columns: np.ndarray, positions: np.ndarray, block: int, split: int, sharing: Sharing) -> np.ndarray:
    """The slots of a request's *positions*: of the block in its table, and none for what another rank has.

    :param columns: the request's row of the table, in split blocks; what lies beyond it has no slot.
    :param split: split blocks in a block.
    """
    places = dealt(block, sharing)
    small = block // split
    result = []
    for position in positions:
        group, within = divmod(int(position), len(places))
        place = places[within]
        column = None if place is None else group * split + place // small
        if place is None or column is None or column >= len(columns):
            result.append(PAD)
        else:
            result.append(int(columns[column]) * small + place % small)
    return np.array(result, np.int64)


def gathered(
    before: np.ndarray, table: np.ndarray, rows: np.ndarray, counts: np.ndarray, unseen: np.ndarray | None = None
) -> np.ndarray:
    """*before* after the first ``counts`` blocks of each batch row's request are put there; the rows behind are zero.

    :param unseen: of each batch row the first so many blocks are replaced by block 0.
    """
    after = before.copy()
    after[len(rows) :] = 0
    for batch, row in enumerate(rows):
        after[batch, : counts[row]] = table[row, : counts[row]]
        if unseen is not None:
            after[batch, : min(int(unseen[batch]), int(counts[row]))] = 0
    return after


def blocks_out_of_sight(first: int, reach: int, block: int) -> int:
    """Blocks that end before the earliest position that a query at *first* or later sees; reach 0: it sees all."""
    return sum(1 for end in range(block, first + 1, block) if reach > 0 and end <= first - reach)


def state_columns(length: int, block: int, count: int) -> range:
    """The *count* columns from that of the block that holds a sequence's last token; of an empty one from the first."""
    blocks = -(-length // block)
    first = blocks - 1 if blocks else 0
    return range(first, first + count)
