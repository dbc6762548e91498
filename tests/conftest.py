"""Fixtures for tests on real releases: trees, patched trees, and the laboratory, all of this clone's own vendor/."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patchset import lab, resolve, sources
from patchset.resolve import Project
from patchset.store import Store
from patchset.workspace import Workspace

ROOT = Path(__file__).resolve().parents[1]

#: A test's folder says what it needs; so nobody forgets the marker.
FOLDER_MARKERS = {"real": pytest.mark.real, "e2e": pytest.mark.e2e}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        parts = item.path.relative_to(ROOT / "tests").parts
        if parts[0] in FOLDER_MARKERS:
            item.add_marker(FOLDER_MARKERS[parts[0]])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Tests that share this clone's vendor/ run in one process, in order; beside it the others, by file."""
    from xdist.scheduler import LoadScopeScheduling

    class ByClone(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = Path(nodeid.partition("::")[0])
            return "clone" if file.parts[1] in FOLDER_MARKERS and file.parts[2] != "apart" else str(file)

    return ByClone(config, log)


@pytest.fixture(scope="session")
def workspace() -> Workspace:
    """This clone."""
    return Workspace(ROOT)


@pytest.fixture(scope="session")
def project(workspace: Workspace) -> Project:
    """What this clone declares."""
    return Project.read(workspace)


@pytest.fixture(scope="session")
def store(workspace: Workspace) -> Store:
    """This clone's object store."""
    return Store.open(workspace.store)


@pytest.fixture(scope="session")
def room() -> Iterator[Path]:
    """A folder for whole trees, in memory where there is some: on disk they take half a minute to delete."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="patchset-tests-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)
        for path in Path(folder).rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(path.stat().st_mode | stat.S_IWUSR)


@pytest.fixture(scope="session")
def base_of(workspace: Workspace, project: Project, store: Store, room: Path) -> Callable[[str], str]:
    """release → tree id of its base in the store, taken from the release's archive."""
    return bases_in(store, workspace, project, room)


def bases_in(store: Store, workspace: Workspace, project: Project, room: Path) -> Callable[[str], str]:
    """What :func:`base_of` gives, for any store."""
    known: dict[str, str] = {}

    def base(release: str) -> str:
        if release not in known:
            scratch = room / "scratch"
            scratch.mkdir(exist_ok=True)
            upstream = project.upstreams["vllm"]
            pin = sources.Pin("vllm", release, "archive", sha256=upstream.release(release).sha256)
            known[release] = sources.resolve(pin, store, cache=workspace.archives, scratch=scratch).tree
        return known[release]

    return base


@pytest.fixture(scope="session")
def exported(store: Store, room: Path) -> Callable[[str], Path]:
    """tree id → a read-only directory that holds it."""
    return exports_of(store, room)


def exports_of(store: Store, room: Path) -> Callable[[str], Path]:
    """What :func:`exported` gives, for any store."""

    def directory(tree: str) -> Path:
        path = room / f"tree-{tree}"
        if not path.exists():
            store.export(tree, path)
            for folder, _, names in os.walk(path):
                for name in [*names, "."]:
                    file = Path(folder, name)
                    if not file.is_symlink():
                        file.chmod(file.stat().st_mode & ~0o222)
        return path

    return directory


@pytest.fixture(scope="session")
def tree_of(base_of: Callable[[str], str], exported: Callable[[str], Path]) -> Callable[[str], Path]:
    """release → a read-only directory with its base tree."""
    return lambda release: exported(base_of(release))


@pytest.fixture(scope="session")
def patched_tree_of(project: Project, store: Store, exported: Callable[[str], Path]) -> Callable[[str], Path]:
    """recipe name → a read-only directory with its patched tree."""

    def directory(name: str) -> Path:
        resolved = resolve.resolve(project, project.recipe(name), store, lambda text: None)
        return exported(resolved.applied.tree)

    return directory


@pytest.fixture(scope="session")
def lab_python(workspace: Workspace) -> Path:
    """An interpreter with torch, triton, numpy and what the probes import."""
    return lab.ensure(workspace.environments).python


@pytest.fixture
def clone(tmp_path: Path, workspace: Workspace) -> Path:
    """A copy of this clone that a test may change; downloads, store and environments are shared with it.

    Its recipes ask for lane interpret only: the other lanes say the same of each of the wheels that are made there.
    Run ``./inv`` there with :func:`clone_environment`.
    """
    copy = tmp_path / "clone"
    copy.mkdir()
    for name in ("inv", "tasks.py", "pyproject.toml", "patchset", "recipes", "tests", "README.md"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, copy / name)
    for recipe in (copy / "recipes").glob("*.toml"):
        recipe.write_text(re.sub(r"(?m)^lanes = .*", 'lanes = ["interpret"]', recipe.read_text("utf-8")), "utf-8")
    (copy / "vendor").mkdir()
    shutil.copy2(ROOT / "vendor" / "upstreams.toml", copy / "vendor")
    if (ROOT / ".venv").is_dir():
        (copy / ".venv").symlink_to(ROOT / ".venv")
    return copy
