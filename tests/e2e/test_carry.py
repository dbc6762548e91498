"""The first job of a user, typed: what does the new release do to my patches, and get me there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Inv
from jsonschema import Draft202012Validator
from packaging.version import Version

from patchset import rewrite
from patchset.forecast import SCHEMA
from patchset.patch import covered, read_patches
from patchset.workspace import VENDOR_VARIABLE, Workspace

MAMBA = "mamba-uint64-pointers"


def files_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below *folder* with its bytes and the time it was written."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def test_forecast_of_every_release_as_a_table_a_document_and_a_page(inv: Inv, clone: Path) -> None:
    typed = inv("forecast", "--json", "--html", "forecast.html")
    assert typed.status == 0, typed.err
    document = typed.json
    Draft202012Validator(json.loads(SCHEMA.read_bytes())).validate(document)
    assert len(document["releases"]) == 20 and len(document["cells"]) == 80
    assert "<table" in (clone / "forecast.html").read_text("utf-8")
    table = inv("forecast", "--releases", "0.22..0.24", "--patch", MAMBA).out
    assert re.search(r"0\.23\.0 +applies", table) and "0.25.0" not in table


def test_bump_ends_in_a_recipe_that_runtime_accepts(inv: Inv, clone: Path) -> None:
    """Forward, where three of four are retired; backward, and by name: tests/real/apart/test_bump.py."""
    name, retired = "carried", [MAMBA, "gemma4-unified", "cached-tokens-zero"]
    words = ["bump", "-r", "b70-0.23", "--to", "0.30.0", "--json", "--name", name]
    bumped = inv(*words)
    assert bumped.status == 0, bumped.err + bumped.out
    assert [item["patch"] for item in bumped.json["series"] if item["retired"]] == retired
    assert sorted(bumped.json["written"]) == ["recipes/PATCHES.md", f"recipes/{name}.lock", f"recipes/{name}.toml"]
    made = inv("runtime", "-r", name, "--json")
    assert made.status == 0, made.err + made.out
    assert made.json["tree"] == bumped.json["tree"] and made.json["runtime"].startswith("0.30.0+xpu.")
    assert inv(*words).json["written"] == []


@pytest.fixture
def cut(clone: Path) -> Path:
    """The clone of somebody whose patches end at 0.23.0: every later variant has to be found or made."""
    for file in (clone / "recipes" / "patches").glob("*/patch.toml"):
        text = file.read_text("utf-8")
        for name in re.findall(r'^releases = "(.*)"$', text, re.MULTILINE):
            if rewrite.lower_bound(name) > Version("0.23.0"):
                text = rewrite.remove_variant(text, name)
            elif rewrite.upper_bound(name) > Version("0.23.0"):
                text = rewrite.set_range(text, name, rewrite.closed_range(str(rewrite.lower_bound(name)), "0.23.0"))
        file.write_text(text, encoding="utf-8")
        for diff in file.parent.glob("*.patch"):
            if f'"{diff.name}"' not in text:
                diff.unlink()
    for file in (clone / "recipes").glob("b70-*"):
        if "0.23" not in file.name:
            file.unlink()
    return clone


def resolve_as_we_did(project: object, store: object, clone: Path, release: str, waiting: dict) -> None:
    """Put what this project's own variant for *release* makes of the files in conflict into the checkout."""
    from patchset import series

    bases = project.bases(store)  # type: ignore[attr-defined]
    tree = bases.tree(release)
    for patch in (MAMBA, "gemma4-unified", "cached-tokens-zero", "mtp-boundary"):
        patch = project.patches[patch]  # type: ignore[attr-defined]
        step = series.apply_patch(store, tree, "", patch, patch.variant_for(release), bases.donor_file)  # type: ignore[arg-type]
        tree = step.tree
        if patch.id == waiting["waits_for"]:
            break
    directory = Path(waiting["checkout"])
    for path in step.touched:
        (directory / path).write_bytes(store.read(tree, path) or b"")  # type: ignore[attr-defined]


def test_planted_conflict_is_resolved_killed_and_gone_on_with(
    inv: Inv, cut: Path, workspace: Workspace, project: object, store: object
) -> None:
    before = files_of(cut / "recipes")
    stopped = inv("bump", "--to", "0.24.0", "--json")
    assert stopped.status == 7, stopped.err
    assert stopped.json["waits_for"] == MAMBA and stopped.json["files"] == ["vllm/v1/worker/mamba_utils.py"]
    refused = inv("bump", "--continue")
    assert refused.status == 14 and "conflict markers are left" in refused.err and "mamba_utils.py:" in refused.err
    assert files_of(cut / "recipes") == before
    asked = []
    while stopped.status == 7:
        asked.append(stopped.json["waits_for"])
        resolve_as_we_did(project, store, cut, "0.24.0", stopped.json)
        for moment in (0.4, 1.2):  # killed, twice, on its way
            child = subprocess.Popen(
                [str(cut / "inv"), "bump", "--continue", "--json"],
                cwd=cut,
                env={**os.environ, VENDOR_VARIABLE: str(workspace.vendor)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            time.sleep(moment)
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            if inv("bump", "--status", "--json").json["under_way"]:
                assert files_of(cut / "recipes") == before
        if not inv("bump", "--status", "--json").json["under_way"]:
            break
        stopped = inv("bump", "--continue", "--json")
    assert asked == [MAMBA, "mtp-boundary"]
    recipe = cut / "recipes" / "b70-0.24.toml"
    assert recipe.is_file() and recipe.with_suffix(".lock").is_file()
    patches = read_patches(cut / "recipes" / "patches", project.upstreams["vllm"])  # type: ignore[attr-defined]
    assert all("0.24.0" in covered(patch, dict.fromkeys(["0.24.0"])) for patch in patches.values())
    applied = inv("apply", "-r", "b70-0.24", "--json").json
    assert [step["outcome"] for step in applied["series"]] == ["applies", "upstream", "upstream", "applies"]


def test_abort_leaves_everything_byte_identical(inv: Inv, cut: Path) -> None:
    before = files_of(cut / "recipes")
    assert inv("bump", "--to", "0.24.0").status == 7
    assert inv("bump", "--abort").status == 0
    assert files_of(cut / "recipes") == before
    assert not list((cut / "work").glob("bump-*"))
    assert inv("bump", "--continue").status == 3


def test_patch_is_edited_exported_and_the_series_still_goes_in(inv: Inv, clone: Path) -> None:
    before = files_of(clone / "recipes")
    opened = inv("edit", MAMBA, "--json").json
    assert inv("export", "--check").status == 0
    assert files_of(clone / "recipes") == before
    file = Path(opened["checkout"]) / "vllm/v1/worker/mamba_utils.py"
    text = file.read_text("utf-8")
    file.write_text(text.replace("def _signed_address", "# Edited by hand.\ndef _signed_address"), encoding="utf-8")
    refused = inv("export")
    assert refused.status == 14 and "--amend" in refused.err
    who = ["-c", "user.name=p", "-c", "user.email=p@h"]
    subprocess.run(["git", *who, "commit", "-qa", "--amend", "--no-edit"], cwd=opened["checkout"], check=True)
    assert inv("export", "--check").status == 7
    exported = inv("export", "--json").json
    assert [item["patch"] for item in exported["exported"]] == [MAMBA]
    assert inv("apply").status == 0
    assert inv("runtime").status == 11  # the lock is of the patch as it was
    assert inv("lock").status == 0
    # 0.22.1 is in the same variant's range, so its lock is of the patch as it was, too
    stale = inv("lint", "--json").json["findings"]
    assert [Path(item["where"]).name for item in stale if item["severity"] == "error"] == ["b70-0.22.lock"]
    assert inv("lock", "-r", "b70-0.22").status == 0
    assert inv("lint").status == 0
