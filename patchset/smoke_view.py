"""What is shown of the smoke's results: kernels × lanes, resources and times, as words and numbers. Nothing is printed here.

Results are the JSON of ``smoke/result.schema.json``. What did not run has a cell that says so; it never looks like a pass.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchset import budget
from patchset.recipe import LANES
from patchset.smoke import limits

#: What a lane runs, and what it cannot see: in the order of the lanes.
ABOUT: Mapping[str, str] = {
    "interpret": "Triton's interpreter, against references written independently",
    "spirv": "code of Intel's Triton backend, executed on the CPU, against the same references",
    "native": "machine code of the B70: compiled and judged, not executed",
    "device": "live, on the device that is named",
}
NOT_ASKED = "not asked for"
DEVICE = "device"


@dataclass(frozen=True)
class Cell:
    """One kernel in one lane. ``tone``: passed, failed, known, absent or notrun. ``text`` says it with its count.

    ``why``: what there is to say besides; of what was not run, the reason.
    """

    tone: str
    text: str
    why: str = ""


@dataclass(frozen=True)
class Row:
    """One kernel in every lane; ``mutants``: planted mistakes that were caught, of those planted, empty if none were."""

    kernel: str
    file: str
    cells: Mapping[str, Cell]
    mutants: str


@dataclass(frozen=True)
class Load:
    """What a kernel takes in one register mode: the most of all its specialisations; None where the compiler gave none.

    ``retried``: production compiles it anew with 256 registers, since so much spills.
    """

    kernel: str
    mode: str
    specialisations: int
    registers: int | None
    spill: int | None
    scratch: int | None
    shared: int | None
    unfit: int

    @property
    def retried(self) -> bool:
        """Does production's loader compile it anew?"""
        return self.mode == budget.MODES[0] and (self.spill or 0) > limits.SPILL_RETRY


@dataclass(frozen=True)
class Times:
    """Seconds of a kernel: slowest first call, medians of the warm calls and of the replays; ``replays``: how those ended."""

    kernel: str
    cold: float | None
    warm: float | None
    graph: float | None
    replays: str


def lanes_shown(results: Sequence[Mapping[str, Any]], not_run: Mapping[str, str]) -> list[str]:
    """The lanes that there is something to say of, in the usual order."""
    named = {result["lane"] for result in results} | set(not_run)
    return [lane for lane in LANES if lane in named]


def rows(results: Sequence[Mapping[str, Any]], not_run: Mapping[str, str], lanes: Sequence[str]) -> list[Row]:
    """The matrix: every kernel that a lane has, in the order of the fullest one."""
    by_lane = {result["lane"]: {kernel["name"]: kernel for kernel in result["kernels"]} for result in results}
    files = {kernel["name"]: kernel["file"] for result in results for kernel in result["kernels"]}
    order = list(dict.fromkeys(name for kernels in sorted(by_lane.values(), key=len, reverse=True) for name in kernels))
    made = []
    for name in order:
        told = [kernels[name] for kernels in by_lane.values() if name in kernels]
        cells = {lane: _cell_in(by_lane.get(lane), name, not_run.get(lane, NOT_ASKED)) for lane in lanes}
        made.append(Row(name, files[name], cells, mutants(told)))
    return made


def _cell_in(kernels: Mapping[str, Mapping[str, Any]] | None, name: str, why: str) -> Cell:
    if kernels is None:
        return Cell("notrun", "not run", why)
    return cell(kernels[name]) if name in kernels else Cell("notrun", "not run", "this kernel is not for this lane")


def cell(kernel: Mapping[str, Any]) -> Cell:
    """What became of *kernel* in a lane."""
    status, cases = kernel["status"], kernel["cases"]
    counted = {state: sum(case["status"] == state for case in cases) for state in ("passed", "failed", "known-defect")}
    passed = f"{counted['passed']}/{len(cases)}"
    if status == "not-in-release":
        return Cell("absent", "absent", "not in this release")
    if status == "missing":
        return Cell("failed", "MISSING", kernel["message"])
    known = f"known defect {counted['known-defect']}" if counted["known-defect"] else ""
    if status == "failed":
        text = f"FAILED {counted['failed']}/{len(cases)}" if counted["failed"] else "FAILED"
        return Cell("failed", ", ".join(filter(None, [text, known])), first_wrong(kernel))
    if known:
        which = next(case["message"] for case in cases if case["status"] == "known-defect")
        return Cell("known", f"{known}, passed {passed}", which)
    if status != "passed" or not cases:
        return Cell("notrun", "not run", kernel["message"] or "no case was run")
    return Cell("passed", f"passed {passed}", kernel["message"])


def first_wrong(kernel: Mapping[str, Any]) -> str:
    """The first thing that is wrong with a kernel: its own message, or its first failed case and what differs there."""
    if kernel["message"]:
        return str(kernel["message"]).splitlines()[0]
    for case in kernel["cases"]:
        if case["status"] == "failed":
            differs = [f"{item['array']}: {item['what']}" for item in case["differences"][:1]]
            said = [line for line in case["message"].splitlines()[:1] if line] or differs
            return f"case {case['name']}: {'; '.join(said)}"
    return ""


def mutants(kernels: Iterable[Mapping[str, Any]]) -> str:
    """``3/3``: planted faults that were caught, of all that were made of *kernels*; empty if none were."""
    told = [kernel["mutants"] for kernel in kernels if kernel.get("mutants")]
    made = sum(one["made"] for one in told)
    return f"{sum(one['caught'] for one in told)}/{made}" if made else ""


def speak_against(result: Mapping[str, Any]) -> list[str]:
    """What makes a lane red beside its kernels: planted faults that no case saw, and what a receipt has otherwise."""
    told = [
        f"{kernel['name']}: no case saw the planted fault at line {one['line']}: {one['what']}"
        for kernel in result["kernels"]
        for one in (kernel.get("mutants") or {}).get("survivors", ())
    ]
    return told + [f"receipt: {fault}" for fault in (result.get("receipt") or {}).get("faults", ())]


def unknown(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Kernels of the tree's files that the catalogue does not know: ``name (file:line)``."""
    told = [one for result in results for one in result.get("unknown") or ()]
    return list(dict.fromkeys(f"{one['name']} ({one['file']}:{one['line']})" for one in told))


def loads(result: Mapping[str, Any]) -> list[Load]:
    """Both register modes of each kernel of the lane ``native``, the heaviest kernel first."""
    found = []
    for kernel in result["kernels"]:
        found += [_load(kernel["name"], mode, numbers) for mode, numbers in budget.most(kernel).items()]
    weight = {load.kernel: _weight(load) for load in found if load.mode == budget.MODES[0]}
    return sorted(found, key=lambda load: weight.get(load.kernel, ()), reverse=True)


def _load(kernel: str, mode: str, numbers: Mapping[str, int | None]) -> Load:
    count, unfit = numbers["specialisations"] or 0, numbers["unfit"] or 0
    return Load(
        kernel, mode, count, numbers["registers"], numbers["spill"], numbers["scratch"], numbers["shared"], unfit
    )


def _weight(load: Load) -> tuple[float, ...]:
    scratch, shared = (load.scratch or 0) / limits.SCRATCH, (load.shared or 0) / limits.SHARED
    return (load.unfit, max(scratch, shared), load.spill or 0, load.specialisations)


def times(result: Mapping[str, Any]) -> list[Times]:
    """The times of each kernel that has any, the slowest first call first."""
    found = [_times(kernel) for kernel in result["kernels"]]
    return sorted((one for one in found if one.cold is not None), key=lambda one: -(one.cold or 0))


def _times(kernel: Mapping[str, Any]) -> Times:
    taken = {
        key: [case[key] for case in kernel["cases"] if case.get(key) is not None]
        for key in ("cold_seconds", "warm_seconds", "graph_seconds")
    }
    cold, warm, graph = taken.values()
    return Times(
        kernel["name"],
        max(cold, default=None),
        statistics.median(warm) if warm else None,
        statistics.median(graph) if graph else None,
        _replays([case["graph"] for case in kernel["cases"] if case.get("graph")]),
    )


def _replays(told: Sequence[str]) -> str:
    """``8 same bytes``, and how often it was something else, and what."""
    counted = {word: told.count(word) for word in dict.fromkeys(told)}
    return "; ".join(f"{count} {word}" for word, count in counted.items())


def gaps(results: Sequence[Mapping[str, Any]], not_run: Mapping[str, str]) -> list[tuple[str, str]]:
    """What was not run, and why: lanes, planted faults that were asked for, and a device that is none of Intel's."""
    ran = {result["lane"] for result in results}
    found = [(f"lane {lane}", not_run.get(lane, NOT_ASKED)) for lane in LANES if lane not in ran]
    for result in results:
        about = result["environment"]
        if result.get("mutants_not_run"):
            found.append((f"planted faults in lane {result['lane']}", result["mutants_not_run"]))
        if result["lane"] == DEVICE and about.get("kind") != "xpu":
            found.append(
                ("lane device on Intel", f"it ran on {about.get('device', 'another device')}, not on an Intel GPU")
            )
    return found


def span(seconds: float | None) -> str:
    """A time as short as it goes: ``1.42 s``, ``35 ms``, ``28 µs``, the unit on the same line; empty for none."""
    if seconds is None:
        return ""
    if seconds >= 1:
        return f"{seconds:.2f}\u00a0s"
    return f"{seconds * 1e3:.0f}\u00a0ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f}\u00a0µs"
