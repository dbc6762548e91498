"""What the rejection sampler's kernels must give, written from the algorithm (arXiv 2211.17192) in float64."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def segments(cumulative: np.ndarray) -> list[range]:
    """Token indices of each request, from the inclusive running sum of their counts."""
    ends = [int(end) for end in cumulative]
    return [range(start, end) for start, end in pairwise([0, *ends])]


def emit(output: np.ndarray, row: int, accepted: list[bool], kept: list[int], replaced: list[int], bonus: int) -> None:
    """Write one request's row: drafts up to the first rejection, its replacement, or all drafts and the bonus."""
    if all(accepted):
        tokens = [*kept, bonus]
    else:
        first = accepted.index(False)
        tokens = [*kept[:first], replaced[first]]
    output[row, : len(tokens)] = tokens


def greedy(
    output: np.ndarray,
    cumulative: np.ndarray,
    draft: np.ndarray,
    argmax: np.ndarray,
    bonus: np.ndarray,
    is_greedy: np.ndarray | None,
    uniform: np.ndarray | None = None,
    rates: np.ndarray | None = None,
) -> np.ndarray:
    """A greedy draft is right if it is the target's argmax; in synthetic mode, by the draw alone (padding: never)."""
    result = output.copy()
    for row, tokens in enumerate(segments(cumulative)):
        if is_greedy is not None and not is_greedy[row]:
            continue
        if rates is None or uniform is None:
            accepted = [bool(draft[t] == argmax[t]) for t in tokens]
        else:
            accepted = [bool(draft[t] >= 0 and uniform[t] < rates[i]) for i, t in enumerate(tokens)]
        emit(result, row, accepted, [int(draft[t]) for t in tokens], [int(argmax[t]) for t in tokens], int(bonus[row]))
    return result


def random(
    output: np.ndarray,
    cumulative: np.ndarray,
    draft: np.ndarray,
    draft_probs: np.ndarray | None,
    target_probs: np.ndarray,
    bonus: np.ndarray,
    recovered: np.ndarray,
    uniform: np.ndarray,
    is_greedy: np.ndarray,
    rates: np.ndarray | None = None,
) -> np.ndarray:
    """Accept a draft with probability min(1, p/q); q is 1 where the drafter gives none; q = 0 or padding: reject."""
    result = output.copy()
    for row, tokens in enumerate(segments(cumulative)):
        if is_greedy[row]:
            continue
        accepted = []
        for position, token in enumerate(tokens):
            chosen = int(draft[token])
            if chosen < 0:
                accepted.append(False)
            elif rates is not None:
                accepted.append(bool(uniform[token] < rates[position]))
            else:
                q = 1.0 if draft_probs is None else float(draft_probs[token, chosen])
                accepted.append(q > 0.0 and float(target_probs[token, chosen]) >= float(uniform[token]) * q)
        kept = [int(draft[t]) for t in tokens]
        emit(result, row, accepted, kept, [int(recovered[t]) for t in tokens], int(bonus[row]))
    return result


def expand(values: np.ndarray, cumulative: np.ndarray, replace_from: float, replace_to: float) -> np.ndarray:
    """Each request's value once a token, with one value replaced."""
    counts = np.diff(cumulative, prepend=0)
    replaced = np.array([replace_to if value == replace_from else value for value in values], dtype=values.dtype)
    return np.repeat(replaced, counts)


def recovered_scores(
    target_probs: np.ndarray, draft_probs: np.ndarray | None, draft: np.ndarray, inv_q: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """The exponential-race score of each (token, vocabulary entry): the residual distribution times 1/Exp(1).

    Without draft probabilities the draft is a point mass, so its own token has no residual.
    """
    residual = target_probs.astype(np.float64)
    if draft_probs is None:
        residual[np.arange(len(draft)), draft] = 0.0
    else:
        residual = np.clip(residual - draft_probs.astype(np.float64), 0.0, None)
    return residual * inv_q.astype(np.float64)[rows]
