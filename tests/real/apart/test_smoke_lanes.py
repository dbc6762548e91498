"""The lanes that need Intel's compilers, with the real ones: releases are green, planted faults and unfit kernels are red."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from patchset.smoke.mutate import apply
from patchset.toolchains.bench import laboratory_of
from patchset.workspace import Workspace
from tests.real.apart.test_smoke import ALIGN_FIRST, BESIDE, COMMON_FIRST, FILES, MISSION, POST, RECOVERED, _copy
from tests.unit.smoke.support import Ran, alone, smoke

pytestmark = pytest.mark.real

TreeOf = Callable[[str], Path]
RunLane = Callable[..., Ran]
#: Without the kernels beside the mission, whose compilation takes as long again.
ONLY = [word for name in MISSION if name not in BESIDE for word in ("--kernel", name)]


@pytest.fixture
def run_lane(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunLane:
    """Runs the program in a lane of Intel's, with nothing kept from before."""

    def run(lane: str, tree: Path, release: str, *words: str, cache: Path | None = None) -> Ran:
        laboratory = laboratory_of(lane, workspace)
        given = {**laboratory.variables, "PATCHSET_SMOKE_CACHE": str(cache or tmp_path / "cache")}
        return smoke(
            laboratory.python,
            tmp_path,
            *("--lane", lane, "--tree", tree, "--release", release, "--seed", "1", *words),
            variables=given,
        )

    return run


def modules(ran: Ran) -> list[dict[str, Any]]:
    return [one for kernel in ran.data["kernels"] for one in kernel.get("resources", [])]


def test_what_intels_backend_makes_of_a_release_equals_the_references(tree_of: TreeOf, run_lane: RunLane) -> None:
    ran = run_lane("spirv", tree_of("0.33.0"), "0.33.0")
    assert ran.status == 0, ran.output + ran.errors
    passed = [name for name, status in ran.statuses().items() if status == "passed"]
    assert len(passed) == 21 and set(ran.statuses().values()) <= {"passed", "not-in-release"}
    # Its mapped mode kills Intel's OpenCL for CPUs when that optimises: said, and run without.
    assert "SIGSEGV in case mapped; run again without" in ran.kernel(POST)["message"]


def test_planted_faults_are_red_on_intels_backend_too(tree_of: TreeOf, run_lane: RunLane, tmp_path: Path) -> None:
    faults = {**COMMON_FIRST, **ALIGN_FIRST}
    tree = _copy(tree_of("0.33.0"), tmp_path / "tree")
    for mutant in dict.fromkeys(faults.values()):
        file = next(name for name in FILES if f"def {mutant.function}(" in (tree / name).read_text("utf-8"))
        (tree / file).write_text(apply((tree / file).read_text("utf-8"), mutant), "utf-8")
    ran = run_lane("spirv", tree, "0.33.0", *ONLY)
    assert ran.status == 10
    assert set(ran.statuses().values()) == {"failed"} and set(ran.statuses()) == set(faults)
    for name in faults:
        failed = [case for case in ran.kernel(name)["cases"] if case["status"] == "failed"]
        assert any(case["differences"] for case in failed), f"{name} failed otherwise than by its results"


def test_every_specialisation_is_machine_code_within_the_limits(tree_of: TreeOf, run_lane: RunLane) -> None:
    ran = run_lane("native", tree_of("0.33.0"), "0.33.0", "--kernel", RECOVERED, "--kernel", POST)
    assert ran.status == 0, ran.output + ran.errors
    assert {one["mode"] for one in modules(ran)} == {"default", "256"}
    assert all(one["simd"] in (16, 32) and not one["faults"] for one in modules(ran))
    assert {one["registers"] for one in modules(ran) if one["mode"] == "256"} == {256}
    tiled = [one["scratch"] for one in ran.kernel(RECOVERED)["resources"] if one["mode"] == "default"]
    # Blocks of 8192 spill; what a thread is allotted for that stays far below the limit.
    assert 0 < max(tiled) <= 65536


def test_the_same_again_compiles_nothing(tree_of: TreeOf, run_lane: RunLane, tmp_path: Path) -> None:
    words = ("--kernel", "expand_kernel")
    first = run_lane("native", tree_of("0.23.0"), "0.23.0", *words)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    again = run_lane("native", tree_of("0.23.0"), "0.23.0", *words)
    assert first.status == again.status == 0 and modules(first) == modules(again) and kept
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*") if path.is_file()} == kept


#: A reduction over the whole vocabulary in one block, and a call that only NVIDIA's library answers.
UNFIT = """
import triton
import triton.language as tl
from triton.language import core


@triton.jit
def whole_row(chosen_ptr, target_ptr, draft_ptr, noise_ptr, vocabulary, PADDED: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, PADDED)
    inside = at < vocabulary
    target = tl.load(target_ptr + row * vocabulary + at, mask=inside, other=0.0)
    draft = tl.load(draft_ptr + row * vocabulary + at, mask=inside, other=0.0)
    noise = tl.load(noise_ptr + at, mask=inside, other=float("inf"))
    tl.store(chosen_ptr + row, tl.argmax(tl.maximum(target - draft, 0.0) / noise, axis=-1))


@core.extern
def nearest(value, _builder=None):
    kinds = {(core.dtype("fp32"),): ("__nv_roundf", core.dtype("fp32"))}
    return core.extern_elementwise("", "", [value], kinds, is_pure=True, _builder=_builder)


@triton.jit
def rounds(rounded_ptr, value_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(value_ptr + at, mask=at < count, other=0.0)
    tl.store(rounded_ptr + at, nearest(value), mask=at < count)
"""
DRIVE = """
import json, sys
from dataclasses import asdict
import numpy as np
from patchset.smoke.case import Array, Case
from patchset.smoke.lanes import native
native.prepare()
import unfit
name, sizes, scalars = json.loads(sys.argv[1])
arrays = {key: Array(np.zeros(size, np.float32)) for key, size in sizes.items()}
function = getattr(unfit, name)
parameters = [(key, False) for key in function.arg_names]
outcome = native.run(function, parameters, Case("case", (1,), arrays, scalars))
print(json.dumps(asdict(outcome)))
"""


@dataclass(frozen=True)
class Judge:
    """Compiles a kernel of :data:`UNFIT` and says what the lane says."""

    python: Path
    folder: Path
    variables: Mapping[str, str]

    def __call__(self, name: str, sizes: dict[str, int], **scalars: int) -> dict[str, Any]:
        (self.folder / "unfit.py").write_text(UNFIT, "utf-8")
        path = os.pathsep.join([str(alone(self.folder)), str(self.folder)])
        ran = subprocess.run(
            [self.python, "-B", "-c", DRIVE, json.dumps([name, sizes, scalars])],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONPATH": path, **self.variables},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)


@pytest.fixture
def judge(workspace: Workspace, tmp_path: Path) -> Judge:
    laboratory = laboratory_of("native", workspace)
    return Judge(laboratory.python, tmp_path, {**laboratory.variables, "PATCHSET_SMOKE_CACHE": str(tmp_path / "cache")})


def row(vocabulary: int, padded: int) -> tuple[str, dict[str, int], dict[str, int]]:
    arrays = {"chosen_ptr": 1, "target_ptr": vocabulary, "draft_ptr": vocabulary, "noise_ptr": vocabulary}
    return "whole_row", arrays, {"vocabulary": vocabulary, "PADDED": padded}


def test_a_reduction_over_the_whole_vocabulary_in_one_block_is_refused_for_its_scratch(judge: Judge) -> None:
    name, arrays, scalars = row(128000, 131072)
    outcome = judge(name, arrays, **scalars)
    assert outcome["message"].startswith("a thread would need ") and "may have 262144" in outcome["message"]
    assert "in a loop of smaller blocks" in outcome["message"]
    assert all(one["scratch"] > 262144 and one["faults"] for one in outcome["resources"])


def test_the_same_reduction_over_a_block_of_8192_is_fit(judge: Judge) -> None:
    name, arrays, scalars = row(8000, 8192)
    outcome = judge(name, arrays, **scalars)
    assert outcome["message"] == "" and all(one["scratch"] <= 65536 for one in outcome["resources"])


def test_a_call_that_nothing_defines_is_red_though_it_compiles(judge: Judge) -> None:
    outcome = judge("rounds", {"rounded_ptr": 256, "value_ptr": 256}, count=256, BLOCK=256)
    assert "__nv_roundf is defined nowhere" in outcome["message"] and "stack call" in outcome["message"]
    assert "triton.language.extra.libdevice" in outcome["message"]
    assert all(one["simd"] for one in outcome["resources"])
