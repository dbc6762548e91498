"""The result of a run: dataclasses, their JSON (``result.schema.json``), and the lines for a person. No torch here."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA_VERSION = 1

#: What may become of a kernel.
PASSED, FAILED, MISSING, ABSENT = "passed", "failed", "missing", "not-in-release"
#: What may become of a case, beside PASSED and FAILED: upstream's own known mistake, seen. It is not a pass.
KNOWN_DEFECT = "known-defect"
#: What may become of both: the lane could not try it, for the reason that is told. It is not a pass, and not red.
NOT_RUN = "not-run"

#: Wrong elements that are named; the rest are only counted.
WRONG_SHOWN = 5


@dataclass(frozen=True)
class Difference:
    """Where one array is not what it must be.

    :param array: the name of the parameter or memory.
    :param wrong: how many elements.
    :param first: indices of the first few.
    :param max_difference: largest absolute difference; None where it is no number (NaN, a guard zone).
    """

    array: str
    what: str
    wrong: int = 0
    first: tuple[tuple[int, ...], ...] = ()
    max_difference: float | None = None


@dataclass(frozen=True)
class Resources:
    """What one specialisation of a kernel takes as machine code, in one register mode.

    :param module: the start of the SPIR-V's sha256.
    :param mode: ``default`` or ``256``, the registers that a thread may have.
    :param shared: bytes of shared memory of a program.
    :param seconds: that its compilation took.
    :param faults: why it is not fit to be run; with none of the numbers, it did not compile.
    """

    module: str
    mode: str
    shared: int
    seconds: float = 0.0
    simd: int | None = None
    registers: int | None = None
    spill: int | None = None
    scratch: int | None = None
    private: int | None = None
    barriers: int | None = None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What a lane has to tell of one case, where differences are not all.

    :param message: what is wrong besides the differences; empty: nothing.
    :param cold_seconds: the first call, compilation included.
    :param warm_seconds: median of later calls.
    :param graph_seconds: median of replays of the launch as a graph.
    :param graph: what the replay left, or ``not run: reason``.
    :param resources: of the machine code, in each register mode.
    :param not_run: why the lane could not try it; empty: it did.
    :param note: what a person must know of a case that is good.
    """

    differences: tuple[Difference, ...] = ()
    message: str = ""
    cold_seconds: float | None = None
    warm_seconds: float | None = None
    graph_seconds: float | None = None
    graph: str | None = None
    resources: tuple[Resources, ...] = ()
    not_run: str = ""
    note: str = ""


@dataclass(frozen=True)
class CaseResult:
    """What became of one case. Times and graph: see :class:`Outcome`; a lane that has none leaves them out."""

    name: str
    status: str
    seconds: float
    message: str = ""
    differences: tuple[Difference, ...] = ()
    cold_seconds: float | None = None
    warm_seconds: float | None = None
    graph_seconds: float | None = None
    graph: str | None = None


@dataclass(frozen=True)
class Survivor:
    """A planted fault that no case saw: *what* it changes, and the *line* of the kernel's file."""

    what: str
    line: int


@dataclass(frozen=True)
class Mutants:
    """The planted faults of one kernel: how many were *made*, how many some case saw, and the others."""

    made: int
    caught: int
    survivors: tuple[Survivor, ...] = ()


@dataclass(frozen=True)
class Unknown:
    """A Triton kernel in a watched file that the catalogue does not know."""

    file: str
    line: int
    name: str


@dataclass(frozen=True)
class ReceiptCheck:
    """What a receipt says of the kernels that were run.

    :param runtime: the version that the receipt is of.
    :param same: kernels whose source is the receipt's.
    :param faults: what is not as the receipt has it, with what to do.
    """

    path: str
    runtime: str
    same: int
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelResult:
    """What became of one kernel. ``sha256`` is that of its source text, None if it was not found.

    :param resources: of each of its specialisations; empty in a lane that makes no machine code.
    :param mutants: what became of its planted faults; None if they were not run.
    """

    name: str
    file: str
    status: str
    sha256: str | None = None
    message: str = ""
    seconds: float = 0.0
    cases: tuple[CaseResult, ...] = ()
    resources: tuple[Resources, ...] = ()
    mutants: Mutants | None = None

    @property
    def passed_cases(self) -> int:
        """Cases that passed; known defects are not among them."""
        return sum(case.status == PASSED for case in self.cases)


@dataclass(frozen=True)
class SourceInfo:
    """Where the kernels came from."""

    kind: str
    path: str
    version: str | None
    sha256: str | None


@dataclass(frozen=True)
class SmokeResult:
    """One run of one lane.

    :param unknown: kernels that are there and are not exercised.
    :param mutants_not_run: why planted faults, which were asked for, were not run.
    :param receipt: how it compares with a receipt, if one was given.
    """

    lane: str
    seed: int
    release: str
    source: SourceInfo
    kernels: tuple[KernelResult, ...]
    seconds: float
    environment: dict[str, str] = field(default_factory=dict)
    unknown: tuple[Unknown, ...] = ()
    mutants_not_run: str = ""
    receipt: ReceiptCheck | None = None

    def count(self, status: str) -> int:
        """Kernels with that status."""
        return sum(kernel.status == status for kernel in self.kernels)

    @property
    def ok(self) -> bool:
        """True only if a kernel ran, none that had to failed or is missing, and no planted fault or receipt speaks against it."""
        if any(kernel.mutants and kernel.mutants.survivors for kernel in self.kernels):
            return False
        if self.receipt is not None and self.receipt.faults:
            return False
        return self.count(PASSED) > 0 and not self.count(FAILED) and not self.count(MISSING)

    def as_json(self) -> dict[str, Any]:
        """The run as JSON holds it; :func:`from_json` reads it back."""
        cases = [case for kernel in self.kernels for case in kernel.cases]
        summary: dict[str, Any] = {
            "ok": self.ok,
            "kernels": {status: self.count(status) for status in (PASSED, FAILED, MISSING, ABSENT)},
            "cases": {
                status: sum(case.status == status for case in cases) for status in (PASSED, FAILED, KNOWN_DEFECT)
            },
        }
        for kind, count in (("kernels", self.count(NOT_RUN)), ("cases", sum(case.status == NOT_RUN for case in cases))):
            if count:  # a lane that tries everything has nothing to say of it
                summary[kind][NOT_RUN] = count
        body = json.loads(json.dumps(asdict(self)))
        for kernel, told in zip(body["kernels"], self.kernels, strict=True):
            kernel["cases"] = [case_as_json(case) for case in told.cases]
            kernel.pop("resources")
            if told.resources:
                kernel["resources"] = [resources_as_json(one) for one in told.resources]
            if told.mutants is None:
                del kernel["mutants"]
        for name in ("mutants_not_run", "receipt"):
            if not body[name]:
                del body[name]
        return {"schema": SCHEMA_VERSION, "summary": summary, **body}


def from_json(data: Mapping[str, Any]) -> SmokeResult:
    """A run from its JSON.

    :raises ValueError: another schema version, or a field that is missing or unknown.
    """
    if data.get("schema") != SCHEMA_VERSION:
        raise ValueError(f"smoke result has schema {data.get('schema')!r}, this program reads {SCHEMA_VERSION}")
    body = {key: value for key, value in data.items() if key not in ("schema", "summary")}
    try:
        kernels = tuple(
            KernelResult(
                **{
                    **kernel,
                    "cases": tuple(case_from_json(case) for case in kernel["cases"]),
                    "resources": tuple(resources_from_json(one) for one in kernel.get("resources", ())),
                    **({"mutants": _mutants_from_json(kernel["mutants"])} if "mutants" in kernel else {}),
                }
            )
            for kernel in body.pop("kernels")
        )
        body["source"] = SourceInfo(**body["source"])
        body["unknown"] = tuple(Unknown(**one) for one in body.get("unknown", ()))
        if "receipt" in body:
            body["receipt"] = ReceiptCheck(**{**body["receipt"], "faults": tuple(body["receipt"]["faults"])})
        return SmokeResult(**body, kernels=kernels)
    except (KeyError, TypeError) as error:
        raise ValueError(f"smoke result cannot be read: {error}") from error


def _mutants_from_json(data: Mapping[str, Any]) -> Mutants:
    return Mutants(**{**data, "survivors": tuple(Survivor(**one) for one in data["survivors"])})


def resources_as_json(one: Resources) -> dict[str, Any]:
    """Resources as JSON holds them; numbers that the compiler did not give are left out."""
    return {key: value for key, value in json.loads(json.dumps(asdict(one))).items() if value is not None}


def resources_from_json(data: Mapping[str, Any]) -> Resources:
    """Resources from their JSON."""
    return Resources(**{**data, "faults": tuple(data["faults"])})


def case_as_json(case: CaseResult) -> dict[str, Any]:
    """One case as JSON holds it, without what the lane has nothing to say of."""
    return {key: value for key, value in json.loads(json.dumps(asdict(case))).items() if value is not None}


def case_from_json(data: Mapping[str, Any]) -> CaseResult:
    """One case from its JSON."""
    differences = tuple(
        Difference(**{**item, "first": tuple(tuple(index) for index in item["first"])}) for item in data["differences"]
    )
    return CaseResult(**{**data, "differences": differences})


def times(kernel: KernelResult) -> str:
    """Slowest first call, median of the warm calls and of the replays; empty if the lane measures none."""
    cold = [case.cold_seconds for case in kernel.cases if case.cold_seconds is not None]
    warm = [case.warm_seconds for case in kernel.cases if case.warm_seconds is not None]
    replayed = [case.graph_seconds for case in kernel.cases if case.graph_seconds is not None]
    told = [f"first {max(cold) * 1e3:.0f} ms"] if cold else []
    told += [f"warm {statistics.median(warm) * 1e6:.0f} us"] if warm else []
    told += [f"graph {statistics.median(replayed) * 1e6:.0f} us"] if replayed else []
    return ", ".join(told)


def mutation_score(kernel: KernelResult) -> str:
    """``mutants 4/5``: of the planted faults so many were seen; empty if they were not run."""
    told = kernel.mutants
    if told is None:
        return ""
    return f"mutants {told.caught}/{told.made}" if told.made else "no mutant"


def kernel_line(kernel: KernelResult) -> str:
    """One kernel, one line: result, cases, seconds, and the first thing that is wrong."""
    label = {ABSENT: "not in this release", MISSING: "MISSING", FAILED: "FAILED"}.get(kernel.status, kernel.status)
    if kernel.status == ABSENT:
        return f"{kernel.name:<42} {label}"
    known = [case for case in kernel.cases if case.status == KNOWN_DEFECT]
    counts = f"{kernel.passed_cases:>3}/{len(kernel.cases):<3} cases {kernel.seconds:6.2f} s"
    skipped = [case for case in kernel.cases if case.status == NOT_RUN]
    if kernel.status == NOT_RUN:
        return f"{kernel.name:<42} {counts}  not run: {skipped[0].message if skipped else kernel.message}"
    note = f"  ({len(known)} known upstream defect: {known[0].message})" if known else ""
    noted = [case for case in kernel.cases if case.status == PASSED and case.message]
    if noted:
        note += f"  ({len(noted)} noted: {noted[0].message})"
    if skipped:
        note += f"  ({len(skipped)} not run: {skipped[0].message})"
    if kernel.status == PASSED and kernel.message:
        note = f"  ({kernel.message}){note}"
    more = "".join(f"  {told}" for told in (mutation_score(kernel), times(kernel)) if told)
    return f"{kernel.name:<42} {counts}  {label}{more}{note}"


def failure_lines(kernel: KernelResult) -> list[str]:
    """Why a kernel is not passed, below its line; and the planted faults that its cases do not see."""
    lines = [f"    {line}" for line in kernel.message.splitlines()] if kernel.status in (FAILED, MISSING) else []
    for one in kernel.mutants.survivors if kernel.mutants else ():
        lines.append(f"    NOT SEEN by any case: {kernel.file}:{one.line}: {one.what}")
    for case in kernel.cases:
        if case.status != FAILED:
            continue
        lines.append(f"    case {case.name}: {case.message.splitlines()[0] if case.message else ''}")
        for item in case.differences:
            size = "" if item.max_difference is None else f", largest difference {item.max_difference:g}"
            where = f" at {', '.join(str(list(index)) for index in item.first)}" if item.first else ""
            lines.append(f"      {item.array}: {item.what}{where}{size}")
    return lines


def summary_line(result: SmokeResult) -> str:
    """The last line: what is counted, and only that."""
    cases = [case for kernel in result.kernels for case in kernel.cases]
    known = sum(case.status == KNOWN_DEFECT for case in cases)
    bad = sum(case.status == FAILED for case in cases)
    tail = (f", {bad} failed" if bad else "") + (f", {known} known upstream defect" if known else "")
    untried = sum(case.status == NOT_RUN for case in cases)
    if untried:
        tail += f", {untried} not run ({result.count(NOT_RUN)} kernels in none)"
    more = "".join(f"; {told}" for told in (mutants_line(result), unknown_line(result)) if told)
    return (
        f"kernels: {result.count(PASSED)} passed, {result.count(FAILED)} failed, {result.count(MISSING)} missing, "
        f"{result.count(ABSENT)} not in this release; cases: {len(cases)}{tail}{more}"
    )


def mutants_line(result: SmokeResult) -> str:
    """The planted faults of all kernels; empty if nobody asked for them."""
    if result.mutants_not_run:
        return f"mutants not run: {result.mutants_not_run}"
    told = [kernel.mutants for kernel in result.kernels if kernel.mutants is not None]
    if not told:
        return ""
    without = sum(not one.made for one in told)
    tail = f", {without} {'kernel' if without == 1 else 'kernels'} without a mutant" if without else ""
    return f"mutants: {sum(one.caught for one in told)} of {sum(one.made for one in told)} caught{tail}"


def unknown_line(result: SmokeResult) -> str:
    """The kernels that the catalogue does not know; empty if there is none."""
    names = ", ".join(f"{one.name} ({one.file}:{one.line})" for one in result.unknown)
    return f"{len(result.unknown)} unknown to the catalogue, not run: {names}" if names else ""


def receipt_lines(result: SmokeResult) -> list[str]:
    """How the run compares with the receipt; empty if none was given."""
    told = result.receipt
    if told is None:
        return []
    there = sum(kernel.sha256 is not None for kernel in result.kernels)
    head = f"receipt of {told.runtime}: {told.same} of {there} kernels have its source"
    return [head, *(f"NOT THE RECEIPT'S: {fault}" for fault in told.faults)]
