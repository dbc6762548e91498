"""Completions that are asked for: one at a time or many at once, each with an end, whatever the server does."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
import openai

from patchset.gates.client.answer import Answer, Unreadable
from patchset.gates.client.lag import Lag
from patchset.gates.client.wire import Encoded, TooLarge

#: What is asked for beside the protocol, best first; a server that refuses one is asked for the next.
EXTRAS: tuple[dict[str, Any], ...] = (
    {"return_token_ids": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    {"stream_options": {"include_usage": True}},
)
#: What a server answers that does not know a parameter.
_REFUSALS = (400, 422)
_WORDS = 300


@dataclass
class Asked:
    """One request and what became of it."""

    job: dict[str, Any]
    step: dict[str, Any]
    status: int | None = None
    error: str | None = None
    answer: Answer | None = None
    wall: float | None = None
    sent: float | None = None
    lag: float | None = None


class Asker:
    """Asks one endpoint for completions of one model."""

    def __init__(self, client: openai.AsyncOpenAI, model: str, sampling: dict[str, Any], timeout: float) -> None:
        self.client, self.model, self.sampling, self.timeout = client, model, sampling, timeout
        self.level = 0
        self.lag = Lag()
        self.epoch = time.perf_counter()

    async def step(self, step: dict[str, Any]) -> list[Asked]:
        """Ask for all requests of *step*, as many at once as it says, each as soon as another one has ended."""
        asked = [Asked(job, step) for job in step["requests"]]
        waiting = iter(asked)

        async def work() -> None:
            for one in waiting:
                await self.ask(one)

        await asyncio.gather(*(work() for _ in range(step["concurrency"])))
        return asked

    async def ask(self, one: Asked) -> None:
        """Ask for *one*, and note in it what came. Nothing is raised for what the server does."""
        first = None
        for level in range(self.level, len(EXTRAS)):
            await self._once(one, level)
            if one.error is None or one.status not in _REFUSALS:
                # This server is asked so from now on: one that refuses a parameter does so each time.
                self.level = max(self.level, level)
                return
            first = first or (one.status, one.error)
        if first:  # it was not the extras
            one.status, one.error = first

    async def _once(self, one: Asked, level: int) -> None:
        one.status = one.error = one.answer = one.wall = None
        try:
            await asyncio.wait_for(self._stream(one, EXTRAS[level]), self.timeout)
        except (asyncio.TimeoutError, TimeoutError):
            one.error = f"no end after {self.timeout:g} s"
        except Exception as error:  # whatever a stranger's bytes make a library do
            one.error = told(error)
            if isinstance(error, openai.APIStatusError):
                one.status = error.status_code

    async def _stream(self, one: Asked, extras: dict[str, Any]) -> None:
        wanted = {
            "model": self.model,
            "messages": one.job["messages"],
            "max_tokens": one.job["max_tokens"],
            "stream": True,
            **self.sampling,
            **extras,
        }
        if one.job.get("ignore_eos"):
            wanted["ignore_eos"] = True
        began = time.perf_counter()
        one.sent = began - self.epoch
        # As plain objects: the library's own classes make a count of "0", and a one of true.
        stream = await self.client.post(
            "/chat/completions", cast_to=object, body=wanted, stream=True, stream_cls=openai.AsyncStream[object]
        )
        one.status = stream.response.status_code
        kind = stream.response.headers.get("content-type", "")
        record = stream.response.extensions["record"]
        try:
            if not kind.lower().startswith("text/event-stream"):
                raise Unreadable(f"the answer is of type {kind[:60] or 'none'!r}, not text/event-stream")
            one.answer = answer = Answer(began)
            async for chunk in stream:
                answer.take(chunk, record.at)
            one.wall = record.at - began
            one.lag = self.lag.since(began)
            _require_whole(answer, record.is_whole)
        finally:
            await stream.close()


def _require_whole(answer: Answer, is_whole: bool) -> None:
    """:raises Unreadable: the answer lacks what every whole one has."""
    if not answer.chunks:
        raise Unreadable("the answer is an empty stream")
    if not is_whole:
        raise Unreadable("the stream was cut: it does not end with [DONE]")
    if answer.finish is None:
        raise Unreadable("the answer has no finish reason")
    if answer.usage is None:
        raise Unreadable("the answer has no usage, although it was asked for")
    made = answer.completion_tokens
    if made is None or answer.prompt_tokens is None:
        raise Unreadable("the usage of the answer does not say how many tokens there are")
    _ = answer.cached_tokens, answer.said_reasoning
    if answer.has_ids and len(answer.ids) != made:
        raise Unreadable(f"the answer has {len(answer.ids)} token ids, and its usage says {made} tokens")
    if answer.cached_tokens is not None and answer.cached_tokens > answer.prompt_tokens:
        raise Unreadable("more tokens are said to be cached than the prompt has")


def told(error: BaseException) -> str:
    """What happened, in one line for a person."""
    for one in (error, error.__cause__, getattr(error.__cause__, "__cause__", None)):
        if isinstance(one, Unreadable | TooLarge | Encoded):
            return str(one)
    cause = error.__cause__ or error
    if isinstance(error, openai.APITimeoutError):
        return "nothing came for too long, or no connection was made in time"
    if isinstance(error, openai.APIStatusError):
        return f"status {error.status_code}: {_line(error.message)}"
    if isinstance(error, openai.APIConnectionError | httpx2.HTTPError):
        return f"the connection failed: {_line(str(cause) or type(cause).__name__)}"
    if isinstance(error, openai.APIError):
        return f"the server says in the stream: {_line(error.message)}"
    if isinstance(error, json.JSONDecodeError):
        return f"a chunk of the stream is no JSON: {_line(str(error))}"
    if isinstance(error, UnicodeDecodeError):
        return f"the stream is not UTF-8: {error.reason}"
    return f"the answer cannot be read: {type(error).__name__}: {_line(str(error))}"


def _line(text: str) -> str:
    return " ".join(text.split())[:_WORDS]


def source_of(asked: Sequence[Asked]) -> str:
    """The best source of timing that accounts for every token of all answers that are whole; ``none``: there is none."""
    whole = [one.answer for one in asked if one.error is None and one.answer and one.answer.completion_tokens]
    for source in ("token_ids", "usage"):
        if whole and all(answer.arrivals(source) for answer in whole):
            return source
    return "none"


def recorded(one: Asked, source: str) -> dict[str, Any]:
    """*one* for the result; what did not come is null."""
    answer, good = one.answer, one.error is None
    prompt = json.dumps(one.job["messages"], ensure_ascii=True, separators=(",", ":"))
    row: dict[str, Any] = {
        "id": one.job["id"],
        "prompt": one.job["prompt"],
        "phase": one.step["phase"],
        "concurrency": one.step["concurrency"],
        "jit_tainted": one.step["jit_tainted"],
        "status": one.status,
        "error": one.error,
        "prompt_sha256": hashlib.sha256(prompt.encode()).hexdigest(),
        "sent_s": one.sent,
        "client_lag_s": one.lag if good else None,
        "finish_reason": answer.finish if good and answer else None,
        "wall_s": one.wall if good else None,
    }
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens", "output_sha256", "ttft_s")
    row.update({name: None for name in names})
    row.update({"text": None, "text_head": answer.head() if answer else None, "arrivals": []})
    if good and answer:
        row.update(
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            cached_tokens=answer.cached_tokens,
            reasoning_tokens=answer.reasoning_tokens(source),
            output_sha256=answer.output_sha256(),
            ttft_s=answer.first,
            text=answer.counts(),
            arrivals=[[round(seconds, 6), tokens] for seconds, tokens in answer.arrivals(source)],
        )
    return row
