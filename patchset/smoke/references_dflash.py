"""What the block drafter's input kernel must give: the context of each request, then its query tokens."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Drafted:
    """The buffers, in the order of the outputs; contexts and queries have their own."""

    input_ids: list[int]
    context_positions: list[int]
    query_positions: list[int]
    context_slots: list[int]
    query_slots: list[int]
    token_indices: list[int]


def dflash_inputs(
    next_tokens: np.ndarray,
    positions: np.ndarray,
    starts: np.ndarray,
    rejected: np.ndarray,
    table: np.ndarray,
    block: int,
    mask_token: int,
    drafts: int,
) -> Drafted:
    """A request's query is its sampled token and *drafts* mask tokens, at the positions behind its last valid token.

    Positions behind the table's last block are mapped into that block. Only mask tokens are sampled from.
    """
    out = Drafted([], [], [], [], [], [])
    for row, (start, end) in enumerate(pairwise(int(at) for at in starts)):
        context = [int(position) for position in positions[start:end]]
        valid = context[: len(context) - int(rejected[row])]
        query = [valid[-1] + 1 + i for i in range(1 + drafts)]
        first = len(out.input_ids)
        out.input_ids.extend([int(next_tokens[row]), *[mask_token] * drafts])
        out.context_positions.extend(context)
        out.query_positions.extend(query)
        out.context_slots.extend(_slot(table[row], position, block) for position in context)
        out.query_slots.extend(_slot(table[row], position, block) for position in query)
        out.token_indices.extend(range(first + 1, first + 1 + drafts))
    return out


def _slot(columns: np.ndarray, position: int, block: int) -> int:
    column, offset = divmod(position, block)
    number = columns[column] if column < len(columns) else columns[-1]
    return int(number) * block + offset
