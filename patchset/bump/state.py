"""What a bump must remember between two commands: one JSON file, written whole or not at all, and read strictly.

``work/state/bump.json``::

    { "format": 1,
      "recipe": "b70-0.23", "to": "0.28.0", "name": "b70-0.28",
      "resolved": {PATCH: TREE},         what a person made of the conflict of a patch
      "clashes":  {PATCH: CLASH},        the conflict that they were asked about; the same patches
      "skipped":  {PATCH: REASON},
      "waiting":  null or {
          "patch", "source": RELEASE that it is taken from, "ours": TREE before it, "attempt": TREE with conflict markers,
          "written": TREE that the checkout held when it was made, "clash": CLASH, "paths": [files to resolve] } }

A TREE is 40 hexadecimal digits, a CLASH the 64 of a hash over all its sides. Everything else is computed anew by every command, and comes out the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from patchset.errors import DeclarationError
from patchset.upstream import sha256, version
from patchset.workspace import UNREADABLE, Workspace, write_atomically

FORMAT = 2

#: Bytes of a state: that of a hundred conflicts has 30,000.
_LIMIT = 1024 * 1024

_KEYS = {"format", "recipe", "to", "name", "resolved", "clashes", "skipped", "waiting"}
_WAITING = {"patch", "source", "ours", "attempt", "written", "clash", "paths"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_TREE = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Waiting:
    """The patch that waits for a person. Trees: the target with the series so far, and the attempt with its markers.

    ``paths`` are the files to resolve; ``written`` is the tree that the checkout held when it was made; ``clash`` is the
    key of the conflict that it shows.
    """

    patch: str
    source: str
    ours: str
    attempt: str
    written: str
    clash: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class State:
    """A bump under way: see the head of this module."""

    recipe: str
    to: str
    name: str
    resolved: Mapping[str, str] = field(default_factory=dict)
    clashes: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    waiting: Waiting | None = None

    def with_resolved(self, patch: str, clash: str, tree: str) -> State:
        """The same with *patch*, which waited, resolved: *tree* is what was made of the conflict *clash*."""
        return replace(
            self,
            resolved={**self.resolved, patch: tree},
            clashes={**self.clashes, patch: clash},
            waiting=None,
        )


def is_name(text: str) -> bool:
    """Can *text* be the name of a recipe, and so of files and folders?"""
    return bool(_NAME.fullmatch(text)) and not text.endswith((".toml", ".lock"))


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
        with open(file, "rb") as stream:
            data = stream.read(_LIMIT + 1)
        if len(data) > _LIMIT:
            raise ValueError(f"more than {_LIMIT} bytes")
        return _parse(json.loads(data))
    except (FileNotFoundError, NotADirectoryError):
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
    _only(document, _KEYS, "the state")
    if document["format"] != FORMAT:
        raise ValueError(f"format {document['format']!r}, not {FORMAT}")
    resolved = {_name(a): _tree(b) for a, b in document["resolved"].items()}
    clashes = {_name(a): sha256(_text(b)) for a, b in document["clashes"].items()}
    if resolved.keys() != clashes.keys():
        raise ValueError("resolved and clashes name different patches")
    skipped = {_name(a): _text(b) for a, b in document["skipped"].items()}
    recipe, name, release = _name(document["recipe"]), _name(document["name"]), version(_text(document["to"]))
    waiting = None if document["waiting"] is None else _parse_waiting(document["waiting"])
    return State(recipe, release, name, resolved, clashes, skipped, waiting)


def _parse_waiting(document: Any) -> Waiting:
    _only(document, _WAITING, "waiting")
    trees = (_tree(document[key]) for key in ("ours", "attempt", "written"))
    if not isinstance(document["paths"], list):
        raise TypeError("paths is no list")
    paths = tuple(_path(path) for path in document["paths"])
    clash = sha256(_text(document["clash"]))
    return Waiting(_name(document["patch"]), version(_text(document["source"])), *trees, clash, paths)


def _only(document: Any, keys: set[str], what: str) -> None:
    if not isinstance(document, dict) or document.keys() != keys:
        raise ValueError(f"{what} does not hold just {', '.join(sorted(keys))}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _name(value: Any) -> str:
    if not is_name(_text(value)):
        raise ValueError(f"{value!r} is no name")
    return value


def _tree(value: Any) -> str:
    if not _TREE.fullmatch(_text(value)):
        raise ValueError(f"{value!r} is no tree id")
    return value


def _path(value: Any) -> str:
    parts = PurePosixPath(_text(value)).parts
    if not parts or value.startswith("/") or ".." in parts or ".git" in [part.lower() for part in parts]:
        raise ValueError(f"{value!r} leaves the tree")
    return value
