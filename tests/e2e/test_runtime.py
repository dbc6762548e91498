"""`./inv runtime` on four releases: outcomes, verdicts, wheel, receipt, and what a second run does."""

from __future__ import annotations

import hashlib
import json
import subprocess
import zipfile
from collections.abc import Callable
from email.parser import HeaderParser
from pathlib import Path

import jsonschema
import pytest
from packaging.requirements import Requirement

from patchset.receipt import SCHEMA
from patchset.store import Store
from tests.e2e.conftest import ROOT, Typed, type_in

MAMBA, GEMMA, CACHED, MTP = "mamba-uint64-pointers", "gemma4-unified", "cached-tokens-zero", "mtp-boundary"

#: What is known of each release from upstream's history, independently of this tool.
KNOWN = {
    "b70-0.22": {MAMBA: "applies", GEMMA: "applies", CACHED: "applies", MTP: "absent"},
    "b70-0.23": {MAMBA: "applies", GEMMA: "upstream", CACHED: "applies", MTP: "applies"},
    "b70-0.26": {MAMBA: "applies", GEMMA: "upstream", CACHED: "upstream", MTP: "applies"},
    "b70-0.33": {MAMBA: "upstream", GEMMA: "upstream", CACHED: "upstream", MTP: "upstream"},
}
VERDICTS = {"applies": ("defect", "sound"), "upstream": ("sound", "sound"), "absent": ("absent", "absent")}

RuntimeOf = Callable[[str], Typed]
each_recipe = pytest.mark.parametrize("recipe", sorted(KNOWN))


@each_recipe
def test_outcomes_are_those_of_upstreams_history(recipe: str, runtime_of: RuntimeOf) -> None:
    document = runtime_of(recipe).json
    assert {item["patch"]: item["outcome"] for item in document["series"]} == KNOWN[recipe]


@each_recipe
def test_every_outcome_is_proved_by_a_probe(recipe: str, runtime_of: RuntimeOf) -> None:
    for item in runtime_of(recipe).json["series"]:
        assert (item["probe"]["base"], item["probe"]["patched"]) == VERDICTS[item["outcome"]], item
        assert item["evidence"]


@each_recipe
def test_receipt_is_valid_and_says_what_the_task_said(recipe: str, runtime_of: RuntimeOf) -> None:
    document = runtime_of(recipe).json
    written = json.loads(Path(document["paths"]["receipt"]).read_bytes())
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_bytes())).validate(written)
    assert written == {key: value for key, value in document.items() if key != "paths"}
    assert written["lock"]["text"] == (ROOT / "recipes" / f"{recipe}.lock").read_text()


@each_recipe
def test_smoke_result_is_valid_and_no_kernel_is_missing(recipe: str, runtime_of: RuntimeOf) -> None:
    schema = json.loads((ROOT / "patchset" / "smoke" / "result.schema.json").read_bytes())
    for result in runtime_of(recipe).json["smoke"]:
        jsonschema.Draft202012Validator(schema).validate(result)
        assert result["summary"]["ok"] is True
        assert result["source"]["sha256"] == runtime_of(recipe).json["wheel"]["sha256"]
        assert {kernel["status"] for kernel in result["kernels"]} <= {"passed", "not-in-release"}


@each_recipe
def test_wheel_holds_the_tree_s_blobs_and_no_cuda(recipe: str, runtime_of: RuntimeOf, store: Store) -> None:
    document = runtime_of(recipe).json
    wheel = Path(document["paths"]["wheel"])
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == document["wheel"]["sha256"]
    assert (wheel.parent / f"{wheel.name}.sha256").read_text().split() == [document["wheel"]["sha256"], wheel.name]
    entries = store.entries(document["tree"])
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata_name = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(metadata_name).decode())
        for path in {path for item in document["series"] for path in item["touched"]} - {
            p for p in entries if not p.startswith("vllm/")
        }:
            expected = subprocess.run(
                ["git", "hash-object", "--stdin"], input=archive.read(path), capture_output=True, check=True
            )
            assert expected.stdout.decode().strip() == entries[path].blob, path
    assert metadata["Version"] == f"{document['base']['release']}+xpu.b70.{document['tree'][:8]}"
    # What is asked for without an extra; 0.26 and later name an nvidia package in the extra "deepstream".
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist")]
    plain = {
        item.name.lower().replace("_", "-")
        for item in requirements
        if not item.marker or item.marker.evaluate({"extra": ""})
    }
    assert "vllm-xpu-kernels" in plain
    assert not [name for name in plain if name.startswith(("nvidia", "cuda", "flashinfer", "cupy", "xformers"))]


def test_on_0_33_nothing_is_applied_and_the_summary_says_why(runtime_of: RuntimeOf) -> None:
    document = runtime_of("b70-0.33").json
    assert document["tree"] == document["base"]["tree"]
    summary = type_in(ROOT, "runtime", "-r", "b70-0.33")
    assert summary.status == 0, summary.err
    assert summary.out.count("not needed: fixed upstream") >= 4
    assert "requirements/xpu.txt:" in summary.out  # the place of the evidence, with its line


def test_a_second_run_reuses_and_delivers_the_same_wheel(runtime_of: RuntimeOf) -> None:
    first = runtime_of("b70-0.23").json
    second = type_in(ROOT, "runtime", "--json").json
    lanes = {f"smoke in lane {lane}" for lane in ("interpret", "spirv", "native")}
    assert set(second["reused"]) == {"probe verdicts", "wheel", *lanes}
    assert second["wheel"] == first["wheel"]
    assert second["paths"]["receipt"] != first["paths"]["receipt"]
    assert Path(first["paths"]["receipt"]).exists()


def test_what_was_not_run_is_said(runtime_of: RuntimeOf) -> None:
    default = [item["what"] for item in runtime_of("b70-0.23").json["not_run"]]
    assert {"lane device", "Rust front end"} <= set(default) and len(set(default)) == len(default)
    assert not {"lane interpret", "lane spirv", "lane native"} & set(default)
    other = {item["what"] for item in runtime_of("b70-0.33").json["not_run"]}
    assert {"lane spirv", "lane native", "lane device"} <= other
