"""What decides in a bisection, as functions alone: the search, the smallest set, the evidence, the line, the state file."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchset.bisect.evidence import Result, Tally, Verdict, chance, differ, side, tally
from patchset.bisect.line import Element, edits, with_edits
from patchset.bisect.minimal import minimize
from patchset.bisect.record import Question, Record, RunRecord, StepRecord, read_record
from patchset.bisect.search import Narrowed, ahead, bound, narrow, relevant
from patchset.bisect.trial import _judge
from patchset.errors import DeclarationError
from patchset.process import Finished

# -- search ------------------------------------------------------------------------------------------------------------


def truth(position: int, culprit: int, silent: frozenset[int]) -> bool | None:
    """What a test says at *position* if *culprit* is the first bad one."""
    return None if position in silent else position < culprit


def searched(last: int, culprit: int, silent: frozenset[int], jobs: int = 1) -> tuple[Narrowed, list[int]]:
    """Where a search ends, and what it asked for on the way; with several jobs their results come in from the last on."""
    found: dict[int, bool | None] = {}
    asked: list[int] = []
    while narrow(last, found).next is not None:
        positions = ahead(last, found, jobs)
        assert positions[0] == narrow(last, found).next
        for position in reversed(positions):
            asked.append(position)
            found[position] = truth(position, culprit, silent)
    return narrow(last, found), asked


def test_search_finds_every_transition_in_no_more_tests_than_the_bound() -> None:
    for last in (*range(1, 36), 63, 64, 65):
        for culprit in range(1, last + 1):
            end, asked = searched(last, culprit, frozenset())
            assert (end.good, end.bad, end.exact) == (culprit - 1, culprit, True)
            assert len(asked) == len(set(asked)) <= bound(last)


@pytest.mark.parametrize("last", range(1, 10))
def test_search_with_any_positions_silent_leaves_just_those_between(last: int) -> None:
    """Every transition, every set of positions that say nothing."""
    for size in range(last):
        for silent in map(frozenset, itertools.combinations(range(1, last), size)):
            for culprit in range(1, last + 1):
                end, asked = searched(last, culprit, silent)
                good = max(p for p in range(culprit) if p not in silent)
                bad = min(p for p in range(culprit, last + 1) if p not in silent)
                assert (end.good, end.bad) == (good, bad)
                assert len(asked) == len(set(asked)) and min(asked, default=1) > 0 and max(asked, default=0) < last


@given(st.data())
def test_search_side_by_side_ends_where_one_at_a_time_does(data: st.DataObject) -> None:
    last = data.draw(st.integers(1, 70))
    culprit = data.draw(st.integers(1, last))
    silent = frozenset(data.draw(st.sets(st.integers(1, last)))) - {last}
    jobs = data.draw(st.integers(2, 7))
    assert searched(last, culprit, silent, jobs)[0] == searched(last, culprit, silent)[0]


@given(st.integers(1, 60), st.dictionaries(st.integers(1, 59), st.sampled_from([True, False, None])))
def test_search_ends_between_a_good_and_a_bad_position_whatever_was_found(
    last: int, found: dict[int, bool | None]
) -> None:
    """A test need not be in order (good, bad, good, bad): one place where good turns to bad is still what comes out."""
    found = {position: verdict for position, verdict in found.items() if position < last}
    while (position := narrow(last, found).next) is not None:
        assert position not in found
        found[position] = bool(position % 3)
    end = narrow(last, found)
    assert end.good == 0 or found[end.good] is True
    assert end.bad == last or found[end.bad] is False
    assert all(found.get(between, True) is None for between in range(end.good + 1, end.bad))


def test_search_looks_past_a_silent_middle_at_the_nearest_position() -> None:
    assert narrow(8, {}).next == 4
    assert narrow(8, {4: None}).next == 3
    assert narrow(8, {4: None, 3: None}).next == 5
    assert narrow(8, {4: None, 3: None, 5: False}) == Narrowed(0, 5, 2)


def test_ahead_names_what_follows_if_good_and_if_bad() -> None:
    assert ahead(16, {}, 1) == (8,)
    assert ahead(16, {}, 3) == (8, 12, 4)
    assert ahead(16, {8: True}, 3) == (12, 14, 10)
    assert ahead(2, {}, 5) == (1,)
    assert ahead(2, {1: True}, 5) == ()
    assert set(ahead(16, {}, 100)) == set(range(1, 16))


def test_relevant_is_what_lies_between_the_last_good_and_the_first_bad() -> None:
    assert [position for position in range(17) if relevant(16, {}, position)] == list(range(1, 16))
    assert [position for position in range(17) if relevant(16, {8: True, 12: False}, position)] == [9, 10, 11]
    assert not any(relevant(2, {1: False}, position) for position in range(3))


def test_bound_is_the_logarithm_rounded_up() -> None:
    assert [bound(changes) for changes in (0, 1, 2, 3, 4, 5, 63, 64, 65)] == [0, 0, 1, 2, 2, 3, 6, 6, 7]
    assert all(2 ** bound(changes) >= changes > 2 ** (bound(changes) - 1) for changes in range(2, 3000))


# -- the smallest set --------------------------------------------------------------------------------------------------


def test_minimize_finds_exactly_the_pair_wherever_it_is() -> None:
    for pair in itertools.combinations(range(16), 2):
        assert minimize(range(16), lambda subset, pair=pair: set(pair) <= set(subset)) == pair


def test_minimize_keeps_one_that_is_enough_and_all_where_all_are_needed() -> None:
    assert minimize(range(9), lambda subset: 7 in subset) == (7,)
    assert minimize(range(9), lambda subset: len(subset) == 9) == tuple(range(9))
    assert minimize([4], lambda subset: True) == (4,)


@given(st.integers(1, 12), st.data())
def test_minimize_is_minimal_by_one_whatever_shows_it(count: int, data: st.DataObject) -> None:
    """Any test at all, also one that is not monotone and one that often says nothing."""
    known: dict[tuple[int, ...], bool | None] = {tuple(range(count)): True}

    def shows(subset: Sequence[int]) -> bool | None:
        key = tuple(subset)
        if key not in known:
            known[key] = data.draw(st.sampled_from([True, False, None]))
        return known[key]

    least = minimize(range(count), shows)
    assert shows(least) is True
    assert list(least) == sorted(least)
    if len(least) > 1:
        for left_out in least:
            assert shows([item for item in least if item != left_out]) is not True


def test_minimize_takes_a_set_that_says_nothing_for_one_that_does_not_show_it() -> None:
    """Patch 1 goes in only on patch 0, and the fault needs 1 and 3."""

    def shows(subset: Sequence[int]) -> bool | None:
        return None if 1 in subset and 0 not in subset else {1, 3} <= set(subset)

    assert minimize(range(6), shows) == (0, 1, 3)


# -- the evidence ------------------------------------------------------------------------------------------------------


def fisher(good: Tally, bad: Tally) -> Fraction:
    """The same probability by counting: of all ways to deal the failures to the runs, those with as many on the bad side."""
    failed = good.failed + bad.failed
    ways = itertools.combinations(range(good.runs + bad.runs), failed)
    hits = [sum(1 for run in dealt if run >= good.runs) >= bad.failed for dealt in ways]
    return Fraction(sum(hits), len(hits))


def test_chance_is_what_counting_gives() -> None:
    for passed, failed, more_passed, more_failed in itertools.product(range(4), repeat=4):
        good, bad = Tally(passed, failed), Tally(more_passed, more_failed)
        if good.runs and bad.runs:
            assert chance(good, bad) == pytest.approx(float(fisher(good, bad)), abs=1e-12)


def test_chance_by_hand() -> None:
    """0 of 5 against 5 of 5: one way of C(10, 5) = 252. The lady who tastes tea, 1 of 4 against 3 of 4: 17 of 70."""
    assert chance(Tally(5, 0), Tally(0, 5)) == pytest.approx(1 / 252)
    assert chance(Tally(3, 1), Tally(1, 3)) == pytest.approx(17 / 70)
    assert chance(Tally(), Tally(0, 5)) == chance(Tally(5, 0), Tally()) == 1.0
    assert chance(Tally(0, 5), Tally(5, 0)) == 1.0


def test_two_trees_differ_only_beyond_chance_and_in_the_right_direction() -> None:
    assert not differ(Tally(5, 0), Tally(0, 5))  # 1 of 252
    assert differ(Tally(8, 0), Tally(0, 8))  # 1 of 12870
    assert not differ(Tally(0, 8), Tally(8, 0))
    assert not differ(Tally(40, 20), Tally(40, 20))


def test_side_where_the_good_end_never_failed_one_failure_is_enough() -> None:
    good, bad = Tally(5, 0), Tally(1, 4)
    assert side(Tally(5, 0), good, bad) is True
    assert side(Tally(4, 1), good, bad) is False
    assert side(Tally(0, 0, Result.SKIPPED), good, bad) is None


def test_side_where_the_good_end_fails_too_it_is_the_nearer_rate() -> None:
    good, bad = Tally(4, 1), Tally(0, 5)
    assert side(Tally(5, 0), good, bad) is True
    assert side(Tally(3, 2), good, bad) is True
    assert side(Tally(2, 3), good, bad) is False  # as near to one as to the other is not good
    assert side(Tally(1, 4), good, bad) is False


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ([Result.GOOD, Result.GOOD], Verdict.GOOD),
        ([Result.BAD], Verdict.BAD),
        ([Result.GOOD, Result.BAD, Result.BAD], Verdict.FLAKY),
        ([Result.SKIPPED], Verdict.SKIPPED),
        ([Result.CANNOT_BUILD], Verdict.CANNOT_BUILD),
        ([Result.CANNOT_LOAD], Verdict.CANNOT_LOAD),
        ([Result.BAD, Result.SKIPPED], Verdict.BAD),
        ([], Verdict.SKIPPED),
    ],
)
def test_verdict_of_runs(results: list[Result], verdict: Verdict) -> None:
    seen = tally(results)
    assert seen.verdict is verdict
    assert seen.runs == sum(result.judges for result in results)
    assert seen.mixed == (verdict is Verdict.FLAKY)


# -- the line ----------------------------------------------------------------------------------------------------------


def elements(text: str) -> tuple[Element, ...]:
    """ "a b2 c": patches of these names, each with the version behind it as digest."""
    return tuple(Element(word[0], word[1:]) for word in text.split())


_SERIES = st.permutations("abcdefg").flatmap(
    lambda ids: st.lists(st.sampled_from(["", "1", "2"]), min_size=0, max_size=7).map(
        lambda versions: tuple(Element(id, version) for id, version in zip(ids, versions, strict=False))
    )
)


@given(_SERIES, _SERIES)
def test_all_edits_give_the_bad_end_and_none_gives_the_good_one(
    good: tuple[Element, ...], bad: tuple[Element, ...]
) -> None:
    found = edits(good, bad)
    assert with_edits(good, bad, found, ()) == good
    assert with_edits(good, bad, found, range(len(found))) == bad
    assert bool(found) == (good != bad)
    assert len({(edit.kind, edit.id) for edit in found}) == len(found)


@given(_SERIES, _SERIES, st.data())
def test_any_edits_give_each_patch_as_the_end_it_was_taken_from_has_it(
    good: tuple[Element, ...], bad: tuple[Element, ...], data: st.DataObject
) -> None:
    found = edits(good, bad)
    chosen = data.draw(st.sets(st.integers(0, len(found) - 1))) if found else set()
    made = with_edits(good, bad, found, chosen)
    ids = [element.id for element in made]
    assert len(ids) == len(set(ids))
    changed = {found[index].id for index in chosen}
    expected = {e.id: e for e in good if e.id not in changed} | {e.id: e for e in bad if e.id in changed}
    unedited = {e.id for e in good} - {edit.id for edit in found}
    assert {e.id: e for e in made} == {id: expected[id] for id in expected if id in changed | unedited or id in ids}
    assert set(ids) == set(expected)


def test_edits_in_the_order_of_the_series() -> None:
    found = edits(elements("a b c1 d"), elements("n a c2 d m"))
    # b stood behind a; c is another version; d is in both
    assert [edit.text for edit in found] == ["n added", "b removed", "c changed", "m added"]


def test_edits_of_prefixes_are_additions_one_after_the_other() -> None:
    good, bad = elements("a"), elements("a b c")
    found = edits(good, bad)
    assert [(edit.kind, edit.id) for edit in found] == [("added", "b"), ("added", "c")]
    assert with_edits(good, bad, found, [1]) == elements("a c")


def test_another_order_is_an_edit_of_its_own_and_comes_last() -> None:
    good, bad = elements("a b c"), elements("c a b d")
    found = edits(good, bad)
    assert [edit.text for edit in found] == ["d added", "the order of the patches"]
    assert with_edits(good, bad, found, [0]) in (elements("a b d c"), elements("a b c d"))
    assert with_edits(good, bad, found, [1]) == elements("c a b")


# -- the state file ----------------------------------------------------------------------------------------------------

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.data())
def test_state_comes_back_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    seconds = st.floats(0, 1e6)
    question = data.draw(
        st.builds(Question, _TEXT, _TEXT, _TEXT, repeat=st.integers(1, 9), timeout=seconds, minimize=st.booleans())
    )
    step = st.builds(StepRecord, _TEXT, _TEXT, _TEXT, st.lists(_TEXT, max_size=3).map(tuple), _TEXT, _TEXT, seconds)
    run = st.builds(RunRecord, st.sampled_from(Result), _TEXT, seconds, _TEXT, st.booleans())
    record = Record(
        tmp_path_factory.mktemp("record") / "state.json",
        question,
        data.draw(_TEXT),
        data.draw(st.lists(step, max_size=3)),
        data.draw(st.dictionaries(_TEXT, st.lists(run, max_size=3), max_size=3)),
        data.draw(st.none() | st.just({"answer": {"kind": "step"}})),
    )
    record.save()
    assert read_record(record.file) == record


def test_no_state_is_no_bisection(tmp_path: Path) -> None:
    assert read_record(tmp_path / "state.json") is None


@pytest.fixture
def written(tmp_path: Path) -> Record:
    """A state with one step and one run in it, on disk."""
    record = Record(tmp_path / "state.json", Question("r", "base", "r"), "f" * 64)
    record.steps.append(StepRecord("patches", "p", "1.0", ("p",), "a" * 40, "", 1.0))
    record.runs["a" * 40] = [RunRecord(Result.BAD, "status 1", 0.5, "log", False)]
    record.save()
    return record


_DAMAGE: dict[str, Any] = {
    "another format": lambda data: data.update(format=2),
    "a key too many": lambda data: data.update(more=1),
    "a key too few": lambda data: data.pop("steps"),
    "a result there is not": lambda data: data["runs"]["a" * 40][0].update(result="fine"),
    "a run that is no document": lambda data: data["runs"].update({"a" * 40: ["bad"]}),
    "runs that are no document": lambda data: data.update(runs=[]),
    "a step with a field too many": lambda data: data["steps"][0].update(more=1),
    "a step that is no document": lambda data: data.update(steps=[1]),
    "a question with a field too few": lambda data: data["question"].pop("bad"),
    "a number that is text": lambda data: data["question"].update(repeat="5"),
    "a text that is a number": lambda data: data["steps"][0].update(tree=5),
    "text for the patches": lambda data: data["steps"][0].update(patches="abc"),
    "an answer that is no document": lambda data: data.update(answer="this one"),
    "a list": lambda data: [data],
}


@pytest.mark.parametrize("damage", _DAMAGE.values(), ids=_DAMAGE)
def test_damaged_state_is_an_error_that_says_how_to_go_on(written: Record, damage: Any) -> None:
    data = json.loads(written.file.read_bytes())
    returned = damage(data)
    written.file.write_text(json.dumps(returned if isinstance(returned, list) else data), encoding="utf-8")
    with pytest.raises(DeclarationError) as caught:
        read_record(written.file)
    assert "--abort" in caught.value.next
    assert caught.value.where == str(written.file)


def test_state_cut_short_anywhere_is_an_error(written: Record) -> None:
    whole = written.file.read_bytes()
    for length in range(0, len(whole), 7):
        written.file.write_bytes(whole[:length])
        with pytest.raises(DeclarationError):
            read_record(written.file)


# -- what a command's end means ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "result", "said"),
    [
        (0, Result.GOOD, "status 0"),
        (1, Result.BAD, "status 1"),
        (2, Result.BAD, "status 2"),
        (124, Result.BAD, "status 124"),
        (125, Result.SKIPPED, "status 125"),
        (126, Result.BAD, "status 126"),
        (127, Result.BAD, "command not found"),
        (128, Result.SKIPPED, "status 128"),
        (137, Result.SKIPPED, "SIGKILL"),
        (255, Result.SKIPPED, "status 255"),
        (-9, Result.SKIPPED, "SIGKILL"),
        (-11, Result.SKIPPED, "SIGSEGV"),
    ],
)
def test_status_of_a_command(status: int, result: Result, said: str) -> None:
    got, reason = _judge(Finished(("sh",), status, b"", b"", 0.1), 5)
    assert got is result
    assert said in reason


def test_command_that_was_killed_past_its_time_says_nothing() -> None:
    got, reason = _judge(Finished(("sh",), -9, b"", b"", 5.0, timed_out=True), 5)
    assert got is Result.SKIPPED
    assert "no end after 5 s" in reason
    assert "SIGKILL" not in reason


def test_reason_of_a_failure_ends_with_the_last_line_of_what_it_printed() -> None:
    assert (
        _judge(Finished(("sh",), 3, b"one\nAssertionError: two\n", b"", 0.1), 5)[1] == "status 3: AssertionError: two"
    )
