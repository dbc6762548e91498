"""The forecast as one HTML page that needs nothing else: a matrix of patches and releases, each cell with its evidence.

Every text of the document is untrusted: it goes through :func:`visible` and jinja2's escaping, and nothing but the page's
own style and script, named by their hashes, may have any effect.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchset import forecast_view as view

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent
_NAME = "forecast_page"

#: Characters of one line that are shown; a minified file or a hostile one has a million of them.
_LINE = 2000

#: What is not seen, or makes other text be seen in another order: controls but tab and newline, formats, separators,
#: fillers, lone surrogates, what is no character. Written out, so that it is the same with every Python.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\ufdd0-\ufdef"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

#: Marks that are put over a letter: some are language, dozens climb over the lines above.
_MARKS = re.compile(
    "([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4})"
    "([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+)"
)


def page(document: Mapping[str, Any]) -> str:
    """The page of *document* (as ``forecast.schema.json`` describes it); the same document gives the same text."""
    environment = _environment()
    style, script = (environment.get_template(f"{_NAME}.{kind}.jinja").render() for kind in ("css", "js"))
    return environment.get_template(f"{_NAME}.html.jinja").render(
        document=document,
        cells={(cell["patch"], cell["release"]): cell for cell in document["cells"]},
        columns={patch["id"]: _column(document, patch["id"]) for patch in document["patches"]},
        near=_neighbours(document),
        policy=_policy(style, script),
        style=_markup(style),
        script=_markup(script),
    )


def visible(text: str) -> str:
    """*text* with what is not seen, or reorders text, written as its number; of piled up marks the first four are kept."""
    text = _MARKS.sub(lambda found: f"{found[1]}⟨{len(found[2])} more marks⟩", text)
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


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


def _policy(style: str, script: str) -> str:
    """What the browser may use: this very style and script, and pictures that are in the page itself."""
    style_hash, script_hash = (b64encode(sha256(text.encode()).digest()).decode() for text in (style, script))
    return (
        f"default-src 'none'; style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
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


def _shown(value: object) -> object:
    """Jinja2 calls this with everything that goes into the page, before it escapes it."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _cut(text: str) -> str:
    left = len(text) - _LINE
    return text if left <= 0 else f"{text[:_LINE]} ⟨{left} more characters: see --json⟩"


def _code(text: str) -> object:
    """*text* with what stands between backticks as code."""
    from markupsafe import Markup, escape

    parts = re.split(r"`([^`\n]+)`", visible(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


def _markup(text: str) -> object:
    from markupsafe import Markup

    return Markup(text)
