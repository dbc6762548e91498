"""What every task has in common: a console, the clone held for it alone, and errors that become exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from invoke import Exit

from patchset.console import Console
from patchset.errors import DeclarationError, Interrupted, PatchsetError
from patchset.workspace import Workspace

if TYPE_CHECKING:
    from patchset.resolve import Project

#: The clone that this file is in.
WORKSPACE = Workspace(Path(__file__).resolve().parents[1])
#: The recipe of a task that is not told one.
DEFAULT = "b70-0.23"

_HELP = {
    "recipe": f"a name under recipes/, or a path to a .toml file (default {DEFAULT})",
    "json": "print one JSON document on standard output, progress on standard error",
    "fresh": "reuse no earlier result of a probe, build or smoke",
    "wait": "wait for another run in this clone (--no-wait: fail instead)",
}


def help_for(*names: str, **more: str) -> dict[str, str]:
    """The help of flags that many tasks have, by name, and of this task's own."""
    return {**{name: _HELP[name] for name in names}, **more}


@contextmanager
def reporting(as_json: bool) -> Iterator[Console]:
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
            "interrupted; nothing half done was kept",
            next="run it again, with --continue if the task has that: what was finished is reused",
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
def job(name: str, as_json: bool, wait: bool) -> Iterator[tuple[Console, Project]]:
    """A console and what the clone declares, with the clone held for this task alone."""
    with reporting(as_json) as console:
        from patchset.changes import finish_changes
        from patchset.resolve import Project

        with WORKSPACE.only_run(name, wait=wait, say=console.say):
            finish_changes(WORKSPACE.journal)
            yield console, Project.read(WORKSPACE)


_Number = TypeVar("_Number", int, float)


def whole(flag: str, text: str) -> int:
    """The whole number that a person wrote for *flag*; Invoke's own reading of one ends in a traceback.

    :raises DeclarationError: it is none.
    """
    return _read(int, flag, text, "whole number", "1")


def number(flag: str, text: str) -> float:
    """The number that a person wrote for *flag*.

    :raises DeclarationError: it is none.
    """
    return _read(float, flag, text, "number", "600")


def _read(kind: Callable[[str], _Number], flag: str, text: str, name: str, example: str) -> _Number:
    try:
        return kind(text)
    except ValueError as error:
        raise DeclarationError(f"{flag} {text} is no {name}", next=f"{flag} {example}") from error
