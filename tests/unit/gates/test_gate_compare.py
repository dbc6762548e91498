"""Two results beside each other: a ratio with an interval where one thing differs, and a refusal where more does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from patchset.errors import GateError
from patchset.gates import compare, document, page

GOOD = Path(__file__).with_name("results") / "promote-good.json"
RUNTIME = "0.23.0+xpu.b70.0a0a0a0a"


def result(factor: float = 1.0, **changes: Any) -> dict[str, Any]:
    """The good result, with every time *factor* times as long, and values at dotted places."""
    made = json.loads(GOOD.read_bytes())
    for one in made["requests"]:
        one["arrivals"] = [[at * factor, count] for at, count in one["arrivals"]]
        one["ttft_s"], one["wall_s"] = one["ttft_s"] * factor, one["wall_s"] * factor
    for path, value in changes.items():
        *place, last = path.split("__")
        inner = made
        for part in place:
            inner = inner[part]
        inner[last] = value
    return document.judged(made)


def other_runtime(factor: float = 1.0) -> dict[str, Any]:
    versions = {**result()["server"]["versions"], "vllm": RUNTIME}
    return result(factor, server__runtime=RUNTIME, server__versions=versions)


def test_a_run_of_half_the_time_has_twice_the_rate() -> None:
    found = compare.compare(result(), other_runtime(0.5), "runtime")
    ratios = {row["name"]: row["ratio"] for row in found["figures"]}
    assert ratios.pop("time to the first token") == pytest.approx(0.5)
    assert len(ratios) == 3 and all(ratio == pytest.approx(2.0) for ratio in ratios.values())
    assert found == compare.compare(result(), other_runtime(0.5), "runtime")
    assert all("not told apart" not in row[2] for row in compare.rows(found))


def test_the_same_twice_is_not_told_apart_from_one() -> None:
    found = compare.compare(result(), result())
    assert all(row["low"] <= 1 <= row["high"] for row in found["figures"])
    assert all("not told apart from 1" in row[2] for row in compare.rows(found))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model__revision": "other"}, "model"),
        ({"flags": ["--enforce-eager"]}, "flags"),
        ({"prompts__sha256": "0" * 64}, "prompts"),
        ({"server__environment": {"ZE_AFFINITY_MASK": "1"}}, "environment"),
        ({"client": {"library": "openai 4.0.0", "python": "3.12.3"}}, "client"),
    ],
)
def test_a_second_difference_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(GateError, match=f"they differ in {named}") as refused:
        compare.compare(result(), result(**changes))
    assert (f"--variable {named}" in refused.value.next) == (named in compare.VARIABLES)
    versions = {**result()["server"]["versions"], "vllm": RUNTIME}
    both = result(**changes, server__runtime=RUNTIME, server__versions=versions)
    with pytest.raises(GateError, match=f"they differ in {named}, beside runtime"):
        compare.compare(result(), both, "runtime")


def test_where_a_server_listens_is_no_difference() -> None:
    assert not compare.compare(result(), result(flags=["--port=9000"]))["differs"]


def test_what_is_not_passed_or_of_another_gate_is_not_compared() -> None:
    with pytest.raises(GateError, match="the second is not passed"):
        compare.compare(result(), result(server__health=500))
    with pytest.raises(GateError, match="cannot be compared"):
        compare.compare(result(), result(kind="baseline"))
    with pytest.raises(GateError, match="there is model"):
        compare.compare(result(), result(), "weather")


def test_pages_are_whole_and_no_text_of_a_result_acts() -> None:
    hostile = '<script>alert(1)</script><img src=x onerror="x">\u202e'
    judged = result(model__id=hostile, server__command=[hostile], server__models=[hostile], endpoint=hostile)
    judged["requests"][1]["error"] = hostile
    for text in (
        page.page(judged),
        page.comparison(compare.compare(result(model__id=hostile, server__models=[hostile]), result(), "model")),
    ):
        assert "<script" not in text and "<img" not in text and "\u202e" not in text
        assert "alert(1)" in text and "default-src &#39;none&#39;" in text
        assert not re.search(r'(?:src|href)="(?!data:,")', text)


@pytest.mark.parametrize("kind", ["bringup", "baseline", "promote", "ladder"])
def test_a_page_of_an_empty_result_says_what_is_missing(kind: str) -> None:
    text = page.page(document.judged({"kind": kind, "model": 7, "requests": [3], "server": []}))
    assert "Not passed" in text and "not recorded" in text
