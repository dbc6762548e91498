"""Kernels that are only compiled: their rows, their launches, and how they are cut out."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from patchset.smoke import catalogue, launches_experts, launches_shapes, stand_ins
from patchset.smoke.extract import ExtractError, cut
from patchset.smoke.launches import Launch, Memory, launch, up
from patchset.smoke.sources import Source, tree_source

ROWS = catalogue.select("models")


@dataclass(frozen=True)
class Signature:
    """What launches ask of their subject, which the laboratory makes with NumPy."""

    parameters: frozenset[str]
    release: tuple[int, ...]

    def has(self, *names: str) -> bool:
        return self.parameters.issuperset(names)


def launches_of(row: catalogue.Kernel, *parameters: str, release: str = "0.33.0") -> Sequence[Launch]:
    module, _, maker = row.cases.partition(":")
    subject = Signature(frozenset(parameters), catalogue.parse_release(release))
    made: Sequence[Launch] = getattr(importlib.import_module(f"patchset.smoke.{module}"), maker)(subject)
    return made


def test_they_are_for_the_lane_that_only_compiles() -> None:
    assert len(ROWS) > 30
    assert all(row.is_for("native") and not row.is_for("interpret") and row.sets == ("models",) for row in ROWS)
    assert not set(ROWS) & set(catalogue.select("mission"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_launches_have_names_of_their_own_and_arrays(row: catalogue.Kernel) -> None:
    made = launches_of(row, "USE_TD")
    assert made and len({one.name for one in made}) == len(made)
    for one in made:
        assert any(isinstance(value, Memory) for value in one.arguments.values()), one.name
        assert all(size & (size - 1) == 0 and size <= 32 for key, size in one.options.items() if key == "num_warps")


def test_a_kernel_is_looked_for_where_its_release_has_it() -> None:
    row = next(row for row in ROWS if row.name == "chunk_fwd_kernel_o")
    assert row.placed("0.25.1+xpu").file == "vllm/model_executor/layers/fla/ops/chunk_o.py"
    assert row.placed("0.26.0").file == row.file == "vllm/third_party/flash_linear_attention/ops/chunk_o.py"
    plain = catalogue.select("mission")[0]
    assert plain.placed("0.19.1") == plain


def test_what_is_known_to_be_unfit_is_a_launch_of_a_row() -> None:
    for known in catalogue.KNOWN_DEFECTS:
        if known.compiled:
            row = next(row for row in ROWS if row.name == known.kernel)
            assert known.case.split(" ")[0] in {one.name for one in launches_of(row)}
            assert not known.arrays and not known.race


def test_attention_of_gemma_reaches_head_512_with_few_keys_a_tile() -> None:
    row = next(row for row in ROWS if row.name == "kernel_unified_attention")
    by_name = {one.name: one.arguments for one in launches_of(row)}
    wide = by_name["gemma-31b-global-split-pointers"]
    assert (wide["HEAD_SIZE"], wide["TILE_SIZE"], wide["BLOCK_M"], wide["BLOCK_Q"]) == (512, 16, 16, 2)
    # 24 heads over 4: queries are not a power of two a key, so their descriptors stay off.
    odd = by_name["qwen-27b-prefill-descriptors"]
    assert odd["USE_TD"] is True and odd["USE_TD_QO"] is False and odd["BLOCK_Q"] == 2


def test_experts_take_the_default_tiles_of_their_batch() -> None:
    config = launches_experts.default_config
    assert config(1, 256, False)["BLOCK_SIZE_M"] == 16 and config(1, 256, False)["num_stages"] == 4
    assert config(513, 256, False)["BLOCK_SIZE_M"] == 128 and config(513, 256, False)["num_warps"] == 8
    assert config(4096, 8, False)["GROUP_SIZE_M"] == 16 and config(4096, 256, False)["GROUP_SIZE_M"] == 1
    assert config(65, 256, True)["BLOCK_SIZE_K"] == 128 and config(65, 256, False)["BLOCK_SIZE_K"] == 64
    assert launches_experts.block_config(4, narrow=True)["num_stages"] == 4
    assert launches_experts.block_config(4, narrow=False)["BLOCK_SIZE_N"] == 128


def test_a_later_part_of_a_launch_counts_and_a_choice_of_tritons_is_not_passed() -> None:
    one = launch("a", {"x": 1, "y": 2}, {"x": 3}, warps=4)
    assert one.arguments == {"x": 3, "y": 2} and one.options == {"num_warps": 4}
    assert [up(value) for value in (1, 2, 3, 24, 256)] == [1, 2, 4, 32, 256]


def test_shapes_of_the_convolution() -> None:
    assert launches_shapes.QWEN_A3B.channels == 8192 and launches_shapes.QWEN_27B.channels == 10240


FILE, UTILS = "vllm/model_executor/layers/fla/ops/a.py", "vllm/model_executor/layers/fla/ops/utils.py"
KERNEL = """import torch
import os
from vllm.platforms import current_platform
from vllm.triton_utils import tl, triton
from .utils import SIZE, check_shared_mem

if os.environ.get("FAST") == "1":
    exp = tl.exp2
    log = tl.log2
else:
    exp = tl.exp
    log = tl.log

LARGEST = torch.finfo(current_platform.fp8_dtype()).max
BLOCKS = [64, 128] if check_shared_mem() else [32, 64]


@triton.autotune(configs=[triton.Config({"B": B}) for B in BLOCKS], key=["n"])
@triton.jit(do_not_specialize=["n"])
def kernel(x, n, B: tl.constexpr, top: tl.constexpr = LARGEST):
    tl.store(x, exp(log(tl.load(x) + SIZE)))
"""
HELPERS = """import torch
SIZE = 64


def check_shared_mem():
    return torch.xpu.whatever() > 102400
"""


@pytest.fixture
def source(tmp_path: Path) -> Source:
    for name, text in ((FILE, KERNEL), (UTILS, HELPERS)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tree_source(tmp_path)


def test_what_torch_and_the_platform_say_is_stood_in_for_and_branches_are_kept_whole(source: Source) -> None:
    piece = cut(source, FILE, "kernel", stand_ins.statement)
    assert piece is not None
    assert piece.text.count('if os.environ.get("FAST") == "1":') == 1 and "SIZE = 64" in piece.text
    for name in ("torch", "current_platform", "check_shared_mem"):
        assert f"from patchset.smoke.stand_ins import {name}\n" in piece.text
    assert "import torch\n" not in piece.text.replace("stand_ins import torch", "")
    assert "torch.xpu" not in piece.text
    # At its own line, as always.
    assert piece.text.splitlines()[piece.line - 1].startswith("@triton.autotune")


def test_without_stand_ins_the_platform_is_followed_and_missed(source: Source) -> None:
    with pytest.raises(ExtractError, match=r"current_platform comes from vllm\.platforms"):
        cut(source, FILE, "kernel")


def test_stand_ins_answer_as_a_b70_does() -> None:
    assert stand_ins.check_shared_mem() and not stand_ins.check_shared_mem("ampere")
    assert stand_ins.torch.finfo(stand_ins.current_platform.fp8_dtype()).max == 448.0
    assert stand_ins.current_platform.is_xpu() and not stand_ins.current_platform.is_rocm()
    with pytest.raises(ValueError, match="float16"):
        stand_ins.torch.finfo("float16")
    with pytest.raises(AttributeError):
        stand_ins.current_platform.device_name  # noqa: B018 - that it raises is the point
    assert stand_ins.statement("vllm.platforms", "other") is None
    assert stand_ins.statement("vllm.x.utils", "check_shared_mem") is None
