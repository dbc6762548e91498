"""Where to look next between a good end and a bad one. Pure: what was found so far goes in, positions come out.

Positions are 0 (the good end) to *last* (the bad end). ``found`` maps a position to True (good), False (bad) or None (it
was tried, and says nothing). The same findings always give the same next position, so a search that was interrupted goes
on from its findings alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

#: Position → good, bad, or nothing to be said.
Found = Mapping[int, "bool | None"]


@dataclass(frozen=True)
class Narrowed:
    """What is left: the last good and the first bad position, and where to look next (None: nowhere)."""

    good: int
    bad: int
    next: int | None

    @property
    def exact(self) -> bool:
        """Is it one change?"""
        return self.bad - self.good == 1


def narrow(last: int, found: Found) -> Narrowed:
    """Follow the bisection as far as *found* goes. The ends count as good and bad whatever it says of them.

    A position that says nothing is passed by for the nearest one to the middle that may; positions that are known on one
    side only, against the order of things, are not looked at: the answer is always one place where good turns to bad.
    """
    good, bad = 0, last
    while bad - good > 1:
        middle = (good + bad) // 2
        inside = sorted(range(good + 1, bad), key=lambda position: (abs(position - middle), position))
        usable = next((position for position in inside if found.get(position, True) is not None), None)
        if usable is None or usable not in found:
            return Narrowed(good, bad, usable)
        if found[usable]:
            good = usable
        else:
            bad = usable
    return Narrowed(good, bad, None)


def ahead(last: int, found: Found, count: int) -> tuple[int, ...]:
    """Up to *count* positions to test side by side: the next one, then those that follow if it is good, or bad, and so on."""
    chosen: list[int] = []
    level: list[dict[int, bool | None]] = [dict(found)]
    while level and len(chosen) < count:
        following = []
        for known in level:
            position = narrow(last, known).next
            if position is None:
                continue
            if position not in chosen and len(chosen) < count:
                chosen.append(position)
            following += [{**known, position: verdict} for verdict in (True, False)]
        level = following
    return tuple(chosen)


def relevant(last: int, found: Found, position: int) -> bool:
    """May *position* still say something: does it lie between the last good and the first bad one?"""
    narrowed = narrow(last, found)
    return narrowed.good < position < narrowed.bad


def bound(changes: int) -> int:
    """The tests that a bisection over so many changes needs at most, both ends known: ceil(log2(changes))."""
    return math.ceil(math.log2(changes)) if changes > 1 else 0
