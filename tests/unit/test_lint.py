"""Each rule finds what it is for, with its place; a clean project has no findings; what was not looked at is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_project import write_project

from patchset import lint, newpatch, resolve
from patchset.errors import LintError
from patchset.resolve import Project
from patchset.store import Store

LINES = b"".join(b"line_%d = %d\n" % (n, n) for n in range(40))
NEW = LINES.replace(b"line_20 = 20\n", b"twenty = 20\n")
WHY = 'why = "A request of eight words or more fails without this patch."\n'


@pytest.fixture
def project(tmp_path: Path, bench: Store, make_tree: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Project:
    """Two releases, both here; one patch for both; its lock and page are up to date."""
    monkeypatch.delenv("PATCHSET_VENDOR", raising=False)
    data = bench.diff(make_tree({"a.py": LINES}), make_tree({"a.py": NEW}))
    variants = '\n[[variant]]\nreleases = ">=0.20.0,<=0.21.0"\ndiff = "a.patch"\n'
    releases = {"0.20.0": {"a.py": LINES}, "0.21.0": {"a.py": b"# head\n" + LINES}}
    made = write_project(tmp_path / "clone", releases, {"mend": (variants, {"a.patch": data})}, ["mend"])
    toml = made.patches["mend"].folder / "patch.toml"
    toml.write_text(toml.read_text().replace('why = "w"\n', WHY))
    made = Project.read(made.workspace)
    bases = made.bases(Store.open(made.workspace.store))
    for release in releases:
        bases.tree(release)
    relock(made)
    lint.lint(made.workspace, write=True)
    return made


def relock(project: Project) -> None:
    now = Project.read(project.workspace)
    resolve.relock(now, now.recipe("r"), lambda text: None)


def found(project: Project) -> list[tuple[str, str, str]]:
    """(severity, rule, end of where) of every finding."""
    report = lint.lint(project.workspace)
    root = str(project.workspace.root) + "/"
    assert all(item.what and item.next for item in report.findings)
    return [(item.severity, item.rule, item.where.replace(root, "")) for item in report.findings]


def edit(project: Project, name: str, old: str, new: str) -> None:
    file = project.workspace.root / "recipes" / name
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


TOML = "patches/mend/patch.toml"


def test_clean_project_has_no_findings(project: Project) -> None:
    report = lint.lint(project.workspace)
    assert (report.findings, report.not_checked) == ((), ())
    lint.require(report)


@pytest.mark.parametrize(
    ("name", "old", "new", "finding"),
    [
        (TOML, WHY, 'why = "It is broken."\n', ("error", "reasons", f"recipes/{TOML}")),
        (TOML, 'drop-when = "d"', f'drop-when = "{newpatch.NOBODY_SAID}"', ("error", "reasons", f"recipes/{TOML}")),
        (TOML, "drop-when", 'requires = ["gone"]\ndrop-when', ("error", "requires", f"recipes/{TOML}")),
        (TOML, ">=0.20.0,<=0.21.0", "==0.20.0", ("warning", "gap", f"recipes/{TOML}")),
        ("patches/mend/a.patch", "+twenty = 20\n", "+twenty = 20  \n", ("error", "blanks", "mend/a.patch:10")),
        ("patches/mend/probe.py", "import json", "import json\ndef f(:", ("error", "probe", "recipes/patches/mend/probe.py:2")),
        ("patches/mend/probe.py", "import json", f"import json  # {newpatch.UNWRITTEN}", ("error", "probe", "recipes/patches/mend/probe.py")),
        (TOML, 'title = "T"', 'title = "U"', ("error", "page", "recipes/PATCHES.md")),
        (TOML, 'title = "T"', 'title = "U"', ("error", "lock", "recipes/r.lock")),
        ("r.lock", 'recipe = "r"', 'recipe = "s"', ("error", "lock", "recipes/r.lock")),
    ],
)  # fmt: skip
def test_each_rule_finds_what_it_is_for(
    name: str, old: str, new: str, finding: tuple[str, str, str], project: Project
) -> None:
    edit(project, name, old, new)
    assert finding in found(project)


def test_every_declaration_that_cannot_be_read_is_told_and_the_rest_is_said_to_be_not_checked(project: Project) -> None:
    edit(project, TOML, 'kind = "fix"', 'kind = "other"')
    folder = project.workspace.patches / "second"
    folder.mkdir()
    (folder / "patch.toml").write_text("title = 1\n")
    report = lint.lint(project.workspace)
    assert [item.rule for item in report.findings] == ["declaration", "declaration"]
    assert [item.rule for item in report.not_checked] == ["trees"]
    with pytest.raises(LintError, match="2 errors, the first: kind = 'other'"):
        lint.require(report)


def test_recipe_that_cannot_be_read_is_told(project: Project) -> None:
    edit(project, "r.toml", 'label = "b70"', 'label = "B70"')
    assert ("error", "declaration", "recipes/r.toml:12") in found(project)


def test_gap_inside_the_releases_is_an_error(tmp_path: Path, project: Project) -> None:
    variants = '\n[[variant]]\nreleases = "==0.20.0"\nabsent = [{ file = "x" }]\n\n[[variant]]\nreleases = "==0.22.0"\nabsent = [{ file = "x" }]\n'
    releases = {f"0.2{n}.0": {"a.py": LINES + b"#" * n} for n in range(3)}
    made = write_project(tmp_path / "other", releases, {"mend": (variants, {})}, ["mend"])
    assert ("error", "gap", "recipes/patches/mend/patch.toml") in found(made)


def test_hunk_that_fits_twice_on_one_release_of_the_range(
    tmp_path: Path, bench: Store, make_tree: Callable[..., str]
) -> None:
    data = bench.diff(make_tree({"a.py": LINES}), make_tree({"a.py": NEW}))
    variants = '\n[[variant]]\nreleases = ">=0.20.0,<=0.22.0"\ndiff = "a.patch"\n'
    releases = {"0.20.0": {"a.py": LINES}, "0.21.0": {"a.py": LINES * 2}, "0.22.0": {"a.py": b"other = 1\n"}}
    made = write_project(tmp_path / "other", releases, {"mend": (variants, {"a.patch": data})}, ["mend"])
    bases = made.bases(Store.open(made.workspace.store))
    bases.tree("0.20.0"), bases.tree("0.21.0")
    report = lint.lint(made.workspace)
    (twice,) = [item for item in report.findings if item.rule == "unique"]
    assert "on 0.21.0" in twice.where and "fits at lines 18, 58" in twice.what
    assert [item.what for item in report.not_checked if item.rule == "trees"] == ["the patches on 0.22.0"]
    bases.tree("0.22.0")
    assert any(item.rule == "trees" and "on 0.22.0" in item.where for item in lint.lint(made.workspace).findings)


def test_diff_that_the_reader_refuses_is_an_error(project: Project) -> None:
    edit(project, "patches/mend/a.patch", "--- a/a.py", "--- a/b.py")
    assert ("error", "diff") in [item[:2] for item in found(project)]
    assert "page" in [item.rule for item in lint.lint(project.workspace).not_checked]


def test_damaged_resolution_is_an_error(project: Project) -> None:
    folder = project.workspace.recipes / "resolutions"
    folder.mkdir()
    (folder / "x.json").write_text("{}")
    assert ("error", "resolutions", "recipes/resolutions/x.json") in found(project)


def test_diff_that_only_merges_would_be_exported_otherwise(project: Project) -> None:
    """Its context is not the release's any more; the export of the untouched series would write another diff."""
    edit(project, "patches/mend/a.patch", " line_18 = 18\n", " line_18 = 19\n")
    assert "error" in [item[0] for item in found(project)]


def test_page_is_written_and_then_up_to_date(project: Project) -> None:
    edit(project, TOML, 'title = "T"', 'title = "A | B"')
    relock(project)
    report = lint.lint(project.workspace, write=True)
    assert [path.name for path in report.written] == ["PATCHES.md"]
    assert r"A \| B" in (project.workspace.recipes / "PATCHES.md").read_text()
    assert lint.lint(project.workspace, write=True).written == ()
    assert found(project) == []
