"""A wheel as members: read with bounds, its RECORD checked, put where it belongs.

Facts: PEP 427 and the packaging specification "Binary distribution format" (RECORD lists every member but carries no
hash of itself).
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset.errors import WheelError
from patchset.verify.archive import DAMAGE
from patchset.verify.records import Row, read_rows, spell_hash

#: Upstream's largest XPU wheel has some 5,000 members and 70 MB; a wheel past these is not one of ours.
MOST_MEMBERS = 50_000
MOST_BYTES = 2 * 1024**3


@dataclass(frozen=True)
class Member:
    """One file of a wheel. ``executable`` is all of its mode that survives an installation."""

    name: str
    data: bytes
    executable: bool = False


def read_members(path: Path) -> tuple[Member, ...]:
    """Every file of the wheel *path*, in the order of the archive.

    :raises WheelError: not a zip file, damaged, too big, a name that could leave the target folder, or two of one name.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
            _refuse_unsafe(infos, path)
            return tuple(
                Member(info.filename, archive.read(info), bool(info.external_attr >> 16 & 0o111)) for info in infos
            )
    except DAMAGE as error:
        raise WheelError(
            f"the wheel cannot be read: {error}", where=str(path), next=f"delete {path} and build it again"
        ) from error


def _refuse_unsafe(infos: Sequence[zipfile.ZipInfo], path: Path) -> None:
    def refuse(what: str) -> WheelError:
        return WheelError(what, where=str(path), next="do not install this wheel; build it again from the recipe")

    if len(infos) > MOST_MEMBERS or sum(info.file_size for info in infos) > MOST_BYTES:
        raise refuse(f"the wheel has over {MOST_MEMBERS} members or unpacks to over {MOST_BYTES} bytes")
    seen: set[str] = set()
    for info in infos:
        parts = info.filename.split("/")
        if "\\" in info.filename or ":" in info.filename or not all(parts) or {".", ".."} & set(parts):
            raise refuse(f"the member name {info.filename!r} is not a plain relative path")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise refuse(f"the member {info.filename!r} is a link")
        if info.filename in seen:
            raise refuse(f"the member {info.filename!r} is there twice")
        seen.add(info.filename)


def record_faults(members: Sequence[Member], record_name: str) -> list[str]:
    """What RECORD says wrongly about *members*, a sentence each; empty if it is right."""
    by_name = {member.name: member for member in members}
    if record_name not in by_name:
        return [f"{record_name} is missing"]
    rows, faults = read_rows(by_name[record_name].data, record_name)
    listed = {row.path for row in rows}
    return [
        *faults,
        *(fault for row in rows for fault in _row_faults(by_name.get(row.path), row, record_name)),
        *(f"{name} is not in RECORD" for name in by_name if name not in listed),
    ]


def _row_faults(member: Member | None, row: Row, record_name: str) -> list[str]:
    if member is None:
        return [f"RECORD lists {row.path}, which is not in the wheel"]
    if row.path == record_name:
        return [] if not row.digest and not row.size else [f"RECORD carries a hash of itself ({row.path})"]
    if row.digest != spell_hash(hashlib.sha256(member.data).digest()) or row.size != str(len(member.data)):
        return [f"{row.path} is not what RECORD says (hash or size)"]
    return []


def publish(wheel: Path, out: Path) -> Path:
    """Copy the file *wheel* into the folder *out*, complete or not at all, and return where it is."""
    out.mkdir(parents=True, exist_ok=True)
    target = out / wheel.name
    handle, name = tempfile.mkstemp(prefix=f".{wheel.name}.", suffix=".part", dir=out)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(wheel.read_bytes())
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
    folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return target
