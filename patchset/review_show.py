"""What the tasks that look at patches say at their end: lint, diff and graph; as lines and tables, or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from patchset import graph as graphs
from patchset.compare import Change, Comparison
from patchset.console import Console
from patchset.graph import Graph
from patchset.lint import Report
from patchset.series_show import relative

_KINDS = {
    "same": "the same change",
    "moved": "the same change, at another place",
    "changed": "another change at the same place",
    "gone": "only there",
    "new": "only here",
}


def show_report(console: Console, report: Report, root: Path) -> None:
    """The end of ``inv lint``."""
    console.json(
        {
            "good": report.good,
            "findings": [asdict(finding) for finding in report.findings],
            "not_checked": [asdict(item) for item in report.not_checked],
            "written": [relative(path, root) for path in report.written],
        }
    )
    for finding in report.findings:
        where = finding.where.replace(f"{root}/", "")
        console.line(f"{finding.severity}: {where}: {finding.what}  [{finding.rule}]")
        console.line(f"    next: {finding.next}")
    for item in report.not_checked:
        console.line(f"not checked: {item.what}: {item.why} ({item.next})")
    for path in report.written:
        console.line(f"  wrote  {relative(path, root)}")
    errors = sum(finding.severity == "error" for finding in report.findings)
    warnings = len(report.findings) - errors
    console.line(f"{errors} errors, {warnings} warnings, {len(report.not_checked)} not checked")


def show_comparison(console: Console, found: Comparison) -> None:
    """The end of ``inv diff``."""
    console.json(
        {
            "left": found.left,
            "right": found.right,
            "pin": [_named(item) for item in found.pin],
            "stack": [_named(item) for item in found.stack],
            "order": [list(side) for side in found.order] if found.order else None,
            "patches": [
                {
                    "patch": item.patch,
                    "left": {"variant": item.left[0], "outcome": item.left[1]},
                    "right": {"variant": item.right[0], "outcome": item.right[1]},
                    "changes": [
                        {"kind": pair.kind, "left": _place(pair.left), "right": _place(pair.right)}
                        for pair in item.pairs
                    ],
                }
                for item in found.patches
            ],
        }
    )
    rows = [[f"{name}", left or "none", right or "none"] for name, left, right in (*found.pin, *found.stack)]
    console.table(["", found.left, found.right], rows)
    if found.order:
        for name, series in zip((found.left, found.right), found.order, strict=True):
            console.line(f"order in {name}: {', '.join(series)}")
    for item in found.patches:
        sides = [
            f"{outcome or 'not in the series'}{f' ({variant})' if variant else ''}"
            for variant, outcome in (item.left, item.right)
        ]
        console.line(f"{item.patch}: {' | '.join(dict.fromkeys(sides))}")
        counted = [pair for pair in item.pairs if pair.kind == "same"]
        if counted:
            console.line(f"  {len(counted)} changes are the same, in the same functions")
        for pair in item.pairs:
            if pair.kind != "same":
                places = " → ".join(str(side) for side in (pair.left, pair.right) if side)
                word = (
                    f"only in {found.left if pair.left else found.right}"
                    if pair.kind in ("gone", "new")
                    else _KINDS[pair.kind]
                )
                console.line(f"  {word}: {places}")


def show_graph(console: Console, found: Graph, written: Sequence[Path], root: Path) -> None:
    """The end of ``inv graph``."""
    console.json(
        {
            "recipe": found.recipe,
            "release": found.release,
            "patches": list(found.patches),
            "needs": {name: list(needs) for name, needs in found.needs.items()},
            "declared": {name: list(needs) for name, needs in found.declared.items()},
            "order_matters": [list(pair) for pair in found.order_matters],
            "idle": list(found.idle),
            "dot": graphs.dot(found),
        }
    )
    for line in graphs.lines(found):
        console.line(line)
    for path in written:
        console.line(f"  wrote  {relative(path, root)}")


def _named(item: tuple[str, str, str]) -> dict[str, str]:
    return dict(zip(("name", "left", "right"), item, strict=True))


def _place(change: Change | None) -> dict[str, object] | None:
    if change is None:
        return None
    removed, added = ([line.decode("utf-8", "replace") for line in side] for side in (change.removed, change.added))
    return {"path": change.path, "line": change.line, "scope": change.scope, "removed": removed, "added": added}
