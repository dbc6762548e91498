"""Tests that do more than test, and results that do not hold any more: never a wrong name, and nothing of a person's lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from made_bisect import again, answer, document, go_on, ids, numbered

from patchset import cli
from patchset.bisect import task
from patchset.bisect.record import Question
from patchset.console import Console
from patchset.errors import BisectError, DeclarationError, WorktreeError
from patchset.resolve import Project

FIFTH = "test ! -e f05.py"


@pytest.fixture
def eight(tmp_path: Path) -> Project:
    """p01 to p08, each with a file of its own."""
    return numbered(tmp_path / "clone", 8)


@pytest.mark.parametrize("place", [".", "sub"])
def test_repository_left_by_one_step_is_not_there_in_the_next(eight: Project, place: str) -> None:
    test = f"test -e {place}/.git && exit 1; mkdir -p sub; (cd {place}; git init -q); {FIFTH}"
    assert ids(answer(eight, test=test)["patches"]) == ["p05"]


def test_what_a_step_leaves_running_does_not_reach_the_next(eight: Project, tmp_path: Path) -> None:
    test = f'test -e evil && exit 1; D=$PWD; (while :; do touch "$D/evil"; sleep 0.01; done) >/dev/null 2>&1 & {FIFTH}'
    assert ids(answer(eight, test=test)["patches"]) == ["p05"]


@pytest.mark.parametrize("command", ["sh {file}; exit $?", "F={file}; sh $F", "sh -c 'sh {file}'", "sh $OWN/it.sh"])
def test_changed_script_is_another_test_however_it_is_named(
    eight: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("OWN", str(tmp_path))
    file = tmp_path / "it.sh"
    for culprit in (5, 2):
        file.write_text(f"test ! -e f{culprit:02}.py\n")
        assert ids(answer(eight, test=command.format(file=file))["patches"]) == [f"p{culprit:02}"]


def test_another_environment_is_another_test(eight: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for culprit in ("05", "02"):
        monkeypatch.setenv("WANTED", culprit)
        assert ids(answer(eight, test="test ! -e f$WANTED.py")["patches"]) == [f"p{culprit}"]


def test_another_place_is_another_test(eight: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for culprit in ("05", "02"):
        (tmp_path / culprit).mkdir()
        (tmp_path / culprit / "it.sh").write_text(f"test ! -e f{culprit}.py\n")
        monkeypatch.chdir(tmp_path / culprit)
        assert ids(answer(eight, test="sh $PATCHSET_HERE/it.sh")["patches"]) == [f"p{culprit}"]


def test_log_that_the_test_writes_is_no_other_test(eight: Project, tmp_path: Path) -> None:
    test = f"date +%N > {tmp_path}/log; {FIFTH}"
    answer(eight, test=test)
    assert all(step["known"] for step in document(eight, test=test)["steps"])


def test_going_on_elsewhere_runs_the_test_where_it_was_asked(
    eight: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    child = os.fork()
    if not child:
        try:
            os.setpgid(0, 0)
            document(eight, test=f"D={tmp_path}; test $PATCHSET_STEP != 3 || test -e $D/on || kill -9 $PPID; {FIFTH}")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    (tmp_path / "on").touch()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    made = go_on(again(eight))
    assert made["question"]["here"] == str(tmp_path)
    assert ids(made["answer"]["patches"]) == ["p05"]


def test_one_run_of_the_test_is_run_whatever_is_known(eight: Project, tmp_path: Path) -> None:
    (tmp_path / "down").touch()
    test = f"D={tmp_path}; test -e $D/down && exit 1; {FIFTH}"
    with pytest.raises(BisectError, match="the good end is bad") as caught:
        answer(eight, test=test)
    assert "--fresh" in str(caught.value.next)
    (tmp_path / "down").unlink()
    made = task.run(eight, Question("r", "", "", at="base", test=test), task.Wish(), Console())
    assert made and made["answer"]["step"]["verdict"] == "good"


@pytest.mark.parametrize("wish", [task.Wish(abort=True), task.Wish()], ids=["abort", "begin"])
def test_files_of_a_person_where_the_state_goes_are_left_alone(eight: Project, wish: task.Wish) -> None:
    home = task.folder(eight.workspace)
    (home / "mine").mkdir(parents=True)
    (home / "mine" / "notes.txt").write_text("mine")
    ends = ("", "") if wish.abort else ("base", "r")
    with pytest.raises(WorktreeError, match="no bisection wrote"):
        task.run(eight, Question("r", *ends, test="true"), wish, Console())
    assert (home / "mine" / "notes.txt").read_text() == "mine"


def test_abort_removes_what_a_bisection_wrote_and_nothing_beside(eight: Project) -> None:
    answer(eight, test=FIFTH)
    home = task.folder(eight.workspace)
    (home / "notes.txt").write_text("mine")
    task.run(eight, Question("r", "", ""), task.Wish(abort=True), Console())
    assert [path.name for path in home.iterdir()] == ["notes.txt"]


def test_test_that_removes_its_worktree_is_told_so(eight: Project) -> None:
    with pytest.raises(WorktreeError, match="the test's worktree is gone"):
        answer(eight, test='rm -rf "$PWD"; exit 0')


def test_status_that_no_signal_has_is_named_as_it_is(eight: Project) -> None:
    made = task.run(eight, Question("r", "", "", at="r", test="exit 255"), task.Wish(), Console())
    assert made and "status 255" in made["answer"]["step"]["reason"]


@pytest.mark.parametrize("name", ["it.json", "it.lock"])
def test_pipe_is_no_lock_and_not_waited_for(eight: Project, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(DeclarationError, match="not a file"):
        answer(eight, bad=str(tmp_path / name), test="true")


@pytest.mark.parametrize("text", ["1e3", "abc", "", "1.5"])
def test_number_that_is_none_is_told_so(text: str) -> None:
    with pytest.raises(DeclarationError, match=r"--repeat .*is no whole number"):
        cli.whole("--repeat", text)
    assert cli.number("--timeout", "1.5") == 1.5
