"""New patches of a series: out of a commit of a checkout, or brought back from another release or repository."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from patchset import newpatch, outcome, series
from patchset.changes import commit_changes
from patchset.errors import DeclarationError, SeriesError
from patchset.newpatch import NewPatch
from patchset.outcome import Outcome
from patchset.patch import Donor
from patchset.patches_page import with_page
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.series import Applied
from patchset.series_try import Changed, applied, require_in_series
from patchset.store import Entry, Store
from patchset.store.elsewhere import ForeignCommit, read_commit


def new(
    project: Project,
    recipe: Recipe,
    id: str,
    *,
    revision: str,
    directory: Path,
    title: str = "",
    why: str = "",
    after: str = "",
) -> Changed:
    """Make the commit *revision* of the repository at *directory* a patch of *recipe*.

    :param title: default: the commit's subject; *why* likewise its body.
    :param after: the patch to put it behind; default: the last one.
    :raises DeclarationError: *id* or *after* is none, or the commit is not there.
    :raises SeriesError: the change does not go in there, or a patch behind it does not any more.
    """
    newpatch.check_id(project, id)
    if after:
        require_in_series(recipe, after, f"name one of {', '.join(recipe.series)} with --after")
    if not directory.is_dir():
        raise DeclarationError(
            "there is no checkout that a commit could be taken from",
            where=str(directory),
            next=f"./inv edit {recipe.series[-1] if recipe.series else 'PATCH'} -r {recipe.name} makes one: commit there, then "
            f"./inv new {id} -r {recipe.name}; or --from DIR names another repository",
        )
    store = Store.open(project.workspace.store)
    commit = read_commit(store, directory, revision)
    if len(commit.parents) != 1:
        raise SeriesError(
            f"commit {commit.id[:12]} has {len(commit.parents)} parents; a patch is one change to one tree",
            where=str(directory),
            next="name a commit that is no merge and has a parent",
        )
    now = applied(project, recipe, store)
    tree = _tree_after(now, recipe, after)
    result, how = _onto(store, tree, commit)
    data = _diff(store, tree, result, id)
    evidence = _behind(project, recipe, store, now, after, result)
    subject, _, body = commit.message.strip().partition("\n")
    patch = NewPatch(
        id, title or subject, why or body.strip() or subject, "fix", newpatch.today(), recipe.pin.release, data
    )  # fmt: skip
    return _written(project, recipe, patch, after, f"new, from commit {commit.id[:12]}, {how}", evidence)


def backport(
    project: Project,
    recipe: Recipe,
    id: str,
    *,
    release: str = "",
    paths: Sequence[str] = (),
    revision: str = "",
    directory: Path | None = None,
    title: str = "",
) -> Changed:
    """Bring a change back to *recipe*'s release: whole files of *release*, or one commit of a repository.

    A file that the release does not have becomes a donor, taken by hash; one that it has becomes a diff to the donor's,
    since a donor may not replace a file. The repository is only read.

    :raises DeclarationError: neither files nor a commit are named, a file is not in *release*, or a commit is not there.
    :raises SeriesError: the change is in already, conflicts with this release, or leaves a file that does not compile.
    """
    newpatch.check_id(project, id)
    by_commit = bool(revision) and directory is not None
    if by_commit == bool(paths) or bool(paths) != bool(release) or bool(revision) != (directory is not None):
        raise DeclarationError(
            "name files (--from RELEASE --path PATH …) or a commit (--commit REV --repository DIR)",
            next=f"./inv backport {id} --from RELEASE --path PATH",
        )
    store = Store.open(project.workspace.store)
    tree = applied(project, recipe, store).tree
    if by_commit and directory is not None:
        return _of_commit(project, recipe, id, store, tree, read_commit(store, directory, revision), title)
    return _of_files(project, recipe, id, store, tree, release, tuple(dict.fromkeys(paths)), title)


# -- what a backport is made of -----------------------------------------------------------------------------------------


def _of_commit(
    project: Project, recipe: Recipe, id: str, store: Store, tree: str, commit: ForeignCommit, title: str
) -> Changed:
    if not commit.parents:
        raise SeriesError("that commit has no parent", where=commit.id, next="name a commit that changes something")
    result, how = _onto(store, tree, commit)
    data = _diff(store, tree, result, id)
    merge = "; a merge, so its change is that against its first parent" if len(commit.parents) > 1 else ""
    told = (
        f"Backport of commit {commit.id}, {how}{merge}.\n"
        f"Author: {newpatch.cut(commit.author, newpatch.TITLE_LIMIT)}\n"
        f"Date: {commit.date:%Y-%m-%d %H:%M} UTC\nSubject: {newpatch.cut(commit.subject, newpatch.TITLE_LIMIT)}"
    )
    why = f"{newpatch.cut(commit.message.strip(), newpatch.WHY_LIMIT)}\n\n{told}"
    patch = NewPatch(id, title or commit.subject, why, "backport", newpatch.today(), recipe.pin.release, data)
    return _written(project, recipe, patch, "", f"backport of commit {commit.id[:12]}, {how}{merge}", ())


def _of_files(
    project: Project,
    recipe: Recipe,
    id: str,
    store: Store,
    tree: str,
    release: str,
    paths: Sequence[str],
    title: str,
) -> Changed:
    bases = project.bases(store, upstream=recipe.pin.upstream)
    name, source = bases.upstream.name, bases.tree(bases.upstream.release(release).version)
    donors: list[Donor] = []
    changed: dict[str, Entry | None] = {}
    files: dict[str, Entry | None] = {}
    evidence: list[str] = []
    for path in paths:
        entry, there = store.entry(source, path), store.entry(tree, path)
        if entry is None:
            raise DeclarationError(
                f"{name} {release} has no file {path}", where=path, next="name it as in its source tree"
            )
        if entry.mode == "120000":
            target = os.fsdecode(store.blob(entry.blob))
            raise DeclarationError(
                f"{path} is a link to {target} in {name} {release}", where=path, next="name the file that it leads to"
            )
        digest = sha256(store.blob(entry.blob)).hexdigest()
        if there == entry:
            raise SeriesError(
                f"{path} is the same here as in {release}",
                where=path,
                next="leave it out: there is nothing to bring back",
            )
        if there:
            changed[path] = entry
            evidence.append(f"{path}: a diff to that of {release}, sha256 {digest}")
        elif store.is_free(tree, path):
            donors.append(Donor(release, path, digest, path))
            files[path] = Entry("100644", entry.blob)  # as a donor is put there
            executable = entry.mode == "100755"
            if executable:
                changed[path] = entry
            evidence.append(f"{path}: as a donor, sha256 {digest}{', made executable by a diff' if executable else ''}")
        else:
            raise SeriesError(
                f"{path} cannot be put here: a folder is there, or a file where its folder would be",
                where=path,
                next=f"./inv apply -r {recipe.name} --checkout DIR shows the tree; make the change there, then ./inv new",
            )
    before = store.with_files(tree, files)
    result = store.with_files(before, changed)
    data = _diff(store, before, result, id) if changed else None
    series.check_compiles(store, result, store.changed_paths(tree, result))
    why = f"Files of {name} {release} on {recipe.pin.release}:\n" + "\n".join(evidence)
    named = title or f"Backport of {', '.join(paths)} from {name} {release}"
    patch = NewPatch(id, named, why, "backport", newpatch.today(), recipe.pin.release, data, tuple(donors))
    what = f"backport of {len(paths)} file{'s' if len(paths) > 1 else ''} from {release}"
    return _written(project, recipe, patch, "", what, tuple(evidence))


# -- a change on a tree -------------------------------------------------------------------------------------------------


def _onto(store: Store, tree: str, commit: ForeignCommit) -> tuple[str, str]:
    """The change of *commit* on *tree*: (the tree, how it got there)."""
    parent, result = commit.parents[0], commit.tree
    if parent == tree:
        return result, "on the very tree it was made on"
    change = store.diff(parent, result)
    if not change:
        raise SeriesError("that commit changes nothing", where=commit.id, next="name a commit that changes something")
    direct = outcome.apply_diff(store, tree, change, f"commit {commit.id[:12]}")
    if direct.outcome is Outcome.APPLIES:
        return direct.tree, "applied as it is"
    merged = store.merge(parent, tree, result)
    if merged.conflicts or merged.tree == tree:
        what = f"conflicts in {', '.join(merged.conflicts)}" if merged.conflicts else "is in already"
        raise SeriesError(
            f"the change of commit {commit.id[:12]} {what}",
            where=commit.id,
            detail="\n".join(direct.evidence[:40]),
            next="./inv apply --checkout DIR, make the change there as a commit, then ./inv new ID --commit REV --from DIR",
        )
    return merged.tree, "by a three-way merge"


def _diff(store: Store, before: str, after: str, id: str) -> bytes:
    """The diff from *before* to *after*, which makes just that again.

    :raises SeriesError: nothing changes, three lines of context do not say where, or a file does not compile.
    """
    data = store.diff(before, after)
    if not data:
        raise SeriesError("that changes nothing here", where=id, next="name a change that does")
    became = outcome.apply_diff(store, before, data, id)
    if became.outcome is not Outcome.APPLIES or became.tree != after:
        raise SeriesError(
            f"as a diff, the change is {became.outcome.value}: its context stands in more than one place",
            where=id,
            detail="\n".join(became.evidence),
            next="make the diff with more context (git diff --full-index -U12 PARENT COMMIT > FILE), then ./inv import FILE",
        )
    series.check_compiles(store, after, store.changed_paths(before, after))
    return data


def _tree_after(now: Applied, recipe: Recipe, after: str) -> str:
    """The tree of the series up to and with the patch *after*; its end if none is named."""
    if not after:
        return now.tree
    upto = recipe.series[: recipe.series.index(after) + 1]
    return next((step.tree for step in reversed(now.steps) if step.patch in upto), now.base_tree)


def _behind(project: Project, recipe: Recipe, store: Store, now: Applied, after: str, tree: str) -> tuple[str, ...]:
    """The patches behind *after*, tried on *tree*, which has the new one.

    :raises SeriesError: one does not go in any more.
    """
    later = recipe.series[recipe.series.index(after) + 1 :] if after else ()
    bases = project.bases(store, upstream=recipe.pin.upstream)
    old = {step.patch: step for step in now.steps}
    told = []
    for name in later:
        if name not in old:
            continue  # it has no variant for this release
        variant = project.patches[name].variant_for(recipe.pin.release)
        step = series.apply_patch(store, tree, "", project.patches[name], variant, bases.donor_file)
        if step.outcome.stops and not old[name].outcome.stops:
            raise SeriesError(
                f"behind it {name} would not go in any more ({step.outcome.value})",
                where=step.variant,
                detail="\n".join(step.evidence),
                next="put it elsewhere: --after PATCH, or at the end without it",
            )
        told.append(f"{name}: {step.outcome.value}")
        tree = step.tree
    return tuple(told)


def _written(
    project: Project, recipe: Recipe, patch: NewPatch, after: str, what: str, evidence: tuple[str, ...]
) -> Changed:
    changes = with_page(project, newpatch.changes_for(project, recipe, [patch], after))
    return Changed(recipe.name, patch.id, what, evidence, commit_changes(changes, project.workspace.journal))
