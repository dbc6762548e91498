"""Cases for the kernels of the rejection sampler."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from patchset.smoke import cases_distribution
from patchset.smoke import references_rejection as reference
from patchset.smoke.case import Array, Case, Subject, cumulative, flags, ints, output, poisoned

#: Draft counts of a batch: none, one, the most, and all of them mixed.
BATCHES: dict[str, list[int]] = {
    "empty-batch": [],
    "one-request-no-draft": [0],
    "one-request-one-draft": [1],
    "mixed": [3, 0, 1, 5, 2],
    "all-full": [4, 4, 4],
    "first-empty": [0, 2, 3],
}
#: max_spec_len as vLLM's own constant bounds a request's tokens (MAX_SPEC_LEN).
EXPAND_TOKENS = 128


def _bonus(subject: Subject, rows: int) -> np.ndarray:
    return subject.rng.integers(1000, 2000, rows)


def _drafts(subject: Subject, counts: list[int], agree: float) -> tuple[np.ndarray, np.ndarray]:
    total = sum(counts)
    argmax = subject.rng.integers(0, 50, total)
    wrong = subject.rng.random(total) >= agree
    return ints(np.where(wrong, argmax + 1, argmax)), argmax


def greedy(subject: Subject) -> list[Case]:
    """All agree, none agree, some agree; a mask or none; synthetic acceptance where the kernel has it."""
    cases = []
    for label, counts in BATCHES.items():
        for agree in (1.0, 0.7, 0.0) if label in ("mixed", "all-full") else (0.7,):
            for masked in (False, True) if label == "mixed" else (True,):
                cases.append(
                    _greedy(subject, f"{label}-agree{agree}{'' if masked else '-nomask'}", counts, agree, masked)
                )
    if subject.has("SYNTHETIC_MODE"):
        padded = subject.release >= (0, 25, 0)
        cases.append(_greedy(subject, "synthetic", [3, 0, 1, 5, 2], 0.5, True, synthetic=True))
        cases.append(_greedy(subject, "synthetic-draw-equals-rate", [4, 2], 0.5, False, synthetic=True, tie=True))
        if padded:
            cases.append(_greedy(subject, "synthetic-padded", [3, 5, 2], 0.5, False, synthetic=True, pad=True))
    return cases


def _greedy(
    subject: Subject,
    name: str,
    counts: list[int],
    agree: float,
    masked: bool,
    synthetic: bool = False,
    tie: bool = False,
    pad: bool = False,
) -> Case:
    longest = max(counts, default=0) + (1 if name.startswith("mixed") else 0)
    cum, (draft, argmax) = cumulative(counts), _drafts(subject, counts, agree)
    bonus = _bonus(subject, len(counts))
    is_greedy = (np.arange(len(counts)) % 3 != 2).astype(np.uint8) if masked else None
    uniform = subject.rng.random(sum(counts)) if synthetic else None
    rates = np.linspace(0.9, 0.4, max(longest, 1)).astype(np.float32) if synthetic else None
    if tie and uniform is not None and rates is not None:
        starts = np.concatenate([np.arange(count) for count in counts])
        uniform = rates.astype(np.float64)[starts]
        uniform[0] = 0.0
    if pad and uniform is not None:
        uniform[:] = 0.0
        draft[[reference.segments(cum)[1][2], reference.segments(cum)[2][0]]] = -1
        # Token 0 is a token, not padding.
        draft[0], argmax[0] = 0, 9
    start = poisoned((len(counts), longest + 1))
    expected = reference.greedy(start, cum, draft, argmax, bonus, is_greedy, uniform, rates)
    arrays = {
        "output_token_ids_ptr": Array(start, expected),
        "cu_num_draft_tokens_ptr": Array(cum),
        "draft_token_ids_ptr": Array(draft),
        "target_argmax_ptr": Array(argmax),
        "bonus_token_ids_ptr": Array(bonus),
    }
    scalars: dict[str, int | float | bool | None] = {"max_spec_len": longest, "SYNTHETIC_MODE": synthetic}
    for key, values in (("uniform_probs_ptr", uniform), ("synthetic_conditional_rates_ptr", rates)):
        if values is None:
            scalars[key] = None
        else:
            arrays[key] = Array(values)
    if is_greedy is None:
        scalars["is_greedy_ptr"] = None
    else:
        arrays["is_greedy_ptr"] = flags(is_greedy)
    return Case(name, (len(counts),), arrays, scalars)


def _distributions(subject: Subject, tokens: int, vocab: int) -> np.ndarray:
    raw = subject.rng.random((tokens, vocab)) + 0.02
    return (raw / raw.sum(axis=1, keepdims=True)).astype(np.float32)


def random(subject: Subject) -> list[Case]:
    """With and without draft probabilities, draws on the edge, zero probabilities, synthetic and padded drafts."""
    cases = []
    for label, counts in BATCHES.items():
        for drafted in (True, False):
            cases.append(_random(subject, f"{label}{'' if drafted else '-nodraftprobs'}", counts, drafted))
    cases.append(_random(subject, "draw-equals-ratio", [4, 2], True, edge=_edge_equal))
    cases.append(_random(subject, "zero-draft-probability", [3, 2], True, edge=_edge_zero))
    cases.append(_random(subject, "all-accepted", [3, 0, 5], False, edge=_edge_accept))
    if subject.has("SYNTHETIC_MODE"):
        cases.append(_random(subject, "synthetic", [3, 0, 1, 5, 2], False, synthetic=True))
        cases.append(_random(subject, "synthetic-draw-equals-rate", [4, 2], False, synthetic=True, edge=_edge_rate))
    if subject.release >= (0, 25, 0):
        cases.append(_random(subject, "padded", [3, 5, 2], True, edge=_edge_padded))
    return cases + cases_distribution.accepted_and_replaced()


class _RandomInputs:
    """The inputs of one case, open to an edge that bends some of them."""

    def __init__(self, subject: Subject, counts: list[int], drafted: bool, synthetic: bool) -> None:
        rng, tokens, self.vocab = subject.rng, sum(counts), 23
        self.cum = cumulative(counts)
        self.draft = ints(rng.integers(0, self.vocab, tokens))
        self.target = _distributions(subject, tokens, self.vocab)
        self.drafted = _distributions(subject, tokens, self.vocab) if drafted else None
        self.recovered = ints(rng.integers(3000, 4000, tokens))
        self.bonus = _bonus(subject, len(counts))
        self.rates = np.linspace(0.9, 0.4, max(counts, default=0) or 1).astype(np.float32) if synthetic else None
        self.positions = ints([i for count in counts for i in range(count)])
        rows = np.arange(tokens)
        ratio = self.target[rows, self.draft].astype(np.float64)
        if self.drafted is not None:
            ratio = ratio / self.drafted[rows, self.draft]
        # A draw within rounding of the ratio has no right answer: keep each well to one side of it.
        above = rng.random(tokens) < 0.35
        self.uniform = np.where(above, np.minimum(ratio * 1.25 + 1e-3, 0.999999), ratio * rng.uniform(0.1, 0.9, tokens))
        if self.rates is not None:
            self.uniform = rng.random(tokens)


def _edge_equal(inputs: _RandomInputs) -> None:
    rows = np.arange(len(inputs.draft))
    assert inputs.drafted is not None
    inputs.target[rows, inputs.draft] = 0.25
    inputs.drafted[rows, inputs.draft] = 0.5
    inputs.uniform[:] = 0.5


def _edge_zero(inputs: _RandomInputs) -> None:
    assert inputs.drafted is not None
    inputs.uniform[:] = 0.0
    inputs.drafted[1, inputs.draft[1]] = 0.0
    inputs.target[3, inputs.draft[3]] = 0.0


def _edge_accept(inputs: _RandomInputs) -> None:
    inputs.uniform[:] = 0.0


def _edge_rate(inputs: _RandomInputs) -> None:
    assert inputs.rates is not None
    inputs.uniform = inputs.rates.astype(np.float64)[inputs.positions]
    inputs.uniform[0] = 0.0


def _edge_padded(inputs: _RandomInputs) -> None:
    inputs.uniform[:] = 0.0
    inputs.draft[[4, 8]] = -1


def _random(
    subject: Subject,
    name: str,
    counts: list[int],
    drafted: bool,
    synthetic: bool = False,
    edge: Callable[[_RandomInputs], None] | None = None,
) -> Case:
    given = _RandomInputs(subject, counts, drafted, synthetic)
    if edge is not None:
        edge(given)
    # The last request of a batch of three or more is greedy: its row must stay untouched.
    is_greedy = ints([len(counts) > 2 and row == len(counts) - 1 for row in range(len(counts))], np.uint8)
    longest = max(counts, default=0) + (2 if name == "mixed" else 0)
    start = poisoned((len(counts), longest + 1))
    expected = reference.random(
        start,
        given.cum,
        given.draft,
        given.drafted,
        given.target,
        given.bonus,
        given.recovered,
        given.uniform,
        is_greedy,
        given.rates,
    )
    arrays = {
        "output_token_ids_ptr": Array(start, expected),
        "cu_num_draft_tokens_ptr": Array(given.cum),
        "draft_token_ids_ptr": Array(given.draft),
        "target_probs_ptr": Array(given.target),
        "bonus_token_ids_ptr": Array(given.bonus),
        "recovered_token_ids_ptr": Array(given.recovered),
        "uniform_probs_ptr": Array(given.uniform),
        "is_greedy_ptr": flags(is_greedy),
    }
    scalars: dict[str, int | float | bool | None] = {
        "max_spec_len": longest,
        "vocab_size": given.vocab,
        "NO_DRAFT_PROBS": not drafted,
        "SYNTHETIC_MODE": synthetic,
    }
    for key, values in (("draft_probs_ptr", given.drafted), ("synthetic_conditional_rates_ptr", given.rates)):
        if values is None:
            scalars[key] = None
        else:
            arrays[key] = Array(values)
    return Case(name, (len(counts),), arrays, scalars)


def expand(subject: Subject) -> list[Case]:
    """Temperatures (float32, zero becomes one), top-k (int32) and the block's own edge of 128 tokens."""
    rng = subject.rng
    cases = []
    batches = {**BATCHES, "block-edge": [127, 128, 1], "exactly-one-block": [128]}
    for label, counts in batches.items():
        temperature = rng.choice(np.array([0.0, 0.5, 1.5], np.float32), len(counts)).astype(np.float32)
        if len(counts):
            temperature[0] = 0.0
        cases.append(_expand(f"{label}-float32", temperature, counts, 0, 1))
        if label in ("mixed", "block-edge"):
            cases.append(_expand(f"{label}-int32", ints(rng.integers(-3, 3, len(counts))), counts, 0, 0))
            cases.append(_expand(f"{label}-int64", rng.integers(1, 4, len(counts)), counts, 2, -7))
    return cases


def _expand(name: str, values: np.ndarray, counts: list[int], replace_from: int, replace_to: int) -> Case:
    cum = cumulative(counts)
    arrays = {
        "output_ptr": output(reference.expand(values, cum, replace_from, replace_to)),
        "input_ptr": Array(values),
        "cu_num_tokens_ptr": Array(cum),
    }
    scalars: dict[str, int | float | bool | None] = {
        "replace_from": replace_from,
        "replace_to": replace_to,
        "MAX_NUM_TOKENS": EXPAND_TOKENS,
    }
    return Case(name, (len(counts),), arrays, scalars)


def recovered(subject: Subject) -> list[Case]:
    """Vocabularies below, at and above the tile; production's tile; point-mass drafts; 64-bit scores."""
    cases = []
    for vocab, block in ((1, 64), (63, 64), (64, 64), (65, 64), (257, 64), (8193, 8192)):
        for drafted in (True, False):
            counts = [2, 0, 1] if vocab > 1000 else [3, 0, 1, 5, 2]
            cases.append(_recovered(subject, f"vocab{vocab}-tile{block}", counts, vocab, block, drafted))
    cases.append(_recovered(subject, "empty-batch", [], 64, 64, False))
    cases.append(_recovered(subject, "neighbour-larger", [2, 1], 65, 64, False, neighbour=True))
    cases.append(_recovered(subject, "no-residual", [2, 1], 130, 64, True, equal=True))
    if subject.has("USE_FP64_GUMBEL"):
        cases.append(_recovered(subject, "float64-near-tie", [3, 1], 130, 64, False, wide=True))
    return cases + cases_distribution.replacements()


def _recovered(
    subject: Subject,
    name: str,
    counts: list[int],
    vocab: int,
    block: int,
    drafted: bool,
    equal: bool = False,
    wide: bool = False,
    neighbour: bool = False,
) -> Case:
    rng, tokens = subject.rng, sum(counts)
    cum = cumulative(counts)
    draft = ints(rng.integers(0, vocab, tokens))
    target = _distributions(subject, tokens, vocab)
    draft_probs = (target.copy() if equal else _distributions(subject, tokens, vocab)) if drafted else None
    inv_q = 1.0 / rng.exponential(size=(len(counts), vocab))
    if not wide:
        inv_q = inv_q.astype(np.float32)
    else:
        # Two scores that only float64 tells apart, the larger one last and in another tile.
        target[:] = np.float32(1.0 / vocab)
        draft = ints(np.full(tokens, 7))
        inv_q[:, :] = 1.0
        inv_q[:, 3] = 4.0
        inv_q[:, vocab - 2] = 4.0 * (1 + 1e-12)
    rows = np.repeat(np.arange(len(counts)), counts)
    if not drafted and not wide and vocab > 1:
        # The draft token would win if it were not excluded.
        inv_q[rows, draft] *= np.float32(50)
    if neighbour:
        # What lies just beyond the first request's vocabulary would win, and its own last entry never does.
        inv_q[0, [0, vocab - 1]], inv_q[1, 0] = 1e-6, 1e6
    scores = reference.recovered_scores(target, draft_probs, draft, inv_q, rows)
    arrays = {
        "output_token_ids_ptr": Array(poisoned(tokens), accept=_best(scores, 1e-15 if wide else 1e-5)),
        "cu_num_draft_tokens_ptr": Array(cum),
        "draft_token_ids_ptr": Array(draft),
        "target_probs_ptr": Array(target),
        "inv_q_ptr": Array(inv_q),
    }
    scalars: dict[str, int | float | bool | None] = {
        "vocab_size": vocab,
        "BLOCK_SIZE": block,
        "NO_DRAFT_PROBS": not drafted,
        "USE_FP64_GUMBEL": wide,
    }
    if draft_probs is None:
        scalars["draft_probs_ptr"] = None
    else:
        arrays["draft_probs_ptr"] = Array(draft_probs)
    label = name if wide or equal or neighbour or not counts else f"{name}{'' if drafted else '-nodraftprobs'}"
    return Case(label, (len(counts), max(counts, default=0) + 1), arrays, scalars)


def _best(scores: np.ndarray, tolerance: float) -> Callable[[np.ndarray], str | None]:
    def accept(tokens: np.ndarray) -> str | None:
        for index, (token, row) in enumerate(zip(tokens, scores, strict=True)):
            if not 0 <= token < len(row):
                return f"[{index}]: token {token} is outside the vocabulary of {len(row)}"
            if row[token] < row.max() * (1 - tolerance):
                return f"[{index}]: token {token} scores {row[token]:.9g}; {row.argmax()} scores {row.max():.9g}"
        return None

    return accept
