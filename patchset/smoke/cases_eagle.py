"""Cases for the drafter's input kernels."""

from __future__ import annotations

import numpy as np

from patchset.smoke import references_eagle as reference
from patchset.smoke.case import Array, Case, Subject, cumulative, flags, ints, output, poisoned

#: vLLM's slot for "write nowhere" (PADDING_SLOT_ID).
PAD = -1


def step_slot_mapping(subject: Subject) -> list[Case]:
    """Block edges, the end of the model's length, a table that is too short, padding rows, a wide table stride."""
    limit = 96
    edges = [0, 1, 14, 15, 16, 31, limit - 3, limit - 2, limit - 1, limit]
    return [
        _step(subject, "edges", edges, block=16, blocks=6, limit=limit),
        _step(subject, "edges-short-table", edges, block=16, blocks=4, limit=limit),
        _step(subject, "block-of-one", [0, 3, 5, 6, 7], block=1, blocks=8, limit=8),
        _step(subject, "padded-batch", [3, 47, 95], block=16, blocks=6, limit=limit, padding=5, spare=3),
        _step(subject, "one-request", [7], block=8, blocks=2, limit=16),
        _step(subject, "only-padding", [], block=8, blocks=2, limit=16, padding=4),
        _step(subject, "empty-batch", [], block=8, blocks=2, limit=16),
        _step(subject, "random", subject.rng.integers(0, 4000, 37).tolist(), block=528, blocks=8, limit=4000, spare=5),
    ]


def _step(
    subject: Subject,
    name: str,
    positions: list[int],
    *,
    block: int,
    blocks: int,
    limit: int,
    padding: int = 0,
    spare: int = 0,
) -> Case:
    rows = len(positions)
    table = poisoned((rows, blocks + spare))
    table[:, :blocks] = subject.rng.permutation(rows * blocks + 7)[: rows * blocks].reshape(rows, blocks)
    start = ints(positions, np.int64)
    lengths = ints([position + 1 for position in positions])
    moved, slots, longer = reference.step_slot_mapping(start, table[:, :blocks], lengths, block, limit, PAD)
    arrays = {
        "positions_ptr": Array(start),
        "block_table_ptr": Array(table),
        "seq_lens_ptr": Array(lengths, longer),
        "out_clamped_positions_ptr": output(moved),
        "out_slot_mapping_ptr": output(np.concatenate([slots, np.full(padding, PAD, np.int64)])),
    }
    scalars: dict[str, int | float | bool | None] = {
        "block_table_stride": blocks + spare,
        "block_size": block,
        "max_model_len": limit,
        "n_blocks_per_req": blocks,
        "PAD_ID": PAD,
        "batch_size": rows,
    }
    return Case(name, (rows + padding,), arrays, scalars)


def prepare_inputs_padded(subject: Subject) -> list[Case]:
    """No drafts, all accepted, all rejected, and more programs than requests."""
    rng = subject.rng
    many = rng.integers(0, 6, 33)
    return [
        _prepare_inputs("mixed", ints([3, 0, 1, 5]), ints([1, 1, 2, 4])),
        _prepare_inputs("no-drafts", ints([0, 0, 0]), ints([1, 0, 1])),
        _prepare_inputs("first-has-none", ints([0, 4]), ints([1, 5])),
        _prepare_inputs("nothing-valid", ints([2, 3]), ints([0, 0])),
        _prepare_inputs("one-request", ints([4]), ints([3]), extra=3),
        _prepare_inputs("empty-batch", ints([]), ints([]), extra=2),
        _prepare_inputs("random", many, ints([rng.integers(0, count + 2) for count in many]), extra=5),
    ]


def _prepare_inputs(name: str, drafted: np.ndarray, valid: np.ndarray, extra: int = 0) -> Case:
    query_start = np.concatenate([ints([0]), cumulative(drafted + 1)])
    index, rejected = reference.prepare_inputs_padded(drafted, valid, query_start)
    arrays = {
        "cu_num_draft_tokens_ptr": Array(cumulative(drafted)),
        "valid_sampled_tokens_count_ptr": Array(valid),
        "query_start_loc_gpu_ptr": Array(query_start.astype(np.int32)),
        "token_indices_to_sample_ptr": output(index),
        "num_rejected_tokens_gpu_ptr": output(rejected),
    }
    return Case(name, (len(drafted) + extra,), arrays, {"num_reqs": len(drafted)})


def prepare_next_token_padded(subject: Subject) -> list[Case]:
    """Widths at and between powers of two, a wide row stride, dropped requests, tokens at the vocabulary's edge."""
    vocab = 1000
    rng = subject.rng
    edge = ints([[0, -1, -1], [vocab - 1, 4, vocab], [vocab, -1, -1], [-1, -1, -1], [vocab + 5, 7, -1], [9, 8, 0]])
    cases = [
        _next_token("vocabulary-edge", rng, edge, vocab, dropped=[]),
        _next_token("dropped", rng, edge, vocab, dropped=[0, 3, 5]),
        _next_token("one-column", rng, ints([[5], [-1], [0]]), vocab, dropped=[2]),
        _next_token("one-request", rng, ints([[5, 6]]), vocab, dropped=[], extra=2),
        _next_token("empty-batch", rng, ints([]).reshape(0, 3), vocab, dropped=[], extra=1),
    ]
    for width in (3, 4, 5):
        rows = ints(rng.integers(0, vocab, (11, width)))
        for row in rows:
            row[rng.integers(0, width + 1) :] = -1
        cases.append(_next_token(f"width{width}-stride", rng, rows, vocab, dropped=[4], spare=3, extra=1))
    return cases


def _next_token(
    name: str,
    rng: np.random.Generator,
    sampled: np.ndarray,
    vocab: int,
    dropped: list[int],
    spare: int = 0,
    extra: int = 0,
) -> Case:
    rows, width = sampled.shape
    padded = np.full((rows, width + spare), 3, np.int32)
    padded[:, :width] = sampled
    discarded = np.isin(np.arange(rows), dropped)
    backup = ints(rng.integers(2000, 3000, rows))
    tokens, counts = reference.prepare_next_token_padded(sampled, discarded, backup, vocab)
    arrays = {
        "sampled_token_ids_ptr": Array(padded),
        "discard_request_mask_ptr": flags(discarded),
        "backup_next_token_ids_ptr": Array(backup),
        "next_token_ids_ptr": output(tokens),
        "valid_sampled_tokens_count_ptr": output(counts),
    }
    scalars: dict[str, int | float | bool | None] = {
        "vocab_size": vocab,
        "num_sampled_tokens_per_req": width,
        "num_reqs": rows,
        "stride_sampled_token_ids": width + spare,
        "BLOCK_SIZE_TOKENS": 1 << (width - 1).bit_length(),
    }
    return Case(name, (rows + extra,), arrays, scalars)


def copy_and_expand(subject: Subject) -> list[Case]:
    """With and without the shift, one and more slots a request, rejected tokens, requests longer than a block."""
    cases = []
    for shift in (True, False):
        for slots in (1, 2, 4):
            cases.append(_expand(subject, "mixed", [5, 1, 3, 8], [2, 0, 1, 7], slots, shift, block=4))
        cases.append(_expand(subject, "long", [16, 33], [0, 5], 3, shift, block=16))
        cases.append(_expand(subject, "one-token", [1], [0], 2, shift, block=8))
        cases.append(_expand(subject, "empty-batch", [], [], 2, shift, block=8))
    return cases


def _expand(
    subject: Subject, label: str, lengths: list[int], rejected: list[int], slots: int, shift: bool, block: int
) -> Case:
    rng, total = subject.rng, sum(lengths)
    starts = np.concatenate([ints([0]), cumulative(lengths)])
    ends = ints(starts[1:] - 1 - ints(rejected))
    tokens = ints(rng.integers(100, 900, total))
    positions = np.concatenate([np.arange(n) + rng.integers(0, 50) for n in lengths] or [ints([])]).astype(np.int64)
    following = ints(rng.integers(1000, 2000, len(lengths)))
    want = reference.copy_and_expand(tokens, positions, following, starts, ends, 11, 77, slots, shift)
    mapping = ints(want.hidden_state_mapping) if shift else poisoned(total)
    arrays = {
        "target_token_ids_ptr": Array(tokens),
        "target_positions_ptr": Array(positions),
        "next_token_ids_ptr": Array(following),
        "out_input_ids_ptr": output(ints(want.input_ids)),
        "out_positions_ptr": output(ints(want.positions, np.int64)),
        "out_is_rejected_token_mask_ptr": output(ints(want.rejected, np.uint8), boolean=True),
        "out_is_masked_token_mask_ptr": output(ints(want.masked, np.uint8), boolean=True),
        "out_new_token_indices_ptr": output(ints(want.new_token_indices)),
        "out_hidden_state_mapping_ptr": output(mapping),
        "query_start_loc_ptr": Array(starts.astype(np.int32)),
        "query_end_loc_ptr": Array(ends),
    }
    scalars: dict[str, int | float | bool | None] = {
        "padding_token_id": 11,
        "parallel_drafting_token_id": 77,
        "total_input_tokens": total,
        "num_padding_slots_per_request": slots,
        "shift_input_ids": shift,
        "BLOCK_SIZE_TOKENS": block,
    }
    longest = max((n + slots for n in lengths), default=1)
    name = f"{label}-{'shift' if shift else 'noshift'}-slots{slots}"
    return Case(name, (len(lengths), -(-longest // block)), arrays, scalars)
