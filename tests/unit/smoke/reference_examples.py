"""The references of the block-table, zeroing and drafting kernels on examples worked out by hand. Run where NumPy is."""

from __future__ import annotations

import numpy as np

from patchset.smoke import cases_zeroing
from patchset.smoke import references_block_table as table
from patchset.smoke import references_fly as fly
from patchset.smoke.case import Subject
from patchset.smoke.lanes import memory
from patchset.smoke.references_block_table import PAD, Sharing
from patchset.smoke.references_dflash import dflash_inputs


def check_tokens_are_dealt_to_ranks_in_turns() -> None:
    assert table.dealt(4, Sharing(2, 0, 2)) == [0, 1, None, None, 2, 3, None, None]
    assert table.dealt(4, Sharing(2, 1, 1)) == [None, 0, None, 1, None, 2, None, 3]
    assert table.dealt(3, Sharing()) == [0, 1, 2]


def check_a_slot_is_the_block_times_its_size_and_the_place_in_it() -> None:
    columns = np.array([9, 4, 7])
    assert table.slots(columns, np.array([0, 7, 8, 23, 24]), 8, 1, Sharing()).tolist() == [72, 79, 32, 63, PAD]
    # Two split blocks of 4 in a block of 8: the table has three, so tokens from 12 on have none.
    assert table.slots(columns, np.array([3, 4, 8, 11, 12]), 8, 2, Sharing()).tolist() == [39, 16, 28, 31, PAD]
    assert table.slots(columns, np.array([0, 1, 8, 17]), 8, 1, Sharing(2, 1, 1)).tolist() == [PAD, 72, PAD, 32]


def check_blocks_that_no_query_sees_end_before_the_window() -> None:
    seen = {first: table.blocks_out_of_sight(first, 9, 4) for first in (0, 9, 12, 13, 20, 21)}
    assert seen == {0: 0, 9: 0, 12: 0, 13: 1, 20: 2, 21: 3}
    assert table.blocks_out_of_sight(100, 0, 4) == 0


def check_state_columns_begin_at_the_last_tokens_block() -> None:
    first = {length: table.state_columns(length, 8, 2).start for length in (0, 1, 8, 9, 16, 17)}
    assert first == {0: 0, 1: 0, 8: 0, 9: 1, 16: 1, 17: 2}


def check_rejected_context_keeps_its_slots_and_the_query_starts_behind_the_valid_one() -> None:
    got = dflash_inputs(
        np.array([50]), np.array([6, 7, 8]), np.array([0, 3]), np.array([1]), np.array([[3, 5]]), 4, 77, 2
    )
    assert (got.input_ids, got.query_positions, got.token_indices) == ([50, 77, 77], [8, 9, 10], [1, 2])
    # Behind the table's two blocks its last one is used.
    assert (got.context_slots, got.query_slots) == ([22, 23, 20], [20, 21, 22])


def check_a_rejection_is_put_off_if_a_whole_window_follows() -> None:
    for accepted, window, kept in (
        ([False, True, True], 2, [True, False, False]),
        ([False, True, False], 2, [False, False, False]),
        ([False, True], 2, [False, False]),
        ([True, False, True], 1, [False, True, False]),
    ):
        always, never = [True] * len(accepted), [False] * len(accepted)
        assert fly.deferred(accepted, always, always, window) == kept
        assert not any(fly.deferred(accepted, always, never, window))
        assert not any(fly.deferred(accepted, never, always, window))


def check_far_blocks_lie_inside_memory_though_their_offsets_pass_32_bits() -> None:
    names = frozenset({"seg_addrs_ptr", "block_ids_ptr", "n_blocks"})
    made = cases_zeroing.zero_blocks(Subject("zero", names, (0, 23, 0), np.random.default_rng(1)))
    case = next(case for case in made if case.name == "far-blocks")
    plan = memory.layout(case)
    base = 0xFFFF_D556_B640_0000
    image = memory.image(case, plan, base)
    addresses = plan.places["seg_addrs_ptr"].read(image)
    for index, address in enumerate(addresses.tolist()):
        place = plan.places[f"segment{index}"]
        for block in case.arrays["block_ids_ptr"].start.tolist():
            assert block * 512 > 2**31
            at = (address + 4 * 512 * block) % 2**64 - base - place.start
            assert 0 <= at <= place.size - 4 * 512


if __name__ == "__main__":
    checks = [check for name, check in sorted(globals().items()) if name.startswith("check_")]
    for check in checks:
        check()
    print(f"{len(checks)} checked")
