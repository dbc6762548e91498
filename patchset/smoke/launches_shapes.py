"""Shapes of the target models, as their published configurations have them, on one card."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Qwen:
    """A Qwen3.5 or Qwen3.6 model: layers of Gated DeltaNet, every fourth of attention, a drafter (MTP) of one layer.

    :param key_heads: of Gated DeltaNet; heads and head sizes of attention are the others.
    """

    name: str
    hidden: int
    heads: int
    kv_heads: int
    key_heads: int
    value_heads: int
    head: int = 256
    rotary: int = 64
    sections: tuple[int, int, int] = (11, 11, 10)
    state: int = 128
    width: int = 4

    @property
    def channels(self) -> int:
        """Of the convolution: queries, keys and values of Gated DeltaNet side by side."""
        return 2 * self.key_heads * self.state + self.value_heads * self.state


@dataclass(frozen=True)
class Experts:
    """A layer of experts."""

    name: str
    hidden: int
    count: int
    top: int
    width: int


@dataclass(frozen=True)
class Attention:
    """Attention heads of one kind of layer.

    :param window: of a layer that sees only so many tokens back; 0: it sees all.
    """

    name: str
    heads: int
    kv_heads: int
    head: int
    window: int = 0


#: Qwen3.5/3.6-35B-A3B and -27B. Of attention and Gated DeltaNet other sizes differ from these in the number of heads only.
QWEN_A3B = Qwen("a3b", 2048, 16, 2, 16, 32)
QWEN_27B = Qwen("27b", 5120, 24, 4, 16, 48)
QWENS = (QWEN_A3B, QWEN_27B)

QWEN_EXPERTS = Experts("qwen-a3b", 2048, 256, 8, 512)
GEMMA_EXPERTS = Experts("gemma-26b", 2816, 128, 8, 704)

#: Gemma 4: four or five layers with a window, head 256; then one that sees all, head 512.
ATTENTIONS = (
    Attention("qwen-a3b", 16, 2, 256),
    Attention("qwen-27b", 24, 4, 256),
    Attention("gemma-26b-window", 16, 8, 256, 1024),
    Attention("gemma-26b-global", 16, 2, 512),
    Attention("gemma-31b-window", 32, 16, 256, 1024),
    Attention("gemma-31b-global", 32, 4, 512),
    Attention("gemma-e4b-window", 8, 2, 256, 512),
    Attention("gemma-e4b-global", 8, 2, 512),
)
#: Drafted tokens a request, where a launch depends on them.
DRAFTED = 3
