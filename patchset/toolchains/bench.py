"""Where the smoke's lanes run: the interpreter of each, and what its variables name."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Callable

from patchset import lab
from patchset.errors import MissingTool
from patchset.lab import Lab
from patchset.smoke.toolchains import CACHE
from patchset.smoke.toolchains.ocloc import WORDS
from patchset.toolchains import intel, ocloc
from patchset.workspace import Workspace

#: The lanes that want Intel's compilers; the others run in the laboratory.
INTEL = ("spirv", "native")


def laboratory_of(lane: str, workspace: Workspace, say: Callable[[str], None] = lambda text: None) -> Lab:
    """What *lane* runs in; it is fetched when first asked for.

    :raises MissingTool, SourceError: it cannot be had here.
    """
    if lane not in INTEL:
        return lab.ensure(workspace.environments, say)
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise MissingTool(
            f"Intel's compilers are for Linux on x86-64, not {platform.system()} on {platform.machine()}",
            next="./inv smoke --lane interpret",
        )
    python = intel.make_ready(workspace.environments, say)
    variables = {CACHE: str(workspace.cache / "intel")}
    if lane == "spirv":
        return Lab(python, intel.identity(), variables)
    words = shlex.join(ocloc.make_ready(workspace.vendor, say))
    return Lab(python, f"{intel.identity()}; {ocloc.identity()}", {**variables, WORDS: words})
