"""Operators and rules, read from objects that a compiler made here."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_kernels import EQUAL, MOST, REFUSAL, TORCH, X86, compile_object, registering

from patchset.kernels import ops
from patchset.wheel import elf

A = "alpha(Tensor x, int n) -> Tensor"
B = "beta(Tensor! out, Tensor x) -> ()"


def image(folder: Path, source: str, *options: str, name: str = "_C.abi3.so") -> elf.Image:
    return elf.Image(compile_object(folder, name, source, *options).read_bytes())


def told(found: ops.Registered) -> dict[str, str]:
    return {op.name: op.told_by for op in found.ops}


@X86
def test_each_namespace_by_the_function_that_registers_it(tmp_path: Path) -> None:
    made = image(tmp_path, registering({"_C": [A], "_C_cache_ops": [B], "ns_7": ["c(int n) -> int"]}))
    found = ops.registered(made, "_C.abi3.so")
    assert told(found) == {"_C.alpha": "function", "_C_cache_ops.beta": "function", "ns_7.c": "function"}
    assert [op.schema.text for op in found.ops][:2] == [A, B]
    assert found.named == ()


@X86
def test_a_text_that_the_linker_put_into_the_tail_of_another(tmp_path: Path) -> None:
    long, short = "group_norm(Tensor x, float eps) -> Tensor", "norm(Tensor x, float eps) -> Tensor"
    made = image(tmp_path, registering({"_C": [long, short]}))
    whole = b"".join(made.bytes_of(section) for section in made.sections if section.name.startswith(".rodata"))
    assert whole.count(short.encode()) == 1, "this linker merges no tails: the test shows nothing"
    assert sorted(told(ops.registered(made, "_C.abi3.so"))) == ["_C.group_norm", "_C.norm"]


def test_a_function_that_was_folded_away_leaves_the_only_namespace_that_the_symbols_name(tmp_path: Path) -> None:
    made = image(tmp_path, registering({"_moe_C": [A, B]}, folded=True), name="other.so")
    assert told(ops.registered(made, "other.so")) == {"_moe_C.alpha": "object", "_moe_C.beta": "object"}


def test_a_stripped_object_is_told_by_its_file_name(tmp_path: Path) -> None:
    made = image(tmp_path, registering({"_C": [A], "_C_cache_ops": [B]}), "-Wl,-s")
    assert told(ops.registered(made, "_C.abi3.so")) == {"_C.alpha": "object", "_C.beta": "object"}


@X86
def test_a_name_that_is_registered_without_a_schema_is_named_and_no_operator(tmp_path: Path) -> None:
    body = 'static __attribute__((noinline)) void TORCH_LIBRARY_init__C(torch::Library &m) { m.impl("gamma", 0); }'
    source = (
        TORCH + body + "extern void (*kept)(torch::Library &); void (*kept)(torch::Library &) = TORCH_LIBRARY_init__C;"
    )
    found = ops.registered(image(tmp_path, source), "_C.abi3.so")
    assert found == ops.Registered((), (("_C", "gamma"),))


def test_an_object_that_registers_nothing(tmp_path: Path) -> None:
    made = image(tmp_path, f'extern "C" const char *f() {{ return "{A}"; }}')
    assert not ops.registers(made)
    assert ops.registers(image(tmp_path / "b", registering({"_C": [A]})))


@pytest.mark.parametrize(
    ("texts", "groups", "mixed"),
    [
        ((EQUAL,), ("==",), ()),
        ((MOST,), ("<=",), ()),
        ((EQUAL, REFUSAL), ("==",), (REFUSAL,)),
        ((EQUAL, MOST), ("<=", "=="), ()),
        ((EQUAL.replace("spec_token", "spec_tokens"),), (), ()),
        ((), (), ()),
    ],
)
def test_rules(texts: tuple[str, ...], groups: tuple[str, ...], mixed: tuple[str, ...], tmp_path: Path) -> None:
    assert ops.rules(image(tmp_path, registering({"_xpu_C": [A]}, *texts))) == ops.Rules(groups, mixed)
