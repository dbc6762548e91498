"""Compiled files of installed modules: those that Python would run whatever the source beside them says.

Facts: a ``.pyc`` file begins with four bytes that tell Python's version and four of flags; with bit 0 set it goes by a hash of
the source, and without bit 1 Python never compares that hash (PEP 552). One in ``__pycache__`` without its source is not run;
one beside the sources is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from .bounded import Unread, opened
from .model import Check, Finding, Kind, few

_BY_HASH, _COMPARED = 1, 2
_HEAD = 8
_DELETE = "delete the __pycache__ folders below vllm: Python makes them again from the sources"


def check_bytecode(site: Path, paths: Iterable[str]) -> Check:
    """The files in ``__pycache__`` at *paths* have a source, and none of them is run unseen."""
    findings = []
    count = 0
    for path in sorted(paths):
        count += 1
        kind, what = _fault(site, path)
        if kind:
            findings.append(Finding(kind, path, what, _DELETE))
    why = f"{count} compiled files not judged; delete __pycache__ to be sure" if count else ""
    return Check("compiled files", "" if count else "none", few(findings), why)


def source_of(path: str) -> str:
    """The source that ``FOLDER/__pycache__/NAME.TAG[.opt-N].pyc`` is of."""
    folder, _, name = path.rpartition("/")
    stem = re.sub(r"\.opt-[A-Za-z0-9]+$", "", name.removesuffix(".pyc")).rpartition(".")[0]
    return f"{folder.rpartition('/')[0]}/{stem}.py"


def _fault(site: Path, path: str) -> tuple[Kind | None, str]:
    source = source_of(path)
    if not os.path.lexists(site / source):
        return Kind.UNCLAIMED, f"a compiled file, and there is no {source}"
    try:
        with opened(site / path) as (stream, _):
            flags = int.from_bytes(stream.read(_HEAD)[4:], "little")
    except Unread as error:
        return Kind.UNREAD, f"it cannot be read: {error}"
    if flags & _BY_HASH and not flags & _COMPARED:
        return Kind.CHANGED, f"Python runs this compiled file whatever {source} says"
    return None, ""
