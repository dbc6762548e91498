"""What the tasks about wheels show at their end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from patchset import delivery, verify
from patchset.console import Console, relative
from patchset.errors import WheelError
from patchset.runtime import WheelOnly
from patchset.wheel import requires

_DIFFERENCES_SHOWN = 20


def show(console: Console, made: WheelOnly, root: Path) -> None:
    """The end of ``inv wheel``: the wheel, what installing it with its requirements would do, and the other places."""
    console.json(
        {
            "version": made.version,
            "path": str(made.path),
            "wheel": delivery.describe_wheel(made.built),
            "requirements": [item.as_dict() for item in made.requirements],
            "again": [{**asdict(item), "same": not item.differences} for item in made.again],
        }
    )
    console.line()
    show_wheel(console, made.path, delivery.describe_wheel(made.built), root)
    show_requirements(console, [item.as_dict() for item in made.requirements])
    if made.again:
        rows = [[item.place, item.made, item.sha256[:16], _verdict(item.differences)] for item in made.again]
        console.table(["where", "how", "sha256", "against the first"], rows)
    for item in made.again:
        for line in item.differences[:_DIFFERENCES_SHOWN]:
            console.line(f"  {line}")
        if len(item.differences) > _DIFFERENCES_SHOWN:
            console.line(f"  and {len(item.differences) - _DIFFERENCES_SHOWN} more (all of them: --json)")
    console.line("not run  smoke, and so there is no receipt: ./inv runtime does both")


def show_wheel(console: Console, path: Path, wheel: Mapping[str, object], root: Path) -> None:
    """Where the wheel is, how it was made, and its hash."""
    console.line(f"wheel    {relative(path, root)}")
    console.line(f"         {int(str(wheel['size'])) / 1e6:.1f} MB, {wheel['made']}, sha256 {wheel['sha256']}")


def show_requirements(console: Console, findings: Iterable[Mapping[str, str]]) -> None:
    """What a plain ``pip install`` of the wheel, with what it requires, would do to the recipe's stack."""
    for item in findings:
        console.line(f"{item['severity']:<9}{item['requirement']}: {item['why']}")
        console.line(f"         next: {item['next']}")


def show_beware(console: Console, findings: Iterable[Mapping[str, str]], recipe: str) -> None:
    """The same in a line, for those who install it as the README says."""
    conflicts = [item["requirement"] or item["where"] for item in findings if item["severity"] == requires.CONFLICT]
    names = [re.split(r"[^\w./-]", text)[0] for text in conflicts]
    if names:
        console.line(
            f"beware   without --no-deps, pip would not keep to the recipe's stack: {', '.join(names)} (why: ./inv wheel -r {recipe})"
        )


def show_report(console: Console, report: verify.Report) -> None:
    """The end of ``inv verify``: each check, and each finding with what to do."""
    console.json(report.as_dict())
    for line in verify.lines_of(report):
        console.line(line)


def show_unusable(console: Console, error: verify.Unusable) -> None:
    """``inv verify`` on what is no wheel, receipt or installation."""
    console.json({"error": error.as_dict()})
    for line in verify.error_lines(error):
        console.line(line)


def require_same(made: WheelOnly) -> None:
    """Every place gave the same bytes.

    :raises WheelError: one did not.
    """
    other = [item for item in made.again if item.differences]
    if other:
        raise WheelError(
            f"the wheel is not the same bytes everywhere: {other[0].differences[0]}",
            where=other[0].place,
            next="compare tool, lock and recipe of both places; ./inv wheel --check says whether each is of one mind with itself",
        )


def _verdict(differences: tuple[str, ...]) -> str:
    return f"{len(differences)} differences" if differences else "the same bytes"
