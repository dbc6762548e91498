"""Cases for the rejection sampler that look at many draws at once: what comes out is distributed as the target says.

The theorem (arXiv 2211.17192, appendix A.1): a draft x ~ q is kept with probability min(1, p(x)/q(x)), else a token of the
residual (p - q)+, normalised, takes its place. Then what comes out is ~ p, whatever q is. A drafter that gives no
probabilities proposes one token for certain, so q is that token's point mass.

The draws are the same in every run: the verdict on a kernel never depends on luck.
"""

from __future__ import annotations

import math

import numpy as np

from patchset.smoke.case import Array, Case, cumulative, flags, ints, poisoned

#: Requests of the two kernels, each a program of its own: the interpreter takes some milliseconds for one.
ROWS, REPLACED_ROWS = 400, 300
SEED = 2211_17192
#: How often one comparison would call a right kernel wrong, if the draws were not the same each time; a case has up to four.
FALSE_ALARM = 1e-10
#: Target and drafter at a request's first and second token. A drafter that is too sure of its token shows best what the
#: kernel accepts; one that is wrong shows best what it replaces.
TARGET = np.array([[0.75, 0.10, 0.05, 0.10], [0.10, 0.40, 0.20, 0.30]])
DRAFTER = np.array([[0.94, 0.02, 0.02, 0.02], [0.70, 0.10, 0.10, 0.10]])
BLOCK = 64
#: What is no token of the vocabulary.
FOREIGN = 1_000_000


def tail(value: float, freedom: int) -> float:
    """How often a chi-square of so many degrees of *freedom* is larger than *value*."""
    half = value / 2
    share, reached = (math.exp(-half), 2) if freedom % 2 == 0 else (math.erfc(math.sqrt(half)), 1)
    while reached < freedom:
        share += half ** (reached / 2) * math.exp(-half) / math.gamma(reached / 2 + 1)
        reached += 2
    return share if freedom else float(value == 0.0)


def complaint(what: str, tokens: np.ndarray, wanted: np.ndarray) -> str | None:
    """None, or why *tokens* are no sample of the probabilities *wanted*, by Pearson's chi-square."""
    if not len(tokens):
        return f"{what}: no token"
    outside = tokens[(tokens < 0) | (tokens >= len(wanted))]
    if len(outside):
        return f"{what}: token {outside[0]} is outside the vocabulary of {len(wanted)}"
    counts = np.bincount(tokens, minlength=len(wanted))
    never = np.flatnonzero((counts > 0) & (wanted == 0.0))
    if len(never):
        return f"{what}: {counts[never[0]]} times token {never[0]}, which has probability 0"
    possible = wanted > 0.0
    expected = len(tokens) * wanted[possible]
    found = float((((counts[possible] - expected) ** 2) / expected).sum())
    if tail(found, int(possible.sum()) - 1) >= FALSE_ALARM:
        return None
    shares = ", ".join(
        f"{count / len(tokens):.3f} for {share:.3f}" for count, share in zip(counts, wanted, strict=True)
    )
    return f"{what}: not the target's distribution, chi-square {found:.0f}; shares {shares}"


def residual(target: np.ndarray, drafter: np.ndarray) -> np.ndarray:
    """What is left of the target where the drafter proposes less than it, normalised."""
    left = np.clip(target - drafter, 0.0, None)
    return left / left.sum()


def point_mass(token: int, size: int) -> np.ndarray:
    """The drafter that proposes *token* for certain."""
    return np.eye(size)[token]


def accepted_and_replaced() -> list[Case]:
    """For the kernel that keeps or replaces drafts: two drafts a request, with the drafter's probabilities and without."""
    return [_sampled("distribution", True), _sampled("distribution-nodraftprobs", False)]


def _sampled(name: str, drafted: bool) -> Case:
    rng = np.random.default_rng([SEED, drafted])
    places, vocab = TARGET.shape
    drafts, replacements = np.empty((2, ROWS, places), np.int32)
    for place in range(places):
        # A drafter without probabilities may choose its token as it likes.
        drafts[:, place] = rng.choice(vocab, ROWS, p=DRAFTER[place])
        for token in range(vocab):
            proposed = DRAFTER[place] if drafted else point_mass(token, vocab)
            rows = np.flatnonzero(drafts[:, place] == token)
            replacements[rows, place] = rng.choice(vocab, len(rows), p=residual(TARGET[place], proposed))
    uniform = rng.random(ROWS * places)

    def accept(output: np.ndarray) -> str | None:
        # A replacement is never the draft itself: the residual has none of it.
        kept = output[:, 0] == drafts[:, 0]
        return complaint("first token", output[:, 0], TARGET[0]) or complaint(
            "second token, where the first draft was kept", output[kept, 1], TARGET[1]
        )

    arrays = {
        "output_token_ids_ptr": Array(poisoned((ROWS, places + 1)), accept=accept),
        "cu_num_draft_tokens_ptr": Array(cumulative([places] * ROWS)),
        "draft_token_ids_ptr": Array(drafts.reshape(-1)),
        "target_probs_ptr": Array(np.tile(TARGET, (ROWS, 1)).astype(np.float32)),
        "bonus_token_ids_ptr": Array(np.full(ROWS, FOREIGN)),
        "recovered_token_ids_ptr": Array(replacements.reshape(-1)),
        "uniform_probs_ptr": Array(uniform),
        "is_greedy_ptr": flags(np.zeros(ROWS)),
    }
    scalars: dict[str, int | float | bool | None] = {
        "max_spec_len": places,
        "vocab_size": vocab,
        "NO_DRAFT_PROBS": not drafted,
        "SYNTHETIC_MODE": False,
        "synthetic_conditional_rates_ptr": None,
        "draft_probs_ptr": None,
    }
    if drafted:
        arrays["draft_probs_ptr"] = Array(np.tile(DRAFTER, (ROWS, 1)).astype(np.float32))
        del scalars["draft_probs_ptr"]
    return Case(name, (ROWS,), arrays, scalars)


def replacements() -> list[Case]:
    """For the kernel that draws the replacements: one draft a request, with the drafter's probabilities and without."""
    return [_replaced("distribution", True), _replaced("distribution-nodraftprobs", False)]


def _replaced(name: str, drafted: bool) -> Case:
    rng = np.random.default_rng([SEED, 2 + drafted])
    target, drafter = TARGET[1], DRAFTER[1]
    vocab = len(target)
    drafts = ints(rng.choice(vocab, REPLACED_ROWS, p=drafter))

    def each() -> list[tuple[str, np.ndarray, np.ndarray]]:
        if drafted:
            return [("replacement", np.arange(REPLACED_ROWS), residual(target, drafter))]
        return [
            (
                f"replacement of token {token}",
                np.flatnonzero(drafts == token),
                residual(target, point_mass(token, vocab)),
            )
            for token in range(vocab)
        ]

    def accept(output: np.ndarray) -> str | None:
        return next(filter(None, (complaint(what, output[rows], wanted) for what, rows, wanted in each())), None)

    arrays = {
        "output_token_ids_ptr": Array(poisoned(REPLACED_ROWS), accept=accept),
        "cu_num_draft_tokens_ptr": Array(cumulative([1] * REPLACED_ROWS)),
        "draft_token_ids_ptr": Array(drafts),
        "target_probs_ptr": Array(np.tile(target, (REPLACED_ROWS, 1)).astype(np.float32)),
        # The first of independent exponential clocks rings: that of rate r wins with probability r over the sum of rates.
        "inv_q_ptr": Array((1.0 / rng.exponential(size=(REPLACED_ROWS, vocab))).astype(np.float32)),
    }
    scalars: dict[str, int | float | bool | None] = {
        "vocab_size": vocab,
        "BLOCK_SIZE": BLOCK,
        "NO_DRAFT_PROBS": not drafted,
        "USE_FP64_GUMBEL": False,
        "draft_probs_ptr": None,
    }
    if drafted:
        arrays["draft_probs_ptr"] = Array(np.tile(drafter, (REPLACED_ROWS, 1)).astype(np.float32))
        del scalars["draft_probs_ptr"]
    return Case(name, (REPLACED_ROWS, 1), arrays, scalars)
