"""The parent of a run: cuts the kernels, starts children, and makes results of what they told, however they ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchset.smoke import report
from patchset.smoke.catalogue import Kernel, known_defect, parse_release
from patchset.smoke.extract import Cut, ExtractError, cut
from patchset.smoke.report import CaseResult, KernelResult, SmokeResult, SourceInfo
from patchset.smoke.sources import Source

#: Seconds a child may take; a kernel that loops for ever must not hold the run.
CHILD_LIMIT = 300.0
#: Lines of a dead child's standard error that are kept.
STDERR_LINES = 15


class Unusable(Exception):
    """This interpreter lacks torch, triton or numpy. The text says which and how it failed."""


def run(
    source: Source, release: str, kernels: Sequence[Kernel], *, lane: str, seed: int, limit: float = CHILD_LIMIT
) -> SmokeResult:
    """Run *kernels* out of *source* in *lane*.

    :param release: which release's kernels and contracts count.
    :param limit: seconds for one child process.
    :raises Unusable: torch, triton or numpy cannot be imported.
    """
    started = time.monotonic()
    found: dict[str, Cut] = {}
    done: dict[str, KernelResult] = {}
    for kernel in kernels:
        try:
            piece = cut(source, kernel.file, kernel.name)
        except ExtractError as error:
            done[kernel.name] = KernelResult(kernel.name, kernel.file, report.FAILED, message=str(error))
            continue
        if piece is not None:
            found[kernel.name] = piece
        else:
            done[kernel.name] = _not_found(kernel, release)
    environment: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="patchset-smoke-") as folder:
        run_of = _Children(Path(folder), lane, seed, release, limit)
        there = [kernel for kernel in kernels if kernel.name in found]
        for told in run_of.all(there, found):
            environment = told.environment or environment
            done.update(told.results(found, release))
    info = SourceInfo(source.kind, str(source.path), source.version, source.sha256)
    results = tuple(done[kernel.name] for kernel in kernels)
    seconds = round(time.monotonic() - started, 2)
    return SmokeResult(lane, seed, release, info, results, seconds, environment)


def _not_found(kernel: Kernel, release: str) -> KernelResult:
    if kernel.expected_in(release):
        message = f"{release} must have it in {kernel.file}, and it is not there"
        return KernelResult(kernel.name, kernel.file, report.MISSING, message=message)
    return KernelResult(kernel.name, kernel.file, report.ABSENT)


@dataclass
class _Told:
    """What one child told, event by event."""

    kernels: tuple[Kernel, ...]
    environment: dict[str, str] = field(default_factory=dict)
    unusable: str = ""
    cases: dict[str, list[CaseResult]] = field(default_factory=dict)
    ended: dict[str, tuple[str, float]] = field(default_factory=dict)
    current: tuple[str, str] | None = None
    complete: bool = False
    death: str = ""

    def take(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "environment":
            self.environment = event["environment"]
        elif kind == "unusable":
            self.unusable = event["message"]
        elif kind == "kernel":
            self.cases[event["kernel"]], self.current = [], (event["kernel"], "")
        elif kind == "case":
            self.current = (event["kernel"], event["case"])
        elif kind == "case-end":
            self.cases[event["kernel"]].append(report.case_from_json(event["result"]))
            self.current = (event["kernel"], "")
        elif kind == "kernel-end":
            self.ended[event["kernel"]], self.current = (event["message"], event["seconds"]), None
        elif kind == "end":
            self.complete = True

    def results(self, found: dict[str, Cut], release: str) -> dict[str, KernelResult]:
        return {kernel.name: self._result(kernel, found[kernel.name], release) for kernel in self.kernels}

    def _result(self, kernel: Kernel, piece: Cut, release: str) -> KernelResult:
        cases = [_with_known_defect(kernel.name, case, release) for case in self.cases.get(kernel.name, [])]
        message, seconds = self.ended.get(kernel.name, ("", sum(case.seconds for case in cases)))
        if kernel.name not in self.ended:
            message = f"it was not finished: {self.death}"
            if self.current is not None and self.current[0] == kernel.name and self.current[1]:
                cases.append(CaseResult(self.current[1], report.FAILED, 0.0, self.death))
        elif not message and not any(case.status == report.PASSED for case in cases):
            message = "no case passed" if cases else "no case was run"
        bad = message or any(case.status == report.FAILED for case in cases)
        status = report.FAILED if bad else report.PASSED
        return KernelResult(kernel.name, kernel.file, status, piece.sha256, message, round(seconds, 3), tuple(cases))


def _with_known_defect(kernel: str, case: CaseResult, release: str) -> CaseResult:
    known = known_defect(kernel, case.name, release)
    if known is None:
        return case
    if case.status == report.PASSED:
        message = f"{known.reference} is listed as a defect of {release}, but the case passes: correct the catalogue"
        return CaseResult(case.name, report.FAILED, case.seconds, message)
    wrong = {item.array for item in case.differences}
    if not wrong or not wrong <= known.arrays:
        return case
    return CaseResult(
        case.name, report.KNOWN_DEFECT, case.seconds, f"{known.what}, {known.reference}", case.differences
    )


@dataclass
class _Children:
    folder: Path
    lane: str
    seed: int
    release: str
    limit: float
    started: int = 0

    def all(self, kernels: list[Kernel], found: dict[str, Cut]) -> list[_Told]:
        """One child for all; if it dies, one for each, since what it did before may be what killed it."""
        if not kernels:
            return []
        together = self._child(kernels, found)
        if together.complete:
            return [together]
        if len(kernels) == 1:
            return [together]
        alone = [self._child([kernel], found) for kernel in kernels]
        if all(told.complete for told in alone):
            blamed = together.current[0] if together.current else kernels[0].name
            for told in alone:
                if told.kernels[0].name == blamed:
                    message = f"the process died in it among the others, not alone: {together.death}"
                    told.ended[blamed] = (message, told.ended[blamed][1])
        return alone

    def _child(self, kernels: list[Kernel], found: dict[str, Cut]) -> _Told:
        self.started += 1
        base = self.folder / f"child{self.started}"
        base.mkdir()
        job = {
            "lane": self.lane,
            "seed": self.seed,
            "release": list(parse_release(self.release)),
            "events": str(base / "events.jsonl"),
            "kernels": [self._kernel(base, kernel, found[kernel.name]) for kernel in kernels],
        }
        (base / "job.json").write_text(json.dumps(job), "utf-8")
        told = _Told(tuple(kernels))
        told.death = self._start(base)
        events = base / "events.jsonl"
        for line in events.read_text("utf-8").splitlines() if events.is_file() else []:
            try:
                told.take(json.loads(line))
            except json.JSONDecodeError:
                break  # the child died while it wrote this line
        if told.unusable:
            raise Unusable(told.unusable)
        return told

    @staticmethod
    def _kernel(base: Path, kernel: Kernel, piece: Cut) -> dict[str, Any]:
        module = base / f"cut_{kernel.name}.py"
        module.write_text(piece.text, "utf-8")
        parameters = [[parameter.name, parameter.has_default] for parameter in piece.parameters]
        return {"name": kernel.name, "cases": kernel.cases, "module": str(module), "parameters": parameters}

    def _start(self, base: Path) -> str:
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "PYTHONFAULTHANDLER": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "TRITON_CACHE_DIR": str(base / "cache"),
        }
        argv = [sys.executable, "-m", "patchset.smoke.worker", str(base / "job.json")]
        with open(base / "stderr", "wb") as errors:
            # Its own directory, so that nothing of the caller's directory is imported in place of torch. The caller's
            # process group, so that who kills this program's group kills the child too.
            child = subprocess.Popen(
                argv, cwd=base, env=environment, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
            )
            try:
                status: int | None = child.wait(self.limit)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                if child.poll() is None:
                    child.kill()
                    child.wait()
        tail = (base / "stderr").read_bytes().decode("utf-8", "replace").strip().splitlines()[-STDERR_LINES:]
        return "\n".join([_ending(status, self.limit), *tail])


def _ending(status: int | None, limit: float) -> str:
    if status is None:
        return f"the process was stopped after {limit:g} s"
    if status < 0:
        try:
            return f"the process died of {signal.Signals(-status).name}"
        except ValueError:
            return f"the process died of signal {-status}"
    return f"the process ended with status {status}"
