"""Which step of a bump a command line asks for."""

from __future__ import annotations

from dataclasses import dataclass

from patchset.bump import flow, show
from patchset.bump.state import worktree
from patchset.console import Console
from patchset.errors import DeclarationError
from patchset.resolve import Project

#: Field of :class:`Wish` → the flag that sets it, of those that each ask for a step.
_STEPS = {
    "to": "--to",
    "go_on": "--continue",
    "skip": "--skip",
    "restart": "--restart",
    "abort": "--abort",
    "status": "--status",
}
_STATUS = "./inv bump --status says what is under way; ./inv --help bump"


@dataclass(frozen=True)
class Wish:
    """The flags of ``inv bump``; just one of ``to`` and those behind ``name`` may be set."""

    to: str
    recipe: str
    name: str
    go_on: bool
    skip: str
    restart: bool
    abort: bool
    status: bool


def run(project: Project, wish: Wish, console: Console) -> bool:
    """Do what *wish* says and show it; False if the bump waits for a person afterwards.

    :raises DeclarationError: not just one thing is asked for.
    """
    _require_one(wish)
    root = project.workspace.root
    if wish.status:
        state = flow.status(project)
        show.show_status(console, state, worktree(project.workspace, state) if state else None)
        return True
    if wish.abort:
        show.show_aborted(console, flow.abort(project, console))
        return True
    if wish.to:
        result = flow.start(project, project.recipe(wish.recipe), wish.to, wish.name, console)
    elif wish.go_on:
        result = flow.go_on(project, console)
    elif wish.skip:
        result = flow.skip(project, wish.skip, console)
    else:
        result = flow.restart(project, console)
    show.show(console, result, root)
    return isinstance(result, flow.Bumped)


def _require_one(wish: Wish) -> None:
    """Just one step is asked for, with what it needs.

    :raises DeclarationError: none is, or more, or one without what it needs.
    """
    asked = [flag for name, flag in _STEPS.items() if getattr(wish, name)]
    if len(asked) > 1:
        together = f"{', '.join(asked[:-1])} and {asked[-1]}"
        raise DeclarationError(
            f"{together} were asked for at once, and each is a step of its own",
            next=f"name one of them: {_STATUS}",
        )
    if wish.name and not wish.to:
        raise DeclarationError(
            "--name goes with --to: it names the recipe that a new bump makes",
            next=f"./inv bump --to RELEASE --name {wish.name}; {_STATUS}",
        )
    if not asked:
        raise DeclarationError(
            f"nothing was asked for: name one of {', '.join(_STEPS.values())} (--to wants a release, --skip a reason, and "
            "neither may be empty)",
            next=f"./inv bump --to RELEASE, or {_STATUS}",
        )
    if wish.skip and not wish.skip.strip():
        raise DeclarationError(
            "--skip wants a reason, which the new recipe will hold", next='./inv bump --skip "REASON"'
        )
