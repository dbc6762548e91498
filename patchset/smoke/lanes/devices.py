"""Which device there is, what it says of itself, and the few things that the device lane does with it."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from patchset.smoke.lanes import CannotRun
from patchset.smoke.lanes.memory import ALIGNMENT

#: The first one that has a device is taken.
KINDS = ("xpu", "cuda")

#: Libraries whose file names say their version, by what the report calls them: Intel's graphics compiler, its driver,
#: the Level Zero loader.
_LIBRARIES = {"igc": "libigc.so", "compute_runtime": "libze_intel_gpu.so", "level_zero_loader": "libze_loader.so"}


@dataclass(frozen=True)
class Device:
    """A device of torch.

    :param name: as torch's functions take it, ``xpu`` or ``cuda``.
    :param facts: what is known of it, for the report.
    :param synchronise: waits until it has done everything; raises what went wrong on it meanwhile.
    :param captured: records what a function launches, without running it, and gives the function that replays it.
    :param no_graphs: why nothing can be recorded; empty if it can.
    """

    name: str
    facts: dict[str, str]
    synchronise: Callable[[], None]
    captured: Callable[[Callable[[], None]], Callable[[], None]]
    no_graphs: str = ""

    def place(self, content: np.ndarray) -> Any:
        """A tensor of bytes on the device with *content*, on a boundary as :mod:`~patchset.smoke.lanes.memory` wants it."""
        import torch

        spare = torch.empty(content.size + ALIGNMENT, dtype=torch.uint8, device=self.name)
        start = -spare.data_ptr() % ALIGNMENT
        block = spare[start : start + content.size]
        block.copy_(torch.from_numpy(content))
        return block

    @staticmethod
    def fetch(block: Any) -> np.ndarray:
        """A copy of a tensor of bytes on the host."""
        import torch

        kept = np.empty(block.numel(), np.uint8)
        torch.from_numpy(kept).copy_(block)
        return kept


def find() -> Device:
    """The device to use, Intel's first.

    :raises CannotRun: torch sees none. The text says what torch was built with.
    """
    import torch

    seen = []
    for kind in KINDS:
        api = getattr(torch, kind, None)
        if api is not None and api.is_available() and api.device_count():
            captured, no_graphs = _graphs(torch, api, kind)
            return Device(kind, _facts(torch, api, kind), api.synchronize, captured, no_graphs)
        seen.append(_absent(torch, kind))
    raise CannotRun(f"no {' or '.join(KINDS)} device (torch {torch.__version__}; {'; '.join(seen)})")


def _absent(torch: Any, kind: str) -> str:
    runtime = getattr(torch.version, kind, None)
    if not runtime and not (kind == "cuda" and getattr(torch.version, "hip", None)):
        return f"{kind}: not in this build"
    hidden = kind == "cuda" and os.environ.get("CUDA_VISIBLE_DEVICES") == ""
    return f"{kind} {runtime}: {'hidden by an empty CUDA_VISIBLE_DEVICES' if hidden else 'none is seen'}"


def _facts(torch: Any, api: Any, kind: str) -> dict[str, str]:
    """Name, driver, size: what torch tells of the device."""
    told = api.get_device_properties(0)
    facts = {
        "device": str(told.name),
        "kind": kind,
        "runtime": f"{kind} {getattr(torch.version, kind, None) or getattr(torch.version, 'hip', None)}",
        "memory_bytes": str(told.total_memory),
    }
    names = {
        "driver": "driver_version",
        "platform": "platform_name",
        "platform_version": "version",
        "compute_units": "max_compute_units" if kind == "xpu" else "multi_processor_count",
        "eu_count": "gpu_eu_count",
        "architecture": "architecture",
    }
    facts |= {name: str(getattr(told, field)) for name, field in names.items() if hasattr(told, field)}
    if kind == "cuda":
        facts |= {"driver": _nvidia_driver() or "not told", "capability": f"{told.major}.{told.minor}"}
    return facts


def _nvidia_driver() -> str | None:
    """The driver's version from NVIDIA's management library, which torch does not tell."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(96)
        if library.nvmlInit_v2() or library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text))):
            return None
        library.nvmlShutdown()
    except (OSError, AttributeError):
        return None
    return text.value.decode("ascii", "replace")


def loaded_versions(maps: Path) -> dict[str, str]:
    """Versions of Intel's libraries from the file names under which this process has them mapped.

    torch tells the version of neither the graphics compiler nor Level Zero.

    :param maps: the process's memory map, as Linux writes it; unreadable: nothing is known.
    """
    try:
        text = maps.read_text("utf-8", "replace")
    except OSError:
        return {}
    found = {}
    for name, library in _LIBRARIES.items():
        match = re.search(rf"/{re.escape(library)}\.([0-9][^\s/]*)$", text, re.MULTILINE)
        if match:
            found[name] = match.group(1)
    return found


def _graphs(torch: Any, api: Any, kind: str) -> tuple[Callable[[Callable[[], None]], Callable[[], None]], str]:
    """How launches are recorded on this platform, and why they cannot be, if so. Tried with a copy of torch's own."""
    recorder = getattr(api, f"{kind.upper()}Graph", None)

    def captured(launch: Callable[[], None]) -> Callable[[], None]:
        recorded = recorder()
        with api.graph(recorded):
            launch()
        replay: Callable[[], None] = recorded.replay
        return replay

    if recorder is None or not hasattr(api, "graph"):
        return captured, f"torch {torch.__version__} has no graphs for {kind}"
    try:
        source, target = (torch.full((4,), value, device=kind) for value in (3, 0))
        target.copy_(source)
        target.zero_()
        api.synchronize()
        replay = captured(lambda: target.copy_(source))
        replay()
        api.synchronize()
        if target.tolist() != [3, 3, 3, 3]:
            return captured, f"a replayed copy on {kind} copied nothing"
    except Exception as error:  # a platform that has the interface and not the means says so in its own way
        return captured, f"{kind} refuses graphs: {type(error).__name__}: {str(error).splitlines()[0]}"
    return captured, ""
