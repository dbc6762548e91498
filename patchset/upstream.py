"""The projects that are patched, and their known releases: ``vendor/upstreams.toml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from patchset import declared
from patchset.declared import Table
from patchset.errors import DeclarationError


@dataclass(frozen=True)
class Release:
    """One release: its version, when it was made, and sha256 and size (bytes) of its source archive."""

    version: str
    date: datetime
    sha256: str
    size: int


@dataclass(frozen=True)
class Wheel:
    """One binary wheel on the package index: version, file name, sha256 and size (bytes)."""

    version: str
    file: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Upstream:
    """One upstream.

    ``repository`` is a git URL and ``tag`` the tag's name with ``{release}`` in it. ``wheels`` are those that are known
    by their hash, version → wheel, of an upstream that is not built here.
    """

    name: str
    distribution: str
    repository: str
    tag: str
    releases: Mapping[str, Release]
    wheels: Mapping[str, Wheel] = field(default_factory=dict)

    def release(self, version: str) -> Release:
        """The known release *version*.

        :raises DeclarationError: it is not in vendor/upstreams.toml.
        """
        if version not in self.releases:
            raise DeclarationError(
                f"release {version} of {self.name} is not known (known: {', '.join(self.releases)})",
                where="vendor/upstreams.toml",
                next=f"./inv releases --add {version}" if _is_version(version) else "./inv releases: name one of these",
            )
        return self.releases[version]


def _is_version(text: str) -> bool:
    try:
        return bool(Version(text))
    except InvalidVersion:
        return False


def wheel_file(text: str) -> str:
    """*text* if it is the file name of a wheel; else ValueError."""
    try:
        parse_wheel_filename(text)
    except InvalidWheelFilename:
        raise ValueError("not the file name of a wheel") from None
    return text


def sha256(text: str) -> str:
    """*text* if it is a sha256 in hexadecimal; else ValueError."""
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError("not a sha256 (64 hexadecimal digits, lower case)")
    return text


def version(text: str) -> str:
    """*text* if it is a version in normal form; else ValueError."""
    try:
        if str(Version(text)) == text:
            return text
    except InvalidVersion:
        pass
    raise ValueError("not a version in normal form, such as 0.23.0")


def read_upstreams(file: Path) -> dict[str, Upstream]:
    """name → :class:`Upstream`, from *file*, releases in ascending order.

    :raises DeclarationError: with file and line.
    """
    top = declared.read(file)
    found = {}
    for name in top.names():
        table = top.table(name)
        releases = {}
        for item in table.tables("release"):
            release = Release(
                item.parsed("version", version),
                item.moment("date"),
                item.parsed("sha256", sha256),
                item.integer("size"),
            )
            item.done()
            if release.version in releases:
                raise item.error(f"release {release.version} is listed twice", key="version")
            releases[release.version] = release
        wheels = _wheels(table)
        ordered = dict(sorted(releases.items(), key=lambda pair: Version(pair[0])))
        found[name] = Upstream(
            name, table.text("distribution"), table.text("repository"), table.text("tag"), ordered, wheels
        )
        if re.sub(r"\{release\}", "", found[name].tag, count=1).count("{") or "{release}" not in found[name].tag:
            raise table.error("tag must contain {release} once, and no other braces", key="tag")
        table.done()
    if "vllm" not in found:
        raise top.error("there is no [vllm]", next="git checkout vendor/upstreams.toml")
    return found


def _wheels(table: Table) -> dict[str, Wheel]:
    found: dict[str, Wheel] = {}
    for item in table.tables("wheel"):
        wheel = Wheel(
            item.parsed("version", version),
            item.parsed("file", wheel_file),
            item.parsed("sha256", sha256),
            item.integer("size"),
        )
        item.done()
        name, stated = parse_wheel_filename(wheel.file)[:2]
        if wheel.version in found:
            raise item.error(f"wheel {wheel.version} is listed twice", key="version")
        if (name, str(stated)) != (canonicalize_name(table.text("distribution")), wheel.version):
            raise item.error(f"file is no wheel of {table.text('distribution')} {wheel.version}", key="file")
        found[wheel.version] = wheel
    return dict(sorted(found.items(), key=lambda pair: Version(pair[0])))
