"""What an engine's tokens are beside those of the run without speculation, and the table of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from patchset import patch_proof
from patchset.engine import compare, prove
from patchset.engine.compare import TIE, Compared, Died, NotRun, Ran, Reference
from patchset.patch_proof import Verdict

REFUSED = "Expected spec_token == num_spec_decodes * (num_speculative_tokens + 1) to be true, but got false."


def reference(tokens: Sequence[int], gap: float = 1.0, other: int = 9) -> Reference:
    return Reference(tuple(tokens), tuple((gap, other) for _ in tokens))


def test_the_same_tokens_are_equal_to_the_end() -> None:
    assert compare.compare(reference([1, 2, 3]), [1, 2, 3]) == Compared(3, 3)


def test_another_token_is_wrong_where_the_logits_are_apart() -> None:
    assert compare.compare(reference([1, 2, 3]), [1, 9, 3]) == Compared(1, 3, wrong=True)


@pytest.mark.parametrize(
    ("gap", "got", "tie"), [(TIE, 9, True), (0.0, 9, True), (TIE * 1.01, 9, False), (0.0, 8, False)]
)
def test_only_the_runner_up_of_a_tie_may_follow(gap: float, got: int, tie: bool) -> None:
    found = compare.compare(reference([1, 2, 3], gap), [1, got, 7])
    assert (found.equal, found.tie, found.wrong) == (1, tie, not tie)


@pytest.mark.parametrize("tokens", [[1, 2], [1, 2, 3, 4], []])
def test_too_few_or_too_many_tokens_are_wrong(tokens: list[int]) -> None:
    assert compare.compare(reference([1, 2, 3]), tokens).wrong


def test_the_cell_of_equal_tokens_counts_them_and_the_short_groups() -> None:
    cell = compare.cell(Ran(((1, 2), (3,)), 5, 2, 4), [reference([1, 2]), reference([3])])
    assert cell == {"verdict": "good", "text": "equal, 3 of 3 tokens, 2 short of 5 groups, 4 single tokens"}


def test_the_cell_says_how_many_requests_were_compared_to_a_tie_only() -> None:
    cell = compare.cell(Ran(((1, 9), (3,)), 5, 2, 4), [reference([1, 2], 0.0), reference([3])])
    assert cell["verdict"] == "good"
    assert cell["text"].startswith("equal, 2 of 3 tokens") and "a tie in 1 of 2 requests" in cell["text"]


def test_the_cell_of_wrong_tokens_names_the_earliest() -> None:
    ran = Ran(((1, 2, 3, 8), (1, 8, 3, 4)), 5, 2, 4)
    cell = compare.cell(ran, [reference([1, 2, 3, 4]), reference([1, 2, 3, 4])])
    assert cell == {
        "verdict": "wrong",
        "text": "wrong at token 2 of 4, in 2 of 2 requests (2 short of 5 groups, 4 single tokens)",
    }


def test_a_cell_in_which_nothing_was_compared_is_not_good() -> None:
    cell = compare.cell(Ran(((9,),), 1, 1, 4), [reference([1], 0.0)])
    assert cell["verdict"] == "not run"


def test_a_death_and_a_run_that_was_not_keep_their_words() -> None:
    assert compare.cell(Died(REFUSED), []) == {"verdict": "dies", "text": REFUSED}
    assert compare.cell(NotRun("no end after 5 s"), []) == {"verdict": "not run", "text": "no end after 5 s"}


def columns(ours: compare.Outcome) -> list[list[compare.Outcome]]:
    rows = sum(map(len, prove.RUNNERS.values())) * len(prove.BATCHES)
    return [[Died(REFUSED)] * rows, [Ran(((2,),), 3, 1, 4)] * rows, [ours] * rows]


@pytest.mark.parametrize(
    ("ours", "ok"),
    [
        (Ran(((1,),), 3, 1, 4), True),
        (Ran(((2,),), 3, 1, 4), False),
        (Ran(((1,),), 3, 0, 4), False),  # no short group was met: it proves nothing
        (Died(REFUSED), False),
        (NotRun("the engine did not start"), False),
    ],
)
def test_the_table_is_one_that_the_task_reads_and_is_ok_only_if_proved(ours: compare.Outcome, ok: bool) -> None:
    document = prove.assemble(columns(ours), [reference([1])])
    assert document["ok"] is ok
    table = patch_proof.read(document, "engine", "./inv proof --engine")
    assert table.rows[0].name == "depth 1, batch 1" and table.rows[-1].name == "runner V1, depth 3, batch 4"
    assert [cell.verdict for cell in table.rows[0].cells[:2]] == [Verdict.DIES, Verdict.WRONG]


def test_without_a_death_of_the_unpatched_engine_nothing_is_proved() -> None:
    good: list[compare.Outcome] = [Ran(((1,),), 3, 1, 4)] * 20
    assert not prove.assemble([good, good, good], [reference([1])])["ok"]


def test_prompts_are_the_same_each_time_and_leave_room_to_generate() -> None:
    assert prove.prompts_of(3) == prove.prompts_of(3) != prove.prompts_of(4)
    assert [len(prompt) for prompt in prove.prompts_of(3)] == list(prove.PROMPTS)
    assert all(len(prompt) < prove.LENGTH - max(prove.DEPTHS) for prompt in prove.prompts_of(3))
