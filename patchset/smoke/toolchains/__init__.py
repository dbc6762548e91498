"""Programs of Intel's that lanes use: Triton's backend, an OpenCL for the CPU, the offline compiler.

Nothing is fetched here: the interpreter that runs a lane has them, or a variable of the environment says where they are.
"""

from __future__ import annotations

#: The variable that names a folder for what was compiled before. Without it nothing is kept.
CACHE = "PATCHSET_SMOKE_CACHE"
