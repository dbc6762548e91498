"""What a kernel's module asks of torch and of vLLM's platform when it is imported, answered as on a B70.

The lane that only compiles has neither. These are the few questions that decide what a kernel's autotuner tries, what a
parameter's default is, and which branch it takes.

Facts: a program of the B70 may have 131072 bytes of shared memory, so flash-linear-attention's ``check_shared_mem()``
(more than 102400) holds; vLLM's fp8 on XPU is ``float8_e4m3fn``, whose largest number is 448.
"""

from __future__ import annotations

import types
from typing import Any

_FP8 = "float8_e4m3fn"
_FP8_LARGEST = 448.0
_SHARED = 131072
#: What flash-linear-attention asks for by name; Hopper and Ada have more than a B70 or less.
_NEEDED = {"none": 102400, "ada": 101376, "ampere": 166912, "hopper": 232448}


class _Platform:
    """vLLM's ``current_platform``: XPU, and nothing else."""

    def is_xpu(self) -> bool:
        return True

    def fp8_dtype(self) -> str:
        return _FP8

    def is_arch_support_pdl(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("is_"):
            return lambda *words, **more: False
        raise AttributeError(name)


def _finfo(dtype: str) -> types.SimpleNamespace:
    if dtype != _FP8:
        raise ValueError(f"nothing is known of {dtype}")
    return types.SimpleNamespace(min=-_FP8_LARGEST, max=_FP8_LARGEST)


torch = types.SimpleNamespace(
    finfo=_finfo, version=types.SimpleNamespace(hip=None, cuda=None, xpu="xpu"), float8_e4m3fn=_FP8
)
current_platform = _Platform()
is_nvidia = is_nvidia_hopper = is_amd = is_tma_supported = use_cuda_graph = False
is_intel = True


def check_shared_mem(arch: str = "none", tensor_idx: int = 0) -> bool:
    """True if a program may have as much shared memory as flash-linear-attention wants of *arch*."""
    return _NEEDED.get(arch, _NEEDED["none"]) <= _SHARED


_UTILS = ("vllm.model_executor.layers.fla.ops.utils", "vllm.third_party.flash_linear_attention.ops.utils")
_OF_UTILS = (
    "is_nvidia",
    "is_nvidia_hopper",
    "is_amd",
    "is_intel",
    "is_tma_supported",
    "use_cuda_graph",
    "check_shared_mem",
)
_KNOWN = {("torch", None): "torch", ("vllm.platforms", "current_platform"): "current_platform"}


def statement(origin: str, member: str | None) -> str | None:
    """The import to have instead of *member* from *origin* (None: the module itself), or None: follow it."""
    name = _KNOWN.get((origin, member)) or (member if origin in _UTILS and member in _OF_UTILS else None)
    return f"from patchset.smoke.stand_ins import {name}" if name else None


def nothing(origin: str, member: str | None) -> str | None:
    """For kernels that are run with the real torch: no import is replaced."""
    return None
