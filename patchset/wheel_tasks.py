"""The tasks about wheels, thin as those in tasks.py: one made, proved, and compared with the kernels that it calls."""

from __future__ import annotations

from invoke import Context, Exit, task

from patchset.cli import DEFAULT, WORKSPACE, help_for, job, reporting


@task(
    help=help_for(
        "recipe",
        "json",
        "fresh",
        "wait",
        check="make it again in other surroundings, and compare",
        against="compare it with this wheel, made elsewhere",
        whole="let upstream's own build make it, even if it could be assembled",
    )
)
def wheel(
    _: Context,
    recipe: str = DEFAULT,
    check: bool = False,
    against: str = "",
    whole: bool = False,
    json: bool = False,
    fresh: bool = False,
    wait: bool = True,
) -> None:
    """The wheel alone, without smoke and receipt."""
    with job(f"wheel -r {recipe}", json, wait) as (console, project):
        from patchset import runtime, wheel_show

        wanted = project.recipe(recipe)
        made = runtime.only_wheel(project, wanted, console, fresh=fresh, whole=whole, check=check, against=against)
        wheel_show.show(console, made, WORKSPACE.root)
        wheel_show.require_same(made)


@task(
    help=help_for(
        "recipe",
        "json",
        "fresh",
        "wait",
        version="these kernels instead of the recipe's",
        wheel="the kernels wheel in this file instead",
        torch="where the serving host's torch is (its package folder), instead of the laboratory's",
        add="first make --version known: its hash goes into vendor/upstreams.toml",
    )
)
def kernels(
    _: Context,
    recipe: str = DEFAULT,
    version: str = "",
    wheel: str = "",
    torch: str = "",
    add: bool = False,
    json: bool = False,
    fresh: bool = False,
    wait: bool = True,
) -> None:
    """Read the kernels wheel without loading it: does it go with the patched tree?"""
    with job(f"kernels -r {recipe}", json, wait) as (console, project):
        from patchset.kernels import task as kernels_task

        kernels_task.kernels(
            project,
            project.recipe(recipe),
            console,
            version=version,
            wheel=wheel,
            torch=torch,
            add=add,
            fresh=fresh,
        )


@task(
    help=help_for(
        "json",
        target="a wheel, a receipt, site-packages, a virtual environment, or its vllm folder",
        against="a receipt that wheel or installation must agree with",
        start="where the server is started (default: here): would Python find another vllm first?",
    )
)
def verify(_: Context, target: str, against: str = "", start: str = "", json: bool = False) -> None:
    """Is a wheel, receipt or installed vLLM what it says it is?"""
    with reporting(json) as console:
        from patchset import verify, wheel_show

        try:
            report = verify.verify(target, receipt=against or None, start=start or None)
        except verify.Unusable as error:
            wheel_show.show_unusable(console, error)
            raise Exit(code=verify.USAGE) from error
        wheel_show.show_report(console, report)
        if report.exit_code:
            raise Exit(code=report.exit_code)
