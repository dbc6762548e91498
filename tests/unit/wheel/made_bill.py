"""A bill with everything in it, and the receipt of a run that made it."""

from __future__ import annotations

import json
from dataclasses import replace

from patchset.wheel.bill import Bill, Donated, OmittedEntry, PatchEntry, Related

VERSION = "1.2.0+xpu.b70.deadbeef"
DIFF = "diff --git a/vllm/a.py b/vllm/a.py\n--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -1,2 +1,2 @@\n-größer\n+kleiner\n x\n"

FIX = PatchEntry(
    id="small-fix",
    title='It says "kleiner"',
    type="unofficial",
    kind="fix",
    outcome="applies",
    applied=True,
    decision="needed; applied and proved",
    evidence=(),
    diff=DIFF,
    donors=(),
    resolves=(
        Related("https://github.com/vllm-project/vllm/issues/7", "the report"),
        Related("https://host.invalid/tracker?id=9", "the same elsewhere"),
    ),
    tree="b" * 40,
    commit="c" * 40,
)
BACKPORT = replace(
    FIX,
    id="a-backport",
    type="backport",
    kind="backport",
    outcome="merges",
    decision="needed; merged and proved",
    diff="",
    donors=(
        Donated("1.3.0", "vllm-1.3.0.tar.gz", "1" * 64, "vllm/new.py", "2" * 64, "vllm/here.py", "3" * 64),
        Donated("1.3.0", "vllm-1.3.0.tar.gz", "1" * 64, "tests/t.py", "4" * 64, "tests/t.py", "4" * 64),
    ),
    resolves=(Related("https://github.com/vllm-project/vllm/pull/8", "the model"),),
    tree="d" * 40,
    commit="e" * 40,
)
UNNEEDED = replace(
    FIX,
    id="unneeded",
    outcome="upstream",
    applied=False,
    decision="not needed: fixed upstream, and proved there",
    evidence=("vllm/b.py:3: fixed = True", "by pull request 8"),
    diff="",
    resolves=(),
)
BILL = Bill(
    version=VERSION,
    recipe="b70-1.2",
    distribution="vllm",
    release="1.2.0",
    archive="vllm-1.2.0.tar.gz",
    sha256="a" * 64,
    base_tree="0" * 40,
    base_commit="1" * 40,
    tree="d" * 40,
    commit="e" * 40,
    epoch=1_780_000_000,
    stack={
        "python": ">=3.10,<3.14",
        "torch": "==2.12.0+xpu",
        "triton-xpu": "==3.7.1",
        "vllm-xpu-kernels": "==0.1.11.*",
        "transformers": ">=5.10,<5.15",
    },
    patches=(FIX, UNNEEDED, BACKPORT),
    omitted=(OmittedEntry("left-out", "Never mind", "it is being bisected", "defect"),),
)
NATIVE = {"vllm/spinloop.abi3.so": "5" * 64, "vllm/fs_io_C.abi3.so": "6" * 64}

RECEIPT = {
    "format": 1,
    "tool": {"name": "vllm-xpu-patchset", "version": "9.8.7"},
    "runtime": VERSION,
    "recipe": "b70-1.2",
    "started": "2026-12-01T10:00:00Z",
    "finished": "2026-12-01T10:02:03Z",
    "machine": {"system": "Linux", "machine": "x86_64", "python": "3.12.4"},
    "base": {"source": "archive"},
    "reused": ["probe verdicts"],
    "tree": "d" * 40,
    "wheel": {
        "name": f"vllm-{VERSION}-cp38-abi3-linux_x86_64.whl",
        "sha256": "7" * 64,
        "rust": False,
        "torch": "stand-in",
    },
}


def receipt_bytes(**change: object) -> bytes:
    """The receipt as it lies on the disk."""
    return json.dumps({**RECEIPT, **change}, indent=2, sort_keys=True).encode() + b"\n"
