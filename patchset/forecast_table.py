"""The forecast for a person at a terminal: a matrix of short words, and under it what needs a word more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import wrap
from typing import Any

from patchset import forecast_view as view
from patchset.console import Console
from patchset.outcome import Outcome

#: What a table may be wide before its patches go into another one.
_WIDTH = 100
_GAP = 2
#: Lines of evidence and clashes shown of one cell; the JSON document and the page have all of them.
_SHOWN = 6
_CLASHES = 3
_LINES = 4


def show(console: Console, document: Mapping[str, Any]) -> None:
    """The end of ``inv forecast``: *document* as JSON, or as tables and notes."""
    console.json(document)
    cells = {(cell["patch"], cell["release"]): cell for cell in document["cells"]}
    patches = [patch["id"] for patch in document["patches"]]
    releases = [release["release"] for release in document["releases"]]
    rows = {release: [word(cells[patch, release]) for patch in patches] for release in releases}
    console.line(f"Forecast of {document['recipe']} on {len(releases)} releases of {document['upstream']}")
    for part in _parts(patches, list(rows.values())):
        console.table(
            [document["upstream"], *(patches[index] for index in part)],
            [[release, *(row[index] for index in part)] for release, row in rows.items()],
        )
    for line in notes(document):
        console.line(line)


def word(cell: Mapping[str, Any]) -> str:
    """One cell of the matrix: the outcome with its offset, and what the probe adds to it."""
    text = f"{cell['outcome']} {view.offset_word(cell)}".rstrip()
    if cell["agree"] is False:
        return f"{text} {view.state_word(cell)}"
    if Outcome(cell["outcome"]).stops:
        return " ".join(part for part in (text, view.failing_word(cell), f"· {cell['state'] or 'not run'}") if part)
    return f"{text} {'✓' if cell['agree'] else '· not run'}{'' if cell['covered'] else ' *'}"


def _parts(patches: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[list[int]]:
    """The patches by number, in groups that fit one table."""
    part, used = [], 8
    for index, patch in enumerate(patches):
        width = max([len(patch), *(len(row[index]) for row in rows)]) + _GAP
        if part and used + width > _WIDTH:
            yield part
            part, used = [], 8
        part.append(index)
        used += width
    if part:
        yield part


def notes(document: Mapping[str, Any]) -> Iterator[str]:
    """The lines under the matrix: what disagrees, what stops, what is not covered, stacks, what could not be had or was not run."""
    yield "✓  proved: on the base the probe shows the defect, and after the series it does not;"
    yield "   for upstream and absent: of the base the probe says the same"
    if any(not cell["covered"] for cell in document["cells"]):
        yield "*  no variant covers this release; the nearest one was tried"
    if any(Outcome(cell["outcome"]).stops and view.failing_word(cell) for cell in document["cells"]):
        yield "n/m  of m hunks n do not go in"
    yield from _loud(document["cells"])
    yield from _stacks(document["releases"])
    for item in document["unavailable"]:
        yield f"not forecast  {item['release']}: {item['why']}"
        yield f"              next: {item['next']}"
    yield from _counts(document)


def _loud(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A paragraph for each cell that disagrees, stops or lacks a variant; the same on releases in a row is said once."""
    for patch in dict.fromkeys(cell["patch"] for cell in cells):
        mine = [cell for cell in cells if cell["patch"] == patch]
        for said, same in groupby(mine, key=lambda cell: _paragraph(cell) if _needs_word(cell) else ()):
            releases = [cell["release"] for cell in same]
            span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
            yield from [f"{patch} on {span}: {said[0]}", *(f"    {line}" for line in said[1:])] if said else ()


def _needs_word(cell: Mapping[str, Any]) -> bool:
    return cell["agree"] is False or Outcome(cell["outcome"]).stops or not cell["covered"]


def _paragraph(cell: Mapping[str, Any]) -> tuple[str, ...]:
    lines = [("DISAGREEMENT: " if cell["agree"] is False else "") + cell["so"]]
    if not Outcome(cell["outcome"]).stops:
        return tuple(lines)
    lines += _cut(cell["evidence"], _SHOWN, "more lines of evidence in --json")
    lines += _cut([_moved(item) for item in cell["moved"]], _SHOWN, "more that moved or are gone")
    gone = {item["path"] for item in cell["moved"]}
    clashes = [clash for clash in cell["conflicts"] if clash["line"] or clash["path"] not in gone]
    for clash in clashes[:_CLASHES]:
        lines += _clash(clash)
    if len(clashes) > _CLASHES:
        lines.append(f"… {len(clashes) - _CLASHES} more conflicts in --json")
    if cell["first_broken"]:
        lines.append(f"first release on which this variant does not go in: {cell['first_broken']}")
    return tuple(lines)


def _clash(clash: Mapping[str, Any]) -> Iterator[str]:
    """Both sides of one conflict; without a line there is only what the release has to say."""
    if not clash["line"]:
        yield from (f"{clash['path']}: {line}" for line in clash["ours"])
        return
    for side, title in (("ours", "the release has"), ("theirs", "the patch wants")):
        yield f"{clash['path']}:{clash['line']}: {title}{'' if clash[side] else ' nothing there'}"
        yield from (f"    {line}" for line in _cut(clash[side], _LINES, "more lines"))


def _cut(lines: Sequence[str], most: int, what: str) -> list[str]:
    left = len(lines) - most
    return [*lines[:most], *([f"… {left} {what}"] if left > 0 else [])]


def _moved(item: Mapping[str, Any]) -> str:
    if item["to"] is None:
        return f"{item['path']} is gone, and no file of this release is like it"
    lines = ", ".join(map(str, item["lines"]))
    if not item["similarity"]:
        return f"lines of {item['path']} stand unchanged in {item['to']}:{lines}"
    kept = f"; the lines of the patch stand there unchanged, at {lines}" if item["identical"] else ""
    return f"{item['path']} is now {item['to']} ({item['similarity']} % alike){kept}"


def _stacks(releases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    changed = [release for release in releases if release["changes"]]
    if changed:
        yield "The stack changes:"
    for release in changed:
        told = [_change(item) for item in release["changes"]]
        yield from _wrapped("; ".join(told), f"    {release['release']:<9}")
        for item in release["changes"]:
            if item["meaning"]:
                yield from _wrapped(f"{item['name']}: {item['meaning']}", " " * 15)


def _change(item: Mapping[str, Any]) -> str:
    before, after = (item[side].removeprefix("==") or "none" for side in ("from", "to"))
    return f"{item['name']} {before} → {after}" if item["from"] or item["to"] else item["name"]


def _wrapped(text: str, head: str) -> list[str]:
    below = " " * max(len(head), 13)
    return wrap(
        text, _WIDTH, initial_indent=head, subsequent_indent=below, break_long_words=False, break_on_hyphens=False
    )


def _counts(document: Mapping[str, Any]) -> Iterator[str]:
    summary, seconds = document["summary"], document["seconds"]
    probes = f", probes {seconds['probes']:.1f} s" if seconds["probes"] else ""
    yield (
        f"{summary['cells']} cells: {summary['agree']} where text and probe agree, {summary['disagree']} where they do not, "
        f"{summary['not_run']} not run; {summary['stops']} stop. Text {seconds['text']:.1f} s{probes}"
    )
    count, reasons, command = view.not_run(document)
    if count:
        yield f"not run  {count} of them: {'; '.join(reasons)}"
        yield f"         next: {command}"
