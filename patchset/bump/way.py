"""The way from a recipe to another release: what carrying needs, and the patches carried up to the first clash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from patchset import lab, newpatch, proof
from patchset.bases import Bases
from patchset.bump import declare, resolutions
from patchset.bump.carry import Carried, Carrier, Clash
from patchset.bump.judge import Judge
from patchset.bump.state import State
from patchset.changes import require_writable
from patchset.console import Console
from patchset.errors import DeclarationError
from patchset.lab import Lab
from patchset.patch import Patch
from patchset.probe import Finding
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.store import Entry, Store


@dataclass(frozen=True)
class Way:
    """All that one command of a bump needs.

    ``findings`` are what the probes say of the bare release, ``declared`` is what stood in the files when it began.
    """

    project: Project
    recipe: Recipe
    release: str
    store: Store
    bases: Bases
    base: str
    patches: tuple[Patch, ...]
    findings: Mapping[str, Finding]
    laboratory: Lab
    judge: Judge
    carrier: Carrier
    declared: Mapping[Path, bytes]


@dataclass(frozen=True)
class Gone:
    """How far it went: what was carried, the clash that stopped it, and how remembered resolutions were used."""

    carried: tuple[Carried, ...]
    clash: Clash | None
    reused: tuple[str, ...]


def prepare(project: Project, state: State, console: Console) -> Way:
    """Bring the release, and ask every probe about it.

    :raises DeclarationError: the new recipe is there already, and says otherwise than this bump would: no need to carry
        anything, or to ask a person, for that. Or another recipe cannot be read, and the page that is written in the end
        tells of all of them.
    :raises OSError: recipes/ cannot be written to; no need to do anything for that either.
    """
    recipe = project.recipe(state.recipe)
    declared = declare.snapshot(project, recipe, state)
    newpatch.other_recipes(project, recipe)
    require_writable([project.workspace.recipes])
    store = Store.open(project.workspace.store)
    bases = project.bases(store, console.say, recipe.pin.upstream)
    with console.step(f"base of {state.to}") as step:
        base = bases.tree(state.to)
        step.note = f"tree {base[:12]}"
    patches = tuple(patch for patch in project.series_of(recipe) if patch.id not in state.skipped)
    laboratory = lab.ensure(project.workspace.environments, console.say)
    with console.step(f"probes on {state.to}") as step, project.workspace.scratch() as scratch:
        cache = project.workspace.cache
        found = proof.ask([(patch, base) for patch in patches], store, laboratory, cache=cache, scratch=scratch)
        findings = {patch: finding for (patch, _), finding in found.items()}
        step.note = f"{sum(finding.cached for finding in findings.values())} of {len(findings)} reused"
    declare.refuse_another(project, recipe, state, declare.recipe_text(project, recipe, state, findings, store, base))
    judge = Judge(project.workspace, store, laboratory)
    asked = {**state.clashes, **({state.waiting.patch: state.waiting.clash} if state.waiting else {})}
    carrier = Carrier(store, bases, state.to, patches, judge.complaint, asked)
    return Way(project, recipe, state.to, store, bases, base, patches, findings, laboratory, judge, carrier, declared)


def go(way: Way, state: State, asked: str = "") -> Gone:
    """Carry patch after patch, up to the first that only a person can carry; the patch *asked* is left to the person who
    resolves it, whatever is remembered.
    """
    known = resolutions.known(way.project.workspace)
    carried: list[Carried] = []
    reused: list[str] = []
    tree = way.base
    for patch in way.patches:
        done = way.carrier.carry(patch, tree, way.findings[patch.id])
        if isinstance(done, Clash):
            done = _decided(way, state, patch, done) or _offered(
                way, patch, done, {} if patch.id == asked else known, reused
            )
        if isinstance(done, Clash):
            return Gone(tuple(carried), done, tuple(reused))
        carried.append(done)
        tree = done.tree
    return Gone(tuple(carried), None, tuple(reused))


def by_hand(way: Way, patch: Patch, clash: Clash, tree: str) -> Carried:
    """*patch* as a person resolved *clash*."""
    how = "written by hand" if clash.source == way.release else f"resolved by hand, from {clash.source}"
    return way.carrier.derived(patch, clash.variant, clash.ours, tree, how)


def _decided(way: Way, state: State, patch: Patch, clash: Clash) -> Carried | None:
    """What a person made of this very clash."""
    if state.clashes.get(patch.id) != clash.key:
        return None  # not asked yet, or this patch or those before it came out otherwise since
    tree = state.resolved[patch.id]
    if not way.store.has_tree(tree):
        raise DeclarationError(
            f"how {patch.id} was resolved is not in the object store any more",
            where=str(way.store.path),
            next="./inv bump --restart: remembered resolutions are offered again",
        )
    return by_hand(way, patch, clash, tree)


def _offered(
    way: Way, patch: Patch, clash: Clash, known: Mapping[str, resolutions.Resolution], reused: list[str]
) -> Carried | Clash:
    """The clash with remembered resolutions put in, and carried if that leaves none. Every use is told in *reused*.

    One that does not hold here (what comes out does not compile, or its probe denies it) is told, and not used.
    """
    store, files, used, left = way.store, {}, [], 0
    for path in clash.merged.conflicts:
        entry = store.entry(clash.merged.tree, path)
        data, here, missing = resolutions.resolve(store.blob(entry.blob), known) if entry else (b"", [], 1)
        # a clash without markers (one side deleted the file) has nothing to look up
        left += missing or (0 if here else 1)
        if entry and here:
            files[path] = Entry(entry.mode, store.write_blob(data))
        used += [(f"{path}:{line}", item) for line, item in here]
    if not used:
        return clash
    tree = store.with_files(clash.merged.tree, files)
    wrong = "" if left else way.judge.complaint(patch, clash.ours, tree)
    what = "was tried and does not hold" if wrong else "reused"
    reused += [
        f"resolution {item.key[:8]} {what} at {place}, made {item.made} for {item.patch} at {item.release}"
        for place, item in used
    ]
    if wrong:
        return replace(clash, why=f"{clash.why}; as resolved before, {wrong}")
    if left:
        return replace(clash, offered=tree)
    how = f"three-way merge from {clash.source}, with {len(used)} remembered resolution{'s' * (len(used) > 1)}"
    return way.carrier.derived(patch, clash.variant, clash.ours, tree, how)
