"""A gate's result: raw data, the figures that they give, checks and a verdict. Judged when it is made, and by whoever has the file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchset.errors import GateError
from patchset.gates import checks, figures, run_client
from patchset.gates.result import Check
from patchset.verify import bounded

SCHEMA = Path(__file__).with_name("gate.schema.json")
#: Figures are compared as far as a file written by another Python may round them.
_CLOSE = 1e-9


def judged(raw: Mapping[str, Any]) -> dict[str, Any]:
    """*raw* with its figures, its checks and its verdict."""
    return _judged(raw, None)


def encoded(document: Mapping[str, Any]) -> bytes:
    """The document as the file has it."""
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True, allow_nan=False) + "\n").encode()


def checked(path: Path) -> dict[str, Any]:
    """The result in *path*, judged anew from its raw data; figures, checks and verdict that it has itself count for nothing.

    :raises GateError: it cannot be read, or is no result of a gate.
    """
    again = "./inv gate check FILE, with what ./inv gate wrote"
    try:
        document = bounded.parse_json(bounded.read(path, bounded.MOST_JSON))
    except (bounded.Unread, bounded.Malformed) as error:
        raise GateError(f"the result cannot be read: {error}", where=str(path), next=again) from error
    if not isinstance(document, dict) or document.get("kind") not in checks.KINDS:
        raise GateError("it is no result of a gate: it has no kind", where=str(path), next=again)
    return _judged(document, document.get("figures"))


def _judged(raw: Mapping[str, Any], stated: Any) -> dict[str, Any]:
    kept = {key: value for key, value in raw.items() if key not in ("figures", "checks", "verdict")}
    requests, why = _requests(raw)
    source = raw["timing"].get("source") if isinstance(raw.get("timing"), dict) else None
    found = figures.figures(raw["kind"], requests, str(source)) if requests else {"not_given": {"all": why}}
    told = checks.judge(raw, requests, why, found)
    if stated is not None or "figures" in raw:
        told.append(_same(stated, found))
    verdict = "passed" if all(one.verdict == "passed" for one in told) else "failed"
    listed = [{"name": one.name, "verdict": one.verdict, "reason": one.reason} for one in told]
    return {**kept, "figures": found, "checks": listed, "verdict": verdict}


def _requests(raw: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """The requests, read as strictly as the client's own; none, and why, if they are not such."""
    try:
        rows = [run_client.request(row) for row in bounded.Node(dict(raw))["requests"].list()]
    except bounded.Malformed as error:
        return [], str(error)
    return rows, "" if rows else "no request was made"


def _same(stated: Any, found: Mapping[str, Any]) -> Check:
    name = "figures are those of the raw data"
    other = sorted(_differing("figures", stated, found))
    return Check(name, "failed" if other else "passed", f"not so: {', '.join(other[:5])}" if other else "")


def _differing(place: str, stated: Any, found: Any) -> list[str]:
    if isinstance(stated, Mapping) and isinstance(found, Mapping):
        keys = {*stated, *found}
        return [
            where
            for key in keys
            for where in (
                _differing(f"{place}.{key}", stated[key], found[key])
                if key in stated and key in found
                else [f"{place}.{key}"]
            )
        ]
    if isinstance(stated, list) and isinstance(found, list) and len(stated) == len(found):
        return [
            where
            for at, (one, other) in enumerate(zip(stated, found, strict=True))
            for where in _differing(f"{place}[{at}]", one, other)
        ]
    numbers = all(type(value) in (int, float) for value in (stated, found))
    same = math.isclose(stated, found, rel_tol=_CLOSE) if numbers else type(stated) is type(found) and stated == found
    return [] if same else [place]
