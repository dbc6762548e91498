"""The forecast as one HTML page that needs nothing else: a matrix of patches and releases, each cell with its evidence.

What keeps its texts from having any effect is in ``page``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchset import forecast_view as view
from patchset import page as frame

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent
_NAME = "forecast_page"

#: Characters of one line that are shown; a minified file or a hostile one has a million of them.
_LINE = 2000


def page(document: Mapping[str, Any]) -> str:
    """The page of *document* (as ``forecast.schema.json`` describes it); the same document gives the same text."""
    environment = _environment()
    style, script = (environment.get_template(f"{_NAME}.{kind}.jinja").render() for kind in ("css", "js"))
    return environment.get_template(f"{_NAME}.html.jinja").render(
        document=document,
        cells={(cell["patch"], cell["release"]): cell for cell in document["cells"]},
        columns={patch["id"]: _column(document, patch["id"]) for patch in document["patches"]},
        near=_neighbours(document),
        policy=frame.policy(style, script),
        style=frame.markup(style),
        script=frame.markup(script),
    )


def _column(document: Mapping[str, Any], patch: str) -> list[Mapping[str, Any]]:
    """The cells of one patch, in the order of releases."""
    order = {release["release"]: at for at, release in enumerate(document["releases"])}
    mine = [cell for cell in document["cells"] if cell["patch"] == patch and cell["release"] in order]
    return sorted(mine, key=lambda cell: order[cell["release"]])


def _neighbours(document: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, tuple[str, str]]]:
    """(patch, release) → the cells beside it, by the side: ``up`` and ``down`` are releases, ``left`` and ``right`` patches."""
    patches = [patch["id"] for patch in document["patches"]]
    releases = [release["release"] for release in document["releases"]]
    there = {(cell["patch"], cell["release"]) for cell in document["cells"]}
    found = {}
    for column, patch in enumerate(patches):
        for row, release in enumerate(releases):
            beside = {
                "up": (patch, releases[row - 1]) if row else None,
                "down": (patch, releases[row + 1]) if row + 1 < len(releases) else None,
                "left": (patches[column - 1], release) if column else None,
                "right": (patches[column + 1], release) if column + 1 < len(patches) else None,
            }
            found[patch, release] = {side: pair for side, pair in beside.items() if pair in there}
    return found


def _environment() -> Environment:
    environment = frame.environment(_TEMPLATES)
    environment.filters.update(
        anchor=lambda words: view.anchor(*words),
        by_file=view.by_file,
        code=_code,
        count=view.counted,
        cut=_cut,
        detail=view.detail_word,
        gathered=view.gathered,
        gist=view.gist,
        hunk_count=view.hunk_count,
        is_trouble=view.is_trouble,
        not_run=view.not_run,
        prose=view.prose,
        reference=view.reference,
        sides=view.sides,
        spans=view.spans,
        state=view.state_word,
        troubles=view.troubles,
    )
    environment.globals.update(OUTCOMES=view.OUTCOMES, HUNKS=view.HUNKS)
    return environment


def _cut(text: str) -> str:
    left = len(text) - _LINE
    return text if left <= 0 else f"{text[:_LINE]} ⟨{left} more characters: see --json⟩"


def _code(text: str) -> object:
    """*text* with what stands between backticks as code."""
    from markupsafe import Markup, escape

    parts = re.split(r"`([^`\n]+)`", frame.visible(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )
