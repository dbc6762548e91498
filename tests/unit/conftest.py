"""Real git repositories in a test's own folder, and trees made of plain dictionaries."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path

import pytest
from made_trees import Files, tree_in

from patchset.store import Store
from patchset.upstream import Release, Upstream


@pytest.fixture(autouse=True)
def own_vendor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's own store is used."""
    monkeypatch.delenv("PATCHSET_VENDOR", raising=False)


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store of the unit tests' own; objects of one test cannot disturb another, since they are named by content."""
    return Store.open(tmp_path_factory.mktemp("bench") / "store.git")


@pytest.fixture(scope="session")
def make_tree(bench: Store) -> Callable[[Files], str]:
    """Files → the id of a tree in :func:`bench` that holds them."""
    return lambda files: tree_in(bench, files)


@pytest.fixture(scope="session")
def files_of(bench: Store) -> Callable[[str], dict[str, tuple[str, bytes]]]:
    """Tree id → what is in it: path → (mode, bytes)."""
    return lambda tree: {path: (entry.mode, bench.blob(entry.blob)) for path, entry in bench.entries(tree).items()}


@pytest.fixture(scope="session")
def git_diff(bench: Store) -> Callable[..., bytes]:
    """(old tree, new tree, more options) → the diff that git itself makes of them."""

    def diff(old: str, new: str, *options: str) -> bytes:
        return bench.run(
            "diff-tree", "-r", "-p", "--full-index", "--src-prefix=a/", "--dst-prefix=b/", *options, old, new
        )

    return diff


@pytest.fixture(scope="session")
def diff(bench: Store, make_tree: Callable[[Files], str]) -> Callable[..., bytes]:
    """(old, new, path) → the diff from one content of a file, by itself a.py, to another."""
    return lambda old, new, path="a.py": bench.diff(make_tree({path: old}), make_tree({path: new}))


@pytest.fixture
def plain_git() -> Callable[..., str]:
    """git as a person runs it, in a directory, with none of this machine's configuration: words → what it prints."""

    def git(directory: Path, *words: str) -> str:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": "somebody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        return subprocess.run(
            ["git", *words], cwd=directory, env=env, check=True, capture_output=True, text=True
        ).stdout.strip()

    return git


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    """Set the umask for one test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


PATCH_TOML = """\
title = "T"
kind = "fix"
date = 2026-11-30T00:00:00Z
why = "w"
drop-when = "d"
"""


@pytest.fixture
def upstream() -> Upstream:
    """An upstream of five releases."""
    versions = ("1.0", "1.1", "1.2", "1.9", "1.10")
    date = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return Upstream(
        "u", "u", "https://host.invalid/u.git", "v{release}", {v: Release(v, date, "ab" * 32, 1) for v in versions}
    )


@pytest.fixture
def patch_folder(tmp_path: Path) -> Callable[..., Path]:
    """Write a patch folder: variants (TOML text behind the head), more files by name, and its id."""

    def write(variants: str, files: Mapping[str, bytes] | None = None, id: str = "p", head: str = PATCH_TOML) -> Path:
        folder = tmp_path / "patches" / id
        folder.mkdir(parents=True)
        (folder / "patch.toml").write_text(head + variants, encoding="utf-8")
        for name, data in {"probe.py": b"", **(files or {})}.items():
            (folder / name).write_bytes(data)
        return folder

    return write
