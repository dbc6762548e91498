"""Cases for the kernels that turn positions into slots of the cache, of both model runners, and gather block tables.

Not here: a table row at 2**31 elements or more, where the older runner's row offset of 32 bits ends; it would take 8 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from patchset.smoke import references_block_table as reference
from patchset.smoke.case import Array, Case, Subject, cumulative, flags, ints, poisoned
from patchset.smoke.references_block_table import PAD, Sharing

Scalars = dict[str, "int | float | bool | None"]
#: Tokens that a program of vLLM's takes at once.
PROGRAM = 1024
ALONE = Sharing()
ENDS = (Sharing(3, 0, 2), Sharing(3, 2, 2))


@dataclass(frozen=True)
class Request:
    """Tokens that a step has of a request: *count* from position *first* on."""

    first: int
    count: int

    @property
    def positions(self) -> np.ndarray:
        """Of each of its tokens."""
        return np.arange(self.first, self.first + self.count, dtype=np.int64)


#: One token, at and around a block's edges (16), a prefill over several blocks, and none.
MIXED = (Request(0, 1), Request(15, 1), Request(16, 1), Request(13, 7), Request(0, 48), Request(47, 0), Request(30, 3))


def slot_mapping(subject: Subject) -> list[Case]:
    """Block edges, empty requests, prefills longer than a program, split blocks, ranks, large block numbers."""
    long = (Request(3, PROGRAM + 1), Request(0, PROGRAM), Request(5, PROGRAM - 1))
    cases = [
        _slots(subject, "mixed", MIXED, 16),
        _slots(subject, "small-program", MIXED, 16, program=4, padding=9),
        _slots(subject, "block-of-one", (Request(0, 5), Request(6, 1)), 1),
        _slots(subject, "odd-block", MIXED, 7, padding=1),
        _slots(subject, "large-block", (Request(527, 2), Request(1056, 1), Request(2100, 12)), 528, spare=5),
        _slots(subject, "long", long, 528, padding=PROGRAM + 3),
        _slots(subject, "large-numbers", MIXED, 528, first_number=2**31 - 300),
        _slots(subject, "one-request", (Request(9, 1),), 16, padding=0),
        _slots(subject, "empty-batch", (), 16, padding=5),
        _slots(subject, "beyond-the-table", (Request(30, 4), Request(0, 1)), 16, width=2),
    ]
    for sharing in (Sharing(2, 1, 1), *ENDS):
        name = f"rank{sharing.rank}of{sharing.ranks}"
        cases.append(_slots(subject, name, MIXED, 8, sharing=sharing, program=16))
    if subject.has("BLOCKS_PER_KV_BLOCK"):
        cases.append(_slots(subject, "split", MIXED, 16, split=4))
        cases.append(_slots(subject, "split-rank1of2", MIXED, 16, split=2, sharing=Sharing(2, 1, 4), program=16))
    return cases


def _table(subject: Subject, rows: int, columns: int, spare: int, first_number: int = 0) -> np.ndarray:
    """Every cell has a block of its own; *spare* columns at each row's end have numbers that no slot may come from."""
    table = np.full((rows, columns + spare), 987_654, np.int32)
    numbers = subject.rng.permutation(rows * columns + 7)[: rows * columns] + first_number
    table[:, :columns] = numbers.reshape(rows, columns)
    return table


def _slots(
    subject: Subject,
    name: str,
    requests: tuple[Request, ...],
    block: int,
    *,
    program: int = PROGRAM,
    padding: int = 3,
    spare: int = 0,
    split: int = 1,
    sharing: Sharing = ALONE,
    first_number: int = 0,
    width: int | None = None,
) -> Case:
    columns = width or _columns(requests, block, sharing) * split
    table = _table(subject, max(len(requests), 1), columns, spare, first_number)
    mapped = [
        reference.slots(table[row, :columns], request.positions, block, split, sharing)
        for row, request in enumerate(requests)
    ]
    tokens = sum(request.count for request in requests)
    wanted = np.concatenate([*mapped, np.full(padding, PAD, np.int64)])
    arrays = {
        "query_start_loc_ptr": Array(_starts(requests)),
        "positions_ptr": Array(_positions(requests)),
        "block_table_ptr": Array(table),
        "slot_mapping_ptr": Array(poisoned(len(wanted), np.int64), wanted),
    }
    scalars: Scalars = {
        "num_tokens": tokens,
        "max_num_tokens": tokens + padding,
        "block_table_stride": columns + spare,
        "block_size": block // split,
        "KV_CACHE_BLOCK_SIZE": block,
        "BLOCKS_PER_KV_BLOCK": split,
        "TOTAL_CP_WORLD_SIZE": sharing.ranks,
        "TOTAL_CP_RANK": sharing.rank,
        "CP_KV_CACHE_INTERLEAVE_SIZE": sharing.turn,
        "PAD_ID": PAD,
        "BLOCK_SIZE": program,
    }
    return Case(name, (len(requests) + 1,), arrays, scalars)


def _columns(requests: tuple[Request, ...], block: int, sharing: Sharing) -> int:
    longest = max((request.first + request.count for request in requests), default=1)
    return max(-(-longest // (block * sharing.ranks)), 1)


def _starts(requests: tuple[Request, ...]) -> np.ndarray:
    return np.concatenate([ints([0]), cumulative([request.count for request in requests])])


def _positions(requests: tuple[Request, ...]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *(request.positions for request in requests)])


@dataclass(frozen=True)
class Group:
    """A cache group of the newer model runner.

    :param block: tokens of a block of its cache.
    :param split: kernel blocks in one; the table has kernel blocks.
    :param enabled: its tokens have slots.
    :param sharded: ranks share its sequences.
    :param reach: how far back its attention sees; 0: all.
    """

    block: int
    split: int = 1
    enabled: bool = True
    sharded: bool = True
    reach: int = 0


#: The newer runner's kernel tells a batch row without a request by -1 from this release on.
ROW_WITHOUT_REQUEST_FROM = (0, 31, 0)


def slot_mappings(subject: Subject) -> list[Case]:
    """Several groups at once, rows permuted, ranks, groups without slots, rows beyond 2**31 elements."""
    two = (Group(16), Group(48))
    cases = [
        _mappings(subject, "groups", MIXED, two),
        _mappings(subject, "groups-small-program", MIXED, (Group(16), Group(1), Group(7)), program=4, padding=9),
        _mappings(subject, "one-request", (Request(527, 2),), (Group(528),), padding=0),
        _mappings(subject, "empty-batch", (), two, padding=5),
        _mappings(subject, "long", (Request(3, PROGRAM + 1), Request(0, PROGRAM)), (Group(528),), padding=PROGRAM + 3),
        _mappings(subject, "far-row", (Request(20, 15),), two, first_row=5044, stride=425_985),
        _mappings(subject, "rank1of2", MIXED, two, sharing=Sharing(2, 1, 1), program=16),
        _mappings(subject, "beyond-the-table", (Request(30, 4), Request(0, 1)), (Group(16),), width=2),
    ]
    for sharing in ENDS:
        name = f"rank{sharing.rank}of{sharing.ranks}"
        cases.append(_mappings(subject, name, MIXED, (Group(8), Group(4)), sharing=sharing, program=16))
    if subject.has("kernel_block_sizes"):
        cases.append(_mappings(subject, "split", MIXED, (Group(16, split=4), Group(8))))
        splits = (Group(16, split=2), Group(8, split=4))
        cases.append(_mappings(subject, "split-rank0of2", MIXED, splits, sharing=Sharing(2, 0, 4)))
    if subject.has("slot_mapping_enabled"):
        off = (Group(16), Group(512, enabled=False), Group(8))
        cases.append(_mappings(subject, "group-without-slots", MIXED, off))
    if subject.has("dcp_sharded"):
        mixed = (Group(16, sharded=False), Group(8))
        cases.append(_mappings(subject, "group-not-shared", MIXED, mixed, sharing=Sharing(2, 1, 2), program=16))
    if subject.release >= ROW_WITHOUT_REQUEST_FROM:
        cases.append(_mappings(subject, "row-without-request", MIXED, two, dropped=2))
    return cases


def _mappings(
    subject: Subject,
    name: str,
    requests: tuple[Request, ...],
    groups: tuple[Group, ...],
    *,
    program: int = PROGRAM,
    padding: int = 3,
    sharing: Sharing = ALONE,
    first_row: int = 0,
    stride: int | None = None,
    dropped: int | None = None,
    width: int | None = None,
) -> Case:
    # What lies behind a row must be another row, not nothing.
    rows = _rows(subject, len(requests), dropped) if width is None else ints(range(len(requests)))
    tokens = sum(request.count for request in requests)
    strides, memory, wanted = [], {}, []
    for index, group in enumerate(groups):
        shared = sharing if group.sharded else ALONE
        columns = width or _columns(requests, group.block, shared) * group.split
        table = _table(subject, max(len(requests) + 2, 1) if stride is None else 1, columns, 3 if width is None else 0)
        memory[f"table{index}"] = Array(table)
        strides.append(stride or table.shape[1])
        mapped = [
            reference.slots(table[row, :columns], request.positions, group.block, group.split, shared)
            if row >= 0 and group.enabled
            else np.full(request.count, PAD, np.int64)
            for row, request in zip(rows, requests, strict=True)
        ]
        wanted.append(np.concatenate([*mapped, np.full(padding + 5, PAD, np.int64)]))
    expected = np.array(wanted)
    start = poisoned(expected.shape, np.int64)
    # Behind what a step can have at most, nothing is written.
    expected[:, tokens + padding :] = start[:, tokens + padding :]
    before = [(f"table{index}", -4 * first_row * strides[index]) for index in range(len(groups))]
    arrays = {
        "idx_mapping": Array(np.where(rows < 0, rows, rows + first_row).astype(np.int32)),
        "query_start_loc": Array(_starts(requests)),
        "pos": Array(_positions(requests)),
        "block_table_ptrs": Array(np.zeros(len(groups), np.uint64), addresses=tuple(before)),
        "block_table_strides": Array(ints(strides, np.int64)),
        "slot_mapping_enabled": flags([group.enabled for group in groups]),
        "dcp_sharded": flags([group.sharded for group in groups]),
        "slot_mappings_ptr": Array(start, expected),
    }
    small = Array(ints([group.block // group.split for group in groups]))
    whole = Array(ints([group.block for group in groups]))
    # Where the kernel takes one size only, nothing is split.
    arrays["block_sizes"], arrays["kernel_block_sizes"] = whole, small
    scalars: Scalars = {
        "max_num_tokens": tokens + padding,
        "slot_mappings_stride": expected.shape[1],
        "cp_rank": sharing.rank,
        "CP_SIZE": sharing.ranks,
        "CP_INTERLEAVE": sharing.turn,
        "PAD_ID": PAD,
        "TRITON_BLOCK_SIZE": program,
    }
    return Case(name, (len(groups), len(requests) + 1), arrays, scalars, memory)


def _rows(subject: Subject, count: int, dropped: int | None = None) -> np.ndarray:
    """The table row of each batch row, permuted; -1 for the *dropped* one."""
    rows = ints(subject.rng.permutation(count + 2)[:count]) if count > 1 else ints([0] * count)
    if dropped is not None:
        rows[dropped] = -1
    return rows


def gather(subject: Subject) -> list[Case]:
    """Rows of no, one, and all blocks, around a program's edge, padded rows, rows beyond 2**31 elements, windows."""
    counts = [0, 1, 5, 12, 7]
    wide = [PROGRAM - 1, PROGRAM, PROGRAM + 1]
    cases = [
        _gather(subject, "mixed", counts, (12, 12), padded=3),
        _gather(subject, "small-program", counts, (12, 12, 12), padded=2, program=4),
        _gather(subject, "program-edge", wide, (PROGRAM + 2,), padded=1),
        _gather(subject, "one-request", [1], (1,)),
        _gather(subject, "only-padding", [], (9, 9), padded=4),
        _gather(subject, "empty-batch", [], (9,)),
        _gather(subject, "unlike-widths", counts, (12, 13), program=8),
        _gather(subject, "padded-unlike-widths", counts, (17, 12), padded=2),
        _gather(subject, "far-row", [11], (12, 12), first_row=5044, stride=425_985),
    ]
    if subject.has("MASK_SLIDING_WINDOW"):
        cases.append(_gather(subject, "window", counts, (12, 12, 12), padded=2, windows=((4, 9), (16, 0), (3, 1))))
        cases.append(_gather(subject, "window-small-program", counts, (12,), program=4, windows=((4, 17),)))
    return cases


def _gather(
    subject: Subject,
    name: str,
    counts: list[int],
    widths: tuple[int, ...],
    *,
    padded: int = 0,
    program: int = PROGRAM,
    first_row: int = 0,
    stride: int | None = None,
    windows: tuple[tuple[int, int], ...] = (),
) -> Case:
    """:param windows: (tokens of a block, reach) of each group; without any, windows are not asked for."""
    rng, count = subject.rng, len(counts)
    requests = max(count + 2, 1) if stride is None else 1
    rows = _rows(subject, count)
    computed = ints(rng.integers(0, 60, requests))
    # A window that begins on a block's edge, and one that begins a token before it: blocks of 4, 9 back.
    computed[rows[2:4]] = (4 * 3 + 9, 4 * 3 + 8)[: len(rows[2:4])]
    blocks, memory = np.zeros((len(widths), requests + 3), np.int32), {}
    for index, width in enumerate(widths):
        table = _table(subject, requests, width, 0)
        held = ints(rng.permutation(counts)) if index else ints(counts)
        blocks[index, :requests] = width
        blocks[index, rows] = held
        before = poisoned((count + padded, width))
        unseen = None
        if windows:
            block, reach = windows[index]
            unseen = ints([reference.blocks_out_of_sight(int(computed[row]), reach, block) for row in rows])
        after = reference.gathered(before, table, rows, blocks[index], unseen)
        memory[f"source{index}"] = Array(table)
        memory[f"gathered{index}"] = Array(before, after)
    strides = [stride or width for width in widths]
    shifts = [-4 * first_row * one for one in strides]
    # The kernel takes requests' counts by row: those of a far row lie before it.
    base = Array(np.concatenate([poisoned(first_row), blocks[0]]) if first_row else blocks)
    arrays = {
        "batch_idx_to_req_idx": Array(rows + np.int32(first_row)),
        "src_block_table_ptrs": _addresses([(f"source{i}", shift) for i, shift in enumerate(shifts)]),
        "dst_block_table_ptrs": _addresses([(f"gathered{i}", 0) for i in range(len(widths))]),
        "block_table_strides": Array(ints(strides, np.int64)),
        "num_blocks_ptr": base,
        "num_computed_tokens_ptr": Array(computed),
        "sliding_window_reach_ptr": Array(ints([reach for _, reach in windows] or [0] * len(widths))),
        "block_sizes_ptr": Array(ints([block for block, _ in windows] or [16] * len(widths))),
    }
    scalars: Scalars = {
        "num_blocks_stride": 0 if first_row else blocks.shape[1],
        "num_reqs": count,
        "max_num_blocks": widths[0],
        "MASK_SLIDING_WINDOW": bool(windows),
        "BLOCK_SIZE": program,
    }
    return Case(name, (len(widths), count + padded), arrays, scalars, memory)


def _addresses(places: list[tuple[str, int]]) -> Array:
    return Array(np.zeros(len(places), np.uint64), addresses=tuple(places))
