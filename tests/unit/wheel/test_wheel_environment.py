"""When a build environment is trusted. Making one is in tests/real: it takes ten seconds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from patchset.environment import is_complete, lock_hash, locked_pins
from patchset.wheel import BUILD_REQUIREMENTS as LOCK


@pytest.fixture
def env(tmp_path: Path) -> Path:
    folder = tmp_path / "env"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    write_marker(folder)
    return folder


def write_marker(folder: Path, **other: str) -> None:
    marker = {
        "environment": str(folder),
        "lock": lock_hash(LOCK),
        "rule": "",
        "base": sys.base_prefix,
        "python": sys.version,
        **other,
    }
    (folder / "complete.json").write_text(json.dumps(marker))


def test_complete(env: Path) -> None:
    assert is_complete(env, LOCK)


def test_without_its_marker(env: Path) -> None:
    (env / "complete.json").unlink()
    assert not is_complete(env, LOCK)


def test_with_half_a_marker(env: Path) -> None:
    text = (env / "complete.json").read_text()
    (env / "complete.json").write_text(text[: len(text) // 2])
    assert not is_complete(env, LOCK)


@pytest.mark.parametrize("key", ["lock", "base", "python"])
def test_of_another_lock_or_python(env: Path, key: str) -> None:
    write_marker(env, **{key: "another"})
    assert not is_complete(env, LOCK)


def test_moved(env: Path) -> None:
    assert not is_complete(env.rename(env.with_name("moved")), LOCK), "its scripts point to where it was"


def test_whose_python_is_gone(env: Path) -> None:
    (env / "bin" / "python").unlink()
    (env / "bin" / "python").symlink_to(env / "gone")
    assert not is_complete(env, LOCK)


def test_another_lock_is_another_hash(tmp_path: Path) -> None:
    other = tmp_path / "other.lock"
    other.write_text(LOCK.read_text() + "# one more line\n")
    assert lock_hash(other) != lock_hash(LOCK) and locked_pins(other) == locked_pins(LOCK)
