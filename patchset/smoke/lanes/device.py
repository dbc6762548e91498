"""Kernels live on a GPU: Intel's (xpu) before any other (cuda).

Sees: the compiler, the hardware, programs that run at the same time, launch and first-call times, graph replay.
Does not see: writes further than a guard zone and every other array of the case from where they belong.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from patchset.smoke import triton_cache
from patchset.smoke.case import Case
from patchset.smoke.lanes import CannotRun, device_compiled, devices, memory
from patchset.smoke.lanes.devices import Device
from patchset.smoke.lanes.launched import expand
from patchset.smoke.launches import Launch
from patchset.smoke.report import Difference, Outcome

__all__ = ["alive", "environment", "exercise", "expand", "prepare", "run"]

#: Warm calls that the median is taken of.
WARM_CALLS = 10
#: Seconds that the first call of a case may take where its kernel was compiled before.
PRIMED_LIMIT = 0.05


@dataclass
class _Process:
    """What this process chose when it started: how Triton's cache is used, and then the device."""

    cache: str = triton_cache.FRESH
    device: Device | None = None


_PROCESS = _Process()


def prepare(cache: str = triton_cache.FRESH) -> None:
    """Choose the compiler, not the interpreter; triton reads this once, at its import.

    :param cache: how Triton's cache is used: :mod:`patchset.smoke.triton_cache` has the words.
    """
    os.environ["TRITON_INTERPRET"] = "0"
    if "triton" in sys.modules:
        raise RuntimeError("triton was imported before its compiler was chosen")
    _PROCESS.cache = cache


def environment() -> dict[str, str]:
    """The device, and the versions that the result depends on.

    :raises ImportError: torch, triton or numpy is not there.
    :raises CannotRun: there is no device, or its first and smallest kernel does not run.
    """
    import torch
    import triton

    versions = {"torch": str(torch.__version__), "triton": str(triton.__version__), "numpy": np.__version__}
    _PROCESS.device = devices.find()
    try:
        seconds = _first_launch(_PROCESS.device)
    except Exception as error:  # whatever a driver raises, no kernel can run here
        reason = f"{type(error).__name__}: {error}"
        raise CannotRun(
            f"the first kernel does not run on {_PROCESS.device.facts['device']} (torch {versions['torch']}, "
            f"triton {versions['triton']}): {reason}"
        ) from error
    # Asked for after a kernel was compiled: only then are the compiler's libraries in this process.
    loaded = devices.loaded_versions(Path("/proc/self/maps"))
    start = {"first_launch": f"{seconds:.2f} s", "graphs": _PROCESS.device.no_graphs or "available"}
    return {**versions, **_PROCESS.device.facts, **loaded, **start}


def run(function: Any, parameters: Sequence[tuple[str, bool]], case: Case | Launch) -> Outcome:
    """Launch *function* on the device, cold, warm and as a graph, and say what is not as the case wants it.

    A launch that has no memory is compiled and loaded.

    :param parameters: (name, has a default) in the kernel's order.
    :raises KeyError: the kernel wants an argument that the case does not have.
    """
    if _PROCESS.device is None:
        raise RuntimeError("no device was chosen: environment() comes first")
    if isinstance(case, Launch):
        compiled_before = _entries()

        def late(seconds: float) -> str:
            return _too_late(seconds, _entries() - compiled_before) if _PROCESS.cache == triton_cache.PRIMED else ""

        return device_compiled.compile_launch(_PROCESS.device.name, function, parameters, case, late)
    return exercise(_PROCESS.device, _PROCESS.cache, function, parameters, case)


def alive() -> bool:
    """False if the device refuses everything from this process, as it does after a fault."""
    if _PROCESS.device is None:
        return True
    try:
        block = _PROCESS.device.place(np.arange(16, dtype=np.uint8))
        _PROCESS.device.synchronise()
        return bool((_PROCESS.device.fetch(block) == np.arange(16)).all())
    except Exception:  # any failure of so small a copy means the same
        return False


def exercise(device: Device, cache: str, function: Any, parameters: Sequence[tuple[str, bool]], case: Case) -> Outcome:
    """One case on one device. The inputs are restored before every launch.

    What the first call leaves is compared with the case's own expectation; what the last warm call and the graph leave,
    with that of the first, byte for byte.
    """
    plan = memory.layout(case)
    held = device.place(np.zeros(plan.size, np.uint8))
    before = memory.image(case, plan, held.data_ptr())
    pristine = device.place(before)
    given = memory.arguments(parameters, case, lambda name: memory.tensor(held, plan.places[name]))
    compiled_before = _entries()

    def launch() -> None:
        function[case.grid](**given)

    def timed(call: Callable[[], None]) -> float:
        held.copy_(pristine)
        device.synchronise()
        started = time.perf_counter()
        call()
        device.synchronise()
        return time.perf_counter() - started

    cold = timed(launch)
    first = device.fetch(held)
    found = memory.differences(plan, before, first)
    late = _too_late(cold, _entries() - compiled_before) if cache == triton_cache.PRIMED else ""
    if found or cache == triton_cache.PRIME:
        return Outcome(found, late, cold_seconds=cold)
    warm = statistics.median(timed(launch) for _ in range(WARM_CALLS))
    found = _same(plan, before, first, device.fetch(held), "a warm call")
    replayed, seconds = _not_replayed(device, case), None
    if not replayed:
        replay = device.captured(launch)
        seconds = statistics.median(timed(replay) for _ in range(WARM_CALLS))
        found += _same(plan, before, first, device.fetch(held), "the graph's replay")
        replayed = "same bytes" if not found else "other bytes"
    return Outcome(found, late, cold, warm, seconds, replayed)


def _same(
    plan: memory.Layout, before: np.ndarray, first: np.ndarray, later: np.ndarray, what: str
) -> tuple[Difference, ...]:
    """Differences of a later launch: from the expectation where it has some, else from the first launch."""
    against = memory.differences(plan, before, later)
    named = {item.array for item in against}
    others = [name for name in memory.changed(plan, first, later) if name not in named]
    return against + tuple(Difference(name, f"{what} left other bytes than the first call") for name in others)


def _not_replayed(device: Device, case: Case) -> str:
    if device.no_graphs:
        return f"not run: {device.no_graphs}"
    return "" if all(case.grid) else "not run: its grid is empty, nothing is launched"


def _too_late(seconds: float, compiled: int) -> str:
    if seconds <= PRIMED_LIMIT:
        return ""
    why = f"{compiled} compiled that the cache did not have" if compiled else "though nothing was compiled"
    return (
        f"not primed: the first call took {seconds * 1e3:.0f} ms, the limit with a primed cache is "
        f"{PRIMED_LIMIT * 1e3:.0f} ms ({why})"
    )


def _entries() -> int:
    cache = os.environ.get("TRITON_CACHE_DIR")
    return triton_cache.kernels(Path(cache)) if cache else 0


def _first_launch(device: Device) -> float:
    """Seconds of the first launch in this process.

    :raises Exception: whatever the device or its driver raises; :class:`CannotRun` if the kernel left a wrong number.
    """
    import torch

    from patchset.smoke.lanes.first import first_kernel

    started = time.perf_counter()
    counts = device.place(np.array([41, 7], np.int32).view(np.uint8))
    first_kernel[(1,)](counts.view(torch.int32))
    device.synchronise()
    got = device.fetch(counts).view(np.int32).tolist()
    if got != [42, 7]:
        raise CannotRun(f"a kernel that adds one to [41, 7]'s first number left {got}")
    return time.perf_counter() - started
