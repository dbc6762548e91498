"""What a wheel's ``patchset.json`` and a receipt claim: trees, series, patched files; read strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .bounded import Malformed, Node, is_plain_path, parse_json
from .trees import MODES, Level

RECORD_FILE = "patchset.json"

#: Formats of the record: 1 names the sha256 of patched files only, 2 proves the whole tree.
RECORD_FORMATS = (1, 2)
#: Formats of the receipt: 2 adds what is said of requirements.
RECEIPT_FORMATS = (1, 2)

_OID = "[0-9a-f]{40}"
_SHA256 = "[0-9a-f]{64}"
_WORD = r"[^\s/]{1,200}"
#: Outcomes that change the tree (patchset/outcome.py).
_APPLIED = frozenset({"applies", "merges"})
_BASE = ("upstream", "release", "archive", "sha256", "tree", "commit")
_STEP = ("patch", "title", "outcome", "applied", "evidence", "tree", "commit", "touched", "decision")


@dataclass(frozen=True)
class Step:
    """One patch of the series: what is said to have become of it."""

    patch: str
    outcome: str
    applied: bool
    tree: str
    commit: str
    touched: tuple[str, ...]


@dataclass(frozen=True)
class Touched:
    """A file that the series touched. ``sha256``: None if it was removed. ``base``: blob before, None if it is new.

    ``known``: does the record say what was there before (format 2)?
    """

    sha256: str | None
    base: str | None
    patches: tuple[str, ...]
    known: bool = True


@dataclass(frozen=True)
class Proof:
    """What makes the tree's id out of the members: see :mod:`patchset.wheel.tree_proof`, which writes it."""

    rest: Mapping[str, Level]
    executable: frozenset[str]


@dataclass(frozen=True)
class Run:
    """What record and receipt have in common. ``compared``: all of it that must be equal in both, by name."""

    version: str
    base_release: str
    base_tree: str
    base_commit: str
    tree: str
    commit: str
    series: tuple[Step, ...]
    omitted: tuple[str, ...]
    compared: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Record:
    """The record inside a wheel. ``generated``: member → sha256. ``proof``: None before format 2."""

    run: Run
    wheel_version: str
    wheel_tree: str
    files: Mapping[str, Touched]
    generated: Mapping[str, str]
    proof: Proof | None


@dataclass(frozen=True)
class Receipt:
    """A receipt. ``not_run``: (what, why). ``lock_text``: the lock as it stood on the disk."""

    run: Run
    wheel_name: str
    wheel_sha256: str
    wheel_size: int
    not_run: tuple[tuple[str, str], ...]
    lock_text: str


def read_record(data: bytes) -> Record:
    """The record *data*.

    :raises Malformed: it is not one, or of a format that is not known here.
    """
    node = Node(parse_json(data))
    number = _format(node, RECORD_FORMATS)
    wheel = node["wheel"]
    run = _run(node)
    return Record(
        run=run,
        wheel_version=wheel["version"].text(_WORD),
        wheel_tree=wheel["tree"].text(_OID),
        files={_path(path, value): _touched(value, path, run, number) for path, value in wheel["files"].items()},
        generated={
            _path(path, value): value.text(_SHA256)
            for path, value in wheel["generated" if number > 1 else "native"].items()
        },
        proof=_proof(wheel["proof"]) if number > 1 else None,
    )


def read_receipt(data: bytes) -> Receipt:
    """The receipt *data*.

    :raises Malformed: it is not one, or of a format that is not known here.
    """
    node = Node(parse_json(data))
    _format(node, RECEIPT_FORMATS)
    wheel = node["wheel"]
    name = wheel["name"].text(r"vllm-[^/]{1,250}\.whl")
    if not is_plain_path(name):
        raise Malformed(f"wheel.name is {name[:80]!r}, not the name of a file")
    return Receipt(
        run=_run(node),
        wheel_name=name,
        wheel_sha256=wheel["sha256"].text(_SHA256),
        wheel_size=wheel["size"].number(),
        not_run=tuple((item["what"].text(), item["why"].text()) for item in node["not_run"].list()),
        lock_text=node["lock"]["text"].text(),
    )


def _format(node: Node, known: tuple[int, ...]) -> int:
    number = node["format"].number()
    if number not in known:
        raise Malformed(f"format is {number}; this verifier knows {' and '.join(map(str, known))}")
    return number


def _run(node: Node) -> Run:
    base = node["base"]
    series = tuple(_step(step) for step in node["series"].list())
    omitted = tuple(item["patch"].text(_WORD) for item in node["omitted"].list())
    if len({*omitted, *(step.patch for step in series)}) != len(omitted) + len(series):
        raise Malformed("series and omitted name a patch twice")
    return Run(
        version=node["runtime"].text(_WORD),
        base_release=base["release"].text(),
        base_tree=base["tree"].text(_OID),
        base_commit=base["commit"].text(_OID),
        tree=node["tree"].text(_OID),
        commit=node["commit"].text(_OID),
        series=series,
        omitted=omitted,
        compared={
            "recipe": node["recipe"].text(),
            "runtime": node["runtime"].value,
            "stack": {name: value.text() for name, value in node["stack"].items()},
            "base": {key: base[key].text() for key in _BASE},
            "series": [_comparable(step) for step in node["series"].list()],
            "omitted": [
                {key: item[key].text() for key in ("patch", "reason", "probe")} for item in node["omitted"].list()
            ],
            "tree": node["tree"].value,
            "commit": node["commit"].value,
        },
    )


def _step(node: Node) -> Step:
    outcome, applied = node["outcome"].text("[a-z]+"), node["applied"].flag()
    if applied != (outcome in _APPLIED):
        raise Malformed(f"{node.place} says applied {str(applied).lower()} with the outcome {outcome}")
    return Step(
        patch=node["patch"].text(_WORD),
        outcome=outcome,
        applied=applied,
        tree=node["tree"].text(_OID),
        commit=node["commit"].text(_OID),
        touched=tuple(path.path() for path in node["touched"].list()),
    )


def _comparable(node: Node) -> dict[str, Any]:
    probe = node["probe"]
    return {
        **{key: node[key].value for key in _STEP},
        "probe": {key: probe[key].text() for key in ("base", "patched")},
    }


def _path(path: str, node: Node) -> str:
    if not is_plain_path(path):
        raise Malformed(f"{node.place[:100]} is not a plain relative path")
    return path


def _touched(node: Node, path: str, run: Run, number: int) -> Touched:
    if number == 1:
        patches = tuple(step.patch for step in run.series if step.applied and path in step.touched)
        return Touched(node.or_null(lambda value: value.text(_SHA256)), None, patches, known=False)
    return Touched(
        node["sha256"].or_null(lambda value: value.text(_SHA256)),
        node["base"].or_null(lambda value: value.text(_OID)),
        tuple(patch.text(_WORD) for patch in node["patches"].list()),
    )


def _proof(node: Node) -> Proof:
    rest = {}
    for directory, entries in node["rest"].items():
        if directory and not is_plain_path(directory):
            raise Malformed(f"{entries.place[:100]} is not a plain relative path")
        level = dict(_entry(entry) for entry in entries.list())
        if len(level) != len(entries.list()):
            raise Malformed(f"{entries.place} has a name twice")
        rest[directory] = level
    return Proof(rest, frozenset(path.path() for path in node["executable"].list()))


def _entry(node: Node) -> tuple[str, tuple[str, str]]:
    fields = node.list()
    if len(fields) != 3:
        raise Malformed(f"{node.place} has {len(fields)} fields, not 3")
    mode, name, oid = fields
    if mode.text() not in MODES:
        raise Malformed(f"{mode.place} is no mode of git")
    return name.text(r"[^/\0]+"), (mode.text(), oid.text(_OID))


def same_version(one: str, other: str) -> bool:
    """Are the versions equal? Builds write a local part of digits only without its zeros in front (PEP 440)."""
    return _normal(one) == _normal(other)


def short_tree(version: str) -> str:
    """The last part of a version's local label, which stands for the tree; '' if there is none."""
    local = version.partition("+")[2]
    return re.split("[-_.]", local)[-1].lower()


def _normal(version: str) -> tuple[str, ...]:
    return tuple(part.lstrip("0") or "0" if part.isdigit() else part for part in re.split("[-_.+]", version.lower()))
