"""The tasks, thin: parse, call one function of the engine, print. `./inv --list` shows them, `./inv --help TASK` one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from invoke import Context, Exit, task

from patchset.console import Console
from patchset.errors import Interrupted, PatchsetError, SeriesError
from patchset.workspace import Workspace, write_atomically

if TYPE_CHECKING:
    from patchset.resolve import Project

WORKSPACE = Workspace(Path(__file__).resolve().parent)
DEFAULT = "b70-0.23"

_HELP = {
    "recipe": f"a name under recipes/, or a path to a .toml file (default {DEFAULT})",
    "json": "print one JSON document on standard output, progress on standard error",
    "fresh": "reuse no earlier result of a probe, build or smoke",
    "wait": "wait for another run in this clone (--no-wait: fail instead)",
}


def _help(*names: str, **more: str) -> dict[str, str]:
    return {**{name: _HELP[name] for name in names}, **more}


@contextmanager
def _reporting(as_json: bool) -> Iterator[Console]:
    """A console; the engine's errors become a message and their own exit code."""
    console = Console(as_json)
    try:
        yield console
    except PatchsetError as error:
        console.error(error)
        raise Exit(code=error.exit_code) from error
    except OSError as error:
        failure = PatchsetError(
            f"the operating system refused: {error.strerror or error}",
            where=str(error.filename or ""),
            next="check room on the disk and rights there, then run again",
        )
        console.error(failure)
        raise Exit(code=failure.exit_code) from error
    except KeyboardInterrupt:
        stopped = Interrupted(
            "interrupted; nothing half done was kept", next="run it again: what was finished is reused"
        )
        console.error(stopped)
        raise Exit(code=stopped.exit_code) from None
    except Exit:
        raise
    except Exception as error:
        failure = WORKSPACE.fault(error)
        console.error(failure)
        raise Exit(code=failure.exit_code) from error


@contextmanager
def _job(name: str, as_json: bool, wait: bool) -> Iterator[tuple[Console, Project]]:
    """A console and what the clone declares, with the clone held for this task alone."""
    with _reporting(as_json) as console:
        from patchset.changes import finish_changes
        from patchset.resolve import Project

        with WORKSPACE.only_run(name, wait=wait, say=console.say):
            finish_changes(WORKSPACE.journal)
            yield console, Project.read(WORKSPACE)


@task(default=True, help=_help("recipe", "json", "fresh", "wait"))
def runtime(_: Context, recipe: str = DEFAULT, json: bool = False, fresh: bool = False, wait: bool = True) -> None:
    """Make the patched runtime: pin, patches, probes, wheel, smoke, receipt (the main job)."""
    with _job(f"runtime -r {recipe}", json, wait) as (console, project):
        from patchset import runtime, summary

        made = runtime.make_runtime(project, project.recipe(recipe), console, fresh=fresh)
        summary.show_runtime(console, made, WORKSPACE.root)


@task(
    help=_help(
        "recipe", "json", "wait", checkout="also write the patched tree there: a git repository, one commit a patch"
    )
)
def apply(_: Context, recipe: str = DEFAULT, checkout: str = "", json: bool = False, wait: bool = True) -> None:
    """Apply the series on trees and show what became of each patch."""
    with _job(f"apply -r {recipe}", json, wait) as (console, project):
        from patchset import summary, worktree
        from patchset.resolve import resolve
        from patchset.store import Store

        store = Store.open(WORKSPACE.store)
        resolved = resolve(project, project.recipe(recipe), store, console.say)
        what = worktree.write_checkout(store, resolved.applied.commit, Path(checkout)) if checkout else ""
        summary.show_applied(console, resolved, Path(checkout).absolute() if checkout else None, what)


@task(help=_help("recipe", "json", "wait"))
def lock(_: Context, recipe: str = DEFAULT, json: bool = False, wait: bool = True) -> None:
    """Write the recipe's lock anew, after a change to it or to a patch, and show what changed."""
    with _job(f"lock -r {recipe}", json, wait) as (console, project):
        from patchset import resolve, summary

        file, changed = resolve.relock(project, project.recipe(recipe), console.say)
        summary.show_lock(console, file, changed)


@task(
    help=_help("recipe", "json", "fresh", "wait", patch="a patch's id (default: every patch)"),
)
def probe(
    _: Context, patch: str = "", recipe: str = DEFAULT, json: bool = False, fresh: bool = False, wait: bool = True
) -> None:
    """Run the probes on the unpatched base and on the patched tree: red there, green here."""
    with _job(f"probe -r {recipe}", json, wait) as (console, project):
        from patchset import proof, runtime, summary

        proofs, omitted = runtime.prove_recipe(project, project.recipe(recipe), console, only=patch, fresh=fresh)
        summary.show_proofs(console, recipe, proofs, omitted)
        proof.require(proofs, recipe)


@task(
    help=_help(
        "recipe",
        "json",
        "fresh",
        "wait",
        lane="which lane (there is: interpret)",
        wheel="the kernels of this wheel instead of the recipe's",
    )
)
def smoke(
    _: Context,
    lane: str = "interpret",
    recipe: str = DEFAULT,
    wheel: str = "",
    json: bool = False,
    fresh: bool = False,
    wait: bool = True,
) -> None:
    """Run the wheel's Triton kernels against independent references."""
    with _job(f"smoke -r {recipe}", json, wait) as (console, project):
        from patchset import lanes, runtime, summary

        wanted = project.recipe(recipe)
        result, path = runtime.smoke_recipe(project, wanted, lane, wheel, console, fresh=fresh)
        summary.show_smoke(console, result, path)
        lanes.require_smoke(result, path, wanted)


@task(
    help=_help(
        "recipe",
        "json",
        "wait",
        releases="which: 0.20..0.33, 0.30.., 0.23, or a list (default: every known one from 0.19.1)",
        patch="show this patch only",
        probes="run the probes that no verdict is kept of",
        html="also write the forecast there: one page that needs nothing else",
        fresh="with --probes: run them all",
    )
)
def forecast(
    _: Context,
    recipe: str = DEFAULT,
    releases: str = "",
    patch: str = "",
    probes: bool = False,
    html: str = "",
    json: bool = False,
    fresh: bool = False,
    wait: bool = True,
) -> None:
    """What becomes of each patch on each release: text and probes, and what changes beside them."""
    with _job(f"forecast -r {recipe}", json, wait) as (console, project):
        from patchset import forecast, forecast_table

        document = forecast.forecast(project, project.recipe(recipe), console, releases, patch, probes, fresh)
        if html:
            from patchset import forecast_page

            write_atomically(Path(html).absolute(), forecast_page.page(document).encode("utf-8"))
        forecast_table.show(console, document)


@task(
    help=_help(
        "recipe",
        "json",
        "wait",
        to="the release to carry the recipe to, forward or back",
        name="the new recipe's name (default: the old one's with the new release in it)",
        continue_="go on after the conflict was resolved in the checkout",
        skip="leave the patch that waits out of the new recipe, for this REASON",
        restart="begin the bump under way again",
        abort="end the bump under way; everything is as it was before",
        status="what is under way, and what it waits for",
    )
)
def bump(
    _: Context,
    to: str = "",
    recipe: str = DEFAULT,
    name: str = "",
    continue_: bool = False,
    skip: str = "",
    restart: bool = False,
    abort: bool = False,
    status: bool = False,
    json: bool = False,
    wait: bool = True,
) -> None:
    """Carry a recipe to another release: variants chosen or merged, patches retired, all proved; asks only on conflict."""
    with _job(f"bump {to}", json, wait) as (console, project):
        from patchset.bump import task

        wish = task.Wish(to, recipe, name, continue_, skip, restart, abort, status)
        if not task.run(project, wish, console):
            raise Exit(code=SeriesError.exit_code)


@task(
    positional=["patch"],
    help=_help(
        "recipe",
        "json",
        "wait",
        patch="the patch to edit",
        into="the directory for the checkout (default: work/edit-<recipe>)",
    ),
)
def edit(_: Context, patch: str, recipe: str = DEFAULT, into: str = "", json: bool = False, wait: bool = True) -> None:
    """Open a patch as a commit in a git checkout, to edit it with ordinary git; inv export writes it back."""
    with _job(f"edit {patch}", json, wait) as (console, project):
        from patchset import edit, series_show

        opened = edit.open_patch(project, project.recipe(recipe), patch, into, console.say)
        series_show.show_opened(console, opened, WORKSPACE.root)


@task(
    help=_help(
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
    """Write the commits of a checkout back as the diffs of their patches; what did not change is not touched."""
    with _job(f"export -r {recipe}", json, wait) as (console, project):
        from patchset import export, series_show

        directory = Path(from_).absolute() if from_ else WORKSPACE.work / f"edit-{recipe}"
        plan, written = export.export(project, project.recipe(recipe), directory, write=not check)
        series_show.show_export(console, plan, written, recipe, WORKSPACE.root, check=check)
        if check and written:
            raise Exit(code=SeriesError.exit_code)


@task(
    positional=["id"],
    help=_help(
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
    with _job(f"new {id}", json, wait) as (console, project):
        from patchset import series_edit, series_show

        directory = Path(from_).absolute() if from_ else WORKSPACE.work / f"edit-{recipe}"
        wanted = project.recipe(recipe)
        made = series_edit.new(
            project, wanted, id, revision=commit, directory=directory, title=title, why=why, after=after
        )
        series_show.show_changed(console, made, WORKSPACE.root)


@task(
    positional=["id"],
    iterable=["path"],
    help=_help(
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
    from_: str = "",
    commit: str = "",
    repository: str = "",
    title: str = "",
    recipe: str = DEFAULT,
    json: bool = False,
    wait: bool = True,
) -> None:
    """Bring files of another release, or a commit, back as a new patch."""
    with _job(f"backport {id}", json, wait) as (console, project):
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
    help=_help(
        "recipe", "json", "wait", id="the patch", reason="why", everywhere="delete it, if no other recipe has it"
    ),
)
def drop(
    _: Context,
    id: str,
    reason: str = "",
    everywhere: bool = False,
    recipe: str = DEFAULT,
    json: bool = False,
    wait: bool = True,
) -> None:
    """Leave a patch out of a recipe's series, by name and with the reason."""
    with _job(f"drop {id}", json, wait) as (console, project):
        from patchset import series_edit, series_show

        done = series_edit.drop(project, project.recipe(recipe), id, reason, everywhere=everywhere)
        series_show.show_changed(console, done, WORKSPACE.root)


@task(
    positional=["id"],
    help=_help("recipe", "json", "wait", id="the patch", before="the patch to put it before", after="… or behind"),
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
    """Put a patch elsewhere in a recipe's series, if the series still goes in."""
    with _job(f"move {id}", json, wait) as (console, project):
        from patchset import series_edit, series_show

        done = series_edit.move(project, project.recipe(recipe), id, before=before, after=after)
        series_show.show_changed(console, done, WORKSPACE.root)


@task(
    name="import",
    positional=["source"],
    help=_help(
        "recipe",
        "json",
        "wait",
        source="a diff, a mail or mbox, a folder of patches, or a quilt folder",
        id="the patch's id (default: made of its title)",
        release="the release that it was made for (default: the recipe's)",
        split="one patch a file",
        strict="write nothing where one does not apply",
    ),
)
def import_(
    _: Context,
    source: str,
    id: str = "",
    release: str = "",
    split: bool = False,
    strict: bool = False,
    recipe: str = DEFAULT,
    json: bool = False,
    wait: bool = True,
) -> None:
    """Make patches of others part of a recipe, whatever form they come in."""
    with _job(f"import {source}", json, wait) as (console, project):
        from patchset import importing, series_show

        done = importing.import_source(
            project,
            project.recipe(recipe),
            Path(source).absolute(),
            id=id,
            release=release,
            split=split,
            strict=strict,
        )
        series_show.show_imported(console, done, recipe, WORKSPACE.root)


@task(positional=["recipe", "other"], help=_help("recipe", "json", "wait", other="the recipe to compare it with"))
def diff(_: Context, recipe: str, other: str, json: bool = False, wait: bool = True) -> None:
    """What two recipes make different: pin, stack, order, and each patch's change and its place."""
    with _job(f"diff {recipe} {other}", json, wait) as (console, project):
        from patchset import compare, review_show

        found = compare.compare(project, project.recipe(recipe), project.recipe(other))
        review_show.show_comparison(console, found)


@task(help=_help("recipe", "json", "wait", dot="also write it there in the DOT language", svg="also draw it there"))
def graph(
    _: Context, recipe: str = DEFAULT, dot: str = "", svg: str = "", json: bool = False, wait: bool = True
) -> None:
    """Which patches depend on which, found by trying the trees."""
    with _job(f"graph -r {recipe}", json, wait) as (console, project):
        from patchset import graph, review_show

        found = graph.of_recipe(project, project.recipe(recipe), console.say)
        written = graph.write(found, dot, svg)
        review_show.show_graph(console, found, written, WORKSPACE.root)


@task(help=_help("json", "wait", write="bring recipes/PATCHES.md up to date"))
def lint(_: Context, write: bool = False, json: bool = False, wait: bool = True) -> None:
    """What is wrong with patches, recipes and locks, all at once, and what could not be checked."""
    with _reporting(json) as console:
        from patchset import lint, review_show
        from patchset.changes import finish_changes

        with WORKSPACE.only_run("lint", wait=wait, say=console.say):
            finish_changes(WORKSPACE.journal)
            report = lint.lint(WORKSPACE, write=write, say=console.say)
        review_show.show_report(console, report, WORKSPACE.root)
        lint.require(report)


@task(
    help={
        "only": "a pytest -m expression, for example 'not real and not e2e'",
        "match": "a pytest -k expression",
        "verbose": "name each test",
    }
)
def test(_: Context, only: str = "", match: str = "", verbose: bool = False) -> None:
    """Run the tests: all of them, with real vLLM releases, unless --only says less."""
    with _reporting(False) as console:
        from patchset import check

        raise Exit(code=check.run_tests(WORKSPACE, only, match, verbose, console))
