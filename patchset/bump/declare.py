"""What a bump writes: patch folders, the new recipe, and a copy of all declarations to try them in."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten

from packaging.version import Version

from patchset import rewrite, stack
from patchset.bump.carry import Carried, Edit
from patchset.bump.state import State
from patchset.changes import Change
from patchset.errors import DeclarationError, LockError
from patchset.lock import Lock, differences, read_lock
from patchset.patch import Patch
from patchset.probe import Finding, Verdict
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.store import Store
from patchset.variants import diff_name
from patchset.workspace import Workspace, copy_folder

#: Characters of a probe's reason that a recipe keeps; the receipt has all of it.
_REASON = 200


@dataclass(frozen=True)
class Declared:
    """The files that a bump changes, lock aside. ``retired`` are (patch, reason); ``recipe`` is the new recipe's."""

    changes: tuple[Change, ...]
    recipe: Change
    retired: tuple[tuple[str, str], ...]

    def in_copy(self, project: Project, directory: Path) -> Project:
        """A copy of *project*'s declarations in *directory*, with these changes in it, read and checked."""
        root = project.workspace.root
        copy_folder(root / "recipes", directory / "recipes")
        (directory / "vendor").mkdir()
        shutil.copy2(project.workspace.upstreams, directory / "vendor")
        for change in self.changes:
            target = directory / change.path.relative_to(root)
            if change.data is None:
                target.unlink(missing_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(change.data)
        (directory / "recipes" / self.recipe.path.name).with_suffix(".lock").unlink(missing_ok=True)
        return Project.read(Workspace(directory, project.workspace.vendor))


def snapshot(project: Project, recipe: Recipe, state: State) -> dict[Path, bytes]:
    """What stands in the files that a bump of *recipe* reads and writes: see :func:`require_unchanged`."""
    folders = [project.patches[name].folder for name in recipe.series]
    new = project.workspace.recipes / f"{state.name}.toml"
    files = [file for folder in folders for kind in ("patch.toml", "probe.py", "*.patch") for file in folder.glob(kind)]
    return {file: file.read_bytes() for file in (*files, recipe.file, new, new.with_suffix(".lock")) if file.is_file()}


def require_unchanged(project: Project, recipe: Recipe, state: State, before: Mapping[Path, bytes]) -> None:
    """Nobody edited what this bump read and is about to write.

    :param before: what :func:`snapshot` found when it began.
    :raises DeclarationError: somebody did.
    """
    now = snapshot(project, recipe, state)
    changed = sorted(file for file in before.keys() | now.keys() if before.get(file) != now.get(file))
    if changed:
        names = [str(file.relative_to(project.workspace.root)) for file in changed]
        raise DeclarationError(
            f"{names[0]} was changed while this bump ran"
            + (f", and {len(names) - 1} more files" if names[1:] else "")
            + "; nothing was written",
            where=str(changed[0]),
            detail="\n".join(names),
            next="run it again (--continue, where ./inv bump --status says that one is under way): it reads what is there now",
        )


def declare(
    project: Project,
    recipe: Recipe,
    state: State,
    carried: Sequence[Carried],
    findings: Mapping[str, Finding],
    store: Store,
    base: str,
) -> Declared:
    """The declarations that say what *carried* did, for the recipe called ``state.name``."""
    text = recipe_text(project, recipe, state, findings, store, base)
    new = Change(project.workspace.recipes / f"{state.name}.toml", text.encode())
    changes = [change for item in carried for change in _edited(project.patches[item.patch], item.edit)]
    retired = _retired(project, state, findings)
    return Declared((*changes, new), new, tuple((patch, reason) for patch, (reason, _, _) in retired.items()))


def recipe_text(
    project: Project, recipe: Recipe, state: State, findings: Mapping[str, Finding], store: Store, base: str
) -> str:
    """The new recipe. It does not depend on how its patches are carried, only on what the probes say of the bare release."""
    text = recipe.file.read_text("utf-8")
    if state.name != recipe.name:
        text = _headed(text, f"vLLM {state.to}, carried there from {recipe.name} (vLLM {recipe.pin.release}).")
    text = rewrite.set_stack(rewrite.set_pin(text, state.to), stack.of(store, base, state.to))
    for item in recipe.retired:
        text = rewrite.unretire(text, item.patch)
    for patch, (reason, upstream, first) in _retired(project, state, findings).items():
        text = rewrite.retire(text, patch, reason, upstream, first)
    for patch, reason in state.skipped.items():
        text = rewrite.omit(text, patch, reason)
    return text


def refuse_another(project: Project, recipe: Recipe, state: State, text: str) -> None:
    """:raises DeclarationError: a recipe of the new name is there, perhaps *recipe* itself, and does not read *text*."""
    there = project.workspace.recipes / f"{state.name}.toml"
    if not there.exists():
        return
    old, new = there.read_text("utf-8"), text
    if old == new:
        return
    import difflib

    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "there", "this bump", lineterm="", n=0)
    what, way = f"{there.name} is there already", ", or move that recipe and its lock away"
    if state.name == recipe.name:
        what, way = f"{there.name} is the recipe that this bump starts from", ""
    if state.name == recipe.name and recipe.pin.release == state.to:
        what, way = f"{there.name} is on {state.to} already", "; or --to another release: ./inv releases"
    raise DeclarationError(
        f"{what}, and says otherwise than this bump would",
        where=str(there),
        detail="\n".join(lines),
        next=f"./inv bump -r {recipe.name} --to {state.to} --name ANOTHER-NAME{way}",
    )


def refuse_another_lock(project: Project, state: State, lock: Lock) -> None:
    """:raises LockError: a lock of the new name is there, and does not say what *lock* does."""
    file = project.workspace.recipes / f"{state.name}.lock"
    found = differences(old, lock) if (old := read_lock(file)) else ()
    if found:
        raise LockError(
            f"{file.name} is there already, and says otherwise than this bump would",
            where=str(file),
            detail="\n".join(found),
            next=f"./inv bump --to {state.to} --name ANOTHER-NAME, or move that lock away",
        )


def _retired(project: Project, state: State, findings: Mapping[str, Finding]) -> dict[str, tuple[str, str, str | None]]:
    """Patch → (reason, upstream reference, first release with it), of those that the release needs no more."""
    return {
        patch: _retirement(project.patches[patch], state.to, finding)
        for patch, finding in findings.items()
        if finding.verdict is Verdict.SOUND and patch not in state.skipped
    }


def _headed(text: str, title: str) -> str:
    """*text* with *title* as the first line of the comment that it begins with; what the comment says further on stays."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").removeprefix(" "))
    return rewrite.set_head(text, [title, *lines[1:]])


def _retirement(patch: Patch, release: str, finding: Finding) -> tuple[str, str, str | None]:
    """(reason, upstream reference, first release with it): of the references that this release has, the last one in.

    Where patch.toml knows of none, the reason says why there is no reference.
    """
    merged = [r for r in patch.references if r.first_release and Version(r.first_release) <= Version(release)]
    latest = max(merged, key=lambda reference: Version(reference.first_release or "0"), default=None)
    reason = f"its probe finds vLLM {release} sound: {shorten(finding.reason, _REASON, placeholder=' …')}"
    if latest is None:
        return f"{reason}; {_no_reference(patch)}", "", None
    return reason, latest.ref, latest.first_release


def _no_reference(patch: Patch) -> str:
    merged = [reference for reference in patch.references if reference.state == "merged"]
    if not merged:
        return "patch.toml names no change of upstream's that was merged"
    later = [reference.first_release for reference in merged if reference.first_release]
    if later:
        return f"upstream's change is first in {min(later, key=Version)} by patch.toml"
    return f"patch.toml does not say which release first had {' or '.join(reference.ref for reference in merged)}"


def _edited(patch: Patch, edit: Edit) -> list[Change]:
    """The changes to the folder of *patch*."""
    if edit == Edit():
        return []
    file = patch.folder / "patch.toml"
    text, changes = file.read_text("utf-8"), []
    if edit.widened:
        text = rewrite.set_range(text, *edit.widened)
    if edit.narrowed:
        text = _narrowed(text, patch, *edit.narrowed)
    if edit.added:
        added = edit.added
        if edit.diff is not None and added.diff:
            stem = added.diff.removesuffix(".patch")
            added = replace(added, diff=diff_name(patch.folder, stem, edit.diff))
            changes.append(Change(patch.folder / str(added.diff), edit.diff))
        text = rewrite.add_variant(text, added)
    changes += _unused(patch, text)
    return [*changes, Change(file, text.encode())]


def _narrowed(text: str, patch: Patch, releases: str, left: tuple[str, ...]) -> str:
    """*text* with the variant *releases* for the ranges *left* only."""
    if not left:
        return rewrite.remove_variant(text, releases)
    variant = next(item for item in patch.variants if item.name == releases)
    text = rewrite.set_range(text, releases, left[0])
    for more in left[1:]:
        text = rewrite.add_variant(text, rewrite.NewVariant.of(variant, more))
    return text


def _unused(patch: Patch, text: str) -> list[Change]:
    """Diffs that no variant of *text* names any more go: an unused one is an error."""
    import tomlkit

    named = {item.get("diff") for item in tomlkit.parse(text).unwrap()["variant"]}
    return [Change(v.diff, None) for v in patch.variants if v.diff and v.diff.name not in named]
