"""A tiny hybrid model with random weights and MTP, as a folder that vLLM reads: ``python model.py FOLDER SEED``.

Runs in the engine's environment. Qwen3-Next as transformers makes it: 4 layers, 3 of them linear attention, heads of 128, 4 experts.
The ``mtp.`` block is a copy of the attention layer that mostly sees the hidden state, and only four tokens are ever likely, so
that drafts are accepted often, and not always. Their output rows are two opposite pairs: one of the four is always above all others.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

WIDTH = 128


def config() -> Qwen3NextConfig:
    """The model's shape. The spread of the weights is wide, or the states of the linear layers would hardly matter."""
    return Qwen3NextConfig(
        vocab_size=WIDTH,
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        num_hidden_layers=4,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=128,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=WIDTH,
        shared_expert_intermediate_size=WIDTH,
        max_position_embeddings=256,
        initializer_range=0.08,
    )


def make(folder: Path, seed: int) -> None:
    """Write the model to *folder*."""
    torch.manual_seed(seed)
    model = Qwen3NextForCausalLM(config())
    with torch.no_grad():
        one, two = torch.randn(2, WIDTH) * 0.3
        model.lm_head.weight.zero_()
        model.lm_head.weight[:4] = torch.stack([one, -one, two, -two])
    model.save_pretrained(folder)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    last = "model.layers.3."
    drafting = {f"mtp.layers.0.{name.removeprefix(last)}": tensors[name].clone() for name in tensors if last in name}
    eye = torch.eye(WIDTH)
    drafting["mtp.fc.weight"] = torch.cat([0.2 * eye, eye], dim=1)
    for name in ("norm", "pre_fc_norm_hidden", "pre_fc_norm_embedding"):
        drafting[f"mtp.{name}.weight"] = torch.zeros(WIDTH)
    save_file({**tensors, **drafting}, file, metadata={"format": "pt"})


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]))
