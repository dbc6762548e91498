"""What the tasks that look at patches say at their end: lint, diff and graph; as lines and tables, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from patchset import graph_draw
from patchset.compare import Change, Comparison, Pair, PatchDifference
from patchset.console import Console, relative
from patchset.graph import Graph
from patchset.lint import Report

#: Lines shown of how two changes of one function differ; the JSON document has both whole.
_SHOWN = 24


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
        console.line(f"not checked: {item.what}: {item.why}  [{item.rule}]")
        console.line(f"    next: {item.next}")
    for path in report.written:
        console.line(f"  wrote  {relative(path, root)}")
    warnings = len(report.findings) - len(report.errors)
    console.line(
        f"{_count(len(report.errors), 'error')}, {_count(warnings, 'warning')}, {len(report.not_checked)} not checked"
    )


def show_comparison(console: Console, found: Comparison) -> None:
    """The end of ``inv diff``."""
    console.json(
        {
            "left": found.left,
            "right": found.right,
            "same": found.same,
            "pin": [_named(item) for item in found.pin],
            "stack": None if found.stack is None else [_named(item) for item in found.stack],
            "omitted": None if found.omitted is None else [_named(item) for item in found.omitted],
            "order": [list(side) for side in found.order] if found.order else None,
            "patches": [
                {
                    "patch": item.patch,
                    "left": {"variant": item.left[0], "outcome": item.left[1]},
                    "right": {"variant": item.right[0], "outcome": item.right[1]},
                    "changes": [
                        {
                            "kind": pair.kind,
                            "left": _place(pair.left),
                            "right": _place(pair.right),
                            "other_patch": pair.other,
                        }
                        for pair in item.pairs
                    ],
                }
                for item in found.patches
            ],
        }
    )
    rows = [[name, left or "none", right or "none"] for name, left, right in (*found.pin, *(found.stack or ()))]
    if rows:
        console.table(["", found.left, found.right], rows)
    if found.stack is None:
        console.line("stack and what is left out: not compared, a lock does not have them")
    for patch, left, right in found.omitted or ():
        for name, reason in ((found.left, left), (found.right, right)):
            if reason:
                console.line(f"{name} leaves {patch} out: {reason}")
    if found.order:
        for name, series in zip((found.left, found.right), found.order, strict=True):
            console.line(f"series of {name}: {', '.join(series) or 'empty'}")
    for item in found.patches:
        for line in _patch_lines(item, found):
            console.line(line)
    if found.same:
        console.line(_sameness(found))


def _sameness(found: Comparison) -> str:
    names = f"{found.left} and {found.right}" if found.left != found.right else f"{found.left} and itself"
    return f"{names} are the same: pin, series and every change{'' if found.stack is None else ', stack and what is left out'}"


def _patch_lines(item: PatchDifference, found: Comparison) -> Iterator[str]:
    sides = [
        f"{outcome or 'not in the series'}{f' ({variant})' if variant else ''}"
        for variant, outcome in (item.left, item.right)
    ]
    yield f"{item.patch}: {' | '.join(dict.fromkeys(sides))}"
    same = [pair for pair in item.pairs if pair.kind == "same" and not pair.other]
    if same:
        yield f"  {_count(len(same), 'change')} the same, at the same place"
    for pair in item.pairs:
        if pair not in same:
            yield f"  {_pair_words(pair, found)}"
        if pair.kind == "changed" and pair.left and pair.right:
            yield from (f"      {line}" for line in _interdiff(pair.left, pair.right))


def _pair_words(pair: Pair, found: Comparison) -> str:
    by = f", there by patch {pair.other}" if pair.other else ""
    places = " → ".join(str(side) for side in (pair.left, pair.right) if side)
    if pair.kind in ("gone", "new"):
        return f"only in {found.left if pair.left else found.right}: {places}"
    words = {
        "same": "same change, same place",
        "moved": "same change, other place",
        "changed": "same place, other text",
    }
    return f"{words[pair.kind]}{by}: {places}"


def _interdiff(left: Change, right: Change) -> list[str]:
    """How two changes differ: a diff of what they take out and put in."""
    import difflib

    texts = [
        [f"{sign}{line.decode('utf-8', 'replace').rstrip()}" for sign, lines in _signed(side) for line in lines]
        for side in (left, right)
    ]
    differing = list(difflib.unified_diff(*texts, lineterm="", n=1))[2:]
    lines = [line for line in differing if line[:2] != "@@" and line[2:].strip()] or ["only blank lines differ"]
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], *([f"… and {_count(more, 'line')} more: --json has all"] if more > 0 else [])]


def _signed(change: Change) -> tuple[tuple[str, tuple[bytes, ...]], ...]:
    return ("-", change.removed), ("+", change.added)


def show_graph(console: Console, found: Graph, written: Sequence[Path], root: Path) -> None:
    """The end of ``inv graph``."""
    console.json(
        {
            "recipe": found.recipe,
            "release": found.release,
            "patches": [
                {
                    "patch": patch,
                    "outcome": outcome.value,
                    "needs": list(found.needs[patch]),
                    "declared": list(found.declared[patch]),
                    "declared_only": list(found.declared_only(patch)),
                    "undeclared": list(found.undeclared(patch)),
                    "stopped_by": found.stopped_by.get(patch) or None,
                }
                for patch, outcome in found.outcomes.items()
            ],
            "order_matters": [asdict(item) for item in found.order_matters],
            "dot": graph_draw.dot(found),
        }
    )
    for line in graph_draw.lines(found):
        console.line(line)
    for path in written:
        console.line(f"  wrote  {relative(path, root)}")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _named(item: tuple[str, str, str]) -> dict[str, str]:
    return dict(zip(("name", "left", "right"), item, strict=True))


def _place(change: Change | None) -> dict[str, object] | None:
    if change is None:
        return None
    removed, added = ([line.decode("utf-8", "replace") for line in side] for side in (change.removed, change.added))
    return {"path": change.path, "line": change.line, "scope": change.scope, "removed": removed, "added": added}
