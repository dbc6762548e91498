"""The device lane without a device: a child of the laboratory in which the CPU stands in where the lane does not care."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.smoke.support import alone, smoke

#: Runs on the laboratory's interpreter: torch's CPU memory as the device's, Triton's interpreter as the compiler. What
#: a graph records is a launch, and here its replay is that launch.
HEAD = """
import dataclasses, importlib.util, json, os, sys
os.environ.setdefault("TRITON_INTERPRET", "1")
import numpy as np
from patchset.smoke.case import Array, Case, output
from patchset.smoke.lanes import device, devices
from patchset.smoke.lanes.devices import Device


def load(path):
    spec = importlib.util.spec_from_file_location("made", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["made"] = module
    spec.loader.exec_module(module)
    return module


here = Device("cpu", {"device": "this CPU"}, lambda: None, lambda launch: launch)
made = load(sys.argv[1])


def tell(outcome):
    print(json.dumps(dataclasses.asdict(outcome)))
"""

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def double(out_ptr, in_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(in_ptr + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def follow(table_ptr, out_ptr):
    number = tl.program_id(0)
    source = tl.load(table_ptr + number).to(tl.pointer_type(tl.int32))
    tl.store(out_ptr + number, tl.load(source))


@triton.jit
def count(counts_ptr, seen_ptr):
    tl.store(seen_ptr, tl.load(counts_ptr))
    tl.store(counts_ptr, tl.load(counts_ptr) + 1)
"""

DOUBLE = """
values = np.arange(37, dtype=np.int32)
arrays = {"in_ptr": Array(values), "out_ptr": output(values * 2)}
case = Case("c", (5,), arrays, {"n": 37, "BLOCK": 8})
parameters = [(name, False) for name in ("out_ptr", "in_ptr", "n", "BLOCK")]
"""


@pytest.fixture
def ask(lab_python: Path, tmp_path: Path) -> Any:
    """Run a program in the laboratory; gives what it printed, line by line, as JSON."""
    (tmp_path / "made.py").write_text(KERNEL, "utf-8")

    def run(program: str, kernels: str = KERNEL, **env: str) -> list[Any]:
        (tmp_path / "made.py").write_text(kernels, "utf-8")
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(alone(tmp_path)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(tmp_path),
            **env,
        }
        argv = [str(lab_python), "-c", HEAD + program, str(tmp_path / "made.py")]
        done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def test_without_a_device_the_lane_says_so_and_passes_nothing(lab_python: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree" / "vllm/v1/sample"
    tree.mkdir(parents=True)
    (tree / "rejection_sampler.py").write_text(KERNEL.replace("def double", "def expand_kernel"), "utf-8")
    ran = smoke(
        lab_python,
        tmp_path,
        *("--lane", "device", "--tree", tmp_path / "tree", "--release", "0.23.0", "--kernel", "expand_kernel"),
    )
    assert ran.status == 12 and not ran.data and "passed" not in ran.output
    assert "cannot run this lane: no xpu or cuda device (torch 2." in ran.errors
    assert "xpu: not in this build; cuda: not in this build)" in ran.errors


def test_a_case_is_compared_timed_and_replayed(ask: Any) -> None:
    (told,) = ask(DOUBLE + "tell(device.exercise(here, 'fresh', made.double, parameters, case))")
    assert told["differences"] == [] and told["message"] == "" and told["graph"] == "same bytes"
    assert all(told[f"{name}_seconds"] > 0 for name in ("cold", "warm", "graph"))


def test_a_wrong_result_and_a_write_outside_are_told(ask: Any) -> None:
    beyond = KERNEL.replace("* 2, mask=at < n)", "* 2, mask=at < n + 1)")
    assert beyond != KERNEL
    (told,) = ask(DOUBLE + "tell(device.exercise(here, 'fresh', made.double, parameters, case))", beyond)
    assert [item["what"] for item in told["differences"]] == ["written outside the array, at byte 148 of 148"]
    wrong = KERNEL.replace("* 2", "* 3")
    (told,) = ask(DOUBLE + "tell(device.exercise(here, 'fresh', made.double, parameters, case))", wrong)
    assert told["differences"][0]["wrong"] == 36 and told["graph"] is None and told["cold_seconds"] > 0


def test_tables_hold_addresses_of_the_devices_memory(ask: Any) -> None:
    program = """
values = np.array([5, 6, 7], np.int32)
for dtype in (np.int64, np.uint64):
    table = Array(np.zeros(2, dtype), addresses=(("held", 8), ("held", 0)))
    arrays = {"table_ptr": table, "out_ptr": output(np.array([7, 5], np.int32))}
    case = Case("c", (2,), arrays, {}, {"held": Array(values)})
    tell(device.exercise(here, "fresh", made.follow, [("table_ptr", False), ("out_ptr", False)], case))
"""
    assert [told["differences"] for told in ask(program)] == [[], []]


def test_inputs_are_restored_before_every_call(ask: Any) -> None:
    program = """
arrays = {"counts_ptr": Array(np.array([3], np.int32), np.array([4], np.int32)), "seen_ptr": output(np.array([3], np.int32))}
case = Case("c", (1,), arrays)
tell(device.exercise(here, "fresh", made.count, [("counts_ptr", False), ("seen_ptr", False)], case))
"""
    (told,) = ask(program)
    assert told["differences"] == [] and told["graph"] == "same bytes"


def test_a_later_call_that_leaves_other_bytes_is_told(ask: Any) -> None:
    program = (
        DOUBLE
        + """
class Turning:
    calls = 0
    def __init__(self, bad): self.bad = bad
    def __getitem__(self, grid):
        def launch(**given):
            Turning.calls += 1
            made.double[grid](**given)
            if Turning.calls in self.bad:
                given["out_ptr"][3] = 1
        return launch

for bad in ([1 + device.WARM_CALLS], [1 + 2 * device.WARM_CALLS]):
    Turning.calls = 0
    tell(device.exercise(here, "fresh", Turning(bad), parameters, case))
accepted = Array(np.zeros(37, np.int32), accept=lambda got: None)
case = Case("c", (5,), {**arrays, "out_ptr": accepted}, case.scalars)
Turning.calls = 0
tell(device.exercise(here, "fresh", Turning([1 + device.WARM_CALLS]), parameters, case))
"""
    )
    warm, graph, accepted = ask(program)
    assert [item["array"] for item in warm["differences"]] == ["out_ptr"] and "1 of 37" in warm["differences"][0][
        "what"
    ]
    assert [item["array"] for item in graph["differences"]] == ["out_ptr"] and graph["graph"] == "other bytes"
    assert accepted["differences"][0]["what"] == "a warm call left other bytes than the first call"


def test_a_graph_that_is_not_run_says_why(ask: Any) -> None:
    program = (
        DOUBLE
        + """
none = dataclasses.replace(here, no_graphs="torch 1 has no graphs for cpu")
tell(device.exercise(none, "fresh", made.double, parameters, case))
empty = Case("c", (0,), {"in_ptr": Array(values), "out_ptr": Array(values)}, case.scalars)
tell(device.exercise(here, "fresh", made.double, parameters, empty))
"""
    )
    none, empty = ask(program)
    assert none["graph"] == "not run: torch 1 has no graphs for cpu" and none["graph_seconds"] is None
    assert empty["graph"].startswith("not run: its grid is empty") and empty["differences"] == []


def test_a_slow_first_call_is_red_only_with_a_primed_cache(ask: Any, tmp_path: Path) -> None:
    program = (
        DOUBLE
        + """
import pathlib, time
class Slow:
    def __getitem__(self, grid):
        def launch(**given):
            time.sleep(device.PRIMED_LIMIT * 2)
            group = pathlib.Path(os.environ["TRITON_CACHE_DIR"], "k", "__grp__double.json")
            if sys.argv[-1] != "kept" and not group.exists():
                group.parent.mkdir(parents=True)
                group.write_text("{}")
            made.double[grid](**given)
        return launch
for use in ("fresh", "prime", "primed"):
    tell(device.exercise(here, use, Slow(), parameters, case))
sys.argv.append("kept")
tell(device.exercise(here, "primed", Slow(), parameters, case))
tell(device.exercise(here, "primed", made.double, parameters, Case("c", (0,), {"in_ptr": Array(values), "out_ptr": Array(values)}, case.scalars)))
"""
    )
    program = program.replace(
        "for use in", '(pathlib.Path(os.environ["TRITON_CACHE_DIR"]) / "other").mkdir()\nfor use in'
    )
    (tmp_path / "cache").mkdir()
    fresh, prime, primed, kept, quick = ask(program, TRITON_CACHE_DIR=str(tmp_path / "cache"))
    assert fresh["message"] == "" and prime["message"] == ""
    assert prime["warm_seconds"] is None and fresh["warm_seconds"] > 0
    assert primed["message"].startswith("not primed: the first call took ")
    assert "though nothing was compiled" in kept["message"] and quick["message"] == ""


def test_what_was_compiled_is_counted_in_the_verdict(ask: Any, tmp_path: Path) -> None:
    program = "print(json.dumps([device._too_late(0.05, 0), device._too_late(0.0501, 2)]))"
    ((good, bad),) = ask(program)
    assert good == "" and "2 compiled that the cache did not have" in bad and "50 ms" in bad


def test_a_device_that_refuses_everything_is_not_alive(ask: Any) -> None:
    program = """
def broken():
    raise RuntimeError("an illegal memory access was encountered")
print(json.dumps(device.alive()))
device._PROCESS.device = here
print(json.dumps(device.alive()))
device._PROCESS.device = dataclasses.replace(here, synchronise=broken)
print(json.dumps(device.alive()))
"""
    assert ask(program) == [True, True, False]


def test_the_first_launch_is_checked(ask: Any) -> None:
    program = """
import torch
print(json.dumps(device._first_launch(here) > 0))
from patchset.smoke.lanes import first
class Lazy:
    def __getitem__(self, grid): return lambda counts: None
first.first_kernel = Lazy()
try:
    device._first_launch(here)
except Exception as error:
    print(json.dumps(str(error)))
"""
    good, bad = ask(program)
    assert good is True and "left [41, 7]" in bad


def test_versions_out_of_the_memory_map(tmp_path: Path, ask: Any) -> None:
    maps = tmp_path / "maps"
    maps.write_text(
        "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libigc.so.2.20.5+19146\n"
        "7f02-7f03 r-xp 00000000 08:01 13 /usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1.6.33578\n"
        "7f04-7f05 r-xp 00000000 08:01 14 /usr/lib/libsomething.so.4\n",
        "utf-8",
    )
    program = """
import pathlib
for name in ("maps", "none"):
    print(json.dumps(devices.loaded_versions(pathlib.Path(name))))
"""
    assert ask(program) == [{"igc": "2.20.5+19146", "compute_runtime": "1.6.33578"}, {}]


def test_intels_device_is_preferred_and_what_torch_lacks_is_said(tmp_path: Path, ask: Any) -> None:
    program = """
from types import SimpleNamespace as S
import torch
def api(n, **more):
    told = S(name="Card", total_memory=4, **more)
    return S(is_available=lambda: n > 0, device_count=lambda: n, get_device_properties=lambda at: told, synchronize=None)
devices.KINDS = ("xpu", "cuda")
torch.xpu = api(1, driver_version="1.6", max_compute_units=160)
torch.cuda = api(1, multi_processor_count=132, major=9, minor=0)
found = devices.find()
print(json.dumps([found.name, found.facts["driver"], found.facts["compute_units"], found.no_graphs]))
torch.xpu = api(0)
print(json.dumps([devices.find().name, devices.find().facts["capability"]]))
torch.cuda = api(0)
torch.version.cuda = "13.0"
for value in ("", "0"):
    os.environ["CUDA_VISIBLE_DEVICES"] = value
    try:
        devices.find()
    except Exception as error:
        print(json.dumps(str(error)))
"""
    xpu, cuda, hidden, none = ask(program)
    assert xpu[:3] == ["xpu", "1.6", "160"] and "has no graphs for xpu" in xpu[3]
    assert cuda == ["cuda", "9.0"]
    assert "xpu: not in this build; cuda 13.0: hidden by an empty CUDA_VISIBLE_DEVICES" in hidden
    assert "cuda 13.0: none is seen" in none


def test_priming_is_for_the_device_lane(tmp_path: Path) -> None:
    for words in (["--prime", tmp_path / "c"], ["--primed", tmp_path / "c", "--lane", "interpret"]):
        assert (
            "are for --lane device" in smoke(Path(sys.executable), tmp_path, "--tree", _tree(tmp_path), *words).errors
        )


def test_a_cache_that_cannot_be_primed_or_is_none_is_refused_first(tmp_path: Path) -> None:
    full = tmp_path / "full"
    (full / "a").mkdir(parents=True)
    common = ("--tree", _tree(tmp_path), "--release", "0.23.0", "--lane", "device")
    primed = smoke(Path(sys.executable), tmp_path, *common, "--primed", full)
    assert primed.status == 2 and "has no compiled kernel of Triton in it" in primed.errors
    prime = smoke(Path(sys.executable), tmp_path, *common, "--prime", full)
    assert prime.status == 2 and "is not an empty folder" in prime.errors


def _tree(folder: Path) -> Path:
    (folder / "tree" / "vllm").mkdir(parents=True, exist_ok=True)
    return folder / "tree"


#: A driver of an H200 that has none: modules are loaded to numbers, and Triton's own ptxas makes the code.
NO_GPU = """
import types
from pathlib import Path
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

os.environ["TRITON_CACHE_DIR"] = str(Path(sys.argv[1]).with_name("cache"))
refused = []


def loaded(*words):
    if refused:
        raise RuntimeError(refused[0])
    return 1, 1, 32, 0, 1024


def properties(number):
    return {"max_shared_mem": 232448, "warpSize": 32}


class Driver:
    utils = types.SimpleNamespace(load_binary=loaded, get_device_properties=properties)
    launcher_cls = staticmethod(lambda *words: None)
    get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
    get_current_device = staticmethod(lambda: 0)
    get_current_stream = staticmethod(lambda number: 0)


driver.set_active(Driver())
import torch
from patchset.smoke import triton_cache
from patchset.smoke.lanes import device_compiled
from patchset.smoke.launches import INT32, Memory, launch

parameters = [(name, False) for name in ("out_ptr", "in_ptr", "n", "BLOCK")]
made_of = {"out_ptr": INT32, "in_ptr": Memory("int32", False), "n": 37, "BLOCK": 8}


def compiled(case, late="", kind="cuda", function=made.double):
    return device_compiled.compile_launch(kind, function, parameters, case, lambda seconds: late)


def entries():
    return triton_cache.kernels(Path(os.environ["TRITON_CACHE_DIR"]))
"""


def test_a_launch_by_its_types_compiles_what_the_launch_itself_would(ask: Any) -> None:
    """As tensors would: an aligned one and one that is not, in a cache that then has nothing to compile any more."""
    found = ask(
        f"""{NO_GPU}
compiled(launch("c", made_of, warps=2))
print(entries())
numbers = torch.zeros(64, dtype=torch.int32)
made.double.warmup(numbers, numbers[1:], 37, BLOCK=8, num_warps=2, grid=(5,))
print(entries())
made.double.warmup(numbers, numbers, 37, BLOCK=8, num_warps=2, grid=(5,))
print(entries())
""",
        TRITON_INTERPRET="0",
    )
    assert found == [1, 1, 2]


def test_a_launch_that_xpu_refuses_raises_and_what_another_device_refuses_is_not_run(ask: Any) -> None:
    found = ask(
        f"""{NO_GPU}
def told(case, kind="xpu", function=made.double, why=""):
    refused[:] = [why] if why else []
    try:
        tell(compiled(case, "", kind, function))
    except Exception as error:
        print(json.dumps(str(error)))


right = launch("c", made_of)
told(right, why="out of resource")
told(right, "cuda", why="out of resource")
told(launch("c", {{**made_of, "BLOCK": 7}}))
told(launch("c", {{**made_of, "BLOCK": 7}}), "cuda")
told(launch("c", {{"BLOCK": 8}}), "cuda")
told(right, "cuda", made.intels)
told(right, "cuda")
""",
        KERNEL
        + """

@triton.jit
def rounded(x):
    return tl.extra.intel.libdevice.round(x)


@triton.jit
def intels(out_ptr, in_ptr, n, BLOCK: tl.constexpr):
    tl.store(out_ptr, rounded(n))
""",
        TRITON_INTERPRET="0",
    )
    loaded, elsewhere, block, block_elsewhere, lacking, intels, right = found
    assert "out of resource" in loaded and "out of resource" in elsewhere["not_run"]
    assert "power of 2" in block and "power of 2" in block_elsewhere["not_run"]
    assert "out_ptr" in lacking
    assert "no attribute 'intel'" in intels["not_run"] and "cuda does not take it" in intels["not_run"]
    assert right["not_run"] == "" and right["cold_seconds"] > 0


def test_a_launch_that_is_slow_is_told(ask: Any) -> None:
    found = ask(f'{NO_GPU}\ntell(compiled(launch("c", made_of), "late"))\n', TRITON_INTERPRET="0")
    assert found[0]["message"] == "late"
