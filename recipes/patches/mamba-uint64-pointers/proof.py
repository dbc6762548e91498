"""Proof of mamba-uint64-pointers: the tree's own kernels, whole, read its tables and follow the addresses in them.

Run as ``python -I -B proof.py BASE_TREE PATCHED_TREE``. The last line printed is one JSON object: title, columns, rows, notes, ok.
probe.py beside this file makes states and block tables that report an address of choice, and lets the tree's code fill its
tables with them; it looks at the bits that are kept. Here the kernels that read the tables run on them under Triton's
interpreter, unchanged. Nothing lies at such an address, so between the interpreter and memory each address that a kernel loads from or
stores to is noted, and led to the tensor that said it lies there; one that no tensor said is an error. What was read and written
must be, byte by byte, what the addresses and the contract of the copies say, and so must the tensors afterwards.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import json
import multiprocessing
import os
import sys
import types
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

import numpy as np

COLUMNS = ("unpatched", "patched")
LOW = "low addresses"
HIGH = "bit 63 set"
TENSORS = 10  # that a Bench places one after the other
NOTES = (
    "good: the kernel that reads the table, whole and unchanged, loaded from and stored to the very bytes that the addresses say, and the "
    "states are moved as they should be. Addresses with bit 63 set: 0xffffd556b6400000 (seen on the card), 2**63, a state across 2**63, the "
    "last 4096 bytes of the range.",
    "Where src_ptrs dies, dst_ptrs of the same entry was not reached: one loop fills both; so for state_base_addrs and block_table_ptrs.",
    "Only the card can still disprove: that Level Zero's pointers survive the same casts in Intel's compiled code (integer to pointer, 64 "
    "bits), and that the tables are copied to the device as they are.",
)


def load_probe() -> types.ModuleType:
    """probe.py of this folder, as a module."""
    spec = importlib.util.spec_from_file_location("mamba_probe", Path(__file__).with_name("probe.py"))
    if spec is None or spec.loader is None:
        raise LookupError("probe.py is not beside proof.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


probe: Any = load_probe()
WINDOWS = {
    LOW: (0x0000100000000000, 0x0000000040000000),
    HIGH: (
        0xFFFFD556B6400000,
        1 << 63,
        (1 << 63) - 64,
        (1 << 64) - 4096 - (TENSORS - 1) * probe.GAP,
    ),
}


class Wrong(Exception):
    """A kernel read or wrote elsewhere, or something else, than the addresses say."""


class Memory:
    """The tensors of a bench at the addresses that they report, and which bytes there were read and written."""

    def __init__(self, tensors: list[Any]) -> None:
        self.tensors = {tensor.data_ptr(): tensor for tensor in tensors}
        self.read: set[int] = set()
        self.written: set[int] = set()
        self.ranges: list[tuple[int, int]] = []

    def view(self, address: int) -> Any:
        """The bytes of the tensor that begins at *address*, to look at and to change."""
        tensor = self.tensors[address]
        storage = (ctypes.c_uint8 * (tensor.numel() * tensor.element_size())).from_address(
            tensor.untyped_storage().data_ptr()
        )
        return np.frombuffer(storage, np.uint8)

    def place(self, address: int) -> tuple[int, int] | None:
        """(address of the tensor, offset in it), None for memory of the kernel's other arguments."""
        for start, tensor in self.tensors.items():
            if start <= address < start + tensor.numel() * tensor.element_size():
                return start, address - start
        if not self.mapped(address):
            raise Wrong(f"a kernel used the address {address:#x}, where no tensor is")
        return None

    def mapped(self, address: int) -> bool:
        """Has this process memory there? Without asking, a wrong address would end it, and nothing would be said."""
        if not any(start <= address < end for start, end in self.ranges):
            lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
            ends = (line.split(" ", 1)[0].split("-") for line in lines)
            self.ranges = [(int(start, 16), int(end, 16)) for start, end in ends]
        return any(start <= address < end for start, end in self.ranges)

    def lead(self, pointers: Any, mask: Any, size: int, noted: set[int]) -> Any:
        """*pointers* of which those to a tensor's reported address lead to the tensor; masked ones as they are."""
        real = pointers.copy()
        for index in np.ndindex(pointers.shape):
            if not mask[index]:
                continue
            address = int(pointers[index])
            found = self.place(address)
            if found:
                start, offset = found
                if offset + size > self.tensors[start].numel() * self.tensors[start].element_size():
                    raise Wrong(f"a kernel used {size} bytes at {address:#x}, over the end of a tensor")
                noted.update(range(address, address + size))
                real[index] = self.tensors[start].untyped_storage().data_ptr() + offset
        return real


class Between:
    """Stands for the interpreter's access to memory."""

    def __init__(self, inner: Any, memory: Memory) -> None:
        self.inner, self.memory = inner, memory

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        led = self.memory.lead(pointers, mask, np.dtype(dtype).itemsize, self.memory.read)
        return self.inner.load(led, mask, other, dtype)

    def store(self, pointers: Any, value: Any, mask: Any) -> Any:
        led = self.memory.lead(pointers, mask, value.dtype.itemsize, self.memory.written)
        return self.inner.store(led, value, mask)


def through(memory: Memory, launch: Callable[[], object]) -> None:
    """Run *launch*, whose kernels see *memory*."""
    from triton.runtime import interpreter

    inner = interpreter._interpreter
    interpreter._interpreter = Between(inner, memory)
    try:
        launch()
    except interpreter.InterpreterError as error:
        cause: BaseException | None = error  # it wraps what a kernel raised, once for each call in it
        while cause and not isinstance(cause, Wrong):
            cause = cause.__cause__
        if cause is None:
            raise
        raise cause from None
    finally:
        interpreter._interpreter = inner


def remembered(owner: type, name: str) -> list[Any]:
    """What the class method ``owner.name`` gives from now on, in a list that grows."""
    original, kept = getattr(owner, name), []

    @functools.wraps(original)
    def wrapper(*words: Any, **named: Any) -> Any:
        kept.append(original(*words, **named))
        return kept[-1]

    setattr(owner, name, staticmethod(wrapper))
    return kept


def span(address: int, size: int) -> set[int]:
    return set(range(address, address + size))


class Trial:
    """A bench at one window, its states filled with bytes that tell every place."""

    def __init__(self, tree: Any, window: int) -> None:
        self.bench = probe.Bench(tree, window)
        self.states = [tuple(pair) for pair in self.bench.states.values()]
        tables = [*self.bench.block_tables, *self.bench.aligned_tables]
        self.memory = Memory([*(state for pair in self.states for state in pair), *tables])
        draw, self.before = np.random.default_rng(window % (1 << 32)), {}
        for pair in self.states:
            for state in pair:
                view = self.memory.view(state.data_ptr())
                view[:] = draw.integers(0, 256, view.size, dtype=np.uint8)
                self.before[state.data_ptr()] = view.copy()
        self.inside = set().union(*(span(start, held.size) for start, held in self.before.items()))
        self.moves: list[tuple[int, int, int]] = []

    def move(self, state: Any, source: int, target: int, size: int) -> None:
        """*size* bytes are to go from one offset in *state* to another."""
        self.moves.append((state.data_ptr() + source, state.data_ptr() + target, size))

    def move_blocks(self, pair: tuple[Any, Any], conv: int, temporal: int, target: int, bias: int) -> None:
        """What becomes of one layer: the window from block *conv*, *bias* tokens on; the other state from block *temporal*."""
        token = probe.CONV_SHAPE[1] * pair[0].element_size()
        block = probe.CONV_SHAPE[0] * token
        self.move(pair[0], conv * block + bias * token, target * block, block - bias * token)
        block = int(np.prod(probe.TEMPORAL_SHAPE)) * pair[1].element_size()
        self.move(pair[1], temporal * block, target * block, block)

    def judge_states(self, what: str) -> None:
        """Only states' bytes of the moves were read or written, all of them, and hold what they should."""
        for name, noted, place in (("read", self.memory.read, 0), ("written", self.memory.written, 1)):
            wanted = set().union(*(span(move[place], move[2]) for move in self.moves))
            if noted & self.inside != wanted:
                odd = min((noted & self.inside) ^ wanted)
                raise Wrong(f"by {what}, {odd:#x} was {name} where it should not be, or not where it should")
        expected = {start: held.copy() for start, held in self.before.items()}
        for source, target, size in self.moves:
            start, offset = self.memory.place(source) or (0, 0)
            into, at = self.memory.place(target) or (0, 0)
            expected[into][at : at + size] = self.before[start][offset : offset + size]
        for start, held in expected.items():
            if not np.array_equal(self.memory.view(start), held):
                raise Wrong(f"by {what}, the state at {start:#x} holds something else than was copied to it")


def copies(trial: Trial, tree: Any, made: list[Any]) -> None:
    """``src_ptrs`` and ``dst_ptrs``, of two requests, through ``batch_memcpy_kernel``."""
    probe.copy_buffers(trial.bench)
    # The blocks that the probe lets its two requests move: columns 1 and 2, one token on.
    for blocks in ([0, 3, 1, 5], [4, 2, 5, 1]):
        for pair in trial.states:
            trial.move_blocks(pair, blocks[1], blocks[2], blocks[2], 1)
    through(trial.memory, lambda: tree.worker.do_mamba_copy_block(made[-1]))
    trial.judge_states("batch_memcpy_kernel")


#: Of each request: computed, scheduled, drafts, accepted; columns of source and target, and the token bias that follow.
STEPS = ((30, 4, 3, 4, 2, 1, 1), (14, 4, 3, 3, 1, 0, 1))


def fused(trial: Trial, _: Any, made: list[Any]) -> None:
    """``state_base_addrs`` and ``block_table_ptrs`` through ``postprocess_mamba_fused_kernel``."""
    import torch

    bench = trial.bench
    probe.gpu_context(bench)
    cells: set[int] = set()
    for group, table in enumerate(bench.block_tables):
        view = trial.memory.view(table.data_ptr()).view(np.int32).reshape(table.shape)
        view[:] = -1
        for row, (*_, source, target, bias) in enumerate(STEPS):
            # Blocks of their own for each request, and other ones in the other group.
            blocks = [(3 * row + place) ^ group for place in range(3)]
            columns = (source, target, source + bias)
            view[row, columns] = blocks
            at = [table.data_ptr() + 4 * (row * table.shape[1] + column) for column in columns]
            cells.update(*(span(address, 4) for address in at))
            layers = bench.config.kv_cache_groups[group].layer_names
            for pair in (bench.states[name] for name in layers):
                trial.move_blocks(tuple(pair), blocks[0], blocks[2], blocks[1], bias)
    computed, scheduled, drafts, accepted, sources, _, _ = (torch.tensor(c, dtype=torch.int32) for c in zip(*STEPS))
    given = {
        "num_reqs": len(STEPS),
        "num_accepted_tokens_gpu": accepted,
        "mamba_state_idx_gpu": sources,
        "num_scheduled_tokens_gpu": scheduled,
        "num_computed_tokens_gpu": computed,
        "num_draft_tokens_gpu": drafts,
    }
    through(trial.memory, lambda: probe.call(made[-1].run_fused_postprocess, **given))
    read = {
        address for table in bench.block_tables for address in span(table.data_ptr(), 4 * table.numel())
    } & trial.memory.read
    if read != cells:
        raise Wrong(f"the block tables were read at {min(read ^ cells):#x}, or were not")
    trial.judge_states("postprocess_mamba_fused_kernel")


#: Of each table, what the kernel did with the addresses in it.
TOLD = {
    "src_ptrs": "{read} bytes of states read",
    "dst_ptrs": "{written} bytes of states written",
    "state_base_addrs": "{read} bytes of states read, {written} written",
    "block_table_ptrs": "{other} bytes of block tables read",
}


def cell(tree: Any, half: Callable[..., None], made: list[Any], windows: tuple[int, ...]) -> tuple[str, str]:
    """(verdict, text) of one half at *windows*: the first that is not right; if all are, the counts by name as the text."""
    counts = dict.fromkeys(("read", "written", "other"), 0)
    for window in windows:
        try:
            trial = Trial(tree, window)
            half(trial, tree, made)
        except (Wrong, probe.Defect) as error:
            return "wrong", f"{error} (window {window:#x})"
        except Exception as error:
            if not probe.refuses_address(error, tree.root):
                raise  # a fault of this proof, or a tree of another shape
            place = probe.where(error, tree.root)
            return "dies", f"{type(error).__name__}: {error} ({place}; window {window:#x})"
        states = len(trial.memory.read & trial.inside)
        for name, more in zip(counts, (states, len(trial.memory.written), len(trial.memory.read) - states)):
            counts[name] += more
    return "good", json.dumps(counts)


def column(root: Path) -> dict[str, dict[str, str]]:
    """Row → cell of one tree. Runs in a process of its own: two trees have one name."""
    probe.prepare(root)
    import triton
    import triton.language

    kernels: Any = types.ModuleType("vllm.triton_utils")
    kernels.tl, kernels.triton = triton.language, triton
    sys.modules[kernels.__name__] = kernels  # vLLM's own takes Triton for missing where there is no device
    tree = probe.Tree(root)
    halves = [(("src_ptrs", "dst_ptrs"), copies, remembered(tree.worker.MambaCopyBuffers, "create"))]
    if hasattr(tree.worker, "MambaSpecDecodeGPUContext"):
        made = remembered(tree.worker.MambaSpecDecodeGPUContext, "create")
        halves.append((("state_base_addrs", "block_table_ptrs"), fused, made))
    cells = {}
    for tables, half, made in halves:
        for kind, windows in WINDOWS.items():
            verdict, text = cell(tree, half, made, windows)
            for table in tables:
                told = TOLD[table].format(**json.loads(text)) if verdict == "good" else text
                cells[f"{table}, {kind}"] = {"verdict": verdict, "text": told}
    return cells


def prove(base: Path, patched: Path) -> dict[str, Any]:
    """The table, as the object to print."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        before, after = pool.map(column, (base, patched))
    rows = [{"name": name, "cells": [before[name], after[name]]} for name in after]
    good = all(row["cells"][-1]["verdict"] == "good" for row in rows)
    title = "mamba-uint64-pointers: tables of addresses, read by the kernels"
    return {"title": title, "columns": list(COLUMNS), "rows": rows, "notes": list(NOTES), "ok": good}


if __name__ == "__main__":
    print(json.dumps(prove(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())), flush=True)
