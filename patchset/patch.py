"""A patch: one logical change with a reason. A folder with ``patch.toml``, its variants and its probe."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from patchset import declared
from patchset.declared import Table
from patchset.errors import DeclarationError, SeriesError
from patchset.upstream import Upstream, sha256, version

KINDS = ("fix", "backport", "workaround")
PROVED = ("sound", "absent")
STATES = ("open", "merged", "closed")


@dataclass(frozen=True)
class Reference:
    """An issue or pull request that a patch relates to, and the first release that holds its change, if one does."""

    ref: str
    what: str
    state: str
    first_release: str | None


@dataclass(frozen=True)
class Donor:
    """A file taken from another release's archive, byte for byte; it lands at ``to``."""

    release: str
    path: str
    sha256: str
    to: str


@dataclass(frozen=True)
class Present:
    """Evidence that upstream has the change: this line, stripped, stands in this file."""

    file: str
    line: str


@dataclass(frozen=True)
class Absent:
    """Evidence that the feature is not there: no such file, or no such text in it."""

    file: str
    symbol: str | None


@dataclass(frozen=True)
class Variant:
    """What a patch does for a closed range of releases: a diff, donor files, or nothing with the evidence why.

    ``proved``: no line of the tree says that nothing is to be done, only the probe does: it finds the base ``sound`` or the
    feature ``absent``; ``note`` then says what it found.
    """

    name: str
    releases: SpecifierSet
    diff: Path | None
    donors: tuple[Donor, ...]
    upstream: tuple[Present, ...]
    absent: tuple[Absent, ...]
    note: str
    proved: str = ""

    @property
    def changes_tree(self) -> bool:
        """Does it change anything, or only say why nothing is to be changed?"""
        return self.diff is not None or bool(self.donors)


@dataclass(frozen=True)
class Patch:
    """One logical change. ``id`` is the folder's name; ``date`` becomes the date of its commit."""

    id: str
    title: str
    why: str
    kind: str
    date: datetime
    drop_when: str
    requires: tuple[str, ...]
    references: tuple[Reference, ...]
    variants: tuple[Variant, ...]
    probe: Path
    folder: Path

    @property
    def proof(self) -> Path | None:
        """The program beside the probe that shows that the patch is right, if it has one: see :mod:`patchset.patch_proof`."""
        file = self.folder / "proof.py"
        return file if file.is_file() else None

    def covers(self, release: str) -> bool:
        """Has it a variant for *release*?"""
        return any(variant.releases.contains(release, prereleases=True) for variant in self.variants)

    def variant_for(self, release: str) -> Variant:
        """The one variant whose range holds *release*.

        :raises SeriesError: none does.
        """
        for variant in self.variants:
            if variant.releases.contains(release, prereleases=True):
                return variant
        ranges = "; ".join(variant.name for variant in self.variants)
        raise SeriesError(
            f"patch {self.id} has no variant for release {release} (it has: {ranges})",
            where=str(self.folder / "patch.toml"),
            next=f"try the nearest variant on {release}, then add a [[variant]] for it to patch.toml",
        )

    def nearest(self, release: str, releases: Sequence[str]) -> Variant:
        """The variant that covers *release*; else the one nearest to it in *releases*, the older one of two as near.

        :param releases: every known release in ascending order, *release* among them.
        """
        at = list(releases).index(release)

        def distance(variant: Variant) -> tuple[int, bool]:
            covered = [i for i, known in enumerate(releases) if variant.releases.contains(known, prereleases=True)]
            return min(((abs(i - at), i > at) for i in covered), default=(len(releases), True))

        return min(self.variants, key=distance)

    def digest_for(self, release: str) -> str:
        """sha256 of what the patch says, does and proves at *release*.

        What it does at other releases does not count, nor how far the range of its variant reaches: another release that
        is covered changes nothing about this one.
        """
        variant = self.variant_for(release)
        diff = hashlib.sha256(variant.diff.read_bytes()).hexdigest() if variant.diff else None
        content = [
            self.title,
            self.date.isoformat(),
            diff,
            *([asdict(item) for item in part] for part in (variant.donors, variant.upstream, variant.absent)),
            variant.proved,
            variant.note,
            self.kind,
            [asdict(item) for item in self.references],
            hashlib.sha256(self.probe.read_bytes()).hexdigest(),
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def read_patches(folder: Path, upstream: Upstream) -> dict[str, Patch]:
    """Every patch below *folder*: id → :class:`Patch`.

    :raises DeclarationError: with file and line.
    """
    if not folder.is_dir():
        raise DeclarationError("no such folder", where=str(folder), next="git status: restore recipes/patches")
    folders = sorted(item for item in folder.iterdir() if item.is_dir() and not item.name.startswith((".", "__")))
    return {item.name: read_patch(item, upstream) for item in folders}


def read_patch(folder: Path, upstream: Upstream) -> Patch:
    """The patch in *folder*, checked against the releases of *upstream* that are known.

    :raises DeclarationError: with file and line: an unknown key, a missing file, a range that is open, matches no known
        release or overlaps another.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", folder.name):
        raise DeclarationError(
            f"{folder.name!r} is no patch id (lower-case letters, digits, '-' and '.')",
            where=str(folder),
            next="rename the folder",
        )
    table = declared.read(folder / "patch.toml")
    probe = folder / "probe.py"
    if not probe.is_file():
        raise DeclarationError(
            f"patch {folder.name} has no probe",
            where=str(probe),
            next="write one: a patch whose defect nobody can show cannot be told from no patch",
        )
    references = tuple(read_reference(item) for item in table.tables("upstream"))
    variant_tables = table.tables("variant")
    variants = tuple(read_variant(item, folder, upstream) for item in variant_tables)
    patch = Patch(
        folder.name,
        table.text("title"),
        table.text("why"),
        table.one_of("kind", KINDS),
        table.moment("date"),
        table.text("drop-when"),
        table.texts("requires", ()),
        references,
        variants,
        probe,
        folder,
    )
    if not variants:
        raise table.error("no [[variant]]", next="add at least one")
    table.done()
    _check_overlap(variant_tables, variants, upstream)
    _check_unused(table, folder, variants)
    return patch


def read_reference(table: Table) -> Reference:
    """One ``[[upstream]]`` of a patch.toml.

    :raises DeclarationError: with file and line.
    """
    first = table.parsed("first-release", version, "") if table.has("first-release") else None
    reference = Reference(table.text("ref"), table.text("what"), table.one_of("state", STATES), first)
    if not re.match(r"https://[^\s]+\Z", reference.ref):
        raise table.error("ref must be a https URL", key="ref")
    if first and reference.state != "merged":
        raise table.error('first-release only goes with state = "merged"', key="first-release")
    table.done()
    return reference


def read_variant(table: Table, folder: Path, upstream: Upstream) -> Variant:
    """One ``[[variant]]`` of the patch.toml in *folder*, checked against the releases of *upstream* that are known.

    :raises DeclarationError: with file and line.
    """
    ranges = table.parsed("releases", _closed_range)
    if not any(ranges.contains(release) for release in upstream.releases):
        raise table.error(
            f'releases = "{table.text("releases")}" matches no known release of {upstream.name}', key="releases"
        )
    diff = folder / _relative(table, "diff") if table.has("diff") else None
    if diff and not diff.is_file():
        raise table.error(f"{diff.name} is not in {folder.name}/", key="diff")
    variant = Variant(
        name=table.text("releases"),
        releases=ranges,
        diff=diff,
        donors=tuple(_read_donor(item, upstream) for item in table.tables("donors")),
        upstream=tuple(_read_present(item) for item in table.tables("upstream")),
        absent=tuple(_read_absent(item) for item in table.tables("absent")),
        note=table.text("note", ""),
        proved=table.one_of("proved", PROVED) if table.has("proved") else "",
    )
    table.done()
    if not (variant.changes_tree or variant.upstream or variant.absent or variant.proved):
        raise table.error(
            "a variant needs a diff, donors, or evidence (upstream, absent or proved) why nothing is to be changed"
        )
    if not variant.changes_tree and variant.upstream and variant.absent:
        raise table.error("without a diff a variant is either upstream or absent, not both")
    if variant.proved and (variant.changes_tree or variant.upstream or variant.absent):
        raise table.error("proved stands alone: it is for where no line of the tree can be named", key="proved")
    if variant.proved and not variant.note:
        raise table.error("proved needs a note: what the probe found", key="proved")
    return variant


def _closed_range(text: str) -> SpecifierSet:
    try:
        ranges = SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError("not a version specifier") from error
    operators = {specifier.operator for specifier in ranges}
    if not (operators == {"=="} and len(ranges) == 1 and "*" not in text) and not (
        operators == {">=", "<="} and len(ranges) == 2
    ):
        raise ValueError('a range must be closed: "==a" or ">=a,<=b"; an open one claims releases nobody has tried')
    return ranges


def _read_donor(table: Table, upstream: Upstream) -> Donor:
    path = _relative(table, "path")
    donor = Donor(table.parsed("release", version), path, table.parsed("sha256", sha256), _relative(table, "to", path))
    if donor.release not in upstream.releases:
        raise table.error(f"donor release {donor.release} is not known", key="release")
    table.done()
    return donor


def _read_present(table: Table) -> Present:
    present = Present(_relative(table, "file"), table.text("line"))
    if present.line != present.line.strip() or "\n" in present.line:
        raise table.error("line must be one line, stripped", key="line")
    table.done()
    return present


def _read_absent(table: Table) -> Absent:
    absent = Absent(_relative(table, "file"), table.text("symbol") if table.has("symbol") else None)
    table.done()
    return absent


def _relative(table: Table, key: str, default: str | None = None) -> str:
    value = table.text(key, default)
    parts = PurePosixPath(value).parts
    if value.startswith("/") or ".." in parts or ".git" in [part.lower() for part in parts] or "\\" in value:
        raise table.error(f"{key} = {value!r} leaves the tree", key=key)
    return value


def _check_overlap(tables: Sequence[Table], variants: tuple[Variant, ...], upstream: Upstream) -> None:
    for release in upstream.releases:
        holding = [index for index, variant in enumerate(variants) if variant.releases.contains(release)]
        if len(holding) > 1:
            names = "; ".join(variants[index].name for index in holding)
            raise tables[holding[1]].error(f"release {release} is in more than one range: {names}", key="releases")


def _check_unused(table: Table, folder: Path, variants: tuple[Variant, ...]) -> None:
    used = {variant.diff.name for variant in variants if variant.diff}
    for file in sorted(folder.glob("*.patch")):
        if file.name not in used:
            raise table.error(
                f"{file.name} lies in the folder and no variant uses it", next="name it in a [[variant]], or delete it"
            )


def covered(patch: Patch, releases: Mapping[str, object]) -> tuple[str, ...]:
    """Which of *releases* some variant of *patch* covers, ascending."""
    return tuple(
        sorted(
            (release for release in releases if patch.covers(release)),
            key=Version,
        )
    )
