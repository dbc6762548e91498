"""A server for what a real one will not do: it speaks the protocol from the standard library alone, and lies as it is told.

``python fake_server.py PORT_FILE {"fault": "hang"}`` serves until it is killed and writes its port into that file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL = "tiny"
#: Characters of a prompt that make one token.
_TOKEN = 4


@dataclass
class Behaviour:
    """What the server does.

    ``fault``: how a completion goes wrong; a user's message ``fault: …`` says it for that one. ``plain``: path → what is answered there
    instead.
    """

    fault: str = ""
    details: bool = True
    caching: bool = False
    ids: bool = True
    continuous: bool = True
    refuses: tuple[str, ...] = ()
    group: int = 1
    reasoning: int = 0
    counts_reasoning: bool = False
    tokens: int = 0
    collapse: bool = False
    control: bool = False
    pause: float = 0.0
    models: tuple[str, ...] = (MODEL,)
    plain: dict[str, tuple[int, str, bytes]] = field(default_factory=dict)
    extra_hits: int = 0
    lost_tokens: int = 0


class Fake:
    """The server and what it counted."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour, self.lock = behaviour, threading.Lock()
        self.known: set[str] = set()
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.prompt_tokens = self.generation_tokens = self.hits = self.done = 0
        self.running = self.most = 0
        fake = self

        class Handler(_Handler):
            server_of = fake

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def cached(self, prompt: str) -> int:
        """Tokens of *prompt* that an earlier request left behind."""
        with self.lock:
            known = prompt in self.known
            self.known.add(prompt)
        return len(prompt) // _TOKEN if known and self.behaviour.caching else 0

    def counters(self) -> str:
        lines = []
        for name, value in (
            ("prefix_cache_queries", self.prompt_tokens),
            ("prefix_cache_hits", self.hits + self.behaviour.extra_hits * self.done),
            ("prompt_tokens", self.prompt_tokens),
            ("generation_tokens", self.generation_tokens - self.behaviour.lost_tokens * self.done),
        ):
            lines += [f"# HELP vllm:{name} Of two engines.", f"# TYPE vllm:{name} counter"]
            lines += [f'vllm:{name}_total{{engine="0",model_name="tiny"}} {float(value)}']
            lines += [f'vllm:{name}_total{{engine="1",model_name="tiny"}} 0.0']
        return "\n".join(lines) + "\n"


class _Handler(BaseHTTPRequestHandler):
    server_of: Fake
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        fake = self.server_of
        answers = {
            "/health": (200, "text/plain", b""),
            "/version": (200, "application/json", b'{"version": "0.30.0"}'),
            "/metrics": (200, "text/plain; version=0.0.4", fake.counters().encode()),
            "/v1/models": (
                200,
                "application/json",
                json.dumps(
                    {"object": "list", "data": [{"id": one, "root": one} for one in fake.behaviour.models]}
                ).encode(),
            ),
        }
        status, kind, body = fake.behaviour.plain.get(self.path) or answers.get(self.path, (404, "text/plain", b"no"))
        if kind == "hang":
            time.sleep(60)
        self._whole(status, kind, body)

    def do_POST(self) -> None:
        fake, body = self.server_of, json.loads(self.rfile.read(int(self.headers["content-length"])))
        with fake.lock:
            fake.asked.append(body)
            fake.keys.append(self.headers.get("authorization", ""))
            fake.running += 1
            fake.most = max(fake.most, fake.running)
        try:
            self._complete(fake, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with fake.lock:
                fake.running -= 1

    def _complete(self, fake: Fake, body: dict[str, Any]) -> None:
        how, text = fake.behaviour, body["messages"][-1]["content"]
        if text.startswith("fault: "):
            how = replace(how, fault=text.removeprefix("fault: "))
        options = body.get("stream_options", {})
        unknown = [name for name in how.refuses if name in body or name in options]
        if unknown or body["model"] not in how.models:
            message = f"unknown parameter {unknown[0]}" if unknown else f"The model `{body['model']}` does not exist."
            self._whole(
                400 if unknown else 404, "application/json", json.dumps({"error": {"message": message}}).encode()
            )
            return
        if how.fault == "status 500":
            self._whole(500, "text/html", b"<h1>Internal Server Error</h1>")
        elif how.fault == "html":
            self._whole(200, "text/html", b"<h1>welcome</h1>")
        elif how.fault == "whole":
            self._whole(200, "application/json", b'{"choices": [{"message": {"content": "hello"}}]}')
        elif how.fault == "gzip":
            self._whole(200, "text/event-stream", b"\x1f\x8b\x08\0", {"content-encoding": "gzip"})
        elif how.fault == "redirect":
            self._whole(302, "text/plain", b"", {"location": "http://127.0.0.1:1/"})
        elif how.fault == "hang":
            time.sleep(60)
        elif how.fault == "cut before":
            self.close_connection = True
        else:
            self._stream(fake, how, body, options)

    def _stream(self, fake: Fake, how: Behaviour, body: dict[str, Any], options: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        prompt = json.dumps(body["messages"])
        total, cached, made = len(prompt) // _TOKEN, fake.cached(prompt), how.tokens or body["max_tokens"]
        counted = 0
        self._say(
            _chunk({"role": "assistant", "content": ""}, usage=_usage(total, 0) if _continuous(how, options) else None)
        )
        for first in range(0, made, how.group):
            ids = [7 if how.collapse else 100 + number for number in range(first, min(first + how.group, made))]
            if how.fault and first >= made // 2 and self._fault(how.fault):
                return
            words = "".join("\x07\x1b" if how.control else f" w{one}" for one in ids)
            delta = {"reasoning": words} if first < how.reasoning else {"content": words}
            counted += len(ids)
            last = counted == made
            usage = _usage(total, counted) if _continuous(how, options) else None
            given = ids if how.ids and body.get("return_token_ids") else None
            self._say(_chunk(delta, given, usage, "length" if last and how.fault != "no finish" else None))
            time.sleep(how.pause)
        with fake.lock:
            fake.prompt_tokens += total
            fake.generation_tokens += counted
            fake.hits += cached
            fake.done += 1
        final = _usage(total, counted)
        if how.details:
            final["prompt_tokens_details"] = {"cached_tokens": cached}
        if how.counts_reasoning:
            final["completion_tokens_details"] = {"reasoning_tokens": how.reasoning}
        final.update(_ABSURD.get(how.fault, {}))
        if how.fault != "no usage":
            self._say({"object": "chat.completion.chunk", "choices": [], "usage": final})
        if how.fault != "no done":
            self._raw(b"data: [DONE]\n\n")
        if how.fault == "hang at the end":
            time.sleep(60)
        self.wfile.write(b"0\r\n\r\n")

    def _fault(self, fault: str) -> bool:
        """Do *fault* in the middle of a stream; True: that is its end."""
        if fault == "cut":
            self.close_connection = True
            self.wfile.flush()
            self.connection.close()
        elif fault == "ends":
            self.wfile.write(b"0\r\n\r\n")
        elif fault == "stalls":
            time.sleep(60)
        elif fault == "drips":
            for _ in range(600):
                self._raw(b": still here\n\n")
                time.sleep(0.1)
        elif fault in _GARBAGE:
            self._raw(_GARBAGE[fault])
            if fault != "endless line":
                self._raw(b"data: [DONE]\n\n")
            else:
                for _ in range(80):
                    self._raw(b"x" * 1024**2)
            self.wfile.write(b"0\r\n\r\n")
        else:
            return False
        return True

    def _say(self, document: dict[str, Any]) -> None:
        self._raw(b"data: " + json.dumps(document).encode() + b"\n\n")

    def _raw(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _whole(self, status: int, kind: str, body: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


#: In the middle of a stream, as it is.
_GARBAGE = {
    "no json": b"data: {{{\n\n",
    "not utf-8": b'data: {"choices": [{"index": 0, "delta": {"content": "\xff\xfe"}}]}\n\n',
    "a list": b"data: [1, 2, 3]\n\n",
    "a number": b"data: 7\n\n",
    "null": b"data: null\n\n",
    "empty object": b"data: {}\n\n",
    "choices text": b'data: {"choices": "many"}\n\n',
    "choice number": b'data: {"choices": [5]}\n\n',
    "content number": b'data: {"choices": [{"index": 0, "delta": {"content": 5}}]}\n\n',
    "ids text": b'data: {"choices": [{"index": 0, "delta": {"content": "x"}, "token_ids": "12"}]}\n\n',
    "ids huge": b'data: {"choices": [{"index": 0, "delta": {"content": "x"}, "token_ids": [99999999999999999999999]}]}\n\n',
    "two choices": b'data: {"choices": [{"index": 0, "delta": {}}, {"index": 1, "delta": {}}]}\n\n',
    "error inside": b'data: {"error": {"message": "engine is dead", "code": 500}}\n\n',
    "deep": b"data: " + b"[" * 100_000 + b"\n\n",
    "long number": b'data: {"usage": ' + b"9" * 10_000 + b"}\n\n",
    "binary": bytes(range(256)) * 40,
    "endless line": b"data: ",
    "odd finish": b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "\\u001b[2Jpassed"}]}\n\n',
}
#: In the usage at the end, instead of what is true.
_ABSURD: dict[str, dict[str, Any]] = {
    "tokens negative": {"completion_tokens": -5},
    "tokens huge": {"completion_tokens": 10**18},
    "tokens text": {"completion_tokens": "12"},
    "tokens float": {"completion_tokens": 1.5},
    "tokens true": {"completion_tokens": True},
    "tokens wrong": {"completion_tokens": 3},
    "tokens missing": {"completion_tokens": None},
    "prompt missing": {"prompt_tokens": None},
    "cached huge": {"prompt_tokens_details": {"cached_tokens": 9_000_000}},
    "cached text": {"prompt_tokens_details": {"cached_tokens": "0"}},
}

#: Every way in which a completion goes wrong at once, and those that take as long as they are waited for.
FAULTS = (
    *_GARBAGE,
    *_ABSURD,
    *(
        "status 500",
        "html",
        "whole",
        "gzip",
        "redirect",
        "cut before",
        "cut",
        "ends",
        "no finish",
        "no usage",
        "no done",
    ),
)
SLOW_FAULTS = ("hang", "stalls", "drips")


def _continuous(how: Behaviour, options: dict[str, Any]) -> bool:
    return how.continuous and bool(options.get("continuous_usage_stats"))


def _usage(prompt: int, made: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}


def _chunk(
    delta: dict[str, str], ids: list[int] | None = None, usage: dict[str, Any] | None = None, finish: str | None = None
) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    if ids is not None:
        choice["token_ids"] = ids
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
    return {**chunk, "usage": usage} if usage else chunk


@contextmanager
def serving(behaviour: Behaviour | None = None) -> Iterator[Fake]:
    """A server in a thread of this process."""
    fake = Fake(behaviour or Behaviour())
    thread = threading.Thread(target=fake.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake.http.shutdown()
        fake.http.server_close()


_ASK = """
import asyncio, json, sys
from patchset.gates.client import plain, wire
async def ask():
    said = []
    for base, path in json.load(sys.stdin):
        async with wire.connect(1, 2.0) as http:
            endpoint = plain.Endpoint(http, base, "", 2.0)
            await {"/metrics": endpoint.counters, "/v1/models": endpoint.models, "/version": endpoint.version}[path]()
            said.append(endpoint.problems[0])
    return said
print(json.dumps(asyncio.run(ask())))
"""


def plain_problems(python: Path, root: Path, cases: list[tuple[str, tuple[int, str, bytes]]]) -> list[str]:
    """What the client says of each (path, answer), all asked by one process in its own environment."""
    with ExitStack() as stack:
        asked = [[stack.enter_context(serving(Behaviour(plain={path: answer}))).url, path] for path, answer in cases]
        done = subprocess.run(
            [python, "-c", _ASK], input=json.dumps(asked), cwd=root, capture_output=True, text=True, check=True
        )
    return json.loads(done.stdout)


if __name__ == "__main__":
    told = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    alone = Fake(Behaviour(**told))
    Path(sys.argv[1]).write_text(str(alone.port))
    alone.http.serve_forever()
