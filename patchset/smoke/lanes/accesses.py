"""Each load, store and atomic of a kernel in Triton's interpreter, looked at before it is made.

Guard zones show a write outside an array. They show neither a read outside, nor an access that is not on a boundary of
its own size: a processor takes both, a GPU may fault (an H200 did, on 8-byte words at addresses that 8 does not divide).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from patchset.smoke.lanes.memory import Layout
from patchset.smoke.report import WRONG_SHOWN, Difference

#: The methods of Triton's interpreter through which all memory is reached (3.8.0 was read), and where their mask is:
#: the position among the arguments after the addresses, or None if there is no mask.
METHODS = {"create_masked_load": 0, "create_masked_store": 1, "create_atomic_rmw": 1, "create_atomic_cas": None}
#: The methods that name an operation first.
_AFTER_OPERATION = frozenset({"create_atomic_rmw"})


@dataclass
class Watch:
    """What is looked for while one case runs, and what was found: (array, what) → offsets, and how many there were."""

    names: tuple[str, ...]
    starts: np.ndarray
    ends: np.ndarray
    found: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def over(cls, plan: Layout, base: int) -> Watch:
        """The arrays of *plan* in a block that starts at address *base*."""
        places = sorted(plan.places.items(), key=lambda item: item[1].start)
        starts = np.array([base + place.start for _, place in places], np.int64)
        sizes = np.array([place.size for _, place in places], np.int64)
        return cls(tuple(name for name, _ in places), starts, starts + sizes)

    def look(self, verb: str, addresses: np.ndarray, mask: np.ndarray, width: int) -> None:
        """Note those of the *addresses* under the *mask* that are no place for *width* bytes."""
        reached = np.atleast_1d(addresses)[np.broadcast_to(np.atleast_1d(mask), np.atleast_1d(addresses).shape)]
        at = reached.astype(np.int64)
        index = np.clip(np.searchsorted(self.starts, at, "right") - 1, 0, None)
        outside = (at < self.starts[index]) | (at + width > self.ends[index])
        self._note(at[outside], index[outside], f"{verb} of {width} bytes outside the array")
        askew = ~outside & (at % width != 0)
        self._note(at[askew], index[askew], f"{verb} of {width} bytes at an address that {width} does not divide")

    def _note(self, at: np.ndarray, index: np.ndarray, what: str) -> None:
        for address, one in zip(at.tolist(), index.tolist(), strict=True):
            key = (self.names[one], what)
            self.counts[key] = self.counts.get(key, 0) + 1
            offsets = self.found.setdefault(key, [])
            if len(offsets) < WRONG_SHOWN:
                offsets.append(address - int(self.starts[one]))

    def differences(self) -> tuple[Difference, ...]:
        """What was found; the indices are byte offsets from the array's start."""
        return tuple(
            Difference(
                name, f"{self.counts[name, what]} × {what}", self.counts[name, what], tuple((o,) for o in offsets)
            )
            for (name, what), offsets in self.found.items()
        )


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Within, every access of the interpreter is looked at by *watch*."""
    from triton.runtime.interpreter import InterpreterBuilder

    own = {name: getattr(InterpreterBuilder, name) for name in METHODS}
    try:
        for name, made in own.items():
            setattr(InterpreterBuilder, name, _looking(watch, name, made))
        yield
    finally:
        for name, made in own.items():
            setattr(InterpreterBuilder, name, made)


def _looking(watch: Watch, name: str, made: Any) -> Any:
    verb = name.rpartition("_")[2] if "atomic" not in name else "atomic"
    mask_at, skipped = METHODS[name], name in _AFTER_OPERATION

    def method(builder: Any, *given: Any) -> Any:
        addresses, *rest = given[skipped:]
        mask = np.True_ if mask_at is None else rest[mask_at].data
        watch.look(verb, addresses.data, mask, addresses.get_element_ty().primitive_bitwidth // 8 or 1)
        return made(builder, *given)

    return method
