"""Triton's cache of compiled kernels as files: counted, copied, and carried to another place.

A folder for each key. ``__grp__NAME.json`` in it lists the files of one compiled kernel by their whole paths, and
Triton (3.8.0 was read) takes the kernel as not there if one of the paths is gone: a cache that was only moved is worth
nothing, so whoever moves one calls :func:`relocate`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: What is done with the cache: begun afresh, filled for later, or used as it was filled earlier.
FRESH, PRIME, PRIMED = "fresh", "prime", "primed"
_GROUP = "__grp__"
#: Beside the kernels' folders: whose they are.
_OWNER = "runtime.json"
#: Both kinds of file are small; a larger one is neither ours nor Triton's.
_LIMIT = 1024 * 1024


class CacheError(Exception):
    """The folder cannot be primed, or is no primed cache. The text says why."""


@dataclass(frozen=True)
class CacheUse:
    """What a run does with Triton's cache.

    :param mode: ``FRESH``, ``PRIME`` or ``PRIMED``.
    :param folder: the cache that is to be filled or used; None if it is fresh.
    """

    mode: str = FRESH
    folder: Path | None = None


def check(use: CacheUse) -> None:
    """Refuse what could not end well before anything is run.

    :raises CacheError: the folder to be primed has something in it, or the one to be used has no compiled kernel.
    """
    if use.folder is None:
        return
    if use.mode == PRIME and use.folder.exists() and (not use.folder.is_dir() or any(use.folder.iterdir())):
        raise CacheError(f"{use.folder} is not an empty folder: a cache is primed into a new one")
    if use.mode == PRIMED and not kernels(use.folder):
        raise CacheError(f"{use.folder} has no compiled kernel of Triton in it: prime it first (--prime)")


@dataclass(frozen=True)
class Owner:
    """Whose compiled kernels they are.

    :param runtime: the version of the wheel, which names the patched tree; the release, where there is no wheel.
    :param kernels: name → sha256 of the kernel's source text.
    """

    runtime: str
    kernels: Mapping[str, str]


def sign(cache: Path, owner: Owner, environment: Mapping[str, str]) -> None:
    """Write down whose cache it is, and what compiled it."""
    told = {"runtime": owner.runtime, "kernels": dict(owner.kernels), "environment": dict(environment)}
    (cache / _OWNER).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", "utf-8")


def require_owner(cache: Path, owner: Owner) -> None:
    """Refuse a cache that was filled for another runtime: its kernels would be compiled anew, one request after the other.

    :raises CacheError: it does not say whose it is, or is another's.
    """
    file = cache / _OWNER
    again = "prime a new one (--prime)"
    try:
        told = _json(file)
        found = Owner(str(told["runtime"]), dict(told["kernels"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CacheError(f"{file} does not say whose kernels these are ({error}): {again}") from error
    if found.runtime != owner.runtime:
        raise CacheError(f"{cache} was filled for {found.runtime}, and this is {owner.runtime}: {again}")
    other = sorted(name for name, sha256 in owner.kernels.items() if found.kernels.get(name) != sha256)
    if other:
        raise CacheError(f"{cache} was filled for other code of {', '.join(other)}: {again}")


def kernels(cache: Path) -> int:
    """How many compiled kernels there are; each is one specialisation."""
    return len(_groups(cache))


def relocate(cache: Path, final: Path | None = None) -> None:
    """Make every list of files name them where the cache lies now, or where it *final*ly will.

    :raises CacheError: a list that is not Triton's.
    """
    for group in _groups(cache):
        home = (final or cache).absolute() / group.parent.name
        try:
            names = list(_json(group)["child_paths"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CacheError(f"{group} is no list of a compiled kernel's files: {error}") from error
        if any(name != Path(name).name for name in names):
            raise CacheError(f"{group} names a file outside its folder")
        group.write_text(json.dumps({"child_paths": {name: str(home / name) for name in names}}), "utf-8")


def copy(cache: Path, target: Path) -> None:
    """A copy that Triton can use and may add to.

    :raises CacheError: see :func:`relocate`.
    """
    shutil.copytree(cache, target)
    relocate(target)


def keep(cache: Path, target: Path, but: str) -> int:
    """Move a cache that was just filled to *target*, whole or not at all; gives the number of its kernels.

    :param but: the name of a kernel that is not kept.
    :raises CacheError: see :func:`relocate`.
    """
    for group in _groups(cache):
        if group.name == f"{_GROUP}{but}.json":
            shutil.rmtree(group.parent)
    relocate(cache, target)
    staged = target.parent / f".{target.name}.partial"
    shutil.rmtree(staged, ignore_errors=True)
    # Another file system may be between them: copied beside it first, the last step is a rename.
    shutil.copytree(cache, staged)
    if target.is_dir():
        target.rmdir()
    staged.rename(target)
    return kernels(target)


def _json(file: Path) -> Any:
    if file.stat().st_size > _LIMIT:
        raise ValueError(f"it has more than {_LIMIT} bytes")
    return json.loads(file.read_bytes())


def _groups(cache: Path) -> list[Path]:
    return sorted(cache.glob(f"*/{_GROUP}*.json"))
