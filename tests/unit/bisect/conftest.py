"""A clone of its own for what is bisected."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_vendor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's own store is used."""
    monkeypatch.delenv("PATCHSET_VENDOR", raising=False)
