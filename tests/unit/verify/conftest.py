"""The small wheel of these tests, installed, and a folder to start Python in."""

from __future__ import annotations

from pathlib import Path

import made_verify as mv
import pytest


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to start Python in; this machine's PYTHONPATH has no say."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "start").mkdir()
    return tmp_path / "start"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return mv.install(mv.make(), tmp_path / "env")
