"""Planted faults in a run: seen, not seen, harmful to the process; and how the result tells it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchset.errors import SmokeError
from patchset.lanes import require_smoke
from patchset.smoke import mutants, report
from patchset.smoke.catalogue import REJECTION_FILE
from patchset.smoke.extract import Cut
from patchset.smoke.mutants import Planted
from patchset.smoke.mutate import Mutant, apply, line_of
from patchset.smoke.report import CaseResult, KernelResult, Mutants, SmokeResult, SourceInfo, Survivor
from patchset.smoke.sources import tree_source
from tests.unit.smoke.support import smoke, validator

#: A kernel of ours with the contract of vLLM's and the two expressions that faults are planted in. The fault in the first
#: changes nothing that anyone sees; that in the second writes far from everything.
EXPAND = """
from vllm.triton_utils import tl, triton


@triton.jit(do_not_specialize=["replace_from", "replace_to"])
def expand_kernel(output_ptr, input_ptr, cu_num_tokens_ptr, replace_from, replace_to, MAX_NUM_TOKENS: tl.constexpr):
    request = tl.program_id(0)
    end = tl.load(cu_num_tokens_ptr + request)
    start = tl.load(cu_num_tokens_ptr + request - 1, mask=request > 0, other=0)
    num_tokens = end - start
    src_val = tl.load(input_ptr + request)
    unused = src_val == replace_from
    src_val = tl.where(replace_from == src_val, replace_to, src_val)
    offset = tl.arange(0, MAX_NUM_TOKENS)
    far = (offset == num_tokens).to(tl.int64) * (1 << 40)
    tl.store(output_ptr + start + offset + far, src_val, mask=offset < num_tokens)
"""
UNSEEN_FAULT = "expand_kernel: src_val == replace_from → src_val != replace_from"


def test_a_fault_that_kills_its_process_is_seen_and_one_that_no_case_sees_is_red(
    lab_python: Path, tmp_path: Path
) -> None:
    path = tmp_path / "tree" / REJECTION_FILE
    path.parent.mkdir(parents=True)
    path.write_text(EXPAND, "utf-8")
    words = ("--release", "0.23.0", "--kernel", "expand_kernel", "--seed", "3", "--mutants")
    ran = smoke(lab_python, tmp_path, "--tree", tmp_path / "tree", *words)
    assert ran.status == 10 and not ran.data["summary"]["ok"], ran.output + ran.errors
    kernel = ran.kernel("expand_kernel")
    line = EXPAND.splitlines().index("    unused = src_val == replace_from") + 1
    assert kernel["status"] == "passed"
    assert kernel["mutants"] == {"made": 2, "caught": 1, "survivors": [{"what": UNSEEN_FAULT, "line": line}]}
    assert "passed  mutants 1/2" in ran.output and "mutants: 1 of 2 caught" in ran.output
    assert f"NOT SEEN by any case: {REJECTION_FILE}:{line}: {UNSEEN_FAULT}" in ran.output


FAULTS = tuple(Planted(Mutant("k", str(at), "0"), at + 1, "") for at in range(3))
START, END = {"event": "mutant"}, {"event": "mutant-end", "caught": "a case", "message": ""}
UNSEEN = {**END, "caught": None}


@pytest.mark.parametrize(
    ("children", "started", "survivors"),
    [
        ([[START, END] * 3], [3], ()),
        ([[START, END, START, UNSEEN, START, END]], [3], ((1, ""),)),
        # The second one ends or harms the process: it starts the next, and what it does there is its own doing.
        ([[START, END, START], [START], [START, END]], [3, 2, 1], ()),
        ([[START, END, START], [START, UNSEEN, START, END]], [3, 2], ((1, ""),)),
        ([[START], [START, END] * 2], [3, 2], ()),
        ([[START, {**UNSEEN, "message": "TypeError: x"}] * 3], [3], tuple((at, "only refused") for at in range(3))),
        # No process came as far as a fault: nothing was proved.
        ([[]], [3], tuple((at, "not run: the process ended with status 1") for at in range(3))),
    ],
)
def test_each_fault_is_settled_by_a_process_that_nothing_harmed_before(
    children: list[list[dict[str, Any]]], started: list[int], survivors: tuple[tuple[int, str], ...]
) -> None:
    left, asked = list(children), []

    def run(faults: Sequence[Planted]) -> tuple[list[dict[str, Any]], str]:
        asked.append(len(faults))
        return left.pop(0), "the process ended with status 1"

    score = mutants.score(FAULTS, run)
    assert (asked, left) == (started, [])
    assert (score.made, score.caught) == (3, 3 - len(survivors))
    assert [one.line for one in score.survivors] == [at + 1 for at, _ in survivors]
    assert all(why in one.what for one, (_, why) in zip(score.survivors, survivors, strict=True))


def test_only_faults_that_fit_the_release_are_planted(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    text = "def other(x):\n    return x\n\n\nclass Kernels:\n    def k(x):\n        # why\n        return x + 1 >= 2\n"
    (tmp_path / "vllm/a.py").write_text(text, "utf-8")
    fitting, foreign = Mutant("Kernels.k", "x + 1", "x - 1"), Mutant("Kernels.k", "x + 2", "x")
    piece = Cut("Kernels.k", "vllm/a.py", 6, (), "", text, ())
    (only,) = mutants.planted(tree_source(tmp_path), piece, {"Kernels.k": (foreign, fitting)})
    assert (only.mutant, only.line, line_of(text, fitting)) == (fitting, 8, 8)
    assert only.text == apply(text, fitting)
    assert only.text == text.replace("        # why\n", "").replace("x + 1", "x - 1")
    assert mutants.planted(tree_source(tmp_path), piece, {}) == ()


PASSED = KernelResult("k", "vllm/a.py", report.PASSED, "0" * 64, "", 0.1, (CaseResult("one", report.PASSED, 0.1),))


def _result(*kernels: KernelResult, **more: Any) -> SmokeResult:
    return SmokeResult("interpret", 5, "0.23.0", SourceInfo("tree", "/t", None, None), kernels, 1.0, {}, **more)


def test_the_score_is_told_and_a_kernel_without_a_fault_is_not_passed_over() -> None:
    seen = replace(PASSED, mutants=Mutants(5, 5))
    none = replace(PASSED, mutants=Mutants(0, 0))
    missed = replace(PASSED, mutants=Mutants(2, 1, (Survivor("k: a → b", 7),)))
    assert "mutants 5/5" in report.kernel_line(seen) and "no mutant" in report.kernel_line(none)
    assert report.mutants_line(_result(seen, none)) == "mutants: 5 of 5 caught, 1 kernel without a mutant"
    assert _result(seen, none).ok and not _result(seen, missed).ok
    for result in (_result(seen, missed, none), _result(PASSED, mutants_not_run="nothing runs")):
        data = json.loads(json.dumps(result.as_json()))
        validator().validate(data)
        assert report.from_json(data) == result
    assert report.mutants_line(_result(PASSED, mutants_not_run="nothing runs")) == "mutants not run: nothing runs"
    assert "mutants" not in json.dumps(_result(PASSED).as_json())


def test_the_task_is_red_by_the_name_of_the_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    missed = replace(PASSED, name="expand_kernel", mutants=Mutants(2, 1, (Survivor(UNSEEN_FAULT, 7),)))
    monkeypatch.setattr("patchset.smoke.catalogue.select", lambda name: ())
    recipe = type("", (), {"smoke_set": "mission"})
    with pytest.raises(SmokeError, match="do not see 1 of the planted faults") as caught:
        require_smoke(_result(missed).as_json(), Path("w.whl"), recipe)
    assert UNSEEN_FAULT in caught.value.detail and caught.value.next.endswith("--mutants")
