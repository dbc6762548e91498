"""A gate: a server is asked, and one document is made of it that holds everything a verdict needs."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchset import __version__
from patchset.console import Console
from patchset.errors import DeclarationError, GateError
from patchset.gates import run_client, run_log, run_plan, run_server, run_versions
from patchset.gates.prompts import PromptSet, prompts_of
from patchset.smoke import receipt
from patchset.workspace import Workspace, sources_digest

_SLOWEST = 3600.0


@dataclass(frozen=True)
class Wanted:
    """What a person asks for. Empty or zero: not said.

    ``pid``, ``log``: of the server, where it is on this machine. ``runtime``: which one must be served; ``receipt``: its file.
    ``rungs``: how many requests at once. ``most``: tokens of an answer at most. ``timeout``: seconds for one request.
    """

    kind: str
    url: str
    model: str
    revision: str = ""
    quantisation: str = ""
    pid: int = 0
    log: str = ""
    receipt: str = ""
    runtime: str = ""
    prompts: str = ""
    rungs: tuple[int, ...] = run_plan.RUNGS
    most: int = 0
    timeout: float = 300.0

    def __post_init__(self) -> None:
        if self.kind not in run_plan.KINDS:
            raise DeclarationError(f"{self.kind} is no gate", next=f"./inv gate {'|'.join(run_plan.KINDS)}")
        if not self.model.strip() or not self.model.isprintable():
            raise DeclarationError(
                "no model is named", next=f"./inv gate {self.kind} --model ID, as GET /v1/models lists it"
            )
        if not 0 < self.timeout <= _SLOWEST:
            raise DeclarationError(f"--timeout {self.timeout:g} is not 0 to {_SLOWEST:g} seconds", next="--timeout 300")
        if not 0 <= self.most <= 32_768 or self.pid < 0:
            raise DeclarationError("--max-tokens or --pid is out of range", next="--max-tokens 512")


def measure(workspace: Workspace, wanted: Wanted, console: Console) -> dict[str, Any]:
    """The document of one run, without figures and checks: every request as it went, and everything known of the server.

    :raises DeclarationError: the order cannot be understood.
    :raises GateError: prompts, receipt or log cannot be read, or there is no such process; or the client itself failed.
        What the server does wrong is recorded, not raised.
    :raises MissingTool, SourceError: the client's environment cannot be made.
    """
    base = run_server.address_of(wanted.url)
    chosen = run_plan.with_most(prompts_of(wanted.prompts or wanted.kind), wanted.most)
    runtime, receipt_hash = _receipt(wanted)
    found = run_server.process_of(base, wanted.pid)
    if wanted.log:
        run_log.read_log(wanted.log)  # before minutes are spent
    steps = run_plan.steps_of(wanted.kind, chosen, wanted.rungs)
    job = {
        "base": base,
        "model": wanted.model,
        "sampling": run_plan.SAMPLING,
        "timeout": wanted.timeout,
        "stall": wanted.timeout,
        "metrics": True,
        "steps": steps,
    }
    python = run_client.make_ready(workspace.environments, console.say)
    asked = sum(len(step["requests"]) for step in steps)
    log = workspace.logs / f"gate-{wanted.kind}-{os.getpid()}.log"
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with tempfile.TemporaryDirectory(prefix="gate-") as folder:
        with console.step(f"{wanted.kind}: {asked} requests to {base}") as step:
            raw = run_client.measure(python, job, Path(folder), log)
            step.note = f"timed by {raw['timing']['source']}"
    log.unlink(missing_ok=True)
    command = list(found.command) if found else None
    flags = run_server.flags_of(found.command) if found else []
    versions = {
        **(run_versions.versions_of(found.pid) if found else {}),
        **({"vllm": raw["version"]} if raw["version"] else {}),
    }
    return {
        "schema": 1,
        "kind": wanted.kind,
        "made": made,
        "tool": tool(),
        "endpoint": base,
        "server": {
            "command": command,
            "environment": dict(found.environment) if found else None,
            "process": run_server.facts(found),
            "log": run_log.read_log(wanted.log).recorded() if wanted.log else None,
            "versions": versions,
            "runtime": runtime,
            "receipt_sha256": receipt_hash,
            "models": None if raw["models"] is None else [one["id"] for one in raw["models"]],
            "health": raw["health"],
        },
        "model": {
            "id": wanted.model,
            "revision": wanted.revision or run_server.flag(flags, "revision"),
            "quantisation": wanted.quantisation or run_server.flag(flags, "quantization"),
        },
        "flags": flags,
        "client": raw["client"],
        "timing": raw["timing"],
        "sampling": {**run_plan.SAMPLING, "max_tokens": chosen.max_tokens},
        "prompts": _described(chosen, raw["requests"]),
        "requests": raw["requests"],
        "metrics": raw["metrics"],
        "problems": raw["problems"],
    }


def tool() -> str:
    """The version of what measures: that of the project, and the hash of these sources."""
    return f"{__version__}+{sources_digest(Path(__file__).parent)[:12]}"


def _described(chosen: PromptSet, requests: list[dict[str, Any]]) -> dict[str, Any]:
    """The prompts, with how many tokens the server says each has (of the first request that was answered)."""
    tokens: dict[str, int] = {}
    for row in requests:
        if row["prompt_tokens"] is not None:
            tokens.setdefault(row["prompt"], row["prompt_tokens"])
    items = [{"id": one.id, "sha256": one.sha256, "tokens": tokens.get(one.id)} for one in chosen.prompts]
    return {"set": chosen.name, "sha256": chosen.sha256, "items": items}


def _receipt(wanted: Wanted) -> tuple[str | None, str | None]:
    if not wanted.receipt:
        return wanted.runtime or None, None
    path = Path(wanted.receipt)
    try:
        read = receipt.read(path)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    except receipt.ReceiptError as error:
        raise GateError(str(error), next="name the receipt of the runtime that is served: --receipt FILE") from error
    if wanted.runtime and wanted.runtime != read.runtime:
        raise GateError(
            f"the receipt is of {read.runtime}, not of {wanted.runtime}",
            where=str(path),
            next="name the one that belongs to it",
        )
    return read.runtime, sha256
