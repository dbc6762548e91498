"""A lock: what a recipe resolved to, a hash at every step. Written as TOML, the same bytes on every machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from patchset import declared
from patchset.declared import Table
from patchset.errors import DeclarationError, LockError
from patchset.patch import Donor
from patchset.series import Outcome
from patchset.upstream import sha256, version

FORMAT = 3

_HEADER = """\
# What {recipe}.toml resolved to. Written by `inv lock`; do not edit. `inv runtime` makes nothing else than this.
format = {format}
recipe = {recipe_text}
"""


@dataclass(frozen=True)
class LockedPin:
    """The base: which archive (file name, sha256, size in bytes), the commit where it was asked from git, and its tree.

    ``source``, ``repository`` and ``ref`` are what was declared when it was locked: a lock says nothing of another one.
    """

    upstream: str
    release: str
    archive: str
    sha256: str
    size: int
    commit: str | None
    tree: str
    base_commit: str
    source: str
    repository: str
    ref: str


@dataclass(frozen=True)
class LockedPatch:
    """One patch: the digest of what it is at this release, what became of it, and tree and commit after it."""

    id: str
    digest: str
    outcome: Outcome
    tree: str
    commit: str


@dataclass(frozen=True)
class Lock:
    """What a recipe resolved to, and with it every byte of its wheel.

    ``declared`` is the sha256 of what the recipe says beside pin and series and the wheel repeats. ``environments`` maps
    ``build``, ``compiler``, ``writer`` (the libraries that write a wheel's archive and bill of materials) and ``lab`` to the
    sha256 of their requirements.
    """

    recipe: str
    pin: LockedPin
    donors: tuple[Donor, ...]
    patches: tuple[LockedPatch, ...]
    tree: str
    commit: str
    version: str
    declared: str
    environments: tuple[tuple[str, str], ...]

    def text(self) -> str:
        """The lock as TOML."""
        parts = [_HEADER.format(recipe=self.recipe, format=FORMAT, recipe_text=_quote(self.recipe))]
        pin = [
            ("upstream", self.pin.upstream),
            ("release", self.pin.release),
            ("archive", self.pin.archive),
            ("sha256", self.pin.sha256),
            ("size", self.pin.size),
            ("source", self.pin.source),
            ("repository", self.pin.repository),
            ("ref", self.pin.ref),
            ("commit", self.pin.commit),
            ("tree", self.pin.tree),
            ("base-commit", self.pin.base_commit),
        ]
        parts.append(_table("[pin]", pin))
        for donor in self.donors:
            parts.append(
                _table(
                    "[[donor]]",
                    [("release", donor.release), ("path", donor.path), ("sha256", donor.sha256), ("to", donor.to)],
                )
            )
        for patch in self.patches:
            parts.append(
                _table(
                    "[[patch]]",
                    [
                        ("id", patch.id),
                        ("digest", patch.digest),
                        ("outcome", patch.outcome.value),
                        ("tree", patch.tree),
                        ("commit", patch.commit),
                    ],
                )
            )
        result = [
            ("tree", self.tree),
            ("commit", self.commit),
            ("version", self.version),
            ("declared", self.declared),
        ]
        parts.append(_table("[result]", result))
        parts.append(_table("[environments]", list(self.environments)))
        return "\n".join(parts)


def _table(header: str, rows: list[tuple[str, object]]) -> str:
    lines = [
        f"{key} = {value if isinstance(value, int) else _quote(str(value))}" for key, value in rows if value is not None
    ]
    return "\n".join([header, *lines]) + "\n"


def _quote(text: str) -> str:
    if re.search(r'["\\\x00-\x1f\x7f]', text):
        raise DeclarationError(
            f"{text!r} has no place in a lock", next="rename what is called that: no quotes, no backslashes"
        )
    return f'"{text}"'


def read_lock(file: Path) -> Lock | None:
    """The lock in *file*, or None if there is none yet.

    :raises DeclarationError: it is not one, with file and line.
    """
    if not file.exists():
        return None
    lock = _lock(declared.read(file))
    if lock.recipe != file.stem:
        raise DeclarationError(f"this is the lock of {lock.recipe}", where=str(file), next=f"./inv lock -r {file.stem}")
    return lock


def parse_lock(text: str, file: Path) -> Lock:
    """The lock that is *text*, which stands in *file*: a receipt has one in it.

    :raises DeclarationError: it is not one.
    """
    return _lock(declared.parse(text, file))


def _lock(table: Table) -> Lock:
    if table.integer("format") != FORMAT:
        raise table.error(f"this tool reads format {FORMAT}", key="format", next="./inv lock")
    pin = table.table("pin")
    locked_pin = LockedPin(
        pin.text("upstream"),
        pin.parsed("release", version),
        pin.text("archive"),
        pin.parsed("sha256", sha256),
        pin.integer("size"),
        pin.parsed("commit", _object_id) if pin.has("commit") else None,
        pin.parsed("tree", _object_id),
        pin.parsed("base-commit", _object_id),
        pin.text("source"),
        pin.text("repository"),
        pin.text("ref"),
    )
    pin.done()
    result = table.table("result")
    environments = table.table("environments")
    lock = Lock(
        recipe=table.text("recipe"),
        pin=locked_pin,
        donors=tuple(_read_donor(item) for item in table.tables("donor")),
        patches=tuple(_read_patch(item) for item in table.tables("patch")),
        tree=result.parsed("tree", _object_id),
        commit=result.parsed("commit", _object_id),
        version=result.text("version"),
        declared=result.parsed("declared", sha256),
        environments=tuple((name, environments.parsed(name, sha256)) for name in environments.names()),
    )
    for part in (result, environments, table):
        part.done()
    return lock


def _read_donor(table: Table) -> Donor:
    donor = Donor(
        table.parsed("release", version), table.text("path"), table.parsed("sha256", sha256), table.text("to")
    )
    table.done()
    return donor


def _read_patch(table: Table) -> LockedPatch:
    patch = LockedPatch(
        table.text("id"),
        table.parsed("digest", sha256),
        Outcome(table.one_of("outcome", [outcome.value for outcome in Outcome])),
        table.parsed("tree", _object_id),
        table.parsed("commit", _object_id),
    )
    table.done()
    return patch


def _object_id(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{40}", text):
        raise ValueError("not a git object id (40 hexadecimal digits)")
    return text


def differences(old: Lock, new: Lock) -> tuple[str, ...]:
    """What *new* says otherwise than *old*, a line each; none if they agree.

    A commit that only one of them knows is no difference: the archive and the checkout give the same tree.
    """
    if not (old.pin.commit and new.pin.commit):
        old, new = (replace(lock, pin=replace(lock.pin, commit=None)) for lock in (old, new))
    before, after = old.text().splitlines(), new.text().splitlines()
    if before == after:
        return ()
    import difflib

    return tuple(
        line
        for line in difflib.unified_diff(before, after, "locked", "found", lineterm="", n=1)
        if not line.startswith("@@")
    )


def require_same(file: Path, old: Lock, new: Lock) -> None:
    """*new* is what *old*, read from *file*, says.

    :raises LockError: it is not; with the lines that differ.
    """
    found = differences(old, new)
    if found:
        raise LockError(
            f"{file.name} says otherwise than what was found",
            where=str(file),
            detail="\n".join(found),
            next=f"if you changed a patch or the recipe on purpose: ./inv lock -r {old.recipe}; else find out who did",
        )
