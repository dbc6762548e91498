"""Launches of layers of experts, of their routing, and of quantisation a token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchset.smoke.launches import BF16, FP8, FP32, INT8, INT32, Argument, Launch, Memory, Type, launch, up
from patchset.smoke.launches_shapes import GEMMA_EXPERTS, QWEN_EXPERTS, QWENS, Experts

if TYPE_CHECKING:
    from patchset.smoke.case import Subject  # which needs NumPy

Arguments = dict[str, Argument]
_ALL = (QWEN_EXPERTS, GEMMA_EXPERTS)
#: One batch for each of upstream's default configurations.
_BATCHES = (1, 48, 96, 128, 512, 4096)
#: Of the smallest and the largest, also the second product, and other types of weights.
_ENDS = (1, 4096)
#: Batches where that of weights in blocks of fp8 does.
_BLOCK_BATCHES = (1, 8, 64, 4096)
_BLOCK = 128
_FP8_LIMIT = 448.0


def default_config(tokens: int, experts: int, fp8: bool) -> dict[str, int]:
    """Upstream's default configuration where no tuned one of the device is there, as for the B70 none is.

    :param fp8: weights and activations in fp8, with one scale a tensor.
    """
    rows = next(size for limit, size in ((32, 16), (96, 32), (512, 64), (1 << 62, 128)) if tokens <= limit)
    return {
        "BLOCK_SIZE_M": rows,
        "BLOCK_SIZE_N": 64 if tokens <= 64 else 128,
        "BLOCK_SIZE_K": 128 if fp8 or tokens <= 64 else 64,
        "GROUP_SIZE_M": 16 if tokens // experts > 128 else 1,
        "SPLIT_K": 1,
        "num_warps": 4 if tokens <= 128 else 8,
        "num_stages": 4 if tokens <= 32 else 3,
    }


def block_config(tokens: int, narrow: bool) -> dict[str, int]:
    """The same for weights in blocks of fp8.

    :param narrow: the release halves the tile for few tokens.
    """
    few = narrow and tokens <= 8
    return {
        "BLOCK_SIZE_M": 16 if tokens <= 64 else 64,
        "BLOCK_SIZE_N": 64 if few else _BLOCK,
        "BLOCK_SIZE_K": _BLOCK,
        "GROUP_SIZE_M": 1 if tokens <= 16 else 32,
        "SPLIT_K": 1,
        "num_warps": 4,
        "num_stages": 4 if few and tokens <= 4 else 3,
    }


def _product(
    layer: Experts, tokens: int, first: bool, weights: Memory, blocks: bool, config: dict[str, int], descriptors: bool
) -> Launch:
    rows, depth = (2 * layer.width, layer.hidden) if first else (layer.hidden, layer.width)
    routed = tokens * layer.top
    quantised = weights is not BF16
    # The first product reads a token for all its experts; the second has a row for each.
    given: Arguments = {
        "a_ptr": FP8 if weights is FP8 else INT8 if weights is INT8 else BF16,
        "b_ptr": weights,
        "c_ptr": BF16,
        "b_bias_ptr": None,
        "a_scale_ptr": FP32 if quantised else None,
        "b_scale_ptr": FP32 if quantised else None,
        "topk_weights_ptr": FP32,
        "sorted_token_ids_ptr": INT32,
        "expert_ids_ptr": INT32,
        "num_tokens_post_padded_ptr": INT32,
        "N": rows,
        "K": depth,
        "EM": routed * config["BLOCK_SIZE_M"],
        "num_valid_tokens": routed,
        "stride_am": depth,
        "stride_ak": 1,
        "stride_be": rows * depth,
        "stride_bk": 1,
        "stride_bn": depth,
        "stride_cm": rows,
        "stride_cn": 1,
        "stride_asm": depth // _BLOCK if blocks else 1 if weights is INT8 else 0,
        "stride_ask": 1 if blocks else 0,
        "stride_bse": (rows * depth) // _BLOCK**2 if blocks else rows if weights is INT8 else 1 if quantised else 0,
        "stride_bsk": 1 if blocks else 0,
        "stride_bsn": depth // _BLOCK if blocks else 1 if weights is INT8 else 0,
        "stride_bbe": 0,
        "stride_bbn": 0,
        "group_n": _BLOCK if blocks else 0,
        "group_k": _BLOCK if blocks else 0,
        "naive_block_assignment": False,
        "MUL_ROUTED_WEIGHT": not first,
        "top_k": layer.top if first else 1,
        "compute_type": Type("bfloat16"),
        "use_fp8_w8a8": weights is FP8,
        "use_int8_w8a8": weights is INT8,
        "use_int8_w8a16": False,
        "per_channel_quant": weights is INT8,
        "HAS_BIAS": False,
        "SWAP_AB": False,
        "USE_TD": descriptors,
    }
    tiles = {key: value for key, value in config.items() if key.isupper()}
    kind = "fp8-blocks" if blocks else weights.dtype.partition("_")[0]
    way = f"{layer.name}-{kind}-tokens{tokens}-{'up' if first else 'down'}{'-descriptors' if descriptors else ''}"
    return launch(way, given, tiles, warps=config["num_warps"], stages=config["num_stages"])


def fused(subject: Subject) -> list[Launch]:
    """Both products of a layer: each default configuration, weights in bf16, fp8 (a tensor, blocks) and int8.

    With descriptors, XPU's own choice from 0.33.0 for weights that are not quantised, and without.
    """
    narrow = subject.release >= (0, 33, 0)
    made = []
    for layer in _ALL:
        for tokens in _BATCHES:
            made += [
                _product(layer, tokens, first, BF16, False, default_config(tokens, layer.count, False), descriptors)
                for first in ((True, False) if tokens in _ENDS else (True,))
                for descriptors in ((False, True) if subject.has("USE_TD") and tokens in _ENDS else (False,))
            ]
        for tokens in _ENDS:
            made += [
                _product(layer, tokens, True, kind, False, default_config(tokens, layer.count, kind is FP8), False)
                for kind in (FP8, INT8)
            ]
    for tokens in _BLOCK_BATCHES:
        made.append(_product(QWEN_EXPERTS, tokens, True, FP8, True, block_config(tokens, narrow), False))
    return made


def batched(subject: Subject) -> list[Launch]:
    """The first product with a batch an expert."""
    made = []
    for layer in _ALL:
        for tokens in (1, 48, 4096):
            config = default_config(tokens, layer.count, False)
            rows, depth, most = 2 * layer.width, layer.hidden, max(tokens, 64)
            given: Arguments = {
                **dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), BF16),
                **dict.fromkeys(("a_scale_ptr", "b_scale_ptr", "b_zp_ptr"), None),
                "expert_num_tokens": INT32,
                "compute_type": Type("bfloat16"),
                "max_num_tokens": most,
                "K": depth,
                "N": rows,
                **dict(zip(("stride_ae", "stride_am", "stride_ak"), (most * depth, depth, 1), strict=True)),
                **dict(zip(("stride_be", "stride_bk", "stride_bn"), (rows * depth, 1, depth), strict=True)),
                **dict(zip(("stride_ce", "stride_cm", "stride_cn"), (most * rows, rows, 1), strict=True)),
                **{f"stride_{which}s{at}": 0 for which, ats in (("a", "emk"), ("b", "ekn")) for at in ats},
                **dict.fromkeys(("group_n", "group_k"), 0),
                **dict.fromkeys(("use_fp8_w8a8", "use_int8_w8a16", "per_act_token_quant", "USE_TD"), False),
                **{f"BLOCK_{axis}": config[f"BLOCK_SIZE_{axis}"] for axis in "MNK"},
            }
            made.append(launch(f"{layer.name}-tokens{tokens}", given))
    return made


def weighted_sum(subject: Subject) -> list[Launch]:
    """The experts' rows of a token, weighted and summed."""
    made = []
    for layer in _ALL:
        given: Arguments = {
            "inputs_ptr": BF16,
            "topk_weights_ptr": FP32,
            "outputs_ptr": BF16,
            **dict.fromkeys(("top_ids_ptr", "expert_map_ptr", "num_valid_tokens_ptr"), None),
            "num_tokens": 1234,
            "stride_m": layer.top * layer.hidden,
            **dict.fromkeys(("has_topk_ids", "has_expert_map", "has_num_valid"), False),
            "top_k": layer.top,
            "size": layer.hidden,
            "hidden_size": layer.hidden,
        }
        tiles = [(1, 512)] if subject.has("hidden_size") else [(1, 512), (4, 512)]
        for rows, columns in tiles:
            blocks: Arguments = {"BLOCK_M": rows, "BLOCK_K": columns}
            made.append(launch(f"{layer.name}-rows{rows}", given, blocks, warps=2, stages=3))
    return made


def gemma_routing(_: Subject) -> list[Launch]:
    """Gemma 4's choice of experts."""
    layer = GEMMA_EXPERTS
    given: Arguments = {
        "gating_ptr": BF16,
        "per_expert_scale_ptr": BF16,
        "topk_weights_ptr": FP32,
        "topk_ids_ptr": INT32,
    }
    sizes: Arguments = {"E": layer.count, "K": layer.top, "BLOCK_E": up(layer.count)}
    return [launch(layer.name, given, sizes, warps=1)]


def expert_tokens(_: Subject) -> list[Launch]:
    """Tokens of each expert."""
    return [
        launch(
            f"{layer.name}-tokens{tokens}",
            {"topk_ids_ptr": INT32, "expert_num_tokens_ptr": INT32, "expert_map": None, "HAS_EXPERT_MAP": False},
            {
                "num_experts": layer.count,
                "topk_numel": tokens * layer.top,
                "BLOCK_SIZE": min(1024, up(tokens * layer.top)),
            },
        )
        for layer in _ALL
        for tokens in (1, 4096)
    ]


#: What is quantised a token: hidden states, and what the second product of a layer reads.
_ROWS = sorted({model.hidden for model in QWENS} | {layer.hidden for layer in _ALL} | {512, 704, 5376, 17408, 21504})


def int8_token(_: Subject) -> list[Launch]:
    """int8 with a scale a token."""
    made = []
    for size in _ROWS:
        given: Arguments = {"x_ptr": BF16, "xq_ptr": INT8, "scale_ptr": FP32, "stride_x": size, "stride_xq": size}
        warps = min(max(up(size) // 256, 1), 8)
        made.append(launch(f"row{size}", given, {"N": size, "BLOCK": up(size)}, warps=warps, stages=1))
    return made


def fp8_group(_: Subject) -> list[Launch]:
    """fp8 with a scale for 128 elements, scales as floats and as powers of two."""
    given: Arguments = {"y_ptr": BF16, "y_q_ptr": FP8, "y_s_ptr": FP32, "group_size": _BLOCK, "eps": 1e-10}
    sizes: Arguments = {"y_num_columns": 2048, "y_row_stride": 2048, "BLOCK": _BLOCK}
    limits: Arguments = {"fp8_min": -_FP8_LIMIT, "fp8_max": _FP8_LIMIT}
    return [
        launch(f"powers{int(powers)}", given, sizes, limits, {"use_ue8m0": powers}, warps=1, stages=1)
        for powers in (False, True)
    ]


def int8_group(_: Subject) -> list[Launch]:
    """int8 with a scale for 128 elements."""
    given: Arguments = {"y_ptr": BF16, "y_q_ptr": INT8, "y_s_ptr": FP32, "y_stride": _BLOCK, "N": _BLOCK, "eps": 1e-10}
    return [launch("plain", given, {"int8_min": -128, "int8_max": 127, "BLOCK": _BLOCK}, warps=1, stages=1)]


def fp8_blocks(_: Subject) -> list[Launch]:
    """The product of weights in blocks of fp8, in its default tile."""
    made = []
    for name, rows, depth in (("a3b-up", 1024, 2048), ("a3b-down", 2048, 512), ("27b-up", 34816, 5120)):
        given: Arguments = {
            **dict(zip("ABC", (FP8, FP8, BF16), strict=True)),
            "As": FP32,
            "Bs": FP32,
            **dict(zip("MNK", (37, rows, depth), strict=True)),
            "group_n": _BLOCK,
            "group_k": _BLOCK,
            **dict(zip(("stride_am", "stride_ak", "stride_bk", "stride_bn"), (depth, 1, 1, depth), strict=True)),
            **dict(zip(("stride_cm", "stride_cn"), (rows, 1), strict=True)),
            **dict(zip(("stride_As_m", "stride_As_k"), (depth // _BLOCK, 1), strict=True)),
            **dict(zip(("stride_Bs_k", "stride_Bs_n"), (1, depth // _BLOCK), strict=True)),
            "BLOCK_SIZE_M": 64,
            "BLOCK_SIZE_N": _BLOCK,
            "BLOCK_SIZE_K": _BLOCK,
            "GROUP_SIZE_M": 32,
        }
        made.append(launch(name, given, warps=4, stages=2))
    return made


def scaled_product(_: Subject) -> list[Launch]:
    """The product of weights in int8 or fp8 with a scale a row, in the tiles that its launch chooses from."""
    made = []
    for name, kind, sums in (("int8", INT8, "int32"), ("fp8", FP8, "float32")):
        for rows, tile in ((16, (64, 64, 256)), (100, (64, 128, 128)), (4096, (128, 128, 128))):
            given: Arguments = {
                **dict.fromkeys(("a_ptr", "b_ptr"), kind),
                **dict.fromkeys(("scale_a_ptr", "scale_b_ptr"), FP32),
                "c_ptr": BF16,
                "bias_ptr": None,
                **dict(zip("MNK", (rows, 4096, 2048), strict=True)),
                **dict(zip(("stride_am", "stride_ak", "stride_bk", "stride_bn"), (2048, 1, 1, 2048), strict=True)),
                **dict(zip(("stride_cm", "stride_cn"), (4096, 1), strict=True)),
                "ACCUMULATOR_DTYPE": Type(sums),
                **{f"BLOCK_SIZE_{axis}": size for axis, size in zip("MNK", tile, strict=True)},
                "BLOCK_SIZE_SCALE_A": tile[0],
                "BLOCK_SIZE_SCALE_B": tile[1],
                "USE_TD": False,
                "B_T": True,
            }
            made.append(launch(f"{name}-tokens{rows}", given))
    return made
