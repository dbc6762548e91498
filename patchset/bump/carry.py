"""One patch carried to another release: by a variant that is there, by the nearest one, or by a three-way merge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import shorten

from patchset.bases import Bases
from patchset.errors import DiffRefused, ProbeError, SeriesError, SourceError
from patchset.outcome import Became, Outcome, become
from patchset.patch import Patch, Variant
from patchset.probe import Finding, Verdict
from patchset.rewrite import NewVariant, closed_range
from patchset.series import apply_patch
from patchset.store import Merged, Store
from patchset.variants import behind, exact_diff, with_donors
from patchset.workspace import digest

#: (patch, tree before it, tree with it) → what is wrong with the latter; empty if nothing is.
Complaint = Callable[[Patch, str, str], str]

#: What says that one release is no use here: it cannot be had, or its patches do not fit together. Anything else, such as a
#: store that fails, says nothing about the release: to go on without it would carry the patch, or ask, otherwise by chance.
_NO_USE = (SourceError, SeriesError)


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

    ``ours`` is the tree at the target with the series so far (and the patch's donor files), ``merged`` what git makes of
    it, ``settled`` that without the files that clash; ``source`` and ``variant`` what the patch was taken from. ``offered`` is
    the merged tree with those remembered resolutions in it that fit, if some do.
    """

    patch: str
    source: str
    variant: Variant
    ours: str
    merged: Merged
    settled: str
    why: str
    offered: str = ""

    @property
    def attempt(self) -> str:
        """The tree to lay out for a person."""
        return self.offered or self.merged.tree

    @property
    def key(self) -> str:
        """sha256 of all that clashes: the same where a person would be asked the same question, and only there.

        The files with markers are not in it, the sides that they are made of are: git shortens the name of the common base
        in a marker to as many digits as the number of objects in the store calls for, so their bytes change as it grows.
        """
        sides = [(path, stage, entry.mode, entry.blob) for path, stage, entry in self.merged.stages]
        return digest([self.patch, self.source, self.ours, self.settled, sides])


class Carrier:
    """Carries the patches of a series to *release*, one after the other.

    :param asked: patch → key of the clash that a person was asked about: it is the one to come back as long as it can,
        though a nearer source may have come since.
    """

    def __init__(
        self,
        store: Store,
        bases: Bases,
        release: str,
        series: Sequence[Patch],
        complaint: Complaint,
        asked: Mapping[str, str] | None = None,
    ) -> None:
        self._complaint = complaint
        self._asked = asked or {}
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
                next="mend the probe, then bump again: --continue if it is under way",
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
                how, edit = self._extended(patch, variant, "its evidence stands here too", wanted)
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
                if became and became.outcome is Outcome.APPLIES and not self._complaint(patch, tree, became.tree):
                    how, edit = self._extended(patch, variant, _where(became), Outcome.APPLIES)
                    return Carried(patch.id, Outcome.APPLIES, how, became.tree, edit)
        return self._merge(patch, tree)

    def _merge(self, patch: Patch, tree: str) -> Carried | Clash:
        clashes = []
        for source, variant in self._sources(patch):
            before, after = self._at_source(patch, source, variant)
            if after is None:
                continue
            ours = self._beside_donors(tree, variant)
            if ours is None:
                continue
            merged = self._store.merge(before, ours, after)
            if merged.conflicts:
                why = self._clashing(before, ours, after, merged.conflicts)
            elif merged.tree == ours:
                why = "the change is in already, and yet its probe finds the defect"
            else:
                wrong = self._complaint(patch, ours, merged.tree)
                if not wrong:
                    how = f"three-way merge of variant {variant.name} from {source}{self._moves(before, after, ours)}"
                    return self.derived(patch, variant, ours, merged.tree, how)
                why = f"it merges cleanly from {source}, but {wrong}"
            settled = self._store.with_files(merged.tree, dict.fromkeys(merged.conflicts))
            clashes.append(Clash(patch.id, source, variant, ours, merged, settled, why))
        clashes.append(self._unwritten(patch, tree))
        return next((clash for clash in clashes if clash.key == self._asked.get(patch.id)), clashes[0])

    def _unwritten(self, patch: Patch, tree: str) -> Clash:
        """Nothing can be carried here: the change is for a person to write, on the tree as it is."""
        nearest = replace(self._by_distance(patch)[0], donors=())
        why = f"no variant of it that changes anything goes in on a release that is here, and {self._release} has the defect"
        return Clash(patch.id, self._release, nearest, tree, Merged(tree, (), ""), tree, why)

    def derived(self, patch: Patch, variant: Variant, ours: str, result: str, how: str) -> Carried:
        """The change from *ours* to *result* as a variant of its own, with the donor files of *variant*.

        :raises DiffRefused: the change holds what no diff may hold.
        :raises SeriesError: no diff of it goes in at one place only.
        """
        data = exact_diff(self._store, ours, result, f"{patch.id} at {self._release}")
        note = f"{how[:1].upper()}{how[1:]}."
        added = NewVariant(f"=={self._release}", diff=f"{self._release}.patch", donors=variant.donors, note=note)
        edit = replace(self._carved(patch, self._covering(patch)), added=added, diff=data)
        return Carried(patch.id, Outcome.APPLIES, how, result, edit)

    # -- variants ------------------------------------------------------------------------------------------------------

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

    def _extended(self, patch: Patch, variant: Variant, why: str, wanted: Outcome) -> tuple[str, Edit]:
        """The variant for this release too: its range made wider if nothing untried is in between, else one more with the
        same content. *wanted* is what must come out on every release in between.
        """
        at, indices = self._known.index(self._release), self._indices(variant)
        nearest = min(indices, key=lambda index: abs(index - at))
        between = [self._known[index] for index in range(min(at, nearest) + 1, max(at, nearest))]
        if all(self._holds(patch, variant, release, wanted) for release in between):
            ends = sorted((at, indices[0], indices[-1]))
            wider = closed_range(self._known[ends[0]], self._known[ends[-1]])
            tried = f"; so it is, by its text, in {', '.join(between)}" if between else ""
            return f"variant {variant.name} reaches to here: {why}{tried}", Edit(widened=(variant.name, wider))
        return f"as variant {variant.name}: {why}", Edit(added=NewVariant.of(variant, f"=={self._release}"))

    def _holds(self, patch: Patch, variant: Variant, release: str, wanted: Outcome) -> bool:
        """Does *variant* become *wanted* on *release* too? Releases that would have to be downloaded are not tried."""
        if patch.covers(release):
            return False  # another variant has it, and a range cannot reach over that
        if release not in self._bases.here() and not self._bases.archive(release).is_file():
            return False
        try:
            return self._become(self._before(patch, release), variant).outcome is wanted
        except _NO_USE:
            return False

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
            tree = self._before(patch, source)
            step = apply_patch(self._store, tree, "", patch, variant, self._bases.donor_file, verify=False)
            before = self._beside_donors(tree, variant)
        except _NO_USE:
            return "", None  # the next one may do
        return (before or tree), step.tree if step.outcome.changes_tree and before else None

    def _before(self, patch: Patch, release: str) -> str:
        """The tree of *release* with the patches before *patch* that go in there."""
        return behind(self._store, self._bases, self._series[: self._series.index(patch)], release)

    def _beside_donors(self, tree: str, variant: Variant) -> str | None:
        """*tree* with the variant's donor files; None where one would replace a file."""
        if any(self._store.entry(tree, donor.to) for donor in variant.donors):
            return None
        return with_donors(self._store, self._bases, variant, tree)

    def _moves(self, before: str, after: str, ours: str) -> str:
        gone = [path for path in self._store.changed_paths(before, after) if not self._store.entry(ours, path)]
        went = self._store.renames(before, ours) if gone else {}
        return "".join(f"; {path} is now {went[path][0]} ({went[path][1]} % alike)" for path in gone if path in went)

    def _clashing(self, before: str, ours: str, after: str, paths: Sequence[str]) -> str:
        """Why *paths* clash, for a person."""
        gone = [path for path in paths if not self._store.entry(ours, path)]
        removed = [path for path in paths if path not in gone and not self._store.entry(after, path)]
        removed = [path for path in removed if self._store.entry(before, path)]
        both = [path for path in paths if path not in gone and path not in removed]
        told = ((both, "both the release and the patch changed the same lines"),
                (gone, f"{self._release} does not have it any more, and the patch changes it"),
                (removed, "the patch removes it, and the release changed it"))  # fmt: skip
        return "; ".join(f"{', '.join(some)}: {what}" for some, what in told if some) + self._moves(before, after, ours)


def _where(became: Became) -> str:
    moved = sum(bool(place.offset) for place in became.places)
    if became.outcome is Outcome.MERGES:
        return "by a three-way merge"
    return f"{moved} of {len(became.places)} hunks at an offset" if moved else "at the lines it names"
