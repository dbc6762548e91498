"""What the Mamba state kernels must do to memory, written from vLLM's scalar description of it.

A request's recurrent state after its n-th token lives in a block; after speculation, the states after ``running``,
``running + 1``, … tokens lie in the block columns ``running_column``, ``running_column + 1``, … A convolution state
keeps a window instead, so the earlier state is the same window shifted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class StateLayout:
    """How one state tensor lies in memory; all sizes in bytes but ``width`` and ``rows``.

    :param width: tokens in a convolution window; 0 for a temporal state.
    :param token: bytes of one token (``dim_first``: of one token in one row); for a temporal state of the whole state.
    :param rows: rows of a dim-first convolution state, each ``row_stride`` apart; 1 otherwise.
    """

    group: int
    element: int
    width: int
    token: int
    stride: int
    rows: int = 1
    row_stride: int = 0
    dim_first: bool = False


def move_state(
    before: np.ndarray,
    after: np.ndarray,
    layout: StateLayout,
    columns: np.ndarray,
    source: int,
    target: int,
    steps: int,
) -> None:
    """Put the state *steps* tokens after that of column *source* into column *target* of one request.

    :param before: the state tensor's bytes at the start; sources are read from here (a move, whatever overlaps).
    :param after: the same, to be changed.
    :param columns: the request's row of the block table.
    """
    to = int(columns[target]) * layout.stride
    if layout.width == 0:
        start = int(columns[source + steps]) * layout.stride
        after[to : to + layout.token] = before[start : start + layout.token]
        return
    start = int(columns[source]) * layout.stride
    kept = (layout.width - steps) * layout.token
    for row in range(layout.rows):
        at = row * layout.row_stride
        shifted = start + at + steps * layout.token
        after[to + at : to + at + kept] = before[shifted : shifted + kept]


def block_to_save(running: int, accepted: int, block_size: int) -> tuple[int, int] | None:
    """(column, steps) of the last full block that the accepted tokens completed, None if they completed none.

    The states after ``running`` … ``running + accepted - 1`` tokens are at hand; one at a multiple of the block size
    is the final state of a block and must be kept in that block's column.
    """
    full = [tokens for tokens in range(running, running + accepted) if tokens % block_size == 0]
    if not full:
        return None
    return full[-1] // block_size - 1, full[-1] - running


def copies(memory: np.ndarray, moves: list[tuple[int, int, int]]) -> np.ndarray:
    """*memory* after moving ``(from, to, count)`` bytes, all read before any is written."""
    result = memory.copy()
    for source, target, count in moves:
        result[target : target + count] = memory[source : source + count]
    return result
