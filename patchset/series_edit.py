"""A series changed: a patch comes (``series_new``), is dropped or moved, after trying what that does on trees."""

from __future__ import annotations

from patchset import newpatch, rewrite, series
from patchset.changes import Change, commit_changes
from patchset.errors import DeclarationError, SeriesError, WorktreeError
from patchset.patches_page import with_page
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.series import Applied
from patchset.series_new import backport, new
from patchset.series_try import Changed, applied, compare, on_base, require_in_series
from patchset.store import Store
from patchset.store.elsewhere import last_commit_of

__all__ = ["Changed", "backport", "drop", "move", "new"]


def drop(project: Project, recipe: Recipe, id: str, reason: str, *, everywhere: bool = False) -> Changed:
    """Take the patch *id* out of *recipe*'s series, by name and with *reason*; *everywhere*: delete it.

    The series is tried without it, and what changes for the patches behind it is told.

    :raises DeclarationError: it is not there, a patch requires it, or another recipe still has it in its series.
    :raises WorktreeError: it would be deleted, and git does not have it as it is.
    """
    if id not in project.patches:
        raise DeclarationError(
            f"there is no patch {id} (there are: {', '.join(project.patches)})", next="./inv drop PATCH --reason REASON"
        )
    reason = newpatch.one_line(reason)
    if not reason:
        raise DeclarationError("a patch is not dropped without a reason", next=f'./inv drop {id} --reason "…"')
    needing = [
        name for name in (project.patches if everywhere else recipe.series) if id in project.patches[name].requires
    ]
    if needing:
        raise DeclarationError(
            f"{', '.join(needing)} requires {id}", where=str(recipe.file), next=f"./inv drop {needing[-1]} first"
        )
    evidence = _without(project, recipe, id) if id in recipe.series else ()
    if everywhere:
        what, changes = _delete(project, recipe, id, reason)
    else:
        text = recipe.file.read_text("utf-8")
        what = f"left out of {recipe.name}: {reason}"
        changes = [Change(recipe.file, rewrite.omit(rewrite.unomit(text, id), id, reason).encode())]
    written = commit_changes(with_page(project, changes), project.workspace.journal)
    return Changed(recipe.name, id, what, evidence, written)


def move(project: Project, recipe: Recipe, id: str, *, before: str = "", after: str = "") -> Changed:
    """Put the patch *id* before or behind another one of *recipe*'s series, after trying that order on trees.

    :raises DeclarationError: not just one place is named, one of the two is not in the series, or ``requires`` forbids it.
    :raises SeriesError: in that order a patch does not go in that does now, or a file does not compile.
    """
    other = before or after
    if bool(before) == bool(after) or other == id:
        raise DeclarationError("name one place: --before PATCH or --after PATCH", next=f"./inv move {id} --after PATCH")
    for name in (id, other):
        require_in_series(recipe, name, "./inv graph shows the series")
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
    now = applied(project, recipe, store)
    then = on_base(project, recipe, store, now.base_tree, [project.patches[name] for name in order])
    compared = compare(now, then)
    worse = [step for step in then.steps if step.outcome.stops and not _stops(now, step.patch)]
    if worse:
        raise SeriesError(
            f"{id} {'before' if before else 'behind'} {other}: "
            f"{', '.join(f'{step.patch} ({step.outcome.value})' for step in worse)} would not go in any more",
            where=worse[0].variant,
            detail="\n".join(f"{step.patch}: {line}" for step in worse for line in step.evidence),
            next="./inv graph shows which patches depend on which",
        )
    series.check_compiles(store, then.tree, then.touched)
    place = f"moved {'before' if before else 'behind'} {other}"
    end = "the same" if then.tree == now.tree else f"another: {then.tree[:12]}, not {now.tree[:12]}"
    text = rewrite.set_series(recipe.file.read_text("utf-8"), order)
    written = commit_changes(with_page(project, [Change(recipe.file, text.encode())]), project.workspace.journal)
    return Changed(recipe.name, id, f"{place}; the tree at the end is {end}", compared, written)


# -- a patch taken out --------------------------------------------------------------------------------------------------


def _stops(found: Applied, patch: str) -> bool:
    return any(step.outcome.stops for step in found.steps if step.patch == patch)


def _without(project: Project, recipe: Recipe, id: str) -> tuple[str, ...]:
    """What the series of *recipe* becomes without the patch *id*: lines for the patches that change by it."""
    store = Store.open(project.workspace.store)
    base = project.bases(store, upstream=recipe.pin.upstream).here().get(recipe.pin.release)
    if base is None:
        return (f"not tried without it: {recipe.pin.release} is not here (./inv apply -r {recipe.name} brings it)",)
    now = on_base(project, recipe, store, base, project.series_of(recipe))
    rest = [patch for patch in project.series_of(recipe) if patch.id != id]
    then = on_base(project, recipe, store, base, rest)
    told = tuple(line for line in compare(now, then) if " (was: " in line)
    return told or ("every other patch becomes what it was",)


# -- a patch deleted ----------------------------------------------------------------------------------------------------


def _delete(project: Project, recipe: Recipe, id: str, reason: str) -> tuple[str, list[Change]]:
    others = newpatch.other_recipes(project, recipe)
    having = [item.name for item in others if id in item.series]
    if having:
        raise DeclarationError(
            f"{', '.join(having)} still has {id} in its series",
            where=id,
            next=f'./inv drop {id} -r {having[0]} --reason "…"; then --everywhere',
        )
    folder = project.patches[id].folder
    links = [path for path in (folder, *folder.rglob("*")) if path.is_symlink()]
    if links:
        raise WorktreeError(
            f"{id} would be deleted, and it is or holds a link: what that names may be needed elsewhere",
            where=str(links[0]),
            next=f"git rm that link, or delete {folder} yourself, with its lines in recipes/*.toml",
        )
    commit = last_commit_of(Store.open(project.workspace.store), project.workspace.root, folder)
    if not commit:
        raise WorktreeError(
            f"{id} would be deleted, and git does not have it as it is: something there is new or changed",
            where=str(folder),
            next=f"git add {folder} && git commit, then again; or delete it yourself, with its lines in recipes/*.toml",
        )
    changes = [Change(file, None) for file in sorted(folder.rglob("*")) if file.is_file()]
    for item in (recipe, *others):
        text = rewrite.set_series(item.file.read_text("utf-8"), [name for name in item.series if name != id])
        changes.append(Change(item.file, rewrite.unretire(rewrite.unomit(text, id), id).encode()))
    inside = folder.relative_to(project.workspace.root).as_posix()
    return f"deleted: {reason}. git checkout {commit[:12]} -- {inside} has it back", changes
