"""Which patches of a series depend on which, found by trying the trees: without one, what becomes of the other?"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from patchset.diff_model import FileDiff
from patchset.diff_rules import show
from patchset.graph_draw import require_places, write
from patchset.outcome import DonorFile, Outcome, files_of
from patchset.patch import Patch, Variant
from patchset.placing import places
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.series import apply_patch
from patchset.store import Store

__all__ = ["Graph", "Order", "graph", "of_recipe", "require_places", "write"]


@dataclass(frozen=True)
class Order:
    """Two patches that do not need each other, and whose order counts; ``how`` says what the other order does."""

    first: str
    second: str
    how: str


@dataclass(frozen=True)
class Graph:
    """The patches of a series on one base.

    ``outcomes`` has all of them, in order. ``needs`` maps each to earlier ones with which it becomes what it becomes in the
    series (a plain application in place of a merge is as good), and none of which can be spared; what those need themselves
    is left out. ``declared`` is what its patch.toml requires. ``stopped_by`` maps a patch that does not go in to the earlier
    one behind which it does not; to nothing if it does not go into the base either.
    """

    recipe: str
    release: str
    outcomes: Mapping[str, Outcome]
    needs: Mapping[str, tuple[str, ...]]
    declared: Mapping[str, tuple[str, ...]]
    order_matters: tuple[Order, ...]
    stopped_by: Mapping[str, str]

    def below(self, patch: str) -> frozenset[str]:
        """Everything that *patch* needs, directly or not."""
        return _closure(self.needs, [patch]) - {patch}

    def declared_only(self, patch: str) -> tuple[str, ...]:
        """What *patch* requires, and does not need by its text."""
        return tuple(name for name in self.declared[patch] if name not in self.below(patch))

    def undeclared(self, patch: str) -> tuple[str, ...]:
        """What *patch* needs by its text, and nothing that it requires stands for."""
        return tuple(name for name in self.needs[patch] if name not in _closure(self.declared, [patch]))


def of_recipe(project: Project, recipe: Recipe, say: Callable[[str], None] = lambda text: None) -> Graph:
    """The graph of *recipe*'s series on its release.

    :raises SourceError: the release, or a donor, cannot be had.
    :raises SeriesError: a patch has no variant for the release.
    """
    store = Store.open(project.workspace.store)
    bases = project.bases(store, say, recipe.pin.upstream)
    base = bases.tree(recipe.pin.release)
    return graph(store, recipe.name, recipe.pin.release, base, project.series_of(recipe), bases.donor_file)


def graph(store: Store, recipe: str, release: str, base: str, patches: Sequence[Patch], donor_file: DonorFile) -> Graph:
    """Try the subsets of *patches* that can make a difference, on the tree *base*.

    Two patches are tried on each other where one changes a file, or the place of a file, that the other reads or changes.
    """
    tries = _Tries(store, release, base, donor_file)
    outcomes: dict[str, Outcome] = {}
    needs: dict[str, tuple[str, ...]] = {}
    stopped: dict[str, str] = {}
    changing: list[Patch] = []
    for patch in patches:
        outcome, before = tries.in_series(patch), list(changing)
        outcomes[patch.id] = outcome
        needs[patch.id] = () if outcome.stops else _needed(tries, patch, before, needs)
        if outcome.stops:
            stopped[patch.id] = _stopper(tries, patch, before)
        if outcome.changes_tree:
            changing.append(patch)
    orders = [
        Order(one.id, other.id, how)
        for index, other in enumerate(changing)
        for one in changing[:index]
        if tries.meet(one, other) and (how := _order(tries, one, other, changing, needs))
    ]
    declared = {patch.id: tuple(name for name in patch.requires if name in outcomes) for patch in patches}
    return Graph(recipe, release, outcomes, needs, declared, tuple(orders), stopped)


def _needed(
    tries: _Tries, patch: Patch, earlier: Sequence[Patch], needs: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """A set of *earlier* patches with which *patch* becomes what it becomes behind all of them, and none can be spared.

    Each round finds one by bisection: the first of them at which, together with those found so far, it is so. Where a
    patch takes back what another did, that can be one too many: so each is tried without, at the end.
    """
    candidates = _reaching(tries, patch, earlier)
    found: set[str] = set()

    def good(names: Collection[str]) -> bool:
        tree = tries.after([item for item in candidates if item.id in names])
        return tree is not None and tries.goes(tree, patch)

    def with_first(count: int) -> set[str]:
        return found | {item.id for item in candidates[:count]}

    if not good(with_first(len(candidates))):
        candidates = list(earlier)  # the series itself: it is so there, and each round below ends
    while not good(found):
        low, high = 0, len(candidates)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if good(with_first(middle)) else (middle, high)
        found |= _closure(needs, [candidates[high - 1].id])
    for item in reversed(candidates):
        without = {name for name in found if item.id not in _closure(needs, [name])}
        if item.id in found and good(without):
            found = without
    below = {name for other in found for name in _closure(needs, [other]) - {other}}
    return tuple(item.id for item in candidates if item.id in found - below)


def _reaching(tries: _Tries, patch: Patch, earlier: Sequence[Patch]) -> list[Patch]:
    """Those of *earlier* that can make a difference to *patch*, perhaps through others; in their order."""
    found = [patch]
    for item in reversed(earlier):
        if any(tries.meet(item, other) for other in found):
            found.append(item)
    return found[:0:-1]


def _stopper(tries: _Tries, patch: Patch, earlier: Sequence[Patch]) -> str:
    """The first of *earlier* behind which *patch* does not go in; empty if it does not go into the base."""
    if tries.stops(tries.base, patch):
        return ""
    for count, item in enumerate(earlier, 1):
        tree = tries.after(earlier[:count])
        if tree is not None and tries.stops(tree, patch):
            return item.id
    return ""


def _order(
    tries: _Tries, one: Patch, other: Patch, changing: Sequence[Patch], needs: Mapping[str, tuple[str, ...]]
) -> str:
    """What becomes of *other* before *one*, both on what they need; empty if it makes no difference, or one needs the other."""
    below = _closure(needs, [one.id, other.id]) - {one.id, other.id}
    if one.id in _closure(needs, [other.id]):
        return ""
    ground = tries.after([item for item in changing if item.id in below])
    if ground is None or not tries.goes(ground, one) or not tries.goes(ground, other):
        return ""
    ours, theirs = tries.after([one, other], ground), tries.after([other, one], ground)
    if ours == theirs:
        return ""
    if ours is None:
        return f"{other.id} does not go in behind {one.id} alone, and does without it"
    return "the other way round the tree is another" if theirs else f"{one.id} does not go in behind {other.id}"


def _closure(needs: Mapping[str, tuple[str, ...]], names: Sequence[str]) -> frozenset[str]:
    """*names* and everything that they need, directly or not."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += needs.get(name, ())
    return frozenset(found)


class _Tries:
    """Patches on trees, each tried once. What a patch is to become is what it becomes in the series."""

    def __init__(self, store: Store, release: str, base: str, donor_file: DonorFile) -> None:
        self.base = base
        self._store = store
        self._release = release
        self._donor_file = donor_file
        self._tree = base
        self._known: dict[tuple[str, str], tuple[Outcome, str]] = {}
        self._wanted: dict[str, Outcome] = {}
        self._files: dict[str, tuple[FileDiff, ...]] = {}
        self._paths: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    def in_series(self, patch: Patch) -> Outcome:
        """What becomes of the next patch of the series."""
        variant = patch.variant_for(self._release)
        outcome, tree = self._on(self._tree, patch)
        paths = {*_read_by(variant), *(self._store.changed_paths(self._tree, tree) if tree != self._tree else ())}
        parents = {str(parent) for path in paths for parent in PurePosixPath(path).parents}
        self._paths[patch.id] = (frozenset(paths), frozenset(parents))
        self._wanted[patch.id], self._tree = outcome, tree
        return outcome

    def meet(self, one: Patch, other: Patch) -> bool:
        """Can one of them make a difference to the other?"""
        (files, folders), (theirs, above) = self._paths[one.id], self._paths[other.id]
        # a file where the other one has a folder is in its way
        return not (files.isdisjoint(theirs) and files.isdisjoint(above) and folders.isdisjoint(theirs))

    def goes(self, tree: str, patch: Patch) -> bool:
        """Does *patch* become on *tree* what it becomes in the series?"""
        outcome, wanted = self._on(tree, patch)[0], self._wanted[patch.id]
        return outcome is wanted or (wanted.changes_tree and outcome is Outcome.APPLIES)

    def stops(self, tree: str, patch: Patch) -> bool:
        """Does *patch* not go in on *tree*?"""
        return self._on(tree, patch)[0].stops

    def after(self, patches: Sequence[Patch], tree: str = "") -> str | None:
        """*tree* (default: the base) with all of *patches*; None where one does not become what it is to become."""
        tree = tree or self.base
        for patch in patches:
            if not self.goes(tree, patch):
                return None
            tree = self._on(tree, patch)[1]
        return tree

    def _on(self, tree: str, patch: Patch) -> tuple[Outcome, str]:
        if (tree, patch.id) not in self._known:
            self._known[tree, patch.id] = self._try(tree, patch)
        return self._known[tree, patch.id]

    def _try(self, tree: str, patch: Patch) -> tuple[Outcome, str]:
        variant = patch.variant_for(self._release)
        if self._wanted.get(patch.id) is Outcome.APPLIES and self._is_lost(tree, patch.id, variant):
            return Outcome.CONFLICTS, tree
        step = apply_patch(self._store, tree, "", patch, variant, self._donor_file, verify=False)
        return step.outcome, step.tree

    def _is_lost(self, tree: str, patch: str, variant: Variant) -> bool:
        """Can the diff not go in as it is, whatever else? Then nothing has to be merged to know that it does not apply."""
        if patch not in self._files:
            self._files[patch] = () if variant.donors else files_of(variant)
        found = places(self._files[patch], lambda path: self._store.read(tree, os.fsdecode(path)))
        return any(not place.fits and not place.done for place in found)


def _read_by(variant: Variant) -> set[str]:
    """The files on which it depends what becomes of *variant*."""
    found = {item.file for item in (*variant.upstream, *variant.absent)} | {donor.to for donor in variant.donors}
    return found | {show(path) for file in files_of(variant) for path in (file.old_path, file.new_path) if path}
