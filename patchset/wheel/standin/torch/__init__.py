"""Stands in for torch while vLLM's XPU wheel is built; it is on the path of that build only and never in a wheel.

vLLM's ``setup.py`` imports torch to find out what kind of torch it is, and its ``CMakeLists.txt`` asks for torch's
CMake package before it looks at the target device. No XPU build compiles or links a line of torch; ``build.py`` proves
that for every extension it makes. This package answers those questions and nothing else, so any other use fails loudly.
"""

from torch import utils, version

__version__ = "0+standin"
__all__ = ["utils", "version"]
