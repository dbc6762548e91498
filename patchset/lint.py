"""What is wrong with patches and recipes, all of it at once; and what could not be looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchset import lint_declared, lint_trees, patches_page
from patchset.changes import Change, commit_changes
from patchset.errors import DeclarationError, DiffRefused, LintError
from patchset.lint_model import RULES, Finding, NotChecked, of_error
from patchset.patch import Patch
from patchset.recipe import Recipe, read_recipe
from patchset.resolve import Project
from patchset.store import Store
from patchset.upstream import Upstream, read_upstreams
from patchset.workspace import Workspace

__all__ = ["RULES", "Finding", "NotChecked", "Report", "lint", "require"]

_ONE_BY_ONE = "mend it, then ./inv lint"


@dataclass(frozen=True)
class Report:
    """Everything lint found. ``written`` is the page, where it was written anew."""

    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    written: tuple[Path, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make lint fail."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def good(self) -> bool:
        """No errors?"""
        return not self.errors


@dataclass
class _Heap:
    """What was found so far."""

    findings: list[Finding] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)

    def report(self, written: tuple[Path, ...] = ()) -> Report:
        """Sorted by file and line, errors first."""

        def order(finding: Finding) -> tuple[bool, str, int]:
            path, _, line = finding.where.rpartition(":")
            return finding.severity != "error", *((path, int(line)) if line.isdigit() else (finding.where, 0))

        return Report(tuple(sorted(self.findings, key=order)), tuple(self.not_checked), written)


def require(report: Report) -> None:
    """:raises LintError: some finding is an error."""
    errors = report.errors
    if errors:
        count = f"{len(errors)} errors, the first" if len(errors) > 1 else "one error"
        raise LintError(f"{count}: {errors[0].what}", where=errors[0].where, next=errors[0].next)


def lint(workspace: Workspace, *, write: bool = False, say: Callable[[str], None] = lambda text: None) -> Report:
    """Look at every declaration, and at every patch on every release that is here. Nothing is fetched.

    :param write: bring ``recipes/PATCHES.md`` up to date.
    """
    heap = _Heap()
    try:
        upstreams = read_upstreams(workspace.upstreams)
    except DeclarationError as error:
        heap.findings.append(of_error("declaration", error))
        heap.not_checked.append(NotChecked("all", "patches and recipes", "no release is known then", _ONE_BY_ONE))
        return heap.report()
    patches = _patches(workspace, upstreams["vllm"], heap)
    heap.findings += lint_declared.resolution_rules(workspace)
    heap.findings += lint_trees.orphan_locks(workspace.recipes)
    unreadable = {finding.where for finding in heap.findings if finding.rule == "declaration"}
    if unreadable:
        # a recipe without one of its patches cannot be read, and a series without one is another series
        what = "patches on releases, recipes, locks, exports, the page"
        heap.not_checked.append(NotChecked("all on trees", what, "a patch cannot be read", _ONE_BY_ONE))
        return heap.report()
    project = Project(workspace, upstreams, patches)
    recipes = _recipes(project, heap)
    bases = lint_trees.Local(workspace, upstreams["vllm"], Store.open(workspace.store), say)
    findings, not_checked = lint_trees.variant_rules(project, bases, recipes)
    heap.findings += findings
    heap.not_checked += not_checked
    for recipe in recipes:
        heap.findings += lint_declared.recipe_rules(recipe)
        own = lint_trees.Local(workspace, upstreams[recipe.pin.upstream], bases.store, say)
        findings, not_checked = lint_trees.recipe_rules(project, recipe, own)
        heap.findings += findings
        heap.not_checked += not_checked
    if len(recipes) < len(list(workspace.recipes.glob("*.toml"))):
        heap.not_checked.append(NotChecked("page", patches_page.NAME, "a recipe cannot be read", _ONE_BY_ONE))
        return heap.report()
    return heap.report(_page(project, recipes, heap, write=write))


def _patches(workspace: Workspace, upstream: Upstream, heap: _Heap) -> Mapping[str, Patch]:
    """Every patch that can be read, each with its own rules looked at."""
    if not workspace.patches.is_dir():
        where = str(workspace.patches)
        heap.findings.append(
            Finding("error", "declaration", where, "no such folder", "git status: restore recipes/patches")
        )
        return {}
    found: dict[str, Patch] = {}
    for folder in sorted(workspace.patches.iterdir()):
        if folder.is_dir() and not folder.name.startswith((".", "__")):
            patch, faults = lint_declared.read(folder, upstream)
            heap.findings += faults
            if patch:
                found[patch.id] = patch
    # a patch that cannot be read is there all the same
    names = {**found, **{f.name: None for f in workspace.patches.iterdir() if f.is_dir() and f.name not in found}}
    for patch in found.values():
        heap.findings += lint_declared.patch_rules(patch, found, names, tuple(upstream.releases))
    return found


def _recipes(project: Project, heap: _Heap) -> list[Recipe]:
    found = []
    for file in sorted(project.workspace.recipes.glob("*.toml")):
        try:
            found.append(read_recipe(file, project.upstreams, project.patches))
        except DeclarationError as error:
            heap.findings.append(of_error("declaration", error))
            why = "it cannot be read"
            heap.not_checked.append(NotChecked("series, lock, export", f"recipe {file.stem}", why, _ONE_BY_ONE))
    return found


def _page(project: Project, recipes: list[Recipe], heap: _Heap, *, write: bool) -> tuple[Path, ...]:
    """Compare the page with what it would be, or write it: the files that were written."""
    file = patches_page.file_of(project.workspace.recipes)
    releases = tuple(project.upstreams["vllm"].releases)
    try:
        page = patches_page.page(list(project.patches.values()), recipes, releases)
    except DiffRefused as error:
        heap.not_checked.append(NotChecked("page", file.name, f"a diff cannot be read: {error.where}", _ONE_BY_ONE))
        return ()
    if write:
        return commit_changes([Change(file, page.encode())], project.workspace.journal)
    there = file.read_bytes().decode("utf-8", "replace") if file.is_file() else None
    if there != page:
        old, new = (there or "").splitlines(), page.splitlines()
        line = next(
            (n for n, (a, b) in enumerate(zip(old, new, strict=False), 1) if a != b), min(len(old), len(new)) + 1
        )
        what = "it is not there" if there is None else "it is not what patches and recipes say"
        where = str(file) if there is None else f"{file}:{line}"
        heap.findings.append(Finding("error", "page", where, what, "./inv lint --write"))
    return ()
