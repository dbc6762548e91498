"""Figures of a run, from its raw requests alone: pure, so that whoever has a result can compute them again.

A chunk of a stream brings its tokens together, and the first one may bring several. So a rate counts the tokens that came after the
first chunk, over the time since it: chunks are never counted as tokens, and no time is given to tokens that were not timed.
A figure that the raw data cannot give is None, and ``not_given`` says why.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: Tokens after the first that the rate of the beginning is taken over.
BEGINNING = 100
#: Tokens that a point of the curve of rates stands for.
WINDOW = 25
#: Where tokens are counted at all: by their ids, or by the usage that the server sends along.
COUNTED = ("token_ids", "usage")

Request = Mapping[str, Any]


def figures(kind: str, requests: Sequence[Request], source: str) -> dict[str, Any]:
    """The figures of a run of *kind*; seconds, and tokens a second.

    :param requests: as :func:`patchset.gates.run_client.read` gives them.
    :param source: what tokens were counted by; if it is none of :data:`COUNTED`, there is no rate.
    """
    timed = timed_of(requests)
    if kind == "ladder":
        return {"rungs": rungs(timed, source), "not_given": {}}
    found: dict[str, Any] = {"requests": len(timed), "answer_tokens": sum(tokens(one) for one in timed)}
    reasons: dict[str, str] = {}
    found.update(_spread("ttft", "s", [one["ttft_s"] for one in timed], reasons, "no answer was timed"))
    why = "no answer was timed" if source in COUNTED else f"tokens cannot be counted: the source is {source}"
    counted = timed if source in COUNTED else []
    if kind == "promote":
        found["reasoning_tokens"] = sum(one["reasoning_tokens"] or 0 for one in timed)
        short = f"{why}; or none has more than {BEGINNING} tokens after its first chunk"
        found.update(_rates("beginning", counted, beginning, reasons, short))
        found.update(_rates("full_output", counted, full_output, reasons, why))
        found["by_position"] = by_position(counted)
    found.update(_rates("wall", counted, wall, reasons, why))
    return {**found, "not_given": reasons}


def timed_of(requests: Sequence[Request]) -> list[Request]:
    """Those that were answered to their end, and of which nothing is known that taints their times."""
    return [
        one
        for one in requests
        if not one["jit_tainted"] and one["error"] is None and one["ttft_s"] is not None and one["wall_s"]
    ]


def tokens(one: Request) -> int:
    """Tokens that came, as the stream itself counted them."""
    return sum(count for _, count in one["arrivals"])


def beginning(one: Request) -> float | None:
    """Tokens a second from the first chunk to the one that brings the 100th token after it."""
    return _rate(one, BEGINNING)


def full_output(one: Request) -> float | None:
    """Tokens a second from the first chunk to the last."""
    return _rate(one, tokens(one) - one["arrivals"][0][1]) if one["arrivals"] else None


def wall(one: Request) -> float | None:
    """Tokens a second from sending the request to the end of its answer."""
    return tokens(one) / one["wall_s"] if tokens(one) else None


def _rate(one: Request, wanted: int) -> float | None:
    if not one["arrivals"] or wanted < 1:
        return None
    begun, count = one["arrivals"][0][0], 0
    for at, more in one["arrivals"][1:]:
        count += more
        if count >= wanted:
            return count / (at - begun) if at > begun else None
    return None


def by_position(requests: Sequence[Request]) -> list[list[float]]:
    """[tokens after the first chunk, median rate of the last :data:`WINDOW` or more of them], as far as half of the requests reach."""
    windows: dict[int, list[float]] = {}
    for one in requests:
        for position, rate in _windows(one):
            windows.setdefault(position, []).append(rate)
    return [
        [position, statistics.median(rates)]
        for position, rates in sorted(windows.items())
        if 2 * len(rates) >= len(requests)
    ]


def _windows(one: Request) -> list[tuple[int, float]]:
    found = []
    if not one["arrivals"]:
        return found
    since, since_count, count = one["arrivals"][0][0], 0, 0
    for at, more in one["arrivals"][1:]:
        count += more
        if count // WINDOW > since_count // WINDOW and at > since:
            found.append((count // WINDOW * WINDOW, (count - since_count) / (at - since)))
            since, since_count = at, count
    return found


def rungs(timed: Sequence[Request], source: str) -> list[dict[str, Any]]:
    """Each number of requests at once, cold and warm apart: rates over all of them together, and of one."""
    found = []
    for (at_once, phase), row in itertools.groupby(timed, lambda one: (one["concurrency"], one["phase"])):
        rung = list(row)
        rates = [rate for rate in map(wall, rung) if rate is not None] if source in COUNTED else []
        sent = [one["sent_s"] for one in rung if one["sent_s"] is not None]
        whole = source in COUNTED and len(sent) == len(rung)
        seconds = max(one["sent_s"] + one["wall_s"] for one in rung) - min(sent) if whole else 0.0
        found.append(
            {
                "concurrency": at_once,
                "phase": phase,
                "requests": len(rung),
                "aggregate": sum(map(tokens, rung)) / seconds if seconds else None,
                "request_median": statistics.median(rates) if rates else None,
                "ttft_median_s": statistics.median(one["ttft_s"] for one in rung),
            }
        )
    return found


def _rates(
    name: str,
    requests: Sequence[Request],
    rate: Callable[[Request], float | None],
    reasons: dict[str, str],
    why: str,
) -> dict[str, Any]:
    return _spread(name, "", [value for value in map(rate, requests) if value is not None], reasons, why)


def _spread(name: str, unit: str, values: Sequence[float], reasons: dict[str, str], why: str) -> dict[str, Any]:
    """Median, tenth percentile, mean and standard deviation (of a sample) of one value a request."""
    end = f"_{unit}" if unit else ""
    names = [f"{name}_{what}{end}" for what in ("median", "p10", "mean", "stdev")]
    if not values:
        reasons[name] = why
        return {f"{name}_of": 0, **dict.fromkeys(names)}
    found = (
        statistics.median(values),
        percentile(values, 0.1),
        statistics.fmean(values),
        statistics.stdev(values) if len(values) > 1 else None,
    )
    if len(values) == 1:
        reasons[names[-1]] = "one value has no deviation"
    return {f"{name}_of": len(values), **dict(zip(names, found, strict=True))}


def percentile(values: Sequence[float], share: float) -> float:
    """That *share* of *values* is below; between two of them in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
