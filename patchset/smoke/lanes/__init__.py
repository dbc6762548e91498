"""Ways to run a kernel.

A lane is a module with ``prepare(**options)``, ``environment()`` and ``run(function, parameters, case)``.
``prepare()`` is called before anything imports triton. ``run`` gives the differences, or a
:class:`~patchset.smoke.report.Outcome` if it has more to tell. A lane may have ``alive()``, which is asked after an
exception: False says that this process can run nothing more. A lane is imported only in the child process that runs it.
"""

from __future__ import annotations

#: Lane name → module of this package.
LANES = {
    "interpret": "patchset.smoke.lanes.interpret",
    "spirv": "patchset.smoke.lanes.spirv",
    "native": "patchset.smoke.lanes.native",
    "device": "patchset.smoke.lanes.device",
}


class CannotRun(Exception):
    """This machine or interpreter lacks what the lane needs. The text says what."""
