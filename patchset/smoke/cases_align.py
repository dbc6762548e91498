"""Cases for the kernel that advances the running block of each request before a step (Mamba "align" mode)."""

from __future__ import annotations

import numpy as np

from patchset.smoke.case import Array, Case, Subject, cumulative, ints, poisoned


def preprocess_align(subject: Subject) -> list[Case]:
    """New requests, the same block, the next one, several blocks further; counts at the program's edges."""
    block = 8
    cases = [
        _align(
            subject,
            "edges",
            [
                (-1, 0, 1, 1),
                (-1, 0, 1, 8),
                (-1, 0, 1, 9),
                (0, 7, 1, 1),
                (0, 8, 3, 1),
                (0, 8, 1, 0),
                (1, 15, 2, 4),
                (1, 12, 4, 4),
                (0, 3, 2, 40),
                (2, 20, 0, 1),
            ],
            block,
            program=16,
        ),
        _align(subject, "one-request", [(0, 8, 4, 3)], block, program=4),
        _align(subject, "empty-batch", [], block, program=4),
        _align(subject, "block-of-one", [(0, 1, 1, 1), (3, 4, 2, 3)], 1, program=2),
    ]
    for count in (7, 8, 9):
        rng = subject.rng
        rows = [
            tuple(int(rng.integers(low, high)) for low, high in ((-1, 4), (0, 40), (1, 5), (1, 12)))
            for _ in range(count)
        ]
        cases.append(_align(subject, f"program8-requests{count}", rows, block, program=8))
    return cases


def _advance(column: int, computed: int, accepted: int, scheduled: int, block: int) -> tuple[int, int, int]:
    """(new column, accepted count, offset of the state to start from) of one request.

    The running block after a step is the one that holds its last token. A request that had a block and gets another
    starts in it afresh, so its count is reset.
    """
    last = computed + scheduled - 1
    following = last // block if last >= 0 else -1
    moved = column >= 0 and column != following
    return following, 1 if moved else accepted, max(accepted - 1, 0)


def _align(subject: Subject, name: str, rows: list[tuple[int, ...]], block: int, program: int) -> Case:
    count, size = len(rows), len(rows) + 3
    slots = ints(subject.rng.permutation(size)[:count])
    before = {
        key: np.full(size, filler, np.int32) for key, filler in (("column", 55), ("computed", 66), ("accepted", 77))
    }
    after = {"column": before["column"].copy(), "accepted": before["accepted"].copy()}
    source, offset = poisoned(size), poisoned(size)
    wanted_source, wanted_offset = source.copy(), offset.copy()
    for (column, computed, accepted, scheduled), slot in zip(rows, slots, strict=True):
        before["column"][slot], before["computed"][slot], before["accepted"][slot] = column, computed, accepted
        moved = _advance(column, computed, accepted, scheduled, block)
        after["column"][slot], after["accepted"][slot], wanted_offset[slot] = moved
        wanted_source[slot] = column
    arrays = {
        "idx_mapping_ptr": Array(slots),
        "state_idx_ptr": Array(before["column"], after["column"]),
        "num_computed_tokens_ptr": Array(before["computed"]),
        "query_start_loc_ptr": Array(np.concatenate([ints([0]), cumulative([row[3] for row in rows])])),
        "num_accepted_tokens_ptr": Array(before["accepted"], after["accepted"]),
        "src_col_ptr": Array(source, wanted_source),
        "src_off_ptr": Array(offset, wanted_offset),
    }
    scalars: dict[str, int | float | bool | None] = {
        "num_reqs": count,
        "BLOCK_SIZE": program,
        "MAMBA_BLOCK_SIZE": block,
    }
    return Case(name, (max(-(-count // program), 1),), arrays, scalars)
