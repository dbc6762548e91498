"""The folders of a clone: one run at a time, scratch that goes away, files whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchset import workspace as module
from patchset.errors import Busy, MissingTool, WorktreeError
from patchset.workspace import VENDOR_VARIABLE, Workspace, write_atomically

HOLD = """
import sys
from pathlib import Path
from patchset.workspace import Workspace
with Workspace(Path(sys.argv[1])).only_run("lock", wait=False, say=print):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.delenv(VENDOR_VARIABLE, raising=False)
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(module, "_MEMORY", tmp_path / "memory")
    return Workspace(tmp_path / "clone")


@pytest.fixture
def other_run(workspace: Workspace) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the clone until its standard input ends."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(workspace.root)],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout and child.stdout.readline() == "held\n"
        yield child
        child.kill()


def test_second_run_that_must_not_wait_names_the_first(workspace: Workspace, other_run: subprocess.Popen[str]) -> None:
    with (
        pytest.raises(Busy, match=rf"inv lock \(pid {other_run.pid}, since "),
        workspace.only_run("x", wait=False, say=print),
    ):
        raise AssertionError("it was let in")


def test_second_run_waits_for_the_first_and_says_so(workspace: Workspace, other_run: subprocess.Popen[str]) -> None:
    said, entered = [], []

    def say(text: str) -> None:
        said.append(text)
        entered.append(other_run.poll())
        assert other_run.stdin
        other_run.stdin.close()

    with workspace.only_run("x", wait=True, say=say):
        other_run.wait(60)
    assert entered == [None]
    assert f"pid {other_run.pid}" in said[0]


def test_killed_run_blocks_nobody_and_its_scratch_is_swept(
    workspace: Workspace, other_run: subprocess.Popen[str], tmp_path: Path
) -> None:
    other_run.kill()
    other_run.wait(60)
    left = [workspace.vendor / "scratch" / "run-x", *((folder / "run-y") for folder in [workspace._memory()] if folder)]
    for folder in left:
        folder.mkdir(parents=True)
    with workspace.only_run("x", wait=False, say=print):
        assert [folder.exists() for folder in left] == [False, False]


def test_run_that_a_run_waits_for_does_not_wait_for_it(
    workspace: Workspace, other_run: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in workspace.held().items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Busy, match="waits for the end of the test"), workspace.only_run("x", wait=True, say=print):
        raise AssertionError
    with Workspace(tmp_path / "another").only_run("x", wait=True, say=print):
        pass


def test_runs_one_after_the_other_are_let_in(workspace: Workspace) -> None:
    for task in ("a", "b"):
        with workspace.only_run(task, wait=False, say=print):
            assert f"inv {task} (pid {os.getpid()}" in (workspace.vendor / ".lock").read_text()


def test_two_clones_with_one_vendor_share_its_lock(
    workspace: Workspace, other_run: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VENDOR_VARIABLE, str(workspace.vendor))
    with pytest.raises(Busy), Workspace(tmp_path / "second").only_run("x", wait=False, say=print):
        raise AssertionError("it was let in")


def test_scratch_is_private_and_gone_after_a_failure(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in (0, 2**62):  # in memory, then on disk
        monkeypatch.setattr(module, "_MEMORY_NEEDED", needed)
        monkeypatch.setattr(module, "_DISK_NEEDED", 0)
        with pytest.raises(ZeroDivisionError), workspace.scratch() as folder:
            assert (folder.is_relative_to(module._MEMORY), folder.stat().st_mode & 0o077) == (needed == 0, 0)
            (folder / "d").mkdir()
            raise ZeroDivisionError
        assert not folder.exists()


def test_no_room_anywhere_is_said_with_numbers(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MEMORY_NEEDED", 2**62)
    monkeypatch.setattr(module, "_DISK_NEEDED", 2**62)
    with pytest.raises(MissingTool, match="MB free"), workspace.scratch():
        raise AssertionError("there is no such disk")


def test_somebody_s_link_in_shared_memory_is_not_followed(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MEMORY_NEEDED", 0)
    monkeypatch.setattr(module, "_DISK_NEEDED", 0)
    theirs, mine = tmp_path / "theirs", workspace._memory()
    theirs.mkdir()
    (theirs / "precious").write_bytes(b"x")
    assert mine
    mine.symlink_to(theirs)
    with workspace.only_run("x", wait=False, say=print), workspace.scratch() as folder:
        assert folder.is_relative_to(workspace.vendor)
    assert [path.name for path in theirs.iterdir()] == ["precious"]


def test_file_is_replaced_whole_with_plain_permissions(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "d" / "f", b"one")
        write_atomically(tmp_path / "d" / "f", b"two")
    finally:
        os.umask(before)
    assert (tmp_path / "d" / "f").read_bytes() == b"two"
    assert (tmp_path / "d" / "f").stat().st_mode & 0o777 == 0o644
    assert len(list((tmp_path / "d").iterdir())) == 1


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_failure_while_writing_keeps_the_old_file_and_no_other(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*words: object) -> None:
        raise OSError("disk full")

    write_atomically(tmp_path / "f", b"old")
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(tmp_path / "f", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f", b"old")]


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    file, stop, seen = tmp_path / "f", threading.Event(), set()
    contents = [bytes([65 + n]) * 100_000 for n in range(8)]
    write_atomically(file, contents[0])

    def watch() -> None:
        while not stop.is_set():
            seen.add(file.read_bytes())

    thread = threading.Thread(target=watch)
    thread.start()
    for data in contents:
        write_atomically(file, data)
    stop.set()
    thread.join()
    assert seen and seen <= set(contents)


def test_a_vendor_that_is_somebody_s_folder_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    for name in ("store-of-photos/1.jpg", "logs/day.json", "cache/film.part"):
        (theirs / name).parent.mkdir(parents=True, exist_ok=True)
        (theirs / name).write_bytes(b"mine")
    monkeypatch.setenv(VENDOR_VARIABLE, str(theirs))
    with pytest.raises(WorktreeError, match="store-of-photos"):
        with Workspace(tmp_path).only_run("apply", wait=True, say=print):
            pass
    assert sorted(path.name for path in theirs.rglob("*") if path.is_file()) == ["1.jpg", "day.json", "film.part"]


@pytest.mark.parametrize(
    "names", [(), ("archives",), ("store.git", "cache"), (".patchset", "store-x1y2z3"), ("upstreams.toml", "notes")]
)
def test_a_vendor_that_is_one_is_taken(tmp_path: Path, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VENDOR_VARIABLE, str(tmp_path / "vendor"))
    for name in names:
        (tmp_path / "vendor" / name).mkdir(parents=True)
    with Workspace(tmp_path).only_run("apply", wait=True, say=print):
        assert not (tmp_path / "vendor" / "store-x1y2z3").exists()


def test_what_is_swept_from_dist_and_recipes_has_a_name_of_ours(workspace: Workspace, tmp_path: Path) -> None:
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    workspace.dist.parent.mkdir(parents=True, exist_ok=True)
    workspace.dist.symlink_to(downloads)
    theirs = {"film.mkv.part", ".hidden.part", "receipt.part"}
    ours = {".vllm-1-py3-none-any.whl.ab12_x9z.part", "receipt-20261203T010203Z.77.part", ".x.toml-a1b2c3d4.part"}
    for name in theirs | ours:
        (downloads / name).write_bytes(b"")
    with workspace.only_run("apply", wait=True, say=print):
        assert {path.name for path in downloads.iterdir()} == theirs
