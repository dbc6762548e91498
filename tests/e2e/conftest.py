"""Running the tasks as a person types them: `./inv …` in a clone, nothing imported."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from patchset.workspace import VENDOR_VARIABLE, Workspace

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Typed:
    """What a command gave: status, standard output and standard error."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON document that --json promises."""
        return json.loads(self.out)


def type_in(root: Path, *words: str, env: Mapping[str, str] | None = None, umask: int = 0o022) -> Typed:
    """`./inv *words*` in *root*."""
    ended = subprocess.run(
        [str(root / "inv"), *words],
        cwd=root,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        umask=umask,
        timeout=1200,
        check=False,
    )
    return Typed(ended.returncode, ended.stdout, ended.stderr)


Inv = Callable[..., Typed]


@pytest.fixture
def inv(clone: Path, workspace: Workspace) -> Inv:
    """`./inv` in a copy of this clone that the test may change; store and environments are this clone's."""

    def run(*words: str, env: Mapping[str, str] | None = None, umask: int = 0o022) -> Typed:
        return type_in(clone, *words, env={VENDOR_VARIABLE: str(workspace.vendor), **(env or {})}, umask=umask)

    return run


@pytest.fixture(scope="session")
def runtime_of() -> Callable[[str], Typed]:
    """recipe → what `./inv runtime -r recipe --json` gave in this very clone, run once."""
    made: dict[str, Typed] = {}

    def run(recipe: str) -> Typed:
        if recipe not in made:
            made[recipe] = type_in(ROOT, "runtime", "-r", recipe, "--json")
        assert made[recipe].status == 0, made[recipe].err + made[recipe].out
        return made[recipe]

    return run
