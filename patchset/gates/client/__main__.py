"""``python -m patchset.gates.client JOB RESULT``: do what the file JOB says, and write what was seen to the file RESULT.

The job (JSON): ``base`` (the server's address, without ``/v1``), ``model``, ``sampling`` (parameters of every request), ``timeout`` and
``stall`` (seconds: for one request, and without a byte), ``metrics`` (read the counters before and after), and ``steps``: each with
``phase``, ``concurrency``, ``jit_tainted`` and ``requests`` (``id``, ``prompt``, ``messages``, ``max_tokens``, ``ignore_eos``). A key for the
server comes in the environment (``VLLM_API_KEY``) and is written nowhere.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import openai

from patchset.gates.client import asking, lag, plain, wire

_SHORT = 30.0


async def measure(job: dict[str, Any], key: str) -> dict[str, Any]:
    """What *job* found; see the module."""
    await rehearse()
    most = max((step["concurrency"] for step in job["steps"]), default=1)
    async with wire.connect(most + 1, job["stall"]) as http:
        endpoint = plain.Endpoint(http, job["base"], key, min(_SHORT, job["timeout"]))
        health = await endpoint.health()
        models, version = await endpoint.models(), await endpoint.version()
        before = await endpoint.settled(0) if job["metrics"] else None
        client = openai.AsyncOpenAI(
            base_url=f"{job['base']}/v1", api_key=key or "none", max_retries=0, http_client=http
        )
        asker = asking.Asker(client, job["model"], job["sampling"], job["timeout"])
        asked: list[asking.Asked] = []
        async with lag.watched() as watch:
            asker.lag = watch
            for step in job["steps"]:
                asked += await asker.step(step)
        made = sum(one.answer.completion_tokens or 0 for one in asked if one.error is None and one.answer)
        counted = (before or {}).get("vllm:generation_tokens_total", 0.0) + made
        after = await endpoint.settled(int(counted)) if before is not None else None
    source = asking.source_of(asked)
    return {
        "format": 1,
        "client": {"library": f"openai {openai.__version__}", "python": platform.python_version()},
        "timing": {"source": source, "clock": "perf_counter"},
        "health": health,
        "models": models,
        "version": version,
        "metrics": plain.difference(before, after),
        "problems": endpoint.problems,
        "requests": [asking.recorded(one, source) for one in asked],
    }


class _Lines(httpx2.AsyncByteStream):
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for line in self.lines:
            yield line.encode()


async def rehearse() -> None:
    """Ask once without a network: what the library does only the first time (0.2 s) is not the server's time."""
    chunk = {"choices": [{"index": 0, "delta": {"content": "a"}, "token_ids": [1], "finish_reason": "stop"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
    lines = [*(f"data: {json.dumps(part)}\n\n" for part in (chunk, usage)), "data: [DONE]\n\n"]
    kind = {"content-type": "text/event-stream"}
    stage = httpx2.MockTransport(lambda request: httpx2.Response(200, headers=kind, stream=_Lines(lines)))
    async with wire.connect(1, 1.0, stage) as http:
        client = openai.AsyncOpenAI(base_url="http://rehearsal/v1", api_key="none", max_retries=0, http_client=http)
        request = {"id": "", "prompt": "", "messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
        step = {"phase": "cold", "concurrency": 1, "jit_tainted": True, "requests": [request]}
        (asked,) = await asking.Asker(client, "rehearsal", {}, 10.0).step(step)
    if asked.error:
        raise RuntimeError(f"the client cannot read what it must: {asked.error}")


def main(job: str, result: str) -> None:
    """Read *job*, measure, write *result*."""
    lag.go_first()
    wanted = json.loads(Path(job).read_bytes())
    found = asyncio.run(measure(wanted, os.environ.get("VLLM_API_KEY", "")))
    part = Path(f"{result}.part")
    part.write_text(json.dumps(found, allow_nan=False), encoding="utf-8")
    part.replace(result)


if __name__ == "__main__":
    main(*sys.argv[1:])
