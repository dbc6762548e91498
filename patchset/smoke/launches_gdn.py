"""Launches of the Gated DeltaNet kernels (flash-linear-attention), as ``vllm``'s prefill and decode make them.

Kernels with an autotuner are compiled in each of its configurations: the first request with a new shape runs them all, and
one that does not build ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchset.smoke.launches import BF16, BOOL, FP32, INT32, Argument, Launch, launch, up
from patchset.smoke.launches_shapes import DRAFTED, QWEN_A3B, QWENS, Qwen

if TYPE_CHECKING:
    from patchset.smoke.case import Subject  # which needs NumPy

#: Tokens of a chunk.
CHUNK = 64
#: A prefill's tokens: an odd number, as most are.
_TOKENS = 1234
_SCALE = 128**-0.5
Arguments = dict[str, Argument]
_LENGTHS: Arguments = {"cu_seqlens": INT32, "chunk_indices": INT32, "chunk_offsets": INT32, "T": _TOKENS, "BT": CHUNK}


def _heads(model: Qwen) -> Arguments:
    return {"H": model.value_heads, "Hg": model.key_heads, "K": model.state, "V": model.state}


def _prefill(given: Arguments) -> list[Launch]:
    """Every configuration at the first model's heads; the first and the last of them at the others'."""
    return [launch(model.name, _LENGTHS, _heads(model), given, every=model is QWEN_A3B) for model in QWENS]


def chunk_cumsum(_: Subject) -> list[Launch]:
    """Running sums of the gates in a chunk."""
    return _prefill({"s": FP32, "o": FP32, "B": 1, "REVERSE": False, "HEAD_FIRST": False})


def chunk_kkt(_: Subject) -> list[Launch]:
    """Keys against keys in a chunk."""
    return _prefill({"k": BF16, "beta": FP32, "g": FP32, "A": FP32, "CAST_DOT_TO_K_DTYPE": False})


def chunk_solve(_: Subject) -> list[Launch]:
    """The triangular inverse of a chunk of 64."""
    return _prefill({"A": FP32, "Ai": BF16, "USE_TMA": False, "DOT_PRECISION": "ieee"})


def chunk_wy(_: Subject) -> list[Launch]:
    """The chunk's w and u."""
    given: Arguments = {"k": BF16, "v": BF16, "beta": FP32, "w": BF16, "u": BF16, "A": BF16, "g": FP32}
    return _prefill({**given, "BK": 64, "BV": 64})


def chunk_state(_: Subject) -> list[Launch]:
    """The state from chunk to chunk."""
    given: Arguments = {"k": BF16, "v": BF16, "w": BF16, "v_new": BF16, "g": FP32, "gk": None, "h": BF16}
    return _prefill({**given, "h0": FP32, "ht": FP32, "USE_EXP2": False})


def chunk_output(_: Subject) -> list[Launch]:
    """A chunk's output."""
    return _prefill({"q": BF16, "k": BF16, "v": BF16, "h": BF16, "g": FP32, "o": BF16, "scale": _SCALE})


def post_conv(_: Subject) -> list[Launch]:
    """Queries, keys, values and gates out of what the convolution gave."""
    return [
        launch(
            model.name,
            {name: BF16 for name in ("mixed_qkv_ptr", "a_ptr", "b_ptr", "q_ptr", "k_ptr", "v_ptr")},
            {"A_log_ptr": FP32, "dt_bias_ptr": FP32, "g_ptr": FP32, "beta_ptr": FP32},
            {
                "stride_x_tok": model.channels,
                "stride_a_tok": 2 * model.value_heads,
                "stride_b_tok": 2 * model.value_heads,
            },
            {"stride_q_tok": model.key_heads * model.state, "stride_k_tok": model.key_heads * model.state},
            {
                "stride_v_tok": model.value_heads * model.state,
                "L": _TOKENS,
                "H": model.key_heads,
                "HV": model.value_heads,
            },
            {"K": model.state, "V": model.state, "BK": model.state, "BV": model.state, "BLOCK_T": 16},
            {"APPLY_L2NORM": True, "L2NORM_EPS": 1e-6, "OUTPUT_G_EXP": False, "SOFTPLUS_THRESHOLD": 20.0},
            warps=4,
            stages=2,
        )
        for model in QWENS
    ]


def _state(model: Qwen, dtype: Argument, drafted: int) -> Arguments:
    """The cache of states: one a request, or one a drafted token."""
    size = model.value_heads * model.state * model.state
    return {
        **{name: BF16 for name in ("q", "k", "v", "o", "a", "b", "mixed_qkv")},
        "h0": dtype,
        "ht": dtype,
        "cu_seqlens": INT32,
        "ssm_state_indices": INT32,
        "num_accepted_tokens": INT32 if drafted else None,
        "scale": _SCALE,
        "N": 8,
        "T": 8 * (1 + drafted),
        "B": 1,
        "H": model.key_heads,
        "HV": model.value_heads,
        "K": model.state,
        "V": model.state,
        "BK": model.state,
        "BV": 32,
        "stride_init_state_token": size,
        "stride_final_state_token": size,
        "stride_indices_seq": 1 + drafted,
        "stride_indices_tok": 1,
        "INPLACE_FINAL_STATE": True,
        "USE_QK_L2NORM_IN_KERNEL": True,
        "IS_KDA": False,
    }


def _decodes(given: Arguments, warps: int, drafts: tuple[int, ...] = (0, DRAFTED)) -> list[Launch]:
    return [
        launch(
            f"{model.name}-state-{kind}-drafted{drafted}", _state(model, dtype, drafted), given, warps=warps, stages=3
        )
        for model in QWENS
        for kind, dtype in (("fp32", FP32), ("bf16", BF16))
        for drafted in drafts
    ]


def recurrent(_: Subject) -> list[Launch]:
    """The recurrence of a decode, states in both types, with and without drafted tokens."""
    return _decodes({"g": FP32, "beta": FP32, "IS_BETA_HEADWISE": False}, 1)


def sigmoid_gating(_: Subject) -> list[Launch]:
    """The same with the gates computed in it."""
    return _decodes({"A_log": FP32, "dt_bias": FP32, "beta": 1.0, "threshold": 20.0}, 4)


def packed_decode(_: Subject) -> list[Launch]:
    """The same on packed queries, keys and values, one token a request."""
    made = []
    for one, model in [
        (one, model) for model in QWENS for one in _decodes({}, 1, (0,)) if one.name.startswith(model.name)
    ]:
        strides: Arguments = {
            "stride_mixed_qkv_tok": model.channels,
            "stride_a_tok": 2 * model.value_heads,
            "stride_b_tok": 2 * model.value_heads,
        }
        given: Arguments = {"A_log": FP32, "dt_bias": FP32, "SOFTPLUS_THRESHOLD": 20.0, "SPLIT_BATCH_HEAD_GRID": False}
        made.append(launch(one.name, one.arguments, strides, given, warps=1, stages=3))
    return made


def gating(_: Subject) -> list[Launch]:
    """Decay and beta of each head."""
    return [
        launch(
            model.name,
            {"g": FP32, "beta_output": BF16, "A_log": FP32, "a": BF16, "b": BF16, "dt_bias": FP32},
            {"seq_len": 1, "NUM_HEADS": model.value_heads, "beta": 1.0, "threshold": 20.0, "BLK_HEADS": 8},
            warps=1,
        )
        for model in QWENS
    ]


def mtp_update(_: Subject) -> list[Launch]:
    """The decode of several tokens a request, in the tiles that its launch chooses from."""
    return [
        launch(
            f"{model.name}-tile{tile}",
            {"mixed_qkv": BF16, "b": BF16, "a": BF16, "A_log": FP32, "dt_bias": FP32, "state": FP32, "out": BF16},
            {"state_indices": INT32, "cu_seqlens": INT32, "num_accepted_tokens": INT32, "sum_sq": FP32},
            {"stride_qkv_row": model.channels, "stride_b_row": 2 * model.value_heads, "scale": _SCALE},
            {"stride_a_row": 2 * model.value_heads, "stride_state_slot": model.value_heads * model.state**2},
            {"stride_indices_row": 1 + DRAFTED, "num_indices_per_row": 1 + DRAFTED, "BV": tile},
            {"H": model.key_heads, "HV": model.value_heads, "K": model.state, "V": model.state},
            warps=4,
        )
        for model in QWENS
        for tile in (32, 64, 128)
    ]


def mtp_norm(_: Subject) -> list[Launch]:
    """The gated norm after it."""
    return [
        launch(
            f"{model.name}-tiles{tiles}",
            {"out": BF16, "sum_sq": FP32, "z": BF16, "norm_weight": BF16, "cu_seqlens": INT32, "eps": 1e-6},
            {"stride_z_row": model.value_heads * model.state, "HV": model.value_heads, "V": model.state, "NV": tiles},
            {"SIGMOID_GATE": False},
            warps=2,
        )
        for model in QWENS
        for tiles in (1, 2, 4)
    ]


def l2norm_rows(_: Subject) -> list[Launch]:
    """l2norm of a row each; only rows longer than 512 get here."""
    return [launch("d1024", {"x": BF16, "y": BF16, "D": 1024, "BD": 1024, "eps": 1e-6})]


def l2norm_tiles(_: Subject) -> list[Launch]:
    """l2norm in tiles of rows: the models' heads, and the longest rows that it is for.

    Reached with ``USE_DEFAULT_FLA_NORM=1``; else :func:`l2norm_plain` is.
    """
    given: Arguments = {"x": BF16, "y": BF16, "eps": 1e-6, "NB": 10, "T": _TOKENS * QWEN_A3B.key_heads}
    return [launch(f"d{size}", given, {"D": size, "BD": size}) for size in (QWEN_A3B.state, 512)]


def l2norm_plain(_: Subject) -> list[Launch]:
    """l2norm in tiles of 32 rows."""
    given: Arguments = {"X": BF16, "Y": BF16, "eps": 1e-6, "M": _TOKENS * QWEN_A3B.key_heads, "MBLOCK": 32}
    return [launch("d128", given, {"N": QWEN_A3B.state, "BD": QWEN_A3B.state})]


def gated_norm(_: Subject) -> list[Launch]:
    """The norm after Gated DeltaNet, a head a row, in the tiles that its launch chooses from."""
    size = QWEN_A3B.state
    return [
        launch(
            f"rows{rows}-{activation}",
            {"X": BF16, "Y": BF16, "W": BF16, "B": None, "Z": BF16, "Mean": None, "Rstd": FP32, "N": size, "eps": 1e-6},
            {"stride_x_row": size, "stride_y_row": size, "stride_z_row": size, "M": 32 * rows, "BLOCK_N": size},
            {"ROWS_PER_BLOCK": rows, "NORM_BEFORE_GATE": True, "IS_RMS_NORM": True, "ACTIVATION": activation},
            warps=1,
        )
        for rows in (1, 2, 4)
        for activation in ("silu", "sigmoid")
    ]


def conv_prefill(_: Subject) -> list[Launch]:
    """The convolution of a prefill; with prefix caching where the kernel knows of it."""
    return [
        launch(f"{model.name}-cached{int(cached)}", _conv(model, False), _conv_prefill(model, cached), stages=2)
        for model in QWENS
        for cached in (False, True)
    ]


def _conv(model: Qwen, drafted: bool) -> Arguments:
    kept = model.width - 1 + (DRAFTED if drafted else 0)
    return {
        **{name: BF16 for name in ("x_ptr", "w_ptr", "o_ptr")},
        "bias_ptr": None,
        "query_start_loc_ptr": INT32,
        "dim": model.channels,
        "num_cache_lines": 1000,
        "stride_x_dim": 1,
        "stride_x_token": model.channels,
        "stride_w_dim": model.width,
        "stride_w_width": 1,
        "stride_o_dim": 1,
        "stride_o_token": model.channels,
        "null_block_id": 0,
        "HAS_BIAS": False,
        "KERNEL_WIDTH": model.width,
        "SILU_ACTIVATION": True,
        "HAS_NULL_BLOCK": True,
        "NP2_STATELEN": up(kept),
        "BLOCK_N": 256,
        "launch_pdl": False,
    }


def _conv_prefill(model: Qwen, cached: bool) -> Arguments:
    extra = INT32 if cached else None
    return {
        "initial_states_ptr": BF16,
        "cache_indices_ptr": INT32,
        "has_initial_states_ptr": BOOL,
        "batch_ptr": INT32,
        "token_chunk_offset_ptr": INT32,
        "block_idx_first_scheduled_token": extra,
        "block_idx_last_scheduled_token": extra,
        "initial_state_idx": extra,
        "num_computed_tokens": extra,
        "seqlen": _TOKENS,
        "stride_istate_seq": model.channels * (model.width - 1),
        "stride_istate_dim": 1,
        "stride_istate_token": model.channels,
        "stride_cache_indices": 16 if cached else 1,
        "stride_block_m": 8 if not cached else 544,
        "pad_slot_id": -1,
        "IS_APC_ENABLED": cached,
        "BLOCK_M": 8,
    }


def conv_update(_: Subject) -> list[Launch]:
    """The convolution of a decode, one token a request and several."""
    made = []
    for model in QWENS:
        for drafted in (False, True):
            kept = model.width - 1 + (DRAFTED if drafted else 0)
            tokens = 1 + DRAFTED if drafted else 1
            given: Arguments = {
                "conv_state_ptr": BF16,
                "conv_state_indices_ptr": INT32,
                "num_accepted_tokens_ptr": INT32 if drafted else None,
                "query_start_loc_ptr": INT32 if drafted else None,
                "block_idx_last_scheduled_token": None,
                "initial_state_idx": None,
                "batch": 8,
                "seqlen": tokens,
                "state_len": kept,
                "stride_x_seq": 0 if drafted else model.channels,
                "stride_x_token": model.channels if drafted else 1,
                "stride_o_seq": 0 if drafted else model.channels,
                "stride_o_token": model.channels if drafted else 1,
                "stride_conv_state_seq": model.channels * kept,
                "stride_conv_state_dim": 1,
                "stride_conv_state_tok": model.channels,
                "stride_state_indices": tokens,
                "IS_VARLEN": drafted,
                "IS_APC_ENABLED": False,
                "IS_SPEC_DECODING": drafted,
            }
            made.append(launch(f"{model.name}-drafted{DRAFTED if drafted else 0}", _conv(model, drafted), given))
    return made
