"""The smallest set of changes that still shows a fault: delta debugging (Zeller and Hildebrandt, 2002). Pure but for *shows*."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

#: Does this set of changes show the fault? None: nothing can be said of it (it does not apply, for example).
Shows = Callable[[Sequence[int]], "bool | None"]


def minimize(items: Sequence[int], shows: Shows) -> tuple[int, ...]:
    """A subset of *items* that shows the fault, and does not without any one of its members ("1-minimal").

    *items* as a whole must show it. A set of which nothing can be said counts as one that does not: the result is then
    minimal among the sets that can be had.
    """
    items = tuple(items)
    parts = 2
    while len(items) > 1:
        chunks = _split(items, parts)
        smaller = next((chunk for chunk in chunks if shows(chunk)), None)
        if smaller is not None:
            items, parts = smaller, 2
            continue
        # with two parts the complement of one is the other, which was just tried
        rests = [tuple(item for item in items if item not in chunk) for chunk in chunks] if parts > 2 else []
        rest = next((rest for rest in rests if shows(rest)), None)
        if rest is not None:
            items, parts = rest, max(parts - 1, 2)
        elif parts >= len(items):
            break
        else:
            parts = min(len(items), parts * 2)
    return items


def _split(items: tuple[int, ...], parts: int) -> list[tuple[int, ...]]:
    size, more = divmod(len(items), parts)
    ends = [0]
    for number in range(parts):
        ends.append(ends[-1] + size + (number < more))
    return [items[start:end] for start, end in itertools.pairwise(ends)]
