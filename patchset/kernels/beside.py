"""The torch that the kernels are to run beside, read from its files: what it exports, which SYCL it wants, its version."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patchset.errors import DeclarationError
from patchset.wheel import elf

_LIBRARY = re.compile(r"lib(?:torch|c10|aoti|shm)\w*\.so(?:\.\d+)*\Z")
_VERSION = re.compile(r"^__version__\s*(?::\s*\w+\s*)?=\s*['\"]([^'\"]{1,80})['\"]", re.MULTILINE)
_SYCL = re.compile(r"libsycl\.so\.\d+\Z")


@dataclass(frozen=True)
class Torch:
    """A torch on this machine. ``given``: a person named it as the serving host's; else it is the laboratory's.

    ``xpu``: it has the libraries of PyTorch's XPU build. ``sycl``: the SYCL libraries that it needs. ``copies``: library
    (``libccl.so``, ``libsycl.so``) → the folders of its environment that hold one.
    """

    folder: Path
    version: str
    given: bool
    xpu: bool
    exported: frozenset[str]
    sycl: tuple[str, ...]
    copies: dict[str, tuple[str, ...]]


def given(folder: str) -> Torch:
    """The torch in *folder*: a site-packages, the package in it, or its ``lib``.

    :raises DeclarationError: there is none.
    """
    place = Path(folder)
    for package in (place / "torch", place, place.parent):
        if (package / "lib").is_dir() and (package / "version.py").is_file():
            return _read(package, given=True)
    raise DeclarationError(
        "no torch there (neither torch/version.py nor version.py, with lib/ beside it)",
        where=folder,
        next="--torch DIR: what `python -c 'import torch; print(torch.__path__[0])'` prints",
    )


def laboratory(environments: Path) -> Torch | None:
    """The torch of the newest laboratory that is complete; None if there is none. It is not made for this."""
    markers = sorted(environments.glob("lab-*/complete.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for marker in markers:
        for package in sorted(marker.parent.glob("lib/python3*/site-packages/torch")):
            if (package / "lib").is_dir() and (package / "version.py").is_file():
                return _read(package, given=False)
    return None


def _read(package: Path, *, given: bool) -> Torch:
    exported: set[str] = set()
    sycl: set[str] = set()
    names = sorted(path.name for path in (package / "lib").iterdir() if _LIBRARY.match(path.name))
    for name in names:
        with _image(package / "lib" / name) as image:
            exported |= {symbol.name for symbol in image.dynamic_symbols() if symbol.defined}
            sycl |= {library for library in image.needed() if _SYCL.match(library)}
    if not exported:
        raise DeclarationError(
            "the torch there exports nothing: its libraries are not there, or are no ELF files",
            where=str(package / "lib"),
            next="--torch DIR: name an installed torch",
        )
    match = _VERSION.search((package / "version.py").read_text("utf-8", "replace")[:100_000])
    return Torch(
        package,
        match[1] if match else "",
        given,
        any(name.startswith(("libtorch_xpu", "libc10_xpu")) for name in names),
        frozenset(exported),
        tuple(sorted(sycl)),
        {name: tuple(_copies(package, name)) for name in ("libccl.so", "libsycl.so")},
    )


@contextmanager
def _image(path: Path) -> Iterator[elf.Image]:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield elf.Image(data)
    except ValueError as error:  # also an empty file, which cannot be mapped
        raise DeclarationError(
            f"a library of the torch there cannot be read: {error}",
            where=str(path),
            next="--torch DIR: name an installed torch",
        ) from error


def _copies(package: Path, library: str) -> Iterable[str]:
    """The folders of *package*'s environment with a file *library* or *library*.N: where pip puts libraries."""
    site = package.parent
    folders = [package / "lib", *site.glob("*.libs"), *site.glob("*/lib"), *site.parents[1:2]]
    found = {folder.resolve() for folder in folders if any(path.is_file() for path in folder.glob(f"{library}*"))}
    return sorted(map(str, found))
