"""A branch written back: each commit that changed becomes the diff of its patch's variant again.

What did not change is not written, byte for byte. Nothing of the person's git configuration reaches a diff: the store
makes it from two trees.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset import branch, newpatch, outcome, resolve, series, variants
from patchset.branch import Branch, Unnamed
from patchset.changes import Change, commit_changes
from patchset.errors import PatchsetError, SeriesError, WorktreeError
from patchset.outcome import Outcome
from patchset.patch import Patch, Variant, read_patches
from patchset.patches_page import with_page
from patchset.recipe import Recipe
from patchset.resolve import Project, Resolved
from patchset.series import Step
from patchset.store import Commit, Store
from patchset.variants import Carrying
from patchset.workspace import copy_folder


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
    """What an export writes. ``tree`` is that of the series afterwards; ``notes`` are lines for a person.

    ``recipes`` are those that get another diff by it, and so need another lock.
    """

    exported: tuple[Exported, ...]
    changes: tuple[Change, ...]
    tree: str
    notes: tuple[str, ...]
    recipes: tuple[str, ...] = ()


def export(project: Project, recipe: Recipe, directory: Path, *, write: bool) -> tuple[Export, tuple[Path, ...]]:
    """Write the checkout's commits back, all files or none: the plan, and the files that change (or would).

    :raises PatchsetError: as :func:`plan`.
    """
    store = Store.open(project.workspace.store)
    head, planned = _planned(project, recipe, directory, store)
    changes = with_page(project, planned.changes)
    if write:
        written = commit_changes(changes, project.workspace.journal)
        store.note_exported(directory, head)
        return planned, written
    return planned, tuple(change.path for change in changes if change.is_one())


def plan(project: Project, recipe: Recipe, directory: Path, store: Store) -> Export:
    """What `inv export` writes for the checkout at *directory* of *recipe*'s series. Writes nothing.

    :raises WorktreeError: it is no such checkout, has changes that are not committed, or is of an older series.
    :raises SeriesError: a commit belongs to no patch, patches are missing or in another order, a later patch does not go
        on the new tree, a file does not compile, or no diff of a change would go in where it is meant.
    """
    return _planned(project, recipe, directory, store)[1]


def _planned(project: Project, recipe: Recipe, directory: Path, store: Store) -> tuple[str, Export]:
    resolved = resolve.resolve(project, recipe, store, lambda text: None)
    head = branch.tip(store, directory)
    commits = store.commits_since(resolved.applied.base_commit, head)
    if commits is None:
        raise WorktreeError(
            f"HEAD is not based on vLLM {recipe.pin.release} as recipe {recipe.name} has it",
            where=str(directory),
            next=f"./inv edit PATCH -r {recipe.name} makes a checkout; or name the recipe it is of: -r",
        )
    left = branch.left_as(store, directory, resolved.applied.base_commit, _unnamed(project, resolved, store))
    stale = _changed_since(project, resolved, store, left)
    try:
        planned = plan_commits(project, resolved, commits, store, directory, [patch for patch, _, _ in left])
    except SeriesError as error:
        if stale:
            raise _stale(recipe, directory, stale) from error
        raise
    if stale and planned.exported:
        raise _stale(recipe, directory, stale)
    return head, planned


def plan_commits(
    project: Project,
    resolved: Resolved,
    commits: Sequence[Commit],
    store: Store,
    directory: Path,
    left: Sequence[str] = (),
) -> Export:
    """The same for *commits*, oldest first, on the base of *resolved*; the patches *left* there must be among them."""
    steps = _changing(resolved)
    again = f"./inv export -r {resolved.recipe.name} --from {directory}"
    unnamed = _unnamed(project, resolved, store)
    there = branch.by_patch(commits, [step.patch for step in steps], directory, again, unnamed)
    branch.check_order(there, [step.patch for step in steps], left)
    bases = project.bases(store, upstream=resolved.recipe.pin.upstream)
    carrying = Carrying(store, bases, project.series_of(resolved.recipe), resolved.release.version)
    notes, exported = [], []
    changes: list[Change] = []
    old = new = resolved.applied.base_tree
    for step in steps:
        patch = project.patches[step.patch]
        variant = patch.variant_for(resolved.release.version)
        there_too = step.patch in there.commits
        after = (
            branch.tree_after(store, there, step.patch, new)
            if there_too
            else _carried(carrying, there, new, old, step, variant)
        )
        if (new, after) != (old, step.tree) and not _same(carrying, variant, new, after):
            done, written = _export(carrying, patch, variant, new, after)
            exported.append(done)
            changes += written
        if there_too and there.commits[step.patch][0].subject != patch.title:
            notes.append(f"{patch.id}: the commit's subject is another one; the title in patch.toml stays")
        old, new = step.tree, after
        if there_too and step.patch == list(there.commits)[-1]:
            _require_tip(there, commits[-1], new, store)
    series.check_compiles(store, new, store.changed_paths(resolved.applied.base_tree, new))
    if changes:
        _prove(project, resolved, store, changes, new)
        notes += _broken(carrying)
    recipes = _concerned(project, resolved.recipe, carrying) if changes else ()
    return Export(tuple(exported), tuple(changes), new, tuple(notes), recipes)


def check_untouched(project: Project, resolved: Resolved, store: Store) -> tuple[str, ...]:
    """What is wrong with exporting the series of *resolved* as it is, a line each: nothing, if it would write nothing,
    and could write each of its diffs anew so that it makes the same tree.

    Trees are compared, not bytes: hunk numbers and ids of files differ where a diff is for another release of its range.
    """
    commits = store.commits_since(resolved.applied.base_commit, resolved.applied.commit) or ()
    planned = plan_commits(project, resolved, commits, store, resolved.recipe.file)
    wrong = [f"{item.patch} {item.variant}: its diff is not what its commit says" for item in planned.exported]
    bases = project.bases(store, upstream=resolved.recipe.pin.upstream)
    before = resolved.applied.base_tree
    for step in _changing(resolved):
        variant = project.patches[step.patch].variant_for(resolved.release.version)
        donated = variants.with_donors(store, bases, variant, before)
        if variant.diff is not None:
            try:
                variants.exact_diff(store, donated, step.tree, f"{step.patch} {step.variant}")
            except PatchsetError as error:
                wrong.append(f"{step.patch} {step.variant}: {error.what}")
        before = step.tree
    return tuple(wrong)


def _changing(resolved: Resolved) -> list[Step]:
    return [step for step in resolved.applied.steps if step.outcome.changes_tree]


def _unnamed(project: Project, resolved: Resolved, store: Store) -> Unnamed:
    """What a commit without a line ``Patch: ID`` may be: `inv new` made a patch of it, and it stands there as it was written.

    That is the patch that does just what it does; or, as it may have been amended since, one that has its subject as title.
    """
    donor_file = project.bases(store, upstream=resolved.recipe.pin.upstream).donor_file

    def patches(commit: Commit, taken: Collection[str]) -> Sequence[str]:
        left = [project.patches[step.patch] for step in _changing(resolved) if step.patch not in taken]
        before = store.commit_at(commit.parents[0]).tree
        made = {
            patch.id: outcome.become(
                store, before, patch.variant_for(resolved.release.version), donor_file, verify=False
            )
            for patch in left
        }
        same = [id for id, became in made.items() if became.outcome.changes_tree and became.tree == commit.tree]
        title = newpatch.cut(newpatch.one_line(commit.subject), newpatch.TITLE_LIMIT)
        return same or [patch.id for patch in left if patch.title == title]

    return patches


def _changed_since(
    project: Project, resolved: Resolved, store: Store, left: Sequence[tuple[str, str, str]]
) -> tuple[str, ...]:
    """The patches that are not what they were when the checkout was *left*: (patch, tree before it, tree after it)."""
    bases = project.bases(store, upstream=resolved.recipe.pin.upstream)
    now = [step.patch for step in _changing(resolved)]
    changed = []
    for patch, before, after in left:
        if patch in now:
            variant = project.patches[patch].variant_for(resolved.release.version)
            if outcome.become(store, before, variant, bases.donor_file, verify=False).tree != after:
                changed.append(patch)
    names = [patch for patch, _, _ in left]
    last = max((now.index(patch) for patch in names if patch in now), default=0)
    return (*changed, *(patch for patch in now[:last] if patch not in names))


def _stale(recipe: Recipe, directory: Path, changed: Sequence[str]) -> WorktreeError:
    """The patches were changed elsewhere since: writing this branch would undo that."""
    return WorktreeError(
        f"since this checkout was made, {', '.join(changed)} changed in recipes/patches; writing it back would undo that",
        where=str(directory),
        next=f"./inv apply -r {recipe.name} --checkout NEW makes a checkout of today; bring your commits there "
        f"(git -C NEW fetch {directory}, git -C NEW cherry-pick …), then ./inv export -r {recipe.name} --from NEW",
    )


def _carried(carrying: Carrying, there: Branch, new: str, old: str, step: Step, variant: Variant) -> str:
    """The tree after a patch that is not on the branch: what it did to *old*, done to *new*."""
    if new == old:
        return step.tree
    became = outcome.become(carrying.store, new, variant, carrying.bases.donor_file)
    if became.outcome is Outcome.APPLIES:
        return became.tree
    merged = carrying.store.merge(old, new, step.tree)
    if merged.conflicts:
        raise SeriesError(
            f"after the edit, patch {step.patch} does not go in any more: {', '.join(merged.conflicts)}",
            where=f"variant {step.variant}",
            next="./inv apply --checkout DIR has the whole series: make the edit there, resolve behind it "
            f"(git rebase -i), then ./inv export --from DIR; or edit {there.directory} so that {step.patch} still fits",
        )
    return merged.tree


def _require_tip(there: Branch, tip: Commit, tree: str, store: Store) -> None:
    """:raises SeriesError: a fixup, merged in where its patch is, leads to other files than the person has before them."""
    if tree != tip.tree:
        raise SeriesError(
            f"with each commit where its patch is, the branch makes other files than HEAD has: "
            f"{', '.join(store.changed_paths(tip.tree, tree)[:5])}",
            where=str(there.directory),
            next=f"git -C {there.directory} rebase -i --autosquash {next(iter(there.commits.values()))[0].id[:12]}~1, "
            f"look at these files, then {there.again}",
        )


def _same(carrying: Carrying, variant: Variant, before: str, after: str) -> bool:
    """Does the variant, as it is, make *after* of *before*?"""
    became = outcome.become(carrying.store, before, variant, carrying.bases.donor_file)
    return became.outcome is Outcome.APPLIES and became.tree == after


def _export(
    carrying: Carrying, patch: Patch, variant: Variant, before: str, after: str
) -> tuple[Exported, list[Change]]:
    if after == before:
        raise SeriesError(
            f"patch {patch.id} changes nothing any more",
            where=f"variant {variant.name}",
            next=f'./inv drop {patch.id} --reason "…"',
        )
    donated = variants.with_donors(carrying.store, carrying.bases, variant, before)
    if after == donated:
        raise SeriesError(
            f"nothing is left of the diff of {patch.id} but its donor files",
            where=f"variant {variant.name}",
            next=f"take diff out of that variant in {patch.folder / 'patch.toml'}, and delete {variant.diff}",
        )
    found, not_tried = variants.groups(carrying, patch, variant, donated, after)
    whole = len(found) == 1
    told = tuple((variant.name if whole else group.range, group.how) for group in found)
    return Exported(patch.id, variant.name, before, after, told, not_tried), variants.written(patch, variant, found)


def _concerned(project: Project, recipe: Recipe, carrying: Carrying) -> tuple[str, ...]:
    """The recipes whose series has a patch that is another one now at their release."""
    files = sorted(project.workspace.recipes.glob("*.toml"))
    all_of_them = {item.name: item for item in (recipe, *(project.recipe(str(file)) for file in files))}
    return tuple(
        name
        for name, item in all_of_them.items()
        if any((patch, item.pin.release) in carrying.edited for patch in item.series)
    )


def _broken(carrying: Carrying) -> list[str]:
    """For a person: on which other releases a later patch stops because of what is written."""
    here = [release for release in carrying.bases.here() if release != carrying.release]
    touched = [release for release in here if any(at == release for _, at in carrying.edited)]
    found = [(release, carrying.broken(release)) for release in touched]
    return [
        f"{release}: {', '.join(broken)} no longer goes in behind the edit there (./inv forecast --releases {release})"
        for release, broken in found
        if broken
    ]


def _prove(project: Project, resolved: Resolved, store: Store, changes: Sequence[Change], tree: str) -> None:
    """With *changes* made, the declarations can be read and the series makes *tree*: tried on a copy.

    :raises SeriesError: it makes another.
    """
    workspace, recipe = project.workspace, resolved.recipe
    with workspace.scratch() as folder:
        copy = folder / workspace.patches.name
        copy_folder(workspace.patches, copy)
        for change in changes:
            place = copy / change.path.relative_to(workspace.patches)
            if change.data is None:
                place.unlink()
            else:
                place.write_bytes(change.data)
        upstream = project.upstreams[recipe.pin.upstream]
        patches = read_patches(copy, upstream)
        donor_file = project.bases(store, upstream=upstream.name).donor_file
        tried = series.apply_series(
            store,
            resolved.applied.base_tree,
            resolved.release.version,
            [patches[name] for name in recipe.series],
            None,
            donor_file,
        )
    series.require(tried)
    if tried.tree != tree:
        raise SeriesError(
            f"what would be written makes the tree {tried.tree[:12]}, and the branch {tree[:12]}",
            where=recipe.name,
            next="report it with the branch; nothing was written",
        )
