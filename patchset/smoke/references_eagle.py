"""What the drafter's input kernels must give, written from their documented contracts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np


def step_slot_mapping(
    positions: np.ndarray, block_table: np.ndarray, seq_lens: np.ndarray, block_size: int, max_model_len: int, pad: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(positions, slots, sequence lengths) after one drafting step.

    A request whose next position does not exist starts over at position 0 with length 1 and writes nowhere.
    """
    new_positions, slots, lengths = [], [], []
    for row, position in enumerate(positions):
        following = int(position) + 1
        if following < max_model_len:
            column, offset = divmod(following, block_size)
            column = min(column, block_table.shape[1] - 1)
            new_positions.append(following)
            slots.append(int(block_table[row, column]) * block_size + offset)
            lengths.append(min(int(seq_lens[row]) + 1, max_model_len))
        else:
            new_positions.append(0)
            slots.append(pad)
            lengths.append(1)
    return (
        np.array(new_positions, positions.dtype),
        np.array(slots, np.int64),
        np.array(lengths, seq_lens.dtype),
    )


def prepare_inputs_padded(
    drafted: np.ndarray, valid: np.ndarray, query_start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(index of the token to sample from, rejected drafts) of each request, from its draft and valid counts."""
    rejected = np.where(drafted > 0, drafted + 1 - valid, 0).astype(np.int32)
    last = query_start[1:] - 1
    return (last - rejected).astype(np.int32), rejected


def prepare_next_token_padded(
    sampled: np.ndarray, discarded: np.ndarray, backup: np.ndarray, vocab_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """(next token, number of valid tokens): the last valid one; the backup where none is or the request is dropped."""
    tokens, counts = [], []
    for row, candidates in enumerate(sampled):
        valid = [] if discarded[row] else [int(t) for t in candidates if t != -1 and t < vocab_size]
        tokens.append(valid[-1] if valid else int(backup[row]))
        counts.append(len(valid))
    return np.array(tokens, np.int32), np.array(counts, np.int32)


@dataclass(frozen=True)
class Expanded:
    """The drafting buffers, in the order of the outputs."""

    input_ids: list[int]
    positions: list[int]
    rejected: list[int]
    masked: list[int]
    new_token_indices: list[int]
    hidden_state_mapping: list[int]


def copy_and_expand(
    tokens: np.ndarray,
    positions: np.ndarray,
    next_tokens: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    padding_token: int,
    drafting_token: int,
    slots: int,
    shift: bool,
) -> Expanded:
    """Each request becomes: its valid tokens, the sampled one, ``slots - 1`` mask tokens, then room for rejected ones.

    With *shift* the first token is dropped (the drafter sees token n+1 with hidden state n). Positions count up from
    the request's first one, rejected places get 0. ``ends`` is the index of the last valid token.
    """
    out = Expanded([], [], [], [], [], [])
    for row, (start, following) in enumerate(pairwise(starts)):
        base = len(out.input_ids)
        kept = [int(token) for token in tokens[start : ends[row] + 1]][1 if shift else 0 :]
        rejected = int(following - ends[row] - 1)
        new = [int(next_tokens[row])] + [drafting_token] * (slots - 1)
        total = len(kept) + len(new)
        out.input_ids.extend([*kept, *new, *[padding_token] * rejected])
        out.positions.extend([int(positions[start]) + i for i in range(total)] + [0] * rejected)
        out.rejected.extend([0] * total + [1] * rejected)
        out.masked.extend([0] * (len(kept) + 1) + [1] * (slots - 1) + [0] * rejected)
        out.new_token_indices.extend(range(base + len(kept), base + total))
        out.hidden_state_mapping.extend(range(base, base + int(following - start)))
    return out
