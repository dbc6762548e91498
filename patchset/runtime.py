"""The main job: recipe → base → series → proof → wheel → smoke → receipt. Published only when all of it is good."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from patchset import lab, process, proof, receipt
from patchset.console import Console
from patchset.errors import DeclarationError, SmokeError, WheelError
from patchset.lab import Lab
from patchset.proof import Exposure, Proof
from patchset.receipt import NotRun
from patchset.recipe import LANES, Recipe
from patchset.resolve import Project, Resolved, require_locked, resolve, write_lock
from patchset.smoke import report
from patchset.store import Store
from patchset.wheel import BUILD_REQUIREMENTS, DELETED, BuiltWheel, WheelRequest, build_wheel
from patchset.wheel.toolchain import check_tools
from patchset.workspace import Workspace, write_atomically

_SMOKE_TIMEOUT = 1800.0
_RESULT_LIMIT = 16 * 1024 * 1024


@dataclass(frozen=True)
class Runtime:
    """What a run delivered: the wheel and the receipt in ``dist/<version>``, and the receipt's content."""

    wheel: Path
    receipt: Path
    document: Mapping[str, Any]


@dataclass(frozen=True)
class _Built:
    """A recipe up to its wheel. ``new_lock``: there is no lock on disk yet."""

    resolved: Resolved
    proofs: tuple[Proof, ...]
    omitted: tuple[Exposure, ...]
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
    built, laboratory, reused = _build(project, recipe, console, fresh=fresh)
    results = []
    for lane in recipe.lanes:
        with console.step(f"smoke, lane {lane}") as step:
            result, cached = smoke_wheel(project, recipe, built.wheel, laboratory, lane, fresh=fresh)
            step.note = "reused" if cached else ""
        reused += [f"smoke in lane {lane}"] if cached else []
        require_smoke(result, built.wheel.path)
        results.append(result)
    document = receipt.receipt(
        built.resolved,
        built.proofs,
        built.omitted,
        describe_wheel(built.wheel),
        results,
        not_run(recipe, built.wheel, results),
        reused,
        started,
    )
    target = project.workspace.dist / built.resolved.version
    wheel = publish(built.wheel, target)
    if built.new_lock:
        write_lock(built.resolved)
    return Runtime(wheel, receipt.write_receipt(target, document), document)


def _build(project: Project, recipe: Recipe, console: Console, *, fresh: bool) -> tuple[_Built, Lab, list[str]]:
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
        with console.step(f"wheel {resolved.version}") as step:
            wheel, cached = wheel_for(resolved, store, proofs, omitted, project, scratch, fresh=fresh)
            step.note = "reused" if cached else ""
    return _Built(resolved, proofs, omitted, wheel, new_lock), laboratory, reused + (["wheel"] if cached else [])


def _check_tools(store: Store, resolved: Resolved, workspace: Workspace) -> None:
    """Fail on a compiler or interpreter that is missing now, not after minutes of probes."""
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


def smoke_recipe(
    project: Project, recipe: Recipe, lane: str, wheel: str, console: Console, *, fresh: bool = False
) -> tuple[dict[str, Any], Path]:
    """The smoke of *recipe*'s wheel, which is built if need be, or of the file *wheel*; green or red, with the wheel's path.

    :raises DeclarationError: no such lane, or no such file.
    """
    workspace = project.workspace
    if lane not in LANES:
        raise DeclarationError(f"no lane {lane!r} (there is: {', '.join(LANES)})", next="./inv smoke --lane interpret")
    if wheel:
        path = Path(wheel).absolute()
        if not path.is_file():
            raise DeclarationError("no such wheel", where=str(path), next="ls dist/*/*.whl")
        laboratory = lab.ensure(workspace.environments, console.say)
        return run_smoke(
            ["--wheel", str(path), "--set", recipe.smoke_set], lane, laboratory, workspace.root, workspace.logs
        ), path
    built, laboratory, _ = _build(project, recipe, console, fresh=fresh)
    with console.step(f"smoke, lane {lane}"):
        return smoke_wheel(project, recipe, built.wheel, laboratory, lane, fresh=fresh)[0], built.wheel.path


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


def wheel_for(
    resolved: Resolved,
    store: Store,
    proofs: Sequence[Proof],
    omitted: Sequence[Exposure],
    project: Project,
    scratch: Path,
    *,
    fresh: bool = False,
) -> tuple[BuiltWheel, bool]:
    """The wheel of *resolved*: the one that was built from the very same, or a new one. True: it was there already."""
    workspace = project.workspace
    record = {
        "format": 1,
        "runtime": resolved.version,
        "recipe": resolved.recipe.name,
        "base": receipt.describe_base(resolved),
        "stack": dict(resolved.recipe.stack),
        "series": receipt.describe_series(proofs, reasons=False),
        "omitted": receipt.describe_omitted(omitted, reasons=False),
        "tree": resolved.applied.tree,
        "commit": resolved.applied.commit,
    }
    key = _digest(
        [
            record,
            _sources_digest(Path(__file__).parent / "wheel"),
            _digest(BUILD_REQUIREMENTS.read_text("utf-8")),
            list(sys.version_info[:3]),
            resolved.recipe.rust,
        ]
    )
    kept = workspace.cache / "wheels" / key
    if not fresh:
        built = _kept_wheel(kept)
        if built:
            return built, True
    source = scratch / "source"
    store.export(resolved.applied.tree, source)
    entries = store.entries(resolved.applied.tree)
    patched = {path: entries[path].blob if path in entries else DELETED for path in resolved.applied.touched}
    request = WheelRequest(
        source=source,
        release=resolved.release.version,
        version=resolved.version,
        tree_id=resolved.applied.tree,
        epoch=int(resolved.release.date.timestamp()),
        record=record,
        rust=resolved.recipe.rust,
        patched=patched,
    )
    built = build_wheel(
        request,
        out=kept,
        envs=workspace.environments,
        scratch=scratch,
        log=workspace.logs / f"wheel-{resolved.version}.log",
    )
    shutil.rmtree(source, ignore_errors=True)
    write_atomically(kept / "built.json", json.dumps({**asdict(built), "path": built.path.name}, indent=1).encode())
    return built, False


def _kept_wheel(kept: Path) -> BuiltWheel | None:
    """The wheel that was kept, if it is still the bytes that were built."""
    try:
        data = json.loads((kept / "built.json").read_bytes())
        path = kept / data["path"]
        if hashlib.sha256(path.read_bytes()).hexdigest() != data["sha256"]:
            return None
    except (OSError, ValueError, KeyError):
        return None
    lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    return BuiltWheel(**{**data, **lists, "path": path})


def smoke_wheel(
    project: Project, recipe: Recipe, built: BuiltWheel, laboratory: Lab, lane: str, *, fresh: bool = False
) -> tuple[dict[str, Any], bool]:
    """The result of *lane* on the kernels of the wheel; a good one of the same wheel, kernels and laboratory is reused.

    :raises SmokeError: the smoke did not come to a result.
    """
    workspace = project.workspace
    key = _digest(
        [built.sha256, _sources_digest(Path(__file__).parent / "smoke"), laboratory.identity, lane, recipe.smoke_set]
    )
    kept = workspace.cache / "smoke" / f"{key}.json"
    if kept.is_file() and not fresh:
        try:
            return _read_result(kept), True
        except ValueError:
            kept.unlink()  # cut short by a full disk, or edited: as good as not there
    result = run_smoke(
        ["--wheel", str(built.path), "--release", recipe.pin.release, "--set", recipe.smoke_set],
        lane,
        laboratory,
        workspace.root,
        workspace.logs,
    )
    # Where the wheel lay on this machine is nobody's business but the log's.
    result["source"]["path"] = built.path.name
    if result["summary"]["ok"]:
        write_atomically(kept, json.dumps(result, indent=1).encode())
    return result, False


def run_smoke(words: Sequence[str], lane: str, laboratory: Lab, root: Path, logs: Path) -> dict[str, Any]:
    """Run ``python -m patchset.smoke`` in the laboratory and return its JSON result, green or red.

    :raises SmokeError: there is no result: torch or Triton missing, wrong arguments, or it died.
    """
    logs.mkdir(parents=True, exist_ok=True)
    out, log = logs / f"smoke-{lane}-{os.getpid()}.json", logs / f"smoke-{lane}.log"
    env = process.clean_environment({"PYTHONPATH": str(root), "CUDA_VISIBLE_DEVICES": ""})
    try:
        ended = process.run(
            [laboratory.python, "-B", "-m", "patchset.smoke", "--lane", lane, *words, "--json", str(out)],
            cwd=root,
            env=env,
            timeout=_SMOKE_TIMEOUT,
            log=log,
        )
        if ended.returncode not in (0, 10) or not out.is_file():
            why = (
                f"no result after {_SMOKE_TIMEOUT:.0f} s"
                if ended.timed_out
                else f"ended with status {ended.returncode}"
            )
            raise SmokeError(
                f"the smoke came to no result: {why}", where=str(log), detail=ended.tail(), next=f"read {log}"
            )
        try:
            result = _read_result(out)
        except ValueError as error:
            raise SmokeError(
                f"the smoke's result cannot be read: {error}", where=str(log), next=f"read {log}"
            ) from error
    finally:
        out.unlink(missing_ok=True)
    if result["summary"]["ok"] != (ended.returncode == 0):
        raise SmokeError(
            f"the smoke's result and its status {ended.returncode} disagree", where=str(log), next=f"read {log}"
        )
    return result


def _read_result(file: Path) -> dict[str, Any]:
    """A smoke result, read strictly: what it sums up is computed again from its kernels.

    :raises ValueError: it is none.
    """
    if file.stat().st_size > _RESULT_LIMIT:
        raise ValueError(f"more than {_RESULT_LIMIT} bytes")
    return report.from_json(json.loads(file.read_bytes())).as_json()


def require_smoke(result: Mapping[str, Any], wheel: Path) -> None:
    """Every kernel that the release must have ran and passed.

    :raises SmokeError: names those that did not.
    """
    if not result["summary"]["ok"]:
        bad = [kernel for kernel in result["kernels"] if kernel["status"] in ("failed", "missing")]
        detail = "\n".join(f"{kernel['name']}: {kernel['status']} {kernel.get('message', '')}" for kernel in bad)
        raise SmokeError(
            f"kernels of the wheel are wrong: {', '.join(kernel['name'] for kernel in bad) or 'none ran'}",
            where=str(wheel),
            detail=detail,
            next=f"./inv smoke --lane {result['lane']} --wheel {wheel}",
        )


def not_run(recipe: Recipe, built: BuiltWheel, results: Sequence[Mapping[str, Any]]) -> tuple[NotRun, ...]:
    """What was not checked, and why."""
    missing = [
        NotRun("lane native", "not built into this version: no kernel was compiled to B70 machine code"),
        NotRun("lane device", "needs the card; nothing here ran on an Intel GPU"),
    ]
    if not built.rust:
        missing.append(NotRun("Rust front end", f"not in the wheel: {built.rust_reason}"))
    for result in results:
        missing += [
            NotRun(f"kernel {kernel['name']}", f"not in release {recipe.pin.release}")
            for kernel in result["kernels"]
            if kernel["status"] == "not-in-release"
        ]
    return tuple(missing)


def describe_wheel(built: BuiltWheel) -> dict[str, Any]:
    """The wheel for the receipt: everything but where it lay when it was built."""
    return {**{name: value for name, value in asdict(built).items() if name != "path"}, "name": built.path.name}


def publish(built: BuiltWheel, target: Path) -> Path:
    """Put the wheel and its sha256 into *target*; a wheel of other bytes under that name is not replaced.

    :raises WheelError: there is one.
    """
    wheel = target / built.path.name
    if wheel.exists() and hashlib.sha256(wheel.read_bytes()).hexdigest() != built.sha256:
        raise WheelError(
            f"{wheel.name} is there already and is not what was built now",
            where=str(wheel),
            next=f"move {target} away, then ./inv runtime again",
        )
    write_atomically(wheel, built.path.read_bytes())
    write_atomically(target / f"{wheel.name}.sha256", f"{built.sha256}  {wheel.name}\n".encode())
    return wheel


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _sources_digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return _digest(
        [[path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()] for path in files]
    )
