"""The client program run in its environment, and its result read strictly: whatever is in it came from a stranger."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from patchset import environment, process
from patchset.errors import GateError
from patchset.verify import bounded

LOCK = Path(__file__).parent / "client" / "requirements.lock"
_ROOT = Path(__file__).resolve().parents[2]
#: A key for the server is taken from here, as the server itself takes it. It goes nowhere else.
KEY = "VLLM_API_KEY"
_START = 120.0
_WORDS = 1000
_HASH = "[0-9a-f]{64}"
SOURCES = ("token_ids", "usage", "none")


def make_ready(envs: Path, say: Callable[[str], None] = lambda text: None) -> Path:
    """The client's interpreter; its environment is made under *envs* when first asked for.

    :raises MissingTool, SourceError: as :func:`~patchset.environment.ensure` does.
    """
    return environment.ensure(envs, "client", LOCK, say=say)


def measure(python: Path, job: Mapping[str, Any], folder: Path, log: Path) -> dict[str, Any]:
    """What the client found for *job* (see :mod:`patchset.gates.client.__main__`); it works in *folder*.

    :raises GateError: it came to no end, or what it wrote cannot be read. What a server does is no reason.
    """
    wanted, found = folder / "job.json", folder / "found.json"
    wanted.write_text(json.dumps(job), encoding="utf-8")
    log.parent.mkdir(parents=True, exist_ok=True)
    waves = sum(math.ceil(len(step["requests"]) / step["concurrency"]) for step in job["steps"])
    seconds = _START + waves * (3 * job["timeout"])
    variables = {
        "PYTHONPATH": str(_ROOT),
        KEY: os.environ.get(KEY, ""),
        # The environment has no compiled Python files, and the imports are seconds without.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(python.parent.parent / "compiled"),
    }
    ended = process.run(
        [python, "-m", "patchset.gates.client", wanted, found],
        cwd=folder,
        env=process.clean_environment(variables),
        timeout=seconds,
        log=log,
    )
    if ended.returncode:
        why = f"no end after {seconds:.0f} s" if ended.timed_out else f"status {ended.returncode}"
        raise GateError(
            f"the client came to no result: {why}",
            where=str(log),
            detail=ended.tail(),
            next=f"read {log}, then run again",
        )
    try:
        return read(bounded.read(found, bounded.MOST_JSON))
    except (bounded.Unread, bounded.Malformed) as error:
        raise GateError(
            f"the client's result cannot be read: {error}",
            where=str(log),
            next="fewer or shorter requests: --max-tokens",
        ) from error


def read(data: bytes) -> dict[str, Any]:
    """The client's result *data*, with nothing in it that the client does not write.

    :raises Malformed: it is none.
    """
    node = bounded.Node(bounded.parse_json(data))
    if node["format"].number() != 1:
        raise bounded.Malformed("format is not 1")
    return {
        "client": {name: node["client"][name].text() for name in ("library", "python")},
        "timing": {"source": _one_of(node["timing"]["source"], SOURCES), "clock": node["timing"]["clock"].text()},
        "health": node["health"].or_null(bounded.Node.number),
        "models": node["models"].or_null(lambda rows: [_model(row) for row in rows.list()]),
        "version": node["version"].or_null(bounded.Node.text),
        "metrics": node["metrics"].or_null(_metrics),
        "problems": [one.text()[:_WORDS] for one in node["problems"].list()],
        "requests": [request(row) for row in node["requests"].list()],
    }


def _model(node: bounded.Node) -> dict[str, Any]:
    return {
        "id": node["id"].text(),
        "root": node["root"].or_null(bounded.Node.text),
        "max_model_len": node["max_model_len"].or_null(_count),
    }


def _metrics(node: bounded.Node) -> dict[str, Any]:
    read: dict[str, Any] = {
        side: {key: _number(value) for key, value in node[side].items()} for side in ("before", "after")
    }
    for name in ("prefix_cache_hits", "prefix_cache_queries", "generation_tokens", "prompt_tokens"):
        read[name] = node[name].or_null(_number)
    return read


def request(node: bounded.Node) -> dict[str, Any]:
    """One request of the result.

    :raises Malformed: it is none.
    """
    read: dict[str, Any] = {name: node[name].text() for name in ("id", "prompt")}
    read["phase"] = _one_of(node["phase"], ("cold", "warm"))
    read["concurrency"] = _count(node["concurrency"])
    read["jit_tainted"] = node["jit_tainted"].flag()
    read["prompt_sha256"] = node["prompt_sha256"].text(_HASH)
    for name in ("error", "finish_reason"):
        value = node[name].or_null(bounded.Node.text)
        read[name] = value and value[:_WORDS]
    read["output_sha256"] = node["output_sha256"].or_null(lambda value: value.text(_HASH))
    for name in ("status", "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"):
        read[name] = node[name].or_null(_count)
    for name in ("sent_s", "ttft_s", "wall_s", "client_lag_s"):
        read[name] = node[name].or_null(_seconds)
    read["text_head"] = node["text_head"].or_null(lambda value: value.text(".*"))
    names = ("characters", "visible", "control", "longest_run", "distinct")
    read["text"] = node["text"].or_null(lambda text: {name: text[name].or_null(_count) for name in names})
    read["arrivals"] = [_arrival(pair.list()) for pair in node["arrivals"].list()]
    return read


def _arrival(pair: list[bounded.Node]) -> list[Any]:
    if len(pair) != 2:
        raise bounded.Malformed("an arrival is not two numbers")
    return [_seconds(pair[0]), _count(pair[1])]


def _seconds(node: bounded.Node) -> float:
    value = _number(node)
    if value < 0:
        raise bounded.Malformed(f"{node.place} is below zero")
    return value


def _count(node: bounded.Node) -> int:
    value = node.number()
    if value < 0:
        raise bounded.Malformed(f"{node.place} is below zero")
    return value


def _number(node: bounded.Node) -> float:
    if type(node.value) is int:
        return float(node.value)
    if type(node.value) is not float or not math.isfinite(node.value):
        raise bounded.Malformed(f"{node.place} is not a number")
    return node.value


def _one_of(node: bounded.Node, words: tuple[str, ...]) -> str:
    value = node.text()
    if value not in words:
        raise bounded.Malformed(f"{node.place} is {value[:40]!r}, not one of {', '.join(words)}")
    return value
