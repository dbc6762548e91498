"""What an engine's tokens are beside those of the run without speculation, and the cell of a table that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from patchset.patch_proof import Verdict

#: Two logits this near are a tie: the engine computes in float32, and what goes into its recurrence is rounded to bfloat16, which
#: the order of a sum can tip by a last place, 2**-8.
TIE = 2.0**-8
_TEXT = 400


@dataclass(frozen=True)
class Reference:
    """One prompt without speculation: its tokens, and at each how far the best other one is below, and which that is."""

    tokens: tuple[int, ...]
    gaps: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class Ran:
    """One scenario: the tokens of each prompt; how many groups with drafts there were, how many of these short, and how many
    decodes of a ``single`` token without drafts."""

    tokens: tuple[tuple[int, ...], ...]
    groups: int
    short: int
    single: int


@dataclass(frozen=True)
class Died:
    """A scenario that killed the engine, with what it said."""

    message: str


@dataclass(frozen=True)
class NotRun:
    """A scenario that says nothing, and why."""

    why: str


Outcome = Ran | Died | NotRun


@dataclass(frozen=True)
class Compared:
    """``equal`` tokens of ``of`` are the reference's; after those comes a ``tie``, a token that is ``wrong``, or neither: the end."""

    equal: int
    of: int
    tie: bool = False
    wrong: bool = False


def compare(reference: Reference, tokens: Sequence[int]) -> Compared:
    """*tokens* beside the reference's: after a tie another token may follow, and everything behind it is another text."""
    of = len(reference.tokens)
    for index, (wanted, got) in enumerate(zip(reference.tokens, tokens, strict=False)):
        if wanted != got:
            gap, other = reference.gaps[index]
            tie = gap <= TIE and got == other
            return Compared(index, of, tie=tie, wrong=not tie)
    equal = min(of, len(tokens))
    return Compared(equal, of, wrong=len(tokens) != of)


def cell(outcome: Outcome, references: Sequence[Reference]) -> dict[str, Any]:
    """The table's cell for *outcome*, whose prompts are those of *references*."""
    if isinstance(outcome, NotRun):
        return _cell(Verdict.NOT_RUN, outcome.why)
    if isinstance(outcome, Died):
        return _cell(Verdict.DIES, outcome.message)
    found = [compare(reference, tokens) for reference, tokens in zip(references, outcome.tokens, strict=True)]
    short = f"{outcome.short} short of {outcome.groups} groups, {outcome.single} single tokens"
    wrong = [one for one in found if one.wrong]
    if wrong:
        first = min(wrong, key=lambda one: one.equal / one.of)
        text = f"wrong at token {first.equal + 1} of {first.of}, in {len(wrong)} of {len(found)} requests ({short})"
        return _cell(Verdict.WRONG, text)
    equal, of, ties = sum(one.equal for one in found), sum(one.of for one in found), sum(one.tie for one in found)
    if not equal:
        return _cell(Verdict.NOT_RUN, "two logits tie at every first token, so nothing could be compared")
    behind = f"; behind a tie in {ties} of {len(found)} requests the rest is another text" if ties else ""
    return _cell(Verdict.GOOD, f"equal, {equal} of {of} tokens, {short}{behind}")


def _cell(verdict: Verdict, text: str) -> dict[str, Any]:
    return {"verdict": verdict.value, "text": text.strip()[:_TEXT] or "no word of why"}


def is_proved(rows: Sequence[dict[str, Any]], ours: Sequence[Outcome]) -> bool:
    """The last column is good in every row, its engine met short groups, and the first column died: the check was at work."""
    cells = [row["cells"] for row in rows]
    return (
        bool(cells)
        and all(row[-1]["verdict"] == Verdict.GOOD.value for row in cells)
        and any(row[0]["verdict"] == Verdict.DIES.value for row in cells)
        and any(isinstance(one, Ran) and one.short for one in ours)
    )


def read_references(entries: object, prompts: int) -> list[Reference]:
    """The reference run's entries, one a prompt, strictly.

    :raises ValueError, KeyError, TypeError: it is none: an engine without drafts that does not run is a fault of the proof.
    """
    if not isinstance(entries, list) or len(entries) != prompts:
        raise ValueError(f"the run without speculation has not {prompts} entries: {str(entries)[:200]}")
    found = []
    for entry in entries:
        if "tokens" not in entry:
            raise ValueError(f"the run without speculation did not end well: {str(entry)[:200]}")
        ((tokens,), (gaps,)) = (entry["tokens"], entry["gaps"])
        if len(gaps) != len(tokens) or not tokens:
            raise ValueError("the run without speculation has tokens without their gaps")
        found.append(Reference(_ids(tokens), tuple((float(gap), *_ids([other])) for gap, other in gaps)))
    return found


def read_outcomes(entries: object, scenarios: int, prompts: int) -> list[Outcome]:
    """An engine's entries, one a scenario, strictly. An engine that did not start has no outcome.

    :raises ValueError, KeyError, TypeError: they are none.
    """
    if isinstance(entries, dict):
        return [NotRun(f"the engine did not start: {_said(entries)}")] * scenarios
    if not isinstance(entries, list) or len(entries) != scenarios:
        raise ValueError(f"not {scenarios} scenarios")
    return [_outcome(entry, prompts) for entry in entries]


def _outcome(entry: dict[str, Any], prompts: int) -> Outcome:
    if "died" in entry:
        return Died(_said(entry))
    if "late" in entry:
        return NotRun(_said(entry))
    if len(entry["tokens"]) != prompts:
        raise ValueError(f"tokens for {len(entry['tokens'])} of {prompts} prompts")
    counts = _ids([entry[name] for name in ("groups", "short", "single")])
    return Ran(tuple(_ids(tokens) for tokens in entry["tokens"]), *counts)


def _said(entry: dict[str, Any]) -> str:
    text = entry.get("died") or entry.get("late")
    if not isinstance(text, str):
        raise ValueError(f"neither a death nor a reason: {str(entry)[:200]}")
    return text


def _ids(values: Sequence[object]) -> tuple[int, ...]:
    if not all(type(value) is int and 0 <= value < 1 << 31 for value in values):
        raise ValueError(f"not counts: {str(values)[:100]}")
    return tuple(values)  # type: ignore[arg-type]
