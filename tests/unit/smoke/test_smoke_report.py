"""Results: what counts as good, JSON there and back, the lines for a person."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from patchset.smoke import report
from patchset.smoke.report import CaseResult, Difference, KernelResult, SmokeResult, SourceInfo
from tests.unit.smoke.support import validator

GOOD = KernelResult(
    "a_kernel", "vllm/a.py", report.PASSED, "0" * 64, "", 0.5, (CaseResult("one", report.PASSED, 0.25),)
)
BAD_CASE = CaseResult(
    "two", report.FAILED, 0.1, "the result differs\ntrace", (Difference("out", "1 of 3 wrong", 1, ((2,),), 4.0),)
)
BAD = KernelResult("b_kernel", "vllm/a.py", report.FAILED, "1" * 64, "", 0.5, (GOOD.cases[0], BAD_CASE))
MISSING = KernelResult("c_kernel", "vllm/a.py", report.MISSING, message="must be there")
ABSENT = KernelResult("d_kernel", "vllm/a.py", report.ABSENT)


def _result(*kernels: KernelResult) -> SmokeResult:
    versions = {"python": "3.11.2", "torch": "2.13.0", "triton": "3.8.0", "numpy": "2.4.6"}
    return SmokeResult("interpret", 5, "0.23.0", SourceInfo("tree", "/t", None, None), kernels, 1.5, versions)


@pytest.mark.parametrize(
    ("kernels", "ok"),
    [
        ((GOOD,), True),
        ((GOOD, ABSENT), True),
        ((GOOD, BAD), False),
        ((GOOD, MISSING), False),
        ((ABSENT,), False),
        ((), False),
    ],
)
def test_green_needs_a_kernel_that_ran_and_none_that_did_not(kernels: tuple[KernelResult, ...], ok: bool) -> None:
    assert _result(*kernels).ok is ok


def test_json_there_and_back_and_valid() -> None:
    result = _result(GOOD, BAD, MISSING, ABSENT)
    data = json.loads(json.dumps(result.as_json()))
    validator().validate(data)
    assert report.from_json(data) == result
    assert data["summary"] == {
        "ok": False,
        "kernels": {"passed": 1, "failed": 1, "missing": 1, "not-in-release": 1},
        "cases": {"passed": 2, "failed": 1, "known-defect": 0},
    }


def test_times_are_in_the_line_and_in_the_json_where_a_lane_has_them_and_nowhere_else() -> None:
    slow = CaseResult("one", report.PASSED, 0.9, "", (), 0.812, 31e-6, 12e-6, "same bytes")
    quick = CaseResult("two", report.PASSED, 0.1, "", (), 0.002, 33e-6, None, "not run: its grid is empty")
    timed = replace(GOOD, cases=(slow, quick))
    assert report.times(timed) == "first 812 ms, warm 32 us, graph 12 us" and report.times(GOOD) == ""
    assert report.kernel_line(timed).endswith("passed  first 812 ms, warm 32 us, graph 12 us")
    result = replace(_result(timed, BAD), lane="device")
    data = json.loads(json.dumps(result.as_json()))
    validator().validate(data)
    assert report.from_json(data) == result
    assert set(data["kernels"][0]["cases"][1]) - set(data["kernels"][1]["cases"][0]) == {
        "cold_seconds",
        "warm_seconds",
        "graph",
    }


def test_the_schema_refuses_a_pass_that_is_none() -> None:
    for broken in (
        replace(GOOD, cases=()),
        replace(GOOD, sha256=None),
        replace(GOOD, cases=BAD.cases),
        replace(GOOD, status="skipped"),
    ):
        with pytest.raises(jsonschema.ValidationError):
            validator().validate(_result(broken).as_json())


def test_another_schema_or_field_is_refused() -> None:
    data = _result(GOOD).as_json()
    for broken in ({**data, "schema": 2}, {**data, "more": 1}, {**data, "kernels": [{"name": "x"}]}):
        with pytest.raises(ValueError):
            report.from_json(broken)


def test_lines_say_what_is_wrong() -> None:
    assert report.kernel_line(GOOD).split() == ["a_kernel", "1/1", "cases", "0.50", "s", "passed"]
    assert "FAILED" in report.kernel_line(BAD) and "MISSING" in report.kernel_line(MISSING)
    assert report.failure_lines(BAD) == [
        "    case two: the result differs",
        "      out: 1 of 3 wrong at [2], largest difference 4",
    ]
    assert report.failure_lines(MISSING) == ["    must be there"]
    assert report.summary_line(_result(GOOD, BAD, MISSING, ABSENT)) == (
        "kernels: 1 passed, 1 failed, 1 missing, 1 not in this release; cases: 3, 1 failed"
    )
