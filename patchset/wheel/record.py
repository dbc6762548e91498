"""A wheel as members: read with bounds, RECORD made and checked, written so that equal members give equal bytes.

Facts: PEP 427 and the packaging specification "Binary distribution format" (RECORD lists every member but carries no
hash of itself; ``.dist-info`` stands last); zip times start in 1980.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import stat
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset.errors import WheelError

#: Upstream's largest XPU wheel has some 5,000 members and 70 MB; a wheel past these is not one of ours.
MOST_MEMBERS = 50_000
MOST_BYTES = 2 * 1024**3

_ZIP_EPOCH = 315532800
_SPEED = 6


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
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
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


def record_hash(data: bytes) -> str:
    """The hash as RECORD spells it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def record_of(members: Iterable[Member], record_name: str) -> bytes:
    """The RECORD for *members* (whatever they hold under *record_name* is left out, and its own line added last)."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for member in members:
        if member.name != record_name:
            writer.writerow((member.name, record_hash(member.data), len(member.data)))
    writer.writerow((record_name, "", ""))
    return text.getvalue().encode()


def record_faults(members: Sequence[Member], record_name: str) -> list[str]:
    """What RECORD says wrongly about *members*, a sentence each; empty if it is right."""
    by_name = {member.name: member for member in members}
    if record_name not in by_name:
        return [f"{record_name} is missing"]
    try:
        rows = list(csv.reader(io.StringIO(by_name[record_name].data.decode("utf-8"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        return [f"{record_name} is not a CSV file in UTF-8: {error}"]
    faults = []
    listed: set[str] = set()
    for number, row in enumerate(rows, 1):
        if len(row) != 3:
            faults.append(f"{record_name}:{number} has {len(row)} fields, not 3")
            continue
        name = row[0]
        if name in listed:
            faults.append(f"{record_name}:{number} lists {name} again")
        listed.add(name)
        faults += _row_faults(by_name.get(name), row, record_name)
    faults += [f"{name} is not in RECORD" for name in by_name if name not in listed]
    return faults


def _row_faults(member: Member | None, row: Sequence[str], record_name: str) -> list[str]:
    name, digest, size = row
    if member is None:
        return [f"RECORD lists {name}, which is not in the wheel"]
    if name == record_name:
        return [] if not digest and not size else [f"RECORD carries a hash of itself ({name})"]
    if digest != record_hash(member.data) or size != str(len(member.data)):
        return [f"{name} is not what RECORD says (hash or size)"]
    return []


def with_dist_info(members: Sequence[Member], dist_info: str, extra: Mapping[str, bytes]) -> tuple[Member, ...]:
    """*members* with the files *extra* put or replaced in *dist_info* and RECORD remade, in the order of writing."""
    record_name = f"{dist_info}/RECORD"
    added = {f"{dist_info}/{name}": data for name, data in extra.items()}
    kept = [member for member in members if member.name != record_name and member.name not in added]
    kept += [Member(name, data) for name, data in added.items()]
    kept.sort(key=lambda member: (member.name.startswith(f"{dist_info}/"), member.name))
    return (*kept, Member(record_name, record_of(kept, record_name)))


def write_wheel(members: Iterable[Member], target: Path, *, epoch: int) -> None:
    """Write *members*, in this order, as the wheel *target*.

    Times come from *epoch* (SOURCE_DATE_EPOCH), modes are 644 or 755 and compression is fixed, so that nothing of this
    machine is in the bytes. (zlib is: its releases agree, zlib-ng does not.)
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in members:
            archive.writestr(_info(member, epoch), member.data, compresslevel=_SPEED)


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


def _info(member: Member, epoch: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(member.name, time.gmtime(max(epoch, _ZIP_EPOCH))[:6])
    info.create_system = 3
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (stat.S_IFREG | (0o755 if member.executable else 0o644)) << 16
    return info
