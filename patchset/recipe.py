"""A recipe: pin + series + the stack it is built for + wheel label + smoke set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from patchset import declared
from patchset.declared import Table
from patchset.errors import DeclarationError
from patchset.patch import Patch
from patchset.smoke.catalogue import set_names
from patchset.upstream import Upstream, version

SOURCES = ("auto", "archive", "checkout")
LANES = ("interpret", "spirv", "native", "device")


@dataclass(frozen=True)
class PinDeclaration:
    """Which upstream state a recipe asks for; the lock says what it is.

    ``repository`` is a git URL, local path or bundle in place of the upstream's own; ``ref`` the tag, branch or commit
    there. Both are only looked at when the source is, or falls back to, ``checkout``.
    """

    upstream: str
    release: str
    source: str
    repository: str
    ref: str


@dataclass(frozen=True)
class Omitted:
    """A patch that is deliberately not in the series, and why."""

    patch: str
    reason: str


@dataclass(frozen=True)
class Retired:
    """A patch of the series that is not needed any more, and why; it must turn out so in every run.

    ``upstream`` is the reference that made it unneeded (empty: none is known), ``first_release`` the first with it.
    """

    patch: str
    reason: str
    upstream: str
    first_release: str | None


@dataclass(frozen=True)
class Recipe:
    """What a runtime is made of. ``name`` is the file's stem; ``stack`` maps a distribution to its specifier."""

    name: str
    file: Path
    pin: PinDeclaration
    series: tuple[str, ...]
    omitted: tuple[Omitted, ...]
    retired: tuple[Retired, ...]
    stack: Mapping[str, str]
    label: str
    rust: bool
    lanes: tuple[str, ...]
    smoke_set: str


def read_recipe(file: Path, upstreams: Mapping[str, Upstream], patches: Mapping[str, Patch]) -> Recipe:
    """The recipe in *file*, checked against the known upstreams and patches.

    Every patch under ``recipes/patches`` must be in the series or be omitted with a reason: a patch that is forgotten
    shows as nothing at all, until a request fails on the card.

    :raises DeclarationError: with file and line.
    """
    table = declared.read(file)
    pin = _read_pin(table.table("pin"), upstreams)
    series_table = table.table("series")
    series = series_table.texts("patches")
    omitted = tuple(_read_omitted(item, patches) for item in series_table.tables("omit"))
    retired = tuple(_read_retired(item, series) for item in series_table.tables("retired"))
    series_table.done()
    _check_series(series_table, series, omitted, retired, patches)
    wheel = table.table("wheel")
    label = wheel.text("label")
    if not re.fullmatch(r"[a-z0-9]+(\.[a-z0-9]+)*", label):
        raise wheel.error(
            "label becomes part of a local version: lower-case letters and digits, parted by dots", key="label"
        )
    rust = wheel.boolean("rust", False)
    wheel.done()
    smoke = table.table("smoke", {})
    lanes = smoke.texts("lanes", ("interpret",))
    if not lanes or len(set(lanes)) != len(lanes):
        raise smoke.error(
            "lanes names no lane, or one twice: a runtime whose kernels nobody ran proves nothing", key="lanes"
        )
    for lane in lanes:
        if lane not in LANES:
            raise smoke.error(f"lane {lane!r} is none of {', '.join(LANES)}", key="lanes")
    smoke_set = smoke.one_of("set", set_names(), "mission")
    smoke.done()
    stack = _read_stack(table.table("stack"))
    table.done()
    return Recipe(file.stem, file, pin, series, omitted, retired, stack, label, rust, lanes, smoke_set)


def _read_pin(table: Table, upstreams: Mapping[str, Upstream]) -> PinDeclaration:
    name = table.one_of("upstream", tuple(upstreams))
    upstream = upstreams[name]
    release = table.parsed("release", version)
    if release not in upstream.releases:
        raise table.error(
            f"release {release} of {name} is not known",
            key="release",
            next=f"./inv releases --add {release}",
        )
    pin = PinDeclaration(
        name,
        release,
        table.one_of("source", SOURCES, "auto"),
        table.text("repository", upstream.repository),
        table.text("ref", upstream.tag.replace("{release}", release)),
    )
    table.done()
    return pin


def _read_omitted(table: Table, patches: Mapping[str, Patch]) -> Omitted:
    omitted = Omitted(table.one_of("patch", tuple(patches)), table.text("reason"))
    table.done()
    return omitted


def _read_retired(table: Table, series: tuple[str, ...]) -> Retired:
    retired = Retired(
        table.one_of("patch", series),
        table.text("reason"),
        table.text("upstream", ""),
        table.parsed("first-release", version) if table.has("first-release") else None,
    )
    table.done()
    return retired


def _check_series(
    table: Table,
    series: tuple[str, ...],
    omitted: tuple[Omitted, ...],
    retired: tuple[Retired, ...],
    patches: Mapping[str, Patch],
) -> None:
    named = [*series, *(item.patch for item in omitted)]
    for index, patch in enumerate(series):
        if patch not in patches:
            raise table.error(
                f"patch {patch!r} is not under recipes/patches (there: {', '.join(patches)})", key="patches", item=index
            )
        for needed in patches[patch].requires:
            if needed not in series[:index]:
                raise table.error(
                    f"patch {patch!r} requires {needed!r} earlier in the series", key="patches", item=index
                )
        if patch in series[:index] or patch in [item.patch for item in omitted]:
            raise table.error(f"patch {patch!r} is listed twice", key="patches", item=index)
    for index, item in enumerate(retired):
        if item.patch in [other.patch for other in retired[:index]]:
            raise table.error(f"patch {item.patch!r} is retired twice", key="retired", item=index)
    for index, item in enumerate(omitted):
        if item.patch in [other.patch for other in omitted[:index]]:
            raise table.error(f"patch {item.patch!r} is left out twice", key="omit", item=index)
    for patch in patches:
        if patch not in named:
            raise table.error(
                f"patch {patch!r} is under recipes/patches and this series does not list it",
                key="patches",
                next=f'add it to patches, or leave it out by name: [[series.omit]] patch = "{patch}", reason = "…"',
            )


def _read_stack(table: Table) -> Mapping[str, str]:
    stack = {}
    for name in table.names():
        value = table.text(name)
        try:
            SpecifierSet(value)
        except InvalidSpecifier as error:
            raise table.error(f"{name} = {value!r} is not a version specifier", key=name) from error
        stack[name] = value
    table.done()
    return stack


def recipe_file(folder: Path, name: str) -> Path:
    """The file of the recipe called *name*: ``b70-0.23``, or a path to a .toml file.

    :raises DeclarationError: there is none; names those that are.
    """
    file = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    if not file.is_file():
        known = ", ".join(sorted(item.stem for item in folder.glob("*.toml")))
        raise DeclarationError(
            f"no recipe {name!r} (there are: {known})", where=str(file), next="./inv runtime -r NAME"
        )
    return file
