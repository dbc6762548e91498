"""Copies of vllm, or of what Python runs at its start, that lie in a folder or a zip file on Python's path.

Facts, of Python 3.10 to 3.13: a package needs ``__init__`` to be taken before a later one (:mod:`importlib.machinery`); a zip
file, or ``FILE.zip/folder``, on the path gives sources and compiled files, no extensions (:mod:`zipimport`).
"""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

from .archive import DAMAGE
from .bounded import Unread, opened
from .identity import NAME
from .site import listed

#: The largest zip file on the path that is looked into, and its largest directory: some 50,000 members.
_MOST_ZIP = 256 * 1024**2
_MOST_DIRECTORY = 4 * 1024**2
_END_SIZE = 22
_MOST_COMMENT = 0xFFFF
_INIT = re.compile(r"__init__(\.[A-Za-z0-9_-]+)*\.(so|pyd)|__init__\.pyc?")


def copy_in(folder: Path, module: str = NAME) -> Path | None:
    """The package or module called *module* that Python would take from *folder* on its path, if there is one."""
    inside = folder / module
    if any(_INIT.fullmatch(name) for name in listed(inside)):
        return inside
    file = re.compile(rf"{module}(\.[A-Za-z0-9_-]+)*\.(so|pyd)|{module}\.pyc?")
    return next((folder / name for name in listed(folder) if file.fullmatch(name)), None)


def other_copy(site: Path, folder: Path) -> Path | None:
    """The vllm that Python would take from *folder*, if it is not that of *site*."""
    copy = copy_in(folder)
    same = copy is not None and os.path.realpath(copy) == os.path.realpath(site / NAME)
    return None if same else copy


def archive_of(place: Path) -> Path | None:
    """The file that *place* is or lies in, if it is one: Python looks for a zip file there."""
    return next((path for path in (place, *place.parents) if os.path.isfile(path)), None)


def modules_in(archive: Path, place: Path) -> frozenset[str]:
    """The top modules and packages that Python finds at *place*, which is the zip file *archive* or lies in it.

    :raises Unread: it is no zip file, or too large to be looked into.
    """
    below = "" if place == archive else f"{place.relative_to(archive).as_posix()}/"
    found = set()
    for name in _names(archive):
        match = (
            re.fullmatch(r"([^/.]+)(/__init__)?\.pyc?", name.removeprefix(below)) if name.startswith(below) else None
        )
        found |= {match[1]} if match else set()
    return frozenset(found)


def _names(archive: Path) -> set[str]:
    with opened(archive) as (stream, size):
        stream.seek(max(size - _END_SIZE - _MOST_COMMENT, 0))
        tail = stream.read(_END_SIZE + _MOST_COMMENT)
        end = tail.rfind(b"PK\5\6")
        if size > _MOST_ZIP or end < 0 or b"PK\6\7" in tail[:end][-20:]:
            raise Unread("no zip file that is looked into")
        if int.from_bytes(tail[end + 12 : end + 16], "little") > _MOST_DIRECTORY:
            raise Unread("its directory is too large")
        try:
            with zipfile.ZipFile(stream) as opened_zip:
                # Some readers take the name of an extra field, which zipfile puts in `filename`.
                return {name for info in opened_zip.infolist() for name in (info.filename, info.orig_filename)}
        except DAMAGE as error:
            raise Unread(f"no zip file: {error}") from error
