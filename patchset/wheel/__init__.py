"""From a patched tree to a wheel that says what is in it.

``build`` runs upstream's own setup.py, ``toolchain`` says what that needs of this machine, ``record`` and ``inspect`` write and
check what the wheel says of itself, ``elf`` reads its extensions, ``standin`` is the torch that CMake asks for.
"""

from patchset.wheel.build import BUILD_REQUIREMENTS, BuiltWheel, WheelRequest, build_wheel
from patchset.wheel.inspect import DELETED, check_wheel, inspect_wheel

__all__ = ["BUILD_REQUIREMENTS", "DELETED", "BuiltWheel", "WheelRequest", "build_wheel", "check_wheel", "inspect_wheel"]
