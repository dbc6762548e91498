"""The Intel backend's code on the CPU: SPIR-V as for the B70, executed by Intel's OpenCL for CPUs.

Sees: what the interpreter sees, and the Intel backend's own mistakes: its layouts, reductions, masks, types, and what it
refuses. Does not see: races as a GPU has them, the memory model, matrix units, machine code.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from patchset.smoke.case import Case
from patchset.smoke.lanes import memory
from patchset.smoke.report import Difference
from patchset.smoke.toolchains import modules, opencl, triton_xpu


def prepare(**_: Any) -> None:
    """Choose the compiler; triton reads this once, at its import.

    :raises ImportError: this interpreter's Triton has no Intel backend.
    """
    triton_xpu.prepare()


def environment() -> dict[str, str]:
    """The versions that the result depends on.

    :raises ImportError: one of them is not there.
    """
    import triton

    return {"triton": str(triton.__version__), "opencl": _device().version, "numpy": np.__version__}


def run(function: Any, parameters: Sequence[tuple[str, bool]], case: Case) -> tuple[Difference, ...]:
    """Compile *function* as the case launches it, launch it once, and say what is not as the case wants it.

    :param parameters: (name, has a default) in the kernel's order.
    :raises KeyError: the kernel wants an argument that the case does not have.
    :raises OpenCLError: its module cannot be compiled for this processor, or not be launched.
    """
    plan = memory.layout(case)
    block = memory.aligned(plan.size)
    base = block.ctypes.data
    before = memory.image(case, plan, base)
    block[:] = before
    compiled = triton_xpu.compile_launch(function, triton_xpu.given(parameters, case, plan, base))
    if all(case.grid):
        kernel = _kernel(compiled.spirv, compiled.name, os.environ.get(opencl.OPTIONS, ""))
        arguments = [(kind, getattr(value, "address", value)) for kind, value in compiled.arguments]
        _device().run(kernel, arguments, compiled.shared, compiled.local, case.grid)
    return memory.differences(plan, before, block)


@functools.cache
def _device() -> opencl.Device:
    return opencl.Device()


@functools.cache
def _kernel(spirv: bytes, name: str, options: str) -> Any:
    return _device().kernel(modules.for_cpu(spirv), name, options)
