"""Triton's Intel backend and Intel's OpenCL for the CPU, in an environment of their own.

Facts:

* ``triton-xpu`` 3.3.0b1 is the last on the package index; what production uses (3.7, 3.8) is not there. It compiles for a
  device that is not there, and needs neither torch nor SYCL to do so.
* ``triton`` and ``triton-xpu`` own one folder, so the laboratory, which has the one, cannot have the other.
* ``intel-opencl-rt`` brings the OpenCL loader too. It needs ``intel-cmplr-lib-rt``, and does not say so.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from patchset.environment import ensure, lock_hash, locked_pins

LOCK = Path(__file__).with_name("intel-requirements.lock")


def make_ready(envs: Path, say: Callable[[str], None] = lambda text: None) -> Path:
    """The environment's interpreter; made under *envs* when first asked for (2 GB on disk, 500 MB fetched).

    :raises MissingTool, SourceError: as :func:`~patchset.environment.ensure` does.
    """
    return ensure(envs, "intel", LOCK, say=say)


def identity() -> str:
    """Which it is, for the keys of cached results. Nothing is installed to find out."""
    pins = locked_pins(LOCK)
    return f"triton-xpu {pins['triton-xpu']}, intel-opencl-rt {pins['intel-opencl-rt']}, lock {lock_hash(LOCK)}"
