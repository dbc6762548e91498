"""The series of a recipe, tried on trees before it is changed; and what such a change ends with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset import resolve, series
from patchset.errors import DeclarationError, DiffRefused, SeriesError
from patchset.outcome import Outcome
from patchset.patch import Patch
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.series import Applied
from patchset.store import Store


@dataclass(frozen=True)
class Changed:
    """What became of a recipe's series: the patch, a line that says what was done, and the files written."""

    recipe: str
    patch: str
    what: str
    evidence: tuple[str, ...]
    written: tuple[Path, ...]


def applied(project: Project, recipe: Recipe, store: Store) -> Applied:
    """The series of *recipe* on its base, also where it stops.

    :raises SourceError: the base cannot be had.
    """
    try:
        return resolve.resolve(project, recipe, store, lambda text: None).applied
    except (SeriesError, DiffRefused):
        if recipe.pin.source == "checkout":
            raise  # its base is not the archive's
        tree = project.bases(store, upstream=recipe.pin.upstream).tree(recipe.pin.release)
        return on_base(project, recipe, store, tree, project.series_of(recipe))


def on_base(project: Project, recipe: Recipe, store: Store, base: str, patches: Sequence[Patch]) -> Applied:
    """*patches* in order on the tree *base* of *recipe*'s release; one that has no variant for it is left out."""
    bases = project.bases(store, upstream=recipe.pin.upstream)
    release = recipe.pin.release
    having = [patch for patch in patches if patch.covers(release)]
    return series.apply_series(store, base, release, having, None, bases.donor_file)


def compare(now: Applied, then: Applied) -> tuple[str, ...]:
    """A line for each patch of *then*: its outcome, and the one it has *now* where that is another."""
    old = {step.patch: step.outcome.value for step in now.steps}
    return tuple(
        f"{step.patch}: {step.outcome.value}"
        + (f" (was: {old[step.patch]})" if old.get(step.patch, step.outcome.value) != step.outcome.value else "")
        + (f", {step.evidence[0]}" if step.outcome is not Outcome.UPSTREAM and step.evidence else "")
        for step in then.steps
    )


def require_in_series(recipe: Recipe, id: str, next: str) -> None:
    """:raises DeclarationError: *id* is not in the series of *recipe*."""
    if id not in recipe.series:
        raise DeclarationError(
            f"recipe {recipe.name} has no patch {id!r} in its series (it has: {', '.join(recipe.series)})",
            where=str(recipe.file),
            next=next,
        )
