"""What is in a wheel, as a CycloneDX 1.7 document that lies in it: ``<dist-info>/sboms/patchset.cdx.json``.

Importing this takes a quarter of a second: import it where it is used.

Facts: PEP 770 and the packaging specification "Binary distribution format" (the folder ``sboms`` of ``.dist-info``; such a
document has no place for the hash of the wheel it lies in). A patch of a CycloneDX pedigree has a type, a diff and what it
resolves, but no name, no hash and no order, and the library sorts. So the diff's address names its bytes, and properties of
the wheel say which patch has which diff, in which order, and what became of those that are *not* applied.

The bytes depend on nothing but a :class:`~patchset.wheel.bill.Bill` and the hashes of the native members: no time but
SOURCE_DATE_EPOCH, no random number, no path, no version of this tool.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone

from cyclonedx.model import AttachedText, Encoding, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import (
    Commit,
    Component,
    ComponentScope,
    ComponentType,
    Diff,
    Patch,
    PatchClassification,
    Pedigree,
)
from cyclonedx.model.issue import IssueClassification, IssueType, IssueTypeSource
from cyclonedx.model.lifecycle import LifecyclePhase, PredefinedLifecycle
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packaging.specifiers import SpecifierSet

from patchset.wheel.bill import (
    DIFF_TYPE,
    NAMESPACE,
    Bill,
    Donated,
    OmittedEntry,
    PatchEntry,
    Related,
    content_name,
    purl,
)

#: What a file of the tree must be under to be in the wheel.
_PACKAGE = "vllm/"
_GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:pull|issues)/(\d+)/?\Z", re.ASCII)
_ADDRESS = re.compile(
    r"https://[a-z0-9.-]+(?::\d+)?(?:[/?](?:[\w.~!$&'()*+,;=:@/?-]|%[0-9a-f]{2})*)?(?:#[\w.~!$&'()*+,;=:@/?-]*)?\Z",
    re.ASCII | re.IGNORECASE,
)


def document(bill: Bill, native: Mapping[str, str]) -> bytes:
    """The document: the same bytes for the same *bill* and *native* (name of a shared object in the wheel → its sha256)."""
    # Without its version: a wheel must not differ for a release of this tool that changes nothing about it.
    tool = Component(type=ComponentType.APPLICATION, name=NAMESPACE, bom_ref=NAMESPACE)
    root = _wheel(bill, native)
    bom = Bom(
        serial_number=_serial(bill, native),
        metadata=BomMetaData(
            timestamp=datetime.fromtimestamp(bill.epoch, timezone.utc),
            tools=ToolRepository(components=[tool]),
            lifecycles=[PredefinedLifecycle(LifecyclePhase.BUILD)],
            component=root,
        ),
        components=_stack(bill.stack),
    )
    bom.register_dependency(root, bom.components)
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_7).output_as_string()
    return (json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _serial(bill: Bill, native: Mapping[str, str]) -> uuid.UUID:
    content = json.dumps([asdict(bill), dict(native)], sort_keys=True)
    return uuid.uuid5(uuid.NAMESPACE_URL, f"pkg:generic/{NAMESPACE}#{hashlib.sha256(content.encode()).hexdigest()}")


def _wheel(bill: Bill, native: Mapping[str, str]) -> Component:
    address = purl(bill.distribution, bill.version)
    pedigree = Pedigree(
        ancestors=[_sdist(bill)],
        commits=[
            Commit(uid=entry.commit, message=f"{entry.title} (patch {entry.id})")
            for entry in bill.patches
            if entry.applied
        ],
        patches=[_patch(entry) for entry in bill.patches if entry.applied],
    )
    files = [_native(name, sha256) for name, sha256 in native.items()]
    files += [
        _donated_file(bill, donor)
        for entry in bill.patches
        for donor in entry.donors
        if donor.to.startswith(_PACKAGE)  # what is outside is in the tree, and in no wheel
    ]
    return Component(
        type=ComponentType.LIBRARY,
        name=bill.distribution,
        version=bill.version,
        bom_ref=str(address),
        purl=address,
        pedigree=pedigree,
        components=files,
        properties=_properties(
            [
                ("recipe", bill.recipe),
                ("tree", bill.tree),
                ("commit", bill.commit),
                *([("stack:python", bill.stack["python"])] if "python" in bill.stack else []),
                *(row for number, entry in enumerate(bill.patches, 1) for row in _said_of_patch(entry, number)),
                *(row for item in bill.omitted for row in _said_of_omitted(item)),
            ]
        ),
    )


def _sdist(bill: Bill) -> Component:
    address = purl(bill.distribution, bill.release, archive=bill.archive)
    return Component(
        type=ComponentType.LIBRARY,
        name=bill.distribution,
        version=bill.release,
        bom_ref=str(address),
        purl=address,
        hashes=[_sha256(bill.sha256)],
        properties=_properties([("base:tree", bill.base_tree), ("base:commit", bill.base_commit)]),
    )


def _patch(entry: PatchEntry) -> Patch:
    return Patch(
        type=PatchClassification(entry.type),
        diff=Diff(text=_attached(entry.diff_bytes), url=XsUri(content_name(entry.diff_bytes))) if entry.diff else None,
        resolves=[_issue(item, entry.kind) for item in entry.resolves],
    )


def _attached(diff: bytes) -> AttachedText:
    try:
        return AttachedText(content=diff.decode("utf-8"), content_type=DIFF_TYPE)
    except UnicodeDecodeError:
        encoded = base64.b64encode(diff).decode()
        return AttachedText(content=encoded, content_type=DIFF_TYPE, encoding=Encoding.BASE_64)


def _issue(item: Related, kind: str) -> IssueType:
    found = _GITHUB.match(item.url)
    return IssueType(
        type=IssueClassification.ENHANCEMENT if kind == "backport" else IssueClassification.DEFECT,
        id=f"{found[1]}#{found[2]}" if found else item.url,
        description=item.what,
        source=IssueTypeSource(name=found[1], url=XsUri(f"https://github.com/{found[1]}")) if found else None,
        # patch.toml lets more through than RFC 3986; that stands as the id all the same.
        references=[XsUri(item.url)] if _ADDRESS.match(item.url) else [],
    )


def _said_of_patch(entry: PatchEntry, number: int) -> list[tuple[str, str]]:
    prefix = f"patch:{entry.id}"
    rows = [
        (f"{prefix}:order", str(number)),
        (f"{prefix}:title", entry.title),
        (f"{prefix}:outcome", entry.outcome),
        (f"{prefix}:applied", json.dumps(entry.applied)),
        (f"{prefix}:reason", entry.decision),
        *((f"{prefix}:evidence", line) for line in entry.evidence),
        *((f"{prefix}:donor", f"{item.to} from {item.release}, sha256 {item.sha256}") for item in entry.donors),
    ]
    if entry.applied:
        rows += [(f"{prefix}:tree", entry.tree), (f"{prefix}:commit", entry.commit)]
    if entry.diff:
        rows.append((f"{prefix}:diff", content_name(entry.diff_bytes)))
        rows.append((f"{prefix}:diff:sha256", hashlib.sha256(entry.diff_bytes).hexdigest()))
    return rows


def _said_of_omitted(item: OmittedEntry) -> list[tuple[str, str]]:
    prefix = f"patch:{item.id}"
    return [
        (f"{prefix}:title", item.title),
        (f"{prefix}:outcome", "omitted"),
        (f"{prefix}:applied", "false"),
        (f"{prefix}:reason", item.reason),
        (f"{prefix}:probe", item.probe),
    ]


def _native(name: str, sha256: str) -> Component:
    return Component(
        type=ComponentType.FILE,
        name=name,
        bom_ref=f"file:{name}",
        hashes=[_sha256(sha256)],
        properties=_properties([("native", "true")]),
    )


def _donated_file(bill: Bill, donor: Donated) -> Component:
    archive = purl(bill.distribution, donor.release, archive=donor.archive)
    origin = Component(
        type=ComponentType.FILE,
        name=donor.path,
        bom_ref=f"donor:{donor.to}",
        hashes=[_sha256(donor.sha256)],
        properties=_properties(
            [
                ("donor:release", donor.release),
                ("donor:archive", str(archive)),
                ("donor:archive:sha256", donor.archive_sha256),
            ]
        ),
    )
    return Component(
        type=ComponentType.FILE,
        name=donor.to,
        bom_ref=f"file:{donor.to}",
        hashes=[_sha256(donor.result)],
        pedigree=Pedigree(ancestors=[origin]),
    )


def _stack(stack: Mapping[str, str]) -> list[Component]:
    """What must be installed beside the wheel; a version only where the specifier names exactly one."""
    found = []
    for name, specifier in stack.items():
        if name == "python":
            continue
        parts = list(SpecifierSet(specifier))
        exact = parts[0].version if len(parts) == 1 and parts[0].operator == "==" and "*" not in specifier else None
        address = purl(name, exact)
        found.append(
            Component(
                type=ComponentType.LIBRARY,
                name=name,
                version=exact,
                bom_ref=str(address),
                purl=address,
                scope=ComponentScope.REQUIRED,
                is_external=True,
                properties=_properties([("specifier", specifier)]),
            )
        )
    return found


def _properties(rows: Sequence[tuple[str, str]]) -> list[Property]:
    return [Property(name=f"{NAMESPACE}:{name}", value=value) for name, value in rows]


def _sha256(digest: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=digest)
