"""A vendor/ of their own: what stands here runs beside the tests on this clone's, which runs of the tool sweep.

Archives, environments and the probes' verdicts in it are this clone's: several processes may use those.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patchset.resolve import Project
from patchset.store import Store
from patchset.workspace import Workspace
from tests.conftest import ROOT, bases_in, exports_of


@pytest.fixture(scope="session")
def workspace(room: Path) -> Workspace:
    """This clone, with a store and a cache that no other process knows."""
    own, clone = room / "own", Workspace(ROOT)
    own.mkdir()
    for folder in (clone.archives, clone.environments):
        folder.mkdir(parents=True, exist_ok=True)
        (own / folder.name).symlink_to(folder)
    verdicts = clone.cache / "probes"
    verdicts.mkdir(parents=True, exist_ok=True)
    (own / clone.cache.name).mkdir()
    (own / clone.cache.name / verdicts.name).symlink_to(verdicts)
    return Workspace(ROOT, shared=own)


@pytest.fixture(scope="session")
def project(workspace: Workspace) -> Project:
    """What this clone declares, with that vendor."""
    return Project.read(workspace)


@pytest.fixture(scope="session")
def store(workspace: Workspace) -> Store:
    """The store of that vendor."""
    return Store.open(workspace.store)


@pytest.fixture(scope="session")
def base_of(workspace: Workspace, project: Project, store: Store, room: Path) -> Callable[[str], str]:
    """release → tree id of its base in that store."""
    return bases_in(store, workspace, project, room)


@pytest.fixture(scope="session")
def exported(store: Store, room: Path) -> Callable[[str], Path]:
    """tree id → a read-only directory that holds it."""
    return exports_of(store, room)


@pytest.fixture(scope="session")
def tree_of(base_of: Callable[[str], str], exported: Callable[[str], Path]) -> Callable[[str], Path]:
    """release → a read-only directory with its base tree."""
    return lambda release: exported(base_of(release))
