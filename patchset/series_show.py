"""What the tasks that change a series say at their end: for a person as lines and tables, for a program as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from patchset.console import Console, relative
from patchset.edit import Opened
from patchset.export import Export
from patchset.importing import Imported
from patchset.series_edit import Changed


def show_opened(console: Console, opened: Opened, root: Path) -> None:
    """The end of ``inv edit``."""
    there = relative(opened.directory, root)
    console.json(
        {
            "recipe": opened.recipe,
            "patch": opened.patch,
            "variant": opened.variant,
            "checkout": str(opened.directory),
            "what": opened.what,
            "files": list(opened.touched),
            "later": list(opened.later),
        }
    )
    console.line(f"checkout {opened.what}: {there}, at the commit of {opened.patch} (variant {opened.variant})")
    for path in opened.touched:
        console.line(f"  {path}")
    if opened.later:
        console.line(f"Behind it come {', '.join(opened.later)}; inv export carries them.")
    console.line(
        f"next: edit there, git -C {there} commit --all --amend --no-edit, "
        f"then ./inv export -r {opened.recipe} --from {there}"
    )


def show_export(
    console: Console, export: Export, written: Sequence[Path], recipe: str, root: Path, *, check: bool
) -> None:
    """The end of ``inv export``: what each release of a changed variant gets, and the files."""
    console.json(
        {
            "recipe": recipe,
            "checked": check,
            "exported": [
                {
                    "patch": item.patch,
                    "variant": item.variant,
                    "tree": item.after,
                    "releases": [{"releases": releases, "gets": how} for releases, how in item.groups],
                    "not_tried": list(item.not_tried),
                }
                for item in export.exported
            ],
            "notes": list(export.notes),
            "tree": export.tree,
            "recipes": list(export.recipes),
            "written": [relative(path, root) for path in written],
        }
    )
    for item in export.exported:
        console.line(f"{item.patch}: another change now (variant {item.variant})")
        for releases, how in item.groups:
            console.line(f"  {releases}: {how}")
        kept = [releases for releases, how in item.groups if how.startswith("keeps")]
        if kept:
            console.line(f"  NOT EDITED on {', '.join(kept)}: the variant was split, and they have the patch as it was")
        for release in item.not_tried:
            console.line(
                f"  {release}: not tried, the release is not here (./inv forecast --releases {release} brings it)"
            )
    for note in export.notes:
        console.line(note)
    _show_written(console, written, root, check=check)
    if not export.exported:
        console.line("nothing to export: every patch does what its variant says")
    elif not check:
        ids = ", ".join(item.patch for item in export.exported)
        for name in export.recipes:
            console.line(f"next: ./inv lock -r {name}, then ./inv probe -r {name} ({ids} changed)")


def show_changed(console: Console, changed: Changed, root: Path) -> None:
    """The end of ``inv new``, ``drop``, ``move`` and ``backport``."""
    console.json(
        {
            "recipe": changed.recipe,
            "patch": changed.patch,
            "what": changed.what,
            "evidence": list(changed.evidence),
            "written": [relative(path, root) for path in changed.written],
        }
    )
    console.line(f"{changed.patch}: {changed.what}")
    for line in changed.evidence:
        console.line(f"  {line}")
    _show_written(console, changed.written, root)
    probe = root / "recipes" / "patches" / changed.patch / "probe.py"
    if probe in changed.written and probe.exists():
        console.line(f"Its probe says unknown until you write it: {relative(probe, root)}")
    console.line(f"next: ./inv lock -r {changed.recipe}, then ./inv probe -r {changed.recipe}")


def show_imported(console: Console, imported: Imported, recipe: str, root: Path) -> None:
    """The end of ``inv import``: each patch, and where hunks go nowhere."""
    console.json(
        {
            "recipe": recipe,
            "release": imported.release,
            "covers": imported.covers,
            "patches": [
                {
                    "patch": item.id,
                    "title": item.title,
                    "outcome": item.outcome,
                    "evidence": list(item.evidence),
                    "files": item.files,
                    "hunks": item.hunks,
                    "failing": [{"path": p, "hunks": lost, "of": of} for p, lost, of in item.failing],
                }
                for item in imported.patches
            ],
            "skipped": list(imported.skipped),
            "notes": list(imported.notes),
            "written": [relative(path, root) for path in imported.written],
        }
    )
    rows = []
    for item in imported.patches:
        lost = sum(count for _, count, _ in item.failing)
        told = f"{lost} of {item.hunks} hunks go nowhere, in {len(item.failing)} of {item.files} files" if lost else ""
        rows.append([item.id, item.outcome, told or f"{item.hunks} hunks in {item.files} files"])
    console.table(["patch", f"on {imported.release}", ""], rows)
    for item in imported.patches:
        for path, count, of in item.failing[:20]:
            console.line(f"  {item.id}: {path}: {count} of {of} hunks")
        if len(item.failing) > 20:
            console.line(f"  {item.id}: and {len(item.failing) - 20} more files (--json lists them)")
    for item in imported.patches:
        if not item.applies and not item.failing:
            for line in item.evidence[:10]:
                console.line(f"  {item.id}: {line}")
            if len(item.evidence) > 10:
                console.line(f"  {item.id}: and {len(item.evidence) - 10} more (--json lists them)")
    for line in imported.skipped:
        console.line(f"  not imported: {line}")
    for line in imported.notes:
        console.line(f"  {line}")
    bad = [item for item in imported.patches if item.stops]
    idle = [item for item in imported.patches if not item.applies and not item.stops]
    console.line(f"{len(imported.patches)} patches imported, {len(imported.written)} files written.")
    if bad:
        console.line(
            f"{len(bad)} OF {len(imported.patches)} DO NOT APPLY behind the series on {imported.release}: "
            "./inv runtime stops at each until its variant is mended, or it is dropped"
        )
    for item in idle[:20]:
        why = "its change is there already" if item.outcome == "upstream" else "there is nothing that it could change"
        console.line(
            f'{item.id} does nothing on {imported.release}: {why}; ./inv drop {item.id} --reason "…" takes it out'
        )
    if len(idle) > 20:
        console.line(f"and {len(idle) - 20} more that do nothing there")
    console.line(
        "No probe is written yet: each probe.py says unknown, and ./inv runtime stops there until somebody writes it."
    )
    console.line(
        f"next: ./inv forecast -r {recipe} shows on which releases how much fails"
        if bad or not imported.covers
        else f"next: ./inv lock -r {recipe}"
    )


def _show_written(console: Console, written: Sequence[Path], root: Path, *, check: bool = False) -> None:
    for path in written:
        console.line(f"  {'would write' if check else 'wrote' if path.exists() else 'removed'}  {relative(path, root)}")
