"""Running the tasks as a person types them: `./inv …` in a clone, nothing imported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from patchset.workspace import VENDOR_VARIABLE, Workspace

ROOT = Path(__file__).resolve().parents[2]

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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


def _missing(reason: str) -> None:
    """A browser test that cannot run is skipped with its reason; on a build machine that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One headless Chromium for all tests of a process: Playwright starts only once in it."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("not run: no playwright here; type: pip install playwright")
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if not program:
        _missing("not run: no Chromium on this machine; type: sudo apt install chromium")
    with sync_playwright() as playwright:
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=program, headless=True, args=root)
        yield started
        started.close()
