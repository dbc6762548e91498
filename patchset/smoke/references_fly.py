"""What FLy's pre-pass must change, written from its rule (arXiv 2511.22972) in float64.

A draft that the target would reject where it is itself unsure (its entropy is high) is kept if the next drafts, a whole
window of them, would all be accepted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def deferred(accepted: Sequence[bool], possible: Sequence[bool], unsure: Sequence[bool], window: int) -> list[bool]:
    """For each draft of one request, whether its rejection is put off.

    :param accepted: the target accepts it as it stands.
    :param possible: neither the drafter nor the target gives it probability zero, and it is a token.
    """
    return [
        bool(not accepted[at] and possible[at] and unsure[at])
        and len(following := accepted[at + 1 : at + 1 + window]) == window
        and all(following)
        for at in range(len(accepted))
    ]


def greedy(
    draft: np.ndarray,
    argmax: np.ndarray,
    logits: np.ndarray,
    entropy: np.ndarray,
    threshold: float,
    window: int,
    rows: Sequence[range],
) -> np.ndarray:
    """*argmax* with the draft in place of it where the rejection is put off, in the requests *rows*."""
    result = argmax.copy()
    for tokens in rows:
        accepted = [bool(draft[t] == argmax[t]) for t in tokens]
        possible = [0 <= draft[t] < logits.shape[1] and logits[t, draft[t]] > -np.inf for t in tokens]
        kept = deferred(accepted, possible, [bool(entropy[t] >= threshold) for t in tokens], window)
        for token, keep in zip(tokens, kept, strict=True):
            if keep:
                result[token] = draft[token]
    return result


def random(
    draft: np.ndarray,
    draft_probs: np.ndarray | None,
    target_probs: np.ndarray,
    uniform: np.ndarray,
    entropy: np.ndarray,
    threshold: float,
    window: int,
    rows: Sequence[range],
) -> np.ndarray:
    """*uniform* with 0 where the rejection is put off, so that the draft is accepted, in the requests *rows*."""
    result = uniform.copy()
    for tokens in rows:
        p, q = [], []
        for token in tokens:
            chosen = int(draft[token])
            inside = 0 <= chosen < target_probs.shape[1]
            p.append(float(target_probs[token, chosen]) if inside else 0.0)
            q.append((1.0 if draft_probs is None else float(draft_probs[token, chosen])) if inside else 0.0)
        accepted = [b > 0 and a >= float(uniform[t]) * b for a, b, t in zip(p, q, tokens, strict=True)]
        possible = [a > 0 and b > 0 for a, b in zip(p, q, strict=True)]
        kept = deferred(accepted, possible, [bool(entropy[t] >= threshold) for t in tokens], window)
        for token, keep in zip(tokens, kept, strict=True):
            if keep:
                result[token] = 0.0
    return result
