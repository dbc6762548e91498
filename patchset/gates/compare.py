"""Two results beside each other: ratios with an interval, if one thing alone is different between the two.

Requests are paired by name, which is the prompt's, so that a long prompt is compared with itself. The interval is a bootstrap's: pairs
are drawn again and again, with a fixed seed, and the middle 95 % of the ratios of medians are told.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from patchset.errors import GateError
from patchset.gates import figures

SEED, DRAWS, MIDDLE = 20_240_917, 4000, 0.95
#: Flags that say where a server listens and what it logs, and nothing of what it computes.
_PLACE = ("--host", "--port", "--uvicorn-log-level", "--disable-log-requests", "--api-key", "--root-path")


def _flags(document: Mapping[str, Any]) -> list[str]:
    return sorted(flag for flag in document["flags"] if str(flag).partition("=")[0] not in _PLACE)


def _runtime(document: Mapping[str, Any]) -> dict[str, Any]:
    server = document["server"]
    return {name: server.get(name) for name in ("runtime", "receipt_sha256", "versions")}


#: What may be the one variable → what of a result it is.
VARIABLES: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "model": lambda document: document["model"],
    "flags": _flags,
    "prompts": lambda document: [document["prompts"]["sha256"], document.get("sampling")],
    "runtime": _runtime,
    "environment": lambda document: document["server"]["environment"],
}


def compare(one: Mapping[str, Any], other: Mapping[str, Any], variable: str = "") -> dict[str, Any]:
    """*other* in proportion to *one*; both are judged (:func:`patchset.gates.document.checked`).

    :param variable: the one of :data:`VARIABLES` in which they may differ; empty: the same was measured twice.
    :raises GateError: they are of two gates, one is not passed, or they differ in more.
    """
    if variable and variable not in VARIABLES:
        raise GateError(f"--variable {variable}: there is {', '.join(VARIABLES)}", next="--variable runtime")
    if one["kind"] != other["kind"]:
        raise GateError(f"{one['kind']} and {other['kind']} cannot be compared", next="compare two results of one gate")
    for name, document in (("the first", one), ("the second", other)):
        if document["verdict"] != "passed":
            raise GateError(f"{name} is not passed, so nothing follows from it", next="./inv gate check FILE")
    differing = [
        *(name for name, part in VARIABLES.items() if part(one) != part(other)),
        *(["timing"] if one["timing"] != other["timing"] else []),
        *(["client"] if one["client"] != other["client"] else []),
    ]
    if others := [name for name in differing if name != variable]:
        raise GateError(
            f"they differ in {', '.join(others)}{f', beside {variable}' if variable in differing else ''}: what made "
            "the difference could not be told",
            next="measure again with that alike"
            if variable or len(others) > 1 or others[0] not in VARIABLES
            else f"if that is what you compare: --variable {others[0]}",
        )
    return {
        "kind": one["kind"],
        "variable": variable,
        "differs": bool(differing),
        "seed": SEED,
        "draws": DRAWS,
        "one": _named(one),
        "other": _named(other),
        "figures": _ratios(one, other),
    }


def rows(found: Mapping[str, Any]) -> list[list[str]]:
    """[figure, ratio, interval] as words, for a table."""
    return [
        [
            row["name"],
            f"{row['ratio']:.3f}",
            f"{row['low']:.3f} to {row['high']:.3f} ({row['pairs']} pairs){'' if row['low'] > 1 or row['high'] < 1 else ', not told apart from 1'}",
        ]
        for row in found["figures"]
    ]


def _named(document: Mapping[str, Any]) -> dict[str, Any]:
    return {"made": document["made"], "model": document["model"]["id"], "runtime": document["server"].get("runtime")}


def _ratios(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[dict[str, Any]]:
    wanted: list[tuple[str, Callable[[Mapping[str, Any]], float | None]]] = [
        ("time to the first token", lambda row: row["ttft_s"]),
        ("tokens a second of the whole request", figures.wall),
    ]
    if one["kind"] == "promote":
        wanted.append((f"tokens a second, 1 to {figures.BEGINNING}", figures.beginning))
        wanted.append(("tokens a second after the first", figures.full_output))
    groups = _groups(figures.timed_of(one["requests"])), _groups(figures.timed_of(other["requests"]))
    found = []
    for group in groups[0]:
        for name, value in wanted:
            pairs = _pairs(groups[0][group], groups[1].get(group, {}), value)
            if len(pairs) > 1:
                place = f"{group[0]} at once, {group[1]}: " if one["kind"] == "ladder" else ""
                found.append({"name": f"{place}{name}", **interval(pairs)})
    return found


def _groups(requests: Sequence[Mapping[str, Any]]) -> dict[tuple[int, str], dict[str, Mapping[str, Any]]]:
    found: dict[tuple[int, str], dict[str, Mapping[str, Any]]] = {}
    for one in requests:
        found.setdefault((one["concurrency"], one["phase"]), {})[one["id"]] = one
    return found


def _pairs(
    one: Mapping[str, Any], other: Mapping[str, Any], value: Callable[[Mapping[str, Any]], float | None]
) -> list[tuple[float, float]]:
    both = [(value(one[name]), value(other[name])) for name in one if name in other]
    return [(old, new) for old, new in both if old and new]


def interval(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """The ratio of the medians of *pairs*, second to first, and the middle :data:`MIDDLE` of those of its draws."""
    drawn = random.Random(SEED)
    ratios = [_ratio(drawn.choices(pairs, k=len(pairs))) for _ in range(DRAWS)]
    rest = (1 - MIDDLE) / 2
    return {
        "ratio": _ratio(pairs),
        "low": figures.percentile(ratios, rest),
        "high": figures.percentile(ratios, 1 - rest),
        "pairs": len(pairs),
    }


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    return statistics.median(new for _, new in pairs) / statistics.median(old for old, _ in pairs)
