"""The lane on a device as the engine sees it: nothing is hidden from it, nothing of it is reused, and what it proves is said."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from patchset import lanes, runtime
from patchset.errors import DeclarationError, MissingTool
from patchset.lab import Lab
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.smoke.report import CaseResult, KernelResult, SmokeResult, SourceInfo
from patchset.wheel import BuiltWheel
from patchset.workspace import Workspace

#: Stands where the laboratory's interpreter does: notes its arguments and environment, and answers as the smoke would.
INTERPRETER = """#!/bin/sh
echo "$CUDA_VISIBLE_DEVICES|$ZE_AFFINITY_MASK|$*" >> {notes}
if [ -s {answer} ]; then
    while [ "$1" != --json ]; do shift; done
    cp {answer} "$2"
    exit 0
fi
echo "{python} cannot run this lane: no xpu or cuda device (torch 9; cuda: not in this build)" >&2
exit 12
"""


def _result(lane: str, **environment: str) -> SmokeResult:
    cases = (CaseResult("one", "passed", 0.1, cold_seconds=0.5, warm_seconds=3e-5, graph="same bytes"),)
    kernel = KernelResult("expand_kernel", "vllm/a.py", "passed", "0" * 64, "", 0.5, cases)
    source = SourceInfo("wheel", "/somewhere/a.whl", "0.23.0", "1" * 64)
    return SmokeResult(lane, 5, "0.23.0", source, (kernel,), 1.5, environment)


class _Bench:
    """A laboratory whose interpreter is :data:`INTERPRETER`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.notes, self.answer = folder, folder / "notes", folder / "answer"
        python = folder / "python"
        python.write_text(INTERPRETER.format(notes=self.notes, answer=self.answer, python=python), "utf-8")
        python.chmod(0o755)
        self.lab = Lab(python, "made")

    def run(self, lane: str, **more: Any) -> bool:
        """Smoke a made wheel; True if an earlier result was reused."""
        project = cast(Project, SimpleNamespace(workspace=Workspace(self.folder)))
        recipe = cast(Recipe, SimpleNamespace(smoke_set="mission", pin=SimpleNamespace(release="0.23.0")))
        built = cast(BuiltWheel, SimpleNamespace(path=self.folder / "a.whl", sha256="2" * 64))
        return lanes.smoke_wheel(project, recipe, built, self.lab, lane, **more)[1]

    def asked(self) -> list[list[str]]:
        return [line.split("|") for line in self.notes.read_text("utf-8").splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> _Bench:
    return _Bench(tmp_path)


def test_devices_are_hidden_from_every_lane_but_that_one(bench: _Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("ZE_AFFINITY_MASK", "0.1")
    for lane in ("interpret", "device"):
        with pytest.raises(MissingTool):
            bench.run(lane)
    assert [words[:2] for words in bench.asked()] == [["", ""], ["3", "0.1"]]


def test_without_a_device_the_engine_says_what_the_smoke_said(bench: _Bench) -> None:
    with pytest.raises(MissingTool) as caught:
        bench.run("device")
    assert (
        str(caught.value.what)
        == "lane device cannot run here: no xpu or cuda device (torch 9; cuda: not in this build)"
    )
    assert caught.value.exit_code == 12


def test_a_good_result_is_reused_but_not_that_of_a_device(bench: _Bench) -> None:
    for lane, reused in (("interpret", True), ("device", False)):
        bench.answer.write_text(json.dumps(_result(lane, device="Card", kind="xpu").as_json()), "utf-8")
        assert bench.run(lane) is False
        assert bench.run(lane) is reused


def test_the_words_for_the_cache_reach_the_smoke(bench: _Bench) -> None:
    words = lanes.cache_words("", "some/where", ("device",))
    assert words == ("--primed", str(Path("some/where").absolute()))
    with pytest.raises(MissingTool):
        bench.run("device", words=words)
    assert " ".join(words) in bench.asked()[0][2]


@pytest.mark.parametrize(
    ("prime", "primed", "asked"),
    [("a", "b", ("device",)), ("a", "", ("interpret",)), ("", "b", ("interpret", "native"))],
)
def test_a_cache_needs_the_lane_and_one_purpose(prime: str, primed: str, asked: tuple[str, ...]) -> None:
    with pytest.raises(DeclarationError, match="with lane device"):
        lanes.cache_words(prime, primed, asked)
    assert lanes.cache_words("", "", asked) == ()
    assert lanes.cache_words("/c", "", ("interpret", "device")) == ("--prime", "/c")


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([_result("interpret")], {"lane device": "needs the card; nothing here ran on an Intel GPU"}),
        ([_result("interpret"), _result("device", kind="xpu", device="Arc")], {}),
        (
            [_result("device", kind="cuda", device="NVIDIA H200")],
            {"lane device on Intel": "it ran on NVIDIA H200; nothing here ran on an Intel GPU"},
        ),
    ],
)
def test_the_receipt_says_where_kernels_did_not_run(results: list[SmokeResult], said: dict[str, str]) -> None:
    recipe = cast(Recipe, SimpleNamespace(pin=SimpleNamespace(release="0.23.0")))
    built = cast(BuiltWheel, SimpleNamespace(rust=True, rust_reason=""))
    missing = runtime.not_run(recipe, built, [result.as_json() for result in results])
    assert {item.what: item.why for item in missing if item.what.startswith("lane device")} == said
