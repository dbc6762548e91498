"""Ways to run a kernel.

A lane is a module with ``prepare()``, ``environment()`` and ``run(function, parameters, case)``.
``prepare()`` is called before anything imports triton. A lane is imported only in the child process that runs it.
"""

from __future__ import annotations

#: Lane name → module of this package.
LANES = {"interpret": "patchset.smoke.lanes.interpret"}
