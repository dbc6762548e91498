"""Proof of mtp-boundary: three ways to meet a short speculative group, in every scenario that makes one.

Run as ``python -I -B proof.py BASE_TREE PATCHED_TREE``. The last line printed is one JSON object: title, columns, rows, notes, ok.
The float64 model of the XPU operator's contract, and what runs the tree's own metadata builder and operator call, are those of
probe.py beside this file. More is asked here than there: not only each accepted token's output, but after each step also both
states, where the next step reads them, must equal those of the same tokens taken one after the other without speculation.

The public approach (vllm pull request 55516) is made of the unpatched builder: a batch with a short group is built as if
nothing in it were speculative, so that each sequence reads and leaves one state, in column 0.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import multiprocessing
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

COLUMNS = ("unpatched", "public approach", "ours")
MIXED = "causal_conv1d does not support spec-decode and non-spec tokens in the same invocation"
CONTROL = "control: full groups beside a prefill"
#: Kinds of cases in the words of a cell.
TOLD = {"dies": "dead", "wrong": "wrong outputs", "state": "only the state wrong", "good": "right"}
PROMPT, RANDOM_BATCHES, SEED = 6, 40, 55516
NOTES = (
    "good: every accepted token's output, and after each step the recurrent and the convolution state in the column that the next "
    "step reads, equal those of a run of single tokens without speculation. Depth 3, so groups of 4; one head, float64.",
    "The builder and the operator call are the tree's own; the operator is a model of its contract for the kernels that the tree pins. "
    "Requests are cut as the scheduler cuts them at max_model_len; a request goes on after a rejected draft, and where it does not, "
    "nothing but a cache of prefixes reads a state that is wrong and whose outputs were right.",
    "Only the card can still disprove: that the operator keeps to this contract when rows of padding are in a group (reads and writes out "
    "of bounds; NaN from rows of zeros; the order of its work-groups), and its numbers in bfloat16.",
    "Only the card can still disprove: that the copies to the device which do not block are done before the operator reads them; graph "
    "replay, for which steps with short groups are not captured here; state blocks behind the 32-bit limit of an offset.",
)


def load_probe() -> ModuleType:
    """probe.py of this folder, as a module."""
    spec = importlib.util.spec_from_file_location("mtp_boundary_probe", Path(__file__).with_name("probe.py"))
    if spec is None or spec.loader is None:
        raise LookupError("probe.py is not beside proof.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


probe: Any = load_probe()
GROUP, Turn = probe.GROUP, probe.Turn


class Dies(Exception):
    """The operator refuses, or the tree's own code raises: the engine is dead."""


class Operator(probe.Operator):
    """The model, which also refuses what kernels 0.1.12 and 0.1.13 do: groups beside anything else."""

    def __call__(self, *tensors: Any, **named: Any) -> None:
        others = named["num_prefills"] + named["num_decodes"]
        if self.kernels.refuses_mixed and named["num_spec_decodes"] and others:
            raise Dies(MIXED)
        try:
            super().__call__(*tensors, **named)
        except probe.Wrong as error:
            raise Dies(str(error)) from error


class Lab(probe.Lab):
    """Batches of requests, whose states are looked at too."""

    stale: str
    compared: int

    def reset(self) -> None:
        super().reset()
        self.stale, self.compared = "", 0

    def step(self, *turns: Any, **_: Any) -> None:
        """One step. Raises Dies, or Wrong for an output; the first state that is not right is kept in ``stale``."""
        # Arguments without drafts are those of the tree's V1 runner, whose lines the probe ran.
        arguments = probe.ARGUMENTS if any(turn.drafts >= 0 for turn in turns) else self.v1_runner[1]
        super().step(*turns, arguments=arguments)
        for index, turn in enumerate(turns):
            self.compared += turn.right + 1
            self.look(index, turn)

    def look(self, index: int, turn: Any) -> None:
        request, column = turn.request, turn.request.accepted - 1
        window, state = unsplit(request)
        conv, recurrent = (tensor.numpy() for tensor in self.context.no_compile_layers[probe.LAYER].kv_cache)
        if self.operator.kernels.conv_in_one_line:
            kept = conv[request.blocks[0], column : column + probe.HISTORY]
        else:
            kept = conv[request.blocks[column], : probe.HISTORY]
        errors = {
            "recurrent": abs(recurrent[request.blocks[column], 0] - state).max(),
            "convolution": abs(kept - window).max(),
        }
        off = [name for name, error in errors.items() if not error < 1e-9]
        if off and not self.stale:
            what = f"{' and '.join(off)} state in column {column}, which the next step reads"
            self.stale = f"request {index} after {turn.tokens} tokens, {turn.right} right: {what}, is another"

    def turn(self, request: Any, tokens: int, right: int) -> Any:
        """A turn as the scheduler and the V1 runner give it: a decode of one token has no drafts."""
        return Turn(request, tokens, right, tokens - 1 if tokens > 1 else self.v1_runner[0])

    def full(self, request: Any, right: int) -> Any:
        return self.turn(request, GROUP, right)

    def prefill(self) -> Any:
        return Turn(self.request(), PROMPT, PROMPT, -1)


def unsplit(request: Any) -> tuple[Any, Any]:
    """Window and state after the request's computed tokens, one after the other without speculation."""
    window, state = np.zeros((probe.HISTORY, probe.CONV)), np.zeros((probe.HEAD, probe.HEAD))
    for qkvz, ba in zip(request.qkvz[: request.computed], request.ba[: request.computed]):
        _, window, state = probe.gated_delta_token(window, state, qkvz, ba)
    return window, state


# -- scenarios: each gives its cases, a name and a function of the lab ---------------------------------------------------

Cases = Iterator[tuple[str, Callable[[Lab], None]]]
ACCEPTED = range(1, GROUP + 1)
#: Lengths of a short group, and how many of its tokens are right.
SHORT = tuple((tokens, right) for tokens in range(1, GROUP) for right in range(1, tokens + 1))


def full_groups() -> Cases:
    def case(lab: Lab) -> None:
        one, other = lab.request(3), lab.request(1)
        for rights in ((4, 2), (1, 3), (2, 1)):
            lab.step(lab.full(one, rights[0]), lab.full(other, rights[1]))

    yield "batch 2", case


def full_and_prefill() -> Cases:
    for before in ACCEPTED:

        def case(lab: Lab, before: int = before) -> None:
            one = lab.request(before)
            lab.step(lab.full(one, 2), lab.prefill())
            lab.step(lab.full(one, 1))

        yield f"{before} accepted", case


def cut_alone(before: int) -> Cases:
    for tokens, right in SHORT:

        def case(lab: Lab, tokens: int = tokens, right: int = right) -> None:
            lab.step(lab.turn(lab.request(before), tokens, right))

        yield f"{tokens} tokens, {right} right", case


def twice() -> Cases:
    for before, left in itertools.product(ACCEPTED, range(2, GROUP)):

        def case(lab: Lab, before: int = before, left: int = left) -> None:
            request = lab.request(before)
            for tokens in range(left, 0, -1):
                lab.step(lab.turn(request, tokens, 1))

        yield f"{before} accepted, then {left}, {left - 1}, ... tokens with one right", case


def beside(company: Callable[[Lab], list[Any]], go_on: Callable[[Lab, list[Any]], list[Any]]) -> Cases:
    """A cut group, first or last in its batch; the others then go on."""
    for before, (tokens, right) in itertools.product(ACCEPTED, SHORT):

        def case(lab: Lab, before: int = before, tokens: int = tokens, right: int = right) -> None:
            short, others = lab.request(before), company(lab)
            turns = [lab.turn(short, tokens, right), *go_on(lab, others)]
            lab.step(*(turns[::-1] if (before + tokens) % 2 else turns))
            if others:
                lab.step(*go_on(lab, others))

        yield f"{before} accepted, {tokens} tokens, {right} right", case


def full_company(count: int) -> tuple[Any, Any]:
    def go_on(lab: Lab, others: list[Any]) -> list[Any]:
        return [lab.full(other, 1 + index) for index, other in enumerate(others)]

    return (lambda lab: [lab.request(2 + index) for index in range(count)]), go_on


def several_cut() -> Cases:
    for befores in itertools.product((1, 2, 4), repeat=2):

        def case(lab: Lab, befores: tuple[int, ...] = befores) -> None:
            one, two = (lab.request(before) for before in befores)
            three = lab.request(3)
            lab.step(lab.turn(one, 3, 1), lab.turn(two, 2, 2), lab.turn(three, 3, 3))
            lab.step(lab.turn(one, 2, 1))

        yield f"{befores} accepted", case


def uneven() -> Cases:
    """Groups trimmed by a grammar or given by n-grams, in mid-life: the request goes on with short and full ones."""
    for before, order in itertools.product(ACCEPTED, ((2, 4, 3), (3, 2, 4), (3, 3, 4), (2, 1, 4))):

        def case(lab: Lab, before: int = before, order: tuple[int, ...] = order) -> None:
            request = lab.request(before)
            for index, tokens in enumerate(order):
                lab.step(lab.turn(request, tokens, 1 + (before + index) % tokens))

        yield f"{before} accepted, then groups of {order}", case


def without_drafts(company: bool) -> Cases:
    for before in ACCEPTED:

        def case(lab: Lab, before: int = before) -> None:
            one, other = lab.request(before), lab.request(2) if company else None
            for tokens, right in ((1, 1), (1, 1), (GROUP, 3)):
                lab.step(lab.turn(one, tokens, right), *([lab.full(other, 1)] if other else []))

        yield f"{before} accepted, then single tokens", case


def random_batches() -> Cases:
    """One to four requests, drafts of any number, each to its own end."""
    for index in range(RANDOM_BATCHES):

        def case(lab: Lab, index: int = index) -> None:
            draw = np.random.default_rng([SEED, index])
            limits = {}
            for _ in range(int(draw.integers(1, 5))):
                request = lab.request(int(draw.integers(1, GROUP + 1)))
                limits[id(request)] = (request, request.computed + int(draw.integers(1, 12)))
            while alive := [(r, end - r.computed) for r, end in limits.values() if r.computed < end]:
                turns = []
                for request, left in alive:
                    tokens = min(left, GROUP if draw.random() < 0.6 else int(draw.integers(1, GROUP + 1)))
                    turns.append(lab.turn(request, tokens, int(draw.integers(1, tokens + 1))))
                lab.step(*turns)

        yield f"batch {index} of seed {SEED}", case


def plain_decodes(lab: Lab, others: list[Any]) -> list[Any]:
    return [Turn(other, 1, 1, -1) for other in others]


SCENARIOS: dict[str, Callable[[], Cases]] = {
    "control: full groups": full_groups,
    CONTROL: full_and_prefill,
    **{
        f"last group cut, batch 1, {before} accepted before": (lambda before=before: cut_alone(before))
        for before in ACCEPTED
    },
    "last group cut, again and again": twice,
    "last group cut beside a full group": lambda: beside(*full_company(1)),
    "last group cut beside three full groups": lambda: beside(*full_company(3)),
    "several groups cut in one batch": several_cut,
    "last group cut beside a prefill": lambda: beside(lambda lab: [], lambda lab, others: [lab.prefill()]),
    "last group cut beside plain decodes": lambda: beside(lambda lab: [lab.request(0), lab.request(0)], plain_decodes),
    "uneven groups in mid-life, batch 1": uneven,
    "steps without drafts, batch 1": lambda: without_drafts(False),
    "single tokens beside a full group": lambda: without_drafts(True),
    f"{RANDOM_BATCHES} random batches of 1-4, to their ends": random_batches,
}


# -- one column ----------------------------------------------------------------------------------------------------------


def whole_batch_as_prefill(build: Callable[..., Any]) -> Callable[..., Any]:
    """The public approach: no sequence of a batch with a short group is speculative."""

    def built(prefix: int, common: Any, **given: Any) -> Any:
        drafts = given.get("num_decode_draft_tokens_cpu")
        if drafts is not None and bool(((drafts >= 0) & (common.query_start_loc_cpu.diff() != GROUP)).any()):
            return build(prefix, common)
        return build(prefix, common, **given)

    return built


def outcome(lab: Lab, tree: Path, case: Callable[[Lab], None]) -> tuple[str, str]:
    """(verdict, reason) of one case; ``state``: wrong, though every output of the case is right."""
    lab.reset()
    try:
        case(lab)
    except Dies as error:
        return "dies", str(error)
    except probe.Wrong as error:
        return "wrong", str(error)
    except Exception as error:
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        own = [file for file in files if file in (__file__, probe.__file__, probe.OP_FILE) or str(tree) in file]
        if own[-1] in (__file__, probe.__file__):
            raise  # a fault of this proof says nothing of the tree
        return "dies", f"{type(error).__name__}: {error}"
    return ("state", lab.stale) if lab.stale else ("good", "")


def cell(lab: Lab, tree: Path, cases: Cases) -> dict[str, str]:
    found, compared = [], 0
    for name, case in cases:
        found.append((name, *outcome(lab, tree, case)))
        compared += lab.compared
    of = {kind: [item for item in found if item[1] == kind] for kind in ("dies", "wrong", "state", "good")}
    if len(of["good"]) == len(found):
        return {"verdict": "good", "text": f"cases: {len(found)}; outputs and states: {compared}"}
    kind = next(kind for kind, items in of.items() if items)
    counts = ", ".join(f"{TOLD[kind]} {len(items)}" for kind, items in of.items() if items)
    name, _, reason = of[kind][0]
    text = f"of {len(found)} cases {counts}; the first: {name}: {reason}"
    return {"verdict": "dies" if kind == "dies" else "wrong", "text": text}


def columns(tree: Path, approaches: tuple[str, ...]) -> dict[str, Any]:
    """The cells of each of *approaches* on *tree*, and its kernels. Runs in a process of its own: two trees have one name."""
    kernels, sys.path[:0], sys.meta_path[:0] = probe.kernels_of(tree), [str(tree)], [probe.StubFinder()]
    probe.Operator = Operator
    lab, result = Lab(tree, kernels), {}
    build = lab.builder.build
    for approach in approaches:
        lab.builder.build = whole_batch_as_prefill(build) if approach == COLUMNS[1] else build
        result[approach] = {name: cell(lab, tree, cases()) for name, cases in SCENARIOS.items()}
    return {"kernels": kernels.version, "refuses_mixed": kernels.refuses_mixed, "cells": result}


def prove(base: Path, patched: Path) -> dict[str, Any]:
    """The table, as the object to print."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(columns, base, COLUMNS[:2]), pool.submit(columns, patched, COLUMNS[2:])]
        before, after = (future.result() for future in futures)
    cells = {**before["cells"], **after["cells"]}
    rows = [{"name": name, "cells": [cells[column][name] for column in COLUMNS]} for name in SCENARIOS]
    limited = after["refuses_mixed"] and cells["ours"][CONTROL]["verdict"] == "dies"
    notes = list(NOTES)
    if limited:
        notes.append(
            f"Kernels {after['kernels']} refuse speculative groups beside anything else, so full ones too, see the control row; "
            "ours dies beside a prefill as they do, which no patch of vLLM's metadata alone can lift."
        )
    good = all(
        row["cells"][-1]["verdict"] == "good"
        or (
            limited
            and row["cells"][-1]["verdict"] == "dies"
            and MIXED in row["cells"][-1]["text"]
            and "prefill" in row["name"]
        )
        for row in rows
    )
    title = f"mtp-boundary: short speculative groups, operator of vllm-xpu-kernels {after['kernels']}"
    return {"title": title, "columns": list(COLUMNS), "rows": rows, "notes": notes, "ok": good}


if __name__ == "__main__":
    print(json.dumps(prove(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())), flush=True)
