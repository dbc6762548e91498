"""Cases for the kernels that pick the blocks of the running Mamba states out of block tables (Mamba "align" mode)."""

from __future__ import annotations

import numpy as np

from patchset.smoke.case import Array, Case, Subject, ints, output, poisoned
from patchset.smoke.references_block_table import state_columns

Scalars = dict[str, "int | float | bool | None"]
#: Lengths around the edges of a block of 8, and of none.
LENGTHS = (0, 1, 7, 8, 9, 16, 17, 40)
#: Rows of the output that the runner allots; its strides are constants of the kernel.
ROWS = 40


def _columns(lengths: tuple[int, ...], block: int, count: int) -> int:
    return max((state_columns(length, block, count).stop for length in lengths), default=1)


def aligned_indices(subject: Subject) -> list[Case]:
    """One group and several that are no power of two, one and several states, wide strides, rows beyond a program."""
    rng = subject.rng
    many = tuple(int(length) for length in rng.integers(0, 200, 37))
    return [
        _aligned(subject, "edges", LENGTHS, 8, groups=2, states=4),
        _aligned(subject, "edges-unsigned", LENGTHS, 8, groups=2, states=4, dtype=np.uint64),
        _aligned(subject, "three-groups-five-states", LENGTHS, 8, groups=3, states=5),
        _aligned(subject, "one-of-all", (9,), 8, groups=1, states=1),
        _aligned(subject, "rows31", many[:31], 8, groups=2, states=4),
        _aligned(subject, "rows32", many[:32], 8, groups=2, states=4),
        _aligned(subject, "rows33", many[:33], 8, groups=2, states=4, spare=5),
        _aligned(subject, "large-stride", many, 8, groups=2, states=4, spare=1000),
        _aligned(subject, "empty-batch", (), 8, groups=2, states=4),
        _aligned(subject, "lengths-apart", LENGTHS, 8, groups=2, states=2, apart=3),
        _aligned(subject, "far-column", (2**31 - 1,), 1, groups=2, states=3, shift=2**31 - 2),
    ]


def _aligned(
    subject: Subject,
    name: str,
    lengths: tuple[int, ...],
    block: int,
    *,
    groups: int,
    states: int,
    dtype: type = np.int64,
    spare: int = 0,
    apart: int = 1,
    shift: int = 0,
) -> Case:
    """:param shift: columns that the tables do not have, before those that they have."""
    rng, count = subject.rng, len(lengths)
    stride = _columns(lengths, block, states) - shift + spare
    memory, expected = {}, poisoned((groups, ROWS, states))
    for group in range(groups):
        table = ints(rng.permutation(max(count, 1) * stride)).reshape(-1, stride)
        memory[f"table{group}"] = Array(table)
        for row, length in enumerate(lengths):
            columns = state_columns(length, block, states)
            expected[group, row] = table[row, columns.start - shift : columns.stop - shift]
    spread = poisoned(max(count, 1) * apart)
    spread[: count * apart : apart] = lengths
    places = tuple((f"table{group}", -4 * shift) for group in range(groups))
    arrays = {
        "block_table_ptrs_ptr": Array(np.zeros(groups, dtype), addresses=places),
        "seq_lens_ptr": Array(spread),
        "state_indices_ptr": Array(poisoned(expected.shape), expected),
    }
    scalars: Scalars = {
        "block_table_stride_req": stride,
        "seq_lens_stride": apart,
        "state_indices_stride_0": ROWS * states,
        "state_indices_stride_1": states,
        "state_indices_stride_2": 1,
        "num_requests": count,
        "CACHE_BLOCK_SIZE": block,
        "NUM_GROUPS": groups,
        "BLOCK_GROUPS": _power_of_two(groups),
        "NUM_STATE_SLOTS": states,
        "BLOCK_STATE_SLOTS": _power_of_two(states),
        "BLOCK_ROWS": 32,
    }
    return Case(name, (-(-count // 32),), arrays, scalars, memory)


def _power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()


def align_block_table(subject: Subject) -> list[Case]:
    """One column and several, a table seen through a column stride, lengths apart, rows with spare columns."""
    return [
        _align(subject, "edges", LENGTHS, 8, states=4),
        _align(subject, "five-states", LENGTHS, 8, states=5, spare=3),
        _align(subject, "one-of-all", (9,), 8, states=1),
        _align(subject, "block-of-one", (1, 2, 5), 1, states=2),
        _align(subject, "large-stride", LENGTHS, 8, states=3, spare=5000),
        _align(subject, "column-stride", LENGTHS, 8, states=3, step=3),
        _align(subject, "lengths-apart", LENGTHS, 8, states=2, apart=2),
        _align(subject, "empty-batch", (), 8, states=2),
    ]


def _align(
    subject: Subject,
    name: str,
    lengths: tuple[int, ...],
    block: int,
    *,
    states: int,
    spare: int = 0,
    step: int = 1,
    apart: int = 1,
) -> Case:
    columns = _columns(lengths, block, states)
    # No poison: what is read there by mistake and written behind the output must show.
    whole = np.full((max(len(lengths), 1), columns * step + spare), 987_654, np.int32)
    table = ints(subject.rng.permutation(whole.shape[0] * columns)).reshape(-1, columns)
    whole[:, : columns * step : step] = table
    spread = poisoned(max(len(lengths), 1) * apart)
    spread[: len(lengths) * apart : apart] = lengths
    wanted = [table[row, list(state_columns(length, block, states))] for row, length in enumerate(lengths)]
    arrays = {
        "out_ptr": output(ints(wanted).reshape(len(lengths), states)),
        "block_table_ptr": Array(whole),
        "seq_lens_ptr": Array(spread),
    }
    scalars: Scalars = {
        "block_table_stride_0": whole.shape[1],
        "block_table_stride_1": step,
        "seq_lens_stride": apart,
        "block_size": block,
        "n_out": states,
        "BLOCK": _power_of_two(states),
    }
    return Case(name, (len(lengths),), arrays, scalars)
