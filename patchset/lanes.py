"""Run the smoke in the laboratory, on the kernels of a wheel, and read its result."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchset import process
from patchset.errors import DeclarationError, MissingTool, PatchsetError, SmokeError
from patchset.lab import Lab
from patchset.recipe import LANES, Recipe
from patchset.resolve import Project
from patchset.smoke import catalogue, report
from patchset.smoke.toolchains import CACHE
from patchset.wheel import BuiltWheel
from patchset.workspace import UNREADABLE, digest, read_json, sources_digest, write_atomically

_TIMEOUT = 1800.0
#: The smoke's own status for a lane that cannot run.
_UNUSABLE = 12
#: The lane on the device that this machine has now: a result says nothing of the next one, so it is not reused.
LIVE = "device"
#: How a person says which device, and where its libraries are.
_SELECTORS = ("CUDA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR", "LD_LIBRARY_PATH")
_RESULT_LIMIT = 16 * 1024 * 1024


def smoke_wheel(
    project: Project,
    recipe: Recipe,
    built: BuiltWheel,
    laboratory: Lab,
    lane: str,
    *,
    fresh: bool = False,
    words: Sequence[str] = (),
) -> tuple[dict[str, Any], bool]:
    """The result of *lane* on the kernels of the wheel; a good one of the same wheel, kernels and laboratory is reused.

    :param words: more for the smoke's command line.
    :raises MissingTool: the laboratory or this machine lacks what the lane needs.
    :raises SmokeError: the smoke did not come to a result.
    """
    workspace = project.workspace
    key = digest(
        [
            built.sha256,
            sources_digest(Path(__file__).parent / "smoke"),
            laboratory.identity,
            lane,
            recipe.smoke_set,
            list(words),
        ]
    )
    kept = workspace.cache / "smoke" / f"{key}.json"
    if kept.is_file() and not fresh and lane != LIVE:
        try:
            return _read_result(kept), True
        except UNREADABLE:
            kept.unlink()  # cut short by a full disk, or edited: as good as not there
    if fresh:
        laboratory = replace(laboratory, variables={k: v for k, v in laboratory.variables.items() if k != CACHE})
    result = run_smoke(
        ["--wheel", str(built.path), "--release", recipe.pin.release, "--set", recipe.smoke_set, *words],
        lane,
        laboratory,
        workspace.root,
        workspace.logs,
    )
    # Where the wheel lay on this machine is nobody's business but the log's.
    result["source"]["path"] = built.path.name
    if result["summary"]["ok"] and lane != LIVE:
        write_atomically(kept, json.dumps(result, indent=1).encode())
    return result, False


def run_smoke(words: Sequence[str], lane: str, laboratory: Lab, root: Path, logs: Path) -> dict[str, Any]:
    """Run ``python -m patchset.smoke`` in the laboratory and return its JSON result, green or red.

    :raises MissingTool: the laboratory or this machine lacks what the lane needs.
    :raises SmokeError: there is no result: wrong arguments, or it died.
    """
    logs.mkdir(parents=True, exist_ok=True)
    out, log = logs / f"smoke-{lane}-{os.getpid()}.json", logs / f"smoke-{lane}.log"
    env = process.clean_environment({"PYTHONPATH": str(root), **_devices(lane), **laboratory.variables})
    try:
        ended = process.run(
            [laboratory.python, "-B", "-m", "patchset.smoke", "--lane", lane, *words, "--json", str(out)],
            cwd=root,
            env=env,
            timeout=_TIMEOUT,
            log=log,
        )
        if ended.returncode == _UNUSABLE:
            said = ended.tail().splitlines()[-1:] or [""]
            raise MissingTool(
                f"lane {lane} cannot run here: {said[0].partition(': ')[2] or said[0]}",
                where=str(log),
                next="./inv smoke --lane interpret needs neither card nor compiler",
            )
        if ended.returncode not in (0, 10) or not out.is_file():
            why = f"no result after {_TIMEOUT:.0f} s" if ended.timed_out else f"ended with status {ended.returncode}"
            raise SmokeError(
                f"the smoke came to no result: {why}", where=str(log), detail=ended.tail(), next=f"read {log}"
            )
        try:
            result = _read_result(out)
        except UNREADABLE as error:
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


def _devices(lane: str) -> dict[str, str]:
    """Only the lane that is for a device may see one."""
    if lane != LIVE:
        return {"CUDA_VISIBLE_DEVICES": ""}
    return {name: os.environ[name] for name in _SELECTORS if name in os.environ}


def _read_result(file: Path) -> dict[str, Any]:
    """A smoke result, read strictly: what it sums up is computed again from its kernels.

    :raises ValueError: it is none.
    """
    result = report.from_json(read_json(file, _RESULT_LIMIT))
    for kernel in result.kernels:
        told = {case.status for case in kernel.cases}
        good = report.PASSED in told and report.FAILED not in told
        if (kernel.status == report.PASSED) != good and not (kernel.status == report.FAILED and kernel.message):
            raise ValueError(f"{kernel.name} is called {kernel.status}, and its cases say otherwise")
    return result.as_json()


def lanes_of(text: str, flag: str = "--lane") -> tuple[str, ...]:
    """The lanes that a person named: ``all``, one, or several with commas.

    :raises DeclarationError: there is no such lane.
    """
    if text == "all":
        return LANES
    named = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in named if name not in LANES]
    if unknown or not named:
        raise DeclarationError(
            f"{flag}: no lane {unknown[0] if unknown else text!r} (there is: {', '.join(LANES)}, or all)",
            next=f"{flag} interpret",
        )
    return named


def of_set(recipe: Recipe, name: str, lanes: Sequence[str]) -> Recipe:
    """*recipe* with the kernels of the named set, or as it is if there is no *name*.

    :raises DeclarationError: there is no such set, or it has no kernel for one of *lanes*.
    """
    if not name:
        return recipe
    try:
        kernels = catalogue.select(name)
    except KeyError as error:
        raise DeclarationError(
            f"--set: no set {error} (there is: {', '.join(catalogue.set_names())})", next="./inv smoke --set mission"
        ) from error
    for lane in lanes:
        if not any(kernel.is_for(lane) for kernel in kernels):
            fit = next(one for one in LANES if any(kernel.is_for(one) for kernel in kernels))
            raise DeclarationError(
                f"--set {name}: it has no kernel for lane {lane}", next=f"./inv smoke --lane {fit} --set {name}"
            )
    return replace(recipe, smoke_set=name)


def cache_words(prime: str, primed: str, lanes: Sequence[str]) -> tuple[str, ...]:
    """What the smoke is told of Triton's cache, for :data:`LIVE`: to fill a folder, to use one, or nothing.

    :raises DeclarationError: both, or no lane that has one.
    """
    if not prime and not primed:
        return ()
    if (prime and primed) or LIVE not in lanes:
        raise DeclarationError(
            f"--prime or --primed, one of them, and with lane {LIVE}", next=f"./inv smoke --lane {LIVE} --prime DIR"
        )
    return ("--prime", str(Path(prime).absolute())) if prime else ("--primed", str(Path(primed).absolute()))


def require_lanes(
    results: Sequence[Mapping[str, Any]],
    not_run: Mapping[str, PatchsetError],
    must: Sequence[str],
    wheel: Path,
    recipe: Recipe,
) -> None:
    """Every lane that *must* have run did, one at least, and every kernel passed in all that ran.

    :raises PatchsetError: why a lane was not run.
    :raises SmokeError: names the kernels that did not pass.
    """
    for lane in [*must, *([] if results else not_run)]:
        if lane in not_run:
            raise not_run[lane]
    for result in results:
        require_smoke(result, wheel, recipe)


def require_smoke(result: Mapping[str, Any], wheel: Path, recipe: Recipe) -> None:
    """Every kernel that the release must have ran and passed, and no planted fault was left unseen.

    :raises SmokeError: names those that did not.
    """
    expected = {kernel.name for kernel in catalogue.select(recipe.smoke_set) if kernel.is_for(result["lane"])}
    unheard = sorted(expected - {kernel["name"] for kernel in result["kernels"]})
    if unheard:
        raise SmokeError(
            f"the smoke says nothing of {', '.join(unheard)}", where=str(wheel), next="./inv smoke --fresh"
        )
    again = f"./inv smoke --lane {result['lane']} --wheel {wheel}"
    unseen = [
        f"{kernel['name']}: {kernel['file']}:{one['line']}: {one['what']}"
        for kernel in result["kernels"]
        for one in kernel.get("mutants", {}).get("survivors", ())
    ]
    if not result["summary"]["ok"]:
        bad = [kernel for kernel in result["kernels"] if kernel["status"] in ("failed", "missing")]
        if unseen and not bad:
            raise SmokeError(
                f"the cases do not see {len(unseen)} of the planted faults",
                where=str(wheel),
                detail="\n".join(unseen),
                next=f"{again} --mutants",
            )
        detail = [f"{kernel['name']}: {kernel['status']} {kernel.get('message', '')}" for kernel in bad]
        raise SmokeError(
            f"kernels of the wheel are wrong: {', '.join(kernel['name'] for kernel in bad) or 'none ran'}",
            where=str(wheel),
            detail="\n".join([*detail, *unseen]),
            next=again,
        )
