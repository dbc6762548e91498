"""The planted faults of the kernels of block tables, of the cache's clearing, and of the drafters beside them."""

from __future__ import annotations

from patchset.smoke.mutate import Mutant

_SLOTS, _SLOTS_IN_CLASS = "_compute_slot_mapping_kernel", "ComputeSlotMappingKernel.kernel"
_MAPPINGS, _GATHER, _ZERO = "_compute_slot_mappings_kernel", "_gather_block_tables_kernel", "_zero_kv_blocks_kernel"
_INDICES, _COLUMNS = "get_aligned_state_indices_multi_group_kernel", "_mamba_align_block_table_kernel"
_DFLASH = "copy_and_expand_dflash_inputs_kernel"
_FLY_GREEDY, _FLY_RANDOM = "apply_fly_greedy_acceptance_kernel", "apply_fly_random_acceptance_kernel"


def _slots(name: str) -> tuple[Mutant, ...]:
    return (
        Mutant(name, "offsets < max_num_tokens", "offsets <= max_num_tokens"),
        Mutant(name, "offsets < end_idx", "offsets <= end_idx"),
        Mutant(name, "virtual_block_offsets % CP_KV_CACHE_INTERLEAVE_SIZE", "0"),
        Mutant(name, "i + tl.arange(0, BLOCK_SIZE)", "start_idx + tl.arange(0, BLOCK_SIZE)", 1),
    )


#: Kernel → its planted faults, as in :data:`patchset.smoke.planted.PLANTED`. Those that may take the process with them
#: come last: the first that fits a release shows in what the kernel leaves.
PLANTED_TABLES: dict[str, tuple[Mutant, ...]] = {
    _SLOTS: _slots(_SLOTS),
    _SLOTS_IN_CLASS: _slots(_SLOTS_IN_CLASS),
    _MAPPINGS: (
        Mutant(_MAPPINGS, "offset < max_num_tokens", "offset <= max_num_tokens"),
        Mutant(_MAPPINGS, "block_offsets // CP_INTERLEAVE % CP_SIZE == cp_rank", "block_offsets % CP_SIZE == cp_rank"),
        Mutant(_MAPPINGS, "tl.where(sharded, local_positions, positions)", "local_positions"),
        Mutant(_MAPPINGS, "req_state_idx >= 0", "req_state_idx >= -1"),
        Mutant(_MAPPINGS, "tl.load(block_sizes + group_id)", "tl.load(block_sizes)"),
    ),
    _GATHER: (
        Mutant(_GATHER, "offset < num_blocks", "offset <= num_blocks", 1),
        Mutant(_GATHER, "batch_idx >= num_reqs", "batch_idx > num_reqs"),
        Mutant(_GATHER, "group_id * num_blocks_stride", "group_id + num_blocks_stride"),
        Mutant(_GATHER, "first_pos - reach", "first_pos - reach + 1"),
    ),
    _ZERO: (
        Mutant(_ZERO, "cols < page_size_el", "cols <= page_size_el"),
        Mutant(_ZERO, "remainder % chunks", "remainder // chunks"),
        Mutant(_ZERO, "tl.load(seg_page_sizes_ptr + seg_index)", "tl.load(seg_page_sizes_ptr)"),
        Mutant(_ZERO, "block_index >= n_blocks", "block_index > n_blocks"),
    ),
    _INDICES: (
        Mutant(_INDICES, "(seq_lens - 1) // CACHE_BLOCK_SIZE", "seq_lens // CACHE_BLOCK_SIZE"),
        Mutant(_INDICES, "rows < num_requests", "rows <= num_requests"),
        Mutant(_INDICES, "state_slots < NUM_STATE_SLOTS", "state_slots <= NUM_STATE_SLOTS"),
        Mutant(_INDICES, "rows * seq_lens_stride", "rows"),
    ),
    _COLUMNS: (
        Mutant(_COLUMNS, "(seq_len - 1) // block_size", "seq_len // block_size"),
        Mutant(_COLUMNS, "offs < n_out", "offs <= n_out"),
        Mutant(_COLUMNS, "(start + offs) * block_table_stride_1", "start + offs"),
    ),
    _DFLASH: (
        Mutant(_DFLASH, "j < num_ctx", "j <= num_ctx"),
        Mutant(_DFLASH, "ctx_end - num_rejected", "ctx_end"),
        Mutant(_DFLASH, "tl.minimum(block_num, block_table_stride - 1)", "block_num"),
        Mutant(_DFLASH, "query_off > 0", "query_off >= 0"),
    ),
    _FLY_GREEDY: (
        Mutant(_FLY_GREEDY, "can_defer and draft_logit > float('-inf')", "can_defer"),
        Mutant(_FLY_GREEDY, "draft_token_id < vocab_size", "draft_token_id <= vocab_size"),
        Mutant(_FLY_GREEDY, "range(1, FLY_WINDOW_SIZE + 1)", "range(1, FLY_WINDOW_SIZE)"),
        Mutant(
            _FLY_GREEDY,
            "tl.load(fly_entropy_ptr + token_idx) >= fly_entropy_threshold",
            "tl.load(fly_entropy_ptr + token_idx) > fly_entropy_threshold",
        ),
    ),
    _FLY_RANDOM: (
        Mutant(_FLY_RANDOM, "range(1, FLY_WINDOW_SIZE + 1)", "range(1, FLY_WINDOW_SIZE)"),
        Mutant(_FLY_RANDOM, "target_prob > 0", "target_prob >= 0"),
        Mutant(
            _FLY_RANDOM,
            "future_target_prob / future_draft_prob >= future_uniform_prob",
            "future_target_prob / future_draft_prob > future_uniform_prob",
        ),
        Mutant(
            _FLY_RANDOM,
            "tl.load(fly_entropy_ptr + token_idx) >= fly_entropy_threshold",
            "tl.load(fly_entropy_ptr + token_idx) > fly_entropy_threshold",
        ),
    ),
}
