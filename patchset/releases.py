"""The releases of an upstream: those that are known here, and those that an index has beside them."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from packaging.version import Version

from patchset.changes import Change, commit_changes
from patchset.errors import DeclarationError, SourceError
from patchset.resolve import Project
from patchset.sources import archive, index
from patchset.sources.base import Pin, default_filename
from patchset.upstream import Release, Upstream, version


@dataclass(frozen=True)
class Listed:
    """``known``: releases in ``vendor/upstreams.toml``; ``new``: later ones that an index has; ``why``: why none was asked."""

    upstream: str
    known: tuple[str, ...]
    new: tuple[str, ...]
    why: str


def listed(project: Project, name: str = "vllm") -> Listed:
    """What is known, and what is new on the user's package index. Release candidates do not count."""
    upstream = project.upstreams[name]
    known = tuple(upstream.releases)
    try:
        there = index.available_releases(upstream.distribution)
    except SourceError as error:
        return Listed(name, known, (), str(error))
    later = (release for release in there if not release.is_prerelease and release > Version(known[-1]))
    return Listed(name, known, tuple(str(release) for release in later), "")


def add(project: Project, release: str, say: Callable[[str], None], name: str = "vllm") -> Release:
    """Make *release* known: fetch its source archive, and write its date, sha256 and size to ``vendor/upstreams.toml``.

    The hash is the index's own word, checked against the bytes that came; from then on it is this file's.

    :raises DeclarationError: it is known already, or no version.
    :raises SourceError: no index has it.
    """
    upstream = project.upstreams[name]
    try:
        version(release)
    except ValueError as error:
        raise DeclarationError(f"{release!r}: {error}", next="./inv releases lists them") from error
    same = [known for known in upstream.releases if Version(known) == Version(release)]
    if same:
        raise DeclarationError(
            f"{same[0]} is known already", where="vendor/upstreams.toml", next=f"./inv forecast --releases {release}"
        )
    found = index.find_archive(upstream.distribution, release)
    had = archive.fetch(
        default_filename(Pin(upstream.distribution, release)),
        found.sha256,
        cache=project.workspace.archives,
        locate=lambda: found,
    )
    made = Release(release, _date(had.path), had.sha256, had.size)
    file = project.workspace.upstreams
    text = _with(file.read_text("utf-8"), upstream, made)
    commit_changes([Change(file, text.encode())], project.workspace.journal)
    say(f"  {had.filename}: {had.size} bytes, sha256 {had.sha256}")
    return made


def _date(path: Path) -> datetime:
    """When the archive was made: the time of its PKG-INFO, which becomes the time of all that is built from it."""
    with tarfile.open(path) as tar:
        for member in tar:
            if member.name.count("/") == 1 and member.name.endswith("/PKG-INFO"):
                return datetime.fromtimestamp(int(member.mtime), timezone.utc)
    raise SourceError("the archive has no PKG-INFO", where=str(path), next="check where this file comes from")


def _with(text: str, upstream: Upstream, release: Release) -> str:
    """*text* with a table for *release*, in the order of releases."""
    from patchset.rewrite import insert_table

    later = [i for i, known in enumerate(upstream.releases) if Version(known) > Version(release.version)]
    lines = [
        f"[[{upstream.name}.release]]",
        f'version = "{release.version}"',
        f"date = {release.date.strftime('%Y-%m-%dT%H:%M:%SZ')}",
        f'sha256 = "{release.sha256}"',
        f"size = {release.size}",
    ]
    return insert_table(text, "\n".join(lines) + "\n", (upstream.name, "release", later[0]) if later else None)
