"""Run the smoke in the laboratory, on the kernels of a wheel, and read its result."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patchset import process
from patchset.errors import SmokeError
from patchset.lab import Lab
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.smoke import catalogue, report
from patchset.wheel import BuiltWheel
from patchset.workspace import UNREADABLE, digest, sources_digest, write_atomically

_TIMEOUT = 1800.0
_RESULT_LIMIT = 16 * 1024 * 1024


def smoke_wheel(
    project: Project, recipe: Recipe, built: BuiltWheel, laboratory: Lab, lane: str, *, fresh: bool = False
) -> tuple[dict[str, Any], bool]:
    """The result of *lane* on the kernels of the wheel; a good one of the same wheel, kernels and laboratory is reused.

    :raises SmokeError: the smoke did not come to a result.
    """
    workspace = project.workspace
    key = digest(
        [built.sha256, sources_digest(Path(__file__).parent / "smoke"), laboratory.identity, lane, recipe.smoke_set]
    )
    kept = workspace.cache / "smoke" / f"{key}.json"
    if kept.is_file() and not fresh:
        try:
            return _read_result(kept), True
        except UNREADABLE:
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
            timeout=_TIMEOUT,
            log=log,
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


def _read_result(file: Path) -> dict[str, Any]:
    """A smoke result, read strictly: what it sums up is computed again from its kernels.

    :raises ValueError: it is none.
    """
    if file.stat().st_size > _RESULT_LIMIT:
        raise ValueError(f"more than {_RESULT_LIMIT} bytes")
    result = report.from_json(json.loads(file.read_bytes()))
    for kernel in result.kernels:
        if (kernel.status == report.PASSED) != bool(
            kernel.cases and not any(c.status == report.FAILED for c in kernel.cases)
        ):
            raise ValueError(f"{kernel.name} is called {kernel.status}, and its cases say otherwise")
    return result.as_json()


def require_smoke(result: Mapping[str, Any], wheel: Path, recipe: Recipe) -> None:
    """Every kernel that the release must have ran and passed.

    :raises SmokeError: names those that did not.
    """
    expected = {kernel.name for kernel in catalogue.select(recipe.smoke_set)}
    unheard = sorted(expected - {kernel["name"] for kernel in result["kernels"]})
    if unheard:
        raise SmokeError(
            f"the smoke says nothing of {', '.join(unheard)}", where=str(wheel), next="./inv smoke --fresh"
        )
    if not result["summary"]["ok"]:
        bad = [kernel for kernel in result["kernels"] if kernel["status"] in ("failed", "missing")]
        detail = "\n".join(f"{kernel['name']}: {kernel['status']} {kernel.get('message', '')}" for kernel in bad)
        raise SmokeError(
            f"kernels of the wheel are wrong: {', '.join(kernel['name'] for kernel in bad) or 'none ran'}",
            where=str(wheel),
            detail=detail,
            next=f"./inv smoke --lane {result['lane']} --wheel {wheel}",
        )
