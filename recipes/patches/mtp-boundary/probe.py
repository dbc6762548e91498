"""Probe of mtp-boundary: short speculative groups through the tree's own metadata builder and XPU operator call.

Run as ``python -I -B probe.py TREE``. The last line printed is one JSON object: verdict, reason, checks.
The tree's ``GDNAttentionMetadataBuilder.build`` and ``_gdn_attention_core_xpu_impl`` run. The operator they call is a
float64 model of vllm-xpu-kernels, written from its contract: which group sizes it refuses, where it reads and writes
states, for the version in requirements/xpu.txt. Requests are generated with drafts accepted and rejected; every
accepted token must get the output of a run without speculation.
Sources: strings and schema in the wheels 0.1.12.1, 0.1.13.2, 0.1.14.1; vllm-xpu-kernels pull requests 544 and 600.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import itertools
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

OP_FILE = "vllm/_xpu_ops.py"
NO_SPECULATION = "assert attn_metadata.spec_sequence_masks is None"
OP_CALL = "_gdn_attention_core_xpu_impl"
BUILDER_FILE = "vllm/v1/attention/backends/gdn_attn.py"
RUNNER_FILE = "vllm/v1/worker/gpu_model_runner.py"
LAYER = "layer"
NUM_SPEC, GROUP, POSITIONS, POISON = 3, 4, 24, 7.0
HEAD, CONV, HISTORY = 2, 6, 2  # size of a head, of its query + key + value; inputs the convolution looks back
EQUALITY = "Expected spec_token == num_spec_decodes * (num_speculative_tokens + 1) to be true, but got false."
STATES = ((HISTORY + NUM_SPEC, CONV), (1, HEAD, HEAD))
ARGUMENTS = ("num_accepted_tokens", "num_decode_draft_tokens_cpu")
WEIGHTS = np.random.default_rng(20).standard_normal((CONV, HISTORY + 1))
# The builder names these for types and registries only; their own imports need a whole installation.
STUBBED = (
    *("vllm_xpu_kernels", "vllm._version", "vllm.env_override", "vllm._aiter_ops", "vllm.config", "vllm.distributed"),
    *("vllm.forward_context", "vllm.multimodal", "vllm.model_executor.layers.attention_layer_base"),
    *("vllm.model_executor.layers.quantization", "vllm.model_executor.layers.mamba.gdn"),
)


class Stub(ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__[name] = type(name, (), {})
        return self.__dict__[name]


class StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of STUBBED: any name asked of them is an empty class."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        stubbed = any(f"{fullname}.".startswith(f"{name}.") for name in STUBBED)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if stubbed else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__version__, module.__version_tuple__ = "0.0.0", (0, 0, 0)


class Wrong(Exception):
    """The operator refuses its arguments, or an accepted token's output is not that of a run without speculation."""


def check(condition: bool, message: str) -> None:
    if not condition:
        raise Wrong(message)


@dataclass(frozen=True)
class Kernels:
    version: str
    takes_short_groups: bool
    conv_in_one_line: bool  # a window in column 0; before, a snapshot in each column, like the recurrent states
    refuses_mixed: bool


def kernels_of(tree: Path) -> Kernels:
    """The contract of the tree's pin. Raises LookupError when requirements/xpu.txt names none."""
    text = (tree / "requirements/xpu.txt").read_text(encoding="utf-8")
    found = re.search(r"^vllm_xpu_kernels\s*(?:==\s*|@\s*\S*/v)([0-9]+(?:\.[0-9]+)+)", text, re.MULTILINE)
    if found is None:
        raise LookupError("requirements/xpu.txt: no vllm_xpu_kernels version")
    version = tuple(map(int, found[1].split(".")))
    line = version >= (0, 1, 14)
    return Kernels(found[1], version >= (0, 1, 15, 3), line, (0, 1, 12) <= version and not line)


def gated_delta_token(window: Any, state: Any, qkvz: Any, ba: Any) -> tuple[Any, Any, Any]:
    """One token of a head: (output, window after it, state after it); window holds the HISTORY inputs before."""
    inputs = np.concatenate((window, qkvz[None, :CONV]))
    mixed = (inputs.T * WEIGHTS).sum(1)
    mixed = mixed / (1 + np.exp(-mixed))
    query, key, value = mixed[:HEAD], mixed[HEAD : 2 * HEAD], mixed[2 * HEAD :]
    query = query / np.sqrt(query @ query + 1e-6) / HEAD**0.5
    key = key / np.sqrt(key @ key + 1e-6)
    state = state * np.exp(-0.4 * np.log1p(np.exp(ba[1])))
    state = state + np.outer((value - state @ key) / (1 + np.exp(-ba[0])), key)
    return state @ query, inputs[1:], state


@dataclass
class Operator:
    """The operator's contract; `calls` tells what it was given."""

    kernels: Kernels
    calls: list[str] = field(default_factory=list)

    def __call__(self, core_attn_out: Any, z: Any, qkvz: Any, ba: Any, *heads: int, **named: Any) -> None:
        named.update(core_attn_out=core_attn_out, z=z, qkvz=qkvz, ba=ba)
        # Views, so that what is written here is in the caller's tensors.
        a = SimpleNamespace(**{name: v.numpy() if hasattr(v, "numpy") else v for name, v in named.items()})
        groups, others, spec, width = a.num_spec_decodes, a.num_prefills + a.num_decodes, [], 0
        if groups:
            spec, width = a.spec_token_indx.tolist(), a.spec_state_indices_tensor.shape[1]
        rest = list(range(a.num_actual_tokens)) if others else []
        if others and a.non_spec_token_indx is not None:
            rest = a.non_spec_token_indx.tolist()
        self.calls.append(f"{len(spec)} tokens in {groups} groups of {width}, {len(rest)} others")
        for rows in (a.core_attn_out, a.z, a.qkvz, a.ba):
            check(rows.shape[0] >= a.num_actual_tokens and rows.flags.c_contiguous, "a row for each token")
        short = self.kernels.takes_short_groups and len(spec) < groups * width
        check(short or len(spec) == groups * width, EQUALITY)
        check(sorted(spec + rest) == list(range(a.num_actual_tokens)), f"tokens are not taken once each: {spec + rest}")
        if spec:
            for rows in (a.spec_state_indices_tensor, a.num_accepted_tokens, a.spec_query_start_loc[1:]):
                check(len(rows) == groups and rows.flags.c_contiguous, "a row for each speculative group")
            check(a.spec_token_indx.dtype == np.int32, "spec_token_indx must be of int32 dtype")
            self.speculative(a, spec, width)
        if rest:
            for rows in (a.non_spec_state_indices_tensor, a.non_spec_query_start_loc[1:]):
                check(len(rows) == others, "a row for each other sequence")
            self.non_speculative(a, rest)

    def token(self, a: Any, token: int, window: Any, state: Any) -> tuple[Any, Any]:
        a.core_attn_out[token, 0], window, state = gated_delta_token(window, state, a.qkvz[token], a.ba[token])
        a.z[token, 0] = a.qkvz[token, CONV:]
        return window, state

    def speculative(self, a: Any, tokens: list[int], width: int) -> None:
        for group, columns in enumerate(a.spec_state_indices_tensor.tolist()):
            start, end = group * width, (group + 1) * width
            if self.kernels.takes_short_groups:
                start, end = a.spec_query_start_loc[group : group + 2].tolist()
            accepted = max(int(a.num_accepted_tokens[group]) - 1, 0)
            state = a.ssm_state[columns[accepted], 0].copy()
            row, column = (accepted, 0) if self.kernels.conv_in_one_line else (0, accepted)
            window = a.conv_state[columns[column], row : row + HISTORY].copy()
            line = [window[1:]]
            for block, token in zip(columns, tokens[start:end]):
                window, state = self.token(a, token, window, state)
                a.ssm_state[block, 0] = state
                line.append(window[-1:])
                if not self.kernels.conv_in_one_line:
                    a.conv_state[block, :HISTORY] = window
            if self.kernels.conv_in_one_line:
                a.conv_state[columns[0], : HISTORY - 1 + end - start] = np.concatenate(line)

    def non_speculative(self, a: Any, tokens: list[int]) -> None:
        starts = a.non_spec_query_start_loc.tolist()
        for sequence, block in enumerate(a.non_spec_state_indices_tensor.tolist()):
            window, state = a.conv_state[block, :HISTORY].copy(), a.ssm_state[block, 0].copy()
            if a.has_initial_state is not None and not a.has_initial_state[sequence]:
                window, state = window * 0, state * 0
            for token in tokens[starts[sequence] : starts[sequence + 1]]:
                window, state = self.token(a, token, window, state)
            a.conv_state[block, :HISTORY], a.ssm_state[block, 0] = window, state


@dataclass
class Request:
    """A request: its true inputs and outputs, the blocks of its states, and how far it is."""

    qkvz: Any
    ba: Any
    outputs: list[Any]
    blocks: list[int]
    computed: int = 0
    accepted: int = 1


class Turn(NamedTuple):
    """One request in one step: tokens scheduled, how many of them are right, draft count as the runner gives it."""

    request: Request
    tokens: int
    right: int
    drafts: int


class Lab:
    """Batches of requests over one layer's state cache."""

    def __init__(self, tree: Path, kernels: Kernels) -> None:
        import torch
        import vllm.platforms
        from vllm.platforms.interface import Platform, PlatformEnum

        made = {"_enum": PlatformEnum.XPU, "is_pin_memory_available": classmethod(lambda cls: False)}
        vllm.platforms._current_platform = type("ProbeXPU", (Platform,), made)()
        layer_module = "vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn"
        sys.modules[layer_module] = SimpleNamespace(_resolve_gdn_prefill_backend=lambda config: ("triton", "triton"))
        import vllm.forward_context
        from vllm.v1.attention.backend import CommonAttentionMetadata
        from vllm.v1.attention.backends.gdn_attn import GDNAttentionMetadataBuilder
        from vllm.v1.kv_cache_interface import MambaSpec

        self.torch, self.common, self.operator = torch, CommonAttentionMetadata, Operator(kernels)
        self.call = operator_call(tree, self.operator)
        self.context = SimpleNamespace(attn_metadata=None, no_compile_layers={})
        vllm.forward_context.get_forward_context = lambda: self.context
        make, never, bits = SimpleNamespace, lambda: False, (torch.float64,) * 2
        config = make(
            speculative_config=make(num_speculative_tokens=3, parallel_drafting=False, use_eagle_block_drop=never),
            compilation_config=make(cudagraph_mode=make(has_full_cudagraphs=never), max_cudagraph_capture_size=None),
            **{"scheduler_config": make(max_num_seqs=8), "cache_config": make(mamba_cache_mode="none")},
            **{"parallel_config": make(decode_context_parallel_size=1), "use_v2_model_runner": False},
        )  # fmt: skip
        spec = MambaSpec(16, shapes=STATES, dtypes=bits, num_speculative_blocks=NUM_SPEC)
        self.builder = GDNAttentionMetadataBuilder(spec, [LAYER], config, torch.device("cpu"))
        self.v1_runner = arguments_without_drafts(tree, self.builder)

    def reset(self) -> None:
        torch, self.random, self.used = self.torch, np.random.default_rng(21), 0
        # Recycled blocks hold somebody else's states: a wrong read must show.
        cache = [torch.full((64, *shape), POISON).double() for shape in STATES]
        self.context.no_compile_layers[LAYER] = SimpleNamespace(
            **dict.fromkeys(("num_k_heads", "num_v_heads", "tp_size"), 1), prefix=LAYER, activation="silu",
            **dict.fromkeys(("head_k_dim", "head_v_dim"), HEAD), **dict.fromkeys(("A_log", "dt_bias"), torch.zeros(1)),
            conv1d=SimpleNamespace(weight=torch.zeros(CONV, 1, HISTORY + 1), bias=None), gqa_interleaved_layout=False,
            kv_cache=cache,
        )  # fmt: skip

    def rows(self, count: int) -> tuple[Any, Any]:
        return self.random.standard_normal((count, CONV + HEAD)), self.random.standard_normal((count, 2))

    def request(self, *accepted: int) -> Request:
        """A request: new, or after its prompt and a full group for each number accepted (0: none)."""
        request = Request(*self.rows(POSITIONS), [], list(range(self.used + 1, self.used + 1 + GROUP)))
        window, state, self.used = np.zeros((HISTORY, CONV)), np.zeros((HEAD, HEAD)), self.used + GROUP
        for qkvz, ba in zip(request.qkvz, request.ba):
            output, window, state = gated_delta_token(window, state, qkvz, ba)
            request.outputs.append(output)
        if accepted:
            self.step(Turn(request, 5, 5, -1))
        for right in filter(None, accepted):
            self.step(Turn(request, GROUP, right, NUM_SPEC))
        return request

    def step(self, *turns: Turn, arguments: tuple[str, ...] = ARGUMENTS) -> None:
        """One step of the batch. Raises Wrong when the operator refuses it or an accepted token's output is wrong."""
        torch, parts = self.torch, []
        for turn in turns:
            right = slice(turn.request.computed, turn.request.computed + turn.right)
            parts += [(turn.request.qkvz[right], turn.request.ba[right]), self.rows(turn.tokens - turn.right)]
        # Two rows more than tokens: the layer's buffers may be larger than the batch.
        qkvz, ba = (torch.from_numpy(np.concatenate(rows)) for rows in zip(*parts, self.rows(2)))
        starts = torch.tensor([0] + [t.tokens for t in turns]).cumsum(0).to(torch.int32)
        lens = torch.tensor([t.request.computed + t.tokens for t in turns], dtype=torch.int32)
        blocks, total = torch.tensor([t.request.blocks for t in turns], dtype=torch.int32), int(starts[-1])
        prefills, longest = torch.tensor([t.request.computed == 0 for t in turns]), max(t.tokens for t in turns)
        common = self.common(
            query_start_loc=starts, query_start_loc_cpu=starts.clone(), seq_lens=lens, num_reqs=len(turns),
            num_actual_tokens=total, max_query_len=longest, max_seq_len=int(lens.max()), block_table_tensor=blocks,
            slot_mapping=torch.zeros(total, dtype=torch.int64), seq_lens_cpu_upper_bound=lens, is_prefilling=prefills,
        )  # fmt: skip
        counts = ([t.request.accepted for t in turns], [t.drafts for t in turns])
        given = {name: torch.tensor(count, dtype=torch.int32) for name, count in zip(ARGUMENTS, counts)}
        given = {name: given[name] for name in arguments}
        self.context.attn_metadata = {LAYER: self.builder.build(0, common, **given)}
        core, z = (torch.zeros(total + 2, 1, HEAD).double() for _ in range(2))
        self.call(core, z, qkvz, ba, LAYER)
        for index, (turn, start) in enumerate(zip(turns, starts.tolist())):
            request = turn.request
            for row, position in enumerate(range(request.computed, request.computed + turn.right), start):
                error = abs(core[row, 0].numpy() - request.outputs[position]).max()
                error = max(error, abs(z[row, 0].numpy() - request.qkvz[position, CONV:]).max())
                place = f"request {index}, {turn.tokens} tokens, had its state in column {request.accepted - 1}"
                check(error < 1e-9, f"output of position {position} is off by {error:.3g}: {place}")
            request.accepted = turn.right if request.computed else 1
            request.computed += turn.right


def operator_call(tree: Path, operator: Operator) -> Any:
    """The tree's function around the operator, cut out: the import of its module registers ops and takes seconds."""
    torch = Stub("torch")
    torch.__dict__.update(sys.modules["torch"].__dict__)
    torch.ops = SimpleNamespace(_xpu_C=SimpleNamespace(gdn_attention=operator))
    for node in ast.parse((tree / OP_FILE).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == OP_CALL:
            exec(compile(ast.Module([node], []), OP_FILE, "exec"), names := {"torch": torch})
            return names[OP_CALL]
    raise LookupError(f"{OP_FILE}: no {OP_CALL}")


def arguments_without_drafts(tree: Path, builder: Any) -> tuple[int, tuple[str, ...]]:
    """Draft count and arguments which the tree's V1 runner (its lines are run) gives when no request has drafts."""
    source = (tree / RUNNER_FILE).read_text(encoding="utf-8")
    bodies = [node.body for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for lines in (body[at : at + 2] for body in bodies for at in range(len(body))):
        if ast.unparse(lines[0]) != "extra_attn_metadata_args = {}":
            continue
        runner = SimpleNamespace(speculative_config=1, mamba_prev_last_scheduled_idx=None)
        runner.num_accepted_tokens = runner.num_decode_draft_tokens = SimpleNamespace(gpu=(), cpu=())
        names = {n.id: type(n.id, (), {}) for line in lines for n in ast.walk(line) if isinstance(n, ast.Name)}
        names.update(GDNAttentionMetadataBuilder=type(builder), builder=builder, self=runner, ubid=None)
        names.update(num_reqs_padded=1, isinstance=isinstance, dict=dict)
        names["use_spec_decode"] = "len(scheduler_output.scheduled_spec_decode_tokens) > 0" not in source
        exec(compile(ast.Module(lines, []), RUNNER_FILE, "exec"), names)
        return 0 if "zero_draft_decode_mask" in source else -1, tuple(names["extra_attn_metadata_args"])
    raise LookupError(f"{RUNNER_FILE}: no extra_attn_metadata_args")


def full_groups(lab: Lab) -> None:
    requests = lab.request(3), lab.request(1)
    for accepted in ((4, 2), (1, 3), (2, 1)):
        lab.step(*(Turn(request, GROUP, right, NUM_SPEC) for request, right in zip(requests, accepted)))


def short_groups(lab: Lab, company: str) -> None:
    """A short group after any number of accepted tokens, with any number of its own; again a short, then a full one."""
    lengths = ((2, 1), (2, 2), (3, 1), (3, 2), (3, 3)) if company == "none" else ((2, 1), (3, 3))
    for before, (tokens, right) in itertools.product(range(1, GROUP + 1), lengths):
        lab.reset()
        short = lab.request(before)
        other = lab.request(*{"full": (3,), "decode": (0,)}.get(company, ()))
        for turn in (Turn(short, tokens, right, tokens - 1), Turn(short, 2, 1, 1), Turn(short, GROUP, 2, NUM_SPEC)):
            beside = {"full": [Turn(other, GROUP, 2, NUM_SPEC)], "decode": [Turn(other, 1, 1, -1)], "none": []}
            lab.step(turn, *(beside[company] if company in beside else [Turn(lab.request(), 6, 6, -1)]))


def single_tokens(lab: Lab, drafts: int, beside: bool, arguments: tuple[str, ...] = ARGUMENTS) -> None:
    for before in range(1, GROUP + 1):
        lab.reset()
        short, other = lab.request(before), lab.request(2) if beside else None
        for turn in (Turn(short, 1, 1, drafts), Turn(short, GROUP, 3, NUM_SPEC)):
            company = [Turn(other, GROUP, 1, NUM_SPEC)] if other else []
            lab.step(turn, *company, arguments=arguments if turn.tokens == 1 else ARGUMENTS)


def judge(lab: Lab, name: str, scenario: Any, *arguments: Any) -> dict[str, str]:
    lab.reset()
    lab.operator.calls.clear()
    try:
        scenario(lab, *arguments)
    except Wrong as error:
        given = lab.operator.calls[-1]
        return {"name": name, "verdict": "defect", "reason": f"{BUILDER_FILE}: operator given {given}: {error}"}
    kernels, calls = lab.operator.kernels, lab.operator.calls
    reason = f"{len(calls)} operator calls, last: {calls[-1]}; all accepted tokens right"
    if kernels.refuses_mixed and name == "short-and-prefill":
        reason += f"; not judged: kernels {kernels.version} refuse groups beside a prefill of any kind"
    return {"name": name, "verdict": "sound", "reason": reason}


def probe(tree: Path) -> dict[str, Any]:
    """The verdict on `tree`, as the object to print."""
    source = (tree / OP_FILE).read_text(encoding="utf-8")
    # Both, so that a renamed argument is not read as a missing feature.
    if "num_spec_decodes" not in source and (NO_SPECULATION in source or OP_CALL not in source):
        reason = f"{OP_FILE} gives the XPU operator no speculative groups: no num_spec_decodes in it"
        return {"verdict": "absent", "reason": reason, "checks": []}
    kernels, sys.path[:0], sys.meta_path[:0] = kernels_of(tree), [str(tree)], [StubFinder()]
    lab = Lab(tree, kernels)
    checks = [judge(lab, "full-groups", full_groups), judge(lab, "short-alone", short_groups, "none")]
    checks += [judge(lab, f"short-and-{other}", short_groups, other) for other in ("full", "prefill", "decode")]
    checks.append(judge(lab, "single-token-and-full", single_tokens, 0, True))
    drafts, arguments = lab.v1_runner
    alone, note = judge(lab, "single-token-v1-runner", single_tokens, drafts, False, arguments), ""
    if not kernels.takes_short_groups:
        checks += [alone, judge(lab, "single-token-no-drafts", single_tokens, -1, False)]
    elif alone["verdict"] == "defect":
        # Where no short group is refused this is another defect (vllm pull request 56531), and not what is patched.
        note = f"; not judged: {alone['name']}: {alone['reason']}"
    bad = [c for c in checks if c["verdict"] == "defect"]
    reason = f"kernels {kernels.version}, {len(bad)} of {len(checks)} scenarios differ from a run without speculation"
    reason += f", {bad[0]['name']}: {bad[0]['reason']}" if bad else note
    return {"verdict": "defect" if bad else "sound", "reason": reason, "checks": checks}


def main() -> None:
    try:
        result = probe(Path(sys.argv[1]).resolve())
    except BaseException as error:  # whatever happens, a probe answers
        result = {"verdict": "unknown", "reason": f"{type(error).__name__}: {error}", "checks": []}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
