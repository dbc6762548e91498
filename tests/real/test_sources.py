"""The real archive of 0.23.0 against a git checkout of the same content, and against the unpacked tree."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patchset.sources import Pin, base_from_archive, base_from_checkout, resolve
from patchset.store import Store

ROOT = Path(__file__).parents[2]
RELEASE = "0.23.0"
SHA256 = "760269db3d9611e12e524681df1bca0977d5d2f5fcb4481cc34d33efc4ae7ff5"

#: What the archive holds and git does not, written down apart from the code that drops it.
GENERATED = ("PKG-INFO", "setup.cfg", "vllm.egg-info", "vllm/_version.py")


def git(*words: str, cwd: Path) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    return subprocess.run(
        ["git", *words], cwd=cwd, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def upstream(tmp_path: Path, tree_of: Callable[[str], Path]) -> Path:
    """A bare repository whose tag holds the release as a person would have committed it, by git alone."""
    work = tmp_path / "work"
    shutil.copytree(tree_of(RELEASE), work, symlinks=True)
    subprocess.run(["chmod", "-R", "u+w", str(work)], check=True)
    for name in GENERATED:
        doomed = work / name
        if doomed.is_dir():
            shutil.rmtree(doomed)
        else:
            doomed.unlink(missing_ok=True)
    git("init", "-q", cwd=work)
    git("add", "-A", "-f", cwd=work)
    git("commit", "-q", "-m", "release", cwd=work)
    git("tag", f"v{RELEASE}", cwd=work)
    git("clone", "-q", "--bare", str(work), str(tmp_path / "up.git"), cwd=tmp_path)
    return tmp_path / "up.git"


def test_archive_and_checkout_give_one_tree(tmp_path: Path, upstream: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    rooms = {"cache": ROOT / "vendor" / "archives", "scratch": scratch}
    by_archive = Store.open(tmp_path / "one")
    by_checkout = Store.open(tmp_path / "two")

    archive = base_from_archive(by_archive, Pin("vllm", RELEASE, sha256=SHA256), **rooms)
    checkout = base_from_checkout(by_checkout, str(upstream), f"v{RELEASE}")

    assert archive.tree == checkout.tree == git("rev-parse", f"v{RELEASE}^{{tree}}", cwd=upstream)
    assert archive.archive is not None and archive.archive.sha256 == SHA256
    assert checkout.commit == git("rev-parse", f"v{RELEASE}", cwd=upstream)
    assert os.listdir(scratch) == []
    # Both stand on their own when every source is gone.
    shutil.rmtree(upstream)
    for store, base in ((by_archive, archive), (by_checkout, checkout)):
        assert store.has_tree(base.tree) and len(store.entries(base.tree)) > 5000
        pin = Pin(
            "vllm",
            RELEASE,
            base.source,
            sha256=SHA256,
            url="http://127.0.0.1:9/x",
            commit=checkout.commit,
            tree=base.tree,
        )
        assert resolve(pin, store, cache=tmp_path / "none", scratch=scratch).tree == base.tree
