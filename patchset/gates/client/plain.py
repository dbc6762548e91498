"""What an endpoint says without being asked for a completion: models, version, health, counters."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from patchset.gates.client.asking import told
from patchset.gates.client.wire import MOST_PLAIN

#: The counters of vLLM that are kept, as /metrics names them (0.19-0.33; ``vllm/v1/metrics/loggers.py``); summed over engines.
COUNTERS = (
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:external_prefix_cache_queries_total",
    "vllm:external_prefix_cache_hits_total",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:request_success_total",
    "vllm:num_preemptions_total",
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_total",
)
_MOST_COUNT = 2**53
_MOST_MODELS = 1000
_MOST_NAME = 512
#: The counters follow the last answer by a step of the engine or so.
_PAUSE, _TRIES = 0.1, 50


class Endpoint:
    """The address of a server: ``base`` is its root, without ``/v1``."""

    def __init__(self, http: httpx2.AsyncClient, base: str, key: str, timeout: float) -> None:
        self.http, self.base, self.timeout = http, base, timeout
        self.headers = {"authorization": f"Bearer {key}"} if key else {}
        self.problems: list[str] = []

    async def models(self) -> list[dict[str, Any]] | None:
        """What /v1/models lists: ``id``, and ``root`` and ``max_model_len`` where they are said."""
        return await self._tried("/v1/models", _models)

    async def version(self) -> str | None:
        """What /version says."""
        return await self._tried("/version", _version)

    async def health(self) -> int | None:
        """The status of /health; None: no answer."""
        try:
            return (await self._get("/health", False)).status_code
        except Exception as error:
            self._note("/health", error)
            return None

    async def counters(self) -> dict[str, float] | None:
        """The counters of :data:`COUNTERS` that /metrics has."""
        return await self._tried("/metrics", counters)

    async def settled(self, at_least: int) -> dict[str, float] | None:
        """The counters when they no longer move, and count *at_least* so many tokens generated, or after some seconds."""
        before: dict[str, float] | None = None
        for _ in range(_TRIES):
            now = await self.counters()
            if now is None or (now == before and now.get("vllm:generation_tokens_total", at_least) >= at_least):
                return now
            before = now
            await asyncio.sleep(_PAUSE)
        return before

    async def _tried(self, path: str, read: Any) -> Any:
        try:
            return read((await self._get(path, True)).content)
        except Exception as error:  # whatever a stranger's bytes make a library do
            self._note(path, error)
            return None

    def _note(self, path: str, error: Exception) -> None:
        problem = f"{path}: {error if isinstance(error, _Odd) else told(error)}"
        if problem not in self.problems:
            self.problems.append(problem)

    async def _get(self, path: str, must: bool) -> httpx2.Response:
        wanted = self.http.get(self.base + path, headers=self.headers)
        try:
            response = await asyncio.wait_for(wanted, self.timeout)
        except (asyncio.TimeoutError, TimeoutError, httpx2.TimeoutException) as error:
            raise _Odd(f"no answer in {self.timeout:g} s") from error
        if must and response.status_code != 200:
            raise _Odd(f"status {response.status_code}")
        return response


class _Odd(Exception):
    """An answer is not what it must be."""


def counters(data: bytes) -> dict[str, float]:
    """The counters of :data:`COUNTERS` in the Prometheus text *data*, each summed over its series.

    :raises ValueError: it is not that format, has a series twice, or a number that counts nothing.
    """
    if len(data) > MOST_PLAIN:
        raise _Odd(f"more than {MOST_PLAIN} bytes")
    found: dict[str, float] = {}
    seen = set()
    try:
        for family in text_string_to_metric_families(data.decode("utf-8")):
            for sample in family.samples:
                if sample.name not in COUNTERS:
                    continue
                series = (sample.name, tuple(sorted(sample.labels.items())))
                if series in seen:
                    raise _Odd(f"{sample.name} is there twice with the same labels")
                seen.add(series)
                if not (math.isfinite(sample.value) and 0 <= sample.value <= _MOST_COUNT):
                    raise _Odd(f"{sample.name} is {sample.value}, which counts nothing")
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
    except _Odd:
        raise
    except Exception as error:  # the parser lets out what its own code raises on odd text
        raise _Odd(f"not Prometheus's text format: {str(error)[:120]}") from error
    return found


def difference(before: Mapping[str, float] | None, after: Mapping[str, float] | None) -> dict[str, Any] | None:
    """What was counted between two readings; a counter that either lacks is null. None: there are not two."""
    if before is None or after is None:
        return None
    short = {
        "prefix_cache_hits": "vllm:prefix_cache_hits_total",
        "prefix_cache_queries": "vllm:prefix_cache_queries_total",
        "generation_tokens": "vllm:generation_tokens_total",
        "prompt_tokens": "vllm:prompt_tokens_total",
    }
    counted = {
        key: after[name] - before[name] if name in before and name in after else None for key, name in short.items()
    }
    return {"before": dict(before), "after": dict(after), **counted}


def _models(data: bytes) -> list[dict[str, Any]]:
    document = _json(data)
    rows = document.get("data") if isinstance(document, dict) else None
    if not isinstance(rows, list) or len(rows) > _MOST_MODELS:
        raise _Odd("no list of models")
    found = []
    for row in rows:
        name = row.get("id") if isinstance(row, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= _MOST_NAME:
            raise _Odd("a model without an id")
        root, length = row.get("root"), row.get("max_model_len")
        found.append(
            {
                "id": name,
                "root": root if isinstance(root, str) and len(root) <= _MOST_NAME else None,
                "max_model_len": length if type(length) is int and 0 < length < 2**31 else None,
            }
        )
    return found


def _version(data: bytes) -> str:
    document = _json(data)
    said = document.get("version") if isinstance(document, dict) else None
    if not isinstance(said, str) or not 0 < len(said) <= 200 or not said.isprintable():
        raise _Odd("no version")
    return said


def _json(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _Odd("no JSON document") from error
