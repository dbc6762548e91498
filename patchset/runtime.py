"""The main job: recipe → base → series → proof → wheel → smoke → receipt. Published only when all of it is good."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from patchset import delivery, lab, proof, receipt
from patchset.console import Console
from patchset.delivery import Order
from patchset.errors import DeclarationError, MissingTool, PatchsetError, SourceError
from patchset.lab import Lab
from patchset.lanes import LIVE, require_smoke, run_smoke, smoke_wheel
from patchset.proof import Exposure, Proof
from patchset.receipt import NotRun
from patchset.recipe import Recipe
from patchset.resolve import Project, Resolved, require_locked, resolve, write_lock
from patchset.store import Store
from patchset.toolchains.bench import laboratory_of
from patchset.wheel import BuiltWheel, requires
from patchset.wheel.reproduce import Made, differences, make_again
from patchset.wheel.toolchain import check_tools
from patchset.workspace import Workspace

#: What a receipt says of a lane that the recipe does not ask for.
_LANES_LEFT_OUT = {
    "spirv": "not among the recipe's lanes: no code of Intel's backend was executed",
    "native": "not among the recipe's lanes: no kernel was compiled to B70 machine code",
    "device": "needs the card; nothing here ran on an Intel GPU",
}


@dataclass(frozen=True)
class Runtime:
    """What a run delivered in ``dist/<version>``: the wheel, the receipt, the statement about it; and the receipt's content."""

    wheel: Path
    receipt: Path
    statement: Path
    document: Mapping[str, Any]


@dataclass(frozen=True)
class _Built:
    """A recipe up to its wheel. ``new_lock``: there is no lock on disk yet."""

    resolved: Resolved
    proofs: tuple[Proof, ...]
    omitted: tuple[Exposure, ...]
    order: Order
    wheel: BuiltWheel
    new_lock: bool


def make_runtime(project: Project, recipe: Recipe, console: Console, *, fresh: bool = False) -> Runtime:
    """Make the runtime of *recipe* and deliver it to ``dist/<version>``.

    Results that are known by the hash of all that went into them are reused, and the receipt says which. Nothing is
    put into ``dist``, and no lock is written, unless every step was good.

    :param fresh: reuse no result.
    :raises PatchsetError: of the kind of the step that failed.
    """
    started = datetime.now(timezone.utc)
    built, _, reused = _build(project, recipe, console, fresh=fresh)
    results = []
    for lane in recipe.lanes:
        with console.step(f"smoke, lane {lane}") as step:
            where = laboratory_of(lane, project.workspace, console.say)
            result, cached = smoke_wheel(project, recipe, built.wheel, where, lane, fresh=fresh)
            step.note = "reused" if cached else ""
        reused += [f"smoke in lane {lane}"] if cached else []
        require_smoke(result, built.wheel.path, recipe)
        results.append(result)
    document = receipt.receipt(
        built.resolved,
        built.proofs,
        built.omitted,
        delivery.describe_wheel(built.wheel),
        requires.check_wheel_requires(built.wheel.path, recipe.stack, built.resolved.applied.steps),
        results,
        not_run(recipe, built.wheel, results),
        reused,
        started,
    )
    target = project.workspace.dist / built.resolved.version
    wheel = delivery.publish(built.wheel, target)
    if built.new_lock:
        write_lock(built.resolved)
    written = receipt.write_receipt(target, document)
    return Runtime(wheel, written, delivery.state(built.order, wheel, written), document)


@dataclass(frozen=True)
class WheelOnly:
    """A wheel without smoke and receipt. ``again``: what came out of making it in other surroundings, if that was asked for."""

    version: str
    path: Path
    built: BuiltWheel
    requirements: tuple[requires.Finding, ...]
    again: tuple[Made, ...]


def only_wheel(
    project: Project, recipe: Recipe, console: Console, *, fresh: bool, whole: bool, check: bool, against: str
) -> WheelOnly:
    """The wheel of *recipe*, put into ``dist/<version>`` with its sha256.

    :param fresh: reuse no result. :param whole: let upstream's own build make it, even if it could be assembled.
    :param check: make it again in other surroundings and compare. :param against: a wheel made elsewhere, to compare with.
    :raises WheelError: it cannot be made, or one of *check* and *against* is not the same bytes.
    """
    other = Path(against).absolute() if against else None
    if other and not other.is_file():
        raise DeclarationError("no such wheel", where=str(other), next="ls dist/*/*.whl")
    built, _, _ = _build(project, recipe, console, fresh=fresh, whole=whole)
    found: tuple[Made, ...] = ()
    workspace = project.workspace
    if check:
        with workspace.scratch() as scratch, TemporaryDirectory(prefix="again-", dir=workspace.vendor) as disk:
            rooms = replace(built.order.rooms, scratch=scratch)
            with console.step("the same wheel in other surroundings"):
                found = make_again(built.order.request, rooms, Path(disk), scratch / "made", console.say)
    if other:
        digest = hashlib.sha256(other.read_bytes()).hexdigest()
        found += (Made(str(other), "elsewhere", digest, differences(built.wheel.path, other)),)
    path = delivery.publish(built.wheel, workspace.dist / built.resolved.version)
    steps = built.resolved.applied.steps
    said = requires.check_wheel_requires(path, recipe.stack, steps)
    return WheelOnly(built.resolved.version, path, built.wheel, said, found)


def _build(
    project: Project, recipe: Recipe, console: Console, *, fresh: bool, whole: bool = False
) -> tuple[_Built, Lab, list[str]]:
    """Everything up to the wheel; with the laboratory, and what was reused."""
    workspace, reused = project.workspace, []
    store = Store.open(workspace.store)
    with console.step(f"base and series of {recipe.name}") as step:
        resolved = resolve(project, recipe, store, console.say)
        step.note = f"tree {resolved.applied.tree[:12]}"
    new_lock = require_locked(resolved)
    _check_tools(store, resolved, workspace)
    with console.step("laboratory: torch, Triton and what vLLM imports"):
        laboratory = lab.ensure(workspace.environments, console.say)
    with workspace.scratch() as scratch:
        proofs, omitted = run_probes(project, resolved, store, laboratory, scratch, console, fresh=fresh)
        proof.require(proofs, recipe.name)
        if all(item.base.cached and item.patched.cached for item in proofs):
            reused.append("probe verdicts")
        wanted = delivery.order(project, resolved, store, proofs, omitted, scratch, console.say)
        with console.step(f"wheel {resolved.version}") as step:
            wheel, cached = delivery.wheel_for(wanted, workspace.cache, fresh=fresh, whole=whole)
            step.note = "reused" if cached else wheel.made
    return (
        _Built(resolved, proofs, omitted, wanted, wheel, new_lock),
        laboratory,
        reused + (["wheel"] if cached else []),
    )


def _check_tools(store: Store, resolved: Resolved, workspace: Workspace) -> None:
    """Fail on a compiler or interpreter that is missing now, not after minutes of probes."""
    odd = re.search(r"[^\w /.,@+=~-]", str(workspace.vendor))
    if odd:
        raise MissingTool(
            f"vLLM's CMake files cannot cope with {odd.group()!r} in a path",
            where=str(workspace.vendor),
            next="move the clone, or set PATCHSET_VENDOR to a plainer path",
        )
    with workspace.scratch() as scratch:
        for name in ("setup.py", "pyproject.toml"):
            (scratch / name).write_bytes(store.read(resolved.applied.tree, name) or b"")
        check_tools(scratch)


def prove_recipe(
    project: Project, recipe: Recipe, console: Console, *, only: str = "", fresh: bool = False
) -> tuple[tuple[Proof, ...], tuple[Exposure, ...]]:
    """The probes of *recipe*, or of the patch called *only*, on base and patched tree.

    :raises DeclarationError: the recipe knows no patch of that name.
    """
    if only and only not in [*recipe.series, *(item.patch for item in recipe.omitted)]:
        raise DeclarationError(
            f"recipe {recipe.name} has no patch {only!r} (it has: {', '.join(recipe.series)})", next="./inv probe"
        )
    store = Store.open(project.workspace.store)
    resolved = resolve(project, recipe, store, console.say)
    laboratory = lab.ensure(project.workspace.environments, console.say)
    with project.workspace.scratch() as scratch:
        return run_probes(project, resolved, store, laboratory, scratch, console, only=only, fresh=fresh)


@dataclass(frozen=True)
class Smoked:
    """The kernels of a wheel in several lanes: a result each, or why a lane was not run."""

    wheel: Path
    results: tuple[dict[str, Any], ...]
    not_run: Mapping[str, PatchsetError]


def smoke_recipe(
    project: Project,
    recipe: Recipe,
    lanes: Sequence[str],
    wheel: str,
    console: Console,
    *,
    fresh: bool = False,
    cache: Sequence[str] = (),
    mutants: bool = False,
) -> Smoked:
    """The smoke of *recipe*'s wheel, which is built if need be, or of the file *wheel*, in each of *lanes*; green or red.

    :param cache: :func:`patchset.lanes.cache_words`.
    :param mutants: plant faults too, each of which must be seen.
    :raises DeclarationError: no such file.
    """
    workspace = project.workspace
    path = Path(wheel).absolute()
    if wheel and not path.is_file():
        raise DeclarationError("no such wheel", where=str(path), next="ls dist/*/*.whl")
    built = None if wheel else _build(project, recipe, console, fresh=fresh)[0].wheel
    results, not_run = [], {}
    for lane in lanes:
        try:
            with console.step(f"smoke, lane {lane}"):
                where = laboratory_of(lane, workspace, console.say)
                more = [*(cache if lane == LIVE else ()), *(["--mutants"] if mutants else [])]
                if built:
                    results.append(smoke_wheel(project, recipe, built, where, lane, fresh=fresh, words=more)[0])
                else:
                    words = ["--wheel", str(path), "--set", recipe.smoke_set, *more]
                    results.append(run_smoke(words, lane, where, workspace.root, workspace.logs))
        except (MissingTool, SourceError) as error:
            not_run[lane] = error
    return Smoked(built.path if built else path, tuple(results), not_run)


def run_probes(
    project: Project,
    resolved: Resolved,
    store: Store,
    laboratory: Lab,
    scratch: Path,
    console: Console,
    *,
    only: str = "",
    fresh: bool = False,
) -> tuple[tuple[Proof, ...], tuple[Exposure, ...]]:
    """Every probe, or that of patch *only*, on base and patched tree; whether they agree is for :func:`patchset.proof.require` to say."""
    recipe = resolved.recipe
    left_out = [(project.patches[item.patch], item.reason) for item in recipe.omitted if only in ("", item.patch)]
    patches = [patch for patch in project.series_of(recipe) if only in ("", patch.id)]
    with console.step("probes on base and patched tree") as step:
        proofs, omitted = proof.prove(
            resolved, patches, left_out, store, laboratory, cache=project.workspace.cache, scratch=scratch, fresh=fresh
        )
        findings = [finding for item in proofs for finding in (item.base, item.patched)]
        step.note = f"{sum(finding.cached for finding in findings)} of {len(findings)} reused"
    return proofs, omitted


def not_run(recipe: Recipe, built: BuiltWheel, results: Sequence[Mapping[str, Any]]) -> tuple[NotRun, ...]:
    """What was not checked, and why."""
    ran = {result["lane"] for result in results}
    missing = [NotRun(f"lane {lane}", why) for lane, why in _LANES_LEFT_OUT.items() if lane not in ran]
    if not built.rust:
        missing.append(NotRun("Rust front end", f"not in the wheel: {built.rust_reason}"))
    for result in results:
        if result["lane"] == LIVE and result["environment"].get("kind") != "xpu":
            name = result["environment"].get("device", "another device")
            missing.append(NotRun("lane device on Intel", f"it ran on {name}; nothing here ran on an Intel GPU"))
        missing += [
            NotRun(f"kernel {kernel['name']}", f"not in release {recipe.pin.release}")
            for kernel in result["kernels"]
            if kernel["status"] == "not-in-release"
        ]
    return tuple(dict.fromkeys(missing))  # each lane says the same of a kernel that the release does not have
