"""What a verification says: checks, findings, and one exit code.

Frozen and of the standard library only, as all of this package: it also runs as one file on a host that has nothing
else of this project.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

#: The command line or the target cannot be used at all; nothing was verified.
USAGE = 2

#: Findings of one check that are told one by one; the rest is counted.
MOST_FINDINGS = 100

FORMAT = 1


class Kind(Enum):
    """A kind of finding: its name, its exit code, what it is and why it matters. The highest code is the gravest."""

    UNPROVED = (
        "unproved",
        20,
        "a record, a proof or a wheel that must be there is not",
        "what should prove it is not there, so it may be anything",
    )
    UNREAD = (
        "unread",
        21,
        "a file or folder cannot be read, or a document beside the wheel is malformed",
        "what could not be read was not verified",
    )
    UNCLAIMED = (
        "unclaimed",
        22,
        "a file that no RECORD, tree or build knows",
        "nothing that was built or installed put it there, and Python can load it all the same",
    )
    OWNERS = (
        "owners",
        23,
        "two distributions claim one file with different content, or vllm is installed twice",
        "which of them is on the disk depends on the order in which they were installed",
    )
    MISSING = (
        "missing",
        24,
        "a file that is claimed is not there",
        "what needs it fails, or falls back to something else in silence",
    )
    CHANGED = (
        "changed",
        25,
        "a file is not what RECORD or the record of the build says, or cannot be unpacked",
        "it is damaged, or was edited after it was made",
    )
    RECORD = (
        "record",
        26,
        "RECORD or patchset.json is not sound itself",
        "a list of files that is not sound itself proves none of them",
    )
    IDENTITY = (
        "identity",
        27,
        "file name, METADATA, record and tree are not of one version",
        "it is not the version that it is called",
    )
    CHAIN = (
        "chain",
        28,
        "receipt, record, sha256 file, attestation or bill of materials disagree, or the trees of a series do",
        "one of the two is of another run, or was edited",
    )
    TREE = (
        "tree",
        29,
        "the files do not make the id of the patched tree",
        "the sources in it are not those that the version stands for",
    )
    PATCHED = (
        "patched",
        30,
        "a file that the series touched is neither what the patches make of it nor the base's",
        "the patch that was proved is not the one that is in it",
    )
    NOT_APPLIED = (
        "not-applied",
        31,
        "a patch is claimed, and its file is the base's",
        "the defect is still there, though everything says that it is gone",
    )
    SHADOW = (
        "shadow",
        32,
        "Python would import another vllm first",
        "Python may run that copy, and nothing of what was verified",
    )
    UNSAFE = (
        "unsafe",
        33,
        "the archive is a bomb, or has links, doubles or names that leave the folder",
        "unpacking it can write anywhere, or fill memory and disk",
    )

    def __init__(self, label: str, code: int, meaning: str, why: str) -> None:
        self.label = label
        self.code = code
        self.meaning = meaning
        self.why = why


def exit_codes() -> dict[str, tuple[int, str]]:
    """Kind → (exit code, what it is), least grave first."""
    return {kind.label: (kind.code, kind.meaning) for kind in Kind}


@dataclass(frozen=True)
class Finding:
    """Something that is not as it must be: which file (or nothing), what, and the next command."""

    kind: Kind
    path: str
    what: str
    next: str

    def as_dict(self) -> dict[str, object]:
        """The finding for ``--json``."""
        return {
            "kind": self.kind.label,
            "exit_code": self.kind.code,
            "path": self.path,
            "what": self.what,
            "why": self.kind.why,
            "next": self.next,
        }


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``not_run``: why it was not, or not wholly; it then never counts as verified."""

    what: str
    note: str = ""
    findings: tuple[Finding, ...] = ()
    not_run: str = ""

    @property
    def state(self) -> str:
        """`failed`, `not run`, `partly` (what it could look at is good) or `ok`."""
        if self.findings:
            return "failed"
        if self.not_run:
            return "partly" if self.note else "not run"
        return "ok"

    def as_dict(self) -> dict[str, object]:
        """The check for ``--json``."""
        return {"what": self.what, "state": self.state, "note": self.note, "not_run": self.not_run}


@dataclass(frozen=True)
class Report:
    """All that was found. ``subject``: wheel, receipt or installation. ``facts``: what it says of itself, as (name, text)."""

    subject: str
    target: str
    checks: tuple[Check, ...]
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding, the gravest first."""
        found = [finding for check in self.checks for finding in check.findings]
        return tuple(sorted(found, key=lambda finding: (-finding.kind.code, finding.next)))

    @property
    def exit_code(self) -> int:
        """0 if there is no finding, else the code of the gravest."""
        return max((finding.kind.code for finding in self.findings), default=0)

    def as_dict(self) -> dict[str, object]:
        """The report for ``--json``."""
        return {
            "format": FORMAT,
            "subject": self.subject,
            "target": self.target,
            "verified": not self.findings,
            "exit_code": self.exit_code,
            "facts": dict(self.facts),
            "checks": [check.as_dict() for check in self.checks],
            "findings": [finding.as_dict() for finding in self.findings],
        }


class Unusable(Exception):
    """The target or an argument cannot be used: nothing can be verified.

    :param what: what happened. :param where: to what. :param next: what to type or change.
    """

    def __init__(self, what: str, *, where: str = "", next: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.next = next

    def as_dict(self) -> dict[str, object]:
        """The failure for ``--json``."""
        return {"kind": "usage", "exit_code": USAGE, "what": self.what, "where": self.where, "next": self.next}


def few(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The gravest :data:`MOST_FINDINGS` of *findings*, and one more that counts the others."""
    every = sorted(findings, key=lambda finding: -finding.kind.code)
    if len(every) <= MOST_FINDINGS:
        return tuple(every)
    more = every[MOST_FINDINGS:]
    return (*every[:MOST_FINDINGS], Finding(more[0].kind, "", f"and {len(more)} more like these", more[0].next))
