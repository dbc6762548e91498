"""One patch carried to another release: by a variant that is there, by the nearest one, or by a three-way merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import shorten

from patchset.bases import Bases
from patchset.errors import DiffRefused, PatchsetError, ProbeError, SeriesError
from patchset.outcome import Became, Outcome, become
from patchset.patch import Patch, Variant
from patchset.probe import Finding, Verdict
from patchset.rewrite import NewVariant, closed_range
from patchset.series import apply_patch
from patchset.store import Entry, Merged, Store
from patchset.variants import exact_diff


@dataclass(frozen=True)
class Edit:
    """What becomes of a patch's variants.

    ``narrowed`` maps a range to the ranges that are left of it; ``added`` is a new variant, with the bytes of its
    diff if that is new too.
    """

    widened: tuple[str, str] | None = None
    narrowed: tuple[str, tuple[str, ...]] | None = None
    added: NewVariant | None = None
    diff: bytes | None = None


@dataclass(frozen=True)
class Carried:
    """A patch on the target release. ``how`` is a line for a person; ``edit`` what patch.toml must say for it."""

    patch: str
    outcome: Outcome
    how: str
    tree: str
    edit: Edit = Edit()


@dataclass(frozen=True)
class Clash:
    """A patch that only a person can carry.

    ``ours`` is the tree at the target with the series so far (and the patch's donor files), ``merged`` the attempt;
    ``source`` the release that the patch was taken from.
    """

    patch: str
    source: str
    ours: str
    merged: Merged
    why: str


class Carrier:
    """Carries the patches of a series to *release*, one after the other."""

    def __init__(self, store: Store, bases: Bases, release: str, series: Sequence[Patch]) -> None:
        self._store = store
        self._bases = bases
        self._release = release
        self._series = tuple(series)
        self._known = tuple(bases.upstream.releases)

    def carry(self, patch: Patch, tree: str, finding: Finding) -> Carried | Clash:
        """*patch* on *tree*, which holds the patches before it; *finding* is what its probe says of the bare release.

        :raises ProbeError: the probe could not tell, or says otherwise than what patch.toml vouches for.
        """
        if finding.verdict is Verdict.UNKNOWN:
            raise ProbeError(
                f"the probe of {patch.id} cannot tell whether {self._release} has the defect: {finding.reason}",
                where=str(patch.probe),
                next=f"mend the probe, then ./inv bump --to {self._release} again",
            )
        if finding.verdict is Verdict.DEFECT:
            return self._needed(patch, tree)
        return self._not_needed(patch, tree, finding)

    # -- the defect is not there ---------------------------------------------------------------------------------------

    def _not_needed(self, patch: Patch, tree: str, finding: Finding) -> Carried:
        wanted = Outcome.UPSTREAM if finding.verdict is Verdict.SOUND else Outcome.ABSENT
        covering = self._covering(patch)
        if covering and not covering.changes_tree and self._become(tree, covering).outcome is wanted:
            return Carried(patch.id, wanted, f"variant {covering.name} says so, and so does the probe", tree)
        edit = self._carved(patch, covering)
        for variant in () if covering else self._by_distance(patch):
            if not variant.changes_tree and not variant.proved and self._become(tree, variant).outcome is wanted:
                how, edit = self._extended(variant, "its evidence stands here too")
                return Carried(patch.id, wanted, how, tree, edit)
        added = NewVariant(
            f"=={self._release}", proved=finding.verdict.value, note=shorten(finding.reason, 400, placeholder=" …")
        )
        how = f"its probe says {finding.verdict.value}: {shorten(finding.reason, 120, placeholder=' …')}"
        return Carried(patch.id, wanted, how, tree, replace(edit, added=added))

    # -- the defect is there -------------------------------------------------------------------------------------------

    def _needed(self, patch: Patch, tree: str) -> Carried | Clash:
        covering = self._covering(patch)
        if covering and not covering.changes_tree:
            raise ProbeError(
                f"patch {patch.id}: variant {covering.name} says that nothing is to be done at {self._release}, and its "
                "probe finds the defect there",
                where=f"{patch.folder / 'patch.toml'}",
                next=f"./inv forecast --probes --releases {self._release} --patch {patch.id}, then mend variant or probe",
            )
        if covering:
            became = self._become(tree, covering)
            if became.outcome.changes_tree:
                return Carried(patch.id, became.outcome, f"variant {covering.name}, {_where(became)}", became.tree)
        else:
            for variant in self._by_distance(patch):
                became = self._become(tree, variant) if variant.changes_tree else None
                if became and became.outcome is Outcome.APPLIES:
                    how, edit = self._extended(variant, _where(became))
                    return Carried(patch.id, Outcome.APPLIES, how, became.tree, edit)
        return self._merge(patch, tree, covering)

    def _merge(self, patch: Patch, tree: str, covering: Variant | None) -> Carried | Clash:
        clash = None
        for source, variant in self._sources(patch):
            before, after = self._at_source(patch, source, variant)
            if after is None:
                continue
            ours = self._with_donors(tree, variant)
            if ours is None:
                continue
            merged = self._store.merge(before, ours, after)
            if not merged.conflicts and merged.tree != ours:
                how = f"three-way merge of variant {variant.name} from {source}{self._moves(before, after, ours)}"
                return self.derived(patch, variant, ours, merged.tree, how, covering)
            why = (
                f"{', '.join(merged.conflicts)}: both the release and the patch changed the same lines"
                if merged.conflicts
                else "the change is in already, and yet the probe finds the defect"
            )
            clash = clash or Clash(patch.id, source, ours, merged, why)
        if clash is None:
            raise SeriesError(
                f"patch {patch.id} is needed at {self._release}, and no variant of it applies to any release here",
                where=str(patch.folder / "patch.toml"),
                next=f"./inv forecast --patch {patch.id}",
            )
        return clash

    def derived(
        self, patch: Patch, variant: Variant, ours: str, result: str, how: str, covering: Variant | None = None
    ) -> Carried:
        """The change from *ours* to *result* as a variant of its own, with the donor files of *variant*."""
        covering = covering or self._covering(patch)
        name = f"{self._release}.patch"
        data = exact_diff(self._store, ours, result, f"{patch.id}/{name}")
        added = NewVariant(f"=={self._release}", diff=name, donors=variant.donors)
        edit = replace(self._carved(patch, covering), added=added, diff=data)
        return Carried(patch.id, Outcome.APPLIES, how, result, edit)

    # -- variants ------------------------------------------------------------------------------------------------------

    def nearest_diff(self, patch: Patch) -> Variant:
        """The nearest variant of *patch* that changes anything."""
        return next(variant for variant in self._by_distance(patch) if variant.changes_tree)

    def _covering(self, patch: Patch) -> Variant | None:
        return next((v for v in patch.variants if v.releases.contains(self._release, prereleases=True)), None)

    def _by_distance(self, patch: Patch) -> list[Variant]:
        """Variants, the nearest in releases first; of two as near, the older one."""
        at = self._known.index(self._release)

        def distance(variant: Variant) -> tuple[int, bool]:
            return min(((abs(i - at), i > at) for i in self._indices(variant)), default=(len(self._known), True))

        return sorted(patch.variants, key=distance)

    def _indices(self, variant: Variant) -> list[int]:
        return [i for i, known in enumerate(self._known) if variant.releases.contains(known, prereleases=True)]

    def _extended(self, variant: Variant, why: str) -> tuple[str, Edit]:
        """The variant for this release too: its range made wider if they touch, else one more with the same content."""
        at, indices = self._known.index(self._release), self._indices(variant)
        if at in (indices[0] - 1, indices[-1] + 1):
            ends = sorted((at, indices[0], indices[-1]))
            wider = closed_range(self._known[ends[0]], self._known[ends[-1]])
            return f"variant {variant.name} reaches to here: {why}", Edit(widened=(variant.name, wider))
        added = NewVariant(
            f"=={self._release}",
            variant.diff.name if variant.diff else None,
            variant.donors,
            variant.upstream,
            variant.absent,
            variant.proved,
            variant.note,
        )
        return f"as variant {variant.name}: {why}", Edit(added=added)

    def _carved(self, patch: Patch, covering: Variant | None) -> Edit:
        """What is left of the covering variant's range without this release."""
        if covering is None:
            return Edit()
        at = self._known.index(self._release)
        left = [
            closed_range(self._known[part[0]], self._known[part[-1]])
            for part in (
                [i for i in self._indices(covering) if i < at],
                [i for i in self._indices(covering) if i > at],
            )
            if part
        ]
        return Edit(narrowed=(covering.name, tuple(left)))

    # -- trees ---------------------------------------------------------------------------------------------------------

    def _become(self, tree: str, variant: Variant) -> Became:
        try:
            return become(self._store, tree, variant, self._bases.donor_file)
        except DiffRefused as refusal:
            return Became(Outcome.REFUSED, (str(refusal),), tree)

    def _sources(self, patch: Patch) -> list[tuple[str, Variant]]:
        """(release, variant) from which the patch could be merged: of each variant its release nearest to the target."""
        at = self._known.index(self._release)
        found = []
        for variant in self._by_distance(patch):
            if variant.changes_tree:
                others = [i for i in self._indices(variant) if i != at]
                if others:
                    found.append((self._known[min(others, key=lambda i: (abs(i - at), i > at))], variant))
        return found

    def _at_source(self, patch: Patch, source: str, variant: Variant) -> tuple[str, str | None]:
        """(tree of the release with the patches before, and the donor files; the same with the patch, or None)."""
        try:
            tree = self._bases.tree(source)
            for earlier in self._series[: self._series.index(patch)]:
                tree = apply_patch(
                    self._store, tree, "", earlier, earlier.nearest(source, self._known), self._bases.donor_file
                ).tree
            step = apply_patch(self._store, tree, "", patch, variant, self._bases.donor_file)
            before = self._with_donors(tree, variant)
        except PatchsetError:
            return "", None  # this source cannot be had or does not fit together; the next one may
        return (before or tree), step.tree if step.outcome.changes_tree and before else None

    def _with_donors(self, tree: str, variant: Variant) -> str | None:
        """*tree* with the variant's donor files; None where one would replace a file."""
        if any(self._store.entry(tree, donor.to) for donor in variant.donors):
            return None
        files = {
            donor.to: Entry("100644", self._store.write_blob(self._bases.donor_file(donor))) for donor in variant.donors
        }
        return self._store.with_files(tree, files)

    def _moves(self, before: str, after: str, ours: str) -> str:
        gone = [path for path in self._store.changed_paths(before, after) if not self._store.entry(ours, path)]
        went = self._store.renames(before, ours) if gone else {}
        return "".join(f"; {path} is now {went[path][0]} ({went[path][1]} % alike)" for path in gone if path in went)


def _where(became: Became) -> str:
    moved = sum(bool(place.offset) for place in became.places)
    if became.outcome is Outcome.MERGES:
        return "by a three-way merge"
    return f"{moved} of {len(became.places)} hunks at an offset" if moved else "at the lines it names"
