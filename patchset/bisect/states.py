"""Trees for the states between two ends: patches on a base, carried to other releases where need be. Trees in, trees out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from patchset.bases import Bases
from patchset.bisect.line import Element
from patchset.errors import DiffRefused, PatchsetError, SeriesError
from patchset.patch import Patch, Variant
from patchset.series import Step, apply_patch
from patchset.store import Store


@dataclass(frozen=True)
class Stuck:
    """A state that no tree can be made of: the patch that does not go in (empty: the release cannot be had), and why."""

    patch: str
    why: str


@dataclass(frozen=True)
class State:
    """One state to test: *elements* in order on *base*, the tree of *release* (or of a commit near it).

    ``label`` is what a person calls it: a patch, a release.
    """

    label: str
    release: str
    base: str
    elements: tuple[Element, ...]

    @property
    def patches(self) -> tuple[str, ...]:
        """The ids of the patches in it."""
        return tuple(element.id for element in self.elements)

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from other states."""
        return (self.label, self.release, self.base, *((element.id, element.digest) for element in self.elements))


@dataclass
class Trees:
    """Makes the trees of states, each step of the way once.

    :ivar home: the release that the series is known to go in on; from there it is merged to where no variant goes in.
    :ivar bring: brings a base that is not in the store yet.
    """

    store: Store
    bases: Bases
    home: str
    bring: Callable[[str], None] = lambda tree: None
    _known: dict[tuple[str, str, str, str], str | Stuck] = field(default_factory=dict)

    def of(self, state: State) -> str | Stuck:
        """The tree of *state*, or the patch that stands in its way.

        :raises SourceError: a donor file cannot be had.
        """
        self.bring(state.base)
        tree = state.base
        for index, element in enumerate(state.elements):
            after = self._with(tree, element, state.release, state.elements[:index])
            if isinstance(after, Stuck):
                return after
            tree = after
        return tree

    def _with(self, tree: str, element: Element, release: str, earlier: Sequence[Element]) -> str | Stuck:
        key = (tree, element.id, element.digest, release)
        if key not in self._known:
            made = self._recorded(tree, element)
            if made is None:
                made = self._applied(tree, element, release) or self._merged(tree, element, release, earlier)
            self._known[key] = made
        return self._known[key]

    def _recorded(self, tree: str, element: Element) -> str | Stuck | None:
        """A change between two trees, on another one; None for a declared patch."""
        if element.patch:
            return None
        if tree == element.before:
            return element.after
        merged = self.store.merge(element.before, tree, element.after)
        return Stuck(element.id, f"clashes in {', '.join(merged.conflicts)}") if merged.conflicts else merged.tree

    def _applied(self, tree: str, element: Element, release: str) -> str | None:
        """The tree with the patch by its variant for *release*, or the nearest one; None where that does not go in."""
        assert element.patch
        step = self._step(tree, element.patch, element.patch.nearest(release, tuple(self.bases.upstream.releases)))
        return None if step is None or step.outcome.stops else step.tree

    def _step(self, tree: str, patch: Patch, variant: Variant) -> Step | None:
        try:
            return apply_patch(self.store, tree, "", patch, variant, self.bases.donor_file, verify=False)
        except (SeriesError, DiffRefused):
            return None

    def _merged(self, tree: str, element: Element, release: str, earlier: Sequence[Element]) -> str | Stuck:
        """The change that the patch makes at home, merged into *tree*."""
        patch = element.patch
        assert patch
        variant = patch.nearest(release, tuple(self.bases.upstream.releases))
        if release == self.home:
            return Stuck(patch.id, self._why(tree, patch, variant))
        try:
            before = self.of(State("", self.home, self.bases.tree(self.home), tuple(earlier)))
        except PatchsetError as error:
            return Stuck(patch.id, f"{self.home}, which it would be merged from, cannot be had: {error.what}")
        after = before if isinstance(before, Stuck) else self._applied(before, element, self.home)
        if after is None or isinstance(before, Stuck) or after == before:
            return Stuck(patch.id, self._why(tree, patch, variant))
        merged = self.store.merge(before, tree, after)
        if merged.conflicts:
            return Stuck(patch.id, f"merged from {self.home}, it clashes in {', '.join(merged.conflicts)}")
        return merged.tree

    def _why(self, tree: str, patch: Patch, variant: Variant) -> str:
        step = self._step(tree, patch, variant)
        if step is None:
            return f"variant {variant.name} changes nothing, or is refused"
        return f"variant {variant.name}: {step.outcome.value}: {'; '.join(step.evidence[:3])}"
