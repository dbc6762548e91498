"""A launch by its types: what a compiler needs of one, and no memory. For the lane that runs nothing.

Numbers are those of a real launch, since Triton asks whether they are 1 or divisible by 16; pointers are a type and an
alignment. Whatever the kernel's signature lacks is not passed, so one launch serves the signatures of several releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Memory:
    """An array as an argument.

    :param dtype: its type, under torch's name.
    :param aligned: it starts on a multiple of 16 bytes, as whatever an allocator gives; a view may not.
    """

    dtype: str
    aligned: bool = True


@dataclass(frozen=True)
class Type:
    """A type as a constant, under the name that ``triton.language`` has for it."""

    name: str


Argument = Memory | Type | str | int | float | bool | None


@dataclass(frozen=True)
class Launch:
    """One launch.

    :param arguments: by parameter name.
    :param options: what the launch itself asks of the compiler: ``num_warps``, ``num_stages``.
    :param every: each configuration of the kernel's autotuner is compiled; else the first and the last: for further
        shapes, that differ by strides only.
    """

    name: str
    arguments: Mapping[str, Argument]
    options: Mapping[str, int] = field(default_factory=dict)
    every: bool = True


BF16, FP32, FP8, INT8 = Memory("bfloat16"), Memory("float32"), Memory("float8_e4m3fn"), Memory("int8")
INT32, INT64, BOOL = Memory("int32"), Memory("int64"), Memory("bool")


def launch(name: str, *parts: Mapping[str, Argument], every: bool = True, warps: int = 0, stages: int = 0) -> Launch:
    """A launch of the arguments of all *parts*, later ones first; 0 warps or stages: Triton's own choice."""
    arguments: dict[str, Argument] = {}
    for part in parts:
        arguments.update(part)
    options = {"num_warps": warps, "num_stages": stages}
    return Launch(name, arguments, {key: value for key, value in options.items() if value}, every)


def up(value: int) -> int:
    """The next power of two."""
    return 1 << (value - 1).bit_length()
