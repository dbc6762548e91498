"""Triton's interpreter on the CPU: kernels as Python, one program after the other.

Sees: arithmetic, indexing, masks, wrong addresses, reads outside arrays, words askew. Does not see: races, the compiler, registers, bfloat16 arithmetic
(which the interpreter gets wrong, so no case uses it).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from patchset.smoke.case import Case
from patchset.smoke.lanes import accesses, memory
from patchset.smoke.report import Difference


def prepare() -> None:
    """Choose the interpreter; triton reads this once, at its import."""
    os.environ["TRITON_INTERPRET"] = "1"
    if "triton" in sys.modules:
        raise RuntimeError("triton was imported before its interpreter was chosen")


def environment() -> dict[str, str]:
    """The versions that the result depends on.

    :raises ImportError: one of the three is not there.
    """
    import torch
    import triton

    return {"torch": str(torch.__version__), "triton": str(triton.__version__), "numpy": np.__version__}


def run(function: Any, parameters: Sequence[tuple[str, bool]], case: Case) -> tuple[Difference, ...]:
    """Launch *function* once and say what is not as the case wants it.

    :param parameters: (name, has a default) in the kernel's order.
    :raises KeyError: the kernel wants an argument that the case does not have.
    """
    import torch

    plan = memory.layout(case)
    block = memory.aligned(plan.size)
    before = memory.image(case, plan, block.ctypes.data)
    block[:] = before
    held = torch.from_numpy(block)
    given = memory.arguments(parameters, case, lambda name: memory.tensor(held, plan.places[name]))
    watch = accesses.Watch.over(plan, block.ctypes.data)
    with accesses.watched(watch):
        function[case.grid](**given)
    return memory.differences(plan, before, block) + watch.differences()
