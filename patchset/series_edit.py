"""A series changed: a commit becomes a patch, a patch is dropped or moved, a change is brought back from another release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path

from patchset import newpatch, outcome, resolve, rewrite, series
from patchset.changes import Change, commit_changes
from patchset.errors import DeclarationError, SeriesError
from patchset.newpatch import NewPatch
from patchset.patch import Donor
from patchset.recipe import Recipe
from patchset.resolve import Project, Resolved
from patchset.series import Applied
from patchset.store import Entry, Store


@dataclass(frozen=True)
class Changed:
    """What became of a recipe's series: the patch, a line that says what was done, and the files written."""

    recipe: str
    patch: str
    what: str
    evidence: tuple[str, ...]
    written: tuple[Path, ...]


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
    :raises SeriesError: its change does not go in behind the patch *after* (default: at the end).
    """
    newpatch.check_id(project, id)
    store = Store.open(project.workspace.store)
    commit = store.commit_at(store.bring_head(directory, revision))
    if len(commit.parents) != 1:
        raise SeriesError(
            f"commit {commit.id[:12]} has {len(commit.parents)} parents; a patch is one change to one tree",
            where=str(directory),
            next="name a commit that is no merge and has a parent",
        )
    resolved = resolve.resolve(project, recipe, store, lambda text: None)
    tree = _tree_after(resolved, after)
    parent = store.commit_at(commit.parents[0]).tree
    result, how = _onto(store, parent, tree, commit.tree, commit.id)
    subject, _, body = commit.message.partition("\n")
    said = why or body.strip() or subject
    patch = NewPatch(id, title or subject, said, "fix", _today(), resolved.release.version, store.diff(tree, result))
    return _written(project, recipe, [patch], after, f"new, from commit {commit.id[:12]}, {how}", ())


def drop(project: Project, recipe: Recipe, id: str, reason: str, *, everywhere: bool = False) -> Changed:
    """Take the patch *id* out of *recipe*'s series, by name and with *reason*; *everywhere*: delete it.

    :raises DeclarationError: it is not there, a patch of the series requires it, or another recipe still has it.
    """
    if id not in project.patches:
        raise DeclarationError(
            f"there is no patch {id} (there are: {', '.join(project.patches)})", next="./inv drop PATCH --reason REASON"
        )
    if not reason.strip():
        raise DeclarationError("a patch is not dropped without a reason", next='./inv drop PATCH --reason "…"')
    needing = [name for name in recipe.series if id in project.patches[name].requires]
    if needing:
        raise DeclarationError(
            f"{', '.join(needing)} requires {id}", where=str(recipe.file), next=f"./inv drop {needing[-1]} first"
        )
    recipes = [recipe, *newpatch.other_recipes(project, recipe)]
    if everywhere:
        having = [item.name for item in recipes[1:] if id in item.series]
        if having:
            raise DeclarationError(
                f"{', '.join(having)} still has {id} in its series",
                where=id,
                next=f'./inv drop {id} -r {having[0]} --reason "…"; then --everywhere',
            )
        changes = [_without(item, id) for item in recipes]
        changes += [Change(file, None) for file in sorted(project.patches[id].folder.rglob("*")) if file.is_file()]
        what = f"deleted: {reason.strip()} (git log -- recipes/patches/{id} has it)"
    else:
        text = recipe.file.read_text("utf-8")
        changes = [Change(recipe.file, rewrite.omit(rewrite.unomit(text, id), id, reason.strip()).encode())]
        what = f"left out of {recipe.name}: {reason.strip()}"
    return Changed(recipe.name, id, what, (), commit_changes(changes, project.workspace.journal))


def move(project: Project, recipe: Recipe, id: str, *, before: str = "", after: str = "") -> Changed:
    """Put the patch *id* before or behind another one of *recipe*'s series, after trying that order on trees.

    :raises DeclarationError: not just one place is named, or one of the two is not in the series.
    :raises SeriesError: in that order a patch does not go in.
    """
    other = before or after
    if bool(before) == bool(after) or other == id:
        raise DeclarationError("name one place: --before PATCH or --after PATCH", next=f"./inv move {id} --after PATCH")
    for name in (id, other):
        if name not in recipe.series:
            raise DeclarationError(
                f"recipe {recipe.name} has no patch {name!r} in its series (it has: {', '.join(recipe.series)})",
                where=str(recipe.file),
                next="./inv graph shows the series",
            )
    order = [name for name in recipe.series if name != id]
    order.insert(order.index(other) + (1 if after else 0), id)
    for index, name in enumerate(order):
        late = [needed for needed in project.patches[name].requires if needed not in order[:index]]
        if late:
            raise DeclarationError(
                f"{name} requires {', '.join(late)} before it",
                where=str(project.patches[name].folder / "patch.toml"),
                next=f"./inv move {id} elsewhere, or take it out of requires",
            )
    store = Store.open(project.workspace.store)
    old = resolve.resolve(project, recipe, store, lambda text: None)
    new_order = _tried(project, recipe, old, order, store)
    series.require(new_order)
    same = new_order.tree == old.applied.tree
    evidence = tuple(f"{step.patch}: {step.outcome.value}, {', '.join(step.evidence[:3])}" for step in new_order.steps)
    what = f"moved {'before' if before else 'behind'} {other}; the tree at the end is {'the same' if same else 'another: ' + new_order.tree[:12]}"
    text = rewrite.set_series(recipe.file.read_text("utf-8"), order)
    written = commit_changes([Change(recipe.file, text.encode())], project.workspace.journal)
    return Changed(recipe.name, id, what, evidence, written)


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

    A file that the release does not have becomes a donor, taken by hash; one that it has becomes a diff to the donor's.

    :raises DeclarationError: neither files nor a commit are named, or a file is not in *release*.
    :raises SeriesError: the commit's change conflicts with this release.
    """
    newpatch.check_id(project, id)
    if bool(paths) == bool(revision) or (bool(paths) and not release) or (bool(revision) and directory is None):
        raise DeclarationError(
            "name files (--from RELEASE --path PATH …) or a commit (--commit REV --repository DIR)",
            next=f"./inv backport {id} --from RELEASE --path PATH",
        )
    store = Store.open(project.workspace.store)
    resolved = resolve.resolve(project, recipe, store, lambda text: None)
    tree = resolved.applied.tree
    if revision and directory is not None:
        commit = store.commit_at(store.bring_head(directory, revision))
        parents = [store.commit_at(parent).tree for parent in commit.parents[:1]]
        if not parents:
            raise SeriesError("that commit has no parent", where=revision, next="name a commit that changes something")
        result, how = _onto(store, parents[0], tree, commit.tree, commit.id)
        why = f"{commit.message.strip()}\n\nBackport of commit {commit.id}, {how}."
        patch = NewPatch(id, title or commit.subject, why, "backport", _today(), resolved.release.version,
                         store.diff(tree, result))  # fmt: skip
        return _written(project, recipe, [patch], "", f"backport of commit {commit.id[:12]}, {how}", ())
    donors, changed, evidence = _files(project, store, release, paths, tree)
    data = store.diff(tree, store.with_files(tree, changed)) if changed else None
    listed = "\n".join(evidence)
    why = f"Files of vLLM {release} on {resolved.release.version}:\n{listed}"
    named = title or f"Backport of {', '.join(paths)} from vLLM {release}"
    patch = NewPatch(id, named, why, "backport", _today(), resolved.release.version, data, donors)
    return _written(project, recipe, [patch], "", f"backport of {len(paths)} files from {release}", evidence)


def _files(
    project: Project, store: Store, release: str, paths: Sequence[str], tree: str
) -> tuple[tuple[Donor, ...], dict[str, Entry | None], tuple[str, ...]]:
    bases = project.bases(store)
    source = bases.tree(release)
    donors, changed, evidence = [], {}, []
    for path in paths:
        entry, data = store.entry(source, path), store.read(source, path)
        if entry is None or data is None:
            raise DeclarationError(
                f"vLLM {release} has no file {path}", where=path, next="name it as in the source tree"
            )
        digest = sha256(data).hexdigest()
        if store.entry(tree, path):
            changed[path] = entry
            evidence.append(f"{path}: a diff to that of {release}, sha256 {digest}")
        else:
            donors.append(Donor(release, path, digest, path))
            evidence.append(f"{path}: as a donor, sha256 {digest}")
    return tuple(donors), changed, tuple(evidence)


def _onto(store: Store, parent: str, tree: str, result: str, commit: str) -> tuple[str, str]:
    """The change from *parent* to *result* on *tree*: (the tree, how)."""
    if parent == tree:
        return result, "on the very tree it was made on"
    direct = outcome.apply_diff(store, tree, store.diff(parent, result), f"commit {commit[:12]}")
    if direct.outcome is outcome.Outcome.APPLIES:
        return direct.tree, "as it is"
    merged = store.merge(parent, tree, result)
    if merged.conflicts or merged.tree == tree:
        what = f"conflicts in {', '.join(merged.conflicts)}" if merged.conflicts else "is in already"
        raise SeriesError(
            f"the change of commit {commit[:12]} {what}",
            where=commit,
            next="./inv apply --checkout DIR, make the change there as a commit, then ./inv new ID --commit REV --from DIR",
        )
    return merged.tree, "by a three-way merge"


def _tree_after(resolved: Resolved, after: str) -> str:
    if not after:
        return resolved.applied.tree
    found = [step.tree for step in resolved.applied.steps if step.patch == after]
    if not found:
        raise DeclarationError(
            f"recipe {resolved.recipe.name} has no patch {after!r} in its series",
            where=str(resolved.recipe.file),
            next=f"name one of {', '.join(resolved.recipe.series)} with --after",
        )
    return found[0]


def _tried(project: Project, recipe: Recipe, old: Resolved, order: Sequence[str], store: Store) -> Applied:
    bases = project.bases(store, upstream=recipe.pin.upstream)
    return series.apply_series(
        store,
        old.applied.base_tree,
        old.release.version,
        [project.patches[name] for name in order],
        None,
        bases.donor_file,
    )


def _without(recipe: Recipe, id: str) -> Change:
    text = recipe.file.read_text("utf-8")
    text = rewrite.set_series(text, [name for name in recipe.series if name != id])
    return Change(recipe.file, rewrite.unretire(rewrite.unomit(text, id), id).encode())


def _written(
    project: Project, recipe: Recipe, patches: Sequence[NewPatch], after: str, what: str, evidence: tuple[str, ...]
) -> Changed:
    changes = newpatch.changes_for(project, recipe, patches, after)
    written = commit_changes(changes, project.workspace.journal)
    return Changed(recipe.name, patches[0].id, what, evidence, written)


def _today() -> datetime:
    return datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
