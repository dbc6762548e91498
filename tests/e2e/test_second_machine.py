"""Another folder, zone, umask, locale and a hostile git configuration: the same trees, commits and lock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchset.workspace import VENDOR_VARIABLE, Workspace
from tests.e2e.conftest import ROOT, type_in

HOSTILE = """\
[core]
    autocrlf = true
    eol = crlf
    hooksPath = {home}/hooks
    attributesFile = {home}/attributes
    excludesFile = {home}/ignore
    quotePath = false
    fsmonitor = {home}/hooks/fail
[apply]
    whitespace = fix
    ignoreWhitespace = change
[diff]
    noprefix = true
    mnemonicPrefix = true
    algorithm = histogram
    external = false
    renames = copies
[color]
    ui = always
[commit]
    gpgSign = true
[user]
    name = Somebody Else
    email = somebody@example.org
[i18n]
    commitEncoding = ISO-8859-1
[merge]
    conflictStyle = diff3
    renames = false
[init]
    templateDir = {home}/template
[safe]
    bareRepository = explicit
[url "file:///nowhere/"]
    insteadOf = https://
"""


@pytest.fixture
def hostile(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "a home"
    (home / "hooks").mkdir(parents=True)
    (home / "template" / "hooks").mkdir(parents=True)
    for name in ("fail", "pre-commit", "post-checkout", "reference-transaction", "post-index-change"):
        for folder in (home / "hooks", home / "template" / "hooks"):
            (folder / name).write_text("#!/bin/sh\nexit 1\n")
            (folder / name).chmod(0o755)
    (home / "attributes").write_text("* text eol=crlf ident\n")
    (home / "ignore").write_text("*\n")
    (home / ".gitconfig").write_text(HOSTILE.format(home=home))
    return {
        "HOME": str(home),
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "tr_TR.UTF-8",
        "LANG": "tr_TR.UTF-8",
        "GIT_DIR": "/nowhere/.git",
        "GIT_INDEX_FILE": "/nowhere/index",
        "GIT_AUTHOR_DATE": "2001-01-01T00:00:00",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.autocrlf",
        "GIT_CONFIG_VALUE_0": "true",
        "PYTHONHASHSEED": "7",
        "SOURCE_DATE_EPOCH": "1",
    }


@pytest.mark.parametrize("recipe", ["b70-0.23"])
def test_another_machine_gets_the_same_lock(
    recipe: str, clone: Path, tmp_path: Path, workspace: Workspace, hostile: dict[str, str]
) -> None:
    lock = clone / "recipes" / f"{recipe}.lock"
    locked = lock.read_bytes()
    for file in clone.glob("recipes/*.lock"):
        file.unlink()
    vendor = tmp_path / "elsewhere"
    (vendor / "archives").mkdir(parents=True)
    for archive in workspace.archives.glob("*.tar.gz"):
        os.link(archive, vendor / "archives" / archive.name)
    ended = type_in(clone, "lock", "-r", recipe, env={**hostile, VENDOR_VARIABLE: str(vendor)}, umask=0o077)
    assert ended.status == 0, ended.err
    assert lock.read_bytes() == locked == (ROOT / "recipes" / lock.name).read_bytes()


def test_a_repository_around_the_clone_changes_nothing(
    clone: Path, tmp_path: Path, workspace: Workspace, hostile: dict[str, str]
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    ended = type_in(clone, "apply", "--json", env={**hostile, VENDOR_VARIABLE: str(workspace.vendor)}, umask=0o077)
    assert ended.status == 0, ended.err
    assert ended.json["tree"] in (ROOT / "recipes" / "b70-0.23.lock").read_text()
