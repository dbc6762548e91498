"""Declarations, edited: TOML text in, TOML text out, with comments and order kept. Pure.

A comment that stands directly above a table belongs to it, and moves and goes with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from patchset.errors import DeclarationError
from patchset.patch import Absent, Donor, Present, Reference, Variant
from patchset.toml_lines import Lines


@dataclass(frozen=True)
class NewVariant:
    """A ``[[variant]]`` to be written: a closed range, and what is done there. ``diff`` is a file name in the folder."""

    releases: str
    diff: str | None = None
    donors: tuple[Donor, ...] = ()
    upstream: tuple[Present, ...] = ()
    absent: tuple[Absent, ...] = ()
    proved: str = ""
    note: str = ""

    @classmethod
    def of(cls, variant: Variant, releases: str) -> NewVariant:
        """What *variant* does, for the range *releases*."""
        diff = variant.diff.name if variant.diff else None
        found = (variant.donors, variant.upstream, variant.absent, variant.proved, variant.note)
        return cls(releases, diff, *found)


# -- patch.toml --------------------------------------------------------------------------------------------------------


def patch_toml(
    title: str,
    kind: str,
    date: datetime,
    why: str,
    drop_when: str,
    requires: Sequence[str] = (),
    references: Sequence[Reference] = (),
    variants: Sequence[NewVariant] = (),
) -> str:
    """A whole ``patch.toml``."""
    head = [
        f"title = {_value(title)}",
        f"kind = {_value(kind)}",
        f"date = {date.strftime('%Y-%m-%dT%H:%M:%SZ')}",
        f"why = {_long(why)}",
        f"drop-when = {_value(drop_when)}",
        f"requires = {_value(list(requires))}",
    ]
    blocks = ["\n".join(head) + "\n", *(_reference(reference) for reference in references)]
    return "\n".join([*blocks, *(_variant(variant) for variant in variants)])


def add_variant(text: str, variant: NewVariant) -> str:
    """*text* with *variant*, in the order of the ranges' lower bounds."""
    ranges = [item["releases"] for item in _read(text).get("variant", [])]
    after = [index for index, releases in enumerate(ranges) if lower_bound(releases) > lower_bound(variant.releases)]
    before = ("variant", after[0]) if after else None
    return insert_table(text, _variant(variant), before)


def set_range(text: str, old: str, new: str) -> str:
    """*text* with the range of the variant *old* set to *new*."""
    return _set(text, ("variant", _variant_index(text, old)), "releases", new)


def set_diff(text: str, releases: str, name: str) -> str:
    """*text* with the diff of the variant *releases* set to the file *name*."""
    return _set(text, ("variant", _variant_index(text, releases)), "diff", name)


def remove_variant(text: str, releases: str) -> str:
    """*text* without the variant *releases* and the comment above it."""
    return _remove(text, ("variant", _variant_index(text, releases)))


def lower_bound(releases: str) -> Version:
    """The lowest release of a closed range such as ``==0.23.0`` or ``>=0.20.0,<=0.23.0``."""
    return min(Version(specifier.version) for specifier in SpecifierSet(releases))


def upper_bound(releases: str) -> Version:
    """The highest release of a closed range."""
    return max(Version(specifier.version) for specifier in SpecifierSet(releases))


def closed_range(lowest: str, highest: str) -> str:
    """The range from *lowest* to *highest*, both in it."""
    return f"=={lowest}" if lowest == highest else f">={lowest},<={highest}"


def _variant_index(text: str, releases: str) -> int:
    ranges = [item["releases"] for item in _read(text).get("variant", [])]
    if releases not in ranges:
        raise DeclarationError(
            f"no variant {releases} (there are: {'; '.join(ranges)})", where="patch.toml", next="./inv lint"
        )
    return ranges.index(releases)


def _variant(variant: NewVariant) -> str:
    lines = ["[[variant]]", f"releases = {_value(variant.releases)}"]
    if variant.diff:
        lines.append(f"diff = {_value(variant.diff)}")
    lists = {
        "donors": [
            {"release": d.release, "path": d.path, "sha256": d.sha256, **({"to": d.to} if d.to != d.path else {})}
            for d in variant.donors
        ],
        "upstream": [{"file": item.file, "line": item.line} for item in variant.upstream],
        "absent": [{"file": a.file, **({"symbol": a.symbol} if a.symbol else {})} for a in variant.absent],
    }
    for key, items in lists.items():
        if items:
            lines += [f"{key} = [", *(f"    {_value(item)}," for item in items), "]"]
    for key, value in (("proved", variant.proved), ("note", variant.note)):
        if value:
            lines.append(f"{key} = {_value(value)}")
    return "\n".join(lines) + "\n"


def _reference(reference: Reference) -> str:
    lines = ["[[upstream]]", f"ref = {_value(reference.ref)}", f"what = {_value(reference.what)}"]
    lines.append(f"state = {_value(reference.state)}")
    if reference.first_release:
        lines.append(f"first-release = {_value(reference.first_release)}")
    return "\n".join(lines) + "\n"


# -- recipes -----------------------------------------------------------------------------------------------------------


def set_pin(text: str, release: str) -> str:
    """*text* with another release; a ``ref`` of the old one goes."""
    if "ref" in _read(text).get("pin", {}):
        text = _set(text, ("pin",), "ref", None)
    return _set(text, ("pin",), "release", release)


def set_series(text: str, patches: Sequence[str]) -> str:
    """*text* with *patches* as its series, in that order."""
    if list(_read(text)["series"]["patches"]) == list(patches):
        return text
    return _set(text, ("series",), "patches", list(patches))


def set_stack(text: str, stack: Mapping[str, str]) -> str:
    """*text* with *stack* in place of its own. A comment above a specifier that changes goes: it was about the old one."""
    have = _read(text).get("stack", {})
    for name in have:
        if have[name] != stack.get(name):
            text = _without_comment(text, ("stack", name))
            text = _set(text, ("stack",), name, stack.get(name))
    for name in stack:
        if name not in have:
            text = _set(text, ("stack",), name, stack[name])
    return text


def set_head(text: str, lines: Sequence[str]) -> str:
    """*text* with *lines* as the comment that it begins with."""
    rest = _lines(text)
    while rest and rest[0].startswith("#"):
        rest.pop(0)
    return "".join([*(f"# {line}\n" for line in lines), *rest])


def _without_comment(text: str, place: tuple[str | int, ...]) -> str:
    """*text* without the comment lines directly above the key at *place*."""
    lines, end = _lines(text), Lines(text).of(place) - 1
    start = end
    while start and lines[start - 1].startswith("#"):
        start -= 1
    return "".join([*lines[:start], *lines[end:]])


def omit(text: str, patch: str, reason: str) -> str:
    """*text* with *patch* left out by name; it is not in its series afterwards."""
    return omit_all(text, [patch], reason)


def omit_all(text: str, patches: Sequence[str], reason: str) -> str:
    """*text* with *patches* left out by name, in one edit: one for each of a thousand would take an hour."""
    series = _read(text)["series"]
    for patch in [item["patch"] for item in series.get("retired", []) if item["patch"] in patches]:
        text = unretire(text, patch)
    text = set_series(text, [name for name in series["patches"] if name not in patches])
    blocks = [f"[[series.omit]]\npatch = {_value(patch)}\nreason = {_value(reason)}\n" for patch in patches]
    return insert_table(text, "\n".join(blocks), _after_series(text))


def unomit(text: str, patch: str) -> str:
    """*text* in which *patch* is not left out by name; where it goes in the series is for the caller to say."""
    return _remove_named(text, "omit", patch)


def retire(text: str, patch: str, reason: str, upstream: str = "", first_release: str | None = None) -> str:
    """*text* with *patch*, which stays in the series, recorded as not needed any more."""
    lines = ["[[series.retired]]", f"patch = {_value(patch)}", f"reason = {_value(reason)}"]
    if upstream:
        lines.append(f"upstream = {_value(upstream)}")
    if first_release:
        lines.append(f"first-release = {_value(first_release)}")
    text = unretire(text, patch)
    return insert_table(text, "\n".join(lines) + "\n", _after_series(text))


def unretire(text: str, patch: str) -> str:
    """*text* in which *patch* is not recorded as retired."""
    return _remove_named(text, "retired", patch)


def _remove_named(text: str, kind: str, patch: str) -> str:
    named = [item["patch"] for item in _read(text)["series"].get(kind, [])]
    return _remove(text, ("series", kind, named.index(patch))) if patch in named else text


def _after_series(text: str) -> tuple[str | int, ...] | None:
    """The first table behind the series and what belongs to it."""
    tables = _tables(text)
    names = [place[0] for place, _ in tables]
    last = max(index for index, name in enumerate(names) if name == "series")
    return tables[last + 1][0] if last + 1 < len(tables) else None


# -- tables of a text --------------------------------------------------------------------------------------------------


def _read(text: str) -> dict[str, Any]:
    import tomlkit

    return tomlkit.parse(text).unwrap()


def _set(text: str, table: tuple[str | int, ...], key: str, value: Any) -> str:
    """*text* with *key* of *table* set to *value*, or without it (None); its comment stays."""
    import tomlkit

    document = tomlkit.parse(text)
    there: Any = document
    for part in table:
        there = there[part]
    if value is None:
        del there[key]
    elif isinstance(value, list):
        there[key] = tomlkit.array().multiline(True)
        there[key].extend(value)
    else:
        there[key] = value
    return tomlkit.dumps(document)


def _tables(text: str) -> list[tuple[tuple[str | int, ...], int]]:
    """(place, line from 0 at which it starts, the comment above it included) of each table that has a header."""
    lines, found = _lines(text), []
    for place, header in Lines(text).headers():
        start = header - 1
        while start > 0 and lines[start - 1].startswith("#"):
            start -= 1
        found.append((place, start))
    return found


def _lines(text: str) -> list[str]:
    """Lines as TOML has them: a form feed or U+2028 ends none."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def insert_table(text: str, block: str, before: tuple[str | int, ...] | None) -> str:
    """*text* with the table *block* before the one at the place *before* (keys and indices); None: at the end."""
    lines = _lines(text)
    at = next((line for place, line in _tables(text) if place == before), len(lines))
    head, tail = "".join(lines[:at]).rstrip("\n"), "".join(lines[at:])
    return f"{head}\n\n{block}" + (f"\n{tail}" if tail else "")


def _remove(text: str, table: tuple[str | int, ...]) -> str:
    lines, tables = _lines(text), _tables(text)
    index = [place for place, _ in tables].index(table)
    end = tables[index + 1][1] if index + 1 < len(tables) else len(lines)
    head, tail = "".join(lines[: tables[index][1]]).rstrip("\n"), "".join(lines[end:])
    return f"{head}\n" + (f"\n{tail}" if tail else "")


# -- values ------------------------------------------------------------------------------------------------------------


def _value(value: Any) -> str:
    import tomlkit

    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    return tomlkit.item(value).as_string()


def _long(text: str) -> str:
    """*text* as a string over several lines, if it has several."""
    if "\n" not in text.strip("\n"):
        return _value(text.strip("\n"))
    escaped = text.strip("\n").replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""\n{escaped}\n"""'
