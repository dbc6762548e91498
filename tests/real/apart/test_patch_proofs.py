"""The proofs of this clone's patches on the default recipe: ours is right, and what is compared with it is seen to fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patchset import patch_proof
from patchset.cli import DEFAULT
from patchset.lab import Lab
from patchset.patch_proof import Table, Verdict
from patchset.resolve import Project

pytestmark = pytest.mark.real

#: Given in the field when a request reaches max_model_len, and when a hybrid model makes its first copy.
REFUSED = "Expected spec_token == num_spec_decodes * (num_speculative_tokens + 1) to be true, but got false."
OVERFLOW = ("OverflowError: Python int too large to convert to C long", "ValueError: Overflow when unpacking long long")


@pytest.fixture(scope="module")
def base(project: Project, tree_of: Callable[[str], Path]) -> Path:
    return tree_of(project.recipe(DEFAULT).pin.release)


def verdicts(table: Table) -> dict[str, tuple[Verdict, ...]]:
    return {row.name: tuple(cell.verdict for cell in row.cells) for row in table.rows}


def test_short_groups_are_right_with_ours_and_with_nothing_else(
    project: Project, base: Path, patched_tree_of: Callable[[str], Path], lab_python: Path
) -> None:
    table = patch_proof.run(
        project.patches["mtp-boundary"], base, patched_tree_of(DEFAULT), Lab(lab_python, "the laboratory")
    )
    good, wrong, dies = Verdict.GOOD, Verdict.WRONG, Verdict.DIES
    found = verdicts(table)
    assert table.ok and table.columns == ("unpatched", "public approach", "ours")
    assert {name for name, cells in found.items() if cells == (good, good, good)} == {
        "control: full groups",
        "control: full groups beside a prefill",
    }
    short = {name: cells for name, cells in found.items() if not name.startswith("control")}
    assert {cells[1:] for cells in short.values()} == {(wrong, good)}
    assert {name for name, cells in short.items() if cells[0] is wrong} == {
        "steps without drafts, batch 1",
        "single tokens beside a full group",
    }
    texts = {row.name: row.cells for row in table.rows}
    for accepted in (1, 2, 3, 4):
        unpatched, public, _ = texts[f"last group cut, batch 1, {accepted} accepted before"]
        assert unpatched.verdict is dies and REFUSED in unpatched.text
        # The state that it reads is right after one token; the one that it leaves is not.
        assert ("wrong outputs 6" in public.text) == (accepted > 1)
        assert ("only the state wrong 5, right 1" in public.text) == (accepted == 1)


def test_kernels_follow_patched_addresses_of_the_upper_half(
    project: Project, base: Path, patched_tree_of: Callable[[str], Path], lab_python: Path
) -> None:
    patch, laboratory = project.patches["mamba-uint64-pointers"], Lab(lab_python, "the laboratory")
    table = patch_proof.run(patch, base, patched_tree_of(DEFAULT), laboratory)
    found = verdicts(table)
    tables = ("src_ptrs", "dst_ptrs", "state_base_addrs", "block_table_ptrs")
    assert table.ok
    assert found == {
        **{f"{name}, low addresses": (Verdict.GOOD, Verdict.GOOD) for name in tables},
        **{f"{name}, bit 63 set": (Verdict.DIES, Verdict.GOOD) for name in tables},
    }
    for row in table.rows:
        assert row.cells[0].verdict is Verdict.GOOD or row.cells[0].text.startswith(OVERFLOW)
