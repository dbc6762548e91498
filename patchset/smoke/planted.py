"""The planted faults of each kernel: changes of one expression, every one of which the kernel's cases must see.

A fault is made in the releases whose source has its expression. They stand where a mistake is easy: at a bound, a mask, a
stride, the draw that is exactly on the edge.
"""

from __future__ import annotations

from patchset.smoke.mutate import Mutant
from patchset.smoke.planted_tables import PLANTED_TABLES

_GREEDY, _RANDOM = "rejection_greedy_sample_kernel", "rejection_random_sample_kernel"
_RECOVERED, _EXPAND = "sample_recovered_tokens_kernel", "expand_kernel"
_STEP, _INPUTS = "eagle_step_slot_mapping_metadata_kernel", "eagle_prepare_inputs_padded_kernel"
_NEXT, _COPY = "eagle_prepare_next_token_padded_kernel", "copy_and_expand_eagle_inputs_kernel"
_MEMCPY, _POST = "batch_memcpy_kernel", "postprocess_mamba_fused_kernel"
_PRE, _ALIGN = "precopy_mamba_align_fused_kernel", "preprocess_mamba_align_fused_kernel"
_MOVED = Mutant(
    "_copy_mamba_state_block", "num_dst_tokens.to(tl.int64) * token_bytes", "num_dst_tokens.to(tl.int64) + token_bytes"
)
_TILE_TAIL = Mutant("_memcpy_u64_tiled", "tail_off < tail_bytes", "tail_off <= tail_bytes")

#: Kernel → its planted faults.
PLANTED: dict[str, tuple[Mutant, ...]] = {
    **PLANTED_TABLES,
    _MEMCPY: (
        Mutant(_MEMCPY, "i + offsets < size", "i + offsets <= size"),
        Mutant(_MEMCPY, "src_ptr + i + offsets", "src_ptr + offsets"),
    ),
    _POST: (
        Mutant(
            _POST, "aligned_new_computed >= num_tokens_running_state", "aligned_new_computed > num_tokens_running_state"
        ),
        Mutant(
            _POST,
            "src_block_idx == dest_block_idx and accept_token_bias == 0",
            "src_block_idx == dest_block_idx or accept_token_bias == 0",
        ),
        _MOVED,
        _TILE_TAIL,
    ),
    _PRE: (
        Mutant(_PRE, "src_col < 0", "src_col <= 0"),
        Mutant(_PRE, "src_col == dst_col", "src_col != dst_col"),
        _MOVED,
        _TILE_TAIL,
    ),
    _ALIGN: (
        Mutant(_ALIGN, "state_idx >= 0", "state_idx > 0"),
        Mutant(_ALIGN, "computed_after + MAMBA_BLOCK_SIZE - 1", "computed_after + MAMBA_BLOCK_SIZE + 1"),
    ),
    _STEP: (
        Mutant(_STEP, "new_position >= max_model_len", "new_position > max_model_len"),
        Mutant(_STEP, "clamped_position % block_size", "clamped_position // block_size"),
    ),
    _INPUTS: (
        Mutant(_INPUTS, "num_draft_tokens > 0", "num_draft_tokens >= 0"),
        Mutant(_INPUTS, "num_draft_tokens + 1", "num_draft_tokens - 1"),
    ),
    _NEXT: (
        Mutant(_NEXT, "token_ids < vocab_size", "token_ids <= vocab_size"),
        Mutant(_NEXT, "valid_count > 0", "valid_count >= 0"),
    ),
    _COPY: (
        Mutant(
            _COPY,
            "j >= num_valid_tokens + num_padding_slots_per_request",
            "j > num_valid_tokens + num_padding_slots_per_request",
        ),
        Mutant(_COPY, "j == num_valid_tokens", "j != num_valid_tokens"),
    ),
    _GREEDY: (
        Mutant(_GREEDY, "draft_token_id != target_argmax_id", "draft_token_id == target_argmax_id"),
        Mutant(_GREEDY, "uniform_prob < rate", "uniform_prob <= rate"),
    ),
    _RANDOM: (
        Mutant(_RANDOM, "target_prob / draft_prob >= uniform_prob", "target_prob / draft_prob > uniform_prob"),
        Mutant(_RANDOM, "draft_prob > 0", "draft_prob >= 0"),
        # No draw of the exact cases lies so near to the edge; only the distribution shows it.
        Mutant(_RANDOM, "target_prob / draft_prob >= uniform_prob", "target_prob / draft_prob >= uniform_prob * 0.8"),
    ),
    _EXPAND: (
        Mutant(_EXPAND, "src_val == replace_from", "src_val != replace_from"),
        Mutant(_EXPAND, "offset < num_tokens", "offset <= num_tokens"),
    ),
    _RECOVERED: (
        Mutant(_RECOVERED, "local_max > max_val", "local_max < max_val"),
        Mutant(_RECOVERED, "vocab_offset != draft_token_id", "vocab_offset == draft_token_id"),
    ),
}
