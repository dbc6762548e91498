"""A branch written back: each commit that changed becomes the diff of its patch's variant again.

What did not change is not written, byte for byte. Nothing of the person's git configuration reaches a diff: the store
makes it from two trees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from patchset import outcome, resolve, rewrite, series
from patchset.bases import Bases
from patchset.changes import Change, commit_changes
from patchset.errors import PatchsetError, SeriesError, WorktreeError
from patchset.outcome import Outcome
from patchset.patch import Patch, Variant
from patchset.recipe import Recipe
from patchset.resolve import Project, Resolved
from patchset.series import Step
from patchset.store import Commit, Entry, Store

_TRAILER = re.compile(r"^Patch: (\S+)\s*$", re.MULTILINE)
_FIXUP = re.compile(r"^(?:fixup|squash|amend)! ")


@dataclass(frozen=True)
class Exported:
    """One patch whose change is another now. ``groups`` are (range, what its releases get), for a person."""

    patch: str
    variant: str
    before: str
    after: str
    groups: tuple[tuple[str, str], ...]
    not_tried: tuple[str, ...]


@dataclass(frozen=True)
class Export:
    """What an export writes. ``tree`` is that of the series afterwards; ``notes`` are lines for a person."""

    exported: tuple[Exported, ...]
    changes: tuple[Change, ...]
    tree: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _At:
    """What an export looks at."""

    store: Store
    bases: Bases
    patches: Mapping[str, Patch]
    resolved: Resolved


def export(project: Project, recipe: Recipe, directory: Path, *, write: bool) -> tuple[Export, tuple[Path, ...]]:
    """Write the checkout's commits back, all files or none: the plan, and the files that change (or would).

    :raises PatchsetError: as :func:`plan`.
    """
    planned = plan(project, recipe, directory, Store.open(project.workspace.store))
    if write:
        return planned, commit_changes(planned.changes, project.workspace.journal)
    return planned, tuple(c.path for c in planned.changes if not c.path.is_file() or c.path.read_bytes() != c.data)


def plan(project: Project, recipe: Recipe, directory: Path, store: Store) -> Export:
    """What `inv export` writes for the checkout at *directory* of *recipe*'s series. Writes nothing.

    :raises WorktreeError: it is no such checkout, or has changes that are not committed.
    :raises SeriesError: a commit belongs to no patch, patches are missing or in another order, a later patch does not go
        on the new tree, or a file does not compile.
    """
    resolved = resolve.resolve(project, recipe, store, lambda text: None)
    tip = _tip(store, directory)
    commits = store.commits_since(resolved.applied.base_commit, tip)
    if commits is None:
        raise WorktreeError(
            f"HEAD is not based on vLLM {recipe.pin.release} as recipe {recipe.name} has it",
            where=str(directory),
            next=f"./inv edit PATCH -r {recipe.name} makes a checkout; or name the recipe it is of: -r",
        )
    return plan_commits(project, resolved, commits, store, directory)


def plan_commits(
    project: Project, resolved: Resolved, commits: Sequence[Commit], store: Store, directory: Path
) -> Export:
    """The same for *commits*, oldest first, on the base of *resolved*."""
    steps = [step for step in resolved.applied.steps if step.outcome.changes_tree]
    grouped = _by_patch(commits, [step.patch for step in steps], directory)
    _check_order(list(grouped), [step.patch for step in steps], directory, resolved.recipe.name)
    bases = project.bases(store)
    at = _At(store, bases, project.patches, resolved)
    notes, exported, changes = [], [], []
    old = new = resolved.applied.base_tree
    for step in steps:
        patch = project.patches[step.patch]
        variant = patch.variant_for(resolved.release.version)
        after = _edited(store, new, grouped[step.patch], step) if step.patch in grouped else None
        if after is None:
            after = _carried(store, bases, new, old, step, variant)
        if not _same(store, bases, variant, new, after):
            done, written = _export(at, patch, variant, new, after)
            exported.append(done)
            changes += written
        title = grouped[step.patch][0].subject if step.patch in grouped else patch.title
        if title != patch.title and not _FIXUP.match(title):
            notes.append(f"{patch.id}: the commit's subject is another one; the title in patch.toml stays")
        old, new = step.tree, after
    touched = store.changed_paths(resolved.applied.base_tree, new)
    series.check_compiles(store, new, touched)
    return Export(tuple(exported), tuple(changes), new, tuple(notes))


# -- the branch ---------------------------------------------------------------------------------------------------------


def _tip(store: Store, directory: Path) -> str:
    if not (directory / ".git").is_dir():
        raise WorktreeError(
            "no checkout there", where=str(directory), next="./inv edit PATCH makes one; --from DIR names another"
        )
    if store.is_unfinished(directory):
        raise WorktreeError(
            "a rebase, merge or cherry-pick is under way there",
            where=str(directory),
            next=f"end it first: git -C {directory} status",
        )
    _, _, changes = store.checkout_state(directory, ignored=False)
    if changes:
        raise WorktreeError(
            f"{len(changes)} files there have changes that are not committed, the first is {changes[0]}",
            where=str(directory),
            next=f"git -C {directory} commit --all --amend, or --fixup COMMIT; then ./inv export",
        )
    return store.bring_head(directory)


def _by_patch(commits: Sequence[Commit], known: Sequence[str], directory: Path) -> dict[str, list[Commit]]:
    """Patch → its commits, in the order in which patches first come. A fixup belongs to the last commit it can mean."""
    found: dict[str, list[Commit]] = {}
    subjects: dict[str, str] = {}
    for commit in commits:
        short = f"{commit.id[:12]} ({commit.subject})"
        if len(commit.parents) != 1:
            raise SeriesError(
                f"commit {short} is a merge, and a series has none",
                where=str(directory),
                next=f"git -C {directory} rebase -i, without the merge",
            )
        trailers = _TRAILER.findall(commit.message)
        fixup = _FIXUP.match(commit.subject)
        patch = subjects.get(_FIXUP.sub("", commit.subject), "") if fixup else trailers[-1] if trailers else ""
        if patch not in known:
            raise SeriesError(
                f"commit {short} belongs to no patch of the series"
                + (f": it names {patch!r}" if patch else ": it has no line Patch: ID, and is no fixup of one that has"),
                where=str(directory),
                next=f"./inv new ID --commit {commit.id[:12]} --from {directory}, or fold it into a patch: "
                f"git -C {directory} rebase -i",
            )
        found.setdefault(patch, []).append(commit)
        if not fixup:
            subjects[commit.subject] = patch
    return found


def _check_order(there: list[str], wanted: list[str], directory: Path, recipe: str) -> None:
    if there != wanted[: len(there)]:
        missing = [patch for patch in wanted[: wanted.index(there[-1]) + 1] if patch not in there] if there else []
        what = f"{', '.join(missing)} is missing there" if missing else f"it has {', '.join(there)}"
        raise SeriesError(
            f"the branch is not the series of {recipe} in its order ({', '.join(wanted)}): {what}",
            where=str(directory),
            next='./inv drop PATCH --reason "…" leaves one out, ./inv move PATCH changes the order; then ./inv edit again',
        )


def _edited(store: Store, before: str, commits: Sequence[Commit], step: Step) -> str:
    """The tree after the commits of one patch, on the tree *before* them."""
    tree = before
    for commit in commits:
        parent = store.commit_at(commit.parents[0]).tree
        if parent == tree:
            tree = commit.tree
            continue
        merged = store.merge(parent, tree, commit.tree)
        if merged.conflicts:
            raise SeriesError(
                f"commit {commit.id[:12]} ({commit.subject}) does not go where patch {step.patch} is: "
                f"{', '.join(merged.conflicts)}",
                where=step.patch,
                next="git rebase -i --autosquash in the checkout, resolve there, then ./inv export",
            )
        tree = merged.tree
    return tree


def _carried(store: Store, bases: Bases, new: str, old: str, step: Step, variant: Variant) -> str:
    """The tree after a patch that is not on the branch: what it did to *old*, done to *new*."""
    if new == old:
        return step.tree
    became = outcome.become(store, new, variant, bases.donor_file)
    if became.outcome is Outcome.APPLIES:
        return became.tree
    merged = store.merge(old, new, step.tree)
    if merged.conflicts:
        raise SeriesError(
            f"after the edit, patch {step.patch} does not go in any more: {', '.join(merged.conflicts)}",
            where=f"variant {step.variant}",
            next=f"./inv apply --checkout DIR, edit there so that {step.patch} still fits (git rebase -i), then ./inv export --from DIR",
        )
    return merged.tree


def _same(store: Store, bases: Bases, variant: Variant, before: str, after: str) -> bool:
    """Does the variant, as it is, make *after* of *before*?"""
    became = outcome.become(store, before, variant, bases.donor_file)
    return became.outcome is Outcome.APPLIES and became.tree == after


# -- variants -----------------------------------------------------------------------------------------------------------


@dataclass
class _Group:
    """Releases next to each other that get one diff; None keeps the old one."""

    releases: list[str]
    diff: bytes | None
    how: str


def _export(at: _At, patch: Patch, variant: Variant, before: str, after: str) -> tuple[Exported, list[Change]]:
    if after == before:
        raise SeriesError(
            f"patch {patch.id} changes nothing any more",
            where=f"variant {variant.name}",
            next=f'./inv drop {patch.id} --reason "…"',
        )
    groups, not_tried = _groups(at, patch, variant, _with_donors(at, variant, before), after)
    told = tuple((_range(group), group.how) for group in groups)
    return Exported(patch.id, variant.name, before, after, told, not_tried), _written(patch, variant, groups)


def _with_donors(at: _At, variant: Variant, tree: str) -> str:
    """*tree* with the variant's donor files in."""
    files = {donor.to: Entry("100644", at.store.write_blob(at.bases.donor_file(donor))) for donor in variant.donors}
    return at.store.with_files(tree, files)


def _groups(at: _At, patch: Patch, variant: Variant, before: str, after: str) -> tuple[list[_Group], tuple[str, ...]]:
    """What each release of the variant's range gets, and the releases that are not here to be tried.

    *before* is the recipe's tree with the donor files, *after* the edited one.
    """
    data = at.store.diff(before, after)
    here = at.bases.here()
    groups: list[_Group] = []
    not_tried = []
    for release in at.bases.upstream.releases:
        if not variant.releases.contains(release, prereleases=True):
            continue
        if release == at.resolved.release.version:
            diff, how = data, "the new diff"
        elif release not in here:
            not_tried.append(release)
            diff, how = data, "the new diff"
        else:
            ours = _with_donors(at, variant, _before(at, patch, release))
            diff, how = _for_release(at.store, ours, data, before, after, groups)
        if groups and groups[-1].diff == diff:
            groups[-1].releases.append(release)
        else:
            groups.append(_Group([release], diff, how))
    return groups, tuple(not_tried)


def _before(at: _At, patch: Patch, release: str) -> str:
    """The tree of *release* with the patches before *patch* that go in there."""
    tree = at.bases.tree(release)
    for step in at.resolved.applied.steps:
        if step.patch == patch.id:
            break
        earlier = at.patches[step.patch]
        with suppress(PatchsetError):  # no variant for that release: it does without
            variant = earlier.variant_for(release)
            tree = series.apply_patch(at.store, tree, "", earlier, variant, at.bases.donor_file, verify=False).tree
    return tree


def _for_release(
    store: Store, ours: str, data: bytes, before: str, after: str, groups: Sequence[_Group]
) -> tuple[bytes | None, str]:
    for diff in dict.fromkeys([data, *(group.diff for group in groups)]):
        if diff is not None and outcome.apply_diff(store, ours, diff, verify=False).outcome is Outcome.APPLIES:
            return diff, "the new diff" if diff == data else "carried by a three-way merge"
    merged = store.merge(before, ours, after)
    if merged.conflicts or merged.tree == ours:
        return None, "keeps the old diff: the edit does not go in there"
    return store.diff(ours, merged.tree), "carried by a three-way merge"


def _range(group: _Group) -> str:
    return rewrite.closed_range(group.releases[0], group.releases[-1])


def _written(patch: Patch, variant: Variant, groups: Sequence[_Group]) -> list[Change]:
    """Diffs and patch.toml for *groups*: the first diff that is new takes the old one's name if that is not kept."""
    assert variant.diff is not None or variant.donors
    file = patch.folder / "patch.toml"
    text, changes = file.read_text("utf-8"), []
    shared = [other for other in patch.variants if other.diff == variant.diff and other is not variant]
    kept = variant.diff is not None and (bool(shared) or any(group.diff is None for group in groups))
    names: dict[bytes, str] = {}
    for group in groups:
        if group.diff is not None and group.diff not in names:
            name = f"{group.releases[0]}-{group.releases[-1]}.patch"
            if variant.diff is not None and not kept and not names:
                name = variant.diff.name
            elif len(group.releases) == 1:
                name = f"{group.releases[0]}.patch"
            names[group.diff] = _free(patch, name, group.diff, names.values(), variant if not kept else None)
            changes.append(Change(patch.folder / names[group.diff], group.diff))
    old = variant.diff.name if variant.diff else None
    for index, group in enumerate(groups):
        name = old if group.diff is None else names[group.diff]
        if index == 0:
            if _range(group) != variant.name and len(groups) > 1:
                text = rewrite.set_range(text, variant.name, _range(group))
            if name != old:
                text = rewrite.set_diff(text, _range(group) if len(groups) > 1 else variant.name, str(name))
        else:
            text = rewrite.add_variant(
                text,
                rewrite.NewVariant(
                    _range(group), name, variant.donors, variant.upstream, variant.absent, note=variant.note
                ),
            )
    return [*changes, Change(file, text.encode())]


def _free(patch: Patch, wanted: str, data: bytes, taken: object, own: Variant | None) -> str:
    stem, number = wanted.removesuffix(".patch"), 1

    def used(name: str) -> bool:
        file = patch.folder / name
        mine = own is not None and own.diff == file
        return name in taken or (file.exists() and not mine and file.read_bytes() != data)  # type: ignore[operator]

    while used(wanted):
        number += 1
        wanted = f"{stem}-{number}.patch"
    return wanted
