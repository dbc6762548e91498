"""One engine of the twin on the Python files of a tree: ``python worker.py JOB RESULT`` with that tree first on ``PYTHONPATH``.

It runs in the engine's environment and imports nothing of this project. The job (JSON): ``model`` (a folder), ``length``
(``max_model_len``), ``seconds`` (the limit of one scenario), and ``engines``, each with ``depth`` (drafts a step, 0 for none), ``runner`` (vLLM's model runner, 1 or 2), ``public``
(rebuild short groups as the public approach does) and ``scenarios``: each with ``prompts`` (lists of token ids) and ``at_once``
(how many run together).

The result (a line of JSON an engine, written when it ends; those that are there already are not run again) has a list an engine,
with an entry a scenario: ``tokens`` (a list a prompt), ``gaps`` (without drafts: how far the
best other logit is below the one taken at each token, and which token that is), ``builds``, ``groups``, ``short`` and ``single``
(counts of metadata builds, of groups with drafts, of short ones among them, and of decodes of one token without drafts); or ``died`` or
``late`` with a text.

Every engine runs in a fork of the process that imported vLLM, which takes longest, and every scenario in a fork of the started
engine: one that kills the engine kills only its own copy.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

#: As the operator of vllm-xpu-kernels before 0.1.15.3 says it.
REFUSAL = "Expected spec_token == num_spec_decodes * (num_speculative_tokens + 1) to be true, but got false."


def prepare() -> None:
    """What vLLM wants before it is imported: Triton with a backend for the CPU, and an XPU package to import names from."""
    from triton.backends import backends

    target = types.SimpleNamespace(backend="cpu", arch="cpu", warp_size=1)
    driver = type("Driver", (), {"is_active": staticmethod(lambda: True), "get_current_target": lambda self: target})
    backends["cpu"] = types.SimpleNamespace(driver=driver, compiler=None)
    package, module = types.ModuleType("vllm_xpu_kernels"), types.ModuleType("vllm_xpu_kernels.flash_attn_interface")
    module.flash_attn_varlen_func = None
    sys.modules.update({package.__name__: package, module.__name__: module})


def gdn_attention(core_attn_out: Any, z: Any, qkvz: Any, ba: Any, *heads: int, A_log: Any, **given: Any) -> None:
    """What stands in for the XPU operator: its refusal of short groups, then the CPU's GDN functions on the same arguments."""
    import torch
    from vllm.forward_context import get_forward_context
    from vllm.model_executor.layers.mamba.ops.cpu import gdn_attention as cpu

    layers = get_forward_context().no_compile_layers.values()
    layer = next(layer for layer in layers if getattr(layer, "A_log", None) is A_log)
    tokens, groups = given["num_actual_tokens"], given["num_spec_decodes"]
    # The CPU's functions look at the stride of an index tensor, which a column of length one has of its whole table.
    given = {
        name: value.clone(memory_format=torch.contiguous_format)
        if torch.is_tensor(value) and value.dim() == 1
        else value
        for name, value in given.items()
    }
    if groups:
        width = given["spec_state_indices_tensor"].size(1)
        if given["spec_token_indx"].numel() != groups * width:
            raise RuntimeError(REFUSAL)
    query, key, value, gate, b, a = layer.fix_query_key_value_ordering(qkvz[:tokens], ba[:tokens])
    z[:tokens] = gate
    mixed = torch.cat([part.reshape(tokens, -1) for part in (query, key, value)], dim=-1)
    a, b = a.contiguous(), b.contiguous()
    conv, ssm = cpu._conv_buffer_view(layer), cpu._ssm_state_view(layer)
    kernel = layer.conv1d.weight.size(-1)
    said = types.SimpleNamespace(
        **{name: given[name] for name in given if name.startswith(("num_", "spec_", "non_spec_", "has_"))},
        prefill_state_indices=given["non_spec_state_indices_tensor"],
        prefill_query_start_loc=given["non_spec_query_start_loc"],
    )
    said.num_decode_tokens = said.num_decodes
    said.num_prefill_tokens = tokens - said.num_decodes
    if not groups:
        cpu._spec_aware_nonspec(layer, said, mixed, b, a, core_attn_out, conv, ssm, kernel)
        return
    rows = given["spec_token_indx"].long()
    out = cpu._spec_forward(layer, said, mixed[rows], b[rows], a[rows], conv, ssm, kernel, conv.size(-1))
    core_attn_out.index_copy_(0, rows, out)
    if said.num_prefills:
        rows = given["non_spec_token_indx"].long()
        out = cpu._spec_aware_nonspec_subset(layer, said, mixed[rows], b[rows], a[rows], conv, ssm, kernel)
        core_attn_out.index_copy_(0, rows, out)


class OneRecurrence:
    """The CPU's compiled GDN operators as one: groups, decodes and prefills all go through that for groups.

    The CPU has three, each of which rounds elsewhere (their states differ by half a percent), so that a run with drafts and one
    without would part for that alone. They take bfloat16 only, in an engine that computes in float32: what goes in is rounded.
    """

    def __init__(self, operators: Any) -> None:
        self.operators = operators

    def fused_sigmoid_gating_delta_rule_update_spec_cpu(self, **given: Any) -> Any:
        """A state before each group from the accepted column, one after each token to that token's column."""
        rounded = {name: given.pop(name).bfloat16() for name in ("q", "k", "v", "a", "b", "dt_bias")}
        return self.operators.fused_sigmoid_gating_delta_rule_update_spec_cpu(**rounded, **given).float()

    def fused_sigmoid_gating_delta_rule_update_cpu(
        self, q: Any, k: Any, v: Any, initial_state_indices: Any, cu_seqlens: Any, **given: Any
    ) -> Any:
        """Decodes: groups of one token, whose one column is the state's slot."""
        return self._sequences(q, k, v, initial_state_indices, cu_seqlens, **given).unsqueeze(1)

    def fused_gdn_gating_cpu(self, **given: Any) -> Any:
        """What the gates are made of, for the call that follows, which makes them itself."""
        return given, None

    def chunk_gated_delta_rule_cpu(
        self,
        query: Any,
        key: Any,
        value: Any,
        g: dict[str, Any],
        initial_state: Any,
        initial_state_indices: Any,
        cu_seqlens: Any,
        **_: Any,
    ) -> Any:
        """Prefills: groups of their length, all of whose columns are the state's slot."""
        out = self._sequences(
            query,
            key,
            value,
            initial_state_indices,
            cu_seqlens,
            initial_state_source=initial_state,
            use_qk_l2norm_in_kernel=True,
            **g,
        )
        return out.unsqueeze(0), None

    def _sequences(self, q: Any, k: Any, v: Any, slots: Any, starts: Any, **given: Any) -> Any:
        import torch

        longest = max(int(starts.diff().max()), 1)
        return self.fused_sigmoid_gating_delta_rule_update_spec_cpu(
            q=q.flatten(0, -3),
            k=k.flatten(0, -3),
            v=v.flatten(0, -3),
            spec_state_indices=slots.int()[:, None].expand(-1, longest).contiguous(),
            num_accepted_tokens=torch.ones(len(slots), dtype=torch.int32),
            cu_seqlens=starts.int().contiguous(),
            **given,
        )


def inject(job: Any, counts: dict[str, int]) -> None:
    """Put the XPU's route into this process: the tree's own code from the layer to the operator, the operator replaced."""
    import torch
    import vllm._xpu_ops  # noqa: F401
    from vllm.model_executor.layers.mamba.gdn import qwen_gdn_linear_attn as gdn
    from vllm.model_executor.layers.mamba.ops.cpu import gdn_attention as cpu
    from vllm.v1.attention.backends import gdn_attn

    # Read by the operator's stand-in and by the layers, so that every machine takes the same way.
    torch.cpu._is_amx_tile_supported = torch.cpu._is_avx512_bf16_supported = lambda: False
    build = gdn_attn.GDNAttentionMetadataBuilder.build
    width, counted_by = job["depth"] + 1, {}

    def counted(self: Any, prefix: int, m: Any = None, accepted: Any = None, drafts: Any = None, **more: Any) -> Any:
        m = more.pop("common_attn_metadata", m)
        accepted = more.pop("num_accepted_tokens", accepted)
        drafts = more.pop("num_decode_draft_tokens_cpu", drafts)
        prefix = more.pop("common_prefix_len", prefix)
        lens = m.query_start_loc_cpu.diff()
        groups = lens[drafts >= 0] if drafts is not None else lens[:0]
        short = int((groups < width).sum())
        counted_by.setdefault("builder", self)  # there is one for every layer's group of states: count a step once
        if self is counted_by["builder"]:
            counts["builds"] += 1
            counts["groups"] += len(groups)
            counts["short"] += short
            counts["single"] += int((lens == 1).sum()) - int((groups == 1).sum())
        if short and job["public"]:
            accepted = drafts = None
        return build(self, prefix, m, accepted, drafts, **more)

    gdn_attn.GDNAttentionMetadataBuilder.build = lambda self, common_prefix_len=0, *a, **k: counted(
        self, common_prefix_len, *a, **k
    )
    cpu.ops = OneRecurrence(cpu.ops)
    platform = gdn_attn.__dict__.get("current_platform")
    if platform is not None:  # only the patched builder asks

        class Xpu:
            def __getattr__(self, name: str) -> Any:
                return (lambda: True) if name == "is_xpu" else getattr(platform, name)

        gdn_attn.current_platform = Xpu()
    torch.ops._xpu_C.gdn_attention = gdn_attention
    for layer in vars(gdn).values():
        if isinstance(layer, type) and "forward_xpu" in vars(layer):
            layer.forward_cpu = layer.forward_xpu


def start(job: Any) -> Any:
    """The engine, on one process and one thread."""
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = str(job["runner"] - 1)
    from vllm import LLM

    speculative = {"method": "mtp", "num_speculative_tokens": job["depth"]} if job["depth"] else None
    return LLM(
        model=job["model"],
        dtype="float32",
        max_model_len=job["length"],
        max_num_seqs=4,
        enforce_eager=True,
        skip_tokenizer_init=True,
        enable_prefix_caching=False,
        kv_cache_memory_bytes=64 * 1024 * 1024,
        seed=0,
        speculative_config=speculative,
    )


def generate(llm: Any, job: Any, scenario: Any, counts: dict[str, int]) -> Any:
    """Run one scenario to ``max_model_len``: the entry of the result."""
    from vllm import SamplingParams

    for name in counts:
        counts[name] = 0
    core = llm.llm_engine.engine_core.engine_core
    core.scheduler.max_num_running_reqs = scenario["at_once"]
    params = SamplingParams(
        temperature=0,
        ignore_eos=True,
        max_tokens=job["length"],
        detokenize=False,
        logprobs=None if job["depth"] else 2,
    )
    prompts = [{"prompt_token_ids": prompt} for prompt in scenario["prompts"]]
    try:
        answers = [answer.outputs[0] for answer in llm.generate(prompts, params, use_tqdm=False)]
    except Exception as error:  # whatever kills an engine is the answer
        traceback.print_exc()
        return {"died": str(error).strip()[:400] or type(error).__name__, **counts}
    entry = {"tokens": [list(answer.token_ids) for answer in answers], **counts}
    if not job["depth"]:
        entry["gaps"] = [
            [gap(token, step) for token, step in zip(a.token_ids, a.logprobs, strict=True)] for a in answers
        ]
    return entry


def gap(token: int, step: Any) -> list[Any]:
    """How far the best other token is below the one taken, and which it is."""
    other = max((item for item in step.items() if item[0] != token), key=lambda item: item[1].logprob)
    return [step[token].logprob - other[1].logprob, other[0]]


def forked(seconds: float, work: Callable[[], Any]) -> Any:
    """What *work* returns in a copy of this process; ``died`` or ``late`` with a text if it returns nothing."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "w") as stream:
                json.dump(work(), stream)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    os.close(writer)
    data = b""
    with os.fdopen(reader, "rb", buffering=0) as stream:
        while select.select([stream], [], [], seconds)[0]:
            part = stream.read(1 << 16)
            if not part:
                break
            data += part
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return {"late": f"no end after {seconds} s"}
    _, status = os.waitpid(child, 0)
    if status:
        return {"died": f"the process ended with {os.waitstatus_to_exitcode(status)}"}
    return json.loads(data)


def run_engine(job: Any, engine: Any) -> list[Any]:
    """The entries of one engine of the job."""
    counts = {"builds": 0, "groups": 0, "short": 0, "single": 0}
    job = {**job, **engine}
    inject(job, counts)
    llm = start(job)
    entries = []
    for scenario in job["scenarios"]:
        entries.append(forked(job["seconds"], lambda scenario=scenario: generate(llm, job, scenario, counts)))
        print(len(entries), "of", len(job["scenarios"]), str(entries[-1])[:200], flush=True)
    return entries


def main(job_file: str, result_file: str) -> None:
    """Read the job, run what the result lacks of it, and write that."""
    with open(job_file, encoding="utf-8") as stream:
        job = json.load(stream)
    prepare()

    with open(result_file, "a+", encoding="utf-8") as stream:
        for engine in job["engines"][whole_lines(stream) :]:
            limit = 300 + job["seconds"] * len(engine["scenarios"])
            stream.write(json.dumps(forked(limit, lambda engine=engine: run_engine(job, engine))) + "\n")
            stream.flush()
            os.fsync(stream.fileno())


def whole_lines(stream: Any) -> int:
    """How many lines *stream* has; the beginning of another one, which a killed run left, is cut off."""
    stream.seek(0)
    text = stream.read()
    stream.truncate(len(text[: text.rfind("\n") + 1].encode()))
    stream.seek(0, os.SEEK_END)
    return text.count("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
