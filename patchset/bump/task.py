"""Which step of a bump a command line asks for."""

from __future__ import annotations

from dataclasses import dataclass

from patchset.bump import flow, show
from patchset.bump.state import worktree
from patchset.console import Console
from patchset.errors import DeclarationError
from patchset.resolve import Project


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
    asked = [name for name, on in vars(wish).items() if on and name not in ("recipe", "name")]
    if len(asked) != 1 or (wish.name and not wish.to):
        raise DeclarationError(
            "name one of --to RELEASE, --continue, --skip REASON, --restart, --abort and --status"
            + ("; --name goes with --to" if wish.name and not wish.to else ""),
            next="./inv bump --status, or ./inv --help bump",
        )
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
