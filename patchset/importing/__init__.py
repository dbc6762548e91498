"""Patches of others become patches here: ``foreign`` reads them strictly, this gives them a folder and a place.

An import that does not apply is made all the same, and says so: to see on which releases how much of it fails is what the
forecast is for. What the strict reader refuses is not imported.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from patchset import newpatch, outcome
from patchset.changes import commit_changes
from patchset.diff_rules import show
from patchset.errors import DiffRefused, SeriesError
from patchset.importing import foreign
from patchset.importing.foreign import Foreign
from patchset.newpatch import NewPatch
from patchset.outcome import Became, Outcome
from patchset.patches_page import with_page
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.series import apply_patch
from patchset.store import Store

__all__ = ["Imported", "Tried", "import_source"]


@dataclass(frozen=True)
class Tried:
    """One imported patch, and what became of it behind the series: ``hunks`` of its diff, in so many ``files``.

    ``failing`` are (file, hunks that neither fit nor are in already, hunks in all), for files that have some.
    """

    id: str
    title: str
    outcome: str
    evidence: tuple[str, ...]
    failing: tuple[tuple[str, int, int], ...]
    hunks: int
    files: int

    @property
    def applies(self) -> bool:
        """Is it in the tree now?"""
        return Outcome(self.outcome).changes_tree

    @property
    def stops(self) -> bool:
        """Can no runtime be made with it as it is? (One that is in the release already stops nothing, and does nothing.)"""
        return Outcome(self.outcome).stops


@dataclass(frozen=True)
class Imported:
    """An import: each patch, what was left out and why, what was done to their text, and the files written.

    ``covers``: was it tried on the recipe's own release, so that its series has a variant of each?
    """

    release: str
    covers: bool
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

    :param id: instead of one made of the patch's title; a number is put behind it where it is taken.
    :param release: that the patches were made for; default: the recipe's.
    :param split: one patch a file.
    :param strict: nothing is written where one does not apply.
    :raises DeclarationError: *id* is none.
    :raises DiffRefused: the strict reader turns one away, or there are too many.
    :raises SeriesError: with *strict*, one does not apply.
    """
    if id:
        newpatch.check_form(id)
    store = Store.open(project.workspace.store)
    bases = project.bases(store, upstream=recipe.pin.upstream)
    release = bases.upstream.release(release or recipe.pin.release).version
    series = foreign.read(source)
    items = [(item, part) for item in series.patches for part in (foreign.parts(item) if split else [item])]
    if len(items) > foreign.FILES_LIMIT:
        raise DiffRefused(
            f"{len(items)} patches, a file each; {foreign.FILES_LIMIT} at most",
            where=str(source),
            next="import it without --split",
        )
    notes = [item.note for item in series.patches if item.note]
    if release != recipe.pin.release:
        notes.append(
            f"made for {release}: recipe {recipe.name} is on {recipe.pin.release}, for which there is no variant yet"
        )
    if recipe.pin.source == "checkout":
        notes.append(
            f"tried on the archive of {release}: recipe {recipe.name} is built from a checkout, which may differ"
        )
    tree = _end_of_series(project, recipe, release, store)
    made: list[NewPatch] = []
    tried: list[Tried] = []
    for item, part in items:
        wanted = _part_id(id or item.title, part) if split else id or newpatch.slug(part.title)
        patch = _new_patch(part, newpatch.free_id(project, wanted, {one.id for one in made}), release)
        became = outcome.apply_diff(store, tree, part.data, part.origin, verify=False)
        tree = became.tree
        made.append(patch)
        tried.append(_tried(patch, part, became))
    bad = [item for item in tried if not item.applies]
    if strict and bad:
        raise SeriesError(
            f"{', '.join(f'{item.id} ({item.outcome})' for item in bad)}: not imported, since --strict was asked for",
            where=str(source),
            detail="\n".join(f"{item.id}: {line}" for item in bad for line in item.evidence[:20]),
            next="import without --strict, then ./inv forecast shows where it fails",
        )
    changes = with_page(project, newpatch.changes_for(project, recipe, made))
    written = commit_changes(changes, project.workspace.journal)
    return Imported(release, release == recipe.pin.release, tuple(tried), series.skipped, tuple(notes), written)


def _end_of_series(project: Project, recipe: Recipe, release: str, store: Store) -> str:
    """The tree of *release* with the recipe's series on it, as far as it goes in there."""
    bases = project.bases(store, upstream=recipe.pin.upstream)
    known, tree = tuple(bases.upstream.releases), bases.tree(release)
    for patch in project.series_of(recipe):
        variant = patch.nearest(release, known)
        tree = apply_patch(store, tree, "", patch, variant, bases.donor_file, verify=False).tree
    return tree


def _part_id(base: str, part: Foreign) -> str:
    path = show(part.files[0].path)
    return f"{newpatch.slug(base, 30)}-{newpatch.slug(path.removesuffix('.py'), 70)}"


def _new_patch(item: Foreign, id: str, release: str) -> NewPatch:
    by = f", by {newpatch.cut(item.author, newpatch.TITLE_LIMIT)}" if item.author else ""
    on = f", {item.date:%Y-%m-%d %H:%M} UTC" if item.date else ""
    source = f"Imported from {item.origin} (sha256 of the file {item.sha256}){by}{on}."
    message = newpatch.cut(item.message, newpatch.WHY_LIMIT)
    why = "\n\n".join(text for text in (message, source, item.note) if text)
    return NewPatch(id, item.title, why, "fix", item.date or newpatch.today(), release, item.data)


def _tried(patch: NewPatch, item: Foreign, became: Became) -> Tried:
    hunks = Counter(place.path for place in became.places)
    lost = Counter(place.path for place in became.places if not place.fits and not place.done)
    failing = tuple((path, lost[path], hunks[path]) for path in hunks if lost[path])
    files = len(item.files)
    return Tried(patch.id, patch.title, became.outcome.value, became.evidence, failing, len(became.places), files)
