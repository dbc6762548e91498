"""Figures from raw arrivals: tokens that come together are not taken for chunks, and what cannot be computed is not."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchset.gates import figures


def request(arrivals: list[list[float]], **more: Any) -> dict[str, Any]:
    end = arrivals[-1][0] if arrivals else 1.0
    start = arrivals[0][0] if arrivals else None
    made = {"id": "a", "phase": "cold", "concurrency": 1, "jit_tainted": False, "error": None, "reasoning_tokens": 0}
    return {**made, "arrivals": arrivals, "ttft_s": start, "wall_s": end, "sent_s": 0.0, **more}


def steady(rate: float, count: int, chunk: int = 1, first: float = 0.5) -> list[list[float]]:
    return [[first, chunk], *([first + at * chunk / rate, chunk] for at in range(1, count // chunk))]


@pytest.mark.parametrize("chunk", [1, 4, 7])
def test_the_rate_is_that_of_tokens_however_they_are_packed(chunk: int) -> None:
    one = request(steady(50.0, 210, chunk))
    assert figures.beginning(one) == pytest.approx(50.0) and figures.full_output(one) == pytest.approx(50.0)


def test_the_beginning_is_the_first_hundred_after_the_first_chunk() -> None:
    slower = [[0.5, 3], *([0.5 + at / 100, 1] for at in range(1, 101)), [9.5, 50]]
    one = request(slower)
    assert figures.beginning(one) == pytest.approx(100.0)
    assert figures.full_output(one) == pytest.approx(150 / 9.0)
    assert figures.wall(one) == pytest.approx(153 / 9.5)


@pytest.mark.parametrize("arrivals", [[], [[0.5, 300]], [[0.5, 1], [1.0, 99]], [[0.5, 1], [0.5, 200]]])
def test_no_rate_of_the_beginning_where_nothing_was_timed(arrivals: list[list[float]]) -> None:
    assert figures.beginning(request(arrivals)) is None


def test_tainted_and_broken_requests_are_in_no_figure() -> None:
    rows = [
        request(steady(50.0, 120)),
        request(steady(1.0, 120), jit_tainted=True),
        request(steady(2.0, 120), error="cut"),
        request([]),
    ]
    found = figures.figures("promote", rows, "token_ids")
    assert found["requests"] == 1 and found["beginning_median"] == pytest.approx(50.0)
    assert found["beginning_stdev"] is None and "one value" in found["not_given"]["beginning_stdev"]


def test_without_a_count_of_tokens_there_is_no_rate_and_a_reason() -> None:
    found = figures.figures("promote", [request(steady(50.0, 120))], "none")
    assert found["wall_median"] is None and found["beginning_median"] is None and found["by_position"] == []
    assert "the source is none" in found["not_given"]["wall"] and found["ttft_median_s"] == 0.5


def test_the_curve_has_a_point_a_window_as_far_as_half_of_the_answers_reach() -> None:
    rows = [request(steady(50.0, 101)), request(steady(50.0, 51)), request(steady(50.0, 301))]
    found = figures.by_position(rows)
    assert [position for position, _ in found] == [25, 50, 75, 100]
    assert all(rate == pytest.approx(50.0) for _, rate in found)


def test_a_rung_is_all_its_tokens_over_the_time_that_it_took() -> None:
    rows = [request([[0.1, 1], [1.0, 9]], concurrency=2, sent_s=at) for at in (0.0, 1.0)]
    rows += [request([[0.1, 1], [0.5, 9]], concurrency=2, phase="warm", sent_s=5.0)]
    cold, warm = figures.figures("ladder", rows, "usage")["rungs"]
    assert (cold["aggregate"], cold["request_median"], cold["requests"]) == (10.0, 10.0, 2)
    assert (warm["phase"], warm["aggregate"]) == ("warm", 20.0)
    assert figures.figures("ladder", rows, "none")["rungs"][0]["aggregate"] is None


@given(st.lists(st.tuples(st.floats(0, 1e4), st.integers(0, 1000)), max_size=30))
def test_any_arrivals_give_finite_figures_or_none(pairs: list[tuple[float, int]]) -> None:
    """A stream's times may stand still or go back; whatever they do, no figure is infinite."""
    one = request([[at, count] for at, count in pairs], wall_s=1.0, ttft_s=0.5)
    found = figures.figures("promote", [one], "token_ids")
    numbers = [value for value in found.values() if isinstance(value, float)]
    assert all(math.isfinite(value) for value in numbers)
    assert all(math.isfinite(rate) and rate >= 0 for _, rate in found["by_position"])
