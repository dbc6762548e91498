"""What the bump's tasks say at their end: for a person as tables, for a program as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchset.bump.carry import Carried
from patchset.bump.flow import Bumped, Stopped
from patchset.bump.state import State
from patchset.console import Console, relative
from patchset.receipt import describe_omitted


def show(console: Console, result: Bumped | Stopped, root: Path) -> None:
    """The end of a step of a bump: done, or waiting for a person."""
    if isinstance(result, Stopped):
        _show_stopped(console, result, root)
    else:
        _show_bumped(console, result, root)


def show_status(console: Console, state: State | None, directory: Path | None) -> None:
    """The end of ``inv bump --status``."""
    waiting = state.waiting if state else None
    console.json(
        {
            "under_way": state is not None,
            **({"recipe": state.recipe, "to": state.to, "name": state.name} if state else {}),
            "resolved": sorted(state.resolved) if state else [],
            "skipped": dict(state.skipped) if state else {},
            "waits_for": waiting.patch if waiting else None,
            "files": list(waiting.paths) if waiting else [],
            "checkout": str(directory) if waiting else None,
        }
    )
    if state is None:
        console.line("no bump is under way")
        return
    console.line(f"{state.recipe} to {state.to}, as {state.name}")
    for patch in state.resolved:
        console.line(f"  resolved  {patch}")
    for patch, reason in state.skipped.items():
        console.line(f"  skipped   {patch}: {reason}")
    if waiting:
        console.line(f"  waits for {waiting.patch}: {', '.join(waiting.paths)} in {directory}")
        console.line("next: resolve, then ./inv bump --continue (or --skip REASON, --restart, --abort)")
    else:
        console.line("next: ./inv bump --continue (it was interrupted; nothing is lost)")


def show_aborted(console: Console, state: State) -> None:
    """The end of ``inv bump --abort``."""
    console.json({"aborted": state.name, "recipe": state.recipe, "to": state.to})
    console.line(f"the bump of {state.recipe} to {state.to} is ended; recipes and patches are as they were")


def _show_bumped(console: Console, done: Bumped, root: Path) -> None:
    retired = dict(done.retired)
    console.json(
        {
            "done": True,
            "recipe": done.recipe,
            "release": done.release,
            "series": [
                {
                    **_described(item),
                    "retired": retired.get(item.patch),
                    "decision": next(p.decision.text for p in done.proofs if p.step.patch == item.patch),
                }
                for item in done.carried
            ],
            "omitted": describe_omitted(done.exposures),
            "reused": list(done.reused),
            "tree": done.tree,
            "version": done.version,
            "written": [relative(path, root) for path in done.written],
        }
    )
    console.line(f"{done.recipe}: vLLM {done.release}, tree {done.tree[:12]}")
    proofs = {proof.step.patch: proof for proof in done.proofs}
    rows = [
        [
            item.patch,
            item.outcome.value,
            item.how,
            "retired" if item.patch in retired else proofs[item.patch].decision.text,
        ]
        for item in done.carried
    ]
    rows += [
        [item.patch, "omitted", item.reason, f"its probe says {item.finding.verdict.value}"] for item in done.exposures
    ]
    console.table(["patch", "outcome", "how", "so"], rows)
    _show_reused(console, done.reused)
    for path in done.written:
        console.line(f"  {'wrote' if path.exists() else 'removed'}  {relative(path, root)}")
    if not done.written:
        console.line(f"{done.recipe} is there already, and up to date")
    console.line(f"next: ./inv runtime -r {done.recipe}")


def _show_stopped(console: Console, stopped: Stopped, root: Path) -> None:
    clash, directory = stopped.clash, relative(stopped.directory, root)
    console.json(
        {
            "done": False,
            "recipe": stopped.state.name,
            "release": stopped.state.to,
            "series": [_described(item) for item in stopped.carried],
            "waits_for": clash.patch,
            "why": clash.why,
            "source": clash.source,
            "files": list(clash.merged.conflicts),
            "checkout": str(stopped.directory),
            "reused": list(stopped.reused),
        }
    )
    for item in stopped.carried:
        console.line(f"  {item.patch}: {item.outcome.value}, {item.how}")
    _show_reused(console, stopped.reused)
    console.line(f"{clash.patch} needs you: {clash.why}")
    for path in clash.merged.conflicts:
        console.line(f"  {directory}/{path}")
    if clash.merged.conflicts:
        console.line(
            f"Between the markers stand vLLM {stopped.state.to} with the series so far, their common base "
            f"(vLLM {clash.source}), and the patch."
        )
        console.line(
            f"The three sides are in the index too: git -C {directory} status, mergetool, checkout --ours PATH"
        )
        console.line("next: resolve them there (git add is not needed), then ./inv bump --continue")
    else:
        console.line(f"next: edit {directory}, where all that merged is staged; then ./inv bump --continue")
    console.line('      or leave the patch out: ./inv bump --skip "REASON"; begin again: --restart; give up: --abort')


def _show_reused(console: Console, reused: Sequence[str]) -> None:
    for line in reused:
        console.line(f"  {line}")


def _described(item: Carried) -> dict[str, Any]:
    return {"patch": item.patch, "outcome": item.outcome.value, "how": item.how, "tree": item.tree}
