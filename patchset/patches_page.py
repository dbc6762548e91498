"""``recipes/PATCHES.md``: what the patches are for, where they go in, and when they can go. Generated from patch.toml."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from patchset import diff
from patchset.diff_rules import show
from patchset.patch import Patch, Variant
from patchset.recipe import Recipe

NAME = "PATCHES.md"

_HEAD = """\
# Patches

Generated from `recipes/patches/*/patch.toml` by `./inv lint --write`; edit those, not this.
What becomes of each patch on each release: `./inv forecast`.
"""

_WIDTH = 120


def page(patches: Sequence[Patch], recipes: Sequence[Recipe]) -> str:
    """The whole page: a table of all patches, then each of them."""
    rows = [f"| [{patch.id}](#{patch.id}) | {_cell(patch.title)} | {_cell(_span(patch))} |" for patch in patches]
    table = "\n".join(["| patch | what it does | changes |", "|---|---|---|", *rows])
    return "\n".join([_HEAD, table, "", *(_section(patch, recipes) for patch in patches)])


def _section(patch: Patch, recipes: Sequence[Recipe]) -> str:
    parts = [
        f"## {patch.id}",
        f"**{_inline(patch.title)}** ({patch.kind})",
        *_paragraphs(patch.why),
        f"**Goes when:** {_inline(patch.drop_when)}",
        *([f"**Requires:** {', '.join(f'`{name}`' for name in patch.requires)}"] if patch.requires else []),
        "\n".join(["| releases | what is done | where |", "|---|---|---|", *(_variant_row(v) for v in patch.variants)]),
        *(["Upstream:\n\n" + "\n".join(_reference_line(patch))] if patch.references else []),
        "Recipes:\n\n" + "\n".join(_recipe_line(patch, recipe) for recipe in recipes),
    ]
    return "\n\n".join(parts) + "\n"


def _variant_row(variant: Variant) -> str:
    done, where = _done(variant)
    note = f" {variant.note}" if variant.note else ""
    return f"| `{variant.name}` | {_cell(done + note)} | {_cell(where)} |"


def _done(variant: Variant) -> tuple[str, str]:
    """(what a variant does, the files that it is about)."""
    if variant.changes_tree:
        files = (
            [show(file.path) for file in diff.read(variant.diff.read_bytes(), variant.diff.name)]
            if variant.diff
            else []
        )
        donors = [f"{donor.to} (from {donor.release})" for donor in variant.donors]
        return f"`{variant.diff.name}`." if variant.diff else "Donor files.", ", ".join([*donors, *files])
    if variant.upstream:
        return "Nothing: fixed upstream.", ", ".join(dict.fromkeys(item.file for item in variant.upstream))
    if variant.absent:
        where = ", ".join(
            f"{item.file}{f' has no {item.symbol}' if item.symbol else ' is not there'}" for item in variant.absent
        )
        return "Nothing: the feature is not there.", where
    return f"Nothing: by its probe alone ({variant.proved}).", ""


def _reference_line(patch: Patch) -> list[str]:
    lines = []
    for item in patch.references:
        first = f", first in {item.first_release}" if item.first_release else ""
        name = "/".join(item.ref.rstrip("/").split("/")[-3:])
        lines.append(f"- [{name}]({item.ref}), {item.state}{first}: {_inline(item.what)}")
    return lines


def _recipe_line(patch: Patch, recipe: Recipe) -> str:
    left_out = [item.reason for item in recipe.omitted if item.patch == patch.id]
    retired = [item.reason for item in recipe.retired if item.patch == patch.id]
    if left_out:
        return f"- `{recipe.name}` leaves it out: {_inline(left_out[0])}"
    if retired:
        return f"- `{recipe.name}` has it retired: {_inline(retired[0])}"
    return f"- `{recipe.name}` has it, at place {recipe.series.index(patch.id) + 1} of {len(recipe.series)}"


def _span(patch: Patch) -> str:
    """The ranges in which the patch changes anything."""
    return ", ".join(variant.name for variant in patch.variants if variant.changes_tree) or "nothing"


def _paragraphs(text: str) -> list[str]:
    """Paragraphs of a ``why``, filled; indented lines and lists stay as they are."""
    found = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        kept = re.search(r"^(?:\s|\* |- )", block, re.MULTILINE)
        found.append(block if kept else fill(block, _WIDTH, break_long_words=False, break_on_hyphens=False))
    return found


def _inline(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _cell(text: str) -> str:
    return _inline(text).replace("|", "\\|")


def file_of(recipes: Path) -> Path:
    """Where the page lies."""
    return recipes / NAME
