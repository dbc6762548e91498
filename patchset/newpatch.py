"""A patch that is new here: its folder, its place in one recipe, and its absence, by name, from the others."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from patchset import rewrite
from patchset.changes import Change
from patchset.errors import DeclarationError
from patchset.patch import Donor
from patchset.recipe import Recipe, read_recipe
from patchset.resolve import Project
from patchset.series_try import require_in_series

#: What a generated text says; lint finds it, and so does a person.
UNWRITTEN = "no probe written yet"
NOBODY_SAID = "Nobody has said yet when this can go."

#: What a title, an explanation (in characters) and an id (a folder's name) may be long.
TITLE_LIMIT = 200
WHY_LIMIT = 100_000
ID_LIMIT = 200

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_PROBE = '''\
"""No probe yet: this says so, and no runtime is made with the patch until it shows the defect by running the tree."""

import json

print(json.dumps({{"verdict": "unknown", "reason": {reason!r}, "checks": []}}))
'''


@dataclass(frozen=True)
class NewPatch:
    """What a patch will be. ``diff`` and ``donors`` are its one variant, for ``release`` alone."""

    id: str
    title: str
    why: str
    kind: str
    date: datetime
    release: str
    diff: bytes | None
    donors: tuple[Donor, ...] = ()


def changes_for(project: Project, recipe: Recipe, patches: Sequence[NewPatch], after: str = "") -> list[Change]:
    """The files that make *patches* part of *recipe*, behind the patch *after* (empty: at the end of its series).

    Every other recipe leaves them out by name: what was made for one release claims nothing about another.

    :raises DeclarationError: an id is taken or none; *after* is not in the series.
    """
    ids = [patch.id for patch in patches]
    for patch in patches:
        check_id(project, patch.id)
    if after:
        require_in_series(recipe, after, "name one of those with --after")
    at = recipe.series.index(after) + 1 if after else len(recipe.series)
    series = [*recipe.series[:at], *ids, *recipe.series[at:]]
    changes = [change for patch in patches for change in _folder(project, patch)]
    changes.append(Change(recipe.file, rewrite.set_series(recipe.file.read_text("utf-8"), series).encode()))
    for other in other_recipes(project, recipe):
        reason = f"made for {recipe.name}; not tried on {other.pin.release} yet"
        changes.append(Change(other.file, rewrite.omit_all(other.file.read_text("utf-8"), ids, reason).encode()))
    return changes


def other_recipes(project: Project, recipe: Recipe | None) -> list[Recipe]:
    """Every recipe of the clone but *recipe*."""
    files = sorted(project.workspace.recipes.glob("*.toml"))
    found = [read_recipe(file, project.upstreams, project.patches) for file in files]
    return [item for item in found if recipe is None or item.file.resolve() != recipe.file.resolve()]


def check_id(project: Project, id: str) -> None:
    """:raises DeclarationError: *id* is none, or is taken."""
    check_form(id)
    if _is_taken(project, id):
        raise DeclarationError(
            f"there is a patch {id} already",
            where=str(project.workspace.patches / id),
            next="choose another id, or edit that one: ./inv edit " + id,
        )


def check_form(id: str) -> None:
    """:raises DeclarationError: *id* is none."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", id) or len(id) > ID_LIMIT:
        raise DeclarationError(
            f"{id!r} is no patch id: lower-case letters, digits, '-' and '.', at most {ID_LIMIT}",
            next=f"for example {slug(id)}",
        )


def slug(text: str, limit: int = 60) -> str:
    """*text* as a patch id: lower-case letters, digits and '-'."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return words[:limit].rstrip("-") or "patch"


def free_id(project: Project, wanted: str, taken: Collection[str]) -> str:
    """*wanted*, or with a number behind it where that is taken."""
    id, number = wanted, 1
    while id in taken or _is_taken(project, id):
        number += 1
        id = f"{wanted}-{number}"
    return id


def _is_taken(project: Project, id: str) -> bool:
    return id in project.patches or os.path.lexists(project.workspace.patches / id)  # a link to nowhere is there, too


def today() -> datetime:
    """The date of a patch that is made now."""
    return datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)


def plain(text: str) -> str:
    """*text* without control characters: no declaration may hold them, and on a terminal they are commands.

    Nor may it hold those that show a line in another order than it has.
    """
    return _CONTROL.sub("�", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """*text* as a line for a person, without control characters."""
    return " ".join(plain(text).split())


def cut(text: str, limit: int) -> str:
    """*text*, with a word that says so where it was too long to be kept whole."""
    return text if len(text) <= limit else f"{text[:limit].rstrip()} … (cut: {len(text)} characters)"


def _folder(project: Project, patch: NewPatch) -> list[Change]:
    folder: Path = project.workspace.patches / patch.id
    name = f"{patch.release}.patch" if patch.diff is not None else None
    variant = rewrite.NewVariant(f"=={patch.release}", diff=name, donors=patch.donors)
    title = cut(one_line(patch.title), TITLE_LIMIT) or patch.id
    why = plain(patch.why).strip() or title
    text = rewrite.patch_toml(title, patch.kind, patch.date, why, NOBODY_SAID, variants=[variant])
    probe = _PROBE.format(reason=f"{UNWRITTEN}: show what is wrong without it: {title}")
    changes = [Change(folder / "patch.toml", text.encode()), Change(folder / "probe.py", probe.encode())]
    return [*changes, Change(folder / name, patch.diff)] if name and patch.diff is not None else changes
