"""The parent of a run: cuts the kernels, starts children, and makes results of what they told, however they ended."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from patchset.smoke import child, mutants, report, stand_ins, triton_cache
from patchset.smoke.catalogue import Kernel, known_defect, parse_release
from patchset.smoke.extract import Cut, ExtractError, cut
from patchset.smoke.mutants import Planted
from patchset.smoke.report import CaseResult, KernelResult, Mutants, Resources, SmokeResult, SourceInfo
from patchset.smoke.sources import Source
from patchset.smoke.triton_cache import CacheUse
from patchset.smoke.unknown import unknown_kernels

T = TypeVar("T")

#: Seconds a child may take; a kernel that loops for ever must not hold the run.
CHILD_LIMIT = 300.0
#: What the interpreter is told to run as a child.
CHILD = ("-m", "patchset.smoke.worker")
#: The lanes whose programs run at the same time, so that a race may also not show.
AT_ONCE = ("spirv", "device")
#: The lanes whose time goes into compilers of minutes, not into kernels: their limit is for each kernel.
COMPILING = ("spirv", "native")
#: The lanes in which a wrong result shows, and those in which unfit machine code does.
EXECUTED, COMPILED = ("interpret", "spirv", "device"), ("native", "device")
#: The lane whose compiled kernels are worth keeping.
CACHED_LANE = "device"
FRESH_CACHE = CacheUse()
#: Lane → variables for a second child if a kernel killed the first, and what that way is. Intel's OpenCL for CPUs dies of
#: some modules when it optimises; not the module's fault, so the lane goes on without.
SECOND_TRY = {"spirv": ({"PATCHSET_SMOKE_OPENCL_OPTIONS": "-cl-opt-disable"}, "without OpenCL's optimisation")}
#: The lane's own kernel, which is not worth keeping (``lanes/first.py``).
FIRST_KERNEL = "first_kernel"


class Unusable(Exception):
    """This interpreter or machine lacks what the lane needs. The text says what and how it failed."""


def run(
    source: Source,
    release: str,
    kernels: Sequence[Kernel],
    *,
    lane: str,
    seed: int,
    limit: float = CHILD_LIMIT,
    cache: CacheUse = FRESH_CACHE,
    faults: bool = False,
) -> SmokeResult:
    """Run *kernels* out of *source* in *lane*; those that are not for it are left out.

    :param release: which release's kernels and contracts count.
    :param limit: seconds for one child process.
    :param cache: what is done with Triton's cache; anything but a fresh one is for the lane ``device``.
    :param faults: then run those that pass again with planted faults, where the lane runs kernels.
    :raises Unusable: torch, triton or numpy cannot be imported, or the lane lacks what it needs.
    :raises CacheError: the cache cannot be primed, or is none.
    """
    triton_cache.check(cache)
    started = time.monotonic()
    kernels = [kernel.placed(release) for kernel in kernels if kernel.is_for(lane)]
    found: dict[str, Cut] = {}
    done: dict[str, KernelResult] = {}
    for kernel in kernels:
        try:
            stand_in = stand_ins.statement if kernel.compiled_only else stand_ins.nothing
            piece = cut(source, kernel.file, kernel.name, stand_in)
        except ExtractError as error:
            done[kernel.name] = KernelResult(kernel.name, kernel.file, report.FAILED, message=str(error))
            continue
        if piece is not None:
            found[kernel.name] = piece
        else:
            done[kernel.name] = _not_found(kernel, release)
    owner = triton_cache.Owner(source.version or release, {name: piece.sha256 for name, piece in found.items()})
    if cache.mode == triton_cache.PRIMED and cache.folder is not None:
        triton_cache.require_owner(cache.folder, owner)
    environment: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="patchset-smoke-") as folder:
        run_of = _Children(Path(folder), lane, seed, release, limit, cache)
        there = [kernel for kernel in kernels if kernel.name in found]
        for told in run_of.spread(there, found):
            environment = told.environment or environment
            done.update(told.results(found, release, lane))
        if faults and lane in mutants.LANES:
            passed = [kernel for kernel in there if done[kernel.name].status == report.PASSED]
            scores = run_of.scores(passed, found, done, source)
            done.update({name: replace(done[name], mutants=score) for name, score in scores.items()})
        info = SourceInfo(source.kind, str(source.path), source.version, source.sha256)
        results = tuple(done[kernel.name] for kernel in kernels)
        seconds = round(time.monotonic() - started, 2)
        why_not = mutants.NOT_RUN.get(lane, "") if faults else ""
        result = SmokeResult(lane, seed, release, info, results, seconds, environment, unknown_kernels(source), why_not)
        if lane == CACHED_LANE:
            environment["cache"] = run_of.cache_text(result.ok, owner, environment)
        return result


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
    resources: dict[str, tuple[Resources, ...]] = field(default_factory=dict)
    current: tuple[str, str] | None = None
    complete: bool = False
    lost: str = ""
    death: str = ""
    note: str = ""

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
            self.resources[event["kernel"]] = tuple(report.resources_from_json(one) for one in event["resources"])
        elif kind == "lost":
            self.lost = event["message"]
        elif kind == "end":
            self.complete = True

    def results(self, found: dict[str, Cut], release: str, lane: str) -> dict[str, KernelResult]:
        return {kernel.name: self._result(kernel, found[kernel.name], release, lane) for kernel in self.kernels}

    def _result(self, kernel: Kernel, piece: Cut, release: str, lane: str) -> KernelResult:
        cases = [_with_known_defect(kernel.name, case, release, lane) for case in self.cases.get(kernel.name, [])]
        message, seconds = self.ended.get(kernel.name, ("", sum(case.seconds for case in cases)))
        if kernel.name not in self.ended:
            message = f"it was not finished: {self.death}"
            if self.current is not None and self.current[0] == kernel.name and self.current[1]:
                cases.append(CaseResult(self.current[1], report.FAILED, 0.0, self.death))
        elif not message and cases and all(case.status == report.NOT_RUN for case in cases):
            return KernelResult(
                kernel.name,
                kernel.file,
                report.NOT_RUN,
                piece.sha256,
                cases[0].message,
                round(seconds, 3),
                tuple(cases),
            )
        elif not message and not any(case.status == report.PASSED for case in cases):
            message = "no case passed" if cases else "no case was run"
        bad = message or any(case.status == report.FAILED for case in cases)
        status = report.FAILED if bad else report.PASSED
        return KernelResult(
            kernel.name,
            kernel.file,
            status,
            piece.sha256,
            message or self.note,
            round(seconds, 3),
            tuple(cases),
            self.resources.get(kernel.name, ()),
        )


def _with_known_defect(kernel: str, case: CaseResult, release: str, lane: str) -> CaseResult:
    known = known_defect(kernel, case.name, release)
    if known is None or lane not in (COMPILED if known.compiled else EXECUTED):
        return case
    if case.status == report.PASSED and known.race and lane in AT_ONCE:
        return replace(case, message=f"the known race did not show this time: {known.what}, {known.reference}")
    if known.compiled and lane == CACHED_LANE and case.status == report.PASSED:
        return case  # this device is not the one that it does not fit
    if case.status == report.PASSED:
        message = f"{known.reference} is listed as a defect of {release}, but the case passes: correct the catalogue"
        return replace(case, status=report.FAILED, message=message)
    if known.compiled:
        unfit = case.status == report.FAILED
        message = f"{known.what}, {known.reference}: {case.message}"
        return replace(case, status=report.KNOWN_DEFECT, message=message) if unfit else case
    wrong = {item.array for item in case.differences}
    if not wrong or not wrong <= known.arrays:
        return case
    return replace(case, status=report.KNOWN_DEFECT, message=f"{known.what}, {known.reference}")


@dataclass
class _Children:
    folder: Path
    lane: str
    seed: int
    release: str
    limit: float
    cache: CacheUse
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def spread(self, kernels: list[Kernel], found: dict[str, Cut]) -> list[_Told]:
        """What :meth:`all` gives; of what takes compilers minutes and is not timed, with a row of children on each core."""
        timed = [kernel for kernel in kernels if not self._compiles(kernel)]
        compiled = [kernel for kernel in kernels if self._compiles(kernel)]
        told = self.all(timed, found) if timed else []
        return told + (_on_cores(compiled, lambda row: self.all(row, found)) if compiled else [])

    def _compiles(self, kernel: Kernel) -> bool:
        return self.lane in COMPILING or kernel.compiled_only

    def scores(
        self, kernels: list[Kernel], found: dict[str, Cut], done: Mapping[str, KernelResult], source: Source
    ) -> dict[str, Mutants]:
        """Kernel → what became of its planted faults; with a row of children on each core."""

        def each(row: list[Kernel]) -> list[tuple[str, Mutants]]:
            return [(kernel.name, self._score(kernel, found[kernel.name], done[kernel.name], source)) for kernel in row]

        return dict(_on_cores(kernels, each))

    def _score(self, kernel: Kernel, piece: Cut, result: KernelResult, source: Source) -> Mutants:
        # Passed with a note is what needed the lane's second way: so do its faults.
        variables = SECOND_TRY[self.lane][0] if result.message and self.lane in SECOND_TRY else {}

        def run_child(faults: Sequence[Planted]) -> tuple[list[dict[str, Any]], str]:
            base = self._base()
            row = self._kernel(base, kernel, piece)
            row["passed"] = [case.name for case in result.cases if case.status == report.PASSED]
            row["mutants"] = [str(base / f"cut_{kernel.name}_{at}.py") for at in range(len(faults))]
            for path, fault in zip(row["mutants"], faults, strict=True):
                Path(path).write_text(fault.text, "utf-8")
            return self._run(base, {"kernels": [], "faulty": [row]}, variables, self.limit * len(faults))

        return mutants.score(mutants.planted(source, piece), run_child)

    def all(self, kernels: list[Kernel], found: dict[str, Cut]) -> list[_Told]:
        """One child for all. If it dies in a kernel, the next child goes on after that one.

        A kernel that others ran before in the same process is then run alone: they may be what killed it.
        """
        told_of: list[_Told] = []
        rest = kernels
        while rest:
            told = self._child(rest, found)
            told_of.append(told)
            ended = [kernel for kernel in rest if kernel.name in told.ended]
            if told.complete or not told.cases or len(ended) == len(rest):
                break
            crashed, rest = rest[len(ended)], rest[len(ended) + 1 :]
            if not ended:
                told.kernels = (crashed,)
                told_of[-1] = self._second_try(told, found)
                continue
            told.kernels = tuple(ended)
            alone = self._second_try(self._child([crashed], found), found)
            told_of.append(alone)
            if alone.complete and not alone.note:
                before = ", ".join(kernel.name for kernel in ended)
                message = f"the process died in it after {before}, not alone: {told.death}"
                alone.ended[crashed.name] = (message, alone.ended[crashed.name][1])
        return told_of

    def _second_try(self, told: _Told, found: dict[str, Cut]) -> _Told:
        """*told* of one kernel, or what a child in the lane's second way tells, if the first died and this one does not."""
        if told.complete or self.lane not in SECOND_TRY or "died of SIG" not in told.death:
            return told
        variables, way = SECOND_TRY[self.lane]
        again = self._child(list(told.kernels), found, variables)
        if not again.complete:
            return told
        where = f" in case {told.current[1]}" if told.current and told.current[1] else ""
        again.note = f"{told.death.splitlines()[0]}{where}; run again {way}"
        return again

    def _child(
        self, kernels: list[Kernel], found: dict[str, Cut], variables: Mapping[str, str] = MappingProxyType({})
    ) -> _Told:
        base = self._base()
        told = _Told(tuple(kernels))
        limit = self.limit * max(1, sum(map(self._compiles, kernels)))
        job = {"kernels": [self._kernel(base, kernel, found[kernel.name]) for kernel in kernels]}
        events, told.death = self._run(base, job, variables, limit)
        for event in events:
            told.take(event)
        if told.unusable:
            raise Unusable(told.unusable)
        if told.lost:
            told.death = f"the device was lost to the process: {told.lost}"
        return told

    def _base(self) -> Path:
        base = self.folder / f"child{next(self.numbers)}"
        base.mkdir()
        return base

    def _run(
        self, base: Path, job: Mapping[str, Any], variables: Mapping[str, str], limit: float
    ) -> tuple[list[dict[str, Any]], str]:
        whole = {
            "lane": self.lane,
            "seed": self.seed,
            "options": {} if self.lane != CACHED_LANE else {"cache": self.cache.mode},
            "release": list(parse_release(self.release)),
            **job,
        }
        variables = {"TRITON_CACHE_DIR": str(self._cache(base)), **variables}
        return child.run([sys.executable, *CHILD], base, whole, variables, limit)

    @staticmethod
    def _kernel(base: Path, kernel: Kernel, piece: Cut) -> dict[str, Any]:
        module = base / f"cut_{kernel.name}.py"
        module.write_text(piece.text, "utf-8")
        parameters = [[parameter.name, parameter.has_default] for parameter in piece.parameters]
        return {"name": kernel.name, "cases": kernel.cases, "module": str(module), "parameters": parameters}

    def cache_text(self, good: bool, owner: triton_cache.Owner, environment: Mapping[str, str]) -> str:
        """What became of Triton's cache; one that was to be primed is signed and put in its place, if the run was *good*.

        :raises CacheError: it cannot be put there.
        """
        use = self.cache
        if use.mode == triton_cache.PRIMED and use.folder is not None:
            return f"primed, {triton_cache.kernels(use.folder)} compiled kernels"
        if use.mode == triton_cache.PRIME and use.folder is not None:
            if not good:
                return "not primed: a kernel failed"
            triton_cache.sign(self.folder / "primed", owner, environment)
            count = triton_cache.keep(self.folder / "primed", use.folder, but=FIRST_KERNEL)
            return f"filled with {count} compiled kernels"
        return f"fresh, {sum(triton_cache.kernels(child / 'cache') for child in self.folder.iterdir())} compiled"

    def _cache(self, base: Path) -> Path:
        """Where this child's Triton keeps what it compiles; a cache that is only used is not added to."""
        if self.cache.mode == triton_cache.PRIME:
            return self.folder / "primed"
        if self.cache.mode == triton_cache.PRIMED and self.cache.folder is not None:
            triton_cache.copy(self.cache.folder, base / "cache")
        return base / "cache"


def _on_cores(kernels: list[Kernel], run_row: Callable[[list[Kernel]], list[T]]) -> list[T]:
    """What *run_row* gives for all *kernels*, dealt to a row on each core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    rows = min(cores, len(kernels))
    if rows < 2:
        return run_row(kernels)
    with ThreadPoolExecutor(rows) as pool:
        return [one for row in pool.map(lambda at: run_row(kernels[at::rows]), range(rows)) for one in row]
