"""Bases come from the store, else from the archive by its hash; donor files are what their sha256 says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchset.errors import DeclarationError, SourceError
from patchset.resolve import Project
from patchset.store import Store
from patchset.workspace import Workspace

RELEASE = "0.22.1"


def test_base_is_brought_once_and_then_here(
    project: Project, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path / "store.git")
    bases = project.bases(store)
    assert bases.here() == {}
    tree = bases.tree(RELEASE)
    assert tree == "d5810ec63335d4c30c6ecc790261e95fba41e553"
    again = project.bases(Store.open(tmp_path / "store.git"))
    monkeypatch.setattr("patchset.sources.resolve", lambda *words, **more: pytest.fail("it is here"))
    assert (again.here(), again.tree(RELEASE)) == ({RELEASE: tree}, tree)
    assert again.commit(RELEASE) == bases.commit(RELEASE)


def test_release_that_nobody_knows_is_refused(project: Project, store: Store) -> None:
    with pytest.raises(DeclarationError, match=r"99\.0 of vllm is not known"):
        project.bases(store).tree("99.0")


def test_donor_is_checked(project: Project, store: Store) -> None:
    (donor,) = project.patches["gemma4-unified"].variant_for("0.22.1").donors
    bases = project.bases(store)
    assert b"class Gemma4UnifiedForConditionalGeneration" in bases.donor_file(donor)
    for wrong, what in ((replace(donor, sha256="ab" * 32), "has sha256"), (replace(donor, path="x"), "is not there")):
        with pytest.raises(SourceError, match=what):
            bases.donor_file(wrong)
