"""A recipe carried to another release: start, go on after a conflict, skip, restart, abort.

Nothing under ``recipes/`` is written before the end. Until then there is the state, and a checkout where a person is asked.
Every command computes the whole way anew, with what persons decided; so a run that was killed loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from packaging.version import InvalidVersion, Version

from patchset import proof, resolve
from patchset.bump import resolutions
from patchset.bump.carry import Carried, Clash
from patchset.bump.declare import declare, refuse_another_lock, require_unchanged
from patchset.bump.resolved import resolved_tree, told
from patchset.bump.state import State, Waiting, forget, is_name, read_state, state_file, worktree, write_state
from patchset.bump.stop import laid_out, put_aside, sweep
from patchset.bump.way import Gone, Way, by_hand, go, prepare
from patchset.changes import Change, commit_changes, require_writable
from patchset.console import Console
from patchset.errors import DeclarationError, ProbeError, SeriesError, WorktreeError
from patchset.patches_page import with_page
from patchset.proof import Exposure, Proof
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.runtime import run_probes
from patchset.series import check_compiles
from patchset.store import Store
from patchset.upstream import Upstream


@dataclass(frozen=True)
class Stopped:
    """A conflict for a person: the files to resolve, in *directory*."""

    state: State
    directory: Path
    carried: tuple[Carried, ...]
    clash: Clash
    reused: tuple[str, ...]


@dataclass(frozen=True)
class Bumped:
    """The new recipe. ``written`` are the files that changed; none where it was there already, the same."""

    recipe: str
    release: str
    carried: tuple[Carried, ...]
    retired: tuple[tuple[str, str], ...]
    skipped: tuple[tuple[str, str], ...]
    reused: tuple[str, ...]
    proofs: tuple[Proof, ...]
    exposures: tuple[Exposure, ...]
    tree: str
    version: str
    written: tuple[Path, ...]


def start(project: Project, recipe: Recipe, to: str, name: str, console: Console) -> Bumped | Stopped:
    """Carry *recipe* to the release *to*; *name* is the new recipe's (empty: the old one's with the new release in it).

    A start that fails leaves no bump under way; one that is killed does, and can be gone on with.

    :raises DeclarationError: the release is none or not known, the name is none, or another bump is under way.
    """
    under_way = read_state(project.workspace)
    if under_way:
        raise DeclarationError(
            f"a bump of {under_way.recipe} to {under_way.to} is under way"
            + (f", and waits for {under_way.waiting.patch}" if under_way.waiting else ""),
            where=str(state_file(project.workspace)),
            next="./inv bump --continue, --skip REASON, --restart or --abort",
        )
    if recipe.file.parent.resolve() != project.workspace.recipes.resolve():
        raise DeclarationError(
            "only a recipe under recipes/ can be carried to another release",
            where=str(recipe.file),
            next="move it there",
        )
    release = _known(project.upstreams[recipe.pin.upstream], to)
    state = State(recipe.name, release, name or new_name(recipe, release))
    if not is_name(state.name):
        raise DeclarationError(
            f"{state.name!r} is no name for a recipe: letters, digits, and . _ + - behind the first",
            next=f"./inv bump --to {release} --name NAME",
        )
    sweep(project.workspace.work)
    write_state(project.workspace, state)
    try:
        return _go(prepare(project, state, console), state, console)
    except BaseException:
        forget(project.workspace)
        raise


def go_on(project: Project, console: Console) -> Bumped | Stopped:
    """Take what a person made of the conflict, and go on.

    :raises DeclarationError: no bump is under way.
    :raises WorktreeError: conflict markers are left, with file and line; or what the person made does not hold.
    """
    state = _under_way(project)
    sweep(project.workspace.work)
    directory = worktree(project.workspace, state)
    if not state.waiting or not directory.exists():  # killed before it was laid out, or deleted: it is laid out again
        state = replace(state, waiting=None)
        return _go(prepare(project, state, console), state, console)
    store = Store.open(project.workspace.store)
    tree = resolved_tree(store, directory, state.waiting)
    way = prepare(project, state, console)
    state = _take(way, state, state.waiting, tree, console)
    return _go(way, state, console)


def skip(project: Project, reason: str, console: Console) -> Bumped | Stopped:
    """Leave the patch that waits out of the new recipe, with *reason*, and go on.

    :raises DeclarationError: none waits, there is no reason, or another patch requires it.
    """
    state = _under_way(project)
    if not state.waiting or not reason.strip():
        raise DeclarationError(
            "no patch waits to be skipped" if reason.strip() else "a patch is not skipped without a reason",
            where=str(state_file(project.workspace)),
            next='./inv bump --status, or ./inv bump --skip "REASON"',
        )
    patch = state.waiting.patch
    needing = [p.id for p in project.series_of(project.recipe(state.recipe)) if patch in p.requires]
    if needing := [name for name in needing if name not in state.skipped]:
        raise DeclarationError(
            f"{patch} cannot be skipped alone: {', '.join(needing)} requires it",
            where=str(project.patches[needing[0]].folder / "patch.toml"),
            next="resolve it; or ./inv bump --abort, ./inv drop those that require it first, and begin again",
        )
    skipped = replace(state, skipped={**state.skipped, patch: reason.strip()}, waiting=None)
    return _anew(project, state, skipped, console)


def restart(project: Project, console: Console) -> Bumped | Stopped:
    """Begin the bump under way again, with nothing resolved or skipped; remembered resolutions are offered as ever."""
    state = _under_way(project)
    return _anew(project, state, State(state.recipe, state.to, state.name), console)


def abort(project: Project, console: Console) -> State:
    """End the bump under way. Everything declared is as it was; a checkout that was edited is put aside, not deleted."""
    state = _under_way(project)
    sweep(project.workspace.work)
    put_aside(Store.open(project.workspace.store), worktree(project.workspace, state), _ours(state), console)
    forget(project.workspace)
    return state


def status(project: Project) -> State | None:
    """The bump under way, or None."""
    return read_state(project.workspace)


def new_name(recipe: Recipe, release: str) -> str:
    """``b70-0.23`` → ``b70-0.28``: the old name with the new release in it, or behind it."""
    old, new = (".".join(text.split(".")[:2]) for text in (recipe.pin.release, release))
    for had in (recipe.pin.release, old):
        if re.search(rf"(?<![\d.]){re.escape(had)}(?![\d.])", recipe.name):
            return re.sub(rf"(?<![\d.]){re.escape(had)}(?![\d.])", new if had == old else release, recipe.name)
    return f"{recipe.name}-{new}"


def _known(upstream: Upstream, text: str) -> str:
    """The known release that *text* means: 0.33 and v0.33.0 are 0.33.0.

    :raises DeclarationError: it is no version, or not known.
    """
    try:
        wanted = Version(text)
    except InvalidVersion as error:
        raise DeclarationError(
            f"{text!r} is no version of {upstream.name}, such as {list(upstream.releases)[-1]}",
            where="--to",
            next="./inv releases lists those that are known, and those that are new",
        ) from error
    return upstream.release(
        next((known for known in upstream.releases if Version(known) == wanted), str(wanted))
    ).version


# -- between commands ---------------------------------------------------------------------------------------------------


def _under_way(project: Project) -> State:
    state = read_state(project.workspace)
    if state is None:
        raise DeclarationError(
            "no bump is under way", where=str(state_file(project.workspace)), next="./inv bump --to RELEASE"
        )
    return state


def _ours(state: State) -> Collection[str]:
    """The trees that a checkout can be deleted with: as it was laid out, or as it was taken from there."""
    return {*state.resolved.values(), *([state.waiting.written] if state.waiting else [])}


def _anew(project: Project, before: State, state: State, console: Console) -> Bumped | Stopped:
    """Leave the checkout of *before*, and go on with *state*."""
    sweep(project.workspace.work)
    way = prepare(project, state, console)  # first: what is refused there changes nothing
    put_aside(way.store, worktree(project.workspace, before), _ours(before), console)
    write_state(project.workspace, state)
    return _go(way, state, console)


def _take(way: Way, state: State, waiting: Waiting, tree: str, console: Console) -> State:
    """The state with *tree*, which a person made of the conflict, in it; if it holds, and if that is still asked.

    :raises WorktreeError: it does not hold. The checkout stays as it is.
    """
    workspace, store = way.project.workspace, way.store
    directory = worktree(workspace, state)
    clash = go(way, state, waiting.patch).clash
    if clash is None or clash.key != waiting.clash:
        console.say(f"  the series or its patches changed since: {waiting.patch} is looked at anew")
        return replace(state, waiting=None)
    patch = way.project.patches[waiting.patch]
    for line in told(store, directory, waiting, tree, clash.merged.stages):
        console.say(f"  {patch.id}: {line}")
    wrong = way.judge.complaint(patch, clash.ours, tree)
    if wrong:
        raise WorktreeError(
            f"what you made of {patch.id} does not hold: {wrong}",
            where=str(directory),
            next="mend it there, then ./inv bump --continue; or leave the patch out: ./inv bump --skip REASON",
        )
    by_hand(way, patch, clash, tree)  # a change that no diff can hold is refused while its checkout is there
    sides = [(path, store.read(waiting.attempt, path), store.read(tree, path)) for path in waiting.paths]
    resolutions.remember(workspace, sides, waiting.patch, state.to, datetime.now(timezone.utc).date())
    state = state.with_resolved(waiting.patch, waiting.clash, tree)
    write_state(workspace, state)
    put_aside(store, directory, _ours(state), console)  # all of it is in the store now
    return state


# -- to the end ---------------------------------------------------------------------------------------------------------


def _go(way: Way, state: State, console: Console) -> Bumped | Stopped:
    gone = go(way, state)
    if gone.clash:
        return _stop(way, state, gone, gone.clash, console)
    return _finish(way, state, gone, console)


def _stop(way: Way, state: State, gone: Gone, clash: Clash, console: Console) -> Stopped:
    workspace, patches = way.project.workspace, way.project.patches
    directory, patch = worktree(workspace, state), patches[clash.patch]
    require_writable([patch.folder])  # what a person makes of it goes there: no right shows before they are asked
    put_aside(way.store, directory, _ours(state), console)
    commits = [(patches[item.patch], item.tree) for item in gone.carried if item.outcome.changes_tree]
    with laid_out(way.store, way.bases, state.to, commits, clash, patch, directory) as written:
        waiting = Waiting(
            clash.patch, clash.source, clash.ours, clash.attempt, written, clash.key, clash.merged.conflicts
        )
        state = replace(state, waiting=waiting)
        write_state(workspace, state)
    return Stopped(state, directory, gone.carried, clash, gone.reused)


def _finish(way: Way, state: State, gone: Gone, console: Console) -> Bumped:
    """Try the new declarations in a copy, prove them, and only then put them in place."""
    project, store = way.project, way.store
    declared = declare(project, way.recipe, state, gone.carried, way.findings, store, way.base)
    with project.workspace.scratch() as scratch:
        tried = declared.in_copy(project, scratch / "copy")
        recipe = tried.recipe(state.name)
        probing = scratch / "probes"
        probing.mkdir()
        try:
            with console.step(f"base and series of {state.name}") as step:
                resolved = resolve.resolve(tried, recipe, store, lambda text: None)
                step.note = f"tree {resolved.applied.tree[:12]}"
            check_compiles(store, resolved.applied.tree, resolved.applied.touched)
            proofs, exposures = run_probes(tried, resolved, store, way.laboratory, probing, console)
            proof.require(proofs, state.name)
        except (SeriesError, ProbeError) as error:
            error.next = _way_out(state)
            raise
    refuse_another_lock(project, state, resolved.lock)
    require_unchanged(project, way.recipe, state, way.declared)
    lock = Change(project.workspace.recipes / f"{state.name}.lock", resolved.lock.text().encode())
    changes = with_page(project, [*declared.changes, lock, *resolutions.to_share(project.workspace)])
    written = commit_changes(changes, project.workspace.journal)
    store.keep(f"runtimes/{state.name}", resolved.applied.commit)
    put_aside(store, worktree(project.workspace, state), _ours(state), console)
    resolutions.forget_shared(project.workspace)
    forget(project.workspace)
    return Bumped(
        state.name,
        state.to,
        gone.carried,
        declared.retired,
        tuple(state.skipped.items()),
        gone.reused,
        proofs,
        exposures,
        resolved.applied.tree,
        resolved.version,
        written,
    )


def _way_out(state: State) -> str:
    """What to type where the series went in and is not right; the new recipe is not there to be named."""
    return (
        f"nothing was written; ./inv forecast --probes --releases {state.to} shows that patch, its variant and its probe: "
        "mend one of them, then bump again (--continue, --restart or --abort if it is under way)"
    )
