"""Triton's interpreter on the CPU: kernels as Python, one program after the other.

Sees: arithmetic, indexing, masks, wrong addresses. Does not see: races, the compiler, registers, bfloat16 arithmetic
(which the interpreter gets wrong, so no case uses it).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from patchset.smoke.case import POISON, Array, Case
from patchset.smoke.report import WRONG_SHOWN, Difference

#: Bytes before and after every array that no kernel may touch.
GUARD = 512
#: Arrays start on this boundary, as allocators of devices have it; kernels may rely on it.
ALIGNMENT = 64


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


class Guarded:
    """An array in the middle of an allocation that is otherwise poison."""

    def __init__(self, array: Array) -> None:
        import torch

        start = np.ascontiguousarray(array.start)
        self.dtype, self.shape, self.size = start.dtype, start.shape, start.nbytes
        self.arena = np.full(self.size + 2 * GUARD + ALIGNMENT, POISON, np.uint8)
        self.offset = GUARD + (-(self.arena.ctypes.data + GUARD)) % ALIGNMENT
        self.arena[self.offset : self.offset + self.size] = start.reshape(-1).view(np.uint8)
        # An empty tensor has no address: give it the guard zone's first element, where a write is noticed.
        length = self.size or self.dtype.itemsize
        flat = torch.from_numpy(self.arena)[self.offset : self.offset + length]
        typed = flat.view(torch.bool if array.boolean else getattr(torch, start.dtype.name))
        self.tensor = typed.reshape(self.shape) if self.size else typed

    @property
    def address(self) -> int:
        """Where the array starts in this process."""
        return self.arena.ctypes.data + self.offset

    def write(self, values: np.ndarray) -> None:
        """Replace the content."""
        self.arena[self.offset : self.offset + self.size] = values.astype(self.dtype).view(np.uint8)

    def read(self) -> np.ndarray:
        """The content now."""
        return self.arena[self.offset : self.offset + self.size].view(self.dtype).reshape(self.shape).copy()

    def broken_guard(self) -> int | None:
        """Byte offset from the array's start of the first guard byte that changed, or None."""
        outside = np.flatnonzero(self.arena != POISON)
        outside = outside[(outside < self.offset) | (outside >= self.offset + self.size)]
        return int(outside[0]) - self.offset if len(outside) else None


def run(function: Any, parameters: Sequence[tuple[str, bool]], case: Case) -> tuple[Difference, ...]:
    """Launch *function* once and say what is not as the case wants it.

    :param parameters: (name, has a default) in the kernel's order.
    :raises KeyError: the kernel wants an argument that the case does not have.
    """
    held = {name: Guarded(array) for name, array in {**case.memory, **case.arrays}.items()}
    wanted = {name: array for name, array in {**case.memory, **case.arrays}.items()}
    for name, array in case.arrays.items():
        if array.addresses is not None:
            held[name].write(_table([held[at].address + offset for at, offset in array.addresses], array.start.dtype))
    before = {name: guarded.read() for name, guarded in held.items()}
    function[case.grid](**_arguments(parameters, case, held))
    found: list[Difference] = []
    for name, guarded in held.items():
        expected = wanted[name].expected
        found.extend(_compare(name, guarded, before[name] if expected is None else expected, wanted[name].accept))
    return tuple(found)


def _table(addresses: list[int], dtype: np.dtype) -> np.ndarray:
    return np.array(addresses, dtype=np.uint64).view(np.int64 if dtype == np.int64 else np.uint64)


def _arguments(parameters: Sequence[tuple[str, bool]], case: Case, held: dict[str, Guarded]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for name, has_default in parameters:
        if name in case.arrays:
            arguments[name] = held[name].tensor
        elif name in case.scalars:
            arguments[name] = case.scalars[name]
        elif not has_default:
            raise KeyError(f"the kernel has a parameter that its cases do not know: {name}")
    return arguments


def _compare(
    name: str, guarded: Guarded, expected: np.ndarray, accept: Callable[[np.ndarray], str | None] | None
) -> list[Difference]:
    found: list[Difference] = []
    outside = guarded.broken_guard()
    if outside is not None:
        found.append(Difference(name, f"written outside the array, at byte {outside} of {guarded.size}"))
    got = guarded.read()
    if accept is not None:
        complaint = accept(got)
        return found + ([Difference(name, complaint)] if complaint else [])
    same_bits = (
        got.reshape(-1).view(np.uint8).reshape(got.size, -1)
        == (np.ascontiguousarray(expected).reshape(-1).view(np.uint8).reshape(got.size, -1))
        if got.size
        else np.ones((0, 1), bool)
    )
    wrong = np.flatnonzero(~same_bits.all(axis=1))
    if len(wrong):
        first = tuple(tuple(int(i) for i in np.unravel_index(at, got.shape)) for at in wrong[:WRONG_SHOWN])
        one = first[0]
        what = f"{len(wrong)} of {got.size} wrong, first {got[one]} instead of {expected[one]}"
        found.append(Difference(name, what, len(wrong), first, _largest(got, expected)))
    return found


def _largest(got: np.ndarray, expected: np.ndarray) -> float | None:
    largest = float(np.max(np.abs(got.astype(np.float64) - expected.astype(np.float64))))
    return largest if np.isfinite(largest) else None
