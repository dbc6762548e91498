"""What is wrong with patches and recipes, all of it at once; and what could not be looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from patchset import diff, export, newpatch, patches_page, resolve
from patchset.bases import Bases
from patchset.bump import resolutions
from patchset.changes import Change, commit_changes
from patchset.diff_model import Hunk
from patchset.errors import DeclarationError, DiffRefused, LintError, PatchsetError, SourceError
from patchset.lock import read_lock
from patchset.outcome import Outcome
from patchset.patch import Patch, Variant, covered, read_patch
from patchset.recipe import Recipe, read_recipe
from patchset.resolve import Project
from patchset.store import Store
from patchset.upstream import read_upstreams
from patchset.workspace import Workspace


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: the rule it breaks, where, and what to do. Only an ``error`` makes lint fail."""

    severity: str
    rule: str
    where: str
    what: str
    next: str


@dataclass(frozen=True)
class NotChecked:
    """Something that a rule could not look at, why, and the command that makes it possible."""

    rule: str
    what: str
    why: str
    next: str


@dataclass(frozen=True)
class Report:
    """Everything lint found. ``written`` is the page, where it was written anew."""

    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    written: tuple[Path, ...]

    @property
    def good(self) -> bool:
        """No errors?"""
        return not any(finding.severity == "error" for finding in self.findings)


def require(report: Report) -> None:
    """:raises LintError: some finding is an error."""
    errors = [finding for finding in report.findings if finding.severity == "error"]
    if errors:
        raise LintError(
            f"{len(errors)} errors, the first: {errors[0].what}", where=errors[0].where, next=errors[0].next
        )


def lint(workspace: Workspace, *, write: bool = False, say: Callable[[str], None] = lambda text: None) -> Report:
    """Look at every declaration, and at every patch on every release that is here.

    :param write: bring ``recipes/PATCHES.md`` up to date.
    """
    upstream = read_upstreams(workspace.upstreams)["vllm"]
    folders = sorted(f for f in workspace.patches.iterdir() if f.is_dir() and not f.name.startswith((".", "__")))
    findings: list[Finding] = []
    patches: dict[str, Patch] = {}
    for folder in folders:
        try:
            patches[folder.name] = read_patch(folder, upstream)
        except DeclarationError as error:
            findings.append(_declaration(error))
    for patch in patches.values():
        findings += [
            *_reasons(patch),
            *_ranges(patch, tuple(upstream.releases)),
            *_probe(patch),
            *_requires(patch, patches),
        ]
        for variant in {variant.diff: variant for variant in patch.variants if variant.diff}.values():
            findings += _blanks(variant)
    findings += _resolutions(workspace)
    broken = any(finding.rule == "declaration" for finding in findings)
    if broken:
        skipped = NotChecked(
            "trees",
            "patches on releases, recipes, the page",
            "a declaration cannot be read",
            "mend it, then ./inv lint",
        )
        return Report(tuple(findings), (skipped,), ())
    project = Project(workspace, read_upstreams(workspace.upstreams), patches)
    recipes: list[Recipe] = []
    for file in sorted(workspace.recipes.glob("*.toml")):
        try:
            recipes.append(read_recipe(file, project.upstreams, patches))
        except DeclarationError as error:
            findings.append(_declaration(error))
    store = Store.open(workspace.store)
    bases = project.bases(store, say)
    more, not_checked = _trees(project, bases, recipes)
    findings += more
    for recipe in recipes:
        findings += _lock(project, recipe)
        found, left = _exports(project, recipe, bases)
        findings += found
        not_checked += left
    written: tuple[Path, ...] = ()
    file = patches_page.file_of(workspace.recipes)
    try:
        page = patches_page.page(list(patches.values()), recipes)
    except DiffRefused as error:
        not_checked.append(
            NotChecked("page", file.name, f"a diff is refused: {error.where}", "mend it, then ./inv lint")
        )
    else:
        if write:
            written = commit_changes([Change(file, page.encode())], workspace.journal)
        elif not file.is_file() or file.read_text("utf-8") != page:
            what = "it is not what the declarations say" if file.is_file() else "it is not there"
            findings.append(Finding("error", "page", str(file), what, "./inv lint --write"))
    return Report(tuple(findings), tuple(not_checked), written)


# -- declarations -------------------------------------------------------------------------------------------------------


def _declaration(error: DeclarationError) -> Finding:
    return Finding("error", "declaration", error.where, error.what, error.next)


def _reasons(patch: Patch) -> Iterator[Finding]:
    where = str(patch.folder / "patch.toml")
    if newpatch.NOBODY_SAID in patch.drop_when:
        yield Finding("error", "reasons", where, "drop-when is the generated text", "say when the patch can go")
    if len(patch.why.split()) < 8:
        yield Finding(
            "error", "reasons", where, f"why is {patch.why.strip()!r}", "say what fails without it, and for whom"
        )


def _ranges(patch: Patch, known: tuple[str, ...]) -> Iterator[Finding]:
    have = covered(patch, dict.fromkeys(known))
    where = str(patch.folder / "patch.toml")
    inside = known[known.index(have[0]) : known.index(have[-1]) + 1]
    for release in inside:
        if release not in have:
            yield Finding(
                "error",
                "gap",
                where,
                f"no variant covers {release}, between two that do",
                f"./inv forecast --patch {patch.id} --releases {release}",
            )
    outside = [release for release in known if release not in inside]
    if outside:
        yield Finding(
            "warning", "gap", where, f"it says nothing about {', '.join(outside)}", f"./inv forecast --patch {patch.id}"
        )


def _probe(patch: Patch) -> Iterator[Finding]:
    source = patch.probe.read_bytes()
    try:
        compile(source, str(patch.probe), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        yield Finding(
            "error", "probe", f"{patch.probe}:{getattr(error, 'lineno', 1)}", f"it does not compile: {error}", "mend it"
        )
    if newpatch.UNWRITTEN.encode() in source:
        yield Finding(
            "error",
            "probe",
            str(patch.probe),
            "it is the generated one, which shows nothing",
            "write it: run the tree's code, red without the patch and green with it",
        )


def _requires(patch: Patch, patches: dict[str, Patch]) -> Iterator[Finding]:
    for needed in patch.requires:
        if needed not in patches or needed == patch.id:
            yield Finding(
                "error",
                "requires",
                str(patch.folder / "patch.toml"),
                f"requires {needed!r}, which is no other patch here",
                "take it out of requires",
            )


def _blanks(variant: Variant) -> Iterator[Finding]:
    """Blanks at the end of added lines: they show as noise in every later diff of that file."""
    assert variant.diff is not None
    data = variant.diff.read_bytes()
    name = f"{variant.diff.parent.name}/{variant.diff.name}"
    try:
        files = diff.read(data, name)
    except DiffRefused as error:
        yield Finding("error", "diff", error.where, error.what, error.next)
        return
    lines = data.split(b"\n")
    for file in files:
        for hunk in file.hunks:
            for number in _added(lines, hunk):
                if lines[number - 1].rstrip(b" \t\r") != lines[number - 1].rstrip(b"\r"):
                    yield Finding(
                        "error",
                        "blanks",
                        f"{name}:{number}",
                        "an added line ends in blanks",
                        "take them out: ./inv edit " + variant.diff.parent.name,
                    )


def _added(lines: list[bytes], hunk: Hunk) -> Iterator[int]:
    """The numbers (from 1) of the lines that *hunk* adds, in the diff."""
    left, number = len(hunk.old) + hunk.added, hunk.line
    while left > 0:
        number += 1
        if lines[number - 1].startswith(b"\\"):
            continue  # "\ No newline at end of file" is about the line before
        left -= 1
        if lines[number - 1].startswith(b"+"):
            yield number


def _resolutions(workspace: Workspace) -> Iterator[Finding]:
    try:
        resolutions.read(workspace.recipes / "resolutions")
    except DeclarationError as error:
        yield Finding("error", "resolutions", error.where, error.what, error.next)


# -- trees --------------------------------------------------------------------------------------------------------------


def _trees(project: Project, bases: Bases, recipes: list[Recipe]) -> tuple[list[Finding], list[NotChecked]]:
    """Each variant on each release of its range, behind the patches before it."""
    from patchset.forecast import text_pass

    here = dict(bases.here())
    series = max((recipe.series for recipe in recipes), key=len, default=tuple(project.patches))
    order = [*series, *(name for name in project.patches if name not in series)]
    missing = [release for release in bases.upstream.releases if release not in here]
    not_checked = []
    if missing:
        span = missing[0] if len(missing) == 1 else f"{len(missing)} releases ({missing[0]} … {missing[-1]})"
        brings = f"./inv forecast --releases {missing[0]}..{missing[-1]}"
        not_checked.append(NotChecked("trees", f"the patches on {span}", "not here", brings))
    cells, unavailable = text_pass(bases.store, bases, here, [project.patches[name] for name in order])
    not_checked += [NotChecked("trees", f"the patches on {item.release}", item.why, item.next) for item in unavailable]
    findings = []
    for cell in cells:
        step, patch = cell.step, cell.patch
        if not cell.covered:
            continue
        where = f"{patch.folder / 'patch.toml'} ({step.variant} on {cell.release})"
        again = f"./inv forecast --patch {patch.id} --releases {cell.release}"
        twice = [place for place in step.places if place.ambiguous]
        if twice:
            lines = "; ".join(f"{place} fits at lines {', '.join(map(str, place.fits))}" for place in twice)
            findings.append(
                Finding("error", "unique", where, lines, "make the diff with more context, or narrow the range")
            )
        elif step.outcome.stops:
            findings.append(
                Finding("error", "trees", where, f"{step.outcome.value}: {'; '.join(step.evidence[:3])}", again)
            )
        elif step.outcome is Outcome.MERGES:
            findings.append(
                Finding(
                    "warning",
                    "trees",
                    where,
                    "it only goes in by a three-way merge",
                    f"./inv bump --to {cell.release} makes a variant",
                )
            )
        elif cell.variant.changes_tree and not step.outcome.changes_tree:
            findings.append(
                Finding("error", "trees", where, f"its diff is in already: {'; '.join(step.evidence[:3])}", again)
            )
    return findings, not_checked


def _lock(project: Project, recipe: Recipe) -> Iterator[Finding]:
    """What a lock says of the patches, as far as it shows without the base."""
    file = recipe.file.with_suffix(".lock")
    again = f"./inv lock -r {recipe.name}"
    try:
        lock = read_lock(file)
    except DeclarationError as error:
        yield Finding("error", "lock", error.where, error.what, error.next)
        return
    if lock is None:
        yield Finding("warning", "lock", str(file), "there is none yet", again)
        return
    said = [(item.id, item.digest) for item in lock.patches]
    if (
        said != [(name, project.patches[name].digest_for(recipe.pin.release)) for name in recipe.series]
        or lock.pin.release != recipe.pin.release
    ):
        yield Finding("error", "lock", str(file), "it is of other patches, or of another order or release", again)


def _exports(project: Project, recipe: Recipe, bases: Bases) -> tuple[list[Finding], list[NotChecked]]:
    """The export of the recipe's own series changes nothing."""
    if recipe.pin.release not in bases.here():
        skipped = NotChecked(
            "export", f"the export of {recipe.name}", "its base is not here", f"./inv apply -r {recipe.name}"
        )
        return [], [skipped]
    try:
        resolved = resolve.resolve(project, recipe, bases.store, lambda text: None)
        commits = bases.store.commits_since(resolved.applied.base_commit, resolved.applied.commit) or ()
        planned = export.plan_commits(project, resolved, commits, bases.store, recipe.file)
    except SourceError as error:
        return [], [NotChecked("export", f"the export of {recipe.name}", error.what, error.next)]
    except PatchsetError as error:
        return [Finding("error", "export", error.where or recipe.name, error.what, error.next)], []
    return [
        Finding(
            "error",
            "export",
            f"{item.patch} {item.variant}",
            "its diff is not what its commit says",
            f"./inv apply -r {recipe.name} --checkout DIR, then ./inv export --from DIR",
        )
        for item in planned.exported
    ], []
