"""Patches of others become patches here: ``foreign`` reads them strictly, this gives them a folder and a place.

An import that does not apply is made all the same, and says so: to see on which releases how much of it fails is what the
forecast is for. What the strict reader refuses is not imported.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from patchset import newpatch, outcome
from patchset.changes import commit_changes
from patchset.errors import DiffRefused, SeriesError
from patchset.importing import foreign
from patchset.importing.foreign import Foreign
from patchset.newpatch import NewPatch
from patchset.outcome import Became
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.store import Store

__all__ = ["Imported", "Tried", "import_source"]


@dataclass(frozen=True)
class Tried:
    """One imported patch, and what became of it behind the series.

    ``failing`` are (file, hunks that go nowhere, hunks in all), for files where some do.
    """

    id: str
    title: str
    outcome: str
    evidence: tuple[str, ...]
    failing: tuple[tuple[str, int, int], ...]
    hunks: int
    files: int


@dataclass(frozen=True)
class Imported:
    """An import: each patch, what was left out and why, and the files written."""

    release: str
    patches: tuple[Tried, ...]
    skipped: tuple[str, ...]
    notes: tuple[str, ...]
    written: tuple[Path, ...]


def import_source(
    project: Project,
    recipe: Recipe,
    source: Path,
    *,
    id: str = "",
    release: str = "",
    split: bool = False,
    strict: bool = False,
) -> Imported:
    """Make the patches in *source* patches of this clone, at the end of *recipe*'s series.

    :param id: instead of one made of the patch's title; with several patches it gets a number.
    :param release: that the patches were made for; default: the recipe's.
    :param split: one patch a file.
    :param strict: nothing is written where one does not apply.
    :raises DiffRefused: the strict reader turns one away.
    :raises SeriesError: with *strict*, one does not apply.
    """
    store = Store.open(project.workspace.store)
    bases = project.bases(store, upstream=recipe.pin.upstream)
    release = bases.upstream.release(release or recipe.pin.release).version
    series = foreign.read(source)
    tree = _end_of_series(project, recipe, release, store)
    notes, made, tried = [], [], []
    for item in series.patches:
        item = item if item.strip == 1 else _normalised(store, tree, item, notes)
        for part in _split(item) if split else [item]:
            wanted = newpatch.slug(id or part.title) if not split else _part_id(id or item.title, part)
            patch = _new_patch(part, newpatch.free_id(project, wanted, [p.id for p in made]), release)
            became = _try(store, tree, part)
            tree = became.tree
            made.append(patch)
            tried.append(_tried(patch, part, became))
    bad = [item for item in tried if not outcome.Outcome(item.outcome).changes_tree]
    if strict and bad:
        raise SeriesError(
            f"{', '.join(f'{item.id} ({item.outcome})' for item in bad)}: not imported, since --strict was asked for",
            where=str(source),
            detail="\n".join(line for item in bad for line in item.evidence[:20]),
            next="import without --strict, then ./inv forecast shows where it fails",
        )
    written = commit_changes(newpatch.changes_for(project, recipe, made), project.workspace.journal)
    return Imported(release, tuple(tried), series.skipped, tuple(notes), written)


def _end_of_series(project: Project, recipe: Recipe, release: str, store: Store) -> str:
    """The tree of *release* with the recipe's series on it, as far as it goes in there."""
    from patchset.series import apply_patch

    bases = project.bases(store, upstream=recipe.pin.upstream)
    known, tree = tuple(bases.upstream.releases), bases.tree(release)
    for patch in project.series_of(recipe):
        variant = patch.nearest(release, known)
        tree = apply_patch(store, tree, "", patch, variant, bases.donor_file, verify=False).tree
    return tree


def _normalised(store: Store, tree: str, item: Foreign, notes: list[str]) -> Foreign:
    """A diff whose series declares -p0, as the -p1 diff of the same change. It can only be made where it applies."""
    result, refusal = store.apply(tree, item.data, strip=item.strip)
    if result is None or result == tree:
        raise DiffRefused(
            f"it is declared -p{item.strip}, and does not apply so: {refusal.strip() or 'it changes nothing'}",
            where=item.origin,
            next="quilt refresh -p1 on the tree it was made for, then import again",
        )
    data = store.diff(tree, result)
    notes.append(f"{item.origin}: declared -p{item.strip}, written as a -p1 diff of the same change")
    return replace(item, data=data, files=foreign.diff.read(data, item.origin), strip=1)


def _split(item: Foreign) -> list[Foreign]:
    """One patch a file, with the bytes of its own section."""
    lines = item.data.split(b"\n")
    starts = [file.line - 1 for file in item.files]
    parts = []
    for file, start, end in zip(item.files, starts, [*starts[1:], len(lines)], strict=True):
        data = b"\n".join(lines[start:end])
        data = data if data.endswith(b"\n") else data + b"\n"
        path = file.path.decode("utf-8", "replace")
        parts.append(
            replace(item, title=f"{item.title}: {path}", data=data, files=foreign.diff.read(data, item.origin))
        )
    return parts


def _part_id(base: str, part: Foreign) -> str:
    path = part.files[0].path.decode("utf-8", "replace")
    return f"{newpatch.slug(base, 30)}-{newpatch.slug(path.removesuffix('.py'), 70)}"


def _new_patch(item: Foreign, id: str, release: str) -> NewPatch:
    today = datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
    by = f", by {item.author}" if item.author else ""
    source = f"Imported from {item.origin} (sha256 {item.sha256}){by}."
    why = f"{item.message}\n\n{source}" if item.message else source
    return NewPatch(id, item.title, why, "fix", item.date or today, release, item.data)


def _try(store: Store, tree: str, item: Foreign) -> Became:
    return outcome.apply_diff(store, tree, item.data, item.origin)


def _tried(patch: NewPatch, item: Foreign, became: Became) -> Tried:
    hunks = Counter(place.path for place in became.places)
    lost = Counter(place.path for place in became.places if not place.fits)
    failing = tuple((path, lost[path], hunks[path]) for path in hunks if lost[path])
    files = len(item.files)
    return Tried(patch.id, patch.title, became.outcome.value, became.evidence, failing, len(became.places), files)
