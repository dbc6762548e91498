"""vLLM 0.23.0 under hostile git configurations: the same bytes from the archive to the lock, whatever git is told.

Each run has a clone and a store of its own, made under that configuration from the release's archive.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_git import EVERYTHING, NONE, ROOT, Wish, run_under

from patchset.workspace import Workspace

WISH = Wish(
    "b70-0.23",
    "mamba-uint64-pointers",
    "vllm/v1/worker/mamba_utils.py",
    "import torch",
    "cached-tokens-zero",
    "vllm/entrypoints/openai/completion/serving.py",
    3,
)


@pytest.fixture
def run(
    room: Path, tmp_path: Path, workspace: Workspace, base_of: Callable[[str], str]
) -> Iterator[Callable[[str], dict[str, Any]]]:
    """The name of a configuration → what everything came to under it."""
    base_of("0.23.0")  # so that its archive is here

    def under(name: str) -> dict[str, Any]:
        clone = room / tmp_path.name / name / "clone"
        (clone / "vendor").mkdir(parents=True)
        shutil.copytree(ROOT / "recipes", clone / "recipes", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(workspace.upstreams, clone / "vendor")
        (clone / "vendor" / "archives").symlink_to(workspace.archives)
        return run_under(name, tmp_path / name, clone, WISH)

    yield under
    shutil.rmtree(room / tmp_path.name, ignore_errors=True)


def test_same_bytes_with_every_setting_at_once_and_with_hostile_variables(run: Callable[[str], dict[str, Any]]) -> None:
    plain = run(NONE)
    for name in (EVERYTHING, "environment"):
        came = run(name)
        assert {key: (value, came[key]) for key, value in plain.items() if came[key] != value} == {}
