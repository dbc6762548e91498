"""vLLM as it is installed: the files that its RECORD lists, those that nothing lists, the tree they make, who else owns them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .bounded import Held, NotPlain, Unread, held, opened, read
from .bytecode import check_bytecode
from .claims import RECORD_FILE, Record
from .content import Content, check_content
from .dist_info import INSTALLERS, stray_names
from .generated import MOST_VERSION, VERSION_FILE, check_modules
from .identity import NAME, check_chain, check_identity
from .model import Check, Finding, Kind, Report, Unusable, few
from .owners import check_foreign, check_owners
from .receipt import agreement, chain_checks, load_receipt, not_run_checks
from .records import Row, spell_hash
from .sbom import check_sboms
from .shadow import check_shadow
from .site import Distribution, distributions, find_site, is_bytecode, listed, normal_path, walk
from .wheel import ON_ITS_WORD, facts_of, record_of

_AGAIN = "python -m pip install --force-reinstall --no-deps WHEEL, with the wheel that was verified"
_MOST_STRANGERS = 1000
#: How far above site-packages an installer puts files: ../../../bin of an environment.
_HIGHEST = 3


@dataclass(frozen=True)
class _Files:
    """The installed files: hashes by path of RECORD's, findings about them, and the paths that are not as they must be."""

    held: Mapping[str, Held]
    findings: tuple[Finding, ...]
    bad: frozenset[str]


@dataclass(frozen=True)
class _Below:
    """What lies below ``vllm``: all paths, those of compiled files, and the hashes of files that no RECORD lists."""

    paths: tuple[str, ...]
    compiled: tuple[str, ...]
    strangers: Mapping[str, Held]


def verify_installed(target: Path, start: Path, receipt: Path | None = None) -> Report:
    """Verify the vllm that is installed at *target* (site-packages, an environment, or the vllm folder).

    :param start: the folder that Python would be started in.
    :param receipt: a receipt that the installed record must agree with.
    :raises Unusable: no vllm is installed there, or the receipt is none.
    """
    site = find_site(target)
    loaded = load_receipt(receipt) if receipt else None
    every = distributions(site)
    mine = [one for one in every if one.name == NAME]
    if not mine:
        raise Unusable(
            "vllm is there without a .dist-info folder, so nothing says what it is", where=str(site), next=_AGAIN
        )
    judged = next((one for one in mine if os.path.isfile(site / one.folder / RECORD_FILE)), mine[0])
    files = _read_files(site, judged)
    info = _texts(site, judged.folder)
    record, reading = record_of(info.get(RECORD_FILE), _AGAIN)
    claimed = {path for one in every for path in one.rows}
    below, listing = _check_strangers(site, claimed)
    checks = [
        _check_one(site, mine),
        Check("RECORD", f"{len(judged.rows)} files", few([*_record_faults(judged), *files.findings])),
        listing,
        check_identity(record, info.get("METADATA"), [(judged.folder, judged.version)], _AGAIN),
        reading,
        _check_dist_info(judged.folder, info),
        check_modules(below.paths, _AGAIN),
        check_bytecode(site, below.compiled),
    ]
    if record:
        content = Content(files.held, below.strangers, files.bad, _version_file(site), _AGAIN)
        checks += _record_checks(record, content, info)
    if loaded and receipt:
        checks += [*chain_checks(loaded, receipt.name), agreement(loaded, record)]
    checks += [check_owners(site, every), check_foreign(every), *check_shadow(site, start)]
    checks.append(_origin(receipt))
    checks += not_run_checks(loaded) if loaded else ()
    return Report("installed", str(site), tuple(checks), facts_of(record))


def _origin(receipt: Path | None) -> Check:
    """What nothing but the installation speaks for: a receipt has the hash of the wheel, not of each file that came of it."""
    if receipt is None:
        return Check("origin", not_run=f"no receipt: {ON_ITS_WORD} rest on the wheel's own word")
    return Check("origin", not_run="METADATA, entry points and generated files rest on the wheel's own word")


def _version_file(site: Path) -> bytes | None:
    try:
        with opened(site / VERSION_FILE) as (stream, _):
            return stream.read(MOST_VERSION + 1)
    except Unread:
        return None


def _record_checks(record: Record, content: Content, info: Mapping[str, bytes]) -> Iterable[Check]:
    yield check_chain(record.run, RECORD_FILE, _AGAIN)
    yield from check_content(record, content)
    yield check_sboms(record, info, _AGAIN)


def _check_one(site: Path, mine: Sequence[Distribution]) -> Check:
    """There is one distribution vllm; two leave open which of them the files are of."""
    folders = [one.folder for one in mine]
    folders += [
        name for name in listed(site) if name.lower().startswith("vllm-") and name.lower().endswith(".egg-info")
    ]
    findings = []
    if len(folders) > 1:
        what = f"vllm is installed {len(folders)} times: {', '.join(folders)}"
        next_step = "python -m pip uninstall vllm until it says that there is none, then install the wheel"
        findings.append(Finding(Kind.OWNERS, folders[-1], what, next_step))
    return Check("one vllm", mine[0].folder, few(findings))


def _record_faults(judged: Distribution) -> Iterable[Finding]:
    name = f"{judged.folder}/RECORD"
    if judged.unread:
        yield Finding(Kind.RECORD, name, f"it cannot be read: {judged.unread}", _AGAIN)
    for fault in judged.faults:
        yield Finding(Kind.RECORD, name, fault, _AGAIN)


# -- what RECORD lists -------------------------------------------------------------------------------------------------


def _read_files(site: Path, judged: Distribution) -> _Files:
    found: dict[str, Held] = {}
    findings: list[Finding] = []
    bad: set[str] = set()
    for path, row in judged.rows.items():
        if path == f"{judged.folder}/RECORD":
            continue
        if is_bytecode(path) and not row.digest:
            continue
        finding, content = _judge(site, path, row)
        findings += [finding] if finding else []
        if path.startswith((f"{judged.folder}/", "../")):
            continue
        if content:
            found[path] = content
        if finding:
            bad.add(path)
    return _Files(found, tuple(findings), frozenset(bad))


def _judge(site: Path, path: str, row: Row) -> tuple[Finding | None, Held | None]:
    if os.path.isabs(path) or path.split("/")[: _HIGHEST + 1].count("..") > _HIGHEST:
        return Finding(Kind.RECORD, path, "RECORD lists a file outside the environment", _AGAIN), None
    place = _place(site, path)
    if not os.path.lexists(place):
        return Finding(Kind.MISSING, path, "RECORD lists it, and it is not there", _AGAIN), None
    try:
        content = held(place)
    except NotPlain as error:
        return Finding(Kind.CHANGED, path, f"it is not what RECORD says: {error}", _AGAIN), None
    except Unread as error:
        return Finding(Kind.UNREAD, path, f"it cannot be read: {error}", _AGAIN), None
    if not row.digest:
        return Finding(Kind.RECORD, path, "RECORD has no hash of it", _AGAIN), content
    if (row.digest, row.size or str(content.size)) != (spell_hash(bytes.fromhex(content.sha256)), str(content.size)):
        return Finding(Kind.CHANGED, path, "its hash or size is not what RECORD says", _AGAIN), content
    return None, content


def _place(site: Path, path: str) -> Path:
    """Where *path* of a RECORD lies. ``pip install --target`` writes ``../../bin`` for what it puts in ``bin``."""
    place = site / path
    if path.startswith("../") and not os.path.lexists(place):
        inside = site / path.replace("../", "")
        return inside if os.path.lexists(inside) else place
    return place


def _texts(site: Path, folder: str) -> dict[str, bytes]:
    """The files of ``.dist-info`` that can be read; RECORD's check tells of the others."""
    texts = {}
    for entry in walk(site, folder):
        try:
            texts[entry.path.removeprefix(f"{folder}/")] = read(site / entry.path) if entry.kind == "file" else b""
        except Unread:
            continue
    return texts


def _check_dist_info(folder: str, info: Mapping[str, bytes]) -> Check:
    what = "a file in .dist-info that neither a vLLM wheel has nor an installer writes"
    findings = [Finding(Kind.UNCLAIMED, f"{folder}/{name}", what, _AGAIN) for name in stray_names(info, INSTALLERS)]
    return Check(".dist-info", f"{len(info)} files", few(findings))


# -- what nothing lists ------------------------------------------------------------------------------------------------


def _check_strangers(site: Path, claimed: set[str]) -> tuple[_Below, Check]:
    """What lies below ``vllm``, and the files there that no RECORD lists."""
    strangers: dict[str, Held] = {}
    findings = []
    paths, compiled = [], []
    if os.path.islink(site / NAME):
        findings.append(Finding(Kind.UNCLAIMED, NAME, "the folder itself is a link, which no installer makes", _AGAIN))
    for entry in walk(site, NAME):
        path = normal_path(entry.path)
        paths.append(path)
        if entry.kind == "unread":
            findings.append(Finding(Kind.UNREAD, path, "the folder cannot be read", _AGAIN))
        elif entry.kind == "too many":
            findings.append(
                Finding(Kind.UNREAD, path, "it holds more files than any vLLM has; not all were looked at", _AGAIN)
            )
        elif entry.kind == "file" and is_bytecode(path):
            compiled.append(path)
        elif path not in claimed:
            findings.append(
                Finding(Kind.UNCLAIMED, path, f"{_noun(entry.kind)} below vllm that no RECORD lists", _AGAIN)
            )
            if entry.kind == "file" and len(strangers) < _MOST_STRANGERS:
                with suppress(Unread):
                    strangers[path] = held(site / entry.path)
    listing = Check("files that no RECORD lists", "none" if not findings else "", few(findings))
    return _Below(tuple(paths), tuple(compiled), strangers), listing


def _noun(kind: str) -> str:
    return {"file": "a file", "folder link": "a link to a folder"}.get(kind, "something that is no plain file")
