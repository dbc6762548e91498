"""The laboratory's identity, under which verdicts are kept: told without making it, and the one that it then has."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from patchset import environment, lab
from patchset.errors import MissingTool


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No interpreter is named, and pip has nothing to install: what is made all the same fails."""
    monkeypatch.delenv(lab.OVERRIDE, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")


def test_identity_is_the_one_of_the_laboratory_that_is_there(tmp_path: Path) -> None:
    rule = f"torch {lab.TORCH}"
    env = tmp_path / lab.identity().split(" ")[-1]  # where environment.ensure looks for it
    (env / "bin").mkdir(parents=True)
    (env / "bin" / "python").symlink_to(sys.executable)
    # the marker of one that was made to its end, so that this one is taken
    marker = {"environment": str(env), "lock": environment.lock_hash(lab.LOCK), "rule": rule}
    own = {**marker, "base": sys.base_prefix, "python": sys.version}
    (env / "complete.json").write_text(json.dumps(own))
    found = lab.ensure(tmp_path)
    assert found == lab.Lab(env / "bin" / "python", lab.identity(), ours=True)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [env.name]


def test_identity_names_lock_torch_and_python() -> None:
    lock, digest, torch, version, name = lab.identity().split(" ")
    assert (lock, digest, torch, version) == ("lock", environment.lock_hash(lab.LOCK), "torch", lab.TORCH)
    assert name.endswith(f"-py{sys.version_info.major}.{sys.version_info.minor}")


def test_identity_of_a_given_interpreter_is_what_it_says_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 3.12 2.13 3.7 2.4\n")
    python.chmod(0o755)
    monkeypatch.setenv(lab.OVERRIDE, str(python))
    assert lab.identity() == lab.ensure(tmp_path / "environments").identity == "3.12 2.13 3.7 2.4"
    assert not (tmp_path / "environments").exists()
    python.write_text("#!/bin/sh\necho no torch >&2\nexit 1\n")
    with pytest.raises(MissingTool, match="has not all of torch, triton and numpy"):
        lab.identity()
