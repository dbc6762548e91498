"""The answer of a bisection as one HTML page that needs nothing else: what was found, and how each step narrowed it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchset import page as frame
from patchset.bisect.search import narrow
from patchset.bisect.show import lines

#: What stands in the page's title; a file without it is never replaced.
TITLE = "Bisection"
_NAME = "bisect_page"


def page(document: Mapping[str, Any]) -> str:
    """The page of *document* (as ``bisect.schema.json`` describes it); the same document gives the same text."""
    environment = frame.environment(Path(__file__).parent)
    style = environment.get_template(f"{_NAME}.css.jinja").render()
    head, *rest = lines(document["answer"])
    return environment.get_template(f"{_NAME}.html.jinja").render(
        title=TITLE,
        document=document,
        head=head,
        rest=rest,
        tracks=tracks(document),
        policy=frame.policy(style),
        style=frame.markup(style),
    )


def tracks(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each axis that was searched: where each step looked, and what was left after it, in per cent of the way.

    Positions go from 0 (the good end) to 100 (the bad end).
    """
    return [_track(document, part) for part in _searched(document["answer"])]


def _searched(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    parts = [answer.get("release"), answer.get("patch")] if answer["axis"] == "both" else [answer]
    return [part for part in parts if part and "line" in part]


def _track(document: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    places = {label: position for position, label in enumerate(found["line"])}
    last, at, known, rows = found["changes"], found["at"], {}, []
    for step in document["steps"]:
        place = places.get(step["label"])
        if step["role"] != found["axis"] or place is None or place in known:
            continue
        # a flaky step stands on the side where the answer puts it
        known[place] = place <= at["good"] if step["verdict"] in ("good", "bad", "flaky") else None
        left = narrow(last, known)
        rows.append(
            {
                "step": step,
                "at": _percent(place, last),
                "from": _percent(left.good, last),
                "wide": _percent(left.bad - left.good, last),
                "changes": left.bad - left.good,
            }
        )
    return {"axis": found["axis"], "good": found["line"][0], "bad": found["line"][-1], "changes": last, "rows": rows}


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.3f}"
