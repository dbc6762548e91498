"""Cases for the pre-pass that lets unsure rejections pass (rejection sampling method "fly")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from patchset.smoke import references_fly as reference
from patchset.smoke.case import Array, Case, Subject, cumulative, flags, ints
from patchset.smoke.references_rejection import segments

THRESHOLD = 0.5
VOCABULARY = 33
#: Draft counts of a batch: fewer than a window, a window, more, and none.
BATCHES: dict[str, list[int]] = {
    "empty-batch": [],
    "no-draft": [0],
    "one-draft": [1],
    "mixed": [3, 0, 1, 9, 6, 2, 12],
    "window-long": [3, 4],
}


def greedy(subject: Subject) -> list[Case]:
    """Windows of one and more, a mask or none, ids that are no token, a draft ruled out, entropy on the threshold."""
    cases = [_greedy(subject, label, counts, window=2) for label, counts in BATCHES.items()]
    for window in (1, 3, 4):
        cases.append(_greedy(subject, f"window{window}", BATCHES["mixed"], window=window, masked=False))
    cases.append(_greedy(subject, "no-token", [3] * 4, window=2, masked=False, edge=_no_token))
    cases.append(_greedy(subject, "ruled-out", [3, 3], window=2, masked=False, edge=_ruled_out))
    cases.append(_greedy(subject, "entropy-on-the-threshold", [3, 3], window=2, masked=False, edge=_on_the_threshold))
    cases.append(_greedy(subject, "one-after-the-other", [5], window=1, masked=False, edge=_in_turn))
    return cases


Made = dict[str, np.ndarray]


def _first_rejected(made: Made) -> None:
    """Of each request the first draft alone is rejected, by an unsure target."""
    for tokens in segments(made["cumulative"]):
        made["argmax"][tokens] = made["draft"][tokens]
        made["argmax"][tokens[0]] = (made["draft"][tokens[0]] + 1) % VOCABULARY
        made["entropy"][tokens] = THRESHOLD + 0.25


def _no_token(made: Made) -> None:
    _first_rejected(made)
    firsts = [tokens[0] for tokens in segments(made["cumulative"])]
    made["draft"][firsts] = [-1, VOCABULARY, VOCABULARY - 1, 0]
    made["argmax"][firsts] = 5


def _ruled_out(made: Made) -> None:
    _first_rejected(made)
    made["logits"][0, made["draft"][0]] = -np.inf


def _on_the_threshold(made: Made) -> None:
    _first_rejected(made)
    made["entropy"][[0, 3]] = [THRESHOLD, np.nextafter(np.float32(THRESHOLD), np.float32(0))]


def _in_turn(made: Made) -> None:
    """Rejected, accepted, rejected, rejected, accepted: what was put off does not count as accepted for others."""
    _first_rejected(made)
    for token in (2, 3):
        made["argmax"][token] = (made["draft"][token] + 1) % VOCABULARY


def _greedy(
    subject: Subject,
    name: str,
    counts: list[int],
    *,
    window: int,
    masked: bool = True,
    edge: Callable[[Made], None] | None = None,
) -> Case:
    rng, tokens = subject.rng, sum(counts)
    draft = ints(rng.integers(0, VOCABULARY, tokens))
    argmax = np.where(rng.random(tokens) < 0.75, draft, rng.integers(0, VOCABULARY, tokens)).astype(np.int64)
    logits = rng.normal(size=(tokens, VOCABULARY)).astype(np.float32)
    logits[rng.random(logits.shape) < 0.1] = -np.inf
    made = {
        "cumulative": cumulative(counts),
        "draft": draft,
        "argmax": argmax,
        "logits": logits,
        "entropy": rng.random(tokens).astype(np.float32),
    }
    if edge is not None:
        edge(made)
    is_greedy = np.arange(len(counts)) % 3 != 2
    rows = [row for row, mine in zip(segments(made["cumulative"]), is_greedy, strict=True) if mine or not masked]
    wanted = reference.greedy(draft, argmax, logits, made["entropy"], THRESHOLD, window, rows)
    arrays = {
        "cu_num_draft_tokens_ptr": Array(made["cumulative"]),
        "draft_token_ids_ptr": Array(draft),
        "target_argmax_ptr": Array(argmax, wanted),
        "target_logits_ptr": Array(logits),
        "fly_entropy_ptr": Array(made["entropy"]),
    }
    scalars: dict[str, int | float | bool | None] = {
        "vocab_size": VOCABULARY,
        "fly_entropy_threshold": THRESHOLD,
        "FLY_WINDOW_SIZE": window,
    }
    if masked:
        arrays["is_greedy_ptr"] = flags(is_greedy)
    else:
        scalars["is_greedy_ptr"] = None
    return Case(name, (len(counts),), arrays, scalars)


def random(subject: Subject) -> list[Case]:
    """With and without draft probabilities, windows, probabilities of zero, ids that are no token, draws on the edge."""
    cases = []
    for drafted in (True, False):
        ending = "" if drafted else "-nodraftprobs"
        cases += [_random(subject, f"{label}{ending}", counts, drafted, 2) for label, counts in BATCHES.items()]
        cases += [_random(subject, f"window{window}{ending}", BATCHES["mixed"], drafted, window) for window in (1, 4)]
        cases.append(_random(subject, f"no-token{ending}", [3] * 4, drafted, 2, _draw_no_token))
    cases.append(_random(subject, "probability-zero", [3] * 4, True, 2, _draw_zero))
    cases.append(_random(subject, "entropy-on-the-threshold", [3, 3], True, 2, _draw_threshold))
    cases.append(_random(subject, "draw-equals-ratio", [3, 3], True, 2, _draw_equal))
    return cases


def _draw_first_rejected(made: Made) -> None:
    """Of each request the first draft alone is rejected, by an unsure target; ratios are 1/2 and 1."""
    for tokens in segments(made["cumulative"]):
        for at, token in enumerate(tokens):
            chosen = made["draft"][token]
            made["q"][token, chosen], made["p"][token, chosen] = 0.25, 0.25 if at else 0.125
        made["uniform"][tokens] = 0.75
        made["entropy"][tokens] = THRESHOLD + 0.25


def _draw_no_token(made: Made) -> None:
    if not made["drafted"]:
        made["p"][:] = 0.75  # the ratio is p alone
    else:
        _draw_first_rejected(made)
    made["entropy"][:], made["uniform"][:] = THRESHOLD + 0.25, 0.75
    firsts = [tokens[0] for tokens in segments(made["cumulative"])]
    made["draft"][firsts] = [-1, VOCABULARY, VOCABULARY - 1, 0]
    made["p"][firsts], made["q"][firsts] = 0.125, 0.25


def _draw_zero(made: Made) -> None:
    """In turn: nothing is, the target's is, the drafter's is, and a later draft's of the drafter is zero."""
    _draw_first_rejected(made)
    made["p"][3, made["draft"][3]] = 0.0
    made["q"][6, made["draft"][6]] = 0.0
    made["q"][10, made["draft"][10]] = 0.0


def _draw_threshold(made: Made) -> None:
    _draw_first_rejected(made)
    made["entropy"][[0, 3]] = [THRESHOLD, np.nextafter(np.float32(THRESHOLD), np.float32(0))]


def _draw_equal(made: Made) -> None:
    """A later draft whose draw is its ratio is accepted; so is a first one, and is left as it is."""
    _draw_first_rejected(made)
    made["uniform"][1], made["p"][1, made["draft"][1]] = 0.5, 0.125
    made["uniform"][3] = 0.5


def _random(
    subject: Subject,
    name: str,
    counts: list[int],
    drafted: bool,
    window: int,
    edge: Callable[[Made], None] | None = None,
) -> Case:
    rng, tokens = subject.rng, sum(counts)
    shape = (tokens, VOCABULARY)
    p, q = (values.astype(np.float32) for values in (rng.random(shape), rng.random(shape) / 2))
    p[rng.random(shape) < 0.1] = 0.0
    q[rng.random(shape) < 0.1] = 0.0
    made = {
        "cumulative": cumulative(counts),
        "draft": ints(rng.integers(0, VOCABULARY, tokens)),
        "p": p,
        "q": q,
        "uniform": rng.random(tokens),
        "entropy": rng.random(tokens).astype(np.float32),
        "drafted": np.array(drafted),
    }
    if edge is not None:
        edge(made)
    draft, uniform, given = made["draft"], made["uniform"], q if drafted else None
    is_greedy = np.arange(len(counts)) % 3 == 2 if edge is None else np.zeros(len(counts), bool)
    rows = [row for row, other in zip(segments(made["cumulative"]), is_greedy, strict=True) if not other]
    wanted = reference.random(draft, given, p, uniform, made["entropy"], THRESHOLD, window, rows)
    arrays = {
        "cu_num_draft_tokens_ptr": Array(made["cumulative"]),
        "draft_token_ids_ptr": Array(draft),
        "target_probs_ptr": Array(p),
        "uniform_probs_ptr": Array(uniform, wanted),
        "fly_entropy_ptr": Array(made["entropy"]),
        "is_greedy_ptr": flags(is_greedy),
    }
    scalars: dict[str, int | float | bool | None] = {
        "vocab_size": VOCABULARY,
        "fly_entropy_threshold": THRESHOLD,
        "NO_DRAFT_PROBS": not drafted,
        "FLY_WINDOW_SIZE": window,
    }
    if given is None:
        scalars["draft_probs_ptr"] = None
    else:
        arrays["draft_probs_ptr"] = Array(given)
    return Case(name, (len(counts),), arrays, scalars)
