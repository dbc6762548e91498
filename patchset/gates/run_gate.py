"""The gates as tasks: measure, judge, keep and show; or judge and compare what was kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchset import page as pages
from patchset.console import Console
from patchset.errors import GateError
from patchset.gates import run, run_keep, run_server
from patchset.workspace import Workspace, write_atomically


def gate(workspace: Workspace, wanted: run.Wanted, console: Console, *, out: str = "", html: str = "") -> Path:
    """Measure what *wanted* says, keep the result once in *out* (default: in ``dist/gates``), show it, and return where it is.

    :param html: also a page there.
    :raises GateError: the gate is not passed, after the result was kept and shown; or see :func:`~patchset.gates.run.measure`.
    """
    from patchset.gates import document

    run_server.address_of(wanted.url)
    target = Path(html).resolve()
    if html:
        pages.require_place(target, "Gate")
    kept = run_keep.place(out, workspace.dist / "gates", wanted.kind)
    judged = document.judged(run.measure(workspace, wanted, console))
    run_keep.write_once(kept, document.encoded(judged))
    _page(judged, html, target)
    _show(console, judged, kept)
    require(judged, str(kept))
    return kept


def check(file: str, console: Console, *, html: str = "") -> None:
    """Judge the result in *file* again from its own raw data, and show it.

    :raises GateError: it is no result, does not give the figures that it has, or does not pass.
    """
    from patchset.gates import document

    target = Path(html).resolve()
    if html:
        pages.require_place(target, "Gate")
    judged = document.checked(Path(file))
    _page(judged, html, target)
    _show(console, judged, Path(file))
    require(judged, file)


def compare(one: str, other: str, console: Console, *, variable: str = "", html: str = "") -> None:
    """Compare the results in the files *one* and *other*, which may differ in *variable* alone.

    :raises GateError: they cannot be compared, or either is no result.
    """
    from patchset.gates import compare as comparing
    from patchset.gates import document

    target = Path(html).resolve()
    if html:
        pages.require_place(target, "Comparison")
    found = comparing.compare(document.checked(Path(one)), document.checked(Path(other)), variable)
    if html:
        from patchset.gates import page

        write_atomically(target, page.comparison(found).encode("utf-8"))
    console.table(["figure", "ratio", "interval"], comparing.rows(found))
    console.json(found)


def require(judged: Mapping[str, Any], where: str) -> None:
    """Nothing for a passed gate.

    :raises GateError: it is not; the first check that failed is named last.
    """
    bad = [one for one in judged["checks"] if one["verdict"] != "passed"]
    if judged["verdict"] == "passed":
        return
    failed = [one for one in bad if one["verdict"] == "failed"] or bad
    first = failed[0] if failed else {"name": "verdict", "reason": "it is not passed"}
    raise GateError(
        f"{judged['kind']} is not passed: {first['name']}: {first['reason']}",
        where=where,
        next=f"mend that, then ./inv gate {judged['kind']} again; ./inv gate check {where} shows this result",
    )


def _page(judged: Mapping[str, Any], html: str, target: Path) -> None:
    if html:
        from patchset.gates import page

        write_atomically(target, page.page(judged).encode("utf-8"))


def _show(console: Console, judged: Mapping[str, Any], kept: Path) -> None:
    model, source = _text(judged, "model", "id"), _text(judged, "timing", "source")
    console.line(f"{judged['kind']} of {model} at {_text(judged, 'endpoint')}, timed by {source}")
    _show_figures(console, judged["figures"])
    rows = [[one["verdict"], one["name"], one["reason"] or ""] for one in judged["checks"]]
    console.table(["verdict", "check", "reason"], rows)
    problems = judged.get("problems")
    for problem in problems if isinstance(problems, list) else ():
        console.line(f"  could not be asked: {problem}")
    console.line(f"{judged['verdict']}: {kept}")
    console.json({"result": str(kept), **judged})


def _text(judged: Mapping[str, Any], *path: str) -> str:
    """The text at *path* of a document that may be anybody's."""
    value: Any = judged
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else "(not recorded)"


def _show_figures(console: Console, figures: Mapping[str, Any]) -> None:
    from patchset.gates import page

    spread = page.spreads(figures)
    if spread:
        body = [[name, unit, *map(page.number, values)] for name, unit, values in spread]
        console.table(["figure", "unit", "median", "p10", "mean", "stdev", "answers"], body)
    rungs = figures.get("rungs") or []
    if rungs:
        names = ("concurrency", "phase", "requests", "aggregate", "request_median", "ttft_median_s")
        head = ["at once", "phase", "answers", "tokens/s together", "tokens/s of one", "first token, s"]
        console.table(head, [[page.number(row[name]) for name in names] for row in rungs])
    for name, why in (figures.get("not_given") or {}).items():
        console.line(f"  no {name}: {why}")
