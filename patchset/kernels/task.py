"""``inv kernels``: bring the wheel, read it, and judge it beside a recipe's patched tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from patchset import stack
from patchset.console import Console
from patchset.errors import DeclarationError, SourceError
from patchset.kernels import beside, calls, have, judge, read, show
from patchset.kernels.finding import Wish, require
from patchset.kernels.judge_wheel import BOUNDARY
from patchset.recipe import Recipe
from patchset.resolve import Project, Resolved, resolve
from patchset.store import Store


def kernels(
    project: Project,
    recipe: Recipe,
    console: Console,
    *,
    version: str = "",
    wheel: str = "",
    torch: str = "",
    add: bool = False,
    fresh: bool = False,
) -> dict[str, Any]:
    """Read the kernels of *recipe*, and say whether they go with its patched tree. The document that was shown.

    :param version: these kernels instead of the recipe's.
    :param wheel: the wheel in this file instead.
    :param torch: where the torch of the serving host is, instead of the laboratory's.
    :param add: first make the wheel of *version* known, by what the package index says of it.
    :raises SourceError: the wheel cannot be had as pinned.
    :raises KernelsError: it cannot be read, or something was found that will fail on the host.
    """
    if version and wheel:
        raise DeclarationError("--version and --wheel name two wheels", next="./inv kernels --wheel FILE")
    if add and not version:
        raise DeclarationError("--add adds a version", next="./inv kernels --version VERSION --add")
    upstream = project.upstreams.get(have.NAME)
    if upstream is None:
        raise DeclarationError(
            f"there is no [{have.NAME}]", where="vendor/upstreams.toml", next="git checkout vendor/upstreams.toml"
        )
    if add:
        known = have.add(project, version, console.say)
        upstream = type(upstream)(
            **{**vars(upstream), "wheels": {**upstream.wheels, known.version: known}},
        )
    # named before anything is fetched: a torch that is not there should not cost a download
    host = beside.given(torch) if torch else beside.laboratory(project.workspace.environments)
    store = Store.open(project.workspace.store)
    with console.step("series applied"):
        resolved = resolve(project, recipe, store, console.say)
    if wheel:
        had = have.from_file(upstream, Path(wheel))
    else:
        requirements = (store.read(resolved.base.tree, "requirements/xpu.txt") or b"").decode("utf-8", "replace")
        with console.step("kernels wheel"):
            had = have.from_index(
                upstream,
                version or have.pinned(recipe),
                cache=project.workspace.archives,
                url=have.required_url(requirements),
            )
    if had.note:
        console.say(f"  {had.note}")
    with console.step("wheel read") as step:
        found, reused = read.contents(
            had, cache=project.workspace.cache, scratch=project.workspace.scratch, fresh=fresh
        )
        step.note = "reused" if reused else ""
    with console.step("tree read"):
        wanted = calls.wanted(store, resolved.applied.tree)
    findings = judge.judge(had, found, wanted, host, _wish(project, resolved, store))
    document = show.document(
        recipe.name, resolved.release.version, resolved.applied.tree, had, found, host, findings, reused
    )
    show.show(console, document)
    require(findings, had)
    return document


def _wish(project: Project, resolved: Resolved, store: Store) -> Wish:
    release = resolved.release.version
    try:
        required = stack.of(store, resolved.base.tree, release).get(have.NAME, "")
    except SourceError:
        required = ""  # a tree that says it in no known way asks for nothing that could be compared
    applied = any(step.patch == BOUNDARY and step.outcome.changes_tree for step in resolved.applied.steps)
    recipe = resolved.recipe
    return Wish(recipe.name, release, recipe.stack, required, project.patches.get(BOUNDARY), applied)
