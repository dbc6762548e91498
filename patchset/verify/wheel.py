"""A wheel: its archive, RECORD, record and tree, and what lies beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .archive import Archive, read_archive
from .beside import STATEMENT, check_beside
from .bounded import Held, Malformed
from .claims import RECORD_FILE, Record, read_record
from .content import Content, check_content
from .dist_info import stray_names
from .generated import check_modules
from .identity import check_chain, check_identity, check_tags
from .model import Check, Finding, Kind, Report, few
from .records import Row, read_rows, spell_hash
from .sbom import check_sboms

#: What neither the tree nor the version proves.
ON_ITS_WORD = "METADATA, entry points, generated files and the stack and compiler that it names"

_AGAIN = "copy the wheel again from where it was made, or make it again with ./inv runtime"


@dataclass(frozen=True)
class WheelReading:
    """A wheel, judged by itself. ``record``: None if it has none that can be read. ``sha256``, ``size``: of the file."""

    checks: tuple[Check, ...]
    record: Record | None
    sha256: str
    size: int
    safe: bool


def verify_wheel(path: Path) -> Report:
    """Verify the wheel *path* by what is in it and beside it.

    :raises Unusable: it is no zip file.
    """
    reading = read_wheel(path)
    return Report("wheel", str(path), (*reading.checks, *_origin(path)), facts_of(reading.record, reading.sha256))


def _origin(wheel: Path) -> Iterable[Check]:
    """That nothing but the wheel speaks for what no tree has, if it is so."""
    if not any(os.path.lexists(wheel.with_name(wheel.name + suffix)) for suffix in (".sha256", STATEMENT)):
        yield Check("origin", not_run=f"no receipt: {ON_ITS_WORD} rest on the wheel's own word")


def facts_of(record: Record | None, sha256: str = "") -> tuple[tuple[str, str], ...]:
    """What a report says first."""
    facts = [("sha256", sha256)] if sha256 else []
    if record:
        applied = [step.patch for step in record.run.series if step.applied]
        facts += [("version", record.run.version), ("tree", record.run.tree), ("patches", " ".join(applied) or "none")]
    return tuple(facts)


def read_wheel(path: Path) -> WheelReading:
    """Read and judge the wheel *path*.

    :raises Unusable: it is no zip file.
    """
    archive = read_archive(path)
    if archive.unsafe:
        why = "the archive is not safe to read"
        checks = (
            Check("archive", findings=archive.unsafe),
            *check_beside(path, archive.sha256),
            Check("everything in it", not_run=why),
        )
        return WheelReading(checks, None, archive.sha256, archive.size, False)
    listing, bad, strangers = _check_record(archive)
    record, reading = record_of(archive.info.get(RECORD_FILE), _AGAIN)
    checks = [
        *check_beside(path, archive.sha256, record.run.tree if record else ""),
        listing,
        check_identity(record, archive.info.get("METADATA"), _names(path, archive), _AGAIN),
        check_tags(archive.info.get("WHEEL"), path.name, _AGAIN),
        reading,
        _check_dist_info(archive),
        check_modules(archive.held.keys() | archive.damaged.keys(), _AGAIN),
    ]
    if record:
        files = {name: found for name, found in archive.held.items() if not name.startswith(f"{archive.dist_info}/")}
        content = Content(
            held={name: found for name, found in files.items() if name not in strangers},
            strangers={name: found for name, found in files.items() if name in strangers},
            bad=frozenset(name for name in bad if not name.startswith(f"{archive.dist_info}/")),
            version_file=archive.version_file,
            again=_AGAIN,
        )
        checks += [
            check_chain(record.run, RECORD_FILE, _AGAIN),
            *check_content(record, content),
            check_sboms(record, archive.info, _AGAIN),
        ]
    return WheelReading(tuple(checks), record, archive.sha256, archive.size, True)


def record_of(data: bytes | None, again: str) -> tuple[Record | None, Check]:
    """The record in ``patchset.json``, and the check that there is one."""
    what = RECORD_FILE
    if data is None:
        missing = "it is not there: no wheel of this project, or its record was taken out"
        return None, Check(what, "", (Finding(Kind.UNPROVED, what, missing, again),))
    try:
        record = read_record(data)
    except Malformed as error:
        return None, Check(what, "", (Finding(Kind.RECORD, what, f"it is not a record: {error}", again),))
    return record, Check(what, f"{len(record.run.series)} patches in the series, {len(record.run.omitted)} left out")


def _check_record(archive: Archive) -> tuple[Check, set[str], set[str]]:
    """RECORD against the members, both ways; with the members that it proves wrong, and those that it does not list."""
    if not archive.dist_info:
        what = "the archive has no .dist-info folder, or more than one"
        return Check("RECORD", findings=(Finding(Kind.RECORD, "", what, _AGAIN),)), set(), set()
    name = f"{archive.dist_info}/RECORD"
    findings = [
        Finding(Kind.CHANGED, path, f"it cannot be unpacked: {why}", _AGAIN) for path, why in archive.damaged.items()
    ]
    bad = set(archive.damaged)
    data = archive.info.get("RECORD")
    if data is None:
        if name not in bad:
            findings.append(Finding(Kind.MISSING, name, "it is not there", _AGAIN))
        return Check("RECORD", findings=few(findings)), bad, set()
    rows, faults = read_rows(data, name)
    findings += [Finding(Kind.RECORD, name, fault, _AGAIN) for fault in faults]
    for row in rows:
        if row.path not in bad:
            for kind, what in _row_faults(row, archive.held.get(row.path), name):
                findings.append(Finding(kind, row.path, what, _AGAIN))
                bad.add(row.path)
    listed = {row.path for row in rows}
    strangers = archive.held.keys() - listed
    findings += [
        Finding(Kind.UNCLAIMED, path, "it is in the wheel, and RECORD does not list it", _AGAIN)
        for path in sorted(strangers)
    ]
    return Check("RECORD", f"{len(rows)} files, both ways", few(findings)), bad, set(strangers)


def _row_faults(row: Row, found: Held | None, name: str) -> Iterable[tuple[Kind, str]]:
    if found is None:
        yield Kind.MISSING, "RECORD lists it, and it is not in the wheel"
    elif row.path == name:
        if row.digest or row.size:
            yield Kind.RECORD, "it carries a hash of itself"
    elif (row.digest, row.size) != (spell_hash(bytes.fromhex(found.sha256)), str(found.size)):
        yield Kind.CHANGED, "its hash or size is not what RECORD says"


def _names(path: Path, archive: Archive) -> list[tuple[str, str]]:
    from_folder = archive.dist_info.removesuffix(".dist-info").partition("-")[2]
    parts = path.name.removesuffix(".whl").split("-")
    from_file = parts[1] if len(parts) in (5, 6) and parts[0] == "vllm" else f"none (the file is called {path.name})"
    return [("the file name", from_file), *([(archive.dist_info, from_folder)] if archive.dist_info else [])]


def _check_dist_info(archive: Archive) -> Check:
    what = "a file in .dist-info that no vLLM wheel has"
    findings = [
        Finding(Kind.UNCLAIMED, f"{archive.dist_info}/{name}", what, _AGAIN) for name in stray_names(archive.info, ())
    ]
    return Check(".dist-info", f"{len(archive.info)} files", few(findings))
