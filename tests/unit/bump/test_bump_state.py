"""What a bump remembers, and what is refused to be remembered."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchset.bump.state import (
    FORMAT,
    State,
    Waiting,
    forget,
    is_name,
    read_state,
    state_file,
    worktree,
    write_state,
)
from patchset.errors import DeclarationError
from patchset.workspace import Workspace

TREE = "1234567890" * 4
CLASH = "0123abcd" * 8
WAITING = Waiting("mend-a", "0.20.0", TREE, TREE, TREE, CLASH, ("a.py", "b/c d.py"))
STATE = State("r-0.20", "0.21.0", "r-0.21", {"mend-b": TREE}, {"mend-b": CLASH}, {"mend-c": "why"}, WAITING)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def put(workspace: Workspace, data: bytes) -> Path:
    file = state_file(workspace)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("state", [STATE, State("r", "0.21.0", "s")])
def test_what_was_written_is_read(state: State, workspace: Workspace) -> None:
    assert read_state(workspace) is None
    write_state(workspace, state)
    assert read_state(workspace) == state
    assert state_file(workspace) == workspace.root / "work" / "state" / "bump.json"
    forget(workspace)
    forget(workspace)
    assert read_state(workspace) is None


def test_resolved_patch_waits_no_more() -> None:
    after = STATE.with_resolved("mend-a", CLASH, TREE)
    assert after.waiting is None and after.resolved.keys() == {"mend-a", "mend-b"} == after.clashes.keys()


def document(**changes: object) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(STATE), **changes}).encode()


def without(key: str) -> bytes:
    return json.dumps({name: value for name, value in json.loads(document()).items() if name != key}).encode()


def waiting(**changes: object) -> bytes:
    return document(waiting={**asdict(WAITING), **changes})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'"state"',
        b"null",
        b"[" * 100_000,
        document(format=1),
        document(format=3),
        document(format="1"),
        document(recipe=1),
        document(recipe=""),
        document(recipe="../r"),
        document(to="latest"),
        document(to="--all"),
        document(to=None),
        document(name="../y"),
        document(name="a/b"),
        document(name=".hidden"),
        document(name="-rf"),
        document(name="a\nb"),
        document(name="x" * 200),
        document(name="x.toml"),
        document(resolved={"mend-b": "HEAD"}),
        document(resolved={"mend-b": "--all"}),
        document(resolved={"mend-b": TREE.upper().replace("1", "A")}),
        document(resolved=[]),
        document(resolved={}),
        document(clashes={"other": CLASH}),
        document(clashes={"mend-b": TREE}),
        document(clashes={"mend-b": CLASH, "mend-a": CLASH}),
        without("resolved"),
        without("clashes"),
        document(skipped={"mend-c": 1}),
        document(more=1),
        document(waiting=[]),
        document(waiting={}),
        waiting(paths="a.py"),
        waiting(paths=["/etc/passwd"]),
        waiting(paths=["../a.py"]),
        waiting(paths=["a/../../b"]),
        waiting(paths=[".git/config"]),
        waiting(paths=["x/.GIT/hooks/post-checkout"]),
        waiting(paths=[""]),
        waiting(paths=[1]),
        waiting(ours="0" * 39),
        waiting(attempt=TREE + "\n"),
        waiting(clash=TREE),
        waiting(clash=None),
        waiting(patch="../p"),
        waiting(source="x"),
        waiting(extra=1),
        document() + b"x",
        document(skipped={"mend-c": "x" * 2_000_000}),
    ],
)
def test_hostile_or_damaged_state_is_refused_with_the_way_out(data: bytes, workspace: Workspace) -> None:
    file = put(workspace, data)
    with pytest.raises(DeclarationError, match="state of a bump cannot be read") as error:
        read_state(workspace)
    assert error.value.where == str(file) and f"rm {file}" in error.value.next
    assert file.read_bytes() == data


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_otherwise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    workspace = Workspace(tmp_path_factory.mktemp("state"))
    put(workspace, data)
    with pytest.raises(DeclarationError):
        read_state(workspace)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("b70-0.28", True),
        ("a", True),
        ("b70_0.28+x", True),
        ("", False),
        (".a", False),
        ("a/b", False),
        ("a.lock", False),
    ],
)
def test_names(text: str, good: bool) -> None:
    assert is_name(text) is good


def test_checkout_is_named_after_the_new_recipe(workspace: Workspace) -> None:
    assert worktree(workspace, STATE) == workspace.root / "work" / "bump-r-0.21"
