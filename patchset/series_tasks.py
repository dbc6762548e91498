"""The tasks that change, compare and check series; `tasks.py` has the others."""

from __future__ import annotations

from pathlib import Path

from invoke import Context, Exit, task

from patchset.cli import DEFAULT, WORKSPACE, help_for, job, reporting
from patchset.errors import SeriesError


@task(
    positional=["patch"],
    help=help_for(
        "recipe",
        "json",
        "wait",
        patch="the patch to edit",
        into="the directory for the checkout (default: work/edit-<recipe>)",
    ),
)
def edit(_: Context, patch: str, recipe: str = DEFAULT, into: str = "", json: bool = False, wait: bool = True) -> None:
    """Open a patch as a commit in a checkout, to edit it with git."""
    with job(f"edit {patch}", json, wait) as (console, project):
        from patchset import edit, series_show

        opened = edit.open_patch(project, project.recipe(recipe), patch, into, console.say)
        series_show.show_opened(console, opened, WORKSPACE.root)


@task(
    help=help_for(
        "recipe",
        "json",
        "wait",
        from_="the checkout (default: work/edit-<recipe>)",
        check="write nothing; fail if something would be written",
    )
)
def export(
    _: Context, recipe: str = DEFAULT, from_: str = "", check: bool = False, json: bool = False, wait: bool = True
) -> None:
    """Write the commits of a checkout back into their patches."""
    with job(f"export -r {recipe}", json, wait) as (console, project):
        from patchset import export, series_show

        directory = Path(from_).absolute() if from_ else WORKSPACE.work / f"edit-{project.recipe(recipe).name}"
        plan, written = export.export(project, project.recipe(recipe), directory, write=not check)
        series_show.show_export(console, plan, written, recipe, WORKSPACE.root, check=check)
        if check and written:
            raise Exit(code=SeriesError.exit_code)


@task(
    positional=["id"],
    help=help_for(
        "recipe",
        "json",
        "wait",
        id="the new patch's id",
        commit="the commit whose change it is",
        from_="the repository with that commit (default: work/edit-<recipe>)",
        title="default: the commit's subject",
        why="default: the commit's message",
        after="the patch to put it behind (default: the last one)",
    ),
)
def new(
    _: Context,
    id: str,
    commit: str = "HEAD",
    from_: str = "",
    title: str = "",
    why: str = "",
    after: str = "",
    recipe: str = DEFAULT,
    json: bool = False,
    wait: bool = True,
) -> None:
    """Make a commit of a checkout a new patch of the series."""
    with job(f"new {id}", json, wait) as (console, project):
        from patchset import series_edit, series_show

        directory = Path(from_).absolute() if from_ else WORKSPACE.work / f"edit-{project.recipe(recipe).name}"
        wanted = project.recipe(recipe)
        made = series_edit.new(
            project, wanted, id, revision=commit, directory=directory, title=title, why=why, after=after
        )
        series_show.show_changed(console, made, WORKSPACE.root)


@task(
    positional=["id"],
    iterable=["path"],
    help=help_for(
        "recipe",
        "json",
        "wait",
        id="the new patch's id",
        from_="the release to take files from",
        path="a file of that release; may be given several times",
        commit="instead: a commit to take the change of",
        repository="the git repository with that commit",
        title="default: made of the files or the commit",
    ),
)
def backport(
    _: Context,
    id: str,
    path: list[str],
    recipe: str = DEFAULT,
    from_: str = "",
    commit: str = "",
    repository: str = "",
    title: str = "",
    json: bool = False,
    wait: bool = True,
) -> None:
    """Bring files of another release, or a commit, back."""
    with job(f"backport {id}", json, wait) as (console, project):
        from patchset import series_edit, series_show

        made = series_edit.backport(
            project,
            project.recipe(recipe),
            id,
            release=from_,
            paths=path,
            revision=commit,
            directory=Path(repository).absolute() if repository else None,
            title=title,
        )
        series_show.show_changed(console, made, WORKSPACE.root)


@task(
    positional=["id"],
    help=help_for(
        "recipe", "json", "wait", id="the patch", reason="why", everywhere="delete it, if no other recipe has it"
    ),
)
def drop(
    _: Context,
    id: str,
    recipe: str = DEFAULT,
    reason: str = "",
    everywhere: bool = False,
    json: bool = False,
    wait: bool = True,
) -> None:
    """Leave a patch out of a recipe, by name and with a reason."""
    with job(f"drop {id}", json, wait) as (console, project):
        from patchset import series_edit, series_show

        done = series_edit.drop(project, project.recipe(recipe), id, reason, everywhere=everywhere)
        series_show.show_changed(console, done, WORKSPACE.root)


@task(
    positional=["id"],
    help=help_for("recipe", "json", "wait", id="the patch", before="the patch to put it before", after="… or behind"),
)
def move(
    _: Context,
    id: str,
    before: str = "",
    after: str = "",
    recipe: str = DEFAULT,
    json: bool = False,
    wait: bool = True,
) -> None:
    """Put a patch elsewhere in the series, if it still goes in."""
    with job(f"move {id}", json, wait) as (console, project):
        from patchset import series_edit, series_show

        done = series_edit.move(project, project.recipe(recipe), id, before=before, after=after)
        series_show.show_changed(console, done, WORKSPACE.root)


@task(
    name="import",
    positional=["source"],
    help=help_for(
        "recipe",
        "json",
        "wait",
        source="a diff, a mail or mbox, a folder of patches, or a quilt folder",
        id="the patch's id (default: made of its title)",
        for_="the release that it was made for (default: the recipe's)",
        split="one patch a file",
        strict="write nothing where one does not apply",
    ),
)
def import_(
    _: Context,
    source: str,
    id: str = "",
    for_: str = "",
    split: bool = False,
    strict: bool = False,
    recipe: str = DEFAULT,
    json: bool = False,
    wait: bool = True,
) -> None:
    """Make patches of others part of a recipe."""
    with job(f"import {source}", json, wait) as (console, project):
        from patchset import importing, series_show

        done = importing.import_source(
            project,
            project.recipe(recipe),
            Path(source).absolute(),
            id=id,
            release=for_,
            split=split,
            strict=strict,
        )
        series_show.show_imported(console, done, recipe, WORKSPACE.root)


@task(
    positional=["recipe", "other"],
    help=help_for(
        "json",
        "wait",
        recipe="a name under recipes/, a path to a .toml file, or a lock: NAME.lock, or a path",
        other="the recipe or lock to compare it with",
    ),
)
def diff(_: Context, recipe: str, other: str, json: bool = False, wait: bool = True) -> None:
    """What two recipes or locks make different, and where."""
    with job(f"diff {recipe} {other}", json, wait) as (console, project):
        from patchset import compare, review_show

        found = compare.compare(project, compare.read(project, recipe), compare.read(project, other))
        review_show.show_comparison(console, found)


@task(help=help_for("recipe", "json", "wait", dot="also write it there in the DOT language", svg="also draw it there"))
def graph(
    _: Context, recipe: str = DEFAULT, dot: str = "", svg: str = "", json: bool = False, wait: bool = True
) -> None:
    """Which patches depend on which, found by trying the trees."""
    with job(f"graph -r {recipe}", json, wait) as (console, project):
        from patchset import graph, review_show

        graph.require_places(dot, svg)
        found = graph.of_recipe(project, project.recipe(recipe), console.say)
        written = graph.write(found, dot, svg)
        review_show.show_graph(console, found, written, WORKSPACE.root)


@task(help=help_for("json", "wait", write="bring recipes/PATCHES.md up to date"))
def lint(_: Context, write: bool = False, json: bool = False, wait: bool = True) -> None:
    """What is wrong with patches, recipes and locks, all at once."""
    with reporting(json) as console:
        from patchset import lint, review_show
        from patchset.changes import finish_changes

        with WORKSPACE.only_run("lint", wait=wait, say=console.say):
            finish_changes(WORKSPACE.journal)
            report = lint.lint(WORKSPACE, write=write, say=console.say)
        review_show.show_report(console, report, WORKSPACE.root)
        lint.require(report)
