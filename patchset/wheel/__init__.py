"""From a patched tree to a wheel that says what is in it.

``make`` decides and finishes, ``plan`` says what can be assembled, ``draft`` assembles, ``build`` runs upstream's own
setup.py, ``toolchain`` says what that needs of this machine, ``packing`` writes the archive, ``record`` and ``inspect``
read and check it, ``elf`` reads its extensions, ``standin`` is the torch that CMake asks for.
"""

from pathlib import Path

from patchset.environment import lock_hash, locked_pins
from patchset.wheel.build import BUILD_REQUIREMENTS
from patchset.wheel.compiler import COMPILER_REQUIREMENTS
from patchset.wheel.inspect import check_wheel, inspect_wheel
from patchset.wheel.make import BuiltWheel, Rooms, WheelRequest, make_wheel
from patchset.workspace import digest

__all__ = [
    "BUILD_REQUIREMENTS",
    "BuiltWheel",
    "Rooms",
    "WheelRequest",
    "check_wheel",
    "environments",
    "inspect_wheel",
    "make_wheel",
]

#: Of this tool's own requirements, those whose version shows in a wheel's bytes.
_WRITERS = ("cyclonedx-python-lib", "deflate", "packageurl-python")


def environments() -> tuple[tuple[str, str], ...]:
    """Name → sha256 of all the locked requirements that a wheel's bytes depend on, for a recipe's lock."""
    own = locked_pins(Path(__file__).parents[1] / "requirements.lock")
    return (
        ("build", lock_hash(BUILD_REQUIREMENTS)),
        ("compiler", lock_hash(COMPILER_REQUIREMENTS)),
        ("writer", digest([own[name] for name in _WRITERS])),
    )
