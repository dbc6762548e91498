"""Where kernels are read from: a wheel, a source tree, or the vLLM that this interpreter would import."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

#: No Python file of vLLM is a tenth of this; a member that says otherwise is not read.
FILE_LIMIT = 8 * 1024 * 1024


class SourceError(Exception):
    """The source cannot be read as what it was said to be. The text says what and what to do."""


@dataclass(frozen=True)
class Source:
    """A place that has vLLM's files.

    :param kind: ``wheel``, ``tree`` or ``installed``.
    :param path: the file or directory, as given.
    :param version: what it says of itself, or None.
    :param sha256: of the wheel file; None for directories.
    """

    kind: str
    path: Path
    version: str | None
    sha256: str | None = None

    def read(self, file: str) -> str | None:
        """The text of one file of the tree, None if it is not there.

        :raises SourceError: it is too large, or not UTF-8.
        """
        data = _read_wheel(self.path, file) if self.kind == "wheel" else _read_tree(self.path, file)
        if data is None:
            return None
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise SourceError(f"{file} in {self.path} is not UTF-8: {error}") from error

    def files(self) -> tuple[str, ...]:
        """The Python files of the package, sorted."""
        if self.kind == "wheel":
            with zipfile.ZipFile(self.path) as archive:
                names = archive.namelist()
        else:
            top = self.path / "vllm"
            names = [
                Path(folder, name).relative_to(self.path).as_posix()
                for folder, _, found in os.walk(top)
                for name in found
            ]
        return tuple(sorted(name for name in set(names) if name.startswith("vllm/") and name.endswith(".py")))


def wheel_source(path: Path) -> Source:
    """A wheel file; its version is the one in its METADATA.

    :raises SourceError: not a readable wheel of vLLM.
    """
    try:
        data = path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise SourceError(f"{path} cannot be read as a wheel: {error}") from error
    metadata = [name for name in names if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
    if len(metadata) != 1:
        raise SourceError(f"{path} is not a wheel: {len(metadata)} METADATA files in it, not one")
    text = (_read_wheel(path, metadata[0]) or b"").decode("utf-8", "replace")
    version = re.search(r"^Version:[ \t]*(\S+)", text, re.MULTILINE)
    return Source("wheel", path, version.group(1) if version else None, hashlib.sha256(data).hexdigest())


def tree_source(path: Path) -> Source:
    """A directory with vLLM's source tree in it. A git checkout does not know its release; an unpacked archive does.

    :raises SourceError: there is no ``vllm`` package in it.
    """
    if not (path / "vllm").is_dir():
        raise SourceError(f"{path} has no vllm directory in it: give the top of the source tree")
    return Source("tree", path, _version_of_tree(path))


def installed_source() -> Source:
    """The vLLM that this interpreter would import, found without importing it.

    :raises SourceError: there is none.
    """
    spec = importlib.util.find_spec("vllm")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise SourceError("no vllm is installed for this interpreter: give --wheel or --tree")
    top = Path(places[0]).parent
    owner = next((dist for dist in importlib.metadata.distributions(name="vllm", path=[str(top)])), None)
    return Source("installed", top, owner.version if owner else _version_of_tree(top))


def _read_wheel(path: Path, file: str) -> bytes | None:
    with zipfile.ZipFile(path) as archive:
        try:
            info = archive.getinfo(file)
        except KeyError:
            return None
        if info.file_size > FILE_LIMIT:
            raise SourceError(f"{file} in {path} says it has {info.file_size} bytes; the limit is {FILE_LIMIT}")
        return archive.read(info)


def _read_tree(top: Path, file: str) -> bytes | None:
    path = top / file
    if not path.is_file():
        return None
    if path.stat().st_size > FILE_LIMIT:
        raise SourceError(f"{path} is larger than {FILE_LIMIT} bytes")
    return path.read_bytes()


def _version_of_tree(top: Path) -> str | None:
    for file, pattern in (("PKG-INFO", r"^Version:[ \t]*(\S+)"), ("vllm/_version.py", r"version = '([^']+)'")):
        data = _read_tree(top, file)
        match = re.search(pattern, data.decode("utf-8", "replace"), re.MULTILINE) if data else None
        if match:
            return match.group(1)
    return None
