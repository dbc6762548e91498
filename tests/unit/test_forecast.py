"""Patch × release on a project of its own: outcomes in order, verdicts beside them, and nothing dropped or assumed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from made_project import write_project

from patchset import forecast_table
from patchset.console import Console
from patchset.errors import DeclarationError
from patchset.forecast import SCHEMA, forecast, questions, text_pass
from patchset.lab import Lab, identity
from patchset.proof import ask
from patchset.resolve import Project
from patchset.store import Store

LINES = b"".join(b"line %d\n" % n for n in range(40))
BROKEN = LINES.replace(b"line 20\n", b"broken = 1\n")
WHOLE = LINES.replace(b"line 20\n", b"whole = 1\n")
REWRITTEN = b"".join(b"row %d\n" % n if n != 20 else b"broken = 1\n" for n in range(40))
MOVED = b"# head\n" * 3 + BROKEN

VARIANT = """
[[variant]]
releases = ">=0.20.0,<=0.21.0"
diff = "a.patch"

[[variant]]
releases = "==0.24.0"
upstream = [{ file = "a.py", line = "whole = 1" }]
note = "fixed by u#1"
"""


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """pip's configuration names an index that has nothing."""
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    monkeypatch.delenv("PATCHSET_LAB_PYTHON", raising=False)


@pytest.fixture
def project(tmp_path: Path, diff: Callable[..., bytes]) -> Project:
    """One patch: it applies to 0.20.0 and, with an offset, 0.21.0; conflicts with 0.22.0 and 0.23.0; is in 0.24.0."""
    releases = {"0.20.0": BROKEN, "0.21.0": MOVED, "0.22.0": REWRITTEN, "0.23.0": REWRITTEN, "0.24.0": WHOLE}
    patches = {"mend": (VARIANT, {"a.patch": diff(BROKEN, WHOLE)})}
    return write_project(tmp_path / "clone", {r: {"a.py": data} for r, data in releases.items()}, patches, ["mend"])


def run(project: Project, **more: Any) -> dict[str, Any]:
    document = forecast(project, project.recipe("r"), Console(as_json=True), **more)
    Draft202012Validator(json.loads(SCHEMA.read_bytes())).validate(json.loads(json.dumps(document)))
    return document


def column(document: Mapping[str, Any], patch: str = "mend") -> dict[str, str]:
    return {cell["release"]: cell["outcome"] for cell in document["cells"] if cell["patch"] == patch}


def know_verdicts(project: Project, tmp_path: Path) -> None:
    """Run this project's probes, which need no torch, and keep what they say as the laboratory's own."""
    store = Store.open(project.workspace.store)
    bases = project.bases(store)
    trees = {release: bases.tree(release) for release in project.upstreams["vllm"].releases}
    cells, _ = text_pass(store, bases, trees, project.series_of(project.recipe("r")))
    lab = Lab(Path(sys.executable), identity())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ask(questions(cells), store, lab, cache=project.workspace.cache, scratch=scratch)


def test_schema_is_strict_and_a_schema() -> None:
    schema = json.loads(SCHEMA.read_bytes())
    Draft202012Validator.check_schema(schema)
    objects = [schema, *schema["$defs"].values()]
    assert all(item["additionalProperties"] is False for item in objects if "properties" in item)
    assert all(set(item["required"]) == set(item["properties"]) for item in objects if "properties" in item)


def test_each_release_gets_its_outcome_variant_and_evidence(project: Project) -> None:
    document = run(project)
    assert column(document) == {
        "0.20.0": "applies",
        "0.21.0": "applies",
        "0.22.0": "conflicts",
        "0.23.0": "conflicts",
        "0.24.0": "upstream",
    }
    cells = {cell["release"]: cell for cell in document["cells"]}
    assert [cell["covered"] for cell in document["cells"]] == [True, True, False, False, True]
    assert [hunk["offset"] for hunk in cells["0.21.0"]["hunks"]] == [3]
    assert (cells["0.21.0"]["hunks"][0]["state"], cells["0.22.0"]["hunks"][0]["state"]) == ("fits", "lost")
    assert cells["0.22.0"]["variant"] == ">=0.20.0,<=0.21.0"
    assert cells["0.22.0"]["first_broken"] == "0.22.0"
    assert cells["0.22.0"]["conflicts"][0]["path"] == "a.py"
    assert "broken = 1" in cells["0.22.0"]["conflicts"][0]["ours"]
    assert "fixed by u#1" in cells["0.24.0"]["evidence"]


def test_nearest_variant_s_evidence_is_looked_for_and_not_assumed(project: Project) -> None:
    # 0.23.0 is nearest to 0.24.0, whose variant says "fixed upstream": its line is not there, so that is not said
    cell = next(cell for cell in run(project)["cells"] if cell["release"] == "0.23.0")
    assert (cell["variant"], cell["outcome"], cell["state"]) == ("==0.24.0", "conflicts", None)
    assert "the fix is not where patch.toml says it is" in cell["evidence"][0]


def test_nothing_is_run_or_installed_unless_asked_and_that_is_said(project: Project) -> None:
    document = run(project)
    assert not project.workspace.environments.exists() and not project.workspace.cache.exists()
    assert document["summary"] == {"cells": 5, "agree": 0, "disagree": 0, "not_run": 5, "stops": 2}
    assert {cell["probe"]["not_run"] for cell in document["cells"]} == {
        "no verdict is kept for this probe on this tree"
    }
    assert {cell["agree"] for cell in document["cells"]} == {cell["state"] for cell in document["cells"]} == {None}
    assert document["seconds"]["probes"] == 0.0


def test_known_verdicts_are_read_without_a_laboratory(project: Project, tmp_path: Path) -> None:
    know_verdicts(project, tmp_path)
    document = run(project)
    assert not project.workspace.environments.exists()
    assert document["summary"] == {"cells": 5, "agree": 5, "disagree": 0, "not_run": 0, "stops": 2}
    cells = {cell["release"]: cell for cell in document["cells"]}
    assert [cell["state"] for cell in document["cells"]] == ["needed"] * 4 + ["fixed"]
    assert cells["0.20.0"]["probe"]["base"]["verdict"] == "defect"
    assert cells["0.20.0"]["probe"]["patched"]["verdict"] == "sound"
    assert cells["0.20.0"]["probe"]["patched"]["tree"] == cells["0.20.0"]["tree"]
    assert cells["0.24.0"]["probe"]["patched"] is None and cells["0.24.0"]["probe"]["not_run"] == ""
    assert cells["0.20.0"]["so"] == "needed; applied and proved"
    assert cells["0.22.0"]["so"].startswith("needed, and not applied: no variant covers this release")


def test_disagreement_is_loud(tmp_path: Path, diff: Callable[..., bytes], capsys: pytest.CaptureFixture[str]) -> None:
    """The diff applies, and its probe finds nothing wrong on the base."""
    variant = '[[variant]]\nreleases = ">=0.20.0,<=0.21.0"\ndiff = "a.patch"\n'
    files = {"0.20.0": {"a.py": LINES, "b.py": b"whole\n"}, "0.21.0": {"a.py": LINES, "b.py": b"whole\n"}}
    patches = {"mend": (variant, {"a.patch": diff(LINES, WHOLE)})}
    project = write_project(tmp_path / "clone", files, patches, ["mend"])
    know_verdicts(project, tmp_path)
    document = run(project)
    assert document["summary"]["disagree"] == 2
    assert document["cells"][0]["so"].startswith("the text says applies, but on the base its probe says sound")
    capsys.readouterr()
    forecast_table.show(Console(), document)
    out = capsys.readouterr().out
    assert "applies ≠ sound→sound" in out
    assert "mend on 0.20.0 to 0.21.0: DISAGREEMENT: the text says applies" in out
    assert "2 where they do not" in out


def test_patches_are_tried_in_order_each_on_the_tree_before_it(tmp_path: Path, diff: Callable[..., bytes]) -> None:
    middle = BROKEN.replace(b"line 19\n", b"line 19, changed\n")
    first = '[[variant]]\nreleases = "==0.20.0"\ndiff = "a.patch"\n'
    second = '[[variant]]\nreleases = ">=0.20.0,<=0.21.0"\ndiff = "a.patch"\n'
    patches = {
        "one": (first, {"a.patch": diff(BROKEN, middle)}),
        "two": (second, {"a.patch": diff(middle, WHOLE.replace(b"line 19\n", b"line 19, changed\n"))}),
        "three": (second, {"a.patch": diff(BROKEN, BROKEN.replace(b"line 19\n", b"line 19, otherwise\n"))}),
    }
    files = {"0.20.0": {"a.py": BROKEN}, "0.21.0": {"a.py": BROKEN.replace(b"line 18\n", b"other\n")}}
    project = write_project(tmp_path / "clone", files, patches, ["one", "two", "three"])
    document = run(project)
    assert column(document, "two")["0.20.0"] == "applies"
    # 'three' goes in on the base, and not after the two before it: it is tried all the same, and told why
    last = next(cell for cell in document["cells"] if (cell["patch"], cell["release"]) == ("three", "0.20.0"))
    assert last["outcome"] == "conflicts" and last["first_broken"] is None
    assert last["evidence"][-1] == "on the untouched base it goes in: a patch before it in the series is in its way"
    before = next(cell for cell in document["cells"] if (cell["patch"], cell["release"]) == ("two", "0.20.0"))
    assert last["tree"] == before["tree"]  # a patch that stops leaves the tree as it was


def test_one_patch_only_is_shown_and_the_series_is_still_applied(tmp_path: Path, diff: Callable[..., bytes]) -> None:
    middle = BROKEN.replace(b"line 19\n", b"line 19, changed\n")
    variant = '[[variant]]\nreleases = "==0.20.0"\ndiff = "a.patch"\n'
    patches = {
        "one": (variant, {"a.patch": diff(BROKEN, middle)}),
        "two": (variant, {"a.patch": diff(middle, middle.replace(b"broken", b"whole"))}),
    }
    project = write_project(tmp_path / "clone", {"0.20.0": {"a.py": BROKEN}}, patches, ["one", "two"])
    document = run(project, patch="two")
    assert [(cell["patch"], cell["outcome"]) for cell in document["cells"]] == [("two", "applies")]
    assert [patch["id"] for patch in document["patches"]] == ["two"]
    with pytest.raises(DeclarationError, match="has no patch 'three' in its series") as caught:
        run(project, patch="three")
    assert "one, two" in caught.value.what


def test_range_chooses_the_releases(project: Project) -> None:
    document = run(project, releases="0.21..0.22")
    assert [release["release"] for release in document["releases"]] == ["0.21.0", "0.22.0"]
    assert list(column(document)) == ["0.21.0", "0.22.0"]
    with pytest.raises(DeclarationError, match="names no known release"):
        run(project, releases="0.34")


def test_release_that_cannot_be_had_is_named_with_why_and_never_dropped(
    tmp_path: Path, diff: Callable[..., bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    patches = {"mend": (VARIANT, {"a.patch": diff(BROKEN, WHOLE)})}
    files = {release: {"a.py": BROKEN} for release in ("0.20.0", "0.21.0", "0.22.0", "0.24.0")}
    project = write_project(tmp_path / "clone", files, patches, ["mend"], without=["0.21.0", "0.22.0"])
    document = run(project)
    assert list(column(document)) == ["0.20.0", "0.24.0"]
    assert [item["release"] for item in document["unavailable"]] == ["0.21.0", "0.22.0"]
    assert "not tried after 0.21.0 could not be had" in document["unavailable"][1]["why"]
    assert document["unavailable"][1]["next"] == "./inv forecast --releases 0.22.0"
    asked = run(project, releases="0.21..0.22")
    assert asked["cells"] == [] and [item["release"] for item in asked["unavailable"]] == ["0.21.0", "0.22.0"]
    assert "not tried" not in asked["unavailable"][1]["why"]  # it was asked for by name, so it was tried
    forecast_table.show(Console(), document)
    out = capsys.readouterr().out
    assert "not forecast  0.21.0: " in out and "not forecast  0.22.0: " in out


def test_release_whose_donor_cannot_be_had_is_not_forecast(tmp_path: Path, diff: Callable[..., bytes]) -> None:
    donor = f'donors = [{{ release = "0.24.0", path = "a.py", sha256 = "{"ab" * 32}", to = "new.py" }}]'
    patches = {
        "give": (
            f'[[variant]]\nreleases = "==0.20.0"\n{donor}\n\n[[variant]]\nreleases = "==0.21.0"\nabsent = [{{ file = "z" }}]\n',
            {},
        )
    }
    files = {release: {"a.py": BROKEN} for release in ("0.20.0", "0.21.0", "0.24.0")}
    project = write_project(tmp_path / "clone", files, patches, ["give"], without=["0.24.0"])
    document = run(project, releases="0.20..0.21")
    assert column(document, "give") == {"0.21.0": "absent"}
    assert [(item["release"], "a donor is missing" in item["why"]) for item in document["unavailable"]] == [
        ("0.20.0", True)
    ]
    assert [release["release"] for release in document["releases"]] == ["0.21.0"]


def test_stack_changes_stand_at_the_release_that_makes_them(tmp_path: Path, diff: Callable[..., bytes]) -> None:
    newer = {"requirements/xpu.txt": b"torch==2.14.0+xpu\ntriton==3.8.0+xpu\nvllm_xpu_kernels==0.1.15.4\n"}
    odd = {"requirements/xpu.txt": b"nothing\n"}
    files = {
        "0.20.0": {"a.py": BROKEN},
        "0.21.0": {"a.py": BROKEN, **newer},
        "0.22.0": {"a.py": BROKEN, **newer},
        "0.23.0": odd,
    }
    patches = {
        "mend": ('[[variant]]\nreleases = ">=0.20.0,<=0.23.0"\ndiff = "a.patch"\n', {"a.patch": diff(BROKEN, WHOLE)})
    }
    project = write_project(tmp_path / "clone", files, patches, ["mend"])
    first, second, third, last = run(project)["releases"]
    assert first["changes"] == [] and first["stack"]["torch"] == "==2.13.0+xpu"
    assert {item["name"]: (item["from"], item["to"]) for item in second["changes"]} == {
        "torch": ("==2.13.0+xpu", "==2.14.0+xpu"),
        "triton": ("==3.7.2+xpu", "==3.8.0+xpu"),
        "vllm-xpu-kernels": ("==0.1.13.2", "==0.1.15.4"),
    }
    assert "the pointer rule flips" in next(item["meaning"] for item in second["changes"] if item["name"] == "torch")
    assert third["changes"] == []
    assert last["stack"] == {} and "could not be read" in last["changes"][0]["meaning"]
    # a later release alone is compared with what the recipe itself runs beside
    alone = run(project, releases="0.21")["releases"][0]
    assert ("torch", "==2.12.0+xpu", "==2.14.0+xpu") in [(c["name"], c["from"], c["to"]) for c in alone["changes"]]


def test_same_input_gives_the_same_document(project: Project) -> None:
    first, second = run(project), run(project)
    for document in (first, second):
        document.pop("made"), document.pop("seconds")
    assert first == second


def test_table_fits_a_hundred_columns_however_many_patches_there_are(
    tmp_path: Path, diff: Callable[..., bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    diff = diff(BROKEN, WHOLE)
    variant = '[[variant]]\nreleases = "==0.20.0"\ndiff = "a.patch"\n'
    names = [f"patch-with-a-longish-name-{number}" for number in range(9)]
    project = write_project(
        tmp_path / "clone", {"0.20.0": {"a.py": BROKEN}}, {name: (variant, {"a.patch": diff}) for name in names}, names
    )
    document = run(project)
    capsys.readouterr()
    forecast_table.show(Console(), document)
    out = capsys.readouterr().out
    table = out.split("✓  proved")[0]
    assert all(name in table for name in names)
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 100
    assert "next: ./inv forecast -r r --releases 0.20.0 --probes" in out
