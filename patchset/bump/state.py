"""What a bump must remember between two commands: one JSON file, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from patchset.errors import DeclarationError
from patchset.workspace import UNREADABLE, Workspace, write_atomically

FORMAT = 1


@dataclass(frozen=True)
class Waiting:
    """The patch that waits for a person. Trees: the target with the series so far, and the attempt with its markers.

    ``paths`` are the files to resolve; ``written`` is the tree that the checkout held when it was made.
    """

    patch: str
    source: str
    ours: str
    attempt: str
    written: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class State:
    """A bump under way.

    ``resolved`` maps a patch to the tree that a person made of its conflict, ``trees_before`` to the tree they made it
    on; ``skipped`` maps one to the reason. Everything else is computed anew, and comes out the same.
    """

    recipe: str
    to: str
    name: str
    resolved: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    waiting: Waiting | None = None

    def with_resolved(self, patch: str, before: str, tree: str) -> State:
        """The same with *patch*, which waited, resolved."""
        return replace(
            self,
            resolved={**self.resolved, patch: tree},
            before={**self.before, patch: before},
            waiting=None,
        )


def state_file(workspace: Workspace) -> Path:
    """Where the state lies: one bump a clone."""
    return workspace.state / "bump.json"


def worktree(workspace: Workspace, state: State) -> Path:
    """Where the checkout with the conflict lies."""
    return workspace.work / f"bump-{state.name}"


def read_state(workspace: Workspace) -> State | None:
    """The bump under way, or None.

    :raises DeclarationError: the file is damaged.
    """
    file = state_file(workspace)
    try:
        return _parse(json.loads(file.read_bytes()))
    except FileNotFoundError:
        return None
    except UNREADABLE as error:
        raise DeclarationError(
            f"the state of a bump cannot be read: {type(error).__name__}: {error}",
            where=str(file),
            next=f"rm {file}: the recipes are as they were before the bump; then ./inv bump --to RELEASE again",
        ) from error


def write_state(workspace: Workspace, state: State) -> None:
    """Remember *state*."""
    document = {"format": FORMAT, **asdict(state)}
    write_atomically(state_file(workspace), json.dumps(document, indent=1).encode() + b"\n")


def forget(workspace: Workspace) -> None:
    """There is no bump under way any more."""
    state_file(workspace).unlink(missing_ok=True)


def _parse(document: Any) -> State:
    if document["format"] != FORMAT:
        raise ValueError(f"format {document['format']!r}, not {FORMAT}")
    names = [_text(document[key]) for key in ("recipe", "to", "name")]
    if "/" in names[2] or names[2].startswith("."):
        raise ValueError("name is no file name")
    maps = [{_text(a): _text(b) for a, b in document[key].items()} for key in ("resolved", "before", "skipped")]
    waiting = document["waiting"]
    if waiting is not None:
        waiting = Waiting(
            *(_text(waiting[key]) for key in ("patch", "source", "ours", "attempt", "written")),
            tuple(_text(path) for path in waiting["paths"]),
        )
    return State(*names, *maps, waiting)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
