"""Results of gates are judged by their raw data, line by line: a good and a bad one written by hand, and the good one spoilt in one place."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from patchset.console import Console
from patchset.errors import GateError
from patchset.gates import checks, document, run_gate

RESULTS = Path(__file__).with_name("results")
GOOD, BAD = RESULTS / "promote-good.json", RESULTS / "promote-bad.json"
Document = dict[str, Any]


@pytest.fixture
def good() -> Document:
    return json.loads(GOOD.read_bytes())


def failed(judged: Document) -> dict[str, str]:
    assert (judged["verdict"] == "passed") == all(one["verdict"] == "passed" for one in judged["checks"])
    return {one["name"]: one["reason"] for one in judged["checks"] if one["verdict"] != "passed"}


def test_a_good_result_passes_every_line() -> None:
    judged = document.checked(GOOD)
    assert failed(judged) == {} and judged["verdict"] == "passed"
    assert [one["name"] for one in judged["checks"]] == [name for name, _ in checks.KINDS["promote"]]


def test_a_bad_result_is_judged_field_by_field() -> None:
    assert {name: reason.partition(":")[0] for name, reason in failed(document.checked(BAD)).items()} == {
        "model revision": "model.revision is missing",
        "receipt hash": "server.receipt_sha256 was not recorded",
        "served version is the runtime's": "the runtime is 0.23.0+xpu.b70.949a55ee, and the server says that it is 0.23.0",
        "process is up": "the server's process was gone at the end of the run",
        "no fallback in the log": "1 lines in the server's log say that something else runs than was asked for",
        "no flood of control characters": "request incident",
        "no collapse to one token": "request incident",
        "cached_tokens is there": "request minutes",
        "cached_tokens is zero": "request review",
        "no hit in /metrics": "/metrics",
        "output hashes": "request lesson",
        "usage agrees with the stream": "request lesson",
        "/metrics agree with the answers": "prompt_tokens",
        "/metrics agree about the cache": "the answers say that 288 tokens were cached, /metrics says 304",
        "timed by token ids": "timing.source is usage",
        "first run set apart": "there is no such request",
        "client kept up": "request minutes",
        "figures are those of the raw data": "not so",
    }


def _paths(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every field of the document; of lists the first item's."""
    found = [place] if place else []
    if isinstance(value, dict):
        found += [path for key, inner in value.items() for path in _paths(inner, (*place, key))]
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        found += _paths(value[0], (*place, 0))
    return found


def _spoilt(value: Document, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Document:
    made = copy.deepcopy(value)
    inner: Any = made
    for part in path[:-1]:
        inner = inner[part]
    change(inner, path[-1])
    return made


#: Fields that nothing follows from: what they tell stands beside what is judged.
TOLD = {
    "problems", "reason", "bytes", "pid", "before", "after", "triton-xpu", "clock", "python", "seed", "max_tokens", "set", "tokens",
    "ZE_AFFINITY_MASK", "prefix_cache_queries", "text_head", "kind",
}  # fmt: skip


def test_a_field_that_is_missing_or_of_another_kind_never_passes(good: Document) -> None:
    """Each in turn: gone, and of a type that no field has. Its line fails, and the judge does not fall over."""

    def gone(inner: Any, key: Any) -> None:
        del inner[key]

    def other(inner: Any, key: Any) -> None:
        inner[key] = [[]]

    wanted = [path for path in _paths(good) if path[-1] not in TOLD and path[-1] != 0]
    assert len(wanted) > 50
    for path in wanted:
        for change in (gone, other):
            assert document.judged(_spoilt(good, path, change))["verdict"] == "failed", (path, change.__name__)


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        (("schema",), 2, "schema"),
        (("made",), "yesterday", "made"),
        (("server", "models"), ["other"], "model is served"),
        (("server", "health"), 503, "process is up"),
        (("requests", 2, "status"), 500, "every request was answered"),
        (("requests", 2, "error"), "cut", "every request was answered"),
        (("requests", 2, "finish_reason"), "abort", "every request was answered"),
        (("requests", 2, "text", "visible"), 0, "visible text"),
        (("requests", 2, "text", "distinct"), 1, "no collapse to one token"),
        (("requests", 2, "text", "longest_run"), 61, "no collapse to one token"),
        (("requests", 2, "text", "control"), 201, "no flood of control characters"),
        (("requests", 2, "prompt"), "minutes", "each prompt once"),
        (("requests", 2, "concurrency"), 2, "one after the other, cold"),
        (("requests", 2, "phase"), "warm", "one after the other, cold"),
        (("requests", 2, "cached_tokens"), 16, "cached_tokens is zero"),
        (("requests", 2, "completion_tokens"), 4, "usage agrees with the stream"),
        (("requests", 2, "client_lag_s"), 0.9, "client kept up"),
        (("metrics", "prefix_cache_hits"), 16.0, "no hit in /metrics"),
        (("metrics", "generation_tokens"), 605 * 1.06, "/metrics agree with the answers"),
        (("metrics", "prompt_tokens"), 0.0, "/metrics agree with the answers"),
        (("server", "runtime"), "0.23.0+xpu.b70.0a0a0a0a", "served version is the runtime's"),
        (("timing", "source"), "none", "rates are given"),
        (("prompts", "sha256"), "ABC", "prompts hash"),
    ],
)
def test_one_thing_wrong_fails_its_own_line(good: Document, path: tuple[Any, ...], value: Any, name: str) -> None:
    def put(inner: Any, key: Any) -> None:
        inner[key] = value

    assert name in failed(document.judged(_spoilt(good, path, put)))


def test_counters_within_five_per_cent_agree(good: Document) -> None:
    good["metrics"]["generation_tokens"] = 605 * 1.04
    assert failed(document.judged(good)) == {}


def test_too_few_long_answers_give_no_median(good: Document) -> None:
    for one in good["requests"][1:]:
        one["arrivals"] = one["arrivals"][:2]
    told = failed(document.judged(good))
    assert (
        "0 answers have more than 100 tokens" in told["enough long answers"] and "beginning" in told["rates are given"]
    )


def test_a_counter_that_could_not_be_asked_says_why(good: Document) -> None:
    good["metrics"], good["problems"] = None, ["/metrics: status 404"]
    assert failed(document.judged(good))["no hit in /metrics"] == "metrics was not recorded: /metrics: status 404"


def test_figures_that_the_raw_data_do_not_give_are_refused(good: Document, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    made = document.judged(good)
    file.write_bytes(document.encoded(made))
    assert document.checked(file) == {**made, "checks": [*made["checks"], document.checked(file)["checks"][-1]]}
    made["figures"]["wall_median"] *= 1.000001
    made["verdict"], made["checks"] = "passed", []
    file.write_bytes(document.encoded(made))
    assert failed(document.checked(file)) == {"figures are those of the raw data": "not so: figures.wall_median"}


def test_the_document_is_what_the_schema_says(good: Document) -> None:
    schema = json.loads(document.SCHEMA.read_bytes())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    validator.validate(json.loads(document.encoded(document.judged(good))))
    del good["requests"][0]["ttft_s"]
    assert not validator.is_valid(json.loads(document.encoded(document.judged(good))))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"kind": "gate"}',
        b'{"kind": "promote", "kind": "promote"}',
        b'{"kind": NaN}',
        b"\xff",
        b"[" * 9999,
    ],
)
def test_what_is_no_result_is_refused(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(data)
    with pytest.raises(GateError) as refused:
        document.checked(file)
    assert refused.value.where == str(file) and refused.value.next


def test_a_file_that_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(GateError):
            document.checked(path)


@pytest.mark.parametrize("kind", checks.KINDS)
def test_an_empty_result_of_any_gate_fails_line_by_line(kind: str) -> None:
    judged = document.judged({"kind": kind})
    lines = [one["name"] for one in judged["checks"]]
    assert lines == [name for name, _ in checks.KINDS[kind]] and judged["verdict"] == "failed"
    assert all(one["verdict"] == "failed" and one["reason"] for one in judged["checks"])


@pytest.mark.parametrize(
    "text", ['{"kind": "promote"}', '{"kind": "ladder", "model": 7, "problems": 3, "timing": [], "figures": [1]}']
)
def test_a_result_of_anybody_is_shown_and_fails_with_its_first_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "result.json"
    file.write_text(text, "utf-8")
    with pytest.raises(GateError, match="schema is missing"):
        run_gate.check(str(file), Console(), html=str(tmp_path / "page.html"))
    assert "of (not recorded)" in capsys.readouterr().out
    assert "Not passed" in (tmp_path / "page.html").read_text("utf-8")


def test_the_good_result_is_shown_with_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    run_gate.check(str(GOOD), Console())
    assert "tokens 1 to 100 after the first chunk" in capsys.readouterr().out
    run_gate.compare(str(GOOD), str(GOOD), Console())
    assert "not told apart from 1" in capsys.readouterr().out
