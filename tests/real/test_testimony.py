"""What this clone's recipes say of their wheels: the bill of materials is enough to make the patched tree again."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from patchset.probe import Finding, Verdict, decide
from patchset.proof import Proof
from patchset.resolve import Project, Resolved, resolve
from patchset.series import Outcome
from patchset.store import Entry, Store
from patchset.wheel.bill import Bill, bill_of
from patchset.wheel.requires import CONFLICT, NOTE, has_gemma4, requirement_findings
from patchset.wheel.sbom import NAMESPACE, document

RECIPES = ("b70-0.22", "b70-0.23", "b70-0.26", "b70-0.33")
#: (on the base, on the patched tree), as the probes say it; they themselves are run by test_patches.
VERDICTS = {
    Outcome.APPLIES: (Verdict.DEFECT, Verdict.SOUND),
    Outcome.MERGES: (Verdict.DEFECT, Verdict.SOUND),
    Outcome.UPSTREAM: (Verdict.SOUND, Verdict.SOUND),
    Outcome.ABSENT: (Verdict.ABSENT, Verdict.ABSENT),
}


@pytest.fixture(scope="module", params=RECIPES)
def resolved(request: pytest.FixtureRequest, project: Project, store: Store) -> Resolved:
    return resolve(project, project.recipe(request.param), store, lambda text: None)


@pytest.fixture(scope="module")
def bill(project: Project, store: Store, resolved: Resolved) -> Bill:
    proofs = []
    for step in resolved.applied.steps:
        base, patched = (Finding(step.patch, "", v, "of a laboratory", (), False) for v in VERDICTS[step.outcome])
        proofs.append(Proof(step, base, patched, decide(step.outcome, base, patched)))
    return bill_of(project, resolved, proofs, (), store)


@pytest.fixture(scope="module")
def component(bill: Bill) -> dict[str, Any]:
    data = document(bill, {})
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(data.decode()) is None
    assert b"of a laboratory" not in data
    return json.loads(data)["metadata"]["component"]


def test_bill_is_enough_to_make_the_patched_tree_again(
    component: dict[str, Any], resolved: Resolved, store: Store, base_of: Callable[[str], str]
) -> None:
    properties = [(item["name"].removeprefix(f"{NAMESPACE}:"), item["value"]) for item in component["properties"]]
    said = dict(properties)
    texts = {}
    for patch in component["pedigree"].get("patches", []):
        data = patch["diff"]["text"]["content"].encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        assert patch["diff"]["url"] == f"ni:///sha-256;{digest}"
        texts[patch["diff"]["url"]] = data
    [ancestor] = component["pedigree"]["ancestors"]
    tree = base_of(ancestor["version"])
    assert tree in {item["value"] for item in ancestor["properties"]}
    donors = {item["name"]: item["pedigree"]["ancestors"][0] for item in component.get("components", [])}
    ids = {name.split(":")[1]: int(value) for name, value in properties if name.endswith(":order")}
    for patch in sorted(ids, key=lambda name: ids[name]):
        if said[f"patch:{patch}:applied"] == "false":
            assert said[f"patch:{patch}:outcome"] in ("upstream", "absent") and said[f"patch:{patch}:reason"]
            continue
        for to in [value.partition(" from ")[0] for name, value in properties if name == f"patch:{patch}:donor"]:
            origin = donors[to]
            release = next(i["value"] for i in origin["properties"] if i["name"].endswith(":donor:release"))
            data = store.read(base_of(release), origin["name"]) or b""
            assert hashlib.sha256(data).hexdigest() == origin["hashes"][0]["content"]
            tree = store.with_file(tree, to, Entry("100644", store.write_blob(data)))
        after, errors = store.apply(tree, texts.pop(said[f"patch:{patch}:diff"]))
        assert after == said[f"patch:{patch}:tree"], errors
        tree = after
    assert (tree, texts) == (resolved.applied.tree, {}) and said["tree"] == tree


def test_types_of_the_patches(bill: Bill) -> None:
    """What a later vLLM has is a backport; the boundary was fixed in the kernels, so that one is ours."""
    applied = {entry.id: entry.type for entry in bill.patches if entry.applied}
    assert applied == {name: "unofficial" if name == "mtp-boundary" else "backport" for name in applied}


def test_what_pip_would_do_to_the_stack(resolved: Resolved, store: Store, base_of: Callable[[str], str]) -> None:
    """Of the requirements that the release's own files give its wheel."""
    tree = base_of(resolved.release.version)
    lines = []
    for name in ("xpu", "common"):
        text = (store.read(tree, f"requirements/{name}.txt") or b"").decode()
        lines += [line.partition(" #")[0].strip() for line in text.splitlines() if not line.startswith(("#", "-"))]
    requires = [line for line in lines if line and not line.startswith("-")]
    found = requirement_findings(requires, resolved.recipe.stack, gemma4=has_gemma4(resolved.applied.steps))
    severities: dict[str, set[str]] = {CONFLICT: set(), NOTE: set()}
    for finding in found:
        severities[finding.severity].add(finding.requirement.partition(" ")[0].partition("<")[0].partition("=")[0])
    expected = {"torchaudio", "torchvision"}
    if resolved.release.version != "0.33.0":  # there a shim named triton is required, and transformers has both bounds
        expected |= {"xgrammar", "transformers"}
    conflicts = {name.rstrip(">") for name in severities[CONFLICT]}
    assert expected <= conflicts <= expected | {"torchcodec"}
    assert "torch" in severities[NOTE]
