"""Patch × release: what becomes of each patch of a series on each release, by the text and by the probes.

The document that comes out is described by ``forecast.schema.json``; ``forecast_table`` shows it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from packaging.version import Version

from patchset import lab, proof, ranges, series, stack
from patchset.bases import Bases
from patchset.console import Console
from patchset.errors import PatchsetError, SourceError
from patchset.explain import Explainer, Why
from patchset.patch import Patch, Variant
from patchset.placing import Place
from patchset.probe import Decision, Finding, decide
from patchset.proof import Findings
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.series import Step
from patchset.series_try import require_in_series
from patchset.store import Store

FORMAT = 1
SCHEMA = Path(__file__).with_name("forecast.schema.json")

#: Where a forecast starts that is not told where to: the oldest release that the patches are for.
FIRST = {"vllm": "0.19.1"}

_NETWORK = "check the network and the index settings, then run again"
_ASK = "no verdict is kept for this probe on this tree"


@dataclass(frozen=True)
class Cell:
    """One patch on one release: the variant that was tried, and what became of it after the patches before it.

    ``covered``: the variant is for this release; else it is the nearest. ``end`` is the tree after the whole series.
    """

    patch: Patch
    release: str
    variant: Variant
    covered: bool
    step: Step
    base: str
    end: str
    why: Why | None = None


@dataclass(frozen=True)
class Unavailable:
    """A release that could not be had, why, and what to type next."""

    release: str
    why: str
    next: str


def forecast(
    project: Project,
    recipe: Recipe,
    console: Console,
    releases: str = "",
    patch: str = "",
    probes: bool = False,
    fresh: bool = False,
) -> dict[str, Any]:
    """The document: the series of *recipe* on every release that *releases* names.

    Verdicts that are known are read in any case; nothing is installed for that.

    :param releases: as :func:`patchset.ranges.select` reads it; empty: every known one from :data:`FIRST` on.
    :param patch: show the cells of this patch only; the whole series is applied all the same.
    :param probes: run those that no verdict is kept of.
    :param fresh: with *probes*, run them all.
    :raises DeclarationError: no such release, or no such patch in the series.
    """
    if patch:
        require_in_series(recipe, patch, "./inv forecast --patch ID")
    started = time.monotonic()
    store = Store.open(project.workspace.store)
    bases = project.bases(store, console.say, recipe.pin.upstream)
    trees, unavailable = bring(bases, releases, console)
    patches = project.series_of(recipe)
    cells, missing = text_pass(store, bases, trees, patches)
    unavailable += missing
    trees = {release: tree for release, tree in trees.items() if release not in {item.release for item in missing}}
    cells = tuple(cell for cell in cells if patch in ("", cell.patch.id))
    findings, reason = _recalled(project, cells, fresh=probes and fresh)
    text_seconds = time.monotonic() - started
    if probes:
        findings = {**findings, **_run_probes(project, store, cells, findings, console, fresh=fresh)}
    return {
        "format": FORMAT,
        "upstream": recipe.pin.upstream,
        "recipe": recipe.name,
        "made": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": {
            "text": round(text_seconds, 3),
            "probes": round(time.monotonic() - started - text_seconds, 3) if probes else 0.0,
        },
        "patches": [_describe_patch(item) for item in patches if patch in ("", item.id)],
        "releases": _describe_releases(store, bases, trees, recipe),
        "unavailable": [asdict(item) for item in unavailable],
        **_describe_cells(cells, findings, reason),
    }


# -- which releases ----------------------------------------------------------------------------------------------------


def bring(bases: Bases, releases: str, console: Console) -> tuple[dict[str, str], list[Unavailable]]:
    """(release → tree of those that can be had, ascending; those that cannot).

    Where nobody named any, the first one that cannot be fetched stands for the network: the others that would have to be
    fetched are not tried, and are listed.

    :raises DeclarationError: *releases* names none that is known.
    """
    known = tuple(bases.upstream.releases)
    first = FIRST.get(bases.upstream.name)
    wanted = (
        ranges.select(releases, known)
        if releases
        else tuple(release for release in known if not first or Version(release) >= Version(first))
    )
    here, trees, unavailable, failed = dict(bases.here()), {}, [], ""
    for release in wanted:
        if release in here:
            trees[release] = here[release]
        elif failed and not releases and not bases.archive(release).is_file():
            why = f"not in the store, and not tried after {failed} could not be had"
            unavailable.append(Unavailable(release, why, f"./inv forecast --releases {release}"))
        else:
            try:
                with console.step(f"base of {release}"):
                    trees[release] = bases.tree(release)
            except SourceError as error:
                failed = release
                unavailable.append(Unavailable(release, _one_line(error), error.next or _NETWORK))
    return trees, unavailable


def _one_line(error: PatchsetError) -> str:
    return " ".join(f"{error.where}: {error.what}".removeprefix(": ").split())


# -- text --------------------------------------------------------------------------------------------------------------


def text_pass(
    store: Store, bases: Bases, trees: Mapping[str, str], patches: Sequence[Patch]
) -> tuple[tuple[Cell, ...], list[Unavailable]]:
    """Every patch on every base of *trees*, in the order of the series; and releases that need a donor nobody has.

    A patch that does not go in leaves the tree as it was, and the next one is tried on that.
    """
    known = tuple(bases.upstream.releases)
    # what first broke a variant is looked for on every base that is here, not only on those that were asked for
    explainer = Explainer(store, {**dict(bases.here()), **trees}, bases.donor_file)
    cells: list[Cell] = []
    missing: list[Unavailable] = []
    for release, base in trees.items():
        try:
            cells += _column(store, bases, release, base, patches, known, explainer)
        except SourceError as error:
            why = f"a donor is missing: {_one_line(error)}"
            missing.append(Unavailable(release, why, error.next or _NETWORK))
    return tuple(cells), missing


def _column(
    store: Store,
    bases: Bases,
    release: str,
    base: str,
    patches: Sequence[Patch],
    known: Sequence[str],
    explainer: Explainer,
) -> list[Cell]:
    tree, tried = base, []
    for patch in patches:
        variant = patch.nearest(release, known)
        step = series.apply_patch(store, tree, "", patch, variant, bases.donor_file, verify=False)
        tried.append((patch, variant, step))
        if tree == base:
            explainer.saw(release, variant, goes_in=not step.outcome.stops)
        tree = step.tree
    return [
        Cell(
            patch,
            release,
            variant,
            variant.releases.contains(release, prereleases=True),
            step,
            base,
            tree,
            explainer.why(release, variant) if step.outcome.stops else None,
        )
        for patch, variant, step in tried
    ]


# -- probes ------------------------------------------------------------------------------------------------------------


def questions(cells: Sequence[Cell]) -> list[proof.Question]:
    """What the probes have to be asked: each on its base, and on the tree after the series where it changes the tree."""
    return [
        (cell.patch, tree)
        for cell in cells
        for tree in ((cell.base, cell.end) if cell.step.outcome.changes_tree else (cell.base,))
    ]


def _recalled(project: Project, cells: Sequence[Cell], *, fresh: bool) -> tuple[Findings, str]:
    """(verdicts that are known, why the others are not there)."""
    if fresh:
        return {}, _ASK
    try:
        identity = lab.identity()
    except PatchsetError as error:
        return {}, f"no laboratory: {_one_line(error)}"
    return proof.recall(questions(cells), identity, project.workspace.cache), _ASK


def _run_probes(
    project: Project, store: Store, cells: Sequence[Cell], known: Findings, console: Console, *, fresh: bool
) -> Findings:
    wanted = list({(patch.id, tree): (patch, tree) for patch, tree in questions(cells)}.values())
    open_ones = [(patch, tree) for patch, tree in wanted if fresh or (patch.id, tree) not in known]
    if not open_ones:
        return {}
    laboratory = lab.ensure(project.workspace.environments, console.say)
    count = 0

    def heard(finding: Finding) -> None:
        nonlocal count
        count += 1  # only shown: two threads that meet here may at worst say a number twice
        console.say(
            f"  probe {count} of {len(open_ones)}: {finding.patch} on {finding.tree[:12]}: {finding.verdict.value}"
        )

    with console.step(f"{len(open_ones)} probes, {len(wanted) - len(open_ones)} known already"):
        with project.workspace.scratch() as scratch:
            return proof.ask(
                open_ones, store, laboratory, cache=project.workspace.cache, scratch=scratch, fresh=fresh, heard=heard
            )


# -- the document ------------------------------------------------------------------------------------------------------


def _describe_patch(patch: Patch) -> dict[str, Any]:
    return {
        "id": patch.id,
        "title": patch.title,
        "why": patch.why.strip(),
        "drop_when": patch.drop_when,
        "kind": patch.kind,
        "references": [asdict(reference) for reference in patch.references],
    }


def _describe_releases(store: Store, bases: Bases, trees: Mapping[str, str], recipe: Recipe) -> list[dict[str, Any]]:
    """Each release with its stack, and what changes from the one before it.

    The first one is compared with the recipe's own stack if it is a later release than the recipe's.
    """
    described, before = [], {}
    for release, tree in trees.items():
        if not described and Version(release) > Version(recipe.pin.release):
            before = dict(recipe.stack)
        try:
            now = stack.of(store, tree, release)
            changes = stack.changes(before, now) if before else ()
        except SourceError as error:
            now, changes = {}, (stack.Change("stack", "", "", f"could not be read: {_one_line(error)}"),)
        described.append(
            {
                "release": release,
                "date": bases.upstream.release(release).date.strftime("%Y-%m-%d"),
                "tree": tree,
                "stack": now,
                "changes": [
                    {"name": item.name, "from": item.before, "to": item.after, "meaning": item.meaning}
                    for item in changes
                ],
            }
        )
        before = now or before
    return described


def _describe_cells(cells: Sequence[Cell], findings: Findings, reason: str) -> dict[str, Any]:
    decided = [_decide(cell, findings) for cell in cells]
    agree = [decision.agree for decision in decided]
    return {
        "cells": [
            _describe_cell(cell, decision, findings, reason) for cell, decision in zip(cells, decided, strict=True)
        ],
        "summary": {
            "cells": len(cells),
            "agree": agree.count(True),
            "disagree": agree.count(False),
            "not_run": agree.count(None),
            "stops": sum(cell.step.outcome.stops for cell in cells),
        },
    }


def _decide(cell: Cell, findings: Findings) -> Decision:
    base, patched = _found(cell, findings)
    return decide(cell.step.outcome, base, patched, "" if cell.covered else cell.variant.name)


def _found(cell: Cell, findings: Findings) -> tuple[Finding | None, Finding | None]:
    """What is known of the base, and of the tree after the series if the patch is in it."""
    base = findings.get((cell.patch.id, cell.base))
    return base, findings.get((cell.patch.id, cell.end)) if cell.step.outcome.changes_tree else None


def _describe_cell(cell: Cell, decision: Decision, findings: Findings, reason: str) -> dict[str, Any]:
    step, why = cell.step, cell.why
    base, patched = _found(cell, findings)
    interaction = ["on the untouched base it goes in: a patch before it in the series is in its way"]
    return {
        "patch": cell.patch.id,
        "release": cell.release,
        "variant": cell.variant.name,
        "covered": cell.covered,
        "outcome": step.outcome.value,
        "evidence": [*step.evidence, *(interaction if why and why.alone else [])],
        "tree": step.tree,
        "hunks": [_describe_hunk(place) for place in step.places],
        "conflicts": [asdict(clash) for clash in step.conflicts],
        "moved": [asdict(item) for item in why.moved] if why else [],
        "first_broken": why.first_broken if why else None,
        "probe": {
            "base": base.as_dict() if base else None,
            "patched": patched.as_dict() if patched else None,
            "not_run": "" if base and (patched or not step.outcome.changes_tree) else reason,
        },
        "state": decision.state.value if decision.state else None,
        "agree": decision.agree,
        "so": decision.text,
    }


def _describe_hunk(place: Place) -> dict[str, Any]:
    if place.missing:
        state = "missing"
    elif place.fits:
        state = "twice" if place.ambiguous else "fits"
    else:
        state = "in" if place.done else "lost"
    return {
        "path": place.path,
        "number": place.number,
        "claimed": place.claimed,
        "state": state,
        "lines": list(place.fits or place.done),
        "offset": place.offset,
    }
