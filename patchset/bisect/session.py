"""Runs the test where a search asks for it, once for each tree, and remembers what came out."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from patchset.bisect.evidence import Tally, Verdict, side
from patchset.bisect.record import Record, RunRecord, StepRecord, run_as_json, run_of_json
from patchset.bisect.search import ahead, narrow, relevant
from patchset.bisect.states import State, Stuck, Trees
from patchset.bisect.trial import Slot, Subject, Trial
from patchset.errors import PatchsetError
from patchset.store.worktrees import Worktree
from patchset.workspace import UNREADABLE, digest, write_atomically


class _Cancelled(Exception):
    """The run was killed because nobody needs its result any more."""


class Session:
    """A question under way.

    :ivar record: what is known; saved after each run.
    :param cache: results of earlier bisections, by tree, test and environment; None reuses none and keeps none.
    :param logs: where the output of runs goes.
    :param scratch: where worktrees are made.
    :param say: one line a step.
    """

    def __init__(
        self,
        record: Record,
        trial: Trial,
        trees: Trees,
        *,
        cache: Path | None,
        logs: Path,
        scratch: Path,
        say: Callable[[str], None],
    ) -> None:
        self.record = record
        self.trees = trees
        self._trial = trial
        self._cache = cache
        self._logs = logs
        self._scratch = scratch
        self._say = say
        self._lock = threading.RLock()
        self._slots: list[Slot] = []
        self._made = 0
        self._preparing: threading.Thread | None = None
        # the states that this process judged: of the others not even a tree is made to see what is known of them
        self._looked: set[tuple[object, ...]] = set()

    def prepare(self, state: State) -> None:
        """Begin to write a worktree of *state*, if it is to be tested in one: the next ones are made of it in no time."""
        tree = self.trees.of(state)
        if self._preparing or self._slots or not self._trial.needs_worktree or isinstance(tree, Stuck):
            return
        if tree in self.record.runs or self._kept_runs(tree):
            return

        def write() -> None:
            slot = self._new_slot()
            with suppress(PatchsetError):  # the step that needs it says what is wrong
                slot.worktree.hold(tree)
            with self._lock:
                self._slots.append(slot)

        self._preparing = threading.Thread(target=write)
        self._preparing.start()

    def close(self) -> None:
        """Wait for what goes on in the background."""
        if self._preparing:
            self._preparing.join()

    # -- one state -----------------------------------------------------------------------------------------------------

    def tally(self, state: State) -> Tally | None:
        """What is known of *state*; None if it was not tested, or has no tree."""
        tree = self.trees.of(state)
        return None if isinstance(tree, Stuck) or tree not in self.record.runs else self.record.tally(tree)

    def judge(self, state: State, role: str, runs: int = 0) -> Tally:
        """Test *state* until it has that many *runs* (default: as many as were asked for); what is known counts.

        A state without a tree has an empty tally, and so has one on which the test says nothing.
        """
        return self._judge(state, role, runs or self.record.question.repeat, _Killer())

    def _judge(self, state: State, role: str, wanted: int, killer: _Killer) -> Tally:
        self.close()  # the first worktree is no part of a step
        began = time.monotonic()
        tree = self.trees.of(state)
        if isinstance(tree, Stuck):
            self._remember(state, role, "", f"{tree.patch}: {tree.why}", began)
            self._looked.add(state.key)
            return Tally()
        with self._lock:
            if tree not in self.record.runs and self._recall(tree) and self._enough(tree, wanted):
                self._remember(state, role, tree, "", began)
        if not self._enough(tree, wanted):
            slot = self._take_slot()
            try:
                while not self._enough(tree, wanted):
                    done = self._run(state, tree, slot, killer)
                    with self._lock:
                        self.record.runs.setdefault(tree, []).append(done)
                        # the last run and its step are written at once: a kill leaves both or none
                        if self._enough(tree, wanted):
                            self._remember(state, role, tree, "", began)
                        else:
                            self.record.save()
            finally:
                with self._lock:
                    self._slots.append(slot)
        self._looked.add(state.key)
        return self.record.tally(tree)

    def _enough(self, tree: str, wanted: int) -> bool:
        known = self.record.tally(tree)
        return known.runs >= wanted or known.other is not None

    def _run(self, state: State, tree: str, slot: Slot, killer: _Killer) -> RunRecord:
        with self._lock:
            self._made += 1
            log = self._logs / f"{time.strftime('%H%M%S')}-{self._made:03}-{tree[:12]}.log"
            step = len(self.record.steps) + 1
        question = self.record.question
        subject = Subject(tree, state.release, question.recipe, state.patches, step)
        run = self._trial.run(subject, slot, log, killer.started)
        if killer.killed:
            log.unlink(missing_ok=True)
            raise _Cancelled
        return RunRecord(run.result, run.reason, round(run.seconds, 3), str(log), False)

    def _remember(self, state: State, role: str, tree: str, stuck: str, began: float) -> None:
        """The step, shown and kept. One that a killed run had shown already is not told twice."""
        step = StepRecord(
            role, state.label, state.release, state.patches, tree, stuck, round(time.monotonic() - began, 3)
        )
        with self._lock:
            same = [old for old in self.record.steps if replace(old, seconds=step.seconds) == step]
            told = bool(same) and role != "confirm"
            if not told:
                self.record.steps.append(step)
            if tree:
                self._keep(tree)  # before the state: then what the state has is known for ever, also after --abort
            self.record.save()
            if not told:
                self._say(f"  step {len(self.record.steps)} ({role}): {state.label}: {self._told(tree, stuck)}")

    def _told(self, tree: str, stuck: str) -> str:
        if stuck:
            return f"{Verdict.CANNOT_APPLY.value}: {stuck}"
        runs, seen = self.record.runs[tree], self.record.tally(tree)
        count = f" {seen.failed} of {seen.runs} failed;" if seen.runs > 1 else ""
        known = " known from before;" if all(run.known for run in runs) else ""
        return f"{seen.verdict.value}:{count}{known} {runs[-1].reason}"

    def _take_slot(self) -> Slot:
        with self._lock:
            return self._slots.pop() if self._slots else self._new_slot()

    def _new_slot(self) -> Slot:
        folder = self._scratch / f"slot{threading.get_ident():x}-{time.monotonic_ns():x}"
        folder.mkdir()
        return Slot(Worktree(self.trees.store, folder / "tree"), folder)

    # -- results of earlier bisections ---------------------------------------------------------------------------------

    def _kept(self, tree: str) -> Path | None:
        return self._cache / digest([tree, self._trial.identity]) if self._cache else None

    def _recall(self, tree: str) -> bool:
        runs = self._kept_runs(tree)
        if runs:
            self.record.runs[tree] = runs
        return bool(runs)

    def _kept_runs(self, tree: str) -> list[RunRecord]:
        kept = self._kept(tree)
        try:
            known = json.loads((kept / "runs.json").read_bytes()) if kept else []
            return [run_of_json(item, known=True) for item in known]
        except UNREADABLE:
            return []

    def _keep(self, tree: str) -> None:
        """Keep the runs that say something, with what they printed, for later bisections."""
        kept = self._kept(tree)
        runs = [run for run in self.record.runs[tree] if run.result.judges]
        if not kept or not runs or all(run.known for run in runs):
            return
        kept.mkdir(parents=True, exist_ok=True)
        for number, run in enumerate(runs):
            copy = kept / f"{number}.log"
            if not run.known and Path(run.log).is_file():
                shutil.copyfile(run.log, copy)
            runs[number] = replace(run, log=str(copy))
        write_atomically(kept / "runs.json", json.dumps([run_as_json(run) for run in runs]).encode())

    # -- many states ---------------------------------------------------------------------------------------------------

    def sides(self, line: Sequence[State]) -> dict[int, bool | None]:
        """Position → good (True), bad (False) or nothing, for those states of *line* that were tested."""
        good, bad = self.tally(line[0]) or Tally(), self.tally(line[-1]) or Tally()
        found: dict[int, bool | None] = {}
        for position, state in enumerate(line[1:-1], 1):
            if state.key not in self._looked:
                continue  # its tree may not even have been made: there can be thousands of commits
            seen = self.tally(state)
            if seen is None:
                found[position] = None
            elif self._settled(seen):
                found[position] = side(seen, good, bad)
        return found

    def _settled(self, seen: Tally) -> bool:
        return seen.runs >= self.record.question.repeat or seen.other is not None

    def look(self, line: Sequence[State], role: str) -> None:
        """Test states of *line* until one change, or a span nothing can be said of, is left between good and bad.

        With several jobs the states that follow are started before it is known that they are needed; those that turn out
        not to be are killed, and leave nothing.
        """
        last, jobs = len(line) - 1, self.record.question.jobs
        with ThreadPoolExecutor(jobs) as pool:
            running: dict[Future[Tally], tuple[int, _Killer]] = {}
            try:
                while True:
                    found = self.sides(line)
                    for position, killer in running.values():
                        if not relevant(last, found, position):
                            killer.kill()
                    if narrow(last, found).next is None:
                        break
                    for position in ahead(last, found, jobs):
                        if len(running) < jobs and position not in [at for at, _ in running.values()]:
                            killer = _Killer()
                            wanted = self.record.question.repeat
                            running[pool.submit(self._judge, line[position], role, wanted, killer)] = (position, killer)
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        running.pop(future)
                        _result(future)
            finally:
                for _, killer in running.values():
                    killer.kill()
            for future in running:
                _result(future)


def _result(future: Future[Tally]) -> None:
    try:
        future.result()
    except _Cancelled:
        pass


class _Killer:
    """Ends what a worker started, from another thread, also if it is only about to be started."""

    def __init__(self) -> None:
        self.killed = False
        self._lock = threading.Lock()
        self._kill: Callable[[], None] = lambda: None

    def started(self, kill: Callable[[], None]) -> None:
        with self._lock:
            self._kill = kill
            if self.killed:
                kill()

    def kill(self) -> None:
        with self._lock:
            self.killed = True
            self._kill()
