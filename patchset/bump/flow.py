"""A recipe carried to another release: start, go on after a conflict, skip, restart, abort.

Nothing under ``recipes/`` is written before the end. Until then there is the state, and a checkout where a person is asked.
Every command computes the whole way anew, with what persons decided; so a run that was killed loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchset import lab, proof, resolve
from patchset.bases import Bases
from patchset.bump import resolutions
from patchset.bump.carry import Carried, Carrier, Clash
from patchset.bump.declare import Declared, declare
from patchset.bump.state import State, Waiting, forget, read_state, state_file, worktree, write_state
from patchset.bump.stop import put_aside, resolved_tree, write_conflict
from patchset.changes import Change, commit_changes
from patchset.console import Console
from patchset.errors import DeclarationError, ProbeError, SeriesError
from patchset.patch import Patch
from patchset.probe import Finding
from patchset.proof import Exposure, Proof
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.runtime import run_probes
from patchset.series import check_compiles
from patchset.store import Entry, Store


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

    :raises DeclarationError: the release is not known, or another bump is under way.
    """
    under_way = read_state(project.workspace)
    if under_way:
        raise DeclarationError(
            f"a bump of {under_way.recipe} to {under_way.to} is under way"
            + (f", and waits for {under_way.waiting.patch}" if under_way.waiting else ""),
            where=str(state_file(project.workspace)),
            next="./inv bump --continue, --skip REASON, --restart or --abort",
        )
    release = project.upstreams[recipe.pin.upstream].release(to).version
    return _go(project, State(recipe.name, release, name or new_name(recipe, release)), console)


def go_on(project: Project, console: Console) -> Bumped | Stopped:
    """Take what a person made of the conflict, and go on.

    :raises DeclarationError: no bump is under way.
    :raises WorktreeError: conflict markers are left; with file and line.
    """
    state = _under_way(project)
    store = Store.open(project.workspace.store)
    if state.waiting:
        directory = worktree(project.workspace, state)
        tree = resolved_tree(store, directory, state.waiting)
        attempt, names = state.waiting.attempt, state.waiting.paths
        sides = [(path, store.read(attempt, path), store.read(tree, path)) for path in names]
        resolutions.remember(project.workspace, sides, state.waiting.patch, state.to)
        state = state.with_resolved(state.waiting.patch, state.waiting.ours, tree)
        write_state(project.workspace, state)
        put_aside(store, directory, None, console, keep=False)  # all of it is in the store now
    return _go(project, state, console)


def skip(project: Project, reason: str, console: Console) -> Bumped | Stopped:
    """Leave the patch that waits out of the new recipe, with *reason*, and go on.

    :raises DeclarationError: none waits, or there is no reason.
    """
    state = _under_way(project)
    if not state.waiting or not reason.strip():
        raise DeclarationError(
            "no patch waits to be skipped" if reason.strip() else "a patch is not skipped without a reason",
            where=str(state_file(project.workspace)),
            next='./inv bump --status, or ./inv bump --skip "REASON"',
        )
    _leave(project, state, console)
    state = replace(state, skipped={**state.skipped, state.waiting.patch: reason.strip()}, waiting=None)
    write_state(project.workspace, state)
    return _go(project, state, console)


def restart(project: Project, console: Console) -> Bumped | Stopped:
    """Begin the bump under way again, with nothing resolved or skipped; remembered resolutions are offered as ever."""
    state = _under_way(project)
    _leave(project, state, console)
    state = State(state.recipe, state.to, state.name)
    write_state(project.workspace, state)
    return _go(project, state, console)


def abort(project: Project, console: Console) -> State:
    """End the bump under way. Everything declared is as it was; a checkout that was edited is put aside, not deleted."""
    state = _under_way(project)
    _leave(project, state, console)
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


# -- the way ------------------------------------------------------------------------------------------------------------


def _go(project: Project, state: State, console: Console) -> Bumped | Stopped:
    recipe = project.recipe(state.recipe)
    store = Store.open(project.workspace.store)
    bases = project.bases(store, console.say, recipe.pin.upstream)
    with console.step(f"base of {state.to}") as step:
        base = bases.tree(state.to)
        step.note = f"tree {base[:12]}"
    patches = [patch for patch in project.series_of(recipe) if patch.id not in state.skipped]
    with console.step(f"probes on {state.to}"):
        findings = _look(project, store, patches, base, console)
    known = resolutions.known(project.workspace)
    carried, clash, reused = _carry_all(store, bases, state, patches, base, findings, known)
    if clash:
        return _stop(project, store, bases, state, carried, clash, reused, console)
    declared = declare(project, recipe, state, carried, findings, store, base)
    return _finish(project, state, store, declared, carried, reused, console)


def _look(
    project: Project, store: Store, patches: Sequence[Patch], tree: str, console: Console
) -> Mapping[str, Finding]:
    laboratory = lab.ensure(project.workspace.environments, console.say)
    with project.workspace.scratch() as scratch:
        found = proof.ask(
            [(patch, tree) for patch in patches], store, laboratory, cache=project.workspace.cache, scratch=scratch
        )
    return {patch: finding for (patch, _), finding in found.items()}


def _carry_all(
    store: Store,
    bases: Bases,
    state: State,
    patches: Sequence[Patch],
    base: str,
    findings: Mapping[str, Finding],
    known: dict[str, resolutions.Resolution],
) -> tuple[tuple[Carried, ...], Clash | None, tuple[str, ...]]:
    """(what became of each patch up to the first clash, that clash, which remembered resolutions were used)."""
    carrier = Carrier(store, bases, state.to, patches)
    carried: list[Carried] = []
    reused: list[str] = []
    tree = base
    for patch in patches:
        done = carrier.carry(patch, tree, findings[patch.id])
        if isinstance(done, Clash):
            done = _decided(store, carrier, state, patch, done) or _offered(store, carrier, patch, done, known, reused)
        if isinstance(done, Clash):
            return tuple(carried), done, tuple(reused)
        carried.append(done)
        tree = done.tree
    return tuple(carried), None, tuple(reused)


def _decided(store: Store, carrier: Carrier, state: State, patch: Patch, clash: Clash) -> Carried | None:
    """What a person made of this very clash."""
    if state.before.get(patch.id) != clash.ours:
        return None  # not asked yet, or the patches before it came out otherwise since
    if not store.has_object(state.resolved[patch.id]):
        raise DeclarationError(
            f"how {patch.id} was resolved is not in the object store any more",
            where=str(store.path),
            next="./inv bump --restart: remembered resolutions are offered again",
        )
    how = f"resolved by hand, from {clash.source}"
    return carrier.derived(patch, carrier.nearest_diff(patch), clash.ours, state.resolved[patch.id], how)


def _offered(
    store: Store,
    carrier: Carrier,
    patch: Patch,
    clash: Clash,
    known: dict[str, resolutions.Resolution],
    reused: list[str],
) -> Carried | Clash:
    """The clash with remembered resolutions put in, and carried if that leaves none. Every use is told."""
    files, used, left = {}, [], 0
    for path in clash.merged.conflicts:
        entry = store.entry(clash.merged.tree, path)
        data, here, missing = resolutions.resolve(store.blob(entry.blob), known) if entry else (b"", [], 1)
        # a clash without markers (one side deleted the file) has nothing to look up
        left += missing or (0 if here else 1)
        if entry and here:
            files[path] = Entry(entry.mode, store.write_blob(data))
        used += [
            f"resolution {item.key[:8]} reused at {path}:{line}, made {item.made} for {item.patch} at {item.release}"
            for line, item in here
        ]
    reused += used
    tree = store.with_files(clash.merged.tree, files)
    if not left:
        how = f"three-way merge from {clash.source}, with {len(used)} remembered resolutions"
        return carrier.derived(patch, carrier.nearest_diff(patch), clash.ours, tree, how)
    return replace(clash, merged=replace(clash.merged, tree=tree))


def _stop(
    project: Project,
    store: Store,
    bases: Bases,
    state: State,
    carried: tuple[Carried, ...],
    clash: Clash,
    reused: tuple[str, ...],
    console: Console,
) -> Stopped:
    directory = worktree(project.workspace, state)
    put_aside(store, directory, state.waiting, console, keep=True)
    commits = [(project.patches[item.patch], item.tree) for item in carried if item.outcome.changes_tree]
    written = write_conflict(store, bases, state.to, commits, clash, project.patches[clash.patch], directory)
    waiting = Waiting(clash.patch, clash.source, clash.ours, clash.merged.tree, written, clash.merged.conflicts)
    state = replace(state, waiting=waiting)
    write_state(project.workspace, state)
    return Stopped(state, directory, carried, clash, reused)


def _finish(
    project: Project,
    state: State,
    store: Store,
    declared: Declared,
    carried: tuple[Carried, ...],
    reused: tuple[str, ...],
    console: Console,
) -> Bumped:
    """Try the new declarations in a copy, prove them, and only then put them in place."""
    with project.workspace.scratch() as scratch:
        tried = declared.in_copy(project, scratch / "copy")
        recipe = tried.recipe(state.name)
        with console.step(f"base and series of {state.name}") as step:
            resolved = resolve.resolve(tried, recipe, store, lambda text: None)
            step.note = f"tree {resolved.applied.tree[:12]}"
        laboratory = lab.ensure(project.workspace.environments, console.say)
        probing = scratch / "probes"
        probing.mkdir()
        try:
            check_compiles(store, resolved.applied.tree, resolved.applied.touched)
            proofs, exposures = run_probes(tried, resolved, store, laboratory, probing, console)
            proof.require(proofs, state.name)
        except (SeriesError, ProbeError) as error:
            raise type(error)(error.what, where=error.where, detail=error.detail, next=_way_out(state)) from error
    lock = project.workspace.recipes / f"{state.name}.lock"
    changes = [*declared.changes, Change(lock, resolved.lock.text().encode()), *resolutions.to_share(project.workspace)]
    _refuse_another_recipe(project, declared)
    written = commit_changes(changes, project.workspace.journal)
    store.keep(f"runtimes/{state.name}", resolved.applied.commit)
    put_aside(store, worktree(project.workspace, state), None, console, keep=False)
    resolutions.forget_shared(project.workspace)
    forget(project.workspace)
    return Bumped(
        state.name,
        state.to,
        carried,
        declared.retired,
        tuple(state.skipped.items()),
        reused,
        proofs,
        exposures,
        resolved.applied.tree,
        resolved.version,
        written,
    )


def _way_out(state: State) -> str:
    """What to type where the series went in and is not right; the new recipe is not there to be named."""
    if state.resolved:
        return "./inv bump --restart, and resolve the conflict otherwise; or --abort"
    return f"mend the variant or the probe of that patch, then ./inv bump -r {state.recipe} --to {state.to} again"


def _refuse_another_recipe(project: Project, declared: Declared) -> None:
    there = declared.recipe.path
    if there.exists() and not declared.replaces and there.read_bytes() != declared.recipe.data:
        import difflib

        old, new = (data.decode().splitlines() for data in (there.read_bytes(), declared.recipe.data or b""))
        raise DeclarationError(
            f"{there.name} is there already, and says otherwise than this bump would",
            where=str(there),
            detail="\n".join(difflib.unified_diff(old, new, "there", "this bump", lineterm="", n=0)),
            next="./inv bump --to RELEASE --name ANOTHER-NAME, or move that recipe and its lock away",
        )


def _under_way(project: Project) -> State:
    state = read_state(project.workspace)
    if state is None:
        raise DeclarationError(
            "no bump is under way", where=str(state_file(project.workspace)), next="./inv bump --to RELEASE"
        )
    return state


def _leave(project: Project, state: State, console: Console) -> None:
    store = Store.open(project.workspace.store)
    put_aside(store, worktree(project.workspace, state), state.waiting, console, keep=True)
