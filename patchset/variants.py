"""The change of a patch as the diffs of its variants: for the release it was made on, and for the others of the range."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchset import outcome, rewrite, series
from patchset.bases import Bases
from patchset.changes import Change, free_name
from patchset.errors import PatchsetError, SeriesError
from patchset.outcome import Outcome
from patchset.patch import Patch, Variant
from patchset.store import Entry, Store

#: Lines around a change: the fewest of these that make its place the only one; the last is the whole file.
_CONTEXTS = (3, 5, 10, 20, 40, 80, 1_000_000)

NEW, MERGED = "the new diff", "carried by a three-way merge"


@dataclass
class Group:
    """Releases next to each other that get one diff (None: they keep the old one), and in words what they get."""

    releases: list[str]
    diff: bytes | None
    how: str

    @property
    def range(self) -> str:
        """Its releases as a closed range."""
        return rewrite.closed_range(self.releases[0], self.releases[-1])


@dataclass
class Carrying:
    """The patches before the one at hand, on every release: ``edited`` has the diffs that they get now."""

    store: Store
    bases: Bases
    patches: Sequence[Patch]
    release: str
    edited: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def before(self, patch: str, release: str, *, edited: bool = True) -> str:
        """The tree of *release* with the patches before *patch* (empty: with all) that go in there."""
        tree = self.bases.tree(release)
        for earlier in self.patches:
            if earlier.id == patch:
                break
            tree = self._step(earlier, release, tree, edited)[1]
        return tree

    def broken(self, release: str) -> tuple[str, ...]:
        """The patches that go into *release* with the old diffs, and not with the new ones."""
        old = new = self.bases.tree(release)
        found = []
        for patch in self.patches:
            went, old = self._step(patch, release, old, False)
            goes, new = self._step(patch, release, new, True)
            if went and not goes:
                found.append(patch.id)
        return tuple(found)

    def _step(self, patch: Patch, release: str, tree: str, edited: bool) -> tuple[bool, str]:
        """(nothing stops there, the tree after *patch*)."""
        try:
            variant = patch.variant_for(release)
            data = self.edited.get((patch.id, release)) if edited else None
            if data is None:
                became = outcome.become(self.store, tree, variant, self.bases.donor_file, verify=False)
            else:
                tree_with = with_donors(self.store, self.bases, variant, tree)
                became = outcome.apply_diff(self.store, tree_with, data, f"{patch.id} on {release}", verify=False)
        except PatchsetError:  # no variant for that release, or a diff that is refused: it does without
            return False, tree
        return not became.outcome.stops, became.tree if became.outcome.changes_tree else tree


def behind(store: Store, bases: Bases, patches: Sequence[Patch], release: str) -> str:
    """The tree of *release* with those of *patches* that go in there, each by its variant nearest to it.

    :raises SourceError: the release or a donor cannot be had.
    :raises SeriesError: one applies and changes nothing.
    """
    tree, known = bases.tree(release), tuple(bases.upstream.releases)
    for patch in patches:
        variant = patch.nearest(release, known)
        tree = series.apply_patch(store, tree, "", patch, variant, bases.donor_file, verify=False).tree
    return tree


def with_donors(store: Store, bases: Bases, variant: Variant, tree: str) -> str:
    """*tree* with the variant's donor files in."""
    files = {donor.to: Entry("100644", store.write_blob(bases.donor_file(donor))) for donor in variant.donors}
    return store.with_files(tree, files)


def exact_diff(store: Store, before: str, after: str, name: str) -> bytes:
    """A diff that makes *after* of *before*, and goes in at one place only: with more context where three lines do not do.

    :raises DiffRefused: the change holds what no diff may hold.
    :raises SeriesError: no amount of context makes it go in at one place.
    """
    became = None
    for context in _CONTEXTS:
        data = store.diff(before, after, context=context)
        became = outcome.apply_diff(store, before, data, name)
        if became.outcome is Outcome.APPLIES and became.tree == after:
            return data
    said = f"{became.outcome.value}: {'; '.join(became.evidence[:3])}" if became else ""
    raise SeriesError(
        f"no diff of this change would go in where it is meant ({said})",
        where=name,
        next="edit there so that the lines around the change stand in the file once, then export again",
    )


def groups(
    carrying: Carrying, patch: Patch, variant: Variant, before: str, after: str
) -> tuple[list[Group], tuple[str, ...]]:
    """What each release of the variant's range gets for the change from *before* to *after*, and those that are not here.

    Both trees are those of ``carrying.release``, *before* with the donor files. ``carrying.edited`` has the diffs afterwards.
    """
    name = f"{patch.id} {variant.name}"
    data = exact_diff(carrying.store, before, after, name)
    here = carrying.bases.here()
    found: list[Group] = []
    not_tried = []
    for release in carrying.bases.upstream.releases:
        if not variant.releases.contains(release, prereleases=True):
            continue
        diff, how = data, NEW
        if release != carrying.release and release not in here:
            not_tried.append(release)
        elif release != carrying.release:
            ours = with_donors(carrying.store, carrying.bases, variant, carrying.before(patch.id, release))
            diff, how = _for_release(carrying.store, name, ours, data, before, after, found)
        if diff is not None:
            carrying.edited[patch.id, release] = diff
        if found and found[-1].diff == diff and found[-1].how == how:
            found[-1].releases.append(release)
        else:
            found.append(Group([release], diff, how))
    return found, tuple(not_tried)


def _for_release(
    store: Store, name: str, ours: str, data: bytes, before: str, after: str, found: Sequence[Group]
) -> tuple[bytes | None, str]:
    """(the diff that a release gets whose tree is *ours*, how it came to it); None: it keeps its own."""
    for diff in dict.fromkeys([data, *(group.diff for group in found)]):
        if diff is None:
            continue
        became = outcome.apply_diff(store, ours, diff, name, verify=False)
        if became.outcome is Outcome.APPLIES:
            bad = _not_compiling(store, ours, became.tree)
            return (None, bad) if bad else (diff, NEW if diff == data else MERGED)
    merged = store.merge(before, ours, after)
    if merged.conflicts or merged.tree == ours:
        return None, "keeps the old diff: the edit does not go in there"
    bad = _not_compiling(store, ours, merged.tree)
    if bad:
        return None, bad
    try:
        return exact_diff(store, ours, merged.tree, name), MERGED
    except SeriesError:
        return None, "keeps the old diff: the edit fits more than one place there"


def _not_compiling(store: Store, before: str, after: str) -> str:
    try:
        series.check_compiles(store, after, store.changed_paths(before, after))
    except SeriesError as error:
        return f"keeps the old diff: with the edit {error.where} does not compile there"
    return ""


# -- files --------------------------------------------------------------------------------------------------------------


def written(patch: Patch, variant: Variant, found: Sequence[Group]) -> list[Change]:
    """Diffs and patch.toml for *found*: the first diff that is new takes the old one's name, unless that is still needed."""
    file = patch.folder / "patch.toml"
    text, changes = file.read_text("utf-8"), []
    shared = any(other.diff == variant.diff and other is not variant for other in patch.variants)
    kept = variant.diff is not None and (shared or any(group.diff is None for group in found))
    names: dict[bytes, str] = {}
    for group in found:
        if group.diff is None or group.diff in names:
            continue
        if variant.diff is not None and not kept and not names:
            name = variant.diff.name
        else:
            ends = dict.fromkeys([group.releases[0], group.releases[-1]])
            name = diff_name(patch.folder, "-".join(ends), group.diff, names.values())
        names[group.diff] = name
        changes.append(Change(patch.folder / name, group.diff))
    old = variant.diff.name if variant.diff else None
    pieces = _joined(found, names, old)
    for index, (range, name) in enumerate(pieces):
        if index == 0:
            if len(pieces) > 1:
                text = rewrite.set_range(text, variant.name, range)
            if name is not None and name != old:
                text = rewrite.set_diff(text, range if len(pieces) > 1 else variant.name, name)
        else:
            text = rewrite.add_variant(text, replace(rewrite.NewVariant.of(variant, range), diff=name))
    return [*changes, Change(file, text.encode())]


def _joined(found: Sequence[Group], names: Mapping[bytes, str], old: str | None) -> list[tuple[str, str | None]]:
    """(range, file) with neighbours of one file as one."""
    pieces: list[tuple[list[str], str | None]] = []
    for group in found:
        name = old if group.diff is None else names[group.diff]
        if pieces and pieces[-1][1] == name:
            pieces[-1][0].extend(group.releases)
        else:
            pieces.append((list(group.releases), name))
    return [(rewrite.closed_range(releases[0], releases[-1]), name) for releases, name in pieces]


def diff_name(folder: Path, wanted: str, data: bytes, taken: Collection[str] = ()) -> str:
    """The name of the file in *folder* for the diff *data*: ``<wanted>.patch``, or with a number where that is another's."""

    def is_another(name: str) -> bool:
        return name in taken or ((folder / name).exists() and (folder / name).read_bytes() != data)

    return free_name(wanted, is_another, ".patch")
