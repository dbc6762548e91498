"""The kernels wheel of a pin: from ``vendor/``, or from the package index by the hash in ``vendor/upstreams.toml``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from patchset.changes import Change, commit_changes
from patchset.errors import DeclarationError, SourceError
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.sources import archive, index
from patchset.upstream import Upstream, Wheel

NAME = "vllm-xpu-kernels"

_URL = re.compile(r"^vllm[-_]xpu[-_]kernels\s*@\s*(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Had:
    """A kernels wheel on this machine. ``pinned``: its hash is the one in vendor/upstreams.toml."""

    path: Path
    version: str
    tags: tuple[str, ...]
    sha256: str
    size: int
    pinned: bool
    note: str = ""


def pinned(recipe: Recipe) -> str:
    """The version of the kernels that *recipe* names.

    :raises DeclarationError: its ``[stack]`` does not name exactly one.
    """
    specifier = recipe.stack.get(NAME, "")
    exact = [part.version for part in SpecifierSet(specifier) if part.operator == "==" and "*" not in part.version]
    if len(exact) != 1:
        raise DeclarationError(
            f"[stack] names no single version of {NAME} ({specifier or 'nothing'})",
            where=recipe.file.name,
            next=f'write {NAME} = "==VERSION", or ./inv kernels --version VERSION',
        )
    return exact[0]


def from_file(upstream: Upstream, path: Path) -> Had:
    """The wheel in the file *path*, hashed and compared with what is known of its version.

    :raises SourceError: it is no wheel of the kernels, or has the name of a known one and another hash.
    """
    try:
        version, tags = _read_name(upstream, path.name)
    except ValueError as error:
        raise SourceError(str(error), where=str(path), next="./inv kernels --wheel vllm_xpu_kernels-….whl") from error
    if not path.is_file():
        raise SourceError("no such file", where=str(path), next="./inv kernels --wheel FILE")
    try:
        sha256, size = archive.hash_file(path)
    except OSError as error:
        raise SourceError(
            f"the wheel cannot be read: {error.strerror or error}", where=str(path), next="./inv kernels --wheel FILE"
        ) from error
    known = upstream.wheels.get(version)
    if known and known.file == path.name and known.sha256 != sha256:
        raise SourceError(
            f"{path.name} has sha256 {sha256}; the package index's has {known.sha256}",
            where=str(path),
            next=f"./inv kernels --version {version} takes the index's; a build of your own should have a version of its own",
        )
    note = "" if known else "nothing is known of this version: its hash was compared with none"
    return Had(path, version, tags, sha256, size, bool(known and known.sha256 == sha256), note)


def from_index(
    upstream: Upstream,
    version: str,
    *,
    cache: Path,
    settings: index.PipSettings | None = None,
    progress: archive.Progress | None = None,
    url: str = "",
) -> Had:
    """The known wheel of *version*, brought into *cache* by its hash if it is not there.

    :param url: where the release's own requirements have it from, to be shown where the index has none.
    :raises SourceError: it is not known, or cannot be had as known.
    """
    wheel = upstream.wheels.get(normal(version))
    if wheel is None:
        raise SourceError(
            f"{NAME} {version} is not among the wheels of the package index that are known "
            f"({', '.join(upstream.wheels)})",
            where=url,
            next="fetch the file where that is possible, then ./inv kernels --wheel FILE; "
            f"if the index has it by now: ./inv kernels --version {version} --add",
        )
    had = archive.fetch(
        wheel.file,
        wheel.sha256,
        cache=cache,
        locate=lambda: _locate(upstream.distribution, wheel.version, wheel.file, wheel.sha256, settings),
        settings=settings,
        progress=progress,
    )
    return Had(had.path, wheel.version, _read_name(upstream, wheel.file)[1], had.sha256, had.size, True, had.note)


def add(project: Project, version: str, say: Callable[[str], None]) -> Wheel:
    """Make the wheel of *version* known: fetch it, and write its name, sha256 and size to ``vendor/upstreams.toml``.

    The hash is the index's own word, checked against the bytes that came; from then on it is this file's.

    :raises DeclarationError: it is known already.
    :raises SourceError: no index has it.
    """
    from patchset.rewrite import insert_table

    upstream = project.upstreams[NAME]
    version = normal(version)
    if version in upstream.wheels:
        raise DeclarationError(
            f"{version} is known already", where="vendor/upstreams.toml", next=f"./inv kernels --version {version}"
        )
    found = _locate(upstream.distribution, version, "", "", None)
    had = archive.fetch(found.filename, found.sha256, cache=project.workspace.archives, locate=lambda: found)
    wheel = Wheel(version, had.filename, had.sha256, had.size)
    block = (
        f'[[{NAME}.wheel]]\nversion = "{wheel.version}"\nfile = "{wheel.file}"\nsha256 = "{wheel.sha256}"\n'
        f"size = {wheel.size}\n"
    )
    later = [number for number, known in enumerate(upstream.wheels) if Version(known) > Version(version)]
    names = list(project.upstreams)
    after = names[names.index(NAME) + 1 :]
    before = (NAME, "wheel", later[0]) if later else (after[0],) if after else None
    file = project.workspace.upstreams
    text = insert_table(file.read_text("utf-8"), block, before)
    commit_changes([Change(file, text.encode())], project.workspace.journal)
    say(f"  {wheel.file}: {wheel.size} bytes, sha256 {wheel.sha256}: known now, in vendor/upstreams.toml")
    return wheel


def required_url(requirements: str) -> str:
    """The URL that a release's ``requirements/xpu.txt`` has the kernels from; empty where it is not by URL."""
    match = _URL.search(requirements)
    return match[1] if match else ""


def normal(version: str) -> str:
    """*version* in normal form.

    :raises DeclarationError: it is none.
    """
    try:
        return str(Version(version))
    except InvalidVersion as error:
        raise DeclarationError(f"--version {version!r} is no version", next="--version 0.1.15.4") from error


def _read_name(upstream: Upstream, filename: str) -> tuple[str, tuple[str, ...]]:
    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename as error:
        raise ValueError(f"{filename!r} is not the file name of a wheel") from error
    if name != canonicalize_name(upstream.distribution):
        raise ValueError(f"{filename!r} is a wheel of {name}, not of {upstream.distribution}")
    return str(version), tuple(sorted(map(str, tags)))


# -- the index ---------------------------------------------------------------------------------------------------------


def _locate(
    distribution: str, version: str, filename: str, sha256: str, settings: index.PipSettings | None
) -> index.Found:
    """The wheel on the configured indexes: the one of that name and hash where they are given, else the version's only one."""
    offers, complaints = index.offers(distribution, settings or index.read_pip_settings(), wheels=True)
    found = [offer for offered, offer, _ in offers if offered == Version(version)]
    fitting = [offer for offer in found if filename in ("", offer.filename) and sha256 in ("", offer.sha256 or sha256)]
    if not fitting:
        others = "; ".join(f"{offer.filename} {offer.sha256 or ''}".strip() for offer in found)
        raise SourceError(
            f"no wheel {filename or f'of {distribution} {version}'}"
            + (f" with sha256 {sha256}" if sha256 else "")
            + " on the configured package index"
            + (f"; it has {others}" if others else ""),
            detail="\n".join(complaints),
            next="check the network and pip config list; or ./inv kernels --wheel FILE",
        )
    if len({offer.filename for offer in fitting}) > 1:
        raise SourceError(
            f"{distribution} {version} has several wheels: {', '.join(sorted({o.filename for o in fitting}))}",
            where=fitting[0].place,
            next="fetch the one of the serving host, then ./inv kernels --wheel FILE",
        )
    return next((offer for offer in fitting if offer.sha256), fitting[0])
