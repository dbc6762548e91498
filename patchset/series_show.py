"""What the tasks that change a series say at their end: for a person as lines and tables, for a program as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from patchset.console import Console
from patchset.edit import Opened
from patchset.export import Export


def show_opened(console: Console, opened: Opened, root: Path) -> None:
    """The end of ``inv edit``."""
    there = relative(opened.directory, root)
    console.json(
        {
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
    console.line(f"next: edit there, git -C {there} commit --all --amend --no-edit, then ./inv export --from {there}")


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
            "written": [relative(path, root) for path in written],
        }
    )
    for item in export.exported:
        console.line(f"{item.patch}: another change now (variant {item.variant})")
        for releases, how in item.groups:
            console.line(f"  {releases}: {how}")
        for release in item.not_tried:
            console.line(
                f"  {release}: not tried, the release is not here (./inv forecast --releases {release} brings it)"
            )
    for note in export.notes:
        console.line(note)
    for path in written:
        console.line(f"  {'would write' if check else 'wrote' if path.exists() else 'removed'}  {relative(path, root)}")
    if not export.exported:
        console.line("nothing to export: every patch does what its variant says")
    elif not check:
        ids = ", ".join(item.patch for item in export.exported)
        console.line(f"next: ./inv lock -r {recipe}, then ./inv probe -r {recipe} ({ids} changed)")


def relative(path: Path, root: Path) -> str:
    """*path* as a person in the clone types it."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
