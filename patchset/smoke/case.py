"""What a case is: arrays, scalars and a grid, and what every array must hold afterwards. NumPy only, no device.

A lane decides where the arrays live. Whatever is not said to change must not change: inputs are compared too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

#: A byte no kernel has a reason to write. Outputs start as it, so an element that was not written shows.
POISON = 0xA5


@dataclass(frozen=True)
class Array:
    """One array that a kernel can reach.

    :param start: its content before the launch.
    :param expected: its content after it, bit for bit; None: it must be left as it was.
    :param accept: instead of *expected*, for results with more than one right answer: takes the content after the
        launch, gives None or what is wrong with it.
    :param boolean: the bytes are truth values for torch.
    :param addresses: this is a table of addresses: the lane writes ``address of memory[name] + offset`` into it, one
        after the other, two's complement if its type is signed.
    """

    start: np.ndarray
    expected: np.ndarray | None = None
    accept: Callable[[np.ndarray], str | None] | None = None
    boolean: bool = False
    addresses: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True)
class Case:
    """One launch.

    :param arrays: by parameter name.
    :param scalars: by parameter name; a name that the kernel's signature lacks is not passed.
    :param memory: what is reached only through addresses.
    """

    name: str
    grid: tuple[int, ...]
    arrays: dict[str, Array]
    scalars: dict[str, int | float | bool | None] = field(default_factory=dict)
    memory: dict[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """What cases are made for: a kernel as this source has it.

    :param parameters: the names of its parameters: cases follow the signature, not the release, where they can.
    :param release: numbers of the release, for contracts that changed under one signature.
    """

    name: str
    parameters: frozenset[str]
    release: tuple[int, ...]
    rng: np.random.Generator

    def has(self, *names: str) -> bool:
        """True if the kernel has all these parameters."""
        return self.parameters.issuperset(names)


def ints(values: object, dtype: type = np.int32) -> np.ndarray:
    """*values* as an integer array, int32 unless said."""
    return np.array(values, dtype=dtype)


def poisoned(shape: int | tuple[int, ...], dtype: type | np.dtype = np.int32) -> np.ndarray:
    """An array of poison bytes."""
    count = int(np.prod(shape))
    return np.full(count * np.dtype(dtype).itemsize, POISON, np.uint8).view(dtype).reshape(shape)


def output(expected: np.ndarray, boolean: bool = False) -> Array:
    """An array that starts as poison and must become *expected*."""
    return Array(poisoned(expected.shape, expected.dtype), expected, boolean=boolean)


def flags(values: object) -> Array:
    """An input of truth values."""
    return Array(np.array(values, dtype=np.uint8), boolean=True)


def cumulative(counts: object) -> np.ndarray:
    """Inclusive running sum, int32, as the scheduler hands it to kernels."""
    return np.cumsum(np.array(counts, dtype=np.int32), dtype=np.int32)
