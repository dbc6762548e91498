"""The checklists of the gates: each line names what it looks at, and a field that is missing fails the line that needs it.

Pure: from a result's own data to verdicts. What a result does not say is never taken for granted: there is no "not run" that passes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from patchset.gates import figures
from patchset.gates.result import Check, Look, Raw, Requests, Result, Wrong

_SHA256 = "[0-9a-f]{64}"
PASSED, FAILED = "passed", "failed"
#: How far the server's own count of tokens may be from the stream's.
CLOSE = 0.05
#: A third of all characters being controls is a flood; a tiny random model's broken UTF-8 stays far below.
FLOOD = 3
#: Tokens from which on an answer of one token, or one half of which is one run, has collapsed.
FEW, MANY = 8, 16
#: Answers that must reach the rate of the beginning, for a median to mean something.
ENOUGH = 3
#: The client's own loop may be held up so long, in seconds and as a share of the request, before times are its own.
LAG_SECONDS, LAG_SHARE = 0.5, 0.2


def judge(raw: Raw, requests: Requests, unread: str, found: Mapping[str, Any]) -> list[Check]:
    """The checklist of *raw*'s kind, line by line."""
    result = Result(raw, requests, unread, found)
    told = []
    for name, look in KINDS[raw["kind"]]:
        try:
            look(result)
            told.append(Check(name, PASSED))
        except Wrong as error:
            told.append(Check(name, FAILED, str(error)))
    return told


def _is(path: str, kind: type | tuple[type, ...] = str, pattern: str = "") -> Look:
    """*path* is there, is not empty, and is all of *pattern*, if there is one."""

    def look(result: Result) -> None:
        value = result.field(path, kind)
        if value == "" or value == [] or value == {}:
            raise Wrong(f"{path} is empty")
        if pattern and not re.fullmatch(pattern, value):
            raise Wrong(f"{path} is {value[:60]!r}, and must be {pattern}")

    return look


def _texts(path: str, kind: type, *, some: bool = True) -> Look:
    """*path* is a list or an object of texts, with *some* in it."""

    def look(result: Result) -> None:
        value = result.field(path, kind)
        if some and not value:
            raise Wrong(f"{path} is empty")
        if not all(isinstance(one, str) for one in (value.values() if kind is dict else value)):
            raise Wrong(f"{path} has something in it that is no text")

    return look


def _schema(result: Result) -> None:
    if result.field("schema", int) != 1:
        raise Wrong(f"schema is {result.raw['schema']}, and 1 is what is understood")


def _quantisation(result: Result) -> None:
    """None is an answer: the model is not quantised."""
    model = result.field("model", dict)
    if "quantisation" not in model:
        raise Wrong("model.quantisation is missing")
    if not isinstance(model["quantisation"], str | None):
        raise Wrong("model.quantisation is not a text or null")


def _running(result: Result) -> None:
    process = result.field("server.process", dict)
    if process.get("running") is not True:
        raise Wrong("the server's process was gone at the end of the run")
    health = result.field("server.health", int)
    if health != 200:
        raise Wrong(f"GET /health: status {health}")


def _served(result: Result) -> None:
    wanted, there = result.field("model.id", str), result.field("server.models", list)
    if wanted not in there:
        raise Wrong(f"{wanted} is not served; there is: {', '.join(map(str, there)) or 'no model'}")


def _no_fallback(result: Result) -> None:
    _texts("server.log.fallbacks", list, some=False)(result)
    lines = result.field("server.log.fallbacks", list)
    if lines:
        raise Wrong(
            f"{len(lines)} lines in the server's log say that something else runs than was asked for: {lines[0]}"
        )


def _runtimes_version(result: Result) -> None:
    runtime, served = result.field("server.runtime", str), result.field("server.versions.vllm", str)
    if runtime != served:
        raise Wrong(f"the runtime is {runtime}, and the server says that it is {served}")


def _answered(result: Result) -> None:
    for one in result.asked():
        bad = one["error"] or ("" if one["status"] == 200 else f"status {one['status']}")
        bad = bad or ("" if one["finish_reason"] in ("stop", "length") else f"it ended with {one['finish_reason']!r}")
        if bad:
            raise Wrong(f"request {one['id']}: {bad}")


def _hashes(result: Result) -> None:
    for one in result.asked():
        if one["output_sha256"] is None:
            raise Wrong(f"request {one['id']}: output_sha256 was not recorded")


def _text(one: Mapping[str, Any]) -> Mapping[str, Any]:
    if one["text"] is None or any(value is None for value in one["text"].values()):
        raise Wrong(f"request {one['id']}: nothing was recorded of its text")
    return one["text"]


def _visible(result: Result) -> None:
    for one in result.asked():
        if not _text(one)["visible"]:
            raise Wrong(f"request {one['id']}: its answer has no visible text")


def _no_flood(result: Result) -> None:
    for one in result.asked():
        text = _text(one)
        if text["control"] * FLOOD > text["characters"]:
            raise Wrong(f"request {one['id']}: {text['control']} of {text['characters']} characters are controls")


def _no_collapse(result: Result) -> None:
    for one in result.asked():
        text, count = _text(one), one["completion_tokens"]
        if count is None:
            raise Wrong(f"request {one['id']}: completion_tokens was not recorded")
        if (count >= FEW and text["distinct"] == 1) or (count >= MANY and 2 * text["longest_run"] > count):
            raise Wrong(f"request {one['id']}: one token {text['longest_run']} times in a row, of {count}")


def _deterministic(result: Result) -> None:
    temperature = result.field("sampling.temperature", (int, float))
    if temperature != 0:
        raise Wrong(f"sampling.temperature is {temperature}, so another run would say something else")


def _each_prompt_once(result: Result) -> None:
    items = result.field("prompts.items", list)
    ids = [one.get("id") if isinstance(one, Mapping) else None for one in items]
    if not all(isinstance(name, str) for name in ids):
        raise Wrong("prompts.items has something in it without an id")
    if not all(re.fullmatch(_SHA256, str(one.get("sha256"))) for one in items):
        raise Wrong("prompts.items has a prompt without its sha256")
    wanted = Counter(ids)
    found = Counter(one["prompt"] for one in result.asked(tainted=False))
    if wanted != found or max(wanted.values(), default=0) != 1:
        odd = sorted(str(name) for name in {*wanted, *found} if wanted[name] != 1 or found[name] != 1)
        raise Wrong(f"not each prompt was asked just once: {', '.join(odd[:5])}")


def _one_after_the_other(result: Result) -> None:
    for one in result.asked(tainted=False):
        if one["concurrency"] != 1 or one["phase"] != "cold":
            raise Wrong(f"request {one['id']} was {one['phase']}, with {one['concurrency']} at once")


def _cached_there(result: Result) -> None:
    for one in result.asked(phase="cold"):
        if one["cached_tokens"] is None:
            raise Wrong(
                f"request {one['id']}: the answer has no prompt_tokens_details.cached_tokens, so it cannot be proved cold "
                "(the server wants --enable-prompt-tokens-details; before 0.24.0 it wants the patch cached-tokens-zero too)"
            )


def _cached_zero(result: Result) -> None:
    for one in result.asked(phase="cold"):
        if one["cached_tokens"]:
            raise Wrong(
                f"request {one['id']}: {one['cached_tokens']} of {one['prompt_tokens']} tokens were in the cache: it was not cold"
            )


def _counter(result: Result, name: str) -> float:
    try:
        value: float = result.field(f"metrics.{name}", (int, float))
        return value
    except Wrong as error:
        problems = result.raw.get("problems")
        told = [text for text in problems if isinstance(text, str)] if isinstance(problems, list) else []
        raise Wrong(f"{error}{f': {told[0]}' if told else ''}") from error


def _no_hits(result: Result) -> None:
    hits = _counter(result, "prefix_cache_hits")
    if hits:
        raise Wrong(f"/metrics: {hits:g} tokens came from the prefix cache during the run")


def _hits_are_the_answers(result: Result) -> None:
    """Both tell the same: a server that says zero and has hits is not believed."""
    hits = _counter(result, "prefix_cache_hits")
    said = sum(one["cached_tokens"] or 0 for one in result.asked())
    if hits != said:
        raise Wrong(f"the answers say that {said} tokens were cached, /metrics says {hits:g}")


def _counters_agree(result: Result) -> None:
    asked = result.asked()
    pairs = [("prompt_tokens", sum(one["prompt_tokens"] or 0 for one in asked))]
    pairs.append(("generation_tokens", sum(map(figures.tokens, asked))))
    for name, ours in pairs:
        theirs = _counter(result, name)
        if abs(theirs - ours) > CLOSE * max(theirs, ours):
            raise Wrong(
                f"{name}: {ours} by the answers, {theirs:g} by /metrics: somebody else is served, or tokens are lost"
            )


def _usage_agrees(result: Result) -> None:
    for one in result.asked():
        if one["completion_tokens"] is None or one["completion_tokens"] != figures.tokens(one):
            raise Wrong(
                f"request {one['id']}: {figures.tokens(one)} tokens came, usage says {one['completion_tokens']}"
            )


def _timed_by_ids(result: Result) -> None:
    source = result.field("timing.source", str)
    if source != "token_ids":
        raise Wrong(f"timing.source is {source}: only token ids say when a token came")


def _timed(result: Result) -> None:
    source = result.field("timing.source", str)
    if source not in figures.COUNTED:
        raise Wrong(f"timing.source is {source}: tokens cannot be counted")


def _warmed(result: Result) -> None:
    result.asked(tainted=True)


def _kept_up(result: Result) -> None:
    for one in result.asked(tainted=False):
        lag, whole = one["client_lag_s"], one["wall_s"]
        if lag is None or whole is None:
            raise Wrong(f"request {one['id']}: client_lag_s or wall_s was not recorded")
        if lag > LAG_SECONDS or lag > LAG_SHARE * whole:
            raise Wrong(
                f"request {one['id']}: this client was held up for {lag:.2f} s of {whole:.2f}: measure from a free machine"
            )


def _enough(result: Result) -> None:
    count = result.figures.get("beginning_of", 0)
    if count < ENOUGH:
        raise Wrong(
            f"{count} answers have more than {figures.BEGINNING} tokens after the first chunk, and {ENOUGH} are needed"
        )


def _given(result: Result) -> None:
    names = ("beginning", "full_output", "wall", "ttft")
    lacking = [name for name in names if result.figures.get(f"{name}_median{'_s' if name == 'ttft' else ''}") is None]
    if lacking:
        why = result.figures.get("not_given", {})
        raise Wrong("; ".join(f"{name}: {why.get(name, 'not given')}" for name in lacking))


def _rungs(result: Result) -> None:
    rows = result.figures.get("rungs") or []
    if not rows:
        raise Wrong(f"there is no rung: {result.unread or 'no answer was timed'}")
    by_place = {(row["concurrency"], row["phase"]): row for row in rows}
    for at_once in sorted({place for place, _ in by_place}):
        for phase in ("cold", "warm"):
            row = by_place.get((at_once, phase))
            if row is None:
                raise Wrong(f"{at_once} at once: nothing {phase}")
            if row["requests"] < at_once:
                raise Wrong(f"{at_once} at once, {phase}: {row['requests']} requests were answered")
            if row["aggregate"] is None or row["request_median"] is None:
                raise Wrong(f"{at_once} at once, {phase}: no rate")


_Lines = tuple[tuple[str, Look], ...]

_RECORDED: _Lines = (
    ("schema", _schema),
    ("made", _is("made", str, r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")),
    ("tool", _is("tool")),
    ("endpoint", _is("endpoint")),
    ("model id", _is("model.id")),
    ("model revision", _is("model.revision")),
    ("quantisation", _quantisation),
    ("server command", _texts("server.command", list)),
    ("server environment", _texts("server.environment", dict, some=False)),
    ("server flags", _texts("flags", list, some=False)),
    ("server log", _is("server.log.path")),
    ("server log's hash", _is("server.log.sha256", str, _SHA256)),
    ("vllm version", _is("server.versions.vllm")),
    ("torch version", _is("server.versions.torch")),
    ("client library", _is("client.library")),
    ("prompts hash", _is("prompts.sha256", str, _SHA256)),
)
_UP: _Lines = (
    ("process is up", _running),
    ("model is served", _served),
    ("every request was answered", _answered),
)
_TEXT: _Lines = (
    ("visible text", _visible),
    ("no flood of control characters", _no_flood),
    ("no collapse to one token", _no_collapse),
)
_COLD: _Lines = (
    ("cached_tokens is there", _cached_there),
    ("cached_tokens is zero", _cached_zero),
)
_COUNTED: _Lines = (
    ("output hashes", _hashes),
    ("usage agrees with the stream", _usage_agrees),
    ("/metrics agree with the answers", _counters_agree),
    ("/metrics agree about the cache", _hits_are_the_answers),
)
_RUNTIME: _Lines = (
    ("runtime id", _is("server.runtime")),
    ("receipt hash", _is("server.receipt_sha256", str, _SHA256)),
    ("served version is the runtime's", _runtimes_version),
)

#: Gate → its checklist, in the order in which it is told.
KINDS: Mapping[str, _Lines] = {
    "bringup": (*_RECORDED, *_UP, ("no fallback in the log", _no_fallback), ("deterministic", _deterministic), *_TEXT),
    "baseline": (
        *_RECORDED,
        *_UP,
        *_TEXT,
        ("deterministic", _deterministic),
        ("each prompt once", _each_prompt_once),
        ("one after the other, cold", _one_after_the_other),
        *_COLD,
        ("no hit in /metrics", _no_hits),
        *_COUNTED,
    ),
    "promote": (
        *_RECORDED,
        *_RUNTIME,
        *_UP,
        ("no fallback in the log", _no_fallback),
        *_TEXT,
        ("deterministic", _deterministic),
        ("each prompt once", _each_prompt_once),
        ("one after the other, cold", _one_after_the_other),
        *_COLD,
        ("no hit in /metrics", _no_hits),
        *_COUNTED,
        ("timed by token ids", _timed_by_ids),
        ("first run set apart", _warmed),
        ("client kept up", _kept_up),
        ("enough long answers", _enough),
        ("rates are given", _given),
    ),
    "ladder": (
        *_RECORDED,
        *_RUNTIME,
        *_UP,
        ("deterministic", _deterministic),
        *_COLD,
        *_COUNTED,
        ("tokens are counted", _timed),
        ("first runs set apart", _warmed),
        ("client kept up", _kept_up),
        ("every rung is whole", _rungs),
    ),
}
