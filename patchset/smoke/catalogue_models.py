"""Kernels that the target models reach beyond the mission's: compiled for the B70 in each specialisation, and not run.

Qwen3.5/3.6 (Gated DeltaNet, MTP, experts) and Gemma 4. Where vLLM has another way on XPU by default (an operator of
vllm-xpu-kernels for Gated DeltaNet, for experts, for quantisation), the kernel here is what an option or a missing
operator falls back to. Places read from the release archives 0.19.1 to 0.33.0.
"""

from __future__ import annotations

from dataclasses import dataclass

SET = "models"
LANES = ("native", "device")

_FLA, _FLA_NOW = "vllm/model_executor/layers/fla/ops", "vllm/third_party/flash_linear_attention/ops"
#: The last release with flash-linear-attention at its old place.
_FLA_LAST = "0.25.1"
_CONV = "vllm/model_executor/layers/mamba/ops/causal_conv1d.py"
_QWEN_GDN = "vllm/model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py"
_ATTENTION = "vllm/v1/attention/ops/triton_unified_attention.py"
_CACHE = "vllm/v1/attention/ops/triton_reshape_and_cache_flash.py"
_MROPE = "vllm/model_executor/layers/rotary_embedding/mrope.py"
_NORM_ROPE = "vllm/model_executor/layers/fused_qk_norm_rope.py"
_MOE = "vllm/model_executor/layers/fused_moe"
_QUANT = "vllm/model_executor/layers/quantization"


@dataclass(frozen=True)
class Row:
    """A kernel: see :class:`patchset.smoke.catalogue.Kernel`.

    :param earlier: (last release, file) of places that it was at before, oldest first.
    """

    name: str
    file: str
    launches: str
    first: str = "0.19.1"
    last: str | None = None
    earlier: tuple[tuple[str, str], ...] = ()


def _fla(name: str, file: str, launches: str, first: str = "0.19.1") -> Row:
    return Row(name, f"{_FLA_NOW}/{file}", f"launches_gdn:{launches}", first, None, ((_FLA_LAST, f"{_FLA}/{file}"),))


ROWS: tuple[Row, ...] = (
    _fla("fused_recurrent_gated_delta_rule_fwd_kernel", "fused_recurrent.py", "recurrent"),
    _fla("fused_recurrent_gated_delta_rule_packed_decode_kernel", "fused_recurrent.py", "packed_decode"),
    _fla("fused_sigmoid_gating_delta_rule_update_kernel", "fused_sigmoid_gating.py", "sigmoid_gating"),
    _fla("chunk_local_cumsum_scalar_kernel", "cumsum.py", "chunk_cumsum"),
    _fla("chunk_scaled_dot_kkt_fwd_kernel", "chunk_scaled_dot_kkt.py", "chunk_kkt"),
    _fla("merge_16x16_to_64x64_inverse_kernel", "solve_tril.py", "chunk_solve"),
    _fla("recompute_w_u_fwd_kernel", "wy_fast.py", "chunk_wy"),
    _fla("chunk_gated_delta_rule_fwd_kernel_h_blockdim64", "chunk_delta_h.py", "chunk_state"),
    _fla("chunk_fwd_kernel_o", "chunk_o.py", "chunk_output"),
    _fla("_fused_post_conv_kernel", "fused_gdn_prefill_post_conv.py", "post_conv", "0.20.0"),
    _fla("l2norm_fwd_kernel1", "l2norm.py", "l2norm_rows"),
    _fla("l2norm_fwd_kernel", "l2norm.py", "l2norm_tiles"),
    _fla("l2norm_fwd_kernel2", "l2norm.py", "l2norm_plain"),
    _fla("layer_norm_fwd_kernel", "layernorm_guard.py", "gated_norm"),
    Row("_gdn_mtp_update_kernel", f"{_FLA_NOW}/fused_gdn_decode_post_conv_mtp.py", "launches_gdn:mtp_update", "0.33.0"),
    Row(
        "_gdn_mtp_gated_rmsnorm_kernel",
        f"{_FLA_NOW}/fused_gdn_decode_post_conv_mtp.py",
        "launches_gdn:mtp_norm",
        "0.33.0",
    ),
    Row("fused_gdn_gating_kernel", _QWEN_GDN, "launches_gdn:gating", "0.22.0", "0.30.0"),
    Row("_causal_conv1d_fwd_kernel", _CONV, "launches_gdn:conv_prefill"),
    Row("_causal_conv1d_update_kernel", _CONV, "launches_gdn:conv_update"),
    Row("kernel_unified_attention", _ATTENTION, "launches_attention:unified", "0.20.0"),
    Row("reduce_segments", _ATTENTION, "launches_attention:segments"),
    Row("reshape_and_cache_kernel_flash", _CACHE, "launches_attention:cache_write"),
    Row("_reshape_cache_per_token_head", _CACHE, "launches_attention:cache_write_per_head", "0.20.0"),
    Row("_triton_mrope_forward", _MROPE, "launches_attention:mrope"),
    Row("_fused_qk_rmsnorm_rope_gate_kernel", _NORM_ROPE, "launches_attention:norm_rope_gate", "0.24.0"),
    Row("fused_moe_kernel", f"{_MOE}/fused_moe.py", "launches_experts:fused"),
    Row(
        "batched_triton_kernel",
        f"{_MOE}/experts/fused_batched_moe.py",
        "launches_experts:batched",
        earlier=(("0.21.0", f"{_MOE}/fused_batched_moe.py"),),
    ),
    Row("moe_fused_mul_sum_kernel", f"{_MOE}/moe_fused_mul_sum.py", "launches_experts:weighted_sum", "0.20.0"),
    Row("_count_expert_num_tokens", f"{_MOE}/utils.py", "launches_experts:expert_tokens"),
    Row("_gemma4_routing_kernel", "vllm/model_executor/models/gemma4.py", "launches_experts:gemma_routing", "0.20.0"),
    Row("_per_token_quant_int8", f"{_QUANT}/utils/int8_utils.py", "launches_experts:int8_token"),
    Row("_per_token_group_quant_int8", f"{_QUANT}/utils/int8_utils.py", "launches_experts:int8_group"),
    Row("_per_token_group_quant_fp8", f"{_QUANT}/utils/fp8_utils.py", "launches_experts:fp8_group"),
    Row("_w8a8_triton_block_scaled_mm", f"{_QUANT}/utils/fp8_utils.py", "launches_experts:fp8_blocks"),
    Row("scaled_mm_kernel", f"{_QUANT}/compressed_tensors/triton_scaled_mm.py", "launches_experts:scaled_product"),
)


@dataclass(frozen=True)
class Unfit:
    """A launch whose machine code is known to be unfit for the B70. It is compiled and told by name; it is not a pass."""

    kernel: str
    launch: str
    first: str
    last: str | None
    reference: str
    what: str


UNFIT: tuple[Unfit, ...] = (
    Unfit(
        "l2norm_fwd_kernel",
        "d512 BT=128, num_warps=1, num_stages=3",
        "0.19.1",
        None,
        "https://github.com/intel/intel-xpu-backend-for-triton/issues/7042",
        "65536 elements for one warp; no target has such long heads, and USE_DEFAULT_FLA_NORM must be 1",
    ),
)
