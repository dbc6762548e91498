"""What lies beside the wheel and names it: the sha256 file and the attestation.

Facts: the in-toto attestation framework's "Statement" and "ResourceDescriptor" v1; SLSA provenance v1, where what else came out
of a run stands under ``runDetails.byproducts``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .bounded import Malformed, Node, Unread, parse_json, read
from .model import Check, Finding, Kind, few

STATEMENT = ".intoto.json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
_SHA256 = "[0-9a-f]{64}"
_NEXT = "copy the wheel again with the files beside it, from where it was made"


def check_beside(wheel: Path, sha256: str, tree: str = "") -> tuple[Check, Check]:
    """The files ``<wheel>.sha256`` and ``<wheel>.intoto.json``, where they are, are of this wheel and of *tree*, if it is known."""
    return (
        _beside(wheel, ".sha256", lambda data: _sum_faults(data, wheel.name, sha256)),
        _beside(wheel, STATEMENT, lambda data: _statement_faults(data, wheel.name, sha256, tree)),
    )


def _beside(wheel: Path, suffix: str, faults: Any) -> Check:
    path = wheel.with_name(wheel.name + suffix)
    what = f"*{suffix}"
    if not os.path.lexists(path):
        return Check(what, not_run="there is none beside the wheel")
    try:
        found = [Finding(Kind.CHAIN, path.name, fault, _NEXT) for fault in faults(read(path))]
    except (Unread, Malformed) as error:
        found = [Finding(Kind.UNREAD, path.name, f"it cannot be read: {error}", _NEXT)]
    return Check(what, "" if found else "names this wheel by its hash", few(found))


def _sum_faults(data: bytes, name: str, sha256: str) -> Iterable[str]:
    words = data.decode("utf-8", "replace").split()
    if len(words) != 2 or not re.fullmatch("[0-9a-fA-F]{64}", words[0]):
        raise Malformed("it is not one line with a sha256 and a file name")
    if words[0].lower() != sha256:
        yield f"it says {words[0]}, and the wheel is {sha256}"
    if words[1].removeprefix("*") != name:
        yield f"it is of {words[1][:200]}"


def check_byproduct(wheel: Path, name: str, sha256: str) -> Check:
    """If the attestation beside *wheel* names the receipt *name*, it is this one."""
    path = wheel.with_name(wheel.name + STATEMENT)
    what = "receipt in the attestation"
    try:
        named = [item for item in _byproducts(Node(parse_json(read(path)))) if item["name"].text() == name]
        digests = {item["digest"]["sha256"].text(_SHA256) for item in named}
    except (Unread, Malformed):
        return Check(what, not_run="there is none beside the wheel that can be read")
    if not digests:
        return Check(what, not_run="it names another receipt")
    findings = [
        Finding(Kind.CHAIN, path.name, f"it says {one} of {name}, which is {sha256}", _NEXT)
        for one in digests - {sha256}
    ]
    return Check(what, "names this receipt by its hash", few(findings))


def _statement_faults(data: bytes, name: str, sha256: str, tree: str) -> Iterable[str]:
    node = Node(parse_json(data))
    kind = node["_type"].text()
    if kind != STATEMENT_TYPE:
        raise Malformed(f"_type is {kind[:80]!r}, not {STATEMENT_TYPE}")
    subjects = [(item["name"].text(), item["digest"]["sha256"].text(_SHA256)) for item in node["subject"].list()]
    mine = [digest for subject, digest in subjects if subject == name]
    if not mine:
        yield f"none of its {len(subjects)} subjects is {name}"
    elif set(mine) != {sha256}:
        yield f"it says {mine[0]}, and the wheel is {sha256}"
    for item in _byproducts(node) if tree else ():
        made = item["digest"].get("gitTree")
        if made and made.text() != tree:
            yield f"it is of the tree {made.text()[:80]}, and the wheel's record of {tree}"


def _byproducts(statement: Node) -> list[Node]:
    node: Node | None = statement
    for key in ("predicate", "runDetails", "byproducts"):
        node = node.get(key) if node else None
    return node.list() if node else []
