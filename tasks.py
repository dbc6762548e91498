"""The tasks, thin: parse, call one function of the engine, print. `./inv --list` shows them, `./inv --help TASK` one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from invoke import Context, Exit, task

from patchset.console import Console
from patchset.errors import Interrupted, PatchsetError
from patchset.workspace import Workspace

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


@task(default=True, help=_help("recipe", "json", "fresh", "wait"))
def runtime(_: Context, recipe: str = DEFAULT, json: bool = False, fresh: bool = False, wait: bool = True) -> None:
    """Make the patched runtime: pin, patches, probes, wheel, smoke, receipt (the main job)."""
    with _reporting(json) as console:
        from patchset import runtime, summary
        from patchset.resolve import Project

        with WORKSPACE.only_run(f"runtime -r {recipe}", wait=wait, say=console.say):
            project = Project.read(WORKSPACE)
            made = runtime.make_runtime(project, project.recipe(recipe), console, fresh=fresh)
        summary.show_runtime(console, made, WORKSPACE.root)


@task(
    help=_help(
        "recipe", "json", "wait", checkout="also write the patched tree there: a git repository, one commit a patch"
    )
)
def apply(_: Context, recipe: str = DEFAULT, checkout: str = "", json: bool = False, wait: bool = True) -> None:
    """Apply the series on trees and show what became of each patch."""
    with _reporting(json) as console:
        from patchset import summary, worktree
        from patchset.resolve import Project, resolve
        from patchset.store import Store

        with WORKSPACE.only_run(f"apply -r {recipe}", wait=wait, say=console.say):
            project, store = Project.read(WORKSPACE), Store.open(WORKSPACE.store)
            resolved = resolve(project, project.recipe(recipe), store, console.say)
            what = worktree.write_checkout(store, resolved.applied.commit, Path(checkout)) if checkout else ""
        summary.show_applied(console, resolved, Path(checkout).absolute() if checkout else None, what)


@task(help=_help("recipe", "json", "wait"))
def lock(_: Context, recipe: str = DEFAULT, json: bool = False, wait: bool = True) -> None:
    """Write the recipe's lock anew, after a change to it or to a patch, and show what changed."""
    with _reporting(json) as console:
        from patchset import summary
        from patchset.lock import differences, read_lock
        from patchset.resolve import Project, resolve, write_lock
        from patchset.store import Store

        with WORKSPACE.only_run(f"lock -r {recipe}", wait=wait, say=console.say):
            project = Project.read(WORKSPACE)
            wanted = project.recipe(recipe)
            file = wanted.file.with_suffix(".lock")
            old = read_lock(file)
            resolved = resolve(project, wanted, Store.open(WORKSPACE.store), console.say)
            changed = differences(old, resolved.lock) if old else ("new",)
            if changed:
                write_lock(resolved)
        summary.show_lock(console, file, changed)


@task(
    help=_help("recipe", "json", "fresh", "wait", patch="a patch's id (default: every patch)"),
)
def probe(
    _: Context, patch: str = "", recipe: str = DEFAULT, json: bool = False, fresh: bool = False, wait: bool = True
) -> None:
    """Run the probes on the unpatched base and on the patched tree: red there, green here."""
    with _reporting(json) as console:
        from patchset import proof, runtime, summary
        from patchset.resolve import Project

        with WORKSPACE.only_run(f"probe -r {recipe}", wait=wait, say=console.say):
            project = Project.read(WORKSPACE)
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
    with _reporting(json) as console:
        from patchset import lanes, runtime, summary
        from patchset.resolve import Project

        with WORKSPACE.only_run(f"smoke -r {recipe}", wait=wait, say=console.say):
            project = Project.read(WORKSPACE)
            wanted = project.recipe(recipe)
            result, path = runtime.smoke_recipe(project, wanted, lane, wheel, console, fresh=fresh)
        summary.show_smoke(console, result, path)
        lanes.require_smoke(result, path, wanted)


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
