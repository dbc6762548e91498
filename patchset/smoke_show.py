"""The end of ``inv smoke`` on a terminal: kernels × lanes, what the machine code takes, times, and what was not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from patchset import budget
from patchset import smoke_view as view
from patchset.budget import Comparison
from patchset.console import Console
from patchset.smoke import limits

#: Columns of the terminal between two of the table's, and at its edges.
_GAP, _EDGE = 3, 2
#: A kernel's name is never folded to less.
_NAME = 24


def show(
    console: Console,
    wheel: Path,
    results: Sequence[Mapping[str, Any]],
    not_run: Mapping[str, str],
    compared: Comparison | None,
    *,
    one: bool,
) -> None:
    """Show *results*, a lane each, and in *not_run* why a lane has none.

    :param compared: the machine code beside that of an earlier run, if there was one.
    :param one: one lane was asked for; then its result alone is the JSON document.
    """
    if one and results:
        console.json(results[0])
    else:
        told = asdict(compared) if compared else None
        console.json({"lanes": list(results), "not_run": dict(not_run), "budget": told})
    if results:
        _matrix(console, results, not_run)
    for result in results:
        if result["lane"] == budget.LANE:
            _resources(console, view.loads(result))
        _times(console, result)
    if results:
        console.line(wheel.name)
    for result in results:
        console.line(line(result))
        for text in view.speak_against(result):
            console.line(f"FAILED   lane {result['lane']}: {text}")
    unknown = view.unknown(results)
    if unknown:
        console.line(f"unknown kernels, which the catalogue has no cases for: {', '.join(unknown)}")
    for what, why in view.gaps(results, not_run):
        if why != view.NOT_ASKED:
            console.line(f"not run  {what}: {why}")
    show_budget(console, compared)


def show_budget(console: Console, compared: Comparison | None) -> None:
    """What the machine code takes beside what it took."""
    if compared is None:
        return
    first, *rest = [f"against {compared.against}", *budget.lines(compared)]
    console.line(f"budget   {first}")
    for text in rest:
        console.line(f"         {text}")


def line(result: Mapping[str, Any]) -> str:
    """One lane in a line: what is counted, and the seed."""
    counts, cases = result["summary"]["kernels"], result["summary"]["cases"]
    known = f", {cases['known-defect']} show a known upstream defect" if cases.get("known-defect") else ""
    return (
        f"lane {result['lane']}: kernels {counts['passed']} passed, {counts['failed']} failed, {counts['missing']} missing, "
        f"{counts['not-in-release']} not in this release; cases {cases['passed']} passed, {cases['failed']} failed{known}; "
        f"seed {result['seed']}"
    )


def _matrix(console: Console, results: Sequence[Mapping[str, Any]], not_run: Mapping[str, str]) -> None:
    lanes = view.lanes_shown(results, not_run)
    rows = view.rows(results, not_run, lanes)
    planted = any(row.mutants for row in rows)
    head = [*lanes, *(["mutants caught"] if planted else [])]
    body = [[*(row.cells[lane].text for lane in lanes), *([row.mutants] if planted else [])] for row in rows]
    _table(console, head, [row.kernel for row in rows], body)
    told = [
        f"{'FAILED' if row.cells[lane].tone == 'failed' else 'known':<8} {row.kernel}, {lane}: {row.cells[lane].why}"
        for row in rows
        for lane in lanes
        if row.cells[lane].tone in ("failed", "known")
    ]
    for text in [*told, *([""] if told else [])]:
        console.line(text)


def _resources(console: Console, loads: Sequence[view.Load]) -> None:
    """Both modes of each kernel that takes memory or is unfit; the others in one line."""
    heavy = {one.kernel for one in loads if one.spill or one.scratch or one.shared or one.unfit}
    shown = [one for one in loads if one.kernel in heavy]
    if shown:
        head = ["registers", "codes", "spill", "scratch", "shared"]
        names = [one.kernel if one.mode == budget.MODES[0] else "" for one in shown]
        body = [
            [
                f"{_number(one.registers)} (default)" if one.mode == budget.MODES[0] else _number(one.registers),
                f"{one.specialisations}{f' ({one.unfit} unfit)' if one.unfit else ''}",
                f"{_number(one.spill)}{' retried' if one.retried else ''}",
                _of(one.scratch, limits.SCRATCH),
                _of(one.shared, limits.SHARED),
            ]
            for one in shown
        ]
        title = "Machine code of the B70, in bytes: the most of all codes (specialisations) of a kernel"
        _table(console, head, names, body, title)
        console.line(
            f"limits: scratch {limits.SCRATCH} a thread (PTSS), shared {limits.SHARED} a program; with a spill over "
            f"{limits.SPILL_RETRY} production tries again with 256 registers"
        )
    light = {one.kernel for one in loads} - heavy
    if light:
        console.line(
            f"{len(light)} {'other ' if heavy else ''}kernels take nothing beside their registers, in both modes"
        )
    if loads:
        console.line()


def _times(console: Console, result: Mapping[str, Any]) -> None:
    timed = view.times(result)
    if not timed:
        return
    body = [[view.span(one.cold), view.span(one.warm), view.span(one.graph), one.replays] for one in timed]
    where = result["environment"].get("device", f"lane {result['lane']}")
    head = ["first call", "warm", "graph", "replays left"]
    _table(console, head, [one.kernel for one in timed], body, f"Times on {where}: slowest first call, medians")


def _table(
    console: Console, head: Sequence[str], names: Sequence[str], body: Sequence[Sequence[str]], title: str = ""
) -> None:
    """A table whose first column is the kernel.

    Where it would not fit, cells are broken between words and names after underscores: what breaks them by itself cuts
    words in two.
    """
    grid = [list(head), *map(list, body)]
    longest = max(map(len, names))
    if longest + _taken(grid) > console.width:
        words = [max(len(word) for cell in column for word in cell.split(" ")) for column in zip(*grid, strict=True)]
        grid = [["\n".join(_broken(cell, at)) for cell, at in zip(row, words, strict=True)] for row in grid]
    width = max(_NAME, console.width - _taken(grid))
    folded = ["\n".join(fold(name, width)) for name in names]
    console.table(["kernel", *grid[0]], [[name, *row] for name, row in zip(folded, grid[1:], strict=True)], title)


def _taken(grid: Sequence[Sequence[str]]) -> int:
    """Columns of the terminal that all of *grid* takes beside a first column of names."""
    widths = [max(len(line) for cell in column for line in cell.split("\n")) for column in zip(*grid, strict=True)]
    return sum(widths) + _GAP * len(widths) + _EDGE


def _broken(text: str, width: int) -> list[str]:
    """*text* in lines of at most *width*, parted at its spaces."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def fold(name: str, width: int) -> list[str]:
    """*name* in lines of at most *width*, parted after underscores where that is possible."""
    lines = []
    while len(name) > width:
        cut = name.rfind("_", 0, width) + 1 or width
        lines.append(name[:cut])
        name = f"  {name[cut:]}"
    return [*lines, name]


def _number(value: int | None) -> str:
    return "–" if value is None else str(value)


def _of(value: int | None, limit: int) -> str:
    return _number(value) if not value else f"{value} ({budget.percent(value, limit)})"
