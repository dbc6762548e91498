"""The laboratory: an environment with torch (CPU), Triton and what vLLM imports, for probes and kernels."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from patchset import environment, process
from patchset.environment import Pip
from patchset.errors import MissingTool, SourceError

LOCK = Path(__file__).with_name("requirements.lock")

#: The torch that probes and the interpret lane were proved with.
TORCH = "2.13.0"
_RULE = f"torch {TORCH}"
#: PyTorch's own index of CPU builds: the general index has, for x86-64 Linux, only CUDA builds of several gigabytes.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
#: An interpreter to use instead, for example the one of a serving host.
OVERRIDE = "PATCHSET_LAB_PYTHON"


@dataclass(frozen=True)
class Lab:
    """An interpreter with torch, and ``identity``: a text that says which, for the keys of cached results.

    :param variables: what its programs want in their environment.
    :param ours: it is in a folder of this tool, where Python may keep what it compiles: half of a probe's time goes into that.
    """

    python: Path
    identity: str
    variables: Mapping[str, str] = field(default_factory=dict)
    ours: bool = False


def ensure(envs: Path, say: Callable[[str], None] = lambda text: None) -> Lab:
    """The laboratory's interpreter, made under *envs* when first asked for (about 2 GB on disk).

    :raises MissingTool: ``PATCHSET_LAB_PYTHON`` names an interpreter that has no torch, Triton or NumPy.
    :raises SourceError: torch or the lock could not be installed.
    """
    override = os.environ.get(OVERRIDE)
    if override:
        return _given(Path(override))
    python = environment.ensure(envs, "lab", LOCK, before=_install_torch, rule=_RULE, say=say)
    return Lab(python, identity(), ours=True)


def identity() -> str:
    """The ``identity`` of what :func:`ensure` gives. Nothing is installed to find out.

    :raises MissingTool: as :func:`ensure`.
    """
    override = os.environ.get(OVERRIDE)
    if override:
        return _given(Path(override)).identity
    lock = environment.lock_hash(LOCK)
    # The last word is what the environment's folder is called. None of it may change: verdicts are kept under this text.
    key = sha256((lock + _RULE).encode()).hexdigest()[:12]
    return f"lock {lock} {_RULE} lab-{key}-py{sys.version_info.major}.{sys.version_info.minor}"


def _given(python: Path) -> Lab:
    program = (
        "import sys, torch, triton, numpy; print(sys.version, torch.__version__, triton.__version__, numpy.__version__)"
    )
    asked = process.run(
        [python, "-I", "-c", program], cwd="/", env=process.clean_environment({"CUDA_VISIBLE_DEVICES": ""}), timeout=120
    )
    if asked.returncode or len(asked.stdout.split()) < 4:
        raise MissingTool(
            f"{OVERRIDE}={python} has not all of torch, triton and numpy",
            detail=asked.tail(),
            next=f"install them there, or unset {OVERRIDE}",
        )
    return Lab(python, asked.stdout.decode("utf-8", "replace").strip())


def _install_torch(pip: Pip) -> None:
    """A CPU torch by the cheapest way that works: the user's own indexes, PyTorch's CPU index, any build of the release."""
    ways = ([f"torch=={TORCH}+cpu"], [f"torch=={TORCH}+cpu", "--extra-index-url", TORCH_CPU_INDEX], [f"torch=={TORCH}"])
    # --no-deps: what torch needs on a CPU is in the lock, by hash. Only the last way may bring more.
    if not any(pip([*words, "--retries", "1", *(["--no-deps"] if "+cpu" in words[0] else [])]) for words in ways):
        raise SourceError(
            f"no torch {TORCH} could be had",
            next=f"set {OVERRIDE} to an interpreter with torch, triton and numpy, or check "
            "the network and pip's configuration",
        )
