"""What repeated runs of a test say of a tree, and whether two trees really differ. Pure."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass


class Result(str, enum.Enum):
    """How one run ended."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"
    CANNOT_BUILD = "cannot-build"
    CANNOT_LOAD = "cannot-load"

    @property
    def judges(self) -> bool:
        """Does it say something about the fault?"""
        return self in (Result.GOOD, Result.BAD)


class Verdict(str, enum.Enum):
    """How a step ended."""

    GOOD = "good"
    BAD = "bad"
    FLAKY = "flaky"
    SKIPPED = "skipped"
    CANNOT_APPLY = "cannot-apply"
    CANNOT_BUILD = "cannot-build"
    CANNOT_LOAD = "cannot-load"


@dataclass(frozen=True)
class Tally:
    """How often a test passed and failed on one tree, and what the other runs ended with."""

    passed: int = 0
    failed: int = 0
    other: Result | None = None

    @property
    def runs(self) -> int:
        """The runs that say something."""
        return self.passed + self.failed

    @property
    def mixed(self) -> bool:
        """Did it both pass and fail on the same tree?"""
        return bool(self.passed and self.failed)

    @property
    def verdict(self) -> Verdict:
        """What is shown for it."""
        if self.mixed:
            return Verdict.FLAKY
        if self.runs:
            return Verdict.BAD if self.failed else Verdict.GOOD
        return Verdict((self.other or Result.SKIPPED).value)


def tally(results: Sequence[Result]) -> Tally:
    """The tally of *results*."""
    others = [result for result in results if not result.judges]
    return Tally(results.count(Result.GOOD), results.count(Result.BAD), others[0] if others else None)


def side(seen: Tally, good: Tally, bad: Tally) -> bool | None:
    """Does a tree with *seen* belong to the good end (True) or the bad one (False)? None: it says nothing.

    Where the good end never failed, one failure is enough: whatever makes it fail is not there. Else the nearer rate
    counts, the majority, and the answer needs :func:`differ` before it is believed.
    """
    if not seen.runs:
        return None
    if not good.failed:
        return not seen.failed
    # 2 * seen < good + bad, in whole numbers: a rate in the middle is as far from both, and floats would toss a coin
    middle = good.failed * bad.runs + bad.failed * good.runs
    return 2 * seen.failed * good.runs * bad.runs < middle * seen.runs


#: Two trees are told apart if chance alone would do so in one of ten thousand cases.
CHANCE = 1e-4


def differ(good: Tally, bad: Tally) -> bool:
    """Does the test fail more often on *bad* than on *good*, and not by chance (Fisher's exact test, one-sided)?"""
    return chance(good, bad) <= CHANCE


def chance(good: Tally, bad: Tally) -> float:
    """The probability that *bad* fails at least so often more, if both trees were alike; 1 where one was never run."""
    if not good.runs or not bad.runs:
        return 1.0
    failed, runs = good.failed + bad.failed, good.runs + bad.runs
    most = min(failed, bad.runs)
    ways = sum(math.comb(bad.runs, k) * math.comb(good.runs, failed - k) for k in range(bad.failed, most + 1))
    return ways / math.comb(runs, failed)
