"""The verifier as one file, ``verify.pyz``: the same bytes on every machine, for a host that has only Python.

Fact: Python runs a zip file that has ``__main__.py`` at its top, with anything before it (PEP 441).
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import patchset.verify

NAME = "verify.pyz"

_PACKAGE = "patchset_verify"
_FIRST_TIME = (1980, 1, 1, 0, 0, 0)
_SHEBANG = b"#!/usr/bin/env python3\n"
#: Readable to every Python, so that an old one gets a sentence instead of a syntax error.
_MAIN = f"""\
import sys

if sys.version_info < (3, 10):
    sys.stderr.write("error: {NAME} needs Python 3.10 or later\\n")
    sys.exit(2)

from {_PACKAGE}.__main__ import main

sys.exit(main(program="python {NAME}"))
"""


def single_file() -> bytes:
    """The bytes of ``verify.pyz``: shebang, then a zip file with :mod:`patchset.verify` under a name of its own.

    Order, times and modes are fixed, and nothing is compressed, since zlib's bytes differ from one build to another.
    """
    sources = {path.name: path.read_bytes() for path in Path(patchset.verify.__file__).parent.glob("*.py")}
    members = {"__main__.py": _MAIN.encode(), **{f"{_PACKAGE}/{name}": data for name, data in sorted(sources.items())}}
    stream = io.BytesIO()
    stream.write(_SHEBANG)
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, _FIRST_TIME)
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, data)
    return stream.getvalue()
