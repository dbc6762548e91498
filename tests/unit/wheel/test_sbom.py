"""The bill of materials: CycloneDX's own schema takes it, it says what was applied and what was not, and it is always the same."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from hypothesis import given, settings
from hypothesis import strategies as st
from made_bill import BACKPORT, BILL, DIFF, FIX, NATIVE, UNNEEDED, VERSION
from made_project import write_project

from patchset.patch import Patch, Reference
from patchset.probe import Finding, Verdict, decide
from patchset.proof import Exposure, Proof
from patchset.resolve import resolve
from patchset.store import Store
from patchset.wheel.bill import Bill, Related, bill_of, content_name, missing_references, patch_type
from patchset.wheel.sbom import NAMESPACE, document

ROOT = f"pkg:pypi/vllm@{VERSION.replace('+', '%2B')}"
VALIDATOR = JsonStrictValidator(SchemaVersion.V1_7)


def read(bill: Bill = BILL, native: dict[str, str] | None = None) -> dict[str, Any]:
    data = document(bill, NATIVE if native is None else native)
    assert VALIDATOR.validate_str(data.decode()) is None
    return json.loads(data)


def said(component: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in component.get("properties", []):
        assert item["name"].startswith(f"{NAMESPACE}:")
        found.setdefault(item["name"].removeprefix(f"{NAMESPACE}:"), []).append(item["value"])
    return found


def test_it_describes_the_patched_wheel_and_what_it_descends_from() -> None:
    component = read()["metadata"]["component"]
    assert (component["name"], component["version"], component["purl"]) == ("vllm", VERSION, ROOT)
    [base] = component["pedigree"]["ancestors"]
    assert base["purl"] == "pkg:pypi/vllm@1.2.0?file_name=vllm-1.2.0.tar.gz"
    assert base["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]
    assert said(base) == {"base:tree": ["0" * 40], "base:commit": ["1" * 40]}
    assert {commit["uid"] for commit in component["pedigree"]["commits"]} == {FIX.commit, BACKPORT.commit}


def test_applied_patches_have_type_diff_and_what_they_resolve() -> None:
    found = {patch["type"]: patch for patch in read()["metadata"]["component"]["pedigree"]["patches"]}
    assert set(found) == {"unofficial", "backport"}
    diff = found["unofficial"]["diff"]
    digest = base64.urlsafe_b64encode(hashlib.sha256(DIFF.encode()).digest()).decode().rstrip("=")
    assert diff["text"] == {"content": DIFF, "contentType": "text/x-diff"}
    assert diff["url"] == f"ni:///sha-256;{digest}"
    assert "diff" not in found["backport"]
    issues = {issue["id"]: issue for issue in found["unofficial"]["resolves"]}
    assert issues["vllm-project/vllm#7"]["source"]["url"] == "https://github.com/vllm-project/vllm"
    assert issues["https://host.invalid/tracker?id=9"]["references"] == ["https://host.invalid/tracker?id=9"]
    assert {issue["type"] for issue in issues.values()} == {"defect"}
    assert [issue["type"] for issue in found["backport"]["resolves"]] == ["enhancement"]


def test_what_is_not_applied_is_told_and_is_no_patch() -> None:
    only = read(replace(BILL, patches=(UNNEEDED,)))["metadata"]["component"]
    assert "patches" not in only["pedigree"] and "commits" not in only["pedigree"]
    properties = said(read()["metadata"]["component"])
    assert properties["patch:unneeded:outcome"] == ["upstream"]
    assert properties["patch:unneeded:applied"] == ["false"]
    assert properties["patch:unneeded:reason"] == [UNNEEDED.decision]
    assert sorted(properties["patch:unneeded:evidence"]) == sorted(UNNEEDED.evidence)
    assert "patch:unneeded:commit" not in properties
    assert properties["patch:left-out:outcome"] == ["omitted"]
    assert properties["patch:left-out:reason"] == ["it is being bisected"]
    assert properties["patch:left-out:probe"] == ["defect"]
    assert [properties[f"patch:{patch.id}:order"] for patch in BILL.patches] == [["1"], ["2"], ["3"]]
    assert properties["patch:small-fix:diff:sha256"] == [hashlib.sha256(DIFF.encode()).hexdigest()]


def test_files_of_the_wheel_that_are_not_the_base_s_own() -> None:
    files = {item["name"]: item for item in read()["metadata"]["component"]["components"]}
    assert set(files) == {*NATIVE, "vllm/here.py"}  # tests/t.py is in the tree, and in no wheel
    assert files["vllm/spinloop.abi3.so"]["hashes"] == [{"alg": "SHA-256", "content": "5" * 64}]
    donated = files["vllm/here.py"]
    assert donated["hashes"][0]["content"] == "3" * 64
    [origin] = donated["pedigree"]["ancestors"]
    assert (origin["name"], origin["hashes"][0]["content"]) == ("vllm/new.py", "2" * 64)
    assert said(origin)["donor:release"] == ["1.3.0"] and said(origin)["donor:archive:sha256"] == ["1" * 64]


def test_stack_is_required_external_and_has_a_version_only_where_there_is_one() -> None:
    found = read()
    components = {item["name"]: item for item in found["components"]}
    assert {name: item.get("version") for name, item in components.items()} == {
        "torch": "2.12.0+xpu",
        "triton-xpu": "3.7.1",
        "vllm-xpu-kernels": None,
        "transformers": None,
    }
    assert {(item["scope"], item["isExternal"]) for item in components.values()} == {("required", True)}
    assert said(components["transformers"]) == {"specifier": [">=5.10,<5.15"]}
    assert said(found["metadata"]["component"])["stack:python"] == [">=3.10,<3.14"]
    [depends] = [item["dependsOn"] for item in found["dependencies"] if item["ref"] == ROOT]
    assert set(depends) == {item["bom-ref"] for item in components.values()}


def test_bytes_of_a_diff_that_are_not_utf_8_are_kept() -> None:
    raw = DIFF.encode("latin-1")
    entry = replace(FIX, diff=raw.decode("utf-8", "surrogateescape"))
    assert entry.diff_bytes == raw
    [patch] = read(replace(BILL, patches=(entry,)))["metadata"]["component"]["pedigree"]["patches"]
    assert patch["diff"]["text"]["encoding"] == "base64"
    assert base64.b64decode(patch["diff"]["text"]["content"]) == raw
    assert patch["diff"]["url"] == content_name(raw)


def test_times_come_from_the_epoch_and_numbers_from_the_content() -> None:
    found = read()
    assert found["metadata"]["timestamp"] == "2026-05-28T20:26:40+00:00"
    serials = {
        read(bill, native)["serialNumber"]
        for bill, native in [(BILL, NATIVE), (BILL, {}), (replace(BILL, tree="f" * 40), NATIVE), (BILL, NATIVE)]
    }
    assert len(serials) == 3 and found["serialNumber"] in serials


def test_order_of_mappings_does_not_matter() -> None:
    turned = replace(BILL, stack=dict(reversed(list(BILL.stack.items()))))
    assert document(turned, dict(reversed(list(NATIVE.items())))) == document(BILL, NATIVE)


@pytest.mark.parametrize("number", range(3))
def test_another_process_in_another_place_writes_the_same_bytes(number: int, tmp_path: Path) -> None:
    program = (
        "import sys\nfrom made_bill import BILL, NATIVE\nfrom patchset.wheel.sbom import document\n"
        "sys.stdout.buffer.write(document(BILL, NATIVE))\n"
    )
    here = Path(__file__)
    environment = {
        "PYTHONPATH": os.pathsep.join([str(here.parents[3]), str(here.parent)]),
        "PYTHONHASHSEED": str(number),
        "TZ": ["UTC", "Asia/Kathmandu", "America/St_Johns"][number],
        "LC_ALL": ["C", "C.UTF-8", "POSIX"][number],
        "HOME": str(tmp_path),
    }
    ended = subprocess.run(
        [sys.executable, "-B", "-c", program], cwd=tmp_path, env=environment, check=True, capture_output=True
    )
    assert ended.stdout == document(BILL, NATIVE)


@settings(deadline=None, max_examples=25)
@given(
    title=st.text(),
    reason=st.text(),
    url=st.from_regex(r"https://[^\s]+", fullmatch=True) | st.from_regex(r"https://h\.invalid/[!-~]+", fullmatch=True),
    path=st.from_regex(r"vllm/[a-z/_.]{1,20}", fullmatch=True),
)
def test_any_text_of_a_declaration_gives_a_valid_document(title: str, reason: str, url: str, path: str) -> None:
    def plain(text: str) -> str:
        return text.encode("utf-8", "replace").decode()

    fix = replace(FIX, title=plain(title), resolves=(Related(plain(url), plain(reason)),))
    omitted = (replace(BILL.omitted[0], reason=plain(reason)),)
    donated = replace(BACKPORT, donors=(replace(BACKPORT.donors[0], to=path),))
    found = read(replace(BILL, patches=(fix, donated), omitted=omitted), {})
    assert said(found["metadata"]["component"])["patch:small-fix:title"] == [plain(title)]


# -- from a recipe -----------------------------------------------------------------------------------------------------

RELEASES = {
    "1.0": {"vllm/a.py": b"broken\n", "vllm/b.py": b"b\n"},
    "1.1": {"vllm/a.py": b"whole\n", "vllm/b.py": b"b\n", "vllm/new.py": b"new = 1\n"},
}
BREAKS = (
    b"diff --git a/vllm/a.py b/vllm/a.py\nindex 3ddb1d9..63b0dbc 100644\n"
    b"--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -1 +1 @@\n-broken\n+whole\n"
)


def prove(step: Any, base: Verdict, patched: Verdict) -> Proof:
    findings = [Finding(step.patch, "", verdict, "torch 12.34.56 says so", (), False) for verdict in (base, patched)]
    return Proof(step, findings[0], findings[1], decide(step.outcome, *findings))


def test_bill_of_a_recipe(tmp_path: Path) -> None:
    donor = hashlib.sha256(RELEASES["1.1"]["vllm/new.py"]).hexdigest()
    variants = {
        "fix": ('[[variant]]\nreleases = "==1.0"\ndiff = "d.patch"\n', {"d.patch": BREAKS}),
        "gift": (
            '[[variant]]\nreleases = "==1.0"\n'
            f'donors = [{{ release = "1.1", path = "vllm/new.py", sha256 = "{donor}" }}]\n',
            {},
        ),
        "moot": ('[[variant]]\nreleases = ">=1.0,<=1.1"\nabsent = [{ file = "vllm/c.py" }]\n', {}),
    }
    project = write_project(tmp_path, RELEASES, variants, ["fix", "gift", "moot"])
    store = Store.open(project.workspace.store)
    resolved = resolve(project, project.recipe("r"), store, lambda text: None)
    verdicts = [(Verdict.DEFECT, Verdict.SOUND)] * 2 + [(Verdict.ABSENT, Verdict.ABSENT)]
    proofs = [prove(step, *pair) for step, pair in zip(resolved.applied.steps, verdicts, strict=True)]
    exposed = Exposure("moot", "because", Finding("moot", "", Verdict.UNKNOWN, "torch 12.34.56", (), False))
    bill = bill_of(project, resolved, proofs, [exposed], store)
    assert (bill.version, bill.tree, bill.sha256) == (resolved.version, resolved.applied.tree, resolved.release.sha256)
    assert [(entry.id, entry.applied, entry.outcome) for entry in bill.patches] == [
        ("fix", True, "applies"),
        ("gift", True, "applies"),
        ("moot", False, "absent"),
    ]
    assert bill.patches[0].diff_bytes == BREAKS
    [given_file] = bill.patches[1].donors
    assert given_file.sha256 == given_file.result == donor
    assert given_file.archive_sha256 == project.upstreams["vllm"].release("1.1").sha256
    data = document(bill, {})
    assert VALIDATOR.validate_str(data.decode()) is None
    assert b"12.34.56" not in data and str(tmp_path).encode() not in data


OWN, OTHER = "https://host.invalid/vllm/pull/1", "https://host.invalid/vllm-xpu-kernels/pull/1"


@pytest.mark.parametrize(
    ("kind", "url", "first", "expected", "resolved"),
    [
        ("backport", OWN, None, "backport", 1),
        ("fix", OWN, "1.2", "backport", 1),
        ("fix", OWN, "1.1", "unofficial", 0),  # the base has it already: it is not what is missing there
        ("fix", OTHER, "1.2", "unofficial", 1),  # in a later release by what that pins, not by its own code
        ("fix", OWN, None, "unofficial", 1),
        ("workaround", OWN, "1.2", "unofficial", 1),
    ],
)
@pytest.mark.parametrize("end", ["", "/", ".git", ".git/"])
def test_type_of_a_patch(
    patch_folder: Callable[..., Path], kind: str, url: str, first: str | None, expected: str, resolved: int, end: str
) -> None:
    folder = patch_folder("")
    reference = Reference(url, "w", "merged" if first else "open", first)
    date = datetime(2026, 1, 1, tzinfo=timezone.utc)
    patch = Patch("p", "t", "w", kind, date, "d", (), (reference,), (), folder / "probe.py", folder)
    assert patch_type(patch, "1.1", f"https://host.invalid/vllm{end}") == expected
    assert len(missing_references(patch, "1.1")) == resolved
