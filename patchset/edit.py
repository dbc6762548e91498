"""A patch opened for editing: the series up to it as a branch in a checkout of its own, one commit a patch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from patchset import resolve, worktree
from patchset.errors import DeclarationError
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.series_try import require_in_series
from patchset.store import Store


@dataclass(frozen=True)
class Opened:
    """A checkout whose tip is the patch. ``what`` is made, moved or unchanged; ``later`` are the patches behind it."""

    recipe: str
    patch: str
    variant: str
    directory: Path
    what: str
    touched: tuple[str, ...]
    later: tuple[str, ...]


def open_patch(
    project: Project, recipe: Recipe, patch: str, into: str, say: Callable[[str], None] = lambda text: None
) -> Opened:
    """Check the series of *recipe* out up to *patch*; the person amends that commit, and `inv export` writes it back.

    :param into: a directory; empty: ``work/edit-<recipe>`` of the clone.
    :raises DeclarationError: the series has no such patch, or it changes nothing at this release.
    :raises WorktreeError: the directory holds changes, or anything that is not a checkout of this tool.
    """
    require_in_series(recipe, patch, "./inv edit PATCH")
    store = Store.open(project.workspace.store)
    resolved = resolve.resolve(project, recipe, store, say)
    steps = [step for step in resolved.applied.steps if step.outcome.changes_tree]
    here = next((index for index, step in enumerate(steps) if step.patch == patch), None)
    if here is None:
        outcome = next(step.outcome.value for step in resolved.applied.steps if step.patch == patch)
        raise DeclarationError(
            f"patch {patch} changes nothing at {recipe.pin.release} ({outcome}), so there is nothing to edit",
            where=str(recipe.file),
            next=f"./inv forecast --patch {patch}: where it is needed; then ./inv edit {patch} -r RECIPE of such a release",
        )
    directory = Path(into).absolute() if into else project.workspace.work / f"edit-{recipe.name}"
    what = worktree.write_checkout(store, steps[here].commit, directory)
    later = tuple(step.patch for step in steps[here + 1 :])
    return Opened(recipe.name, patch, steps[here].variant, directory, what, steps[here].touched, later)
