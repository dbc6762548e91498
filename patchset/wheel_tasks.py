"""The tasks about wheels, thin as those in tasks.py: one made, proved, and compared with the kernels that it calls."""

from __future__ import annotations

from invoke import Context, task

from patchset.cli import DEFAULT, WORKSPACE, help_for, job


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
