"""The project's own tests, in an environment of their own."""

from __future__ import annotations

import os

from patchset import environment, process
from patchset.console import Console
from patchset.workspace import Workspace


def run_tests(workspace: Workspace, only: str, match: str, verbose: bool, console: Console) -> int:
    """Run pytest over ``tests/`` with its output going straight through, and return its exit status.

    :param only: a ``-m`` expression; *match* a ``-k`` expression; empty ones choose everything.
    """
    python = environment.ensure(
        workspace.environments, "test", workspace.root / "tests" / "requirements.lock", say=console.say
    )
    words = [
        str(python),
        "-B",
        "-s",
        "-m",
        "pytest",
        "--rootdir",
        str(workspace.root),
        "-c",
        str(workspace.root / "pyproject.toml"),
        *(["-m", only] if only else []),
        *(["-k", match] if match else []),
        *(["-v"] if verbose else ["-q"]),
        *_side_by_side(),
        str(workspace.root / "tests"),
    ]
    return process.run_through(words, cwd=workspace.root, env={**os.environ, "PYTHONPATH": str(workspace.root)})


def _side_by_side() -> list[str]:
    """Flags for as many processes as there are cores; tests on one clone's vendor/ stay in one (tests/conftest.py)."""
    cores = min(len(os.sched_getaffinity(0)), 4)
    return ["-n", str(cores)] if cores > 1 else []
