"""Kernels that are only compiled, on real releases and with the real compilers."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patchset.smoke import stand_ins
from patchset.smoke.catalogue import Kernel, parse_release, select
from patchset.smoke.extract import Cut, cut
from patchset.smoke.sources import Source, tree_source
from patchset.toolchains.bench import laboratory_of
from patchset.workspace import Workspace
from tests.unit.smoke.support import alone, smoke
from tests.unit.smoke.test_smoke_models import Signature

pytestmark = pytest.mark.real

ROWS = select("models")


def placed(source: Source, release: str) -> list[tuple[Kernel, Cut]]:
    rows = [row.placed(release) for row in ROWS if row.expected_in(release)]
    pieces = [(row, cut(source, row.file, row.name, stand_ins.statement)) for row in rows]
    return [(row, piece) for row, piece in pieces if piece is not None]


@pytest.mark.parametrize(("release", "count"), [("0.23.0", 32), ("0.26.0", 33), ("0.33.0", 34)])
def test_every_kernel_is_found_and_its_launches_have_all_that_it_wants(
    tree_of: Callable[[str], Path], release: str, count: int
) -> None:
    found = placed(tree_source(tree_of(release)), release)
    assert len(found) == count == sum(row.expected_in(release) for row in ROWS)
    for row, piece in found:
        # What an autotuner or a heuristic gives is named in the decorators.
        decorators = piece.kernel_text.partition("def ")[0]
        module, _, maker = row.cases.partition(":")
        signature = Signature(frozenset(one.name for one in piece.parameters), parse_release(release))
        for one in getattr(importlib.import_module(f"patchset.smoke.{module}"), maker)(signature):
            wanted = {parameter.name for parameter in piece.parameters if not parameter.has_default}
            missing = {name for name in wanted - one.arguments.keys() if f'"{name}"' not in decorators}
            assert not missing, (row.name, one.name)


def test_two_of_them_are_machine_code_within_the_limits(
    tree_of: Callable[[str], Path], workspace: Workspace, tmp_path: Path
) -> None:
    laboratory = laboratory_of("native", workspace)
    words = ("--kernel", "l2norm_fwd_kernel2", "--kernel", "_gemma4_routing_kernel")
    ran = smoke(
        laboratory.python,
        tmp_path,
        *("--lane", "native", "--tree", tree_of("0.26.0"), "--release", "0.26.0", "--seed", "1", *words),
        variables={**laboratory.variables, "PATCHSET_SMOKE_CACHE": str(tmp_path / "cache")},
    )
    assert ran.status == 0, ran.output + ran.errors
    assert set(ran.statuses().values()) == {"passed"}
    made = [one for kernel in ran.data["kernels"] for one in kernel["resources"]]
    assert len(made) == 4 and all(one["simd"] in (16, 32) and not one["faults"] for one in made)


#: A tuned kernel with a branch that this Triton could not compile, and an annotation that it chokes on.
TUNED = """
import triton
import triton.language as tl


@triton.heuristics({"SHIFTED": lambda args: args["shift_ptr"] is not None})
@triton.autotune(configs=[triton.Config({"B": 64}, num_warps=2), triton.Config({"B": 128}, num_warps=4)], key=["n"])
@triton.jit
def tuned(x_ptr, shift_ptr, n, stride: int | None, B: tl.constexpr, SHIFTED: tl.constexpr, WIDE: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    if WIDE:
        tl.extra.cuda.gdc_wait()
        value = tl.make_tensor_descriptor(x_ptr, [n], [1], [B]).load([0])
    else:
        value = tl.load(x_ptr + at, mask=at < n, other=0.0)
    if SHIFTED:
        value += tl.load(shift_ptr)
    tl.store(x_ptr + at, value, mask=at < n)
"""
DRIVE = """
import json
from patchset.smoke.lanes import native
from patchset.smoke.launches import BF16, launch
native.prepare()
import tuned
parameters = [(name, False) for name in tuned.tuned.arg_names]
given = {"x_ptr": BF16, "shift_ptr": None, "n": 1000, "stride": None}
made = native.expand(tuned.tuned, [launch("plain", given, {"WIDE": False}), launch("wide", given, {"WIDE": True}, every=False)])
told = [(one.name, native.run(tuned.tuned, parameters, one)) for one in made]
print(json.dumps([(name, ran.message, ran.not_run, len(ran.resources)) for name, ran in told]))
"""


def test_each_configuration_is_compiled_and_what_the_compiler_lacks_is_not_run(
    workspace: Workspace, tmp_path: Path
) -> None:
    laboratory = laboratory_of("native", workspace)
    (tmp_path / "tuned.py").write_text(TUNED, "utf-8")
    path = os.pathsep.join([str(alone(tmp_path)), str(tmp_path)])
    ran = subprocess.run(
        [laboratory.python, "-B", "-c", DRIVE],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": path, **laboratory.variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told = {name: rest for name, *rest in json.loads(ran.stdout)}
    assert told.pop("plain B=64, num_warps=2, num_stages=3") == ["", "", 2]
    assert told.pop("plain B=128, num_warps=4, num_stages=3") == ["", "", 2]
    assert len(told) == 2
    for message, not_run, resources in told.values():
        assert not message and not resources
        assert "triton-xpu 3.3.0b1 does not take it" in not_run and "has no gdc_wait" in not_run
