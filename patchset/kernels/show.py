"""What ``inv kernels`` shows: tables for a person, and the document that ``kernels.schema.json`` describes for a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchset.console import Console
from patchset.kernels.beside import Torch
from patchset.kernels.finding import Finding, Verdict
from patchset.kernels.have import Had
from patchset.kernels.read import Contents

SCHEMA = Path(__file__).with_name("kernels.schema.json")
FORMAT = 1
#: Places shown for a finding; the document has all.
_PLACES = 8


def document(
    recipe: str,
    release: str,
    tree: str,
    had: Had,
    found: Contents,
    torch: Torch | None,
    findings: tuple[Finding, ...],
    reused: bool,
) -> dict[str, Any]:
    """All that was read and found, as JSON. ``not_run`` names again what could not be told, with the reason."""
    rules = sorted({rule for _, rule in found.groups})
    return {
        "format": FORMAT,
        "recipe": recipe,
        "release": release,
        "tree": tree,
        "wheel": {
            "file": had.path.name,
            "version": had.version,
            "sha256": had.sha256,
            "size": had.size,
            "tags": list(had.tags),
            "pinned": had.pinned,
            "note": had.note,
        },
        "rules": {
            "groups": rules[0] if len(rules) == 1 and rules[0] in ("==", "<=") else "unknown",
            "mixed": "refused" if found.mixed else "not refused" if found.groups else "unknown",
        },
        "ops": [
            {
                "namespace": op.namespace,
                "name": op.schema.name,
                "schema": op.schema.text,
                "object": op.object,
                "told_by": op.told_by,
            }
            for op in found.ops
        ],
        "objects": [
            {
                "file": item.file,
                "size": item.size,
                "needed": list(item.needed),
                "search_path": list(item.search_path),
                "versions": [{"library": library, "version": version} for library, version in item.versions],
                "undefined": {
                    "torch": list(item.torch),
                    "xpu": list(item.xpu),
                    "sycl": list(item.sycl),
                    "others": item.others,
                },
            }
            for item in found.objects
        ],
        "torch": torch
        and {
            "version": torch.version,
            "given": torch.given,
            "xpu": torch.xpu,
            "exported": len(torch.exported),
            "sycl": list(torch.sycl),
        },
        "findings": [
            {
                "about": finding.about,
                "verdict": finding.verdict.value,
                "text": finding.text,
                "places": list(finding.places),
                "next": finding.next,
            }
            for finding in findings
        ],
        "not_run": [
            {"what": finding.about, "why": finding.text} for finding in findings if finding.verdict is Verdict.UNKNOWN
        ],
        "reused": reused,
    }


def show(console: Console, document: Mapping[str, Any]) -> None:
    """The end of ``inv kernels``."""
    console.json(document)
    wheel = document["wheel"]
    console.line(f"{wheel['file']}  ({wheel['size'] / 1e6:.1f} MB, sha256 {wheel['sha256']})")
    console.line(f"recipe {document['recipe']}, vLLM {document['release']}, tree {document['tree'][:12]}")
    counts = Counter(op["namespace"] for op in document["ops"])
    by_namespace = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    console.line(f"{len(document['ops'])} operators registered" + (f": {by_namespace}" if counts else ""))
    console.table(
        ["object", "MB", "operators", "needs of its own", "undefined: torch", "its XPU", "SYCL", "others"],
        [_row(item, document["ops"]) for item in document["objects"]],
    )
    console.table(
        ["about", "verdict", "why"],
        [[item["about"], item["verdict"], item["text"]] for item in document["findings"]],
    )
    for item in document["findings"]:
        if item["verdict"] in (Verdict.BAD.value, Verdict.MIND.value):
            for place in item["places"][:_PLACES]:
                console.line(f"  {item['about']}: {place}")
            if len(item["places"]) > _PLACES:
                console.line(f"  {item['about']}: and {len(item['places']) - _PLACES} more: --json has all")
    for item in document["not_run"]:
        console.line(f"not run  {item['what']}: {item['why']}")
    if document["reused"]:
        console.line("reused   what the wheel holds (--fresh reads it anew)")


def _row(item: Mapping[str, Any], ops: list[Mapping[str, Any]]) -> list[str]:
    name = item["file"].rpartition("/")[2]
    undefined = item["undefined"]
    own = [
        library for library in item["needed"] if library.startswith(("libsycl", "libccl", "libtorch_xpu", "libc10_xpu"))
    ]
    return [
        name,
        f"{item['size'] / 1e6:.1f}",
        str(sum(op["object"] == name for op in ops) or ""),
        ", ".join(own),
        str(len(undefined["torch"])),
        str(len(undefined["xpu"])),
        str(len(undefined["sycl"])),
        str(undefined["others"]),
    ]
