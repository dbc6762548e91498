"""What a gate asks a server: steps of requests, made of a set of prompts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from patchset.errors import GateError
from patchset.gates.prompts import Prompt, PromptSet

KINDS = ("bringup", "baseline", "promote", "ladder")
#: Requests at once, one rung each.
RUNGS = (1, 2, 4, 8, 16)
_MOST_RUNG = 256
#: Every rung of a ladder asks so many requests a place, so that one that starts late or ends early does not make the rung.
_ROUNDS = 2

#: Greedy, so that an output can be compared with another run's.
SAMPLING: dict[str, Any] = {"temperature": 0.0, "seed": 0}

#: Comes before what is timed: the first request of a batch size compiles kernels. Its text is nobody else's.
_WARMING = Prompt("warming", "Preparation only; nobody reads this.", "Count from one to twenty in words.")


def rungs_of(text: str) -> tuple[int, ...]:
    """The rungs in *text*, as ``--concurrency 1,2,4`` has them.

    :raises GateError: they are no rising numbers from 1 to 256.
    """
    words = [word.strip() for word in text.split(",")]
    rungs = tuple(int(word) for word in words if word.isdecimal() and len(word) < 4)
    if len(rungs) != len(words) or list(rungs) != sorted(set(rungs)) or not 0 < rungs[0] <= rungs[-1] <= _MOST_RUNG:
        raise GateError(
            f"--concurrency {text} is no rising list of numbers from 1 to {_MOST_RUNG}", next="--concurrency 1,2,4,8,16"
        )
    return rungs


def steps_of(
    kind: str, chosen: PromptSet, rungs: Sequence[int] = RUNGS, salt: Callable[[], str] = lambda: secrets.token_hex(8)
) -> list[dict[str, Any]]:
    """The steps of *kind* with the prompts *chosen*: see :mod:`patchset.gates.client.__main__`.

    Bring-up and baseline: each prompt once, one after the other. Promotion: the same, after one request that is marked as
    tainted by compilation. Ladder: a rung after the other, each with requests so marked, then as many again and again with a salt
    of their own (cold), then those very requests once more (warm).

    :param salt: a text that no earlier prompt began with.
    """
    if kind == "ladder":
        return [step for rung in rungs for step in _rung(chosen, rung, salt)]
    cold = _step("cold", 1, [_request(prompt, prompt.id, chosen.max_tokens) for prompt in chosen.prompts])
    if kind == "promote":
        return [_tainted(1, chosen.max_tokens, salt), cold]
    return [cold]


def with_most(chosen: PromptSet, most: int) -> PromptSet:
    """*chosen* with answers of at most so many tokens; 0: as the set says."""
    return replace(chosen, max_tokens=most) if most else chosen


def _rung(chosen: PromptSet, rung: int, salt: Callable[[], str]) -> list[dict[str, Any]]:
    several = [chosen.prompts[number % len(chosen.prompts)] for number in range(rung * _ROUNDS)]
    # All answers of a rung have one length: a short one would leave its place empty and make the others faster.
    cold = [
        _request(prompt, f"c{rung}-{number + 1}-cold", chosen.max_tokens, salt(), ignore_eos=True)
        for number, prompt in enumerate(several)
    ]
    warm = [{**one, "id": one["id"].replace("-cold", "-warm")} for one in cold]
    return [_tainted(rung, chosen.max_tokens, salt), _step("cold", rung, cold), _step("warm", rung, warm)]


def _tainted(rung: int, most: int, salt: Callable[[], str]) -> dict[str, Any]:
    requests = [_request(_WARMING, f"c{rung}-{number + 1}-jit", most, salt()) for number in range(rung)]
    return {**_step("cold", rung, requests), "jit_tainted": True}


def _step(phase: str, at_once: int, requests: list[dict[str, Any]]) -> dict[str, Any]:
    return {"phase": phase, "concurrency": at_once, "jit_tainted": False, "requests": requests}


def _request(prompt: Prompt, name: str, most: int, salt: str = "", *, ignore_eos: bool = False) -> dict[str, Any]:
    messages = prompt.messages(salt)
    return {"id": name, "prompt": prompt.id, "messages": messages, "max_tokens": most, "ignore_eos": ignore_eos}
