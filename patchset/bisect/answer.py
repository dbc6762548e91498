"""The document that a bisection ends with; ``bisect.schema.json`` describes it. For a person: ``show``, ``page``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from packaging.version import Version

from patchset.bisect.evidence import Tally, Verdict, chance
from patchset.bisect.flow import Dropped, Found, Minimal, Pair
from patchset.bisect.line import Edit, Element
from patchset.bisect.record import Record, StepRecord, run_as_json
from patchset.bisect.search import bound
from patchset.bisect.session import Session
from patchset.bisect.states import State, Stuck, Trees
from patchset.errors import PatchsetError
from patchset.patch import Patch
from patchset.store import Store

FORMAT = 1
SCHEMA = Path(__file__).with_name("bisect.schema.json")

#: Roles of steps that are part of the search proper: what ceil(log2(n)) is said of.
_SEARCH = ("patches", "releases")


def document(session: Session, answer: dict[str, Any]) -> dict[str, Any]:
    """Everything: the question, the *answer*, and each step with its runs."""
    record = session.record
    return {
        "format": FORMAT,
        "question": asdict(record.question),
        "answer": answer,
        "steps": steps(record),
    }


def steps(record: Record) -> list[dict[str, Any]]:
    """The steps so far, as JSON. A step's ``overhead`` is its time less that of its runs, in seconds."""
    return [_step(number, step, record) for number, step in enumerate(record.steps, 1)]


def _step(number: int, step: StepRecord, record: Record) -> dict[str, Any]:
    runs = record.runs.get(step.tree, [])
    seen = record.tally(step.tree)
    verdict = Verdict.CANNOT_APPLY if step.stuck else seen.verdict
    own = sum(run.seconds for run in runs if not run.known)
    return {
        "number": number,
        "role": step.role,
        "label": step.label,
        "release": step.release,
        "patches": list(step.patches),
        "tree": step.tree,
        "verdict": verdict.value,
        "reason": step.stuck or (runs[-1].reason if runs else ""),
        "failed": seen.failed,
        "runs": [run_as_json(run) for run in runs],
        "known": bool(runs) and all(run.known for run in runs),
        "seconds": step.seconds,
        "overhead": round(max(step.seconds - own, 0.0), 3),
        "again": again(record, step.tree, step.release) if step.tree else "",
    }


def again(record: Record, tree: str, release: str) -> str:
    """The command that runs the test once more on one tree."""
    question = record.question
    words = ["./inv", "bisect", "-r", question.recipe, "--at", f"tree:{tree[:12]}@{release}", "--test", question.test]
    words += ["--stage", question.stage] if question.stage != "tree" else []
    return shlex.join([*words, "--fresh"])


# -- answers -----------------------------------------------------------------------------------------------------------


def found(session: Session, result: Found, home: Sequence[str]) -> dict[str, Any]:
    """Where it turned from good to bad, with both neighbours; *home* are the files that the recipe's series touches."""
    line, store = result.line, session.trees.store
    states = [line[result.good], line[result.bad]]
    tallies = [session.tally(state) or Tally() for state in states]
    searched = [step for step in session.record.steps if step.role == result.axis]
    described = {
        "kind": result.kind,
        "axis": result.axis,
        "changes": len(line) - 1,
        "line": [state.label for state in line],
        "at": {"good": result.good, "bad": result.bad},
        "tests": sum(1 for step in searched if step.tree),
        "bound": bound(len(line) - 1),
        "good": _neighbour(session, line[result.good]),
        "bad": _neighbour(session, line[result.bad]),
        "between": [
            {"label": state.label, "why": _silent(session, state)} for state in line[result.good + 1 : result.bad]
        ],
        "chance": chance(*tallies) if result.kind == "flaky" else None,
    }
    if result.axis == "patches":
        described["patches"] = [
            _edit(store, session.trees, edit, line[at - 1], line[at])
            for at, edit in enumerate(result.edits)
            if edit and result.good < at <= result.bad
        ]
    else:
        described["releases"] = _releases(store, session.trees, states, home)
    return described


def pair(session: Session, result: Pair, home: Sequence[str]) -> dict[str, Any]:
    """A release and a patch that are bad only together."""
    return {
        "kind": "pair" if result.patches and result.patches.kind == "change" else "span",
        "axis": "both",
        "alone": result.alone,
        "release": found(session, result.release, home),
        "patch": found(session, result.patches, home) if result.patches else None,
    }


def minimal(session: Session, result: Minimal) -> dict[str, Any]:
    """The smallest set that shows the fault, that each smaller one does not, and what cures it."""
    return {
        "kind": "set",
        "axis": "minimize",
        "patches": [_patch(element) for element in result.patches],
        "cured": [_patch(element) for element in result.cured],
        "bad": _neighbour(session, result.state),
        "without": [
            {"patch": element.id, **_neighbour(session, state)}
            for element, state in zip(result.patches, result.without, strict=True)
        ],
        "tests": sum(1 for step in session.record.steps if step.role == "minimize" and step.tree),
    }


def dropped(session: Session, results: Sequence[Dropped]) -> dict[str, Any]:
    """What becomes of the fault without each patch."""
    return {
        "kind": "dropped",
        "axis": "drop one",
        "without": [{"patch": item.element.id, **_neighbour(session, item.state)} for item in results],
        "cure": [item.element.id for item in results if _verdict(session, item.state) is Verdict.GOOD],
    }


def single(session: Session, state: State) -> dict[str, Any]:
    """One step, and no search."""
    return {"kind": "step", "axis": "none", "step": _neighbour(session, state)}


def none(error: PatchsetError) -> dict[str, Any]:
    """There is no answer: the *error* that ended it."""
    return {"kind": "none", "axis": "none", "error": error.as_dict()}


def _neighbour(session: Session, state: State) -> dict[str, Any]:
    tree = session.trees.of(state)
    described: dict[str, Any] = {
        "label": state.label,
        "release": state.release,
        "patches": list(state.patches),
        "tree": "" if isinstance(tree, Stuck) else tree,
        "verdict": _verdict(session, state).value,
        "reason": _silent(session, state),
        "failed": 0,
        "runs": 0,
        "log": "",
        "again": "",
    }
    if not isinstance(tree, Stuck):
        seen, runs = session.record.tally(tree), session.record.runs.get(tree, [])
        described |= {
            "failed": seen.failed,
            "runs": seen.runs,
            "log": runs[-1].log if runs else "",
            "again": again(session.record, tree, state.release),
        }
    return described


def _verdict(session: Session, state: State) -> Verdict:
    tree = session.trees.of(state)
    return Verdict.CANNOT_APPLY if isinstance(tree, Stuck) else session.record.tally(tree).verdict


def _silent(session: Session, state: State) -> str:
    """Why nothing is said of *state*, or what its last run said."""
    tree = session.trees.of(state)
    if isinstance(tree, Stuck):
        return f"{tree.patch}: {tree.why}"
    runs = session.record.runs.get(tree, [])
    return runs[-1].reason if runs else "not tested"


def _edit(store: Store, trees: Trees, edit: Edit, before: State, after: State) -> dict[str, Any]:
    element = edit.new or edit.old
    described = {"edit": edit.kind, **(_patch(element) if element else {"id": "", "title": edit.text, "why": ""})}
    ends = [trees.of(state) for state in (before, after)]
    return {
        **described,
        "files": [] if any(isinstance(end, Stuck) for end in ends) else _files(store, str(ends[0]), str(ends[1])),
    }


def _patch(element: Element) -> dict[str, Any]:
    patch: Patch | None = element.patch
    if patch is None:
        return {"id": element.id, "title": f"{element.id} as the lock has it", "why": "", "kind": "", "references": []}
    return {
        "id": patch.id,
        "title": patch.title,
        "why": patch.why.strip(),
        "kind": patch.kind,
        "references": [asdict(reference) for reference in patch.references],
    }


def _files(store: Store, old: str, new: str) -> list[dict[str, Any]]:
    """Each file that differs, with the lines added and removed ('-' for what has no lines)."""
    counts = store.numstat(store.diff(old, new))
    return [{"path": path, "added": added, "removed": removed} for added, removed, path in counts]


def _releases(store: Store, trees: Trees, states: Sequence[State], home: Sequence[str]) -> dict[str, Any]:
    """What upstream changed between two releases, and which of it the series touches too."""
    old, new = (state.base for state in states)
    changed = store.changed_paths(old, new)
    ours = set(home)
    for state in states:
        tree = trees.of(state)
        ours |= set() if isinstance(tree, Stuck) else set(store.changed_paths(state.base, tree))
    return {
        "from": states[0].label,
        "to": states[1].label,
        "fixed": _is_newer(states[0].release, states[1].release),
        "changed": len(changed),
        "touched": sorted(ours & set(changed)),
    }


def _is_newer(good: str, bad: str) -> bool | None:
    """Did the fault go away from one release to the next, rather than come? None: both are commits of one."""
    return None if good == bad else Version(good) > Version(bad)


def settled(answer: dict[str, Any]) -> bool:
    """Is *answer* what was asked for, not only what is left of it?"""
    return answer["kind"] in ("change", "pair", "set", "dropped", "step")
