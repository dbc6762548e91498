"""A launch by its types on the device: compiled by production's compiler and loaded, and not launched.

What Triton's cache then holds is what the launch itself would look for: ``warmup`` goes the way of a launch, up to it. A module
that the driver refuses (its scratch, its shared memory) is refused when it is loaded, so that is done too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from patchset.smoke.lanes import launched
from patchset.smoke.launches import Launch, Memory
from patchset.smoke.report import Outcome

#: Where an array would start: an allocator gives multiples of 16, a view may not.
_ALIGNED, _ASKEW = 0, 4
#: The device that the launches are for.
_FOR = "xpu"


@dataclass(frozen=True)
class Pointer:
    """An array as an argument that nobody reads: Triton asks for its type, and for its address to see how it is aligned."""

    dtype: Any
    address: int

    def data_ptr(self) -> int:
        """The address, under the name that Triton knows."""
        return self.address

    @staticmethod
    def ptr_range() -> int:
        """How far offsets go; 0: as far as 32 bits, or not, is not known."""
        return 0


def compile_launch(
    kind: str, function: Any, parameters: Sequence[tuple[str, bool]], case: Launch, late: Callable[[float], str]
) -> Outcome:
    """Compile and load *function* as *case* would launch it.

    :param kind: the device's, as torch has it.
    :param parameters: (name, has a default) in the kernel's order.
    :param late: what is wrong with the seconds that it took, if anything.
    :raises KeyError: the kernel wants an argument that the launch does not have.
    :raises Exception: on the device that the launches are for, whatever the compiler or the driver raises: the launch would
        have failed so. Another device's refusal says nothing, so there it is not run.
    """
    kernel, _, heuristics = launched.plain(function)
    given = launched.given(parameters, case, heuristics, _pointer)
    started = time.perf_counter()
    try:
        kernel.warmup(grid=(1,), **given)._init_handles()
    except Exception as error:
        if kind == _FOR:
            raise
        return Outcome(
            not_run=f"it is what a launch on {_FOR} asks for, and {kind} does not take it: {_first_line(error)}"
        )
    seconds = time.perf_counter() - started
    return Outcome(message=late(seconds), cold_seconds=seconds)


def _first_line(error: BaseException) -> str:
    """What lies behind *error*: Triton wraps what went wrong in the place where a function was called."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else 'no text'}"


def _pointer(array: Memory) -> Pointer:
    import torch

    return Pointer(getattr(torch, array.dtype), _ALIGNED if array.aligned else _ASKEW)
