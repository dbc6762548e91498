"""What a gate knows before and beside the client: prompts, plan, process, log, versions, and the file that is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fake_server import serving

from patchset.errors import DeclarationError, GateError, WorktreeError
from patchset.gates import run, run_client, run_keep, run_log, run_plan, run_server, run_versions
from patchset.gates.prompts import Prompt, prompts_of
from patchset.verify.bounded import Malformed


@pytest.mark.parametrize("kind", run_plan.KINDS)
def test_every_gate_has_prompts_that_begin_differently(kind: str) -> None:
    chosen = prompts_of(kind)
    heads = {json.dumps(one.messages()[0])[:60] for one in chosen.prompts}
    assert len(heads) == len(chosen.prompts) or kind == "ladder"  # which has a salt before each


def test_the_baseline_has_prompts_longer_than_a_block_of_any_cache() -> None:
    # vLLM caches whole blocks: 16 to 128 tokens, over a thousand for hybrid models. A shorter prompt is never warm.
    assert max(len(one.user) for one in prompts_of("baseline").prompts) > 3000


GOOD: dict[str, Any] = {
    "schema": 1,
    "set": "mine",
    "max_tokens": 8,
    "prompts": [{"id": "a", "system": "s", "user": "u"}],
}


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"prompts": []},
        {"prompts": [{"id": "A b", "system": "s", "user": "u"}]},
        {"prompts": [{"id": "a", "system": "s"}]},
        {"prompts": GOOD["prompts"] * 2},
        {"max_tokens": 0},
        {"max_tokens": True},
        {"max_tokens": 1e9},
        {"set": ""},
    ],
)
def test_prompts_are_read_strictly(tmp_path: Path, change: dict[str, Any]) -> None:
    file = tmp_path / "p.json"
    file.write_text(json.dumps(GOOD))
    assert prompts_of(str(file)).prompts == (Prompt("a", "s", "u"),)
    file.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(GateError) as failure:
        prompts_of(str(file))
    assert str(file) in str(failure.value)


def test_no_prompts_there(tmp_path: Path) -> None:
    with pytest.raises(GateError, match="baseline"):
        prompts_of(str(tmp_path / "none.json"))


def test_a_salt_stands_before_everything_of_a_prompt() -> None:
    plain, salted = (Prompt("a", "be short", "hello").messages(salt) for salt in ("", "00ff"))
    assert salted[0]["content"] == f"[00ff] {plain[0]['content']}"


def test_the_ladder_asks_the_same_again_and_marks_what_comes_first() -> None:
    salts = iter(range(1000))
    steps = run_plan.steps_of("ladder", prompts_of("ladder"), (2,), lambda: f"s{next(salts)}")
    first, cold, warm = steps
    assert [step["jit_tainted"] for step in steps] == [True, False, False]
    assert [len(step["requests"]) for step in steps] == [2, 4, 4]
    assert [one["messages"] for one in cold["requests"]] == [one["messages"] for one in warm["requests"]]
    texts = [json.dumps(one["messages"]) for step in (first, cold) for one in step["requests"]]
    assert len(set(texts)) == len(texts)
    names = [one["id"] for step in steps for one in step["requests"]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", ["bringup", "baseline"])
def test_each_prompt_is_asked_once_with_nothing_before_it(kind: str) -> None:
    (step,) = run_plan.steps_of(kind, prompts_of(kind))
    assert [one["prompt"] for one in step["requests"]] == [one.id for one in prompts_of(kind).prompts]
    assert (step["phase"], step["concurrency"]) == ("cold", 1)


@pytest.mark.parametrize("text", ["", "0", "2,1", "1,1", "1;2", "-1", "1,", "257", "1.5", "9" * 50, "²"])
def test_rungs_are_read_strictly(text: str) -> None:
    assert run_plan.rungs_of("1, 2,16") == (1, 2, 16)
    with pytest.raises(GateError, match="--concurrency"):
        run_plan.rungs_of(text)


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h:8000", "http://h:8000"),
        ("http://h:8000/v1/", "http://h:8000"),
        ("https://h/llm/v1", "https://h/llm"),
        ("http://[::1]:80/", "http://[::1]:80"),
    ],
)
def test_an_address_is_its_root(url: str, base: str) -> None:
    assert run_server.address_of(url) == base


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h:8000",
        "ftp://h",
        "http://",
        "http://u:p@h",
        "http://h:0",
        "http://h:99999",
        "http://h/?a=b",
        "http://h/ x",
        "http://h\n",
        "file:///etc",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(DeclarationError, match="--url"):
        run_server.address_of(url)


def test_the_process_behind_an_address_is_found() -> None:
    with serving() as fake:
        found = run_server.process_of(fake.url)
        assert found and found.pid == os.getpid()
        assert found.command[0].endswith(Path(sys.executable).name) or "python" in found.command[0]
    assert run_server.process_of(fake.url) is None
    assert run_server.process_of("http://192.0.2.1:8000") is None


def test_a_process_shows_what_tells_and_hides_secrets() -> None:
    names = {
        "VLLM_API_KEY": "k1",
        "HF_TOKEN": "k2",
        "ZE_AFFINITY_MASK": "0",
        "SYCL_CACHE_PERSISTENT": "1",
        "MY_OWN": "x",
    }
    words = ["--port", "1", "--api-key", "k3", "k4", "--x=y", "--hf-token=k5"]
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()", *words],
        env=names,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout and child.stdout.readline() == b"1\n"
        found = run_server.process_of("http://h:1", child.pid)
        assert found and run_server.facts(found) == {"pid": child.pid, "running": True}
        assert found.environment == {
            "HF_TOKEN": "(hidden)",
            "SYCL_CACHE_PERSISTENT": "1",
            "VLLM_API_KEY": "(hidden)",
            "ZE_AFFINITY_MASK": "0",
        }
        assert found.command[-7:] == (
            "--port",
            "1",
            "--api-key",
            "(hidden)",
            "(hidden)",
            "--x=y",
            "--hf-token=(hidden)",
        )
        flags = ["--api-key=(hidden) (hidden)", "--hf-token=(hidden)", "--port=1", "--x=y"]
        assert run_server.flags_of(found.command[3:]) == flags
    finally:
        child.kill()
        child.communicate()
    assert run_server.facts(found) == {"pid": child.pid, "running": False}
    with pytest.raises(GateError, match="no process"):
        run_server.process_of("http://h:1", child.pid)


def test_flags_are_told_with_their_values_in_one_order() -> None:
    flags = run_server.flags_of(
        ["vllm", "serve", "m", "--seed", "-1", "--enforce-eager", "--lora", "a=1", "b=2", "--b"]
    )
    assert flags == ["--b", "--enforce-eager", "--lora=a=1 b=2", "--seed=-1"]
    assert run_server.flag(["--max_model_len=5"], "max-model-len") == "5"
    assert run_server.flag(["--revision"], "revision") is None


@pytest.mark.parametrize(
    "line",
    [
        "WARNING 12-03 17:00:00 [xpu.py:179] Flash Attention on XPU does not support float32 dtype. Falling back to Triton Attention backend.",
        "(EngineCore pid=7) WARNING 12-03 17:00:00 [interface.py:368] Failed to import from vllm._C: ImportError('x')",
        "WARNING [fused_moe.py:1] Using default MoE config. Performance might be sub-optimal! Config file not found",
        "WARNING 12-03 [xpu.py:297] XPU Graph is not supported in the current PyTorch version, disabling cudagraph_mode.",
        "WARNING 12-03 [vllm.py:709] Model Runner V2 requires Triton; using the V1 model runner instead.",
        "Dec 3 host vllm[1]: \x1b[33mWARNING\x1b[0m [envs.py:1] Unknown vLLM environment variable detected: VLLM_X",
        "something native prints without a level: fallback to CPU",
        "ERROR 12-03 [x.py:1] register spill of 4096 bytes",
    ],
)
def test_warnings_of_a_fallback_are_found(line: str) -> None:
    assert len(run_log.fallbacks(f"INFO a\n{line}\n{line}\nINFO b\n".encode())) == 1


@pytest.mark.parametrize(
    "line",
    [
        "INFO 12-03 17:00:00 [topk.py:86] sampling: falling back to native",
        "WARNING 12-03 [xpu.py:303] XPU Graph is disabled by environment variable, please set VLLM_XPU_ENABLE_XPU_GRAPH=1",
        "WARNING 12-03 [vllm.py:1547] Enforce eager set, disabling torch.compile and CUDAGraphs.",
        "WARNING 12-03 [indexer_topk.py:29] Failed to import the DeepSelect extension (vllm._deepselect_C)",
        "WARNING 12-03 [importing.py:45] Triton is installed, but doesn't include CPU backend. Disabling Triton.",
        "WARNING 12-03 [system_utils.py:299] Found ulimit of 20000",
    ],
)
def test_what_is_no_fallback_is_not_one(line: str) -> None:
    assert run_log.fallbacks(line.encode()) == ()


def test_a_log_is_bounded_whatever_is_in_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(
        b"\xff\x00fallback " + b"x" * 100_000 + b"\n" + b"".join(b"fallback %d\n" % one for one in range(999))
    )
    read = run_log.read_log(log)
    assert len(read.fallbacks) == 50 and max(map(len, read.fallbacks)) == 500
    log.write_bytes(b"\n")
    for path in (log, tmp_path, tmp_path / "none", "/dev/zero"):
        with pytest.raises(GateError, match="log"):
            run_log.read_log(path)


def test_versions_are_read_from_names(tmp_path: Path) -> None:
    for name in ("torch-2.14.0+xpu", "triton_xpu-3.7.2", "vllm-0.33.0+xpu.b70.1", "requests-2.0", "torch-x"):
        (tmp_path / f"{name}.dist-info").mkdir()
    assert run_versions.versions_in(tmp_path) == {
        "torch": "2.14.0+xpu",
        "triton-xpu": "3.7.2",
        "vllm": "0.33.0+xpu.b70.1",
    }
    assert run_versions.versions_in(tmp_path / "none") == run_versions.versions_of(2**30) == {}


def test_a_result_is_written_once(tmp_path: Path) -> None:
    path = run_keep.place("", tmp_path / "gates", "promote")
    assert path.parent == tmp_path / "gates" and path.name.startswith("promote-2")
    assert run_keep.place(f"{tmp_path}", tmp_path, "ladder").parent == tmp_path
    results: list[str] = []

    def write(text: str) -> None:
        try:
            run_keep.write_once(path, text.encode())
            results.append(text)
        except GateError:
            pass

    threads = [threading.Thread(target=write, args=[str(one)]) for one in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.read_text()] == results
    assert os.listdir(path.parent) == [path.name]
    with pytest.raises(GateError, match="written once"):
        run_keep.place(str(path), tmp_path, "promote")
    with pytest.raises(WorktreeError):
        run_keep.write_once(path / "below.json", b"x")


def request() -> dict[str, Any]:
    hashes = {"prompt_sha256": "a" * 64, "output_sha256": "b" * 64}
    counts = {"characters": 1, "visible": 1, "control": 0, "longest_run": 1, "distinct": 1}
    numbers = {"status": 200, "prompt_tokens": 1, "completion_tokens": 1, "cached_tokens": 0, "reasoning_tokens": None}
    times = {"sent_s": 0, "ttft_s": 0.1, "wall_s": 0.1, "client_lag_s": 0.0, "arrivals": [[0.1, 1]]}
    words = {"id": "a", "prompt": "a", "phase": "cold", "error": None, "finish_reason": "stop", "text_head": "x"}
    return {**hashes, **numbers, **times, **words, "text": counts, "concurrency": 1, "jit_tainted": False}


def raw(**change: Any) -> bytes:
    document = {
        "format": 1,
        "client": {"library": "openai 3", "python": "3.11"},
        "timing": {"source": "token_ids", "clock": "perf_counter"},
        **dict.fromkeys(("health", "models", "version", "metrics")),
        "problems": [],
        "requests": [request()],
    }
    return json.dumps({**document, **change}).encode()


def test_the_clients_result_is_read_whole() -> None:
    read = run_client.read(raw())
    assert read["requests"] == [request()]


@pytest.mark.parametrize("name", [*request()])
def test_no_field_of_a_request_may_be_missing_or_odd(name: str) -> None:
    lacking = {key: value for key, value in request().items() if key != name}
    for row in (lacking, {**request(), name: {}}, {**request(), name: -1}, {**request(), name: [[1]]}):
        with pytest.raises(Malformed):
            run_client.read(raw(requests=[row]))


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"timing": {"source": "chunks", "clock": "x"}},
        {"metrics": {"before": {}}},
        {"metrics": []},
        {"models": [{"id": 5}]},
        {"problems": "none"},
        {"requests": None},
    ],
)
def test_no_other_field_may_be_odd(change: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        run_client.read(raw(**change))


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "other"},
        {"model": " "},
        {"model": "a\x1bb"},
        {"timeout": 0.0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"most": -1},
        {"pid": -1},
    ],
)
def test_an_order_is_read_before_anything_is_done(wrong: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError):
        run.Wanted(**{"kind": "promote", "url": "http://h", "model": "m", **wrong})
