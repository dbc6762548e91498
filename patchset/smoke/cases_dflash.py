"""Cases for the input kernel of drafters that fill a block of mask tokens at once."""

from __future__ import annotations

import numpy as np

from patchset.smoke.case import Array, Case, Subject, cumulative, ints, output
from patchset.smoke.references_dflash import dflash_inputs

MASK_TOKEN = 77


def dflash(subject: Subject) -> list[Case]:
    """One draft and more, rejected tokens and none, contexts longer than a program, the end of the table."""
    return [
        _dflash(subject, "mixed", [5, 1, 3, 8], None, drafts=3, program=8),
        _dflash(subject, "mixed-rejected", [5, 1, 3, 8], [2, 0, 1, 7], drafts=3, program=8),
        _dflash(subject, "one-draft", [4, 2], [0, 1], drafts=1, program=8),
        _dflash(subject, "no-draft", [3, 1], None, drafts=0, program=8),
        _dflash(subject, "one-token", [1], [0], drafts=7, program=8),
        _dflash(subject, "block-of-one", [2, 3], [1, 1], drafts=2, program=8, block=1),
        _dflash(subject, "program-edge", [15, 16, 17], [0, 3, 16], drafts=4, program=16, block=528),
        _dflash(subject, "large-numbers", [9, 30], [4, 0], drafts=5, program=16, block=1056, first_number=2**31 - 100),
        _dflash(subject, "behind-the-table", [6, 4], [0, 1], drafts=6, program=8, block=4, short=2),
        _dflash(subject, "wide-table", [6, 4], None, drafts=2, program=8, spare=700),
        _dflash(subject, "empty-batch", [], None, drafts=2, program=8),
    ]


def _dflash(
    subject: Subject,
    name: str,
    lengths: list[int],
    rejected: list[int] | None,
    *,
    drafts: int,
    program: int,
    block: int = 16,
    spare: int = 0,
    short: int = 0,
    first_number: int = 0,
) -> Case:
    """:param short: columns that the table lacks for the longest request."""
    rng, count = subject.rng, len(lengths)
    firsts = rng.integers(0, 3 * block + 1, count)
    positions = np.concatenate(
        [np.zeros(0, np.int64), *(first + np.arange(length) for first, length in zip(firsts, lengths, strict=True))]
    )
    columns = -(-(int(positions.max(initial=0)) + 2 + drafts) // block) + spare - short
    numbers = rng.permutation(count * columns + 5)[: count * columns] + first_number
    table = ints(numbers).reshape(count, columns)
    following, starts = ints(rng.integers(1000, 2000, count)), np.concatenate([ints([0]), cumulative(lengths)])
    dropped = ints(rejected if rejected is not None else [0] * count)
    want = dflash_inputs(following, positions, starts, dropped, table, block, MASK_TOKEN, drafts)
    arrays = {
        "next_token_ids_ptr": Array(following),
        "target_positions_ptr": Array(positions),
        "out_input_ids_ptr": output(ints(want.input_ids)),
        "out_context_positions_ptr": output(ints(want.context_positions, np.int64)),
        "out_query_positions_ptr": output(ints(want.query_positions, np.int64)),
        "out_context_slot_mapping_ptr": output(ints(want.context_slots, np.int64)),
        "out_query_slot_mapping_ptr": output(ints(want.query_slots, np.int64)),
        "out_token_indices_ptr": output(ints(want.token_indices)),
        "block_table_ptr": Array(table),
        "query_start_loc_ptr": Array(starts),
    }
    scalars: dict[str, int | float | bool | None] = {
        "block_table_stride": columns,
        "parallel_drafting_token_id": MASK_TOKEN,
        "block_size": block,
        "num_query_per_req": 1 + drafts,
        "num_speculative_tokens": drafts,
        "total_input_tokens": len(positions),
        "BLOCK_SIZE": program,
        "HAS_NUM_REJECTED": rejected is not None,
    }
    if rejected is None:
        scalars["num_rejected_tokens_ptr"] = 0
    else:
        arrays["num_rejected_tokens_ptr"] = Array(dropped)
    longest = max(lengths, default=0) + 1 + drafts
    return Case(name, (count, -(-longest // program)), arrays, scalars)
