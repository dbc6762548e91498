"""How a wheel came to be, as an in-toto statement with SLSA provenance v1: the file ``<wheel>.intoto.json`` beside it.

It is unsigned: this tool holds no key, and who vouches for a wheel is its builder's business. The bytes are those to sign.

Facts: in-toto attestation framework, "Statement" and "ResourceDescriptor" of v1 (a digest names its algorithm; ``gitTree`` is
one); SLSA v1.1, "Provenance" (what belongs to which parameters; consumers may refuse external ones they do not know). Build
type and builder must be URIs that nobody else uses. This project has no host, so they are package URLs of its own name;
that of the build type leads, as a package URL's subpath, to the file here that describes it: ``provenance.schema.json``. The
builder is called unhosted, since it is whoever ran the tool, on a machine that this statement says nothing about.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchset.errors import WheelError
from patchset.wheel.bill import DIFF_TYPE, NAMESPACE, Bill, content_name, purl
from patchset.workspace import UNREADABLE

SCHEMA = Path(__file__).with_name("provenance.schema.json")

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = f"pkg:generic/{NAMESPACE}?build-type=runtime-1#patchset/wheel/provenance.schema.json"
BUILDER = f"pkg:generic/{NAMESPACE}?builder=unhosted"


def file_name(wheel: str) -> str:
    """The name of the statement about the wheel of that name."""
    return f"{wheel}.intoto.json"


def statement(bill: Bill, receipt: bytes, receipt_name: str, environments: Mapping[str, str]) -> bytes:
    """The statement about the wheel that *receipt* describes: the same bytes for the same arguments.

    :param receipt: the bytes of the receipt's file; times, the wheel's hash and what ran come from it.
    :param environments: name → sha256 of the locked requirements that had a part in it, as the recipe's lock has them.
    :raises WheelError: the receipt is not one, or is of another runtime.
    """
    said = _read(receipt, receipt_name, bill)
    document = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": said["wheel"]["name"], "digest": {"sha256": said["wheel"]["sha256"]}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": _external(bill),
                "internalParameters": _internal(bill, said),
                "resolvedDependencies": _dependencies(bill, environments),
            },
            "runDetails": {
                "builder": {"id": BUILDER, "version": {NAMESPACE: said["tool"]["version"]}},
                "metadata": {
                    "invocationId": uuid.uuid5(uuid.NAMESPACE_URL, content_name(receipt)).urn,
                    "startedOn": said["started"],
                    "finishedOn": said["finished"],
                },
                "byproducts": [
                    {"name": receipt_name, "digest": {"sha256": hashlib.sha256(receipt).hexdigest()}},
                    {"name": "patched tree", "digest": {"gitTree": bill.tree}},
                ],
            },
        },
    }
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _read(receipt: bytes, name: str, bill: Bill) -> dict[str, Any]:
    try:
        said = json.loads(receipt)
        fit = said["runtime"] == bill.version and said["tree"] == bill.tree
        found = {
            "started": str(said["started"]),
            "finished": str(said["finished"]),
            "tool": {"version": str(said["tool"]["version"])},
            "wheel": {key: str(said["wheel"][key]) for key in ("name", "sha256", "torch")},
            "rust": bool(said["wheel"]["rust"]),
            "machine": {key: str(said["machine"][key]) for key in ("system", "machine", "python")},
            "source": str(said["base"]["source"]),
            "reused": [str(item) for item in said["reused"]],
        }
    except UNREADABLE as error:
        raise WheelError(f"not a receipt: {error!r}", where=name, next="./inv runtime writes a new one") from error
    if not fit:
        raise WheelError(
            f"the receipt is of {said['runtime']} with tree {said['tree']}, not of {bill.version}",
            where=name,
            next=f"./inv runtime -r {bill.recipe}",
        )
    return found


def _external(bill: Bill) -> dict[str, Any]:
    """What a recipe declares. A ``repository`` is left out, since it can be a path; the tree that it gave is a dependency."""
    return {
        "recipe": bill.recipe,
        "pin": {"distribution": bill.distribution, "release": bill.release},
        "series": [entry.id for entry in bill.patches],
        "omitted": [{"patch": item.id, "reason": item.reason} for item in bill.omitted],
        "stack": dict(bill.stack),
    }


def _internal(bill: Bill, said: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sourceDateEpoch": bill.epoch,
        "version": bill.version,
        "source": said["source"],
        "machine": said["machine"],
        "torch": said["wheel"]["torch"],
        "rust": said["rust"],
        # Then that part ran earlier than startedOn, on the very same input.
        "reused": said["reused"],
    }


def _dependencies(bill: Bill, environments: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "name": bill.archive,
            "uri": str(purl(bill.distribution, bill.release, archive=bill.archive)),
            "digest": {"sha256": bill.sha256},
        },
        # Of its own, since the digests of one entry must be those of the same bytes.
        {"name": "base tree", "digest": {"gitTree": bill.base_tree}},
        *(
            {
                "name": f"patch {entry.id}",
                "uri": content_name(entry.diff_bytes),
                "digest": {"sha256": hashlib.sha256(entry.diff_bytes).hexdigest()},
                "mediaType": DIFF_TYPE,
                "annotations": {"outcome": entry.outcome, "gitTreeAfter": entry.tree},
            }
            for entry in bill.patches
            if entry.diff
        ),
        *(
            {
                "name": donor.archive,
                "uri": str(purl(bill.distribution, donor.release, archive=donor.archive)),
                "digest": {"sha256": donor.archive_sha256},
                "annotations": {"patch": entry.id, "path": donor.path, "sha256": donor.sha256, "to": donor.to},
            }
            for entry in bill.patches
            for donor in entry.donors
        ),
        *(
            {"name": f"locked requirements: {name}", "digest": {"sha256": digest}}
            for name, digest in sorted(environments.items())
        ),
    ]
