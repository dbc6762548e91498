"""Store addresses of the upper half of the 64-bit range with the tree's own code and read the bits back.

Usage: python -I -B probe.py TREE, where TREE holds a vLLM source tree (it may be read-only). The last line of the
output is one JSON object with a verdict and one check for each half of the patch:

* 1a: `MambaCopyBuffers.create` allocates, `collect_mamba_copy_meta` fills `src_ptrs` and `dst_ptrs`;
* 1b: `MambaSpecDecodeGPUContext` allocates and fills `state_base_addrs` and the block table addresses.

States and block tables are real CPU tensors that only report another address, as Level Zero would: low ones, ones
on both sides of 2**63, and `0xffffd556b6400000`, which was seen on the card.

What is imported is the tree's own text, less what nothing here can reach, because importing the engine takes ten
seconds and forty packages: the body of `vllm/__init__.py`, which prepares torch's compiler, and imports of names that
the file in question only uses in annotations.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import json
import os
import sys
import traceback
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path

WORKER_FILE = "vllm/v1/worker/mamba_utils.py"
SPEC_FILE = "vllm/v1/kv_cache_interface.py"
STATE_FILE = "vllm/model_executor/layers/mamba/mamba_utils.py"
BUFFER_FILE = "vllm/v1/utils.py"
BITS = 1 << 64
GAP = 1 << 20
# One window a kind of address; the tensors of a run lie GAP apart from its first address on.
LOW_WINDOWS = {"low": 0x00007F1200000000}
HIGH_WINDOWS = {
    "as seen on the card": 0xFFFFD556B6400000,
    "across 2**63": (1 << 63) - 2 * GAP,
    "end of the range": BITS - 32 * GAP,
}
COPY_STORES = {"src_ptrs_np", "dst_ptrs_np"}
CONTEXT_STORES = {"state_base_addrs", "block_table_ptrs", "aligned_index_block_table_ptrs"}
BLOCKS, BLOCK_SIZE = 6, 16
CONV_SHAPE, TEMPORAL_SHAPE = (4, 8), (2, 4, 4)


class Unknown(Exception):
    """The probe cannot tell; the message says why."""


class Defect(Exception):
    """The defect showed; the message says how."""


def as_check(name: str, verdict: str, reason: str) -> dict[str, str]:
    return {"name": name, "verdict": verdict, "reason": reason}


def overall(checks: Sequence[dict[str, str]]) -> str:
    verdicts = [check["verdict"] for check in checks]
    for verdict in ("defect", "unknown"):
        if verdict in verdicts:
            return verdict
    return "absent" if all(verdict == "absent" for verdict in verdicts) else "sound"


def finish(checks: Sequence[dict[str, str]], note: str = "") -> typing.NoReturn:
    verdict = overall(checks)
    leading = [check for check in checks if check["verdict"] == verdict]
    reason = "; ".join(f"{check['name']}: {check['reason']}" for check in leading) + note
    sys.stdout.flush()
    print(json.dumps({"verdict": verdict, "reason": reason, "checks": list(checks)}), flush=True)
    # Leaving without teardown keeps exit handlers of the libraries from printing after the result.
    os._exit(0)


def prepare(tree: Path) -> None:
    """Make the modules below `vllm` importable from `tree` without running `vllm/__init__.py`."""
    os.environ.update(VLLM_CONFIGURE_LOGGING="0", VLLM_LOGGING_LEVEL="ERROR")
    # The expected addresses below are those of the default layout of convolution states.
    os.environ.pop("VLLM_SSM_CONV_STATE_LAYOUT", None)
    package = types.ModuleType("vllm")
    package.__path__ = [str(tree / "vllm")]
    sys.modules["vllm"] = package


class RuntimeNames(ast.NodeVisitor):
    """Collect the names a module reads when it runs; annotations are not run under PEP 563."""

    def __init__(self, inside_functions: bool) -> None:
        self.inside_functions = inside_functions
        self.names: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        defaults = [default for default in node.args.kw_defaults if default is not None]
        body = node.body if self.inside_functions else []
        for part in [*node.decorator_list, *node.args.defaults, *defaults, *body]:
            self.visit(part)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        self.names.add(node.id)


def load(tree: Path, file: str, inside_functions: bool = True) -> types.ModuleType:
    """Run one file of the tree as the module it is, without the vLLM imports that its run does not need.

    With `inside_functions` off, a name that only function bodies read counts as not needed either; a function that
    reads it then fails with NameError, which no verdict but unknown comes from.
    """
    source = (tree / file).read_text(encoding="utf-8")
    module = ast.parse(source)
    reader = RuntimeNames(inside_functions)
    reader.visit(module)
    for statement in list(module.body):
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("vllm"):
            statement.names = [alias for alias in statement.names if (alias.asname or alias.name) in reader.names]
            if not statement.names:
                module.body.remove(statement)
    name = file.removesuffix(".py").replace("/", ".")
    loaded = types.ModuleType(name)
    loaded.__file__ = str(tree / file)
    sys.modules[name] = loaded
    flags = __future__.annotations.compiler_flag
    exec(compile(module, loaded.__file__, "exec", flags=flags, dont_inherit=True), loaded.__dict__)
    return loaded


def buffer_class(tree: Path) -> typing.Any:
    """The tree's CpuGpuBuffer, cut from a file whose other contents need the whole engine."""
    import numpy
    import torch

    module = ast.parse((tree / BUFFER_FILE).read_text(encoding="utf-8"))
    module.body = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == "CpuGpuBuffer"]
    if not module.body:
        raise Unknown(f"{BUFFER_FILE} has no CpuGpuBuffer")
    # Pinning needs an accelerator; from 0.30.0 on the class asks this constant and not only its argument.
    space: dict[str, typing.Any] = {"np": numpy, "torch": torch, "PIN_MEMORY": False, "__name__": "cut"}
    flags = __future__.annotations.compiler_flag
    exec(compile(module, str(tree / BUFFER_FILE), "exec", flags=flags, dont_inherit=True), space)
    return space["CpuGpuBuffer"]


def where(error: BaseException, tree: Path) -> str:
    """The innermost place of `error` that lies in the tree, as file:line, or an empty text."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(tree):
            return f"{path.relative_to(tree)}:{frame.lineno}"
    return ""


def refuses_address(error: BaseException, tree: Path) -> bool:
    """Whether `error` is how torch or NumPy refuse an integer that does not fit, raised by the worker file."""
    text = str(error).lower()
    words = ("overflow", "too large", "out of bounds", "out of range", "too big")
    fits = isinstance(error, (OverflowError, ValueError, RuntimeError, TypeError)) and any(w in text for w in words)
    return fits and where(error, tree).startswith(WORKER_FILE + ":")


def address_stores(source: str) -> tuple[set[str], list[str]]:
    """The tables of the worker file that take an address, and statements that use one in a way not known here.

    An address is what `.data_ptr()` or `.start_addr` gives. Keeping one in a local variable is no store.
    """
    tables: set[str] = set()
    strange: list[str] = []
    for statement in ast.walk(ast.parse(source)):
        if not isinstance(statement, ast.stmt) or isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            continue
        fields = [field for field in ast.iter_child_nodes(statement) if not isinstance(field, ast.stmt)]
        own = [node for field in fields for node in ast.walk(field)]
        if not any(isinstance(node, ast.Attribute) and node.attr in ("data_ptr", "start_addr") for node in own):
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(target, ast.Subscript):
            table = target.value
            tables.add(table.attr if isinstance(table, ast.Attribute) else ast.unparse(table))
        elif not isinstance(target, ast.Name):
            strange.append(f"line {statement.lineno}")
    return tables, strange


def call(function: Callable[..., object], **offered: object) -> typing.Any:
    """Call `function` with those of `offered` that it names; Unknown when it asks for more."""
    parameters = inspect.signature(function).parameters
    missing = [n for n, p in parameters.items() if n not in offered and p.default is p.empty]
    if missing:
        raise Unknown(f"{function.__qualname__} asks for {', '.join(missing)}, which this probe does not know")
    return function(**{name: value for name, value in offered.items() if name in parameters})


class Tree:
    """What is loaded of the tree: the worker file, the functions that slice states, the staging buffer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.specs: typing.Any = load(root, SPEC_FILE)
        self.states: typing.Any = load(root, STATE_FILE, inside_functions=False)
        self.worker: typing.Any = load(root, WORKER_FILE)
        self.buffer = buffer_class(root)

    def copy_funcs_by_type(self) -> bool:
        """Whether copy functions are passed in a dictionary by kind of state (0.29.0 on) or in a tuple."""
        annotation = inspect.signature(self.worker.MambaCopyBuffers.create).parameters["copy_funcs"].annotation
        return "dict" in annotation or typing.get_origin(getattr(self.states, annotation, None)) is dict


class Bench:
    """Two groups of state tensors and block tables, placed from `window` on, with the tree's own classes around."""

    def __init__(self, tree: Tree, window: int) -> None:
        import torch

        self.worker, self.buffer = tree.worker, tree.buffer
        places: dict[int, int] = {}

        class UsmTensor(torch.Tensor):
            """A CPU tensor whose storage pretends to lie where `places` says."""

            def data_ptr(self) -> int:
                return places[self.untyped_storage().data_ptr()] + self.storage_offset() * self.element_size()

        def allocate(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
            tensor = torch.zeros(shape, dtype=dtype)
            places[tensor.untyped_storage().data_ptr()] = window + GAP * len(places)
            self.keep.append(tensor)
            return tensor.as_subclass(UsmTensor)

        self.keep: list[torch.Tensor] = []
        dtypes = (torch.float16, torch.float32)
        spec = tree.specs.MambaSpec(block_size=BLOCK_SIZE, shapes=(CONV_SHAPE, TEMPORAL_SHAPE), dtypes=dtypes)
        names = [["layer.0", "layer.1"], ["layer.2"]]
        groups = [tree.specs.KVCacheGroupSpec(group, spec) for group in names]
        self.config = tree.specs.KVCacheConfig(num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=groups)
        self.states = {
            name: [allocate((BLOCKS, *CONV_SHAPE), dtypes[0]), allocate((BLOCKS, *TEMPORAL_SHAPE), dtypes[1])]
            for group in names
            for name in group
        }
        self.block_tables, self.aligned_tables = ([allocate((4, 8), torch.int32) for _ in names] for _ in range(2))
        self.context = {name: types.SimpleNamespace(kv_cache=states) for name, states in self.states.items()}
        funcs = (tree.states.get_conv_copy_spec, tree.states.get_temporal_copy_spec)
        self.copy_funcs: object = {spec.mamba_type: funcs} if tree.copy_funcs_by_type() else funcs
        self.device = torch.device("cpu")

    def make_buffer(self, *size: int, dtype: object) -> object:
        return self.buffer(*size, dtype=dtype, device=self.device, pin_memory=False)


def bits_of(tensor: typing.Any) -> list[int]:
    """What a kernel would load from an address table, modulo 2**64."""
    import torch

    if tensor.element_size() != 8:
        raise Defect(f"the address table has dtype {tensor.dtype}, which does not hold 64 bits")
    return [value % BITS for value in tensor.detach().cpu().contiguous().view(torch.int64).tolist()]


def compare(table: str, stored: list[int], wanted: list[int]) -> None:
    for index, (got, want) in enumerate(zip(stored, wanted, strict=True)):
        if got != want:
            raise Defect(f"{table}[{index}] holds {got:#x} for the address {want:#x}")


def copy_buffers(bench: Bench) -> None:
    """1a: what two requests collect must be the addresses of their blocks."""
    bufs: typing.Any = call(
        bench.worker.MambaCopyBuffers.create,
        max_num_reqs=2,
        kv_cache_config=bench.config,
        copy_funcs=bench.copy_funcs,
        make_buffer=bench.make_buffer,
    )
    src_column, dst_column, bias = 1, 2, 1
    sources: list[int] = []
    targets: list[int] = []
    for block_ids in ([0, 3, 1, 5], [4, 2, 5, 1]):
        call(
            bench.worker.collect_mamba_copy_meta,
            copy_bufs=bufs,
            kv_cache_config=bench.config,
            mamba_state_copy_funcs=bench.copy_funcs,
            mamba_group_ids=bufs.mamba_group_ids,
            src_block_idx=src_column,
            dest_block_idx=dst_column,
            accept_token_bias=bias,
            req_state=types.SimpleNamespace(block_ids=(block_ids, block_ids)),
            forward_context=bench.context,
        )
        for conv, temporal in bench.states.values():
            conv_block, temporal_block = 2 * 4 * 8, 4 * 2 * 4 * 4
            sources += [
                conv.data_ptr() + block_ids[src_column] * conv_block + bias * 2 * 8,
                temporal.data_ptr() + block_ids[src_column + bias] * temporal_block,
            ]
            targets += [
                conv.data_ptr() + block_ids[dst_column] * conv_block,
                temporal.data_ptr() + block_ids[dst_column] * temporal_block,
            ]
    compare("src_ptrs", bits_of(bufs.src_ptrs.copy_to_gpu(bufs.offset)), sources)
    compare("dst_ptrs", bits_of(bufs.dst_ptrs.copy_to_gpu(bufs.offset)), targets)


def gpu_context(bench: Bench) -> None:
    """1b: the tables of the fused kernels must hold the addresses of states and block tables."""
    context: typing.Any = call(
        bench.worker.MambaSpecDecodeGPUContext.create,
        max_num_reqs=2,
        kv_cache_config=bench.config,
        num_state_types=2,
        copy_funcs=bench.copy_funcs,
        device=bench.device,
        make_buffer=bench.make_buffer,
    )
    call(
        context.initialize_from_forward_context,
        kv_cache_config=bench.config,
        forward_context=bench.context,
        mamba_state_copy_funcs=bench.copy_funcs,
        block_tables=bench.block_tables,
        aligned_index_block_tables=bench.aligned_tables,
    )
    states = [state.data_ptr() for pair in bench.states.values() for state in pair]
    compare("state_base_addrs", bits_of(context.state_base_addrs), states)
    compare("block_table_ptrs", bits_of(context.block_table_ptrs), [t.data_ptr() for t in bench.block_tables])
    if hasattr(context, "aligned_index_block_table_ptrs"):
        wanted = [table.data_ptr() for table in bench.aligned_tables]
        compare("aligned_index_block_table_ptrs", bits_of(context.aligned_index_block_table_ptrs), wanted)


def drive(name: str, half: Callable[[Bench], None], tree: Tree) -> dict[str, str]:
    """One half under low addresses, which must always work, then under the high ones."""
    for label, window in {**LOW_WINDOWS, **HIGH_WINDOWS}.items():
        try:
            half(Bench(tree, window))
        except Defect as error:
            return as_check(name, "defect", f"{WORKER_FILE}: {error} ({label})")
        except Unknown as error:
            return as_check(name, "unknown", str(error))
        except Exception as error:
            text = f"{where(error, tree.root)}: {type(error).__name__}: {error} (address window {window:#x}, {label})"
            refused = label in HIGH_WINDOWS and refuses_address(error, tree.root)
            return as_check(name, "defect" if refused else "unknown", text)
    return as_check(name, "sound", f"{WORKER_FILE} keeps all 64 bits of addresses below and above 2**63")


def mention_of_context(tree: Path) -> str:
    """A file of the engine that knows the tables of 1b, or an empty text."""
    for path in sorted((tree / "vllm/v1").rglob("*.py")):
        if "state_base_addrs" in path.read_text(encoding="utf-8"):
            return str(path.relative_to(tree))
    return ""


def probe(root: Path) -> tuple[list[dict[str, str]], str]:
    path = root / WORKER_FILE
    if not path.is_file():
        raise Unknown(f"{WORKER_FILE} is not in this tree; a file that moved is not a fixed defect")
    tables, strange = address_stores(path.read_text(encoding="utf-8"))
    prepare(root)
    import torch

    tree = Tree(root)
    if not hasattr(tree.worker, "MambaCopyBuffers") or not hasattr(tree.worker, "collect_mamba_copy_meta"):
        raise Unknown(f"{WORKER_FILE} has no MambaCopyBuffers or collect_mamba_copy_meta; the code may have moved")
    checks = [drive("1a", copy_buffers, tree)]
    if hasattr(tree.worker, "MambaSpecDecodeGPUContext"):
        checks.append(drive("1b", gpu_context, tree))
    elif mention := mention_of_context(root):
        checks.append(as_check("1b", "unknown", f"no MambaSpecDecodeGPUContext, but state_base_addrs in {mention}"))
    else:
        checks.append(as_check("1b", "absent", f"{WORKER_FILE} has no MambaSpecDecodeGPUContext"))
    odd = sorted(tables - COPY_STORES - CONTEXT_STORES) + strange
    if odd:
        checks.append(as_check("stores", "unknown", f"{WORKER_FILE} stores addresses in a way not read back: {odd}"))
    return checks, f" (torch {torch.__version__})"


def main() -> None:
    try:
        if len(sys.argv) != 2:
            raise Unknown("usage: probe.py TREE")
        checks, note = probe(Path(sys.argv[1]).resolve())
    except Unknown as error:
        finish([as_check("probe", "unknown", str(error))])
    except BaseException as error:
        finish([as_check("probe", "unknown", f"{type(error).__name__}: {error}")])
    finish(checks, note)


if __name__ == "__main__":
    main()
