"""Cases for the kernels that move Mamba states: real buffers, their addresses in int64 and uint64 tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from patchset.smoke import references_mamba as reference
from patchset.smoke.case import Array, Case, Subject, ints, poisoned
from patchset.smoke.references_mamba import StateLayout

Scalars = dict[str, "int | float | bool | None"]

#: In mapped mode the block table is indexed by batch row before this release, by request slot from it on.
TABLE_BY_SLOT_FROM = (0, 32, 0)
#: Mapped postprocess reset the count in place before this release; from it on, in the output.
RESET_IN_OUTPUT_FROM = (0, 28, 0)
#: Releases that copy recurrent states as 8-byte words wherever they lie: upstream counts on blocks that start on such a word
#: ("8B-aligned for all state dtypes in use"). Before, bytes were copied; later, what lies askew is copied as bytes.
WORDS_FROM, WORDS_UNTIL = (0, 26, 0), (0, 28, 0)
#: Left overlap is part of batch_memcpy_kernel's contract from this release on.
OVERLAP_FROM = (0, 29, 0)


def batch_memcpy(subject: Subject) -> list[Case]:
    """No bytes, one, odd counts, the block's edges, any alignment; tables of either signedness."""
    sizes = [0, 1, 7, 8, 1023, 1024, 1025, 2 * 1024 + 3]
    cases = []
    for dtype in (np.int64, np.uint64):
        label = np.dtype(dtype).name
        cases.append(_memcpy(subject, f"sizes-{label}", sizes, dtype))
        cases.append(_memcpy(subject, f"one-{label}", [5], dtype))
    cases.append(_memcpy(subject, "nothing", [0], np.int64))
    cases.append(_memcpy(subject, "empty-batch", [], np.int64))
    cases.append(_memcpy(subject, "small-block", [0, 15, 16, 17, 33], np.int64, block=16))
    if subject.release >= OVERLAP_FROM:
        cases.append(_memcpy(subject, "left-overlap", [40, 100], np.int64, block=16, shift=9))
    return cases


def _memcpy(
    subject: Subject, name: str, sizes: list[int], dtype: type, block: int = 1024, shift: int | None = None
) -> Case:
    rng, moves, at = subject.rng, [], 0
    for size in sizes:
        target = at + int(rng.integers(0, 9))
        source = target + (size + int(rng.integers(0, 9)) if shift is None else shift)
        moves.append((source, target, size))
        at = source + size
    memory = rng.integers(0, 256, at + 16, dtype=np.uint8)
    arrays = {
        "src_ptrs": _addresses([("memory", source) for source, _, _ in moves], dtype),
        "dst_ptrs": _addresses([("memory", target) for _, target, _ in moves], dtype),
        "sizes": Array(ints(sizes)),
    }
    held = {"memory": Array(memory, reference.copies(memory, moves))}
    return Case(name, (len(sizes),), arrays, {"BLOCK_SIZE": block}, held)


def _addresses(places: list[tuple[str, int]], dtype: type) -> Array:
    return Array(np.zeros(len(places), dtype), addresses=tuple(places))


@dataclass(frozen=True)
class World:
    """State tensors of two groups, each group with its own block table."""

    layouts: tuple[StateLayout, ...]
    memory: tuple[np.ndarray, ...]
    tables: tuple[np.ndarray, ...]
    columns: int

    @classmethod
    def make(cls, subject: Subject, layouts: tuple[StateLayout, ...], rows: int, columns: int) -> World:
        """Random states; every table cell has a block of its own, so no two requests touch the same one."""
        if WORDS_FROM <= subject.release < WORDS_UNTIL:
            layouts = tuple(layout if layout.width else _on_words(layout) for layout in layouts)
        rng, blocks = subject.rng, rows * columns + 3
        memory = tuple(rng.integers(0, 256, blocks * layout.stride, dtype=np.uint8) for layout in layouts)
        tables = []
        for _ in range(max((layout.group for layout in layouts), default=0) + 1):
            table = np.full((rows, columns + 3), 0, np.int32)
            table[:, :columns] = rng.permutation(blocks)[: rows * columns].reshape(rows, columns)
            tables.append(table)
        return cls(layouts, memory, tuple(tables), columns)

    def arguments(self, dtype: type) -> tuple[dict[str, Array], Scalars]:
        """The layout arguments that postprocess and precopy share."""
        fields = self.layouts
        arrays = {
            "block_table_ptrs_ptr": _addresses([(f"table{i}", 0) for i in range(len(self.tables))], dtype),
            "state_base_addrs_ptr": _addresses([(f"state{i}", 0) for i in range(len(fields))], dtype),
            "state_block_strides_ptr": Array(ints([f.stride for f in fields], np.int64)),
            "state_elem_sizes_ptr": Array(ints([f.element for f in fields])),
            "state_inner_sizes_ptr": Array(
                ints([1 if f.dim_first else f.token // f.element for f in fields], np.int64)
            ),
            "state_conv_widths_ptr": Array(ints([f.width for f in fields])),
            "state_group_indices_ptr": Array(ints([f.group for f in fields])),
            "state_dim_row_count_ptr": Array(ints([f.rows if f.dim_first else 0 for f in fields])),
            "state_dim_row_stride_ptr": Array(ints([f.row_stride for f in fields], np.int64)),
        }
        first = any(f.dim_first for f in fields)
        return arrays, {"block_table_stride_req": self.columns + 3, "CONV_STATE_DIM_FIRST": first}

    def after(self, moves: list[tuple[int, int, int, int]]) -> dict[str, Array]:
        """All memory, expected after the moves ``(table row, source column, target column, steps)``."""
        held = {f"table{i}": Array(table) for i, table in enumerate(self.tables)}
        for index, (layout, before) in enumerate(zip(self.layouts, self.memory, strict=True)):
            expected = before.copy()
            for row, source, target, steps in moves:
                columns = self.tables[layout.group][row]
                reference.move_state(before, expected, layout, columns, source, target, steps)
            held[f"state{index}"] = Array(before, expected)
        return held


def _temporal(group: int, element: int, inner: int, padding: int = 0) -> StateLayout:
    return StateLayout(group, element, 0, element * inner, element * inner + padding)


def _on_words(layout: StateLayout) -> StateLayout:
    return replace(layout, stride=-(-layout.stride // 8) * 8)


def _conv(group: int, element: int, inner: int, width: int) -> StateLayout:
    return StateLayout(group, element, width, element * inner, element * inner * width)


def _conv_dim_first(group: int, element: int, rows: int, width: int) -> StateLayout:
    stride = element * width
    return StateLayout(group, element, width, element, stride * rows, rows, stride, dim_first=True)


#: Sizes that are and are not multiples of eight bytes, pages with padding, 2- and 4-byte elements, two groups.
LAYOUTS: dict[str, tuple[StateLayout, ...]] = {
    "plain": (_conv(0, 2, 5, 6), _temporal(0, 4, 33), _conv(1, 4, 3, 6), _temporal(1, 2, 13, padding=22)),
    "one-temporal": (_temporal(0, 4, 16, padding=64),),
    "one-conv": (_conv(0, 4, 8, 7),),
    "dim-first": (_conv_dim_first(0, 2, 5, 6), _temporal(0, 4, 33), _conv_dim_first(1, 4, 3, 6)),
    "dim-first-bytes": (_conv_dim_first(0, 1, 70, 6), _conv_dim_first(0, 8, 3, 6)),
}


@dataclass(frozen=True)
class Step:
    """One request's numbers at the end of a step, as the scheduler has them."""

    computed: int
    scheduled: int
    draft: int
    accepted: int
    column: int

    @property
    def running(self) -> int:
        """Tokens that the running state covers."""
        return self.computed + self.scheduled - self.draft


def _step(computed: int, scheduled: int, draft: int, accepted: int, block: int) -> Step:
    return Step(computed, scheduled, draft, accepted, -(-(computed + scheduled) // block) - 1)


def _steps(rng: np.random.Generator, count: int, block: int, same_column: bool = True) -> list[Step]:
    steps = [
        _step(block - 2, 1, 0, 1, block),  # one short of the block
        _step(block - 1, 1, 0, 1, block),  # completes the block, nothing to shift
        _step(block - 2, 4, 3, 3, block),  # the block ends inside the accepted tokens, running state one further
        _step(2 * block - 1, 4, 3, 4, block),  # ends at the first accepted token
        _step(0, 3 * block, 0, 1, block),  # a prefill that ends on a block
        _step(0, 3 * block + 1, 0, 1, block),  # and one that ends one past it
        _step(block - 4, 4, 3, 3, block),  # one token short, with drafts
        _step(block - 4, 4, 3, 4, block),  # completes the block it is still in
    ]
    while len(steps) < count:
        draft = int(rng.integers(0, 4))
        steps.append(_step(int(rng.integers(1, 4 * block)), 1 + draft, draft, int(rng.integers(1, draft + 2)), block))
    steps = steps[:count]
    return steps if same_column else [step for step in steps if not _shifts_in_place(step, block)]


def _shifts_in_place(step: Step, block: int) -> bool:
    saved = reference.block_to_save(step.running, step.accepted, block)
    return saved is not None and saved[0] == step.column and saved[1] > 0


def postprocess(subject: Subject) -> list[Case]:
    """Every place that a block can end in a step, both layouts, mapped and not, tiled and not."""
    rng, block = subject.rng, 8
    cases = [
        _postprocess(subject, "steps-int64", "plain", _steps(rng, 12, block), block, spare=2),
        _postprocess(subject, "steps-uint64", "plain", _steps(rng, 8, block), block, dtype=np.uint64),
        _postprocess(subject, "one-request", "one-temporal", [_step(2 * block - 1, 4, 3, 2, block)], block),
        _postprocess(subject, "conv-in-place", "one-conv", [_step(block - 4, 4, 3, 4, block)], block),
        _postprocess(subject, "empty-batch", "plain", [], block, spare=2),
        _postprocess(subject, "block-of-one", "one-temporal", [_step(2, 3, 2, 3, 1), _step(3, 1, 0, 1, 1)], 1),
        _postprocess(subject, "large-block", "one-conv", _steps(rng, 8, 528), 528, chunk=1024),
    ]
    if subject.has("CONV_STATE_DIM_FIRST"):
        cases.append(_postprocess(subject, "dim-first", "dim-first", _steps(rng, 10, block), block))
        cases.append(_postprocess(subject, "dim-first-bytes", "dim-first-bytes", _steps(rng, 8, block), block))
    if subject.has("TEMPORAL_TILES"):
        for tiles in (3, 16):
            steps = _steps(rng, 8, block)[1:5]
            cases.append(_postprocess(subject, f"tiles{tiles}", "plain", steps, block, tiles=tiles, chunk=4))
    if subject.has("HAS_IDX_MAPPING"):
        apart = _steps(rng, 12, block, same_column=False)
        cases.append(_postprocess(subject, "mapped", "plain", apart, block, mapped=True))
        cases.append(_postprocess(subject, "mapped-one", "one-conv", apart[1:2], block, mapped=True))
        together = [_step(block - 4, 4, 3, 4, block), _step(block - 3, 3, 2, 3, block)]
        cases.append(_postprocess(subject, "mapped-reset-while-siblings-read", "plain", together, block, mapped=True))
    return cases


def _slots(subject: Subject, count: int, mapped: bool) -> tuple[np.ndarray, int]:
    """(slot of each batch row, number of slots); mapped: permuted among spare slots, one row switched off."""
    if not mapped:
        return np.arange(count, dtype=np.int32), count
    slots = ints(subject.rng.permutation(count + 3)[:count])
    if count > 2:
        slots[1] = -1
    return slots, count + 3


def _by_slot(values: list[int], slots: np.ndarray, size: int, filler: int) -> np.ndarray:
    result = np.full(size, filler, np.int32)
    for value, slot in zip(values, slots, strict=True):
        if slot >= 0:
            result[slot] = value
    return result


def _postprocess(
    subject: Subject,
    name: str,
    layout: str,
    steps: list[Step],
    block: int,
    *,
    dtype: type = np.int64,
    spare: int = 0,
    chunk: int = 64,
    tiles: int = 1,
    mapped: bool = False,
) -> Case:
    slots, size = _slots(subject, len(steps), mapped)
    columns = max((step.column for step in steps), default=0) + 5
    world = World.make(subject, LAYOUTS[layout], max(size, 1), columns)
    arrays, scalars = world.arguments(dtype)
    accepted = _by_slot([step.accepted for step in steps], slots, size, 1)
    reset, moves = accepted.copy(), []
    for row, (step, slot) in enumerate(zip(steps, slots, strict=True)):
        saved = reference.block_to_save(step.running, step.accepted, block)
        if slot < 0 or saved is None:
            continue
        target, shift = saved
        if target == step.column:
            reset[slot] = 1
        if (target, shift) != (step.column, 0):
            moves.append((_table_row(subject, row, int(slot)), step.column, target, shift))
    in_place = mapped and subject.release < RESET_IN_OUTPUT_FROM
    arrays["num_accepted_tokens_ptr"] = Array(accepted, reset if in_place else None)
    arrays["num_accepted_tokens_out_ptr"] = Array(poisoned(size)) if in_place else Array(accepted, reset)
    arrays["mamba_state_idx_ptr"] = Array(_by_slot([step.column for step in steps], slots, size, 0))
    if mapped:
        new = [step.running + step.accepted - 1 for step in steps]
        arrays["num_computed_tokens_ptr"] = Array(_by_slot(new, slots, size, 0))
        arrays["idx_mapping_ptr"] = Array(slots)
        scalars.update({"num_scheduled_tokens_ptr": None, "num_draft_tokens_ptr": None})
    else:
        arrays["num_computed_tokens_ptr"] = Array(ints([step.computed for step in steps]))
        arrays["num_scheduled_tokens_ptr"] = Array(ints([step.scheduled for step in steps]))
        arrays["num_draft_tokens_ptr"] = Array(ints([step.draft for step in steps]))
        scalars["idx_mapping_ptr"] = None
    scalars.update({"num_reqs": len(steps), "block_size": block, "COPY_BLOCK_SIZE": chunk, "TEMPORAL_TILES": tiles})
    scalars.update({"HAS_IDX_MAPPING": mapped, "PRECOMPUTED_NEW_COMPUTED": mapped})
    grid = (len(steps) + spare, len(world.layouts), tiles)
    return Case(name, grid, arrays, scalars, world.after(moves))


def _table_row(subject: Subject, row: int, slot: int) -> int:
    return slot if subject.release >= TABLE_BY_SLOT_FROM else row


def precopy(subject: Subject) -> list[Case]:
    """New requests, unchanged columns, moves with and without a shift; mapped, and directly where it can."""
    moves = [(-1, 0, 0), (2, 2, 1), (0, 1, 0), (1, 2, 2), (3, 1, 1), (-1, 4, 3), (0, 3, 3), (4, 5, 1)]
    cases = [
        _precopy(subject, "mapped-int64", "plain", moves, spare=2),
        _precopy(subject, "mapped-uint64", "plain", moves, dtype=np.uint64),
        _precopy(subject, "mapped-one", "one-conv", [(0, 1, 1)]),
        _precopy(subject, "nothing-to-move", "one-temporal", [(-1, 0, 0), (3, 3, 2)]),
        _precopy(subject, "empty-batch", "one-temporal", [], spare=1),
        _precopy(subject, "dim-first", "dim-first", moves),
        _precopy(subject, "dim-first-bytes", "dim-first-bytes", moves[3:]),
        _precopy(subject, "large-chunk", "plain", moves[3:], chunk=1024),
    ]
    if subject.has("HAS_IDX_MAPPING"):
        cases.append(_precopy(subject, "direct", "plain", moves, mapped=False, spare=1))
    if subject.has("TEMPORAL_TILES"):
        cases.extend(_precopy(subject, f"tiles{n}", "plain", moves[2:6], tiles=n, chunk=4) for n in (3, 16))
    return cases


def _precopy(
    subject: Subject,
    name: str,
    layout: str,
    wanted: list[tuple[int, int, int]],
    *,
    dtype: type = np.int64,
    spare: int = 0,
    chunk: int = 64,
    tiles: int = 1,
    mapped: bool = True,
) -> Case:
    slots, size = _slots(subject, len(wanted), mapped)
    world = World.make(subject, LAYOUTS[layout], max(size, 1), 9)
    arrays, scalars = world.arguments(dtype)
    moves = [
        (_table_row(subject, row, int(slot)), source, target, shift)
        for row, ((source, target, shift), slot) in enumerate(zip(wanted, slots, strict=True))
        if slot >= 0 and source >= 0 and source != target
    ]
    arrays["src_col_ptr"] = Array(_by_slot([source for source, _, _ in wanted], slots, size, -1))
    arrays["mamba_state_idx_ptr"] = Array(_by_slot([target for _, target, _ in wanted], slots, size, 0))
    arrays["token_bias_ptr"] = Array(_by_slot([shift for _, _, shift in wanted], slots, size, 0))
    if mapped:
        arrays["idx_mapping_ptr"] = Array(slots)
    else:
        scalars["idx_mapping_ptr"] = None
    scalars.update({"num_reqs": len(wanted), "COPY_BLOCK_SIZE": chunk, "TEMPORAL_TILES": tiles})
    scalars["HAS_IDX_MAPPING"] = mapped
    return Case(name, (len(wanted) + spare, len(world.layouts), tiles), arrays, scalars, world.after(moves))
