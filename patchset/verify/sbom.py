"""The bills of materials in the wheel: what they say of tree and patches is what the record says.

Facts: CycloneDX 1.7, where the wheel is ``metadata.component`` and its patches stand, without a name, under
``pedigree.patches``; patchset/wheel/sbom.py, which says in properties which patch has which diff, and what became of the others.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping

from .bounded import Malformed, Node, parse_json
from .claims import Record
from .model import Check, Finding, Kind, few

OURS = "sboms/patchset.cdx.json"

_PREFIX = "vllm-xpu-patchset:"
_FOREIGN = re.compile(r"sboms/[^/]+\.json")


def check_sboms(record: Record, info: Mapping[str, bytes], again: str) -> Check:
    """Our bill of materials agrees with *record*; those of other tools are JSON and not judged further.

    :param info: name in ``.dist-info`` → bytes.
    """
    findings = []
    for name, data in sorted(info.items()):
        if not _FOREIGN.fullmatch(name):
            continue
        try:
            node = Node(parse_json(data))
            faults = list(_faults(node["metadata"]["component"], record)) if name == OURS else []
        except Malformed as error:
            findings.append(Finding(Kind.UNREAD, name, f"it cannot be read: {error}", again))
            continue
        findings += [Finding(Kind.CHAIN, name, fault, again) for fault in faults]
    note = "says the same of tree and patches as the record" if OURS in info else ""
    return Check("bill of materials", note, few(findings), "" if OURS in info or findings else "there is none")


def _faults(wheel: Node, record: Record) -> Iterable[str]:
    said = _properties(wheel)
    run = record.run
    for key, value in (("tree", run.tree), ("commit", run.commit)):
        if said.get(key) != [value]:
            yield f"it says {key} {_shown(said.get(key))}, the record {value}"
    expected = {step.patch: (step.outcome, step.applied) for step in run.series}
    expected |= dict.fromkeys(run.omitted, ("omitted", False))
    named = {key.split(":")[1] for key in said if key.startswith("patch:")}
    for patch in sorted(named - expected.keys()):
        yield f"it names patch {patch}, which the record does not have"
    for patch, (outcome, applied) in expected.items():
        if patch not in named:
            yield f"it does not name patch {patch}"
            continue
        for key, value in (("outcome", outcome), ("applied", "true" if applied else "false")):
            found = said.get(f"patch:{patch}:{key}")
            if found != [value]:
                yield f"it says {key} {_shown(found)} of patch {patch}, the record {value}"
    for step in run.series:
        found = said.get(f"patch:{step.patch}:tree")
        if step.applied and step.patch in named and found != [step.tree]:
            yield f"it says that patch {step.patch} leads to the tree {_shown(found)}, the record to {step.tree}"
    yield from _diff_faults(wheel, said, [step.patch for step in run.series if step.applied])


def _diff_faults(wheel: Node, said: Mapping[str, list[str]], applied: list[str]) -> Iterable[str]:
    """The diffs in it are those that the properties of applied patches name by their hashes."""
    pedigree = wheel.get("pedigree")
    listed = pedigree.get("patches") if pedigree else None
    patches = listed.list() if listed else []
    if len(patches) > len(applied):  # two without a diff may be one there
        yield f"it lists {len(patches)} patches as applied, the record {len(applied)}"
    hashes = {digest for patch in applied for digest in said.get(f"patch:{patch}:diff:sha256", [])}
    found = {_diff_hash(patch) for patch in patches} - {""}
    if found != hashes:
        yield f"{len(found ^ hashes)} diffs in it are not those that it names by their hashes"


def _diff_hash(patch: Node) -> str:
    diff = patch.get("diff")
    text = diff.get("text") if diff else None
    if text is None:
        return ""
    content, encoding = text["content"].text(".*"), text.get("encoding")
    try:
        data = base64.b64decode(content, validate=True) if encoding else content.encode()
    except (binascii.Error, ValueError) as error:
        raise Malformed(f"{text.place} is not what its encoding says") from error
    return hashlib.sha256(data).hexdigest()


def _properties(component: Node) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in component["properties"].list():
        name = item["name"].text()
        if name.startswith(_PREFIX):
            found.setdefault(name.removeprefix(_PREFIX), []).append(item["value"].text(".*"))
    return found


def _shown(values: list[str] | None) -> str:
    return ", ".join(value[:80] for value in values) if values else "nothing"
