"""Hostile surroundings of the store: configuration, variables and repositories of others change not one bit."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from made_trees import on_disk, tree_in

from patchset.store import Entry, Store
from patchset.store.trees import EPOCH

CONFIG = """\
[user]
    name = Mallory
    email = m@x
    signingkey = none
[commit]
    gpgsign = true
[core]
    autocrlf = true
    eol = crlf
    safecrlf = true
    hooksPath = {hooks}
    attributesFile = {home}/attributes
    excludesFile = {home}/ignore
    fileMode = false
    symlinks = false
    ignoreCase = true
    quotePath = false
    abbrev = 4
    whitespace = error
    worktree = /nowhere
    bare = false
[apply]
    whitespace = fix
    ignoreWhitespace = change
[diff]
    noprefix = true
    mnemonicPrefix = true
    context = 0
    renames = copies
    algorithm = patience
    external = false
    orderFile = {home}/order
[merge]
    conflictStyle = diff3
    renames = false
    default = union
[i18n]
    commitEncoding = ISO-8859-1
    logOutputEncoding = ISO-8859-1
[color]
    ui = always
[init]
    defaultObjectFormat = sha256
    templateDir = {home}/template
[safe]
    bareRepository = explicit
[filter "spoil"]
    clean = sed s/line/spoilt/
    smudge = sed s/line/spoilt/
    required = true
[alias]
    apply = !false
"""

#: A tree whose own attributes would change bytes on their way out and in.
ATTRIBUTES_IN_TREE = (
    b"* text eol=crlf ident filter=spoil merge=union diff=none export-subst working-tree-encoding=UTF-16\n"
)
LINES = b"".join(b"line %d  \n" % number for number in range(1, 31))


def everything(store: Store, room: Path) -> dict[str, object]:
    """All that a run makes of a tree: ids, and bytes and modes of what is written."""
    old = tree_in(
        store,
        {
            ".gitattributes": ATTRIBUTES_IN_TREE,
            "f": LINES + b"$Id$\n",
            "crlf": b"a\r\nb\r\n",
            "run": ("100755", b"x\n"),
            "l": ("120000", b"f"),
        },
    )
    new = store.with_file(
        old, "f", Entry("100644", store.write_blob(LINES.replace(b"line 15  ", b"LINE 15\t ") + b"$Id$\n"))
    )
    diff = store.run("diff-tree", "-r", "-p", "--full-index", old, new)
    applied, words = store.apply(old, diff)
    drifted = store.with_file(
        old, "f", Entry("100644", store.write_blob(b"0\n" + LINES.replace(b"line 13", b"drift 13") + b"$Id$\n"))
    )
    merged = store.merge(old, drifted, new)
    clash = store.merge(
        old, store.with_file(old, "f", Entry("100644", store.write_blob(LINES.replace(b"line 15", b"other 15")))), new
    )
    commit = store.commit(
        new, (store.commit(old, (), "base", EPOCH),), "ä ü", datetime(2026, 1, 2, tzinfo=timezone.utc)
    )
    store.export(new, room / "out")
    (room / "checkout").mkdir()
    store.make_checkout(room / "checkout", commit)
    branch, head, changes = store.checkout_state(room / "checkout")
    assert branch == "refs/heads/patchset"
    return {
        "new": new,
        "diff": diff,
        "applied": applied,
        "words": words,
        "back": store.apply(new, diff, reverse=True)[0],
        "numstat": store.numstat(diff),
        "refused": store.apply(drifted, diff)[0],
        "merged": merged.tree,
        "conflicts": merged.conflicts,
        "clash": clash.tree,
        "clash conflicts": clash.conflicts,
        "commit": commit,
        "out": on_disk(room / "out"),
        "again": store.import_directory(room / "out"),
        "checkout": {
            path: content for path, content in on_disk(room / "checkout").items() if not path.startswith(".git/")
        },
        "head": head,
        "changes": changes,
    }


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    room = tmp_path_factory.mktemp("plain")
    return everything(Store.open(room / "store.git"), room)


def test_plain_surroundings_give_what_was_asked_for(expected: dict[str, object]) -> None:
    """What the hostile ones are compared with is right, and not only the same."""
    assert expected["applied"] == expected["new"] == expected["again"]
    assert (expected["words"], expected["refused"], expected["numstat"]) == ("", None, [("1", "1", "f")])
    assert (expected["conflicts"], expected["clash conflicts"], expected["changes"]) == ((), ("f",), ())
    out = expected["out"]
    assert isinstance(out, dict) and out == expected["checkout"]
    assert out["f"] == ("100644", LINES.replace(b"line 15  ", b"LINE 15\t ") + b"$Id$\n")
    assert (out["crlf"], out["run"], out["l"]) == (("100644", b"a\r\nb\r\n"), ("100755", b"x\n"), ("120000", b"f"))


@pytest.fixture
def hostile_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose git configuration breaks or changes whatever reads it."""
    home = tmp_path / "home"
    hooks = home / "hooks"
    template = home / "template" / "hooks"
    for folder in (hooks, template):
        folder.mkdir(parents=True)
        for hook in ("post-checkout", "pre-commit", "reference-transaction", "post-index-change", "post-merge"):
            (folder / hook).write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
            (folder / hook).chmod(0o755)
    (home / "attributes").write_text("* text eol=crlf filter=spoil ident\n", encoding="ascii")
    (home / "ignore").write_text("*\n", encoding="ascii")
    (home / "order").write_text("z*\n", encoding="ascii")
    (home / ".gitconfig").write_text(CONFIG.format(home=home, hooks=hooks), encoding="ascii")
    (home / "git").mkdir()
    (home / "git" / "config").write_text(CONFIG.format(home=home, hooks=hooks), encoding="ascii")
    return home


def test_hostile_configuration_is_hostile(hostile_home: Path, tmp_path: Path, plain_git: Callable[..., str]) -> None:
    """Without isolation it does change bytes: otherwise the tests below would prove nothing."""
    env = {"PATH": os.environ["PATH"], "HOME": str(hostile_home)}
    (tmp_path / "f").write_bytes(b"line\n")
    said = subprocess.run(
        ["git", "hash-object", "--path=f", "f"], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert said.stdout.strip() != plain_git(tmp_path, "hash-object", "f")


@pytest.mark.parametrize(
    "surroundings",
    [
        "home",
        "xdg",
        "config variables",
        "config count",
        "caller's repository",
        "parent repository",
        "locale, zone, umask",
    ],
)
def test_hostile_surroundings_change_nothing(
    surroundings: str,
    expected: dict[str, object],
    hostile_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plain_git: Callable[..., str],
    umask: Callable[[int], int],
    time_zone: Callable[[str], None],
) -> None:
    room = tmp_path / "parent" / "room"
    room.mkdir(parents=True)
    config = str(hostile_home / ".gitconfig")
    if surroundings == "home":
        monkeypatch.setenv("HOME", str(hostile_home))
    elif surroundings == "xdg":
        monkeypatch.setenv("XDG_CONFIG_HOME", str(hostile_home))
    elif surroundings == "config variables":
        for name in ("GIT_CONFIG", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
            monkeypatch.setenv(name, config)
    elif surroundings == "config count":
        for name, value in {
            "COUNT": "2",
            "KEY_0": "apply.whitespace",
            "VALUE_0": "fix",
            "KEY_1": "core.autocrlf",
            "VALUE_1": "true",
            "PARAMETERS": "'diff.noprefix'='true'",
        }.items():
            monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    elif surroundings == "caller's repository":
        plain_git(tmp_path, "init", "-q", "caller")
        for name, value in {
            "DIR": str(tmp_path / "caller/.git"),
            "INDEX_FILE": str(tmp_path / "caller/.git/index"),
            "WORK_TREE": str(tmp_path / "caller"),
            "OBJECT_DIRECTORY": str(tmp_path / "caller/.git/objects"),
            "PREFIX": "x/",
            "NAMESPACE": "n",
            "LITERAL_PATHSPECS": "0",
            "ICASE_PATHSPECS": "1",
            "AUTHOR_NAME": "Mallory",
            "AUTHOR_DATE": "1 +0000",
            "COMMITTER_DATE": "1 +0000",
            "EXTERNAL_DIFF": "false",
            "DIFF_OPTS": "-u0",
            "DEFAULT_HASH": "sha256",
            "TRACE": "1",
            "CEILING_DIRECTORIES": "/",
        }.items():
            monkeypatch.setenv(f"GIT_{name}", value)
    elif surroundings == "parent repository":
        plain_git(tmp_path, "init", "-q", "parent")
        (tmp_path / "parent/.git/config").write_text(
            CONFIG.format(home=hostile_home, hooks=hostile_home / "hooks").replace("bare = false", ""), encoding="ascii"
        )
        (tmp_path / "parent/.gitattributes").write_bytes(ATTRIBUTES_IN_TREE)
        (tmp_path / "parent/.gitignore").write_bytes(b"*\n")
        monkeypatch.chdir(room)
    else:
        time_zone("Pacific/Kiritimati")
        monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
        umask(0o077)
    assert everything(Store.open(room / "store.git"), room) == expected
    if surroundings == "caller's repository":
        assert not (tmp_path / "caller/.git/index").exists()


@pytest.fixture
def time_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def put(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield put
    monkeypatch.undo()
    time.tzset()
