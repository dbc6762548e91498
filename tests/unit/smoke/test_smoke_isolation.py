"""What becomes of the other kernels when one takes the process with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from patchset.smoke import report, runner
from patchset.smoke.catalogue import KERNELS
from patchset.smoke.extract import Cut
from patchset.smoke.sources import Source

NAMES = ("batch_memcpy_kernel", "expand_kernel", "rejection_greedy_sample_kernel", "sample_recovered_tokens_kernel")
ROWS = {kernel.name: kernel for kernel in KERNELS}

#: A child process without torch: what happens in each kernel is said in its module. A kernel may wait for another one
#: to have been in the same process before.
CHILD = """
import json, os, signal, sys

job = json.load(open(sys.argv[1]))
events = open(job["events"], "a")
def tell(**event):
    events.write(json.dumps(event) + "\\n")
    events.flush()
with open(PLACE, "a") as place:
    place.write(" ".join(kernel["name"] for kernel in job["kernels"]) + "\\n")
tell(event="environment", environment={"python": "3"})
for at, kernel in enumerate(job["kernels"]):
    name, what = kernel["name"], BEHAVIOUR.get(kernel["name"], "good")
    if what == "before any kernel":
        os.kill(os.getpid(), signal.SIGKILL)
    tell(event="kernel", kernel=name)
    tell(event="case", kernel=name, case="one")
    if what == "dies" or what == "dies after others" and at:
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "loses the device":
        tell(event="lost", message="an illegal memory access was encountered")
        sys.exit()
    result = {"name": "one", "status": "passed", "seconds": 0.0, "message": "", "differences": []}
    tell(event="case-end", kernel=name, result=result)
    tell(event="kernel-end", kernel=name, message="", seconds=0.0, resources=[])
tell(event="end")
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run NAMES with the behaviours given; gives the result and the kernels of each child process that was started."""

    def ran(names: tuple[str, ...] = NAMES, **behaviour: str) -> tuple[report.SmokeResult, list[list[str]]]:
        place = tmp_path / "children"
        place.unlink(missing_ok=True)
        program = tmp_path / "child.py"
        by_name = {ROWS[name].name: behaviour[name.split("_")[0]] for name in names if name.split("_")[0] in behaviour}
        program.write_text(f"PLACE = {str(place)!r}\nBEHAVIOUR = {by_name!r}\n{CHILD}", "utf-8")
        monkeypatch.setattr(runner, "CHILD", (str(program),))
        monkeypatch.setattr(runner, "cut", _cut)
        source = Source("tree", tmp_path, None)
        result = runner.run(source, "0.23.0", [ROWS[name] for name in names], lane="interpret", seed=1, limit=60)
        return result, [line.split() for line in place.read_text("utf-8").splitlines()]

    return ran


def _cut(source: Source, file: str, name: str, *_: object) -> Cut:
    return Cut(name, file, 1, (), "text", "", ())


def _status(result: report.SmokeResult) -> dict[str, str]:
    return {kernel.name.split("_")[0]: kernel.status for kernel in result.kernels}


def _message(result: report.SmokeResult, start: str) -> str:
    return next(kernel.message for kernel in result.kernels if kernel.name.startswith(start))


def test_one_process_does_all_if_nothing_dies(run: Any) -> None:
    result, children = run()
    assert result.ok and children == [list(NAMES)]


def test_the_next_process_goes_on_after_the_kernel_that_died_and_only_that_one_is_run_alone(run: Any) -> None:
    result, children = run(expand="dies")
    assert children == [list(NAMES), ["expand_kernel"], list(NAMES[2:])]
    assert _status(result) == {"batch": "passed", "expand": "failed", "rejection": "passed", "sample": "passed"}
    assert "SIGSEGV" in _message(result, "expand")
    crashed = next(kernel for kernel in result.kernels if kernel.name == "expand_kernel")
    assert [case.status for case in crashed.cases] == ["failed"]


def test_a_kernel_that_dies_first_in_its_process_is_not_run_again(run: Any) -> None:
    result, children = run(batch="dies")
    assert children == [list(NAMES), list(NAMES[1:])]
    assert _status(result) == {"batch": "failed", "expand": "passed", "rejection": "passed", "sample": "passed"}


def test_every_kernel_may_die(run: Any) -> None:
    result, children = run(batch="dies", expand="dies", rejection="dies", sample="dies")
    assert set(_status(result).values()) == {"failed"} and len(children) == len(NAMES)


def test_one_that_dies_only_after_others_is_red_and_says_after_which(run: Any) -> None:
    result, children = run(rejection="dies after others")
    assert children == [list(NAMES), [NAMES[2]], list(NAMES[3:])]
    assert _status(result) == {"batch": "passed", "expand": "passed", "rejection": "failed", "sample": "passed"}
    told = _message(result, "rejection")
    assert told.startswith("the process died in it after batch_memcpy_kernel, expand_kernel, not alone: ")


def test_a_lost_device_is_told_in_its_own_words(run: Any) -> None:
    result, children = run(sample="loses the device")
    assert children == [list(NAMES), [NAMES[3]]]
    assert "the device was lost to the process: an illegal memory access" in _message(result, "sample")
    assert _status(result)["rejection"] == "passed"


def test_a_process_that_dies_before_any_kernel_is_not_tried_for_each(run: Any) -> None:
    result, children = run(batch="before any kernel")
    assert children == [list(NAMES)]
    assert set(_status(result).values()) == {"failed"}
    assert all("not finished: the process died of SIGKILL" in kernel.message for kernel in result.kernels)


@pytest.mark.parametrize("lane", ["interpret", "device"])
def test_a_race_may_not_show_where_programs_run_at_once(lane: str) -> None:
    case = report.CaseResult("mapped-reset-while-siblings-read", report.PASSED, 0.1)
    seen = runner._with_known_defect("postprocess_mamba_fused_kernel", case, "0.26.0", lane)
    assert seen.status == (report.PASSED if lane == "device" else report.FAILED)
    assert ("did not show this time" if lane == "device" else "correct the catalogue") in seen.message
    assert runner._with_known_defect("postprocess_mamba_fused_kernel", case, "0.33.0", lane) == case
