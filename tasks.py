"""The tasks, thin: parse, call one function of the engine, print. `./inv --list` shows them, `./inv --help TASK` one.

Those that change or compare series are in :mod:`patchset.series_tasks`, those about wheels in :mod:`patchset.wheel_tasks`,
proofs of patches in :mod:`patchset.proof_tasks`, gates of a server in :mod:`patchset.gate_tasks`.
"""

from __future__ import annotations

from pathlib import Path

from invoke import Context, Exit, task

from patchset.cli import DEFAULT, WORKSPACE, help_for, job, number, reporting, whole
from patchset.errors import BisectError, SeriesError
from patchset.gate_tasks import gate
from patchset.proof_tasks import proof
from patchset.series_tasks import backport, diff, drop, edit, export, graph, import_, lint, move, new
from patchset.wheel_tasks import kernels, verify, wheel
from patchset.workspace import write_atomically

__all__ = [
    "backport",
    "diff",
    "drop",
    "edit",
    "export",
    "gate",
    "graph",
    "import_",
    "kernels",
    "lint",
    "move",
    "new",
    "proof",
    "verify",
    "wheel",
]


@task(default=True, help=help_for("recipe", "json", "fresh", "wait"))
def runtime(_: Context, recipe: str = DEFAULT, json: bool = False, fresh: bool = False, wait: bool = True) -> None:
    """The main job: pin, patches, probes, wheel, smoke, receipt."""
    with job(f"runtime -r {recipe}", json, wait) as (console, project):
        from patchset import runtime, summary

        made = runtime.make_runtime(project, project.recipe(recipe), console, fresh=fresh)
        summary.show_runtime(console, made, WORKSPACE.root)


@task(
    help=help_for(
        "recipe", "json", "wait", checkout="also write the patched tree there: a git repository, one commit a patch"
    )
)
def apply(_: Context, recipe: str = DEFAULT, checkout: str = "", json: bool = False, wait: bool = True) -> None:
    """Apply the series on trees and show what became of each patch."""
    with job(f"apply -r {recipe}", json, wait) as (console, project):
        from patchset import summary, worktree
        from patchset.resolve import resolve
        from patchset.store import Store

        store = Store.open(WORKSPACE.store)
        resolved = resolve(project, project.recipe(recipe), store, console.say)
        what = worktree.write_checkout(store, resolved.applied.commit, Path(checkout)) if checkout else ""
        summary.show_applied(console, resolved, Path(checkout).absolute() if checkout else None, what)


@task(help=help_for("recipe", "json", "wait"))
def lock(_: Context, recipe: str = DEFAULT, json: bool = False, wait: bool = True) -> None:
    """Write the recipe's lock anew, and show what changed."""
    with job(f"lock -r {recipe}", json, wait) as (console, project):
        from patchset import resolve, summary

        file, changed = resolve.relock(project, project.recipe(recipe), console.say)
        summary.show_lock(console, file, changed)


@task(
    help=help_for("recipe", "json", "fresh", "wait", patch="a patch's id (default: every patch)"),
)
def probe(
    _: Context, patch: str = "", recipe: str = DEFAULT, json: bool = False, fresh: bool = False, wait: bool = True
) -> None:
    """Run the probes: red on the base, green on the patched tree."""
    with job(f"probe -r {recipe}", json, wait) as (console, project):
        from patchset import proof, runtime, summary

        proofs, omitted = runtime.prove_recipe(project, project.recipe(recipe), console, only=patch, fresh=fresh)
        summary.show_proofs(console, recipe, proofs, omitted)
        proof.require(proofs, recipe)


@task(
    help=help_for(
        "recipe",
        "json",
        "fresh",
        "wait",
        lane="interpret, spirv, native, device, several with commas, or all",
        require="lanes that must have run (default: those of --lane; of all: the recipe's)",
        wheel="the kernels of this wheel instead of the recipe's",
        prime="lane device: fill Triton's cache in this folder with all that is compiled",
        primed="lane device: use that cache; a first call over 50 ms is red",
        against="lane native: compare with this receipt (default: the recipe's newest under dist/)",
        html="also write the result there: one page that needs nothing else",
        set="sets of kernels, as models with lanes native and device, or mission,models (default: the recipe's)",
        mutants="also plant faults in each kernel; one that no case sees is red",
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
    require: str = "",
    prime: str = "",
    primed: str = "",
    against: str = "",
    html: str = "",
    set: str = "",
    mutants: bool = False,
) -> None:
    """Run the wheel's Triton kernels against independent references."""
    with job(f"smoke -r {recipe}", json, wait) as (console, project):
        from patchset import lanes, page, receipt, runtime, summary

        wanted, asked = project.recipe(recipe), lanes.lanes_of(lane)
        must = lanes.lanes_of(require, "--require") if require else wanted.lanes if lane == "all" else asked
        every = tuple(dict.fromkeys([*asked, *must]))
        wanted = lanes.of_set(wanted, set, every)
        cache, target = lanes.cache_words(prime, primed, every), Path(html).resolve()
        if html:
            page.require_place(target, "Smoke")
        earlier = receipt.earlier(WORKSPACE.dist, wanted.name, against, every)
        smoked = runtime.smoke_recipe(project, wanted, every, wheel, console, fresh=fresh, cache=cache, mutants=mutants)
        compared = earlier.compare({"lanes": smoked.results}) if earlier else None
        if html:
            from patchset import smoke_page

            write_atomically(target, smoke_page.page(wanted.name, smoked, compared).encode("utf-8"))
        summary.show_smoke(console, smoked, compared, one=len(asked) == 1)
        lanes.require_lanes(smoked.results, smoked.not_run, must, smoked.wheel, wanted)


@task(
    help=help_for(
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
    """What becomes of each patch on each release."""
    with job(f"forecast -r {recipe}", json, wait) as (console, project):
        from patchset import forecast, forecast_table, page

        target = Path(html).resolve()
        if html:
            page.require_place(target, "Forecast")
        document = forecast.forecast(project, project.recipe(recipe), console, releases, patch, probes, fresh)
        if html:
            from patchset import forecast_page

            write_atomically(target, forecast_page.page(document).encode("utf-8"))
        forecast_table.show(console, document)


@task(
    help=help_for(
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
    """Carry a recipe to another release; asks only on conflict."""
    with job(f"bump {to}", json, wait) as (console, project):
        from patchset.bump import task

        wish = task.Wish(to, recipe, name, continue_, skip, restart, abort, status)
        if not task.run(project, wish, console):
            raise Exit(code=SeriesError.exit_code)


@task(
    help=help_for(
        "recipe",
        "json",
        "fresh",
        "wait",
        good="an end without the fault: base, a position or patch of the series, a recipe, RECIPE:PATCH, a lock, a receipt, a "
        "release, tree:ID",
        bad="an end with it, named the same way",
        over="patches, releases or both (default: what the ends differ in)",
        test='smoke, "probe ID[:CHECK]", or a shell command: status 0 good, 125 skip, 1 to 127 bad',
        stage="tree, or wheel: built and installed for the test",
        history="a git checkout of vLLM: ends may be commit:REV, and its commits are searched",
        series="the patches that a release or commit gets: ids, or none (default: the recipe's)",
        repeat="runs of the test on each tree",
        timeout="seconds for one run of a command",
        jobs="tests at once: those that may follow are started early",
        minimize="the smallest set of patches that shows the fault",
        drop_one="the bad end without each of its patches",
        at="one run of the test on this, and no search",
        html="also write the answer and its steps there: one page that needs nothing else",
        continue_="go on with the bisection that was interrupted",
        log="the steps so far",
        abort="end it, and remove what it wrote",
    )
)
def bisect(
    _: Context,
    recipe: str = DEFAULT,
    good: str = "",
    bad: str = "",
    over: str = "",
    test: str = "smoke",
    stage: str = "tree",
    history: str = "",
    series: str = "",
    repeat: str = "1",
    timeout: str = "1800",
    jobs: str = "1",
    minimize: bool = False,
    drop_one: bool = False,
    at: str = "",
    html: str = "",
    continue_: bool = False,
    log: bool = False,
    abort: bool = False,
    json: bool = False,
    fresh: bool = False,
    wait: bool = True,
) -> None:
    """Find the patch, the release, or the pair of both that a fault came with."""
    with job("bisect", json, wait) as (console, project):
        from patchset.bisect import answer, task
        from patchset.bisect.record import Question

        runs, side_by_side = whole("--repeat", repeat), whole("--jobs", jobs)
        seconds = number("--timeout", timeout)
        question = Question(
            recipe, good, bad, at, over, test, stage, series, runs, seconds, side_by_side, minimize, drop_one, history
        )
        wish = task.Wish(continue_, log, abort, fresh, Path(html).resolve() if html else None)
        document = task.run(project, question, wish, console)
        if document and not answer.settled(document["answer"]):
            raise Exit(code=BisectError.exit_code)


@task(help=help_for("json", "wait", add="make that release known: its archive is fetched, its hash written down"))
def releases(_: Context, add: str = "", json: bool = False, wait: bool = True) -> None:
    """Which releases are known, and which are new on the index."""
    with job("releases", json, wait) as (console, project):
        from patchset import releases, summary

        if add:
            summary.show_added(console, releases.add(project, add, console.say))
        else:
            summary.show_releases(console, releases.listed(project))


@task(
    help={
        "only": "a pytest -m expression, for example 'not real and not e2e'",
        "match": "a pytest -k expression",
        "verbose": "name each test",
    }
)
def test(_: Context, only: str = "", match: str = "", verbose: bool = False) -> None:
    """Run the tests, with real vLLM releases."""
    with reporting(False) as console:
        from patchset import check

        raise Exit(code=check.run_tests(WORKSPACE, only, match, verbose, console))
