"""The programs for a host as one file each, ``verify.pyz`` and ``smoke.pyz``: the same bytes on every machine.

The verifier wants only Python; the smoke wants an interpreter with torch, Triton and NumPy.
Fact: Python runs a zip file that has ``__main__.py`` at its top, with anything before it (PEP 441).
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import patchset.smoke
import patchset.verify

NAME = "verify.pyz"
SMOKE = "smoke.pyz"

_PACKAGE = "patchset_verify"
_FIRST_TIME = (1980, 1, 1, 0, 0, 0)
_SHEBANG = b"#!/usr/bin/env python3\n"
#: Readable to every Python, so that an old one gets a sentence instead of a syntax error.
_MAIN = """\
import sys

if sys.version_info < (3, 10):
    sys.stderr.write("error: {name} needs Python 3.10 or later\\n")
    sys.exit(2)

from {package}.__main__ import main

sys.exit(main(program="python {name}"))
"""


def single_file() -> bytes:
    """The bytes of ``verify.pyz``: shebang, then a zip file with :mod:`patchset.verify` under a name of its own."""
    return _zipped(_members(Path(patchset.verify.__file__).parent, _PACKAGE), NAME, _PACKAGE)


def smoke_file() -> bytes:
    """The bytes of ``smoke.pyz``: :mod:`patchset.smoke` under the name it has, which its child processes import too."""
    package = patchset.smoke.__name__
    top = package.partition(".")[0]
    members = {
        f"{top}/__init__.py": Path(patchset.__file__).read_bytes(),
        **_members(Path(patchset.smoke.__file__).parent, package.replace(".", "/")),
    }
    return _zipped(members, SMOKE, package)


def _members(folder: Path, package: str) -> dict[str, bytes]:
    return {f"{package}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in folder.rglob("*.py")}


def _zipped(sources: Mapping[str, bytes], name: str, package: str) -> bytes:
    """Order, times and modes are fixed, and nothing is compressed, since zlib's bytes differ from one build to another."""
    members = {"__main__.py": _MAIN.format(name=name, package=package).encode(), **dict(sorted(sources.items()))}
    stream = io.BytesIO()
    stream.write(_SHEBANG)
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_STORED) as archive:
        for member, data in members.items():
            info = zipfile.ZipInfo(member, _FIRST_TIME)
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, data)
    return stream.getvalue()
