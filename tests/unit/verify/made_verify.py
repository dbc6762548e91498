"""Small wheels with a record of format 2, receipts of them, and installations: written by hand here, but for the proof.

The tree has a folder that the wheel does not hold, an executable, a link with a copy in the wheel, and a series of two
patches that change files and one that does not.
"""

from __future__ import annotations

import base64
import copy
import csv
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from patchset.store import Entry
from patchset.verify import Report
from patchset.verify.trees import forest_of
from patchset.wheel.bill import Bill, OmittedEntry, PatchEntry
from patchset.wheel.tree_proof import tree_proof

PLAIN, EXECUTABLE, LINK = "100644", "100755", "120000"

BASE: dict[str, tuple[str, bytes]] = {
    "README.md": (PLAIN, b"# vLLM\n"),
    "csrc/ops/a.cpp": (PLAIN, b"int a;\n"),
    "csrc/b.cpp": (PLAIN, b"int b;\n"),
    "setup.py": (EXECUTABLE, b"setup()\n"),
    "tests/test_a.py": (PLAIN, b"assert True\n"),
    "vllm/__init__.py": (PLAIN, b"from vllm._version import version\n"),
    "vllm/a.py": (PLAIN, b"a = 'defect'\n"),
    "vllm/a-b.json": (PLAIN, b"{}\n"),
    "vllm/a/deep/er.py": (PLAIN, b"deep = 1\n"),
    "vllm/b.py": (PLAIN, b"b = 'defect'\n"),
    "vllm/copy.py": (LINK, b"a/deep/er.py"),
    "vllm/gone.py": (PLAIN, b"gone = 0\n"),
    "vllm/run.sh": (EXECUTABLE, b"#!/bin/sh\n"),
    "vllm/odd,name.json": (PLAIN, b"{}\n"),
}
FIRST: dict[str, tuple[str, bytes] | None] = {
    "vllm/a.py": (PLAIN, b"a = 'half'\n"),
    "vllm/gone.py": None,
}
SECOND: dict[str, tuple[str, bytes] | None] = {
    "vllm/a.py": (PLAIN, b"a = 'sound'\n"),
    "vllm/b.py": (PLAIN, b"b = 'sound'\n"),
    "vllm/new.py": (PLAIN, b"new = 1\n"),
    "tests/test_a.py": (PLAIN, b"assert a\n"),
}
DIFFS = {
    "first": "--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -1 +1 @@\n-a = 'defect'\n+a = 'half'\n",
    "idle": "",
    "second": "--- a/vllm/b.py\n+++ b/vllm/b.py\n@@ -1 +1 @@\n-b = 'defect'\n+b = 'sound'\n",
}
Tree = dict[str, tuple[str, bytes]]


def blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def entries_of(tree: Tree) -> dict[str, Entry]:
    return {path: Entry(mode, blob(data)) for path, (mode, data) in tree.items()}


def tree_of(tree: Tree) -> str:
    return forest_of({path: (mode, blob(data)) for path, (mode, data) in tree.items()}).root


def patched(tree: Tree, change: Mapping[str, tuple[str, bytes] | None]) -> Tree:
    merged = {**tree, **change}
    return {path: value for path, value in merged.items() if value is not None}


@dataclass(frozen=True)
class Made:
    """A wheel before it is written: members outside ``.dist-info``, its record, and what is put into ``.dist-info``."""

    members: Mapping[str, bytes]
    record: Mapping[str, Any]
    version: str
    info: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        return f"vllm-{self.version}.dist-info"

    @property
    def filename(self) -> str:
        return f"vllm-{self.version}-cp38-abi3-linux_x86_64.whl"

    def with_member(self, name: str, data: bytes | None) -> Made:
        members = {**self.members, name: data or b""}
        return replace(self, members={key: value for key, value in members.items() if key != name or data is not None})

    def with_record(self, change: Any) -> Made:
        record = copy.deepcopy(dict(self.record))
        change(record)
        return replace(self, record=record)

    def files(self) -> dict[str, bytes]:
        """All members, with a RECORD that is right."""
        prefix = f"{self.folder}/"
        return with_right_record(
            {
                **self.members,
                f"{prefix}METADATA": f"Metadata-Version: 2.4\nName: vllm\nVersion: {self.version}\n\nName: x\n".encode(),
                f"{prefix}WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp38-abi3-linux_x86_64\n",
                f"{prefix}entry_points.txt": b"[console_scripts]\nvllm = vllm.a:main\n",
                f"{prefix}patchset.json": json.dumps(self.record, indent=1).encode(),
                **{prefix + name: data for name, data in self.info.items()},
            },
            f"{prefix}RECORD",
        )

    def write(self, folder: Path, filename: str = "") -> Path:
        return write_zip(folder / (filename or self.filename), self.files())


def with_right_record(files: Mapping[str, bytes], record: str) -> dict[str, bytes]:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for name, data in files.items():
        if name != record:
            writer.writerow((name, spelled(data), len(data)))
    writer.writerow((record, "", ""))
    return {**{name: data for name, data in files.items() if name != record}, record: text.getvalue().encode()}


def spelled(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def write_zip(path: Path, files: Mapping[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def make() -> Made:
    middle = patched(BASE, FIRST)
    result = patched(middle, SECOND)
    tree = tree_of(result)
    version = f"0.23.0+xpu.b70.{tree[:8]}"
    generated = {"vllm/_version.py": f"version = '{version}'\n".encode(), "vllm/spinloop.abi3.so": b"\x7fELF"}
    members = {path: data for path, (mode, data) in result.items() if path.startswith("vllm/") and mode != LINK}
    members |= {"vllm/copy.py": result["vllm/a/deep/er.py"][1], **generated}
    series = [
        _step("first", "applies", tree_of(middle), "1" * 40, FIRST),
        _step("idle", "upstream", tree_of(middle), "1" * 40, {}),
        _step("second", "merges", tree, "2" * 40, SECOND),
    ]
    touched = sorted({*FIRST, *SECOND})
    record = {
        "format": 2,
        "runtime": version,
        "recipe": "b70-0.23",
        "base": {
            "upstream": "vllm",
            "release": "0.23.0",
            "archive": "vllm-0.23.0.tar.gz",
            "sha256": "7" * 64,
            "tree": tree_of(BASE),
            "commit": "0" * 39 + "1",
        },
        "stack": {"torch": "==2.11.0+xpu"},
        "series": series,
        "omitted": [{"patch": "left", "reason": "not needed here", "probe": "sound"}],
        "tree": tree,
        "commit": "2" * 40,
        "wheel": {
            "version": version,
            "tree": tree,
            "generated": {name: sha256(data) for name, data in generated.items()},
            "native": {},
            "files": {
                path: {
                    "sha256": sha256(result[path][1]) if path in result else None,
                    "base": blob(BASE[path][1]) if path in BASE else None,
                    "patches": [step["patch"] for step in series if path in step["touched"]],
                }
                for path in touched
            },
            "proof": tree_proof(entries_of(result), members, tree),
        },
    }
    return Made(members, record, version)


def _step(patch: str, outcome: str, tree: str, commit: str, change: Mapping[str, object]) -> dict[str, Any]:
    return {
        "patch": patch,
        "title": f"the patch {patch}",
        "outcome": outcome,
        "applied": bool(change),
        "evidence": ["at the lines it names"],
        "tree": tree,
        "commit": commit,
        "touched": sorted(change),
        "probe": {"base": "defect" if change else "sound", "patched": "sound"},
        "decision": "needed; applied and proved" if change else "not needed: fixed upstream, and proved there",
    }


def bill_of(made: Made) -> Bill:
    """The bill of materials of the run that made *made*."""
    record = made.record
    patches = [
        PatchEntry(
            id=step["patch"],
            title=step["title"],
            type="unofficial",
            kind="fix",
            outcome=step["outcome"],
            applied=step["applied"],
            decision=step["decision"],
            evidence=(),
            diff=DIFFS[step["patch"]],
            donors=(),
            resolves=(),
            tree=step["tree"],
            commit=step["commit"],
        )
        for step in record["series"]
    ]
    base = {key: record["base"][key] for key in ("release", "archive", "sha256")}
    return Bill(
        version=made.version,
        recipe=record["recipe"],
        distribution="vllm",
        base_tree=record["base"]["tree"],
        base_commit=record["base"]["commit"],
        tree=record["tree"],
        commit=record["commit"],
        epoch=1_780_000_000,
        stack=record["stack"],
        patches=tuple(patches),
        omitted=tuple(
            OmittedEntry(item["patch"], "left out", item["reason"], item["probe"]) for item in record["omitted"]
        ),
        **base,
    )


def bill_document(made: Made, **change: Any) -> bytes:
    """What the writer makes of the bill, with fields of it changed."""
    from patchset.wheel import sbom  # a quarter of a second

    return sbom.document(replace(bill_of(made), **change), {})


def receipt_of(made: Made, wheel: Path) -> dict[str, Any]:
    """The receipt of the run that made *wheel*, with what a record leaves out."""
    data = wheel.read_bytes()
    record = copy.deepcopy(dict(made.record))
    del record["wheel"]
    for step in record["series"]:
        step["variant"] = "==0.23.0"
        step["probe"]["reason"] = "seen"
    for item in record["omitted"]:
        item["found"] = "nothing"
    lock = f'format = 2\n\n[result]\ntree = "{record["tree"]}"\ncommit = "{record["commit"]}"\nversion = "{made.version}"\n'
    return {
        **record,
        "format": 1,
        "lock": {"text": lock},
        "wheel": {"name": wheel.name, "sha256": sha256(data), "size": len(data)},
        "not_run": [{"what": "lane device", "why": "needs the card"}],
    }


def write_receipt(folder: Path, document: Mapping[str, Any]) -> Path:
    path = folder / "receipt-20261203T000000Z.json"
    path.write_text(json.dumps(document), "utf-8")
    return path


def install(made: Made, environment: Path, *, name: str = "") -> Path:
    """What an installer leaves behind: files without modes, a script, compiled files, its own notes, and a RECORD of all."""
    site = environment / "lib" / "python3.11" / "site-packages"
    files = made.files()
    record = f"{made.folder}/RECORD"
    script = b"#!/usr/bin/python3\n"
    rows = [(path, spelled(data), str(len(data))) for path, data in files.items() if path != record]
    for path, data in files.items():
        put(site / path, data)
    for path, data in (("INSTALLER", b"pip\n"), ("REQUESTED", b"")):
        put(site / made.folder / path, data)
        rows.append((f"{made.folder}/{path}", spelled(data), str(len(data))))
    put(environment / "bin" / "vllm", script)
    put(site / "vllm" / "__pycache__" / "a.cpython-311.pyc", b"code")
    put(environment / "pyvenv.cfg", b"home = /usr/bin\n")
    rows += [("../../../bin/vllm", spelled(script), str(len(script)))]
    rows += [("vllm/__pycache__/a.cpython-311.pyc", "", ""), (record, "", "")]
    put_record(site / record, rows)
    return site


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def put_record(path: Path, rows: list[tuple[str, str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)


def other(site: Path, name: str, version: str, files: Mapping[str, bytes], *, written: bool = True) -> None:
    """Another installed distribution; with *written* its files are put there."""
    for path, data in files.items() if written else ():
        put(site / path, data)
    folder = f"{name}-{version}.dist-info"
    rows = [(path, spelled(data), str(len(data))) for path, data in files.items()]
    put_record(site / folder / "RECORD", [*rows, (f"{folder}/RECORD", "", "")])


def edited(path: str, value: object) -> Callable[[dict], None]:
    def edit(record: dict) -> None:
        *above, last = [int(word) if word.isdigit() else word for word in path.split(":")]
        place = record
        for key in above:
            place = place[key]
        assert json.dumps(place[last]) != json.dumps(value)
        place[last] = value

    return edit


def kinds(report: Report) -> set[str]:
    return {finding.kind.label for finding in report.findings}


def told(report: Report) -> set[tuple[str, str]]:
    return {(finding.kind.label, finding.path) for finding in report.findings}


def state(report: Report, what: str) -> str:
    return next(check.state for check in report.checks if check.what == what)
