"""A folder of installed packages: found, listed, and which distributions' RECORDs are in it. Nothing of it is imported."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from .bounded import Unread, read
from .model import Unusable
from .records import Row, read_rows

#: Files and folders that are listed at most, in one folder and below it; vLLM has some 8,000 with its compiled files.
MOST_ENTRIES = 300_000

_LEAST = "name a wheel, a receipt, a site-packages folder, a virtual environment or the vllm folder in it"


@dataclass(frozen=True)
class Distribution:
    """An installed distribution: its normalised name, version, folder, and the rows of its RECORD by normalised path.

    ``faults``: what is wrong with RECORD. ``unread``: why it cannot be read.
    """

    name: str
    version: str
    folder: str
    rows: Mapping[str, Row]
    faults: tuple[str, ...] = ()
    unread: str = ""

    @property
    def label(self) -> str:
        """Name and version for a person."""
        return f"{self.name} {self.version}"


def find_site(target: Path) -> Path:
    """The site-packages folder that *target* is, holds (a virtual environment) or lies in (its vllm folder).

    :raises Unusable: there is none, or more than one with vllm.
    """
    if os.path.isfile(target / "pyvenv.cfg") or os.path.isdir(target / "conda-meta"):
        places = [*target.glob("lib/python3.*/site-packages"), *target.glob("Lib/site-packages")]
        found = [place for place in places if _vllm_folders(place)] or places
        if len(found) != 1:
            what = f"the environment has {len(found)} site-packages folders{' with vllm' if found else ''}, not one"
            raise Unusable(what, where=str(target), next="name the folder itself")
        return found[0]
    if target.name == "vllm" and not _vllm_folders(target) and _vllm_folders(target.parent):
        return target.parent
    if not _vllm_folders(target):
        raise Unusable("no vllm is installed there", where=str(target), next=_LEAST)
    return target


def distributions(site: Path) -> list[Distribution]:
    """Every distribution of *site* that has a ``.dist-info`` folder, sorted by folder."""
    names = [name for name in listed(site) if name.endswith(".dist-info")]
    return [_distribution(site, name) for name in names]


def listed(folder: Path) -> list[str]:
    """The names in *folder*, sorted; none if it cannot be read."""
    names = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > MOST_ENTRIES:
                    break
    except (OSError, ValueError):
        return []
    return sorted(names)


@dataclass(frozen=True)
class Found:
    """Something below a folder: its path with ``/``, and whether it is a plain file, another thing, or could not be read."""

    path: str
    kind: str


def walk(site: Path, top: str) -> Iterator[Found]:
    """All that is below ``site/top`` but folders; a link to a folder is told and not followed.

    ``kind`` is `file`, `folder link`, `other`, `unread` (a folder), or, once and last, `too many`.
    """
    waiting = [top]
    count = 0
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(site / place) as entries:
                inner = sorted(islice(entries, MOST_ENTRIES + 1), key=lambda entry: entry.name)
        except OSError:
            yield Found(place, "unread")
            continue
        for entry in inner:
            count += 1
            if count > MOST_ENTRIES:
                yield Found(top, "too many")
                return
            path = f"{place}/{entry.name}"
            kind = _kind(entry)
            if kind == "folder":
                waiting.append(path)
            else:
                yield Found(path, kind)


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        if entry.is_file():
            return "file"
        return "folder link" if entry.is_dir() else "other"
    except OSError:
        return "other"


def normal_path(path: str) -> str:
    """*path* of a RECORD in one spelling, whatever ``./`` and ``//`` are in it."""
    return os.path.normpath(path).replace(os.sep, "/")


def is_bytecode(path: str) -> bool:
    """Is it one that Python makes when it imports the source beside ``__pycache__``?"""
    return path.endswith(".pyc") and path.split("/")[-2:-1] == ["__pycache__"]


def _distribution(site: Path, folder: str) -> Distribution:
    name, _, version = folder.removesuffix(".dist-info").rpartition("-")
    name = re.sub(r"[-_.]+", "-", name).lower()
    try:
        rows, faults = read_rows(read(site / folder / "RECORD"), f"{folder}/RECORD")
    except Unread as error:
        return Distribution(name, version, folder, {}, unread=str(error))
    return Distribution(name, version, folder, {normal_path(row.path): row for row in rows}, faults)


def _vllm_folders(site: Path) -> list[str]:
    return [
        name for name in listed(site) if re.fullmatch(r"vllm-[^-]+(-[^-]+)?\.(dist-info|egg-info)", name, re.IGNORECASE)
    ]
