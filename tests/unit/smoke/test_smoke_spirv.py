"""SPIR-V words: the hints for a GPU go, everything else stays, and what is no module is told apart."""

from __future__ import annotations

import ast
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchset.smoke.toolchains.modules import GPU_CAPABILITY, GPU_EXTENSION, GPU_MODE, Malformed, for_cpu
from patchset.smoke.toolchains.syntax import PairsOnly

HEADER = (0x07230203, 0x00010400, 0, 100, 0)
KERNEL_CAPABILITY, REQUIRED_SIZE_MODE = 6, 35


def instruction(opcode: int, *operands: int) -> tuple[int, ...]:
    return ((len(operands) + 1) << 16 | opcode, *operands)


def text(value: bytes) -> tuple[int, ...]:
    padded = value + b"\0" * (4 - len(value) % 4)
    return struct.unpack(f"<{len(padded) // 4}I", padded)


def module(*instructions: tuple[int, ...]) -> bytes:
    words = [*HEADER, *(word for one in instructions for word in one)]
    return struct.pack(f"<{len(words)}I", *words)


KEPT = (
    instruction(17, KERNEL_CAPABILITY),
    instruction(10, *text(b"SPV_KHR_bit_instructions")),
    instruction(16, 7, REQUIRED_SIZE_MODE, 32),
    # Words that look like the hints in instructions that are others.
    instruction(43, GPU_CAPABILITY, GPU_MODE, GPU_MODE),
)
HINTS = (
    instruction(17, GPU_CAPABILITY),
    instruction(10, *text(GPU_EXTENSION)),
    instruction(16, 7, GPU_MODE, 1024, 1, 1),
)


def test_hints_for_a_gpu_go_and_all_else_stays_in_its_order() -> None:
    mixed = [one for pair in zip(KEPT, (*HINTS, instruction(17, GPU_CAPABILITY)), strict=True) for one in pair]
    assert for_cpu(module(*mixed)) == module(*KEPT)
    assert for_cpu(module(*KEPT)) == module(*KEPT)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x7fELF",
        module(*KEPT)[:-1],
        module(*KEPT)[:-4],
        b"\0" * 40,
        module((17,)),
        module((3 << 16 | 17, 1)),
    ],
    ids=["empty", "elf", "odd", "cut", "zeros", "no-length", "beyond-the-end"],
)
def test_what_is_no_module_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        for_cpu(data)


@given(st.lists(st.tuples(st.integers(0, 400), st.lists(st.integers(0, 2**32 - 1), max_size=4)), max_size=8))
def test_a_second_time_changes_nothing(parts: list[tuple[int, list[int]]]) -> None:
    once = for_cpu(module(*(instruction(opcode, *operands) for opcode, operands in parts)))
    assert for_cpu(once) == once


@pytest.mark.parametrize("joint", ["and", "or"])
@given(values=st.lists(st.sampled_from(["0", "1", "''", "'x'", "None"]), min_size=2, max_size=5))
def test_a_chain_in_pairs_means_the_same(joint: str, values: list[str]) -> None:
    source = f" {joint} ".join(values)
    tree = PairsOnly().visit(ast.parse(source, mode="eval"))
    assert all(len(node.values) == 2 for node in ast.walk(tree) if isinstance(node, ast.BoolOp))
    assert eval(compile(tree, "<pairs>", "eval")) == eval(source)
