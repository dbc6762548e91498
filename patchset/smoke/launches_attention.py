"""Launches of attention, of what writes its cache, and of the rotations before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchset.smoke.launches import BF16, FP8, FP32, INT8, INT32, INT64, Argument, Launch, Type, launch, up
from patchset.smoke.launches_shapes import ATTENTIONS, QWENS, Attention

if TYPE_CHECKING:
    from patchset.smoke.case import Subject  # which needs NumPy

Arguments = dict[str, Argument]
#: Tokens of a block of the cache: the smallest that is common, and the one that hybrid models get.
BLOCKS = (16, 64)
#: Parts that a long row of keys is split into for few requests (``NUM_PAR_SOFTMAX_SEGMENTS``).
_SEGMENTS = 16
_FP8_LIMIT = 448.0
#: The kinds of layers that are also compiled with descriptors.
_WITH_DESCRIPTORS = ATTENTIONS[:4]
#: ``KVQuantMode`` of the cache.
_PLAIN, _FP8_TENSOR, _INT8_HEAD, _FP8_HEAD = 0, 1, 2, 3


def _tile(heads: Attention, prefill: bool) -> int:
    """Upstream's choice: 32 keys for prefill and for a window of 1024, else 16."""
    return 32 if prefill or heads.window == 1024 else 16


def _rows(heads: Attention) -> int:
    """Rows of queries in a program: 16, or as many as share a key's head."""
    shared = heads.heads // heads.kv_heads
    return 16 if shared <= 16 else up(shared)


def _cache(heads: Attention, block: int, dtype: Argument) -> Arguments:
    strides = (2 * block * heads.kv_heads * heads.head, heads.kv_heads * heads.head, heads.head, 1)
    given: Arguments = {f"stride_{which}_cache_{at}": size for which in "kv" for at, size in enumerate(strides)}
    return {**given, "key_cache_ptr": dtype, "value_cache_ptr": dtype, "BLOCK_SIZE": block}


def _unified(heads: Attention, block: int, split: bool, descriptors: bool, mode: int) -> Arguments:
    dtype = {_PLAIN: BF16, _FP8_TENSOR: FP8, _INT8_HEAD: INT8, _FP8_HEAD: FP8}[mode]
    scales = mode in (_INT8_HEAD, _FP8_HEAD)
    shared, row = heads.heads // heads.kv_heads, heads.heads * heads.head
    tile = _tile(heads, not split)
    per_head: Arguments = {f"stride_{which}s_{at}": None for which in "kv" for at in ("blk", "slot", "head")}
    if scales:
        for which in "kv":
            per_head[f"stride_{which}s_blk"] = block * heads.kv_heads
            per_head[f"stride_{which}s_slot"] = heads.kv_heads
            per_head[f"stride_{which}s_head"] = 1
    return {
        **_cache(heads, block, dtype),
        **per_head,
        "output_ptr": BF16,
        "query_ptr": BF16,
        "sink_ptr": None,
        "block_tables_ptr": INT32,
        "seq_lens_ptr": INT32,
        "alibi_slopes_ptr": None,
        "qq_bias_ptr": None,
        "k_scale_cache_ptr": FP32 if scales else None,
        "v_scale_cache_ptr": FP32 if scales else None,
        "scale": heads.head**-0.5,
        "q_scale": None,
        "k_scale": FP32,
        "v_scale": FP32,
        "out_scale": 1.0,
        "softcap": 0.0,
        "num_query_heads": heads.heads,
        "num_queries_per_kv": shared,
        "block_table_stride": 2048,
        "query_stride_0": row,
        "query_stride_1": heads.head,
        "output_stride_0": row,
        "output_stride_1": heads.head,
        "qq_bias_stride_0": 0,
        "TILE_SIZE": min(tile, block) if descriptors else tile,
        "HEAD_SIZE": heads.head,
        "HEAD_SIZE_PADDED": up(heads.head),
        **dict.fromkeys(("USE_ALIBI_SLOPES", "USE_ALIBI_SQRT", "USE_QQ_BIAS", "USE_SOFTCAP", "USE_SINKS"), False),
        "SLIDING_WINDOW": heads.window,
        "USE_CAUSAL": True,
        "USE_PER_SEQ_CAUSAL": False,
        "per_seq_causal_ptr": None,
        "USE_MM_PREFIX": False,
        "MAX_MM_RANGES": 0,
        "mm_prefix_range_ptr": None,
        "rswa_prefix_lens_ptr": INT32,
        "R_SWA_WINDOW": 0,
        "USE_R_SWA": False,
        "query_start_len_ptr": INT32,
        "BLOCK_Q": _rows(heads) // shared,
        "num_seqs": 8,
        "BLOCK_M": _rows(heads),
        "NUM_SEGMENTS_PER_SEQ": _SEGMENTS if split else 1,
        "USE_FP8": False,
        "IS_3D": split,
        **dict.fromkeys(("segm_output_ptr", "segm_max_ptr", "segm_expsum_ptr"), FP32 if split else None),
        "KV_QUANT_MODE": mode,
        "FP8_MIN": -_FP8_LIMIT,
        "FP8_MAX": _FP8_LIMIT,
        "CHUNK_LOOKBACK": -1,
        "CHUNK_SIZE": -1,
        "USE_TD": descriptors,
        "USE_TD_QO": descriptors and shared & (shared - 1) == 0,
        "Q_IS_FP8": False,
        "MM_PREFIX_CLAMP_SW": False,
    }


def unified(_: Subject) -> list[Launch]:
    """Prefill and split decode of every kind of layer; the cache in each type; with descriptors, XPU's own choice.

    Without descriptors is ``VLLM_TRITON_ATTN_USE_TD=0`` (``VLLM_TRITON_USE_TD=0`` from 0.26.0).
    """
    made = []
    for heads in ATTENTIONS:
        for split in (False, True):
            for descriptors in (False, True) if heads in _WITH_DESCRIPTORS else (False,):
                way = f"{heads.name}-{'split' if split else 'prefill'}-{'descriptors' if descriptors else 'pointers'}"
                made.append(launch(way, _unified(heads, BLOCKS[1], split, descriptors, _PLAIN)))
    for heads in (ATTENTIONS[0], ATTENTIONS[3]):
        for name, mode in (("fp8", _FP8_TENSOR), ("int8-head", _INT8_HEAD), ("fp8-head", _FP8_HEAD)):
            for split in (False, True):
                way = f"{heads.name}-{'split' if split else 'prefill'}-pointers-{name}"
                made.append(launch(way, _unified(heads, BLOCKS[1], split, False, mode)))
    made.append(launch("qwen-a3b-prefill-pointers-block16", _unified(ATTENTIONS[0], BLOCKS[0], False, False, _PLAIN)))
    return made


def segments(_: Subject) -> list[Launch]:
    """The parts of a split decode, put together."""
    return [
        launch(
            heads.name,
            {"output_ptr": BF16, "segm_output_ptr": FP32, "segm_max_ptr": FP32, "segm_expsum_ptr": FP32},
            {"seq_lens_ptr": INT32, "query_start_len_ptr": INT32, "num_seqs": 8, "num_query_heads": heads.heads},
            {"out_scale_inv": 1.0, "output_stride_0": heads.heads * heads.head, "output_stride_1": heads.head},
            {"block_table_stride": 2048, "TILE_SIZE": _tile(heads, False), "HEAD_SIZE": heads.head},
            {"HEAD_SIZE_PADDED": up(heads.head), "BLOCK_Q": max(1, _rows(heads) * heads.kv_heads // heads.heads)},
            {"NUM_SEGMENTS_PER_SEQ": _SEGMENTS, "USE_FP8": False, "FP8_MIN": -_FP8_LIMIT, "FP8_MAX": _FP8_LIMIT},
        )
        for heads in ATTENTIONS
    ]


def cache_write(_: Subject) -> list[Launch]:
    """Keys and values into the cache, as they are and as fp8."""
    made = []
    for heads in ATTENTIONS:
        row = heads.kv_heads * heads.head
        for name, dtype in (("bf16", BF16), ("fp8", FP8)):
            given: Arguments = {
                "key_ptr": BF16,
                "value_ptr": BF16,
                "key_cache_ptr": dtype,
                "value_cache_ptr": dtype,
                "slot_mapping_ptr": INT64,
                "k_scale": FP32,
                "v_scale": FP32,
                "key_stride": row,
                "value_stride": row,
                "block_stride": 2 * BLOCKS[1] * row,
                "head_stride": heads.head,
                "dim_stride_k": 0,
                "dim_stride_v": 0,
                "page_stride": row,
                "num_heads": heads.kv_heads,
                "head_size": heads.head,
                "block_size": BLOCKS[1],
                "x": 1,
                "USE_HEAD_MAJOR_LAYOUT": False,
                "INTERLEAVED_V_PACK_FACTOR": 0,
                "FP8_KV_CACHE": dtype is FP8,
                "TILE_SIZE": min(2048, up(row)),
            }
            made.append(launch(f"{heads.name}-{name}", given, warps=8, stages=4))
    return made


def cache_write_per_head(_: Subject) -> list[Launch]:
    """Keys and values into the cache with a scale a token and head."""
    made = []
    for heads in ATTENTIONS:
        row, block = heads.kv_heads * heads.head, BLOCKS[1]
        for name, dtype, limits in (("int8", INT8, (127.0, -128.0)), ("fp8", FP8, (_FP8_LIMIT, -_FP8_LIMIT))):
            given: Arguments = {
                **{f"{which}_ptr": BF16 for which in ("key", "value")},
                **{f"{which}_cache_ptr": dtype for which in ("key", "value")},
                "k_scale_cache_ptr": FP32,
                "v_scale_cache_ptr": FP32,
                "slot_mapping_ptr": INT64,
                **{
                    f"stride_{which}_{at}": size
                    for which in ("key", "val")
                    for at, size in (("tok", row), ("head", heads.head))
                },
                **{
                    f"stride_{c}c_{at}": s
                    for c in "kv"
                    for at, s in (("blk", 2 * block * row), ("slot", row), ("head", heads.head))
                },
                **{
                    f"stride_{c}s_{at}": s
                    for c in "kv"
                    for at, s in (("blk", block * heads.kv_heads), ("slot", heads.kv_heads), ("head", 1))
                },
                "block_size": block,
                "head_size": heads.head,
                "head_size_v": heads.head,
                "HEAD_SIZE_PADDED": up(heads.head),
                "QUANT_MAX": limits[0],
                "QUANT_MIN": limits[1],
                "IS_INT_QUANT": dtype is INT8,
            }
            made.append(launch(f"{heads.name}-{name}", given, warps=4))
    return made


def mrope(_: Subject) -> list[Launch]:
    """The rotation by three positions, interleaved, of a quarter of each head."""
    return [
        launch(
            model.name,
            {"q_ptr": BF16, "k_ptr": BF16, "cos": BF16, "sin": BF16, "num_tokens": 1234},
            {"q_token_stride": model.heads * model.head, "k_token_stride": model.kv_heads * model.head},
            {"n_qh": model.heads, "n_kh": model.kv_heads, "hd": model.head, "rd": model.rotary},
            {"pad_n_qh": up(model.heads), "pad_n_kh": up(model.kv_heads), "pad_hd": model.head, "pad_rd": model.rotary},
            dict(zip(("mrope_section_t", "mrope_section_h", "mrope_section_w"), model.sections, strict=True)),
            {"is_interleaved": True, "is_neox_style": True},
        )
        for model in QWENS
    ]


def norm_rope_gate(_: Subject) -> list[Launch]:
    """Norm, rotation and gate of Qwen's attention in one; for text, and with positions of pictures."""
    made = []
    for model in QWENS:
        for pictures in (False, True):
            queries, keys = model.heads * model.head, model.kv_heads * model.head
            given: Arguments = {
                **{
                    f"{name}_ptr": BF16
                    for name in ("q_gate", "k", "q_out", "k_out", "gate_out", "q_weight", "k_weight")
                },
                "cos_sin_cache_ptr": BF16,
                "positions_ptr": INT64,
                "q_gate_stride_t": 2 * queries + 2 * keys,
                "k_stride_t": 2 * queries + 2 * keys,
                "q_out_stride_t": queries,
                "k_out_stride_t": keys,
                "gate_out_stride_t": queries,
                "cache_stride_p": model.rotary,
                "positions_stride_m": 8193 if pictures else 0,
                "positions_stride_t": 1,
                "num_q_heads": model.heads,
                "num_kv_heads": model.kv_heads,
                "head_dim": model.head,
                "rotary_dim": model.rotary,
                "half_rotary": model.rotary // 2,
                "eps": 1e-6,
                "norm_beta": 1.0,
                "INPUT_DTYPE": Type("bfloat16"),
                "HEAD_BLOCK": up(model.head),
                "ROT_HALF_BLOCK": up(model.rotary // 2),
                "HAS_PASS": True,
                "HAS_MROPE": pictures,
                "MROPE_SECTION_H": model.sections[1] if pictures else 0,
                "MROPE_SECTION_W": model.sections[2] if pictures else 0,
            }
            made.append(launch(f"{model.name}-{'pictures' if pictures else 'text'}", given, warps=4, stages=2))
    return made
