"""What a bisection remembers: one JSON file, written whole or not at all after each run of the test, and read strictly.

``work/bisect/state.json``::

    { "format": 1,
      "question": {…},                  the flags as they were given
      "fingerprint": HASH,              of both ends, the declarations and the test: another one is another question
      "steps": [ { "role", "label", "release", "patches": [ID], "tree": TREE or "", "stuck": TEXT, "known": bool,
                   "seconds": wall time of the whole step } ],
      "runs": { TREE: [ { "result", "reason", "seconds", "log", "known" } ] },
      "answer": null or the document that was shown at the end }

Beside it lies what each run printed. Everything else is computed anew, and comes out the same.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from patchset.bisect.evidence import Result, Tally, tally
from patchset.errors import DeclarationError
from patchset.workspace import UNREADABLE, read_json, write_atomically

FORMAT = 1
_LIMIT = 64 * 1024 * 1024
_KEYS = {"format", "question", "fingerprint", "steps", "runs", "answer"}


@dataclass(frozen=True)
class Question:
    """What is asked, as flags. ``good`` may be empty for a single step (``at``); times are in seconds; ``here``: where it was asked."""

    recipe: str
    good: str
    bad: str
    at: str = ""
    over: str = ""
    test: str = "smoke"
    stage: str = "tree"
    series: str = ""
    repeat: int = 1
    timeout: float = 1800.0
    jobs: int = 1
    minimize: bool = False
    drop_one: bool = False
    history: str = ""
    here: str = ""


@dataclass(frozen=True)
class RunRecord:
    """One run of the test. ``known``: it was run in an earlier bisection, with the same tree, test and environment."""

    result: Result
    reason: str
    seconds: float
    log: str
    known: bool


@dataclass(frozen=True)
class StepRecord:
    """One state that was looked at: why (``role``), what it is, and its tree; ``stuck`` says why it has none.

    ``seconds`` is the wall time of the step, its runs included.
    """

    role: str
    label: str
    release: str
    patches: tuple[str, ...]
    tree: str
    stuck: str
    seconds: float


@dataclass
class Record:
    """All of it; :meth:`save` after each change."""

    file: Path
    question: Question
    fingerprint: str
    steps: list[StepRecord] = field(default_factory=list)
    runs: dict[str, list[RunRecord]] = field(default_factory=dict)
    answer: dict[str, Any] | None = None

    def save(self) -> None:
        """Write it."""
        document = {
            "format": FORMAT,
            "question": asdict(self.question),
            "fingerprint": self.fingerprint,
            "steps": [vars(step) for step in self.steps],  # asdict copies deeply, which took longer than the rest
            "runs": {tree: [run_as_json(run) for run in runs] for tree, runs in self.runs.items()},
            "answer": self.answer,
        }
        write_atomically(self.file, json.dumps(document).encode())

    def tally(self, tree: str) -> Tally:
        """What the runs on *tree* say."""
        return tally([run.result for run in self.runs.get(tree, [])])

    @property
    def mixed(self) -> bool:
        """Did the test both pass and fail on one tree?"""
        return any(self.tally(tree).mixed for tree in self.runs)


def run_as_json(run: RunRecord) -> dict[str, Any]:
    """*run* as JSON."""
    return {**vars(run), "result": run.result.value}


def run_of_json(data: dict[str, Any], *, known: bool | None = None) -> RunRecord:
    """The run in *data*.

    :raises ValueError, KeyError, TypeError: it is none.
    """
    return RunRecord(
        Result(data["result"]),
        str(data["reason"]),
        float(data["seconds"]),
        str(data["log"]),
        bool(data["known"]) if known is None else known,
    )


#: A field's annotation → what JSON may have for it.
_JSON = {"str": (str,), "bool": (bool,), "int": (int,), "float": (float, int), "tuple[str, ...]": (list,)}
_Kind = TypeVar("_Kind", Question, StepRecord)


def _strictly(kind: type[_Kind], data: dict[str, Any]) -> _Kind:
    """A *kind* with the fields in *data*, each of its own type.

    :raises ValueError, KeyError, TypeError, AttributeError: it is none.
    """
    for name, annotation in ((item.name, str(item.type)) for item in fields(kind)):
        if type(data[name]) not in _JSON[annotation]:
            raise TypeError(f"{name} is no {annotation}")
    values = {name: tuple(map(str, value)) if isinstance(value, list) else value for name, value in data.items()}
    return kind(**values)


def read_record(file: Path) -> Record | None:
    """What *file* holds, or None if there is no bisection.

    :raises DeclarationError: it is damaged.
    """
    if not file.exists():
        return None
    try:
        data = read_json(file, _LIMIT)
        if data["format"] != FORMAT or set(data) != _KEYS:
            raise ValueError(f"not of format {FORMAT}")
        steps = [_strictly(StepRecord, step) for step in data["steps"]]
        runs = {str(tree): [run_of_json(run) for run in runs] for tree, runs in data["runs"].items()}
        answer = data["answer"]
        if answer is not None and not isinstance(answer, dict):
            raise TypeError("the answer is no document")
        return Record(file, _strictly(Question, data["question"]), str(data["fingerprint"]), steps, runs, answer)
    except UNREADABLE as error:
        raise DeclarationError(
            f"the state of the bisection cannot be read: {error}",
            where=str(file),
            next="./inv bisect --abort; what was run is known, and is not run again",
        ) from error
