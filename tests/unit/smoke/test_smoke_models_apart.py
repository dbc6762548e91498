"""A call in a process of its own, and what a run makes of what was not tried."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from patchset import lanes
from patchset.errors import DeclarationError, SmokeError
from patchset.resolve import Project
from patchset.smoke import report
from patchset.smoke.catalogue import KNOWN_DEFECTS, select
from patchset.smoke.report import CaseResult, KernelResult, SmokeResult, SourceInfo, from_json
from patchset.smoke.runner import _with_known_defect
from patchset.smoke.toolchains import apart


def test_what_was_called_comes_back_whatever_its_size() -> None:
    assert apart.call(lambda: b"x" * 3_000_000, 60) == b"x" * 3_000_000


def test_what_it_raises_comes_back_as_text_of_its_cause() -> None:
    def outer() -> None:
        try:
            raise KeyError("name")
        except KeyError as error:
            raise RuntimeError("no more than that") from error

    with pytest.raises(apart.Refused, match="KeyError: 'name'"):
        apart.call(outer, 60)


def test_a_signal_and_a_silent_end_are_told() -> None:
    with pytest.raises(apart.Died, match="died of SIGKILL"):
        apart.call(lambda: os.kill(os.getpid(), signal.SIGKILL), 60)
    with pytest.raises(apart.Died, match="ended with status 3"):
        apart.call(lambda: os._exit(3), 60)


def test_what_does_not_end_is_ended() -> None:
    with pytest.raises(apart.Died, match=r"did not come to an end in 0\.2 s"):
        apart.call(lambda: time.sleep(600), 0.2)


def _result(*kernels: KernelResult) -> SmokeResult:
    return SmokeResult("native", 1, "0.33.0", SourceInfo("tree", "t", None, None), kernels, 1.0, {})


def _kernel(name: str, status: str, *cases: CaseResult) -> KernelResult:
    return KernelResult(name, "f.py", status, "0" * 64, cases[0].message if cases else "", 0.1, cases)


def test_what_was_not_tried_is_neither_a_pass_nor_red_and_is_told() -> None:
    untried = CaseResult("b", report.NOT_RUN, 0.1, "an older compiler does not take it")
    whole = _kernel("one", report.NOT_RUN, untried)
    part = _kernel("two", report.PASSED, CaseResult("a", report.PASSED, 0.1), untried)
    assert not _result(whole).ok and _result(whole, part).ok
    told = _result(whole, part).as_json()
    assert told["summary"]["kernels"]["not-run"] == 1 and told["summary"]["cases"]["not-run"] == 2
    assert from_json(told) == _result(whole, part)
    assert "not run: an older compiler does not take it" in report.kernel_line(whole)
    assert "(1 not run: an older compiler does not take it)" in report.kernel_line(part)
    noted = _kernel("three", report.PASSED, CaseResult("a", report.PASSED, 0.1, "compiled without block reads"))
    assert "(1 noted: compiled without block reads)" in report.kernel_line(noted)
    assert "2 not run (1 kernels in none)" in report.summary_line(_result(whole, part))
    assert "not-run" not in _result(_kernel("two", report.PASSED, part.cases[0])).as_json()["summary"]["kernels"]


def test_known_to_be_unfit_is_not_red_where_it_is_compiled_and_keeps_the_advice() -> None:
    known = next(one for one in KNOWN_DEFECTS if one.compiled)
    failed = CaseResult(known.case, report.FAILED, 0.1, "a thread would need 524288 bytes")
    seen = _with_known_defect(known.kernel, failed, "0.23.0", "native")
    assert seen.status == report.KNOWN_DEFECT
    assert known.reference in seen.message and seen.message.endswith("a thread would need 524288 bytes")
    assert _with_known_defect(known.kernel, failed, "0.23.0", "spirv") == failed
    other = CaseResult("another", report.FAILED, 0.1, "unfit")
    assert _with_known_defect(known.kernel, other, "0.23.0", "native") == other
    good = _with_known_defect(known.kernel, CaseResult(known.case, report.PASSED, 0.1), "0.23.0", "native")
    assert good.status == report.FAILED and "correct the catalogue" in good.message
    # Live, on whichever device: there a B70 refuses it, and another may not.
    assert _with_known_defect(known.kernel, failed, "0.23.0", "device").status == report.KNOWN_DEFECT
    passed = CaseResult(known.case, report.PASSED, 0.1)
    assert _with_known_defect(known.kernel, passed, "0.23.0", "device") == passed


def test_a_set_is_chosen_by_name_for_the_lanes_that_it_has_kernels_for(project: Project) -> None:
    recipe = project.recipe("b70-0.23")
    assert lanes.of_set(recipe, "", ("interpret",)) is recipe
    both = lanes.of_set(recipe, "mission,models", ("device", "interpret"))
    assert both.smoke_set == "mission,models"
    models = lanes.of_set(recipe, "models", ("native",))
    assert models.smoke_set == "models" and recipe.smoke_set == "mission"
    with pytest.raises(DeclarationError, match="no set 'model'"):
        lanes.of_set(recipe, "model", ("native",))
    with pytest.raises(DeclarationError, match="no kernel for lane interpret") as refused:
        lanes.of_set(recipe, "models", ("native", "interpret"))
    assert refused.value.next == "./inv smoke --lane native --set models"


def test_a_lane_must_tell_of_the_kernels_that_are_for_it(project: Project) -> None:
    models = lanes.of_set(project.recipe("b70-0.23"), "models", ("native",))
    told = [{"name": kernel.name, "status": "passed"} for kernel in select("models")]
    lanes.require_smoke({"lane": "native", "summary": {"ok": True}, "kernels": told}, Path("a.whl"), models)
    with pytest.raises(SmokeError, match=f"says nothing of {told[0]['name']}"):
        lanes.require_smoke({"lane": "native", "summary": {"ok": True}, "kernels": told[1:]}, Path("a.whl"), models)
