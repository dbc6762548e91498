"""The client against a server that lies, cuts, hangs and floods: every answer is recorded, none ends the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fake_server
import pytest
from fake_server import FAULTS, SLOW_FAULTS, Behaviour, serving

from patchset.gates import run_client, run_plan
from patchset.gates.prompts import prompts_of
from patchset.workspace import Workspace

Measure = Callable[..., dict[str, Any]]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def python() -> Path:
    return run_client.make_ready(Workspace(ROOT).environments)


@pytest.fixture
def measure(python: Path, tmp_path: Path) -> Iterator[Measure]:
    def run(url: str, steps: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        job = {"base": url, "model": "tiny", "sampling": run_plan.SAMPLING, "metrics": True, "steps": steps}
        return run_client.measure(python, {**job, "timeout": 20.0, "stall": 20.0, **more}, tmp_path, tmp_path / "log")

    yield run


def step(texts: list[str], at_once: int = 1, most: int = 8, phase: str = "cold") -> dict[str, Any]:
    requests = [
        {
            "id": f"r{number}",
            "prompt": "p",
            "messages": [{"role": "user", "content": text}],
            "max_tokens": most,
            "ignore_eos": False,
        }
        for number, text in enumerate(texts)
    ]
    return {"phase": phase, "concurrency": at_once, "jit_tainted": False, "requests": requests}


@pytest.fixture(scope="module")
def faulty(python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Fault → what was recorded of it; good requests stand among them, and ``good`` is the last."""
    folder = tmp_path_factory.mktemp("faulty")
    names = [*FAULTS, *SLOW_FAULTS, "hang at the end", "good"]
    steps = [
        step([f"fault: {name}" for name in FAULTS], 4),
        step([f"fault: {name}" for name in names[len(FAULTS) :]], 8),
    ]
    job = {"model": "tiny", "sampling": {}, "metrics": True, "steps": steps, "timeout": 2.0, "stall": 1.0}
    with serving() as fake:
        result = run_client.measure(python, {**job, "base": fake.url}, folder, folder / "log")
    assert not result["problems"]
    return dict(zip(names, result["requests"], strict=True))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no json", "no JSON"),
        ("not utf-8", "not UTF-8"),
        ("a list", "no object"),
        ("a number", "no object"),
        ("null", "no object"),
        ("empty object", "neither choices nor usage"),
        ("choices text", "no list"),
        ("choice number", "other choices"),
        ("content number", "no text"),
        ("ids text", "no list of token ids"),
        ("ids huge", "no list of token ids"),
        ("two choices", "other choices"),
        ("error inside", "engine is dead"),
        ("deep", "recursion"),
        ("long number", "cannot be read"),
        ("binary", "not UTF-8"),
        ("endless line", "more than"),
        ("odd finish", "no finish reason"),
        ("tokens negative", "'-5', which is no count"),
        ("tokens huge", "no count of tokens"),
        ("tokens text", "'12', which is no count"),
        ("tokens float", "'1.5', which is no count"),
        ("tokens true", "'True', which is no count"),
        ("tokens wrong", "8 token ids, and its usage says 3"),
        ("tokens missing", "does not say how many"),
        ("prompt missing", "does not say how many"),
        ("cached huge", "more tokens are said to be cached"),
        ("cached text", "'0', which is no count"),
        ("status 500", "status 500"),
        ("html", "text/html"),
        ("whole", "application/json"),
        ("gzip", "compressed"),
        ("redirect", "status 302"),
        ("cut before", "connection failed"),
        ("cut", "connection failed"),
        ("ends", "was cut"),
        ("no finish", "no finish reason"),
        ("no done", "was cut"),
        ("hang", "nothing came"),
        ("stalls", "nothing came"),
        ("drips", "no end after 2 s"),
    ],
)
def test_each_fault_is_recorded_in_words_and_counts_as_no_answer(
    faulty: dict[str, dict[str, Any]], fault: str, words: str
) -> None:
    row = faulty[fault]
    assert words in row["error"]
    assert "Traceback" not in row["error"] and "\n" not in row["error"] and len(row["error"]) < 400
    held = {
        name: row[name] for name in ("completion_tokens", "cached_tokens", "output_sha256", "wall_s", "finish_reason")
    }
    assert set(held.values()) == {None}
    assert row["arrivals"] == [] and row["text"] is None


def test_every_fault_of_the_fake_is_looked_at(faulty: dict[str, dict[str, Any]]) -> None:
    fine = {name for name, row in faulty.items() if row["error"] is None}
    assert fine == {"good", "hang at the end", "no usage"}


def test_a_server_that_does_not_end_after_its_last_word_has_answered(faulty: dict[str, dict[str, Any]]) -> None:
    row = faulty["hang at the end"]
    assert (row["completion_tokens"], row["wall_s"] < 1.0) == (8, True)


def test_running_usage_stands_in_for_a_last_one_and_says_nothing_of_the_cache(
    faulty: dict[str, dict[str, Any]],
) -> None:
    row = faulty["no usage"]
    assert (row["completion_tokens"], row["cached_tokens"]) == (8, None)


def test_a_good_answer_is_recorded_whole(measure: Measure) -> None:
    with serving(Behaviour(group=3)) as fake:
        result = measure(fake.url, [step(["hello", "hello"])])
        body = fake.asked[0]
    first, second = result["requests"]
    assert (result["timing"]["source"], result["health"], result["version"]) == ("token_ids", 200, "0.30.0")
    assert [one["id"] for one in result["models"]] == ["tiny"]
    assert [tokens for _, tokens in first["arrivals"]] == [3, 3, 2]
    assert first["arrivals"] == sorted(first["arrivals"])
    assert 0 < first["ttft_s"] <= first["arrivals"][-1][0] <= first["wall_s"] + 1e-6
    assert first["output_sha256"] == second["output_sha256"] and first["prompt_sha256"] == second["prompt_sha256"]
    assert first["sent_s"] < second["sent_s"]
    assert first["text"] == {"characters": 40, "visible": 32, "control": 0, "longest_run": 1, "distinct": 8}
    assert (first["cached_tokens"], first["reasoning_tokens"]) == (0, 0)
    assert (body["temperature"], body["seed"], body["max_tokens"], body["stream"]) == (0.0, 0, 8, True)
    assert "ignore_eos" not in body
    assert result["metrics"]["generation_tokens"] == 16.0 and result["metrics"]["prefix_cache_hits"] == 0.0


def test_warm_answers_say_so_and_the_counters_too(measure: Measure) -> None:
    with serving(Behaviour(caching=True)) as fake:
        result = measure(fake.url, [step(["a long prompt " * 9] * 2)])
    cold, warm = result["requests"]
    assert cold["cached_tokens"] == 0 < warm["cached_tokens"] == result["metrics"]["prefix_cache_hits"]


def test_a_server_without_details_leaves_null_not_zero(measure: Measure) -> None:
    with serving(Behaviour(details=False)) as fake:
        (row,) = measure(fake.url, [step(["hello"])])["requests"]
    assert (row["error"], row["cached_tokens"]) == (None, None)


@pytest.mark.parametrize(
    ("how", "source", "groups"),
    [
        (Behaviour(ids=False, group=2), "usage", [2, 2, 2, 2]),
        (Behaviour(refuses=("return_token_ids",), group=2), "usage", [2, 2, 2, 2]),
        (Behaviour(refuses=("return_token_ids", "continuous_usage_stats")), "none", []),
        (Behaviour(ids=False, continuous=False), "none", []),
    ],
    ids=["ignored", "refused", "both refused", "both ignored"],
)
def test_the_source_of_timing_is_named_and_chunks_are_never_counted(
    measure: Measure, how: Behaviour, source: str, groups: list[int]
) -> None:
    with serving(how) as fake:
        result = measure(fake.url, [step(["one", "two"])])
    assert result["timing"]["source"] == source
    for row in result["requests"]:
        assert (row["error"], row["completion_tokens"]) == (None, 8)
        assert [tokens for _, tokens in row["arrivals"]] == groups


def test_a_refusal_that_has_another_reason_costs_no_token_ids(measure: Measure) -> None:
    with serving(Behaviour(refuses=("max_tokens",))) as fake:
        refused = measure(fake.url, [step(["one"])])["requests"][0]
        assert (refused["status"], len(fake.asked)) == (400, 3)
        fake.behaviour.refuses = ("ignore_eos",)
        odd = step(["two"])
        odd["requests"][0]["ignore_eos"] = True
        result = measure(fake.url, [odd, step(["three"])])
    assert "max_tokens" in refused["error"]
    assert [row["status"] for row in result["requests"]] == [400, 200]
    assert result["timing"]["source"] == "token_ids"


@pytest.mark.parametrize("ids", [True, False], ids=["by ids", "by usage"])
def test_reasoning_is_counted_apart(measure: Measure, ids: bool) -> None:
    with serving(Behaviour(reasoning=4, group=2, ids=ids)) as fake:
        (row,) = measure(fake.url, [step(["hello"])])["requests"]
    assert (row["completion_tokens"], row["reasoning_tokens"]) == (8, 4)
    assert row["ttft_s"] == pytest.approx(row["arrivals"][0][0], abs=1e-5)


def test_the_servers_own_count_of_reasoning_goes_first(measure: Measure) -> None:
    with serving(Behaviour(reasoning=3, group=2, counts_reasoning=True)) as fake:
        (row,) = measure(fake.url, [step(["hello"])])["requests"]
    assert row["reasoning_tokens"] == 3


def test_floods_and_collapse_can_be_read_from_the_record(measure: Measure) -> None:
    with serving(Behaviour(control=True, collapse=True)) as fake:
        (row,) = measure(fake.url, [step(["hello"])])["requests"]
    assert row["text"] == {"characters": 16, "visible": 0, "control": 16, "longest_run": 8, "distinct": 1}


def test_as_many_at_once_as_was_said(measure: Measure) -> None:
    with serving(Behaviour(pause=0.02)) as fake:
        rows = measure(fake.url, [step([f"n{number}" for number in range(8)], 4)])["requests"]
        assert fake.most == 4
    assert {(row["concurrency"], row["error"]) for row in rows} == {(4, None)}


def test_nobody_there_is_recorded_too(measure: Measure) -> None:
    with serving() as fake:
        url = fake.url
    result = measure(url, [step(["hello"])])
    assert (result["health"], result["models"], result["version"], result["metrics"]) == (None, None, None, None)
    assert "connection failed" in result["requests"][0]["error"]
    assert [problem.split(":")[0] for problem in result["problems"]] == [
        "/health",
        "/v1/models",
        "/version",
        "/metrics",
    ]


@pytest.mark.parametrize(
    ("path", "answer", "words"),
    [
        ("/metrics", (200, "text/plain", b"vllm:generation_tokens_total{ 1"), "not Prometheus"),
        ("/metrics", (200, "text/plain", b"vllm:generation_tokens_total NaN"), "counts nothing"),
        ("/metrics", (200, "text/plain", b"vllm:generation_tokens_total -1"), "counts nothing"),
        ("/metrics", (200, "text/plain", b"vllm:generation_tokens_total 1\nvllm:generation_tokens_total 2"), "twice"),
        ("/metrics", (200, "text/plain", b"\xff\xfe"), "not Prometheus"),
        ("/metrics", (404, "text/plain", b""), "status 404"),
        ("/metrics", (200, "text/plain", b"x" * (17 * 1024**2)), "more than"),
        ("/v1/models", (200, "application/json", b'{"data": 5}'), "no list of models"),
        ("/v1/models", (200, "application/json", b'{"data": [{"id": 5}]}'), "without an id"),
        ("/v1/models", (200, "application/json", b"[" * 100_000), "no JSON"),
        ("/version", (200, "application/json", b'{"version": "\\u001b[2J"}'), "no version"),
        ("/version", (200, "application/json", b"<html>"), "no JSON"),
        ("/version", (200, "hang", b""), "no answer in 2 s"),
    ],
)
def test_odd_answers_to_plain_questions_are_told(
    python: Path, path: str, answer: tuple[int, str, bytes], words: str
) -> None:
    assert words in odd_answers(python)[path, answer]


_ODD: dict[Any, str] = {}


def odd_answers(python: Path) -> dict[Any, str]:
    """All of them by one process, which is what takes time."""
    if not _ODD:
        marks = test_odd_answers_to_plain_questions_are_told.pytestmark  # type: ignore[attr-defined]
        cases = [(path, answer) for path, answer, _ in marks[0].args[1]]
        for case, said in zip(cases, fake_server.plain_problems(python, ROOT, cases), strict=True):
            _ODD[case] = said
    return _ODD


def test_the_key_goes_to_the_server_and_nowhere_else(
    measure: Measure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "s3cret-of-mine")
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving() as fake:
        result = measure(fake.url, [step(["hello"])])
        assert fake.keys == ["Bearer s3cret-of-mine"]
    assert "s3cret" not in json.dumps(result)
    assert not [path for path in tmp_path.iterdir() if b"s3cret" in path.read_bytes()]


def test_the_plans_requests_run(measure: Measure) -> None:
    chosen = run_plan.with_most(prompts_of("ladder"), 4)
    with serving(Behaviour(caching=True)) as fake:
        result = measure(fake.url, run_plan.steps_of("ladder", chosen, (1, 2)))
    rows = result["requests"]
    assert [row["jit_tainted"] for row in rows].count(True) == 3
    assert all(row["cached_tokens"] == 0 for row in rows if row["phase"] == "cold")
    assert all(row["cached_tokens"] > 0 for row in rows if row["phase"] == "warm")
    assert fake.asked[1]["ignore_eos"] is True and "ignore_eos" not in fake.asked[0]
