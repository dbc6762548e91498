"""What every lane has in common: the bytes of a case with guard zones in between, the arguments, and the comparison.

A case's arrays lie in one block of bytes. A lane puts :func:`image` where its kernels can reach it, launches, and gives
the bytes that it found afterwards to :func:`differences`. NumPy only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from patchset.smoke.case import POISON, Array, Case
from patchset.smoke.report import WRONG_SHOWN, Difference

#: Bytes before and after every array that no kernel may touch.
GUARD = 512
#: Arrays start on this boundary, as allocators of devices have it; kernels may rely on it.
ALIGNMENT = 64


@dataclass(frozen=True)
class Place:
    """Where one array lies.

    :param start: its first byte in the block.
    :param first: the first byte of its guard zone before it; the zone after it ends at *last*.
    """

    array: Array
    start: int
    size: int
    first: int
    last: int

    def read(self, block: np.ndarray) -> np.ndarray:
        """The array's content in *block*."""
        content = block[self.start : self.start + self.size]
        return content.view(self.array.start.dtype).reshape(self.array.start.shape)

    def broken_guard(self, block: np.ndarray) -> int | None:
        """Offset from the array's start of the first guard byte that is not poison, or None."""
        outside = self.first + np.flatnonzero(block[self.first : self.last] != POISON)
        outside = outside[(outside < self.start) | (outside >= self.start + self.size)]
        return int(outside[0]) - self.start if len(outside) else None


@dataclass(frozen=True)
class Layout:
    """All arrays of a case in one block of *size* bytes, by name. The block starts on an ``ALIGNMENT`` boundary."""

    places: dict[str, Place]
    size: int


def layout(case: Case) -> Layout:
    """A guard zone, an array, a guard zone, and so on."""
    places: dict[str, Place] = {}
    end = 0
    for name, array in {**case.memory, **case.arrays}.items():
        start = _up(end + GUARD)
        last = start + array.start.nbytes + GUARD
        places[name] = Place(array, start, array.start.nbytes, end, last)
        end = last
    return Layout(places, _up(end))


def aligned(size: int) -> np.ndarray:
    """*size* bytes of this process that start where a layout wants them to."""
    spare = np.empty(size + ALIGNMENT, np.uint8)
    start = -spare.ctypes.data % ALIGNMENT
    return spare[start : start + size]


def image(case: Case, plan: Layout, base: int) -> np.ndarray:
    """The block before the launch, if it starts at address *base*: that is what tables of addresses are made of."""
    block = np.full(plan.size, POISON, np.uint8)
    for name, array in {**case.memory, **case.arrays}.items():
        place = plan.places[name]
        content = array.start
        if array.addresses is not None:
            wanted = [base + plan.places[at].start + offset for at, offset in array.addresses]
            content = address_table(wanted, array.start.dtype)
        block[place.start : place.start + place.size] = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
    return block


def address_table(addresses: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Addresses, modulo 2**64, as a table of *dtype* holds them: two's complement if it is signed."""
    return np.array([address % 2**64 for address in addresses], np.uint64).view(
        np.int64 if dtype == np.int64 else np.uint64
    )


def tensor(block: Any, place: Place) -> Any:
    """*place* as a tensor that shares the memory of *block*, a tensor of bytes."""
    import torch

    start = place.array.start
    # An empty tensor has no address: give it the first element of the guard zone, where a write is noticed.
    flat = block[place.start : place.start + (place.size or start.dtype.itemsize)]
    typed = flat.view(torch.bool if place.array.boolean else getattr(torch, start.dtype.name))
    return typed.reshape(start.shape) if place.size else typed


def arguments(parameters: Sequence[tuple[str, bool]], case: Case, array_of: Callable[[str], Any]) -> dict[str, Any]:
    """The arguments of a launch by name; *array_of* gives what is passed for an array.

    :param parameters: (name, has a default) in the kernel's order.
    :raises KeyError: the kernel wants an argument that the case does not have.
    """
    given: dict[str, Any] = {}
    for name, has_default in parameters:
        if name in case.arrays:
            given[name] = array_of(name)
        elif name in case.scalars:
            given[name] = case.scalars[name]
        elif not has_default:
            raise KeyError(f"the kernel has a parameter that its cases do not know: {name}")
    return given


def differences(plan: Layout, before: np.ndarray, after: np.ndarray) -> tuple[Difference, ...]:
    """What in the block *after* the launch is not as the case wants it."""
    found: list[Difference] = []
    for name, place in plan.places.items():
        expected = place.read(before) if place.array.expected is None else place.array.expected
        found.extend(_compare(name, place, after, expected))
    return tuple(found)


def changed(plan: Layout, one: np.ndarray, other: np.ndarray) -> tuple[str, ...]:
    """The arrays that do not have the same bytes in both blocks; their guard zones count."""
    return tuple(
        name
        for name, place in plan.places.items()
        if not np.array_equal(one[place.first : place.last], other[place.first : place.last])
    )


def _compare(name: str, place: Place, after: np.ndarray, expected: np.ndarray) -> list[Difference]:
    found: list[Difference] = []
    outside = place.broken_guard(after)
    if outside is not None:
        found.append(Difference(name, f"written outside the array, at byte {outside} of {place.size}"))
    got = place.read(after).copy()
    if place.array.accept is not None:
        complaint = place.array.accept(got)
        return found + ([Difference(name, complaint)] if complaint else [])
    if not got.size:
        return found
    wrong = np.flatnonzero((_rows(got) != _rows(expected)).any(axis=1))
    if len(wrong):
        first = tuple(tuple(int(i) for i in np.unravel_index(at, got.shape)) for at in wrong[:WRONG_SHOWN])
        one = first[0]
        what = f"{len(wrong)} of {got.size} wrong, first {got[one]} instead of {expected[one]}"
        found.append(Difference(name, what, len(wrong), first, _largest(got, expected)))
    return found


def _rows(values: np.ndarray) -> np.ndarray:
    """The bytes of each element in a row."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(values.size, -1)


def _largest(got: np.ndarray, expected: np.ndarray) -> float | None:
    largest = float(np.max(np.abs(got.astype(np.float64) - expected.astype(np.float64))))
    return largest if np.isfinite(largest) else None


def _up(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
