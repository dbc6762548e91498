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

from patchset import __version__
from patchset.proof import Exposure, Proof
from patchset.resolve import Resolved
from patchset.wheel.requires import Finding

FORMAT = 2
SCHEMA = Path(__file__).with_name("receipt.schema.json")


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
