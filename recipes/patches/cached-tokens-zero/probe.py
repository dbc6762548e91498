"""Drive each serving path with a cold prompt and read `prompt_tokens_details` of the answer.

Usage: python -I -B probe.py TREE, where TREE holds a vLLM source tree (it may be read-only). The last line of the
output is one JSON object with a verdict and one check for each site, named by its function.

A site is a method below `vllm/entrypoints` that makes a `PromptTokenUsageInfo`, itself or through a function of its
file. Sites are found by reading the tree, wherever their files moved to; the six ways of answering (chat, completion
and token serving, each in full and as a stream) are then driven with the tree's own protocol classes and request
outputs. With a count of 7 every site must give 7, which also shows which sites were reached; with None and with the
details switched off it must give null; with 0 it must give 0, and gives null where the defect is. A site that none of
the drives reaches makes the result unknown.
"""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import inspect
import json
import os
import sys
import traceback
import types
import typing
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

DETAILS_CLASS = "PromptTokenUsageInfo"
ENTRYPOINTS = "vllm/entrypoints"
# What the driven methods read of a server that has neither tools, nor reasoning, nor logging of outputs.
SERVER: dict[str, object] = {
    "_include_reasoning_tokens_details": False,
    "default_chat_template_kwargs": {},
    "enable_auto_tools": False,
    "enable_force_include_usage": False,
    "enable_log_deltas": False,
    "enable_log_outputs": False,
    "enable_per_request_metrics": False,
    "model_config": types.SimpleNamespace(model="m", hf_config=types.SimpleNamespace(model_type="m")),
    "online_derenderer": None,
    "parser_cls": None,
    "reasoning_parser_cls": None,
    "request_logger": None,
    "response_role": "assistant",
    "system_fingerprint": None,
    "tool_call_id_type": "random",
    "tool_parser": None,
    "use_harmony": False,
}


class Unknown(Exception):
    """The probe cannot tell; the message says why."""


@dataclass(frozen=True)
class Drive:
    """One way to get an answer: a method of a serving class, and the class of the requests it takes."""

    server: str
    method: str
    request: str
    stream: bool


DRIVES = (
    Drive("OpenAIServingChat", "chat_completion_full_generator", "ChatCompletionRequest", False),
    Drive("OpenAIServingChat", "chat_completion_stream_generator", "ChatCompletionRequest", True),
    Drive("OpenAIServingCompletion", "request_output_to_completion_response", "CompletionRequest", False),
    Drive("OpenAIServingCompletion", "completion_stream_generator", "CompletionRequest", True),
    Drive("ServingTokens", "serve_tokens_full_generator", "GenerateRequest", False),
    Drive("ServingTokens", "serve_tokens_stream_generator", "GenerateRequest", True),
)


@dataclass(frozen=True)
class Site:
    """A place that makes the details: `function` of `server` in `file`, in the lines `first` to `last`."""

    file: str
    server: str
    function: str
    first: int
    last: int


def as_check(name: str, verdict: str, reason: str) -> dict[str, str]:
    return {"name": name, "verdict": verdict, "reason": reason}


def overall(checks: Sequence[dict[str, str]]) -> str:
    verdicts = [check["verdict"] for check in checks]
    for verdict in ("defect", "unknown"):
        if verdict in verdicts:
            return verdict
    return "absent" if all(verdict == "absent" for verdict in verdicts) else "sound"


def finish(checks: Sequence[dict[str, str]]) -> typing.NoReturn:
    verdict = overall(checks)
    leading = [check for check in checks if check["verdict"] == verdict]
    reason = "; ".join(f"{check['name']}: {check['reason']}" for check in leading)
    sys.stdout.flush()
    print(json.dumps({"verdict": verdict, "reason": reason, "checks": list(checks)}), flush=True)
    # Leaving without teardown keeps exit handlers of the libraries from printing after the result.
    os._exit(0)


def prepare(tree: Path) -> None:
    """Make the tree importable without what only a build or a card would give."""
    os.environ.update(VLLM_CONFIGURE_LOGGING="0", VLLM_LOGGING_LEVEL="ERROR")
    sys.path.insert(0, str(tree))
    if not (tree / "vllm/_version.py").exists():
        version = types.ModuleType("vllm._version")
        version.__dict__.update(__version__="0.0.0", version="0.0.0", __version_tuple__=(0, 0, 0))
        sys.modules["vllm._version"] = version
    # Nothing here looks at images, and a torchvision of another torch build fails on import.
    sys.modules["torchvision"] = None  # type: ignore[assignment]
    if importlib.util.find_spec("mistral_common") is None:
        # 0.19.1-0.23.0 need one vendor's tool calls and tokenizer to get anywhere; its package caps NumPy. No tools here.
        stand_in("vllm.tool_parsers.mistral_tool_parser", "MistralToolCall")
        stand_in("vllm.tokenizers.mistral", "MistralTokenizer")
    if importlib.util.find_spec("diskcache") is None:
        # 0.19.1 imports it at once, for compiled grammars on the disk; later releases where one is used. None is here.
        stand_in("diskcache", "Cache")


def stand_in(module: str, name: str) -> None:
    """A module that holds one empty class, of which nothing is ever an instance."""
    sys.modules[module] = types.ModuleType(module)
    setattr(sys.modules[module], name, type(name, (), {}))


def where(error: BaseException, tree: Path) -> str:
    """The innermost place of `error` that lies in the tree, as file:line, or an empty text."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(tree):
            return f"{path.relative_to(tree)}:{frame.lineno}"
    return ""


def calls(node: ast.AST, names: set[str]) -> list[tuple[int, int]]:
    """First and last line of the calls of `names` below `node`."""
    found = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
    named = [call for call in found if isinstance(call.func, ast.Name) and call.func.id in names]
    return [(call.lineno, call.end_lineno or call.lineno) for call in named]


def sites_of(tree: Path) -> list[Site]:
    """Every site of the tree; Unknown where the details are made in a way this reading does not follow."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    sites: list[Site] = []
    for path in sorted((tree / ENTRYPOINTS).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if DETAILS_CLASS not in text:
            continue
        file = str(path.relative_to(tree))
        module = ast.parse(text)
        helpers = [node for node in module.body if isinstance(node, functions) and calls(node, {DETAILS_CLASS})]
        followed = {place for helper in helpers for place in calls(helper, {DETAILS_CLASS})}
        makers = {DETAILS_CLASS, *(helper.name for helper in helpers)}
        for server in (node for node in module.body if isinstance(node, ast.ClassDef)):
            for function in (node for node in server.body if isinstance(node, functions)):
                places = calls(function, makers)
                sites += [Site(file, server.name, function.name, *place) for place in places]
                followed.update(places)
        lost = sorted(set(calls(module, {DETAILS_CLASS})) - followed)
        if lost:
            raise Unknown(f"{file}:{lost[0][0]} makes a {DETAILS_CLASS} outside of functions and methods")
    return sites


def fill(function: Callable[..., typing.Any], **offered: object) -> typing.Any:
    """Call `function` with those of `offered` that it names; Unknown when it asks for more."""
    parameters = inspect.signature(function).parameters
    missing = [n for n, p in parameters.items() if n not in offered and p.default is p.empty]
    if missing:
        raise Unknown(f"{function.__qualname__} asks for {', '.join(missing)}, which this probe does not know")
    return function(**{name: value for name, value in offered.items() if name in parameters})


class Recorder:
    """Stands before the details class of one module and notes which site each call came from."""

    def __init__(self, module: types.ModuleType, sites: Sequence[Site]) -> None:
        self.made = getattr(module, DETAILS_CLASS)
        self.file, self.sites = module.__file__, sites
        self.reached: set[Site] = set()
        setattr(module, DETAILS_CLASS, self)

    def __call__(self, *args: object, **named: object) -> object:
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.file:
                here = [site for site in self.sites if site.function == frame.f_code.co_name]
                self.reached.update(site for site in here if site.first <= frame.f_lineno <= site.last)
            frame = frame.f_back  # type: ignore[assignment]
        return self.made(*args, **named)


async def once(item: object) -> AsyncIterator[object]:
    yield item


def request_for(drive: Drive, module: types.ModuleType) -> object:
    fields: dict[str, object] = {"model": "m", "stream": drive.stream}
    if drive.stream:
        fields["stream_options"] = {"include_usage": True}
    if drive.request == "ChatCompletionRequest":
        fields["messages"] = [{"role": "user", "content": "a"}]
    elif drive.request == "CompletionRequest":
        fields.update(prompt="a", max_tokens=2)
    else:
        fields.update(token_ids=[1, 2, 3], sampling_params=module.SamplingParams(max_tokens=2))
    return getattr(module, drive.request)(**fields)


def output_of(cached: int | None) -> object:
    """A finished answer of the engine to a prompt of three tokens, `cached` of them from the prefix cache."""
    from vllm.outputs import CompletionOutput, RequestOutput

    text = CompletionOutput(
        index=0, text="b", token_ids=[4], cumulative_logprob=None, logprobs=None, finish_reason="stop"
    )
    return RequestOutput(
        request_id="r",
        prompt="a",
        prompt_token_ids=[1, 2, 3],
        prompt_logprobs=None,
        outputs=[text],
        finished=True,
        num_cached_tokens=cached,
    )


def usage_of_stream(chunks: Sequence[str]) -> dict[str, typing.Any]:
    bodies = [chunk.removeprefix("data: ").strip() for chunk in chunks]
    messages = [json.loads(body) for body in bodies if body != "[DONE]"]
    for message in messages:
        if "error" in message:
            raise Unknown(f"the stream ends with an error: {message['error']}")
    usages = [message["usage"] for message in messages if message.get("usage")]
    if not usages:
        raise Unknown("the stream has no usage")
    return usages[-1]


async def answer(drive: Drive, module: types.ModuleType, cached: int | None, enabled: bool) -> dict[str, typing.Any]:
    """The usage in the answer to one request, as a client reads it."""
    server = object.__new__(getattr(module, drive.server))
    for name, value in {**SERVER, "enable_prompt_tokens_details": enabled}.items():
        # A release may have a read-only property where another has an attribute.
        if not isinstance(inspect.getattr_static(type(server), name, None), property):
            setattr(server, name, value)
    output = output_of(cached)
    completion = drive.server == "OpenAIServingCompletion"
    metadata = module.RequestResponseMetadata(request_id="r")
    result = fill(
        getattr(server, drive.method),
        request=request_for(drive, module),
        result_generator=once((0, output) if completion else output),
        final_res_batch=[output],
        request_id="r",
        created_time=0,
        model_name="m",
        num_prompts=1,
        engine_inputs=[],
        engine_prompts=[],
        conversation=[],
        tokenizer=None,
        request_metadata=metadata,
    )
    if drive.stream:
        return usage_of_stream([chunk async for chunk in result])
    response = await result if inspect.isawaitable(result) else result
    # Until 0.21.0 the full answer of token serving has no usage; it only goes to the server's middleware.
    shown = response if "usage" in type(response).model_fields else metadata
    usage = json.loads(shown.model_dump_json()).get("usage" if shown is response else "final_usage_info")
    if not usage:
        raise Unknown(f"the answer has no usage: {response!r}")
    return usage


def cached_of(drive: Drive, module: types.ModuleType, cached: int | None, enabled: bool = True) -> int | None:
    """`cached_tokens` of the answer; None where it or the details are null."""
    details = asyncio.run(answer(drive, module, cached, enabled)).get("prompt_tokens_details")
    return None if details is None else details.get("cached_tokens")


def judge(drive: Drive, module: types.ModuleType, recorder: Recorder) -> tuple[set[Site], str, str]:
    """The sites a drive reaches, with verdict and reason."""
    recorder.reached = set()
    warm = cached_of(drive, module, 7)
    reached = set(recorder.reached)
    if warm != 7 or not reached:
        raise Unknown(f"7 cached tokens read as {warm} through {len(reached)} known sites")
    for cached, enabled, text in ((None, True, "a count of None"), (7, False, "details that are off")):
        got = cached_of(drive, module, cached, enabled)
        if got is not None:
            return reached, "defect", f"{text} reads as cached_tokens {got}, not null"
    cold = cached_of(drive, module, 0)
    if cold is None:
        return reached, "defect", "a cold prompt (0 cached tokens) reads as prompt_tokens_details null"
    if cold != 0:
        return reached, "defect", f"a cold prompt (0 cached tokens) reads as cached_tokens {cold}"
    return reached, "sound", "0 reads as 0, 7 as 7, None as null"


def module_of(file: str, tree: Path) -> types.ModuleType:
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    if not Path(typing.cast(str, module.__file__)).is_relative_to(tree):
        raise Unknown(f"Python imported {module.__file__}, not the tree's file")
    return module


def probe(tree: Path) -> list[dict[str, str]]:
    sites = sites_of(tree)
    if not sites:
        raise Unknown(f"no method below {ENTRYPOINTS} makes a {DETAILS_CLASS}; the code may have moved")
    prepare(tree)
    checks: list[dict[str, str]] = []
    driven: set[Site] = set()
    for file in sorted({site.file for site in sites}):
        module = module_of(file, tree)
        recorder = Recorder(module, [site for site in sites if site.file == file])
        for drive in DRIVES:
            if not hasattr(getattr(module, drive.server, None), drive.method):
                continue
            try:
                reached, verdict, reason = judge(drive, module, recorder)
            except Unknown as error:
                checks.append(as_check(drive.method, "unknown", f"{file}: {error}"))
            except Exception as error:
                text = f"{where(error, tree) or file}: {type(error).__name__}: {error}"
                checks.append(as_check(drive.method, "unknown", text))
            else:
                driven |= reached
                found = sorted(reached, key=str)
                checks += [as_check(site.function, verdict, f"{file}:{site.first}: {reason}") for site in found]
    for site in sites:
        if site not in driven:
            checks.append(as_check(site.function, "unknown", f"{site.file}:{site.first} was not driven"))
    return checks


def main() -> None:
    try:
        if len(sys.argv) != 2:
            raise Unknown("usage: probe.py TREE")
        checks = probe(Path(sys.argv[1]).resolve())
    except Unknown as error:
        checks = [as_check("probe", "unknown", str(error))]
    except BaseException as error:
        checks = [as_check("probe", "unknown", f"{type(error).__name__}: {error}")]
    finish(checks)


if __name__ == "__main__":
    main()
