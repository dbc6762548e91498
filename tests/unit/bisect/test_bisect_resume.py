"""A bisection that is killed at any moment goes on where it was, and what else is asked of one that is under way."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from made_bisect import ROOT, adding, again, document, go_on, ids, numbered, write, write_recipe

from patchset.bisect import task
from patchset.bisect.record import Question, read_record
from patchset.console import Console
from patchset.errors import BisectError, DeclarationError
from patchset.resolve import Project

# -- a process that is killed ------------------------------------------------------------------------------------------

#: Forks, for each line that it reads, a process in a group of its own, which begins the bisection or goes on with it; says its
#: id, and then how it ended. The paths are no PYTHONPATH: that is one of the things that a result depends on.
_FORKING = """
import json, os, signal, sys
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
import made_bisect
from patchset.bisect import task
from patchset.bisect.record import read_record
from patchset.resolve import Project
from patchset.workspace import Workspace

def bisect(root, flags, at):
    renames, replace = [], os.replace
    def rename(old, new):
        if Path(new).name != "state.json":
            return replace(old, new)
        renames.append(new)
        if at == [len(renames), "before"]:
            os.killpg(0, signal.SIGKILL)
        replace(old, new)
        if at == [len(renames), "after"]:
            os.killpg(0, signal.SIGKILL)
    os.replace = rename
    project = Project.read(Workspace(Path(root)))
    if read_record(task.folder(project.workspace) / "state.json"):
        made_bisect.go_on(project)
    else:
        made_bisect.document(project, **flags)

nowhere = os.open(os.devnull, os.O_RDWR)
for line in sys.stdin:
    child = os.fork()
    if not child:
        os.setsid()
        os.write(1, b"%d\\n" % os.getpid())
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        try:
            bisect(*json.loads(line))
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    os.write(1, b"%d\\n" % os.waitstatus_to_exitcode(status))
"""
_PATH = [str(ROOT), str(ROOT / "tests" / "unit"), str(ROOT / "tests" / "unit" / "bisect")]


class Forking:
    """Starts processes that bisect, one at a time, without each importing everything anew."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin and process.stdout
        self._in, self._out = process.stdin, process.stdout

    def start(self, *words: object) -> int:
        """The id of a process that is about to begin: it leads a group of its own."""
        self._in.write(json.dumps(words).encode() + b"\n")
        return int(self._out.readline())

    def ended(self) -> bool:
        """Has it ended?"""
        return bool(select.select([self._out], [], [], 0.002)[0])

    def status(self) -> int:
        """How it ended, as in :mod:`subprocess`."""
        return int(self._out.readline())


@pytest.fixture(scope="module")
def forking() -> Iterator[Forking]:
    words = [sys.executable, "-c", _FORKING, json.dumps(_PATH)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        yield Forking(process)


@dataclass(frozen=True)
class Bisected:
    """A project, what is asked of it, and the file that gets a line, the tree, from each run of its test."""

    project: Project
    flags: dict[str, Any]
    ran: Path

    def begin(self, **more: Any) -> dict[str, Any]:
        """Ask in this process."""
        return document(self.project, **self.flags, **more)

    def lines(self) -> list[str]:
        """The tree of each run that was begun."""
        return self.ran.read_text().splitlines() if self.ran.exists() else []

    def undisturbed(self) -> tuple[tuple[Any, ...], list[str]]:
        """What comes out without a kill, as :func:`told` has it, and the runs that it takes; nothing is left of it."""
        made = told(self.begin(fresh=True))
        lines = self.lines()
        abort(self.project)
        self.ran.unlink()
        return made, lines

    def recorded(self) -> dict[str, int]:
        """Tree → its runs that are on record."""
        record = read_record(state(self.project))
        return {tree: len(runs) for tree, runs in record.runs.items()} if record else {}

    def ended(self) -> bool:
        """Is the answer there?"""
        record = read_record(state(self.project))
        return record is not None and record.answer is not None

    def killed_at(self, forking: Forking, runs: int, delay: float) -> bool:
        """Start, wait until *runs* runs of the test were begun and *delay* seconds more, kill. False: it ended before."""
        begun = len(self.lines())
        group = forking.start(str(self.project.workspace.root), self.flags, [])
        while len(self.lines()) < begun + runs and not forking.ended():
            pass
        time.sleep(delay)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        return forking.status() == -signal.SIGKILL

    def killed_in_rename(self, forking: Forking, number: int, when: str) -> bool:
        """Start, and kill just before or just after the state is put in place for the *number*-th time."""
        forking.start(str(self.project.workspace.root), self.flags, [number, when])
        return forking.status() == -signal.SIGKILL

    def end(self) -> dict[str, Any]:
        """Go on in this process; begin where it was killed before anything was written."""
        return go_on(self.project) if state(self.project).exists() else self.begin()


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """p01 to p12, each with a file of its own. What killed runs left in memory is swept at the end, as the next task would."""
    project = numbered(tmp_path_factory.mktemp("twelve") / "clone", 12)
    yield project
    with project.workspace.only_run("sweep", wait=True, say=lambda text: None):
        pass


@pytest.fixture
def idle(twelve: Project) -> Project:
    """The same, with nothing under way."""
    abort(twelve)
    return twelve


def asked(project: Project, ran: Path, test: str, **flags: Any) -> Bisected:
    """*test*, which leaves a line in *ran* first."""
    return Bisected(project, {"test": f"echo $PATCHSET_TREE >> {ran}; {test}", **flags}, ran)


def state(project: Project) -> Path:
    """Where the state is."""
    return task.folder(project.workspace) / "state.json"


def abort(project: Project) -> None:
    """What ``inv bisect --abort`` does."""
    task.run(project, Question("r", "", ""), task.Wish(abort=True), Console())


def plain(value: Any) -> Any:
    """An answer without the names of logs, each of which is there; two runs of one bisection have others."""
    if isinstance(value, dict):
        assert not value.get("log") or Path(value["log"]).is_file()
        return {key: plain(item) for key, item in value.items() if key != "log"}
    return [plain(item) for item in value] if isinstance(value, list) else value


def told(made: dict[str, Any]) -> tuple[Any, ...]:
    """What a document says: its question, the answer, and the steps without what they took."""
    keys = ("number", "role", "label", "release", "patches", "tree", "verdict", "reason", "failed", "again")
    steps = [(*(step[key] for key in keys), len(step["runs"])) for step in made["steps"]]
    return made["question"], plain(made["answer"]), steps


# -- killed ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("culprit", [1, 4, 7, 12])
def test_bisection_killed_five_times_ends_as_if_it_had_not_been(
    idle: Project, forking: Forking, tmp_path: Path, culprit: int
) -> None:
    bisected = asked(idle, tmp_path / "ran", f"sleep 0.03; test ! -e f{culprit:02}.py")
    expected, needed = bisected.undisturbed()
    chance, kills = random.Random(culprit), 0
    on_record: list[tuple[dict[str, int], Counter[str]]] = []
    for _ in range(5):
        if bisected.ended():
            break
        kills += bisected.killed_at(forking, chance.choice((0, 1, 1, 1, 2)), chance.uniform(0, 0.06))
        on_record.append((bisected.recorded(), Counter(bisected.lines())))
    made = bisected.end()
    assert kills >= 3
    assert told(made) == expected
    assert ids(made["answer"]["patches"]) == [f"p{culprit:02}"]
    lines = Counter(bisected.lines())
    assert set(lines) == set(needed)
    assert len(needed) == len(set(needed))
    assert lines.total() <= len(needed) + kills
    for recorded, begun in on_record:
        assert {tree: lines[tree] for tree in recorded} == {tree: begun[tree] for tree in recorded}


def test_kill_before_or_after_each_rename_of_the_state_leaves_it_whole(
    idle: Project, forking: Forking, tmp_path: Path
) -> None:
    """The first write in a process says that it is under way, the second is a step: lost before it, kept after it."""
    bisected = asked(idle, tmp_path / "ran", "test ! -e f06.py")
    expected, needed = bisected.undisturbed()
    assert bisected.killed_in_rename(forking, 1, "before")
    assert not state(idle).exists()
    assert bisected.killed_in_rename(forking, 1, "after")
    for done in range(3):
        assert len(bisected.recorded()) == done
        assert bisected.killed_in_rename(forking, 2, "before")
        assert len(bisected.recorded()) == done
        assert bisected.killed_in_rename(forking, 2, "after")
        assert len(bisected.recorded()) == done + 1
    made = bisected.end()
    assert told(made) == expected
    lines = bisected.lines()
    assert list(dict.fromkeys(lines)) == needed
    assert len(lines) <= len(needed) + 3


def test_kill_in_the_rename_of_the_answer_runs_nothing_again(idle: Project, forking: Forking, tmp_path: Path) -> None:
    bisected = asked(idle, tmp_path / "ran", "test ! -e f09.py")
    expected, needed = bisected.undisturbed()
    last = len(needed) + 2
    assert bisected.killed_in_rename(forking, last, "before")
    assert (len(bisected.recorded()), bisected.ended()) == (len(needed), False)
    made = bisected.end()
    assert told(made) == expected
    assert bisected.lines() == needed


def test_kill_between_runs_of_one_tree_keeps_those_that_were_done(
    idle: Project, forking: Forking, tmp_path: Path
) -> None:
    bisected = asked(idle, tmp_path / "ran", "test ! -e f11.py", bad="r", good="8", repeat=3)
    expected, needed = bisected.undisturbed()
    assert sorted(Counter(needed).values()) == [3] * len(set(needed))
    assert bisected.killed_in_rename(forking, 3, "after")
    assert list(bisected.recorded().values()) == [2]
    assert bisected.killed_in_rename(forking, 4, "before")
    assert list(bisected.recorded().values()) == [3, 1]
    made = bisected.end()
    assert told(made) == expected
    assert len(bisected.lines()) == len(needed) + 1


def test_two_jobs_killed_find_the_same(idle: Project, forking: Forking, tmp_path: Path) -> None:
    bisected = asked(idle, tmp_path / "ran", "sleep 0.03; test ! -e f03.py", jobs=2)
    recorded: dict[str, int] = {}
    for runs in (3, 2):
        bisected.killed_at(forking, runs, 0.02)
        assert recorded.items() <= bisected.recorded().items()
        recorded = bisected.recorded()
    found = bisected.end()["answer"]
    assert (found["kind"], ids(found["patches"])) == ("change", ["p03"])
    assert (len(found["good"]["patches"]), len(found["bad"]["patches"])) == (2, 3)


def test_run_on_record_is_known_after_a_kill_and_an_abort(idle: Project, forking: Forking, tmp_path: Path) -> None:
    """The kill comes as soon as the state says that it was run."""
    bisected = asked(idle, tmp_path / "ran", "test ! -e f05.py")
    assert bisected.killed_in_rename(forking, 3, "after")
    before = bisected.lines()
    assert list(bisected.recorded()) == before
    abort(idle)
    made = bisected.begin()
    assert ids(made["answer"]["patches"]) == ["p05"]
    assert len(bisected.lines()) == len(set(bisected.lines()))
    assert [step["known"] for step in made["steps"][:3]] == [True, True, False]


def test_kill_of_the_whole_group_leaves_no_test_behind(idle: Project, forking: Forking, tmp_path: Path) -> None:
    """What a test would do later is not done by one that nobody waits for."""
    late = tmp_path / "late"
    bisected = asked(idle, tmp_path / "ran", f"sleep 0.1; echo $PATCHSET_TREE >> {late}")
    assert bisected.killed_at(forking, 1, 0.0)
    time.sleep(0.1)
    time.sleep(0.1)
    assert not late.exists()


# -- interrupted -------------------------------------------------------------------------------------------------------


class Interrupted(Console):
    """Ctrl-C as soon as so many steps were told."""

    def __init__(self, after: int = 1) -> None:
        super().__init__()
        self._left = after

    def say(self, text: str) -> None:
        """Count it."""
        if text.startswith("  step "):
            self._left -= 1
            if not self._left:
                raise KeyboardInterrupt


def interrupt(bisected: Bisected, after: int) -> None:
    """Begin, and stop after so many steps."""
    flags = {"good": "base", "bad": "r", **bisected.flags}
    with pytest.raises(KeyboardInterrupt):
        task.run(bisected.project, Question("r", **flags), task.Wish(), Interrupted(after))


@pytest.mark.parametrize(
    ("test", "flags"),
    [
        ("test ! -e f02.py", {}),
        ("test ! -e f02.py || test ! -e f05.py", {"minimize": True, "bad": "6"}),
        ("test ! -e f02.py || test ! -e f05.py", {"drop_one": True, "good": "", "bad": "6"}),
        ("if test -e f04.py && ! test -e f07.py; then exit 125; fi; test ! -e f05.py", {}),
        ("test ! -e f07.py", {"jobs": 2}),
    ],
    ids=["bisect", "minimize", "drop one", "span", "two jobs"],
)
def test_interrupted_after_every_single_step_it_ends_the_same(
    idle: Project, tmp_path: Path, test: str, flags: dict[str, Any]
) -> None:
    bisected = asked(idle, tmp_path / "ran", test, **flags)
    expected, needed = bisected.undisturbed()
    interrupt(bisected, 1)
    for _ in range(60):
        try:
            task.run(idle, Question("r", "", ""), task.Wish(go_on=True), Interrupted())
        except KeyboardInterrupt:
            continue
        break
    made = go_on(idle)
    if flags.get("jobs"):  # what was looked at ahead, and was not needed, is another each time
        assert ids(made["answer"]["patches"]) == ids(expected[1]["patches"])
        return
    assert told(made) == expected
    assert bisected.lines() == needed


def test_interrupted_over_both_it_ends_the_same(tmp_path: Path) -> None:
    releases = {f"1.{n}": {"a.py": b"a = 1\n", **({"up.py": b"u = 1\n"} if n > 2 else {})} for n in range(5)}
    project = write(tmp_path / "clone", {id: adding(f"{id}.py", "x = 1") for id in ("p", "q", "s")}, releases)
    project = write_recipe(project, "new", ["p", "q", "s"], "1.4")
    bisected = asked(project, tmp_path / "ran", "test ! -e up.py || test ! -e q.py", good="base", bad="new")
    expected, needed = bisected.undisturbed()
    assert expected[1]["kind"] == "pair"
    interrupt(bisected, 1)
    for _ in range(60):
        try:
            task.run(project, Question("r", "", ""), task.Wish(go_on=True), Interrupted())
        except KeyboardInterrupt:
            continue
        break
    made = go_on(project)
    assert told(made) == expected
    assert bisected.lines() == needed


# -- under way ---------------------------------------------------------------------------------------------------------


def test_new_bisection_is_refused_while_one_is_under_way_and_says_what_to_type(idle: Project, tmp_path: Path) -> None:
    bisected = asked(idle, tmp_path / "ran", "test ! -e f05.py")
    interrupt(bisected, 3)
    before = state(idle).read_bytes(), bisected.lines()
    for flags in (bisected.flags, {"test": "true"}, {**bisected.flags, "minimize": True}):
        with pytest.raises(DeclarationError, match="a bisection is under way, with 3 steps done") as caught:
            document(idle, **flags)
        assert "./inv bisect --continue" in caught.value.next
        assert "./inv bisect --abort" in caught.value.next
    assert (state(idle).read_bytes(), bisected.lines()) == before
    assert ids(go_on(idle)["answer"]["patches"]) == ["p05"]


def test_single_step_leaves_a_bisection_under_way_alone(idle: Project, tmp_path: Path) -> None:
    bisected = asked(idle, tmp_path / "ran", "test ! -e f05.py")
    expected, _ = bisected.undisturbed()
    interrupt(bisected, 3)
    before = state(idle).read_bytes()
    single = task.run(idle, Question("r", "", "", at="p03", test="exit 3"), task.Wish(), Console())
    assert single is not None
    assert single["answer"]["step"]["verdict"] == "bad"
    assert state(idle).read_bytes() == before
    made = go_on(idle)
    assert told(made) == expected


def test_abort_removes_it_and_keeps_what_was_run_known(idle: Project, tmp_path: Path, capsys: Any) -> None:
    bisected = asked(idle, tmp_path / "ran", "test ! -e f05.py")
    interrupt(bisected, 4)
    before = bisected.lines()
    capsys.readouterr()
    abort(idle)
    assert "what was run is still known" in capsys.readouterr().out
    assert not task.folder(idle.workspace).exists()
    abort(idle)
    assert "no bisection was under way" in capsys.readouterr().out
    with pytest.raises(DeclarationError, match="no bisection is under way"):
        go_on(idle)
    made = bisected.begin()
    assert bisected.lines()[:4] == before
    assert len(bisected.lines()) == len(set(bisected.lines())) == len(made["steps"])
    assert [step["known"] for step in made["steps"]] == [True] * 4 + [False] * (len(made["steps"]) - 4)
    assert all(Path(run["log"]).is_file() for step in made["steps"] for run in step["runs"])


def test_log_replays_the_steps_and_runs_nothing(idle: Project, tmp_path: Path, capsys: Any) -> None:
    bisected = asked(idle, tmp_path / "ran", "test ! -e f05.py")

    def log(as_json: bool) -> str:
        before = state(idle).read_bytes(), bisected.lines()
        capsys.readouterr()
        assert task.run(idle, Question("r", "", ""), task.Wish(log=True), Console(as_json)) is None
        assert (state(idle).read_bytes(), bisected.lines()) == before
        return capsys.readouterr().out

    interrupt(bisected, 4)
    shown = log(as_json=False)
    assert "with p06 added" in shown
    assert "under way" in shown
    replayed = json.loads(log(as_json=True))
    assert replayed["answer"] is None
    assert [step["role"] for step in replayed["steps"]] == ["good end", "bad end", "patches", "patches"]
    made = go_on(idle)
    assert made["steps"][:4] == replayed["steps"]
    assert json.loads(log(as_json=True)) == {"steps": made["steps"], "answer": made["answer"]}
    assert "ended" in log(as_json=False)


def test_log_of_none_says_how_to_begin(idle: Project) -> None:
    with pytest.raises(DeclarationError, match="no bisection is under way") as caught:
        task.run(idle, Question("r", "", ""), task.Wish(log=True), Console())
    assert "--good REF --bad REF" in caught.value.next


def test_continue_after_it_ended_shows_the_answer_and_runs_nothing(idle: Project, tmp_path: Path, capsys: Any) -> None:
    bisected = asked(idle, tmp_path / "ran", "test ! -e f05.py")
    made = bisected.begin()
    before = bisected.lines()
    capsys.readouterr()
    assert go_on(idle) == made
    assert "p05" in capsys.readouterr().out
    assert bisected.lines() == before
    assert state(idle).exists()


def test_continue_after_an_end_that_was_none_tells_it_again(idle: Project, tmp_path: Path, capsys: Any) -> None:
    bisected = asked(idle, tmp_path / "ran", "false")
    with pytest.raises(BisectError, match="the good end is bad"):
        bisected.begin()
    before = bisected.lines()
    capsys.readouterr()
    made = go_on(idle)
    assert made["answer"]["kind"] == "none"
    assert "the good end is bad" in capsys.readouterr().out
    assert bisected.lines() == before


def test_one_thing_is_asked_at_a_time(idle: Project) -> None:
    for wish in (task.Wish(go_on=True, abort=True), task.Wish(log=True, go_on=True)):
        with pytest.raises(DeclarationError, match="do not go together"):
            task.run(idle, Question("r", "", ""), wish, Console())
    with pytest.raises(DeclarationError, match="--continue and --bad do not go together"):
        task.run(idle, Question("r", "base", "r", test="true"), task.Wish(go_on=True), Console())
    with pytest.raises(DeclarationError, match="nothing is asked for"):
        task.run(idle, Question("r", "", ""), task.Wish(), Console())


# -- something changed -------------------------------------------------------------------------------------------------


def test_continue_is_refused_when_a_patch_was_changed_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    project = numbered(tmp_path / "clone", 6)
    bisected = asked(project, tmp_path / "ran", "test ! -e f02.py")
    expected, _ = bisected.undisturbed()
    interrupt(bisected, 3)
    before = bisected.lines()
    diff = project.workspace.patches / "p06" / "it.patch"
    whole = diff.read_bytes()
    diff.write_bytes(adding("f06.py", "x = 66"))
    with pytest.raises(DeclarationError, match="not what it was when this bisection began") as caught:
        go_on(again(project))
    assert "./inv bisect --abort" in caught.value.next
    assert bisected.lines() == before
    diff.write_bytes(whole)
    assert told(go_on(again(project))) == expected


def test_after_a_refused_continue_and_an_abort_results_that_still_hold_are_known(tmp_path: Path) -> None:
    project = numbered(tmp_path / "clone", 6)
    bisected = asked(project, tmp_path / "ran", "test ! -e f02.py")
    interrupt(bisected, 3)
    (project.workspace.patches / "p06" / "it.patch").write_bytes(adding("f06.py", "x = 66"))
    with pytest.raises(DeclarationError):
        go_on(again(project))
    abort(project)
    made = document(again(project), **bisected.flags)
    assert ids(made["answer"]["patches"]) == ["p02"]
    assert {step["role"]: step["known"] for step in made["steps"][:3]} == {
        "good end": True,
        "bad end": False,
        "patches": True,
    }


def test_continue_is_refused_when_the_script_or_the_environment_is_another(
    idle: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "test.sh"
    script.write_text("test ! -e f02.py\n")
    bisected = Bisected(idle, {"test": f"sh {script}"}, tmp_path / "ran")
    interrupt(bisected, 3)
    with monkeypatch.context() as patched:
        patched.setenv("VLLM_USE_SOMETHING", "1")
        with pytest.raises(DeclarationError, match="not what it was"):
            go_on(idle)
    script.write_text("test ! -e f03.py\n")
    with pytest.raises(DeclarationError, match="not what it was"):
        go_on(idle)
    script.write_text("test ! -e f02.py\n")
    assert ids(go_on(idle)["answer"]["patches"]) == ["p02"]
