"""Machine code for the B70: each specialisation that the cases reach is compiled in both register modes, and judged.

Sees: what the compiler refuses or does not finish, scratch beyond what a thread may have, shared memory, calls of functions
that nothing defines. Does not see: results (nothing runs), speed, the driver. The compiler before it (triton-xpu 3.3.0b1)
is older than production's, so spills are an order of magnitude.

A kernel that is only compiled (:class:`~patchset.smoke.launches.Launch`) is taken apart first: each configuration of its
autotuner is one more launch. What the older compiler refuses or does not survive there says nothing of production's, so
it is not run; from machine code on, everything is a verdict.

Limits of the B70: 262144 bytes of scratch a hardware thread (PTSS, the compiler's own words), 131072 bytes of shared memory.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from patchset.smoke import limits
from patchset.smoke.case import Case
from patchset.smoke.lanes import launched, memory
from patchset.smoke.lanes.launched import expand
from patchset.smoke.launches import Launch, Memory
from patchset.smoke.report import Outcome, Resources
from patchset.smoke.toolchains import apart, dialect, ocloc, triton_xpu

__all__ = ["environment", "expand", "prepare", "run"]

SCRATCH_LIMIT = limits.SCRATCH
SHARED_LIMIT = limits.SHARED
#: Where the arrays would be. Addresses of the card have bit 63 set, and are on a page.
BASE = 0xFFFF_D556_B640_0000
#: Seconds for the older compiler with one launch of a kernel that is only compiled: ten times what the slowest takes.
FRONT_LIMIT = 300.0
#: What that compiler is told that the B70 has not, in the order of trying. Its own code for two-dimensional block reads
#: trips over some products of Gated DeltaNet, the rest of it does not. Whether production's does cannot be seen here.
WAYS: tuple[tuple[str, ...], ...] = ((), ("has_subgroup_2d_block_io",))


def prepare(**_: Any) -> None:
    """Choose the compiler; triton reads this once, at its import.

    :raises ImportError: this interpreter's Triton has no Intel backend, or it cannot read machine code.
    :raises CannotRun: there is no offline compiler for the B70.
    """
    for name in ("elftools", "yaml"):
        importlib.import_module(name)
    _ocloc()
    triton_xpu.prepare()
    dialect.teach()


def environment() -> dict[str, str]:
    """The versions that the result depends on."""
    import triton

    return {
        "triton": str(triton.__version__),
        "ocloc": _ocloc().version,
        "target": ocloc.DEVICE,
        "numpy": np.__version__,
    }


def run(function: Any, parameters: Sequence[tuple[str, bool]], case: Case | Launch) -> Outcome:
    """Compile *function* as the case launches it, and judge what came out.

    :param parameters: (name, has a default) in the kernel's order.
    :raises KeyError: the kernel wants an argument that the case does not have.
    """
    if isinstance(case, Launch):
        return _run_launch(function, parameters, case)
    given = triton_xpu.given(parameters, case, memory.layout(case), BASE)
    compiled = triton_xpu.compile_launch(function, given)
    found = _resources(compiled.spirv, compiled.name, compiled.shared)
    return Outcome(message=verdict(found), resources=found)


def _run_launch(function: Any, parameters: Sequence[tuple[str, bool]], case: Launch) -> Outcome:
    kernel, _, heuristics = launched.plain(function)
    dialect.plain_annotations(kernel)
    given = launched.given(parameters, case, heuristics, _pointer)
    note, why = "", ""
    for without in WAYS:
        try:
            compiled = apart.call(lambda: triton_xpu.compile_launch(kernel, given, without), FRONT_LIMIT)  # noqa: B023
        except (apart.Died, apart.Refused) as error:
            why = why or f"triton-xpu {triton_xpu.PROVED} does not take it: {error}"
            continue
        if without:
            note = f"compiled without {', '.join(without)}: {why}"
        found = _resources(compiled.spirv, compiled.name, compiled.shared)
        return Outcome(message=verdict(found), resources=found, note=note)
    return Outcome(not_run=why)


def _pointer(array: Memory) -> triton_xpu.Pointer:
    return triton_xpu.Pointer(array.dtype, BASE if array.aligned else BASE + 4)


@functools.cache
def _ocloc() -> ocloc.Ocloc:
    return ocloc.find()


@functools.cache
def _resources(spirv: bytes, name: str, shared: int) -> tuple[Resources, ...]:
    module = hashlib.sha256(spirv).hexdigest()[:12]
    with ThreadPoolExecutor(len(ocloc.MODES)) as pool:
        made = list(pool.map(lambda mode: _ocloc().compile(spirv, name, mode), ocloc.MODES))
    return tuple(judge(Resources(module, mode, shared), one) for mode, one in zip(ocloc.MODES, made, strict=True))


def judge(asked: Resources, made: ocloc.Made) -> Resources:
    """*asked* with the numbers of what was *made*, and what is wrong with it, if anything."""
    code = made.code
    faults = [*_faults_of(made), *_shared_fault(asked.shared)]
    if code is None:
        return replace(asked, seconds=made.seconds, scratch=made.scratch, faults=tuple(faults))
    return replace(
        asked,
        seconds=made.seconds,
        simd=code.simd,
        registers=code.registers,
        spill=code.spill,
        scratch=code.scratch,
        private=code.private,
        barriers=code.barriers,
        faults=tuple(faults),
    )


def _faults_of(made: ocloc.Made) -> list[str]:
    code = made.code
    if made.scratch is not None or (code is not None and code.scratch > SCRATCH_LIMIT):
        scratch = made.scratch if code is None else code.scratch
        return [
            f"a thread would need {scratch} bytes of scratch, and may have {SCRATCH_LIMIT}: go through the row in a loop "
            "of smaller blocks (8192 elements take 16-64 KiB), or give the program more warps"
        ]
    if made.timed_out:
        return [f"the compiler did not finish ({made.told}): make the block smaller, or unroll less"]
    if code is None:
        return [f"it does not compile: {made.told}"]
    faults = []
    if code.undefined:
        names = ", ".join(code.undefined)
        faults.append(
            f"{names} is defined nowhere, so the driver will refuse the kernel: use a function of triton.language, or of "
            "triton.language.extra.libdevice, which Intel's backend has under the same name; one named __nv_* is NVIDIA's"
        )
    if code.stack_calls:
        faults.append(
            "a call was not inlined (stack call): it costs private memory and may fail on the card; inline it"
        )
    return faults


def _shared_fault(shared: int) -> list[str]:
    if shared <= SHARED_LIMIT:
        return []
    return [
        f"a program needs {shared} bytes of shared memory, and may have {SHARED_LIMIT}: use smaller blocks or fewer stages"
    ]


def verdict(found: Sequence[Resources]) -> str:
    """What is wrong with a specialisation, or nothing.

    Production compiles in the default mode first, so a fault of that mode is one whatever the other says.
    """
    by_mode = {one.mode: one for one in found}
    faults = by_mode["default"].faults
    if not faults:
        return ""
    other = by_mode["256"]
    also = (
        "with 256 registers too"
        if other.faults
        else "with 256 registers it would be right, but the driver does not get there"
    )
    return f"{'; '.join(faults)} ({also})"
