"""A receipt: the record of one run. Written once, never edited; ``receipt.schema.json`` says what is in it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from patchset import __version__, budget
from patchset.budget import Comparison
from patchset.errors import DeclarationError
from patchset.proof import Exposure, Proof
from patchset.resolve import Resolved
from patchset.wheel.requires import Finding
from patchset.workspace import UNREADABLE, read_json

FORMAT = 2
SCHEMA = Path(__file__).with_name("receipt.schema.json")

#: Formats whose smoke results can be read; bytes of a file that is.
_READ = (1, FORMAT)
_LIMIT = 32 * 1024 * 1024


@dataclass(frozen=True)
class NotRun:
    """A check that did not run, and why. It never counts as passed."""

    what: str
    why: str


def describe_series(proofs: Sequence[Proof], *, reasons: bool = True) -> list[dict[str, Any]]:
    """The series with outcomes and verdicts, for the receipt and for the record inside the wheel.

    The wheel goes without the probes' *reasons*: they name versions of the laboratory, and a wheel's bytes must not.
    """
    return [
        {
            "patch": proof.step.patch,
            "title": proof.step.title,
            # the range of a variant can grow without a change to this runtime: it is no part of the wheel's bytes
            **({"variant": proof.step.variant} if reasons else {}),
            "outcome": proof.step.outcome.value,
            "applied": proof.step.outcome.changes_tree,
            "evidence": list(proof.step.evidence),
            "tree": proof.step.tree,
            "commit": proof.step.commit,
            "touched": list(proof.step.touched),
            "probe": {
                "base": proof.base.verdict.value,
                "patched": proof.patched.verdict.value,
                **({"reason": proof.patched.reason} if reasons else {}),
            },
            "decision": proof.decision.text,
        }
        for proof in proofs
    ]


def describe_omitted(omitted: Sequence[Exposure], *, reasons: bool = True) -> list[dict[str, Any]]:
    """The patches that were left out by name; ``found`` is what the probe says of the tree without them."""
    return [
        {
            "patch": item.patch,
            "reason": item.reason,
            "probe": item.finding.verdict.value,
            **({"found": item.finding.reason} if reasons else {}),
        }
        for item in omitted
    ]


def describe_base(resolved: Resolved) -> dict[str, Any]:
    """The base: release, archive and hash, trees and commits. The same on every machine, wherever it came from."""
    pin = resolved.lock.pin
    return {
        "upstream": pin.upstream,
        "release": pin.release,
        "archive": pin.archive,
        "sha256": pin.sha256,
        "tree": pin.tree,
        "commit": pin.base_commit,
    }


def receipt(
    resolved: Resolved,
    proofs: Sequence[Proof],
    omitted: Sequence[Exposure],
    wheel: Mapping[str, Any],
    requirements: Sequence[Finding],
    smoke: Sequence[Mapping[str, Any]],
    not_run: Sequence[NotRun],
    reused: Sequence[str],
    started: datetime,
) -> dict[str, Any]:
    """The receipt as a JSON-able document."""
    return {
        "format": FORMAT,
        "tool": {"name": "vllm-xpu-patchset", "version": __version__},
        "runtime": resolved.version,
        "recipe": resolved.recipe.name,
        "started": _moment(started),
        "finished": _moment(datetime.now(timezone.utc)),
        "machine": {"system": platform.system(), "machine": platform.machine(), "python": platform.python_version()},
        "base": {
            **describe_base(resolved),
            "source": resolved.base.source,
            "note": resolved.base.note,
            "checkout-commit": resolved.base.commit,
        },
        "stack": dict(resolved.recipe.stack),
        "lock": {"text": resolved.lock.text()},
        "series": describe_series(proofs),
        "omitted": describe_omitted(omitted),
        "tree": resolved.applied.tree,
        "commit": resolved.applied.commit,
        "wheel": dict(wheel),
        "requirements": [item.as_dict() for item in requirements],
        "smoke": [dict(item) for item in smoke],
        "not_run": [asdict(item) for item in not_run],
        "reused": list(reused),
    }


def write_receipt(folder: Path, document: Mapping[str, Any]) -> Path:
    """Write *document* to *folder* under a name that no other receipt has or will have, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    data = json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"
    stamp = str(document["finished"]).replace("-", "").replace(":", "")
    for number in range(1000):
        path = folder / f"receipt-{stamp}{f'-{number}' if number else ''}.json"
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            part.write_bytes(data)
            os.link(part, path)  # unlike a rename, never replaces
            return path
        except FileExistsError:
            continue
        finally:
            part.unlink(missing_ok=True)
    raise FileExistsError(f"{folder} already holds a thousand receipts of this second")


def _moment(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Earlier:
    """A receipt that holds machine code to compare with: its file, and its content."""

    path: Path
    document: Mapping[str, Any]

    def compare(self, now: Mapping[str, Any]) -> Comparison | None:
        """What became of the kernels' resources since then; None if *now* has no machine code."""
        return budget.compare(self.document, now, f"{self.path.name} of {self.document['runtime']}")


def earlier(
    dist: Path, recipe: str, named: str = "", lanes: Sequence[str] = (budget.LANE,), but: Path | None = None
) -> Earlier | None:
    """The receipt *named*, or the newest one of *recipe* under *dist* with machine code; *but* is not looked at.

    One that cannot be read is as good as not there, unless it is the one that was named.

    :param lanes: those that are run; without one that makes machine code there is nothing to compare.
    :raises DeclarationError: the one that was named is no receipt, has no machine code, or is named for nothing.
    """
    if budget.LANE not in lanes:
        if named:
            raise DeclarationError(
                f"--against compares what lane {budget.LANE} makes, and that is not run",
                next=f"./inv smoke --lane {budget.LANE} --against {named}",
            )
        return None
    if named:
        return _read(Path(named).absolute())
    for path in sorted(dist.glob("*/receipt-*.json"), key=_age, reverse=True):
        try:
            found = _read(path) if path != but else None
        except DeclarationError:
            continue
        if found and found.document["recipe"] == recipe:
            return found
    return None


def _read(path: Path) -> Earlier:
    """The receipt in *path* for its machine code. Whether it is sound is for ``inv verify`` to say.

    :raises DeclarationError: it cannot be read, is none, or has no machine code.
    """
    try:
        if not path.is_file():  # a pipe would never end
            raise ValueError("there is no such file")
        document = read_json(path, _LIMIT)
        texts = (document["recipe"], document["runtime"], document["finished"])
        if document["format"] not in _READ or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"not of format {' or '.join(map(str, _READ))}")
        native = budget.native_of(document)
        if native:
            budget.check(native)
    except UNREADABLE as error:
        told = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise DeclarationError(
            f"not a receipt: {told}", where=str(path), next="name a dist/<version>/receipt-….json"
        ) from error
    if not native:
        raise DeclarationError(
            f"this receipt holds no machine code: lane {budget.LANE} was not run for it",
            where=str(path),
            next=f'a recipe with [smoke] lanes = ["interpret", "{budget.LANE}"], then ./inv runtime',
        )
    return Earlier(path, document)


def _age(path: Path) -> tuple[str, int]:
    """Its moment, and its number among those of one second: :func:`write_receipt` names it so."""
    _, stamp, number = f"{path.stem}-0".split("-")[:3]
    return stamp, int(number) if number.isdecimal() else 0
