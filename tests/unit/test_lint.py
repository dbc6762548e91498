"""Each rule finds what it is for, with its place; a clean project has no findings; what was not looked at is said."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from made_project import write_project

from patchset import lint, newpatch, resolve
from patchset.diff import LINE_LIMIT
from patchset.errors import LintError
from patchset.lint_model import says_nothing
from patchset.resolve import Project
from patchset.store import Store
from patchset.workspace import Workspace

LINES = b"".join(b"line_%d = %d\n" % (n, n) for n in range(40))
NEW = LINES.replace(b"line_20 = 20\n", b"twenty = 20\n")
WHY = 'why = "A request of eight words or more fails without this patch."\n'
DROP = 'drop-when = "Upstream has it in every release in use."\n'
RETIRED = '\n[[series.retired]]\npatch = "mend"\nreason = "R"\n'

MakeTree = Callable[..., str]


def make(root: Path, data: bytes, variants: str, releases: dict[str, dict[str, bytes]], here: str = "") -> Project:
    """A project with one patch, whose releases (those named in *here*, or all) are in the store."""
    made = write_project(root, releases, {"mend": (variants, {"a.patch": data} if data else {})}, ["mend"])
    toml = made.patches["mend"].folder / "patch.toml"
    toml.write_text(toml.read_text().replace('why = "w"\n', WHY).replace('drop-when = "d"\n', DROP))
    made = Project.read(made.workspace)
    bases = made.bases(Store.open(made.workspace.store))
    for release in here.split() or releases:
        bases.tree(release)
    return made


@pytest.fixture(scope="session")
def data(bench: Store, make_tree: MakeTree) -> bytes:
    """The diff from LINES to NEW."""
    return bench.diff(make_tree({"a.py": LINES}), make_tree({"a.py": NEW}))


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> Path:
    """A clone with two releases, both in its store; one patch for both; its lock and page are up to date."""
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("PATCHSET_VENDOR", raising=False)
        variants = '\n[[variant]]\nreleases = ">=0.20.0,<=0.21.0"\ndiff = "a.patch"\n'
        releases = {"0.20.0": {"a.py": LINES}, "0.21.0": {"a.py": b"# head\n" + LINES}}
        made = make(tmp_path_factory.mktemp("clean") / "clone", data, variants, releases)
        relock(made)
        lint.lint(made.workspace, write=True)
    return made.workspace.root


@pytest.fixture
def project(tmp_path: Path, clean: Path) -> Project:
    """A copy of the clean clone."""
    return Project.read(Workspace(Path(shutil.copytree(clean, tmp_path / "clone", symlinks=True))))


def relock(project: Project) -> None:
    now = Project.read(project.workspace)
    resolve.relock(now, now.recipe("r"), lambda text: None)


def found(project: Project) -> list[tuple[str, str, str]]:
    """(severity, rule, where) of every finding."""
    report = lint.lint(project.workspace)
    root = str(project.workspace.recipes) + "/"
    assert all(item.what and item.next and item.rule in lint.RULES for item in report.findings)
    return [(item.severity, item.rule, item.where.replace(root, "")) for item in report.findings]


def told(project: Project, rule: str) -> list[str]:
    return [item.what for item in lint.lint(project.workspace).findings if item.rule == rule]


def edit(project: Project, name: str, old: str, new: str) -> None:
    file = project.workspace.recipes / name
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def add_patch(project: Project, name: str, text: str = "", **files: bytes) -> None:
    """A second patch, which recipe r omits; *text* goes before its variant."""
    folder = project.workspace.patches / name
    shutil.copytree(project.workspace.patches / "mend", folder)
    for file, data in files.items():
        (folder / file).write_bytes(data)
    toml = folder / "patch.toml"
    toml.write_text(toml.read_text().replace("\n[[variant]]", f"{text}\n[[variant]]", 1))
    recipe = project.workspace.recipes / "r.toml"
    block = f'\n[[series.omit]]\npatch = "{name}"\nreason = "made for another release"\n'
    recipe.write_text(recipe.read_text().replace("\n[stack]", f"{block}\n[stack]", 1))


TOML, PATCH, PROBE = "patches/mend/patch.toml", "patches/mend/a.patch", "patches/mend/probe.py"


def test_clean_project_has_no_findings(project: Project) -> None:
    report = lint.lint(project.workspace)
    assert (report.findings, report.not_checked, report.written) == ((), (), ())
    lint.require(report)


@pytest.mark.parametrize(
    ("name", "old", "new", "finding"),
    [
        (TOML, WHY, 'why = "It is broken."\n', ("error", "reasons", f"{TOML}:4")),
        (TOML, WHY, 'why = "TODO: say what fails without this patch, and for whom."\n', ("error", "reasons", f"{TOML}:4")),
        (TOML, DROP, f'drop-when = "{newpatch.NOBODY_SAID}"\n', ("error", "reasons", f"{TOML}:5")),
        (TOML, DROP, 'drop-when = "TBD"\n', ("error", "reasons", f"{TOML}:5")),
        (TOML, "\n[[variant]]", 'requires = ["gone"]\n\n[[variant]]', ("error", "requires", f"{TOML}:6")),
        (TOML, "\n[[variant]]", 'requires = ["mend"]\n\n[[variant]]', ("error", "requires", f"{TOML}:6")),
        (TOML, ">=0.20.0,<=0.21.0", "==0.20.0", ("warning", "gap", f"{TOML}:7")),
        (PATCH, "+twenty = 20\n", "+twenty = 20  \n", ("error", "blanks", f"{PATCH}:10")),
        (PATCH, "+twenty = 20\n", "+twenty = 20\t\n", ("error", "blanks", f"{PATCH}:10")),
        (PATCH, "--- a/a.py", "--- a/b.py", ("error", "diff", f"{PATCH}:1")),
        (PROBE, "import json", "import json\ndef f(:", ("error", "probe", f"{PROBE}:2")),
        (PROBE, "import json", f"import json\n# {newpatch.UNWRITTEN}", ("error", "probe", f"{PROBE}:2")),
        (TOML, 'title = "T"', 'title = "U"', ("error", "page", "PATCHES.md:7")),
        (TOML, 'title = "T"', 'title = "U"', ("error", "lock", "r.lock")),
        ("r.lock", 'recipe = "r"', 'recipe = "s"', ("error", "lock", "r.lock")),
        ("r.toml", "[stack]", '[[series.retired]]\npatch = "mend"\nreason = "TODO"\n\n[stack]', ("error", "reasons", "r.toml:10")),
        ("r.toml", "[stack]", '[[series.retired]]\npatch = "mend"\nreason = "it is in 0.20.0"\nupstream = "#1"\n\n[stack]', ("error", "references", "r.toml:11")),
        ("r.toml", "[stack]", '[[series.retired]]\npatch = "mend"\nreason = "it is in 0.20.0"\n\n[stack]', ("error", "series", "r.toml, variant >=0.20.0,<=0.21.0")),
        ("r.toml", 'label = "b70"', 'label = "B70"', ("error", "declaration", "r.toml:12")),
        (TOML, ">=0.20.0,<=0.21.0", ">=0.20.0", ("error", "declaration", f"{TOML}:8")),
        (TOML, "\n[[variant]]", '\n[[upstream]]\nref = "http://host.invalid"\nwhat = "w"\nstate = "open"\n\n[[variant]]', ("error", "declaration", f"{TOML}:8")),
    ],
)  # fmt: skip
def test_each_rule_finds_what_it_is_for(
    name: str, old: str, new: str, finding: tuple[str, str, str], project: Project
) -> None:
    edit(project, name, old, new)
    assert finding in found(project)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('release = "0.20.0"', 'release = "0.21.0"', "its release is 0.20.0, and now it is 0.21.0"),
        ('release = "0.20.0"\n', 'release = "0.20.0"\nsource = "archive"\n', "its source is auto, and now it is archive"),
        ('patches = ["mend"]', 'patches = []\n\n[[series.omit]]\npatch = "mend"\nreason = "bisecting the garbage"', "its series is mend, and now it is empty"),
        ('label = "b70"', 'label = "b60"', 'version = "0.20.0+xpu.b60.'),
    ],
)  # fmt: skip
def test_lock_is_of_another_recipe(old: str, new: str, text: str, project: Project) -> None:
    edit(project, "r.toml", old, new)
    (what,) = told(project, "lock")
    assert text in what


def test_lock_is_of_other_environments(project: Project) -> None:
    file = project.workspace.recipes / "r.lock"
    file.write_text(re.sub(r'^(build|lab) = ".{64}"$', rf'\1 = "{"0" * 64}"', file.read_text(), flags=re.MULTILINE))
    assert told(project, "lock") == [
        "the requirements of the environment build are other ones by now; the requirements of the environment lab are other ones by now"
    ]


def test_tree_of_a_lock_that_the_series_does_not_make(project: Project) -> None:
    """Nothing but applying the series shows it."""
    lock = resolve.read_lock(project.workspace.recipes / "r.lock")
    assert lock
    edit(project, "r.lock", lock.tree, "1" * 40)
    (what,) = told(project, "lock")
    assert f'+tree = "{lock.tree}"' in what


def test_lock_that_is_missing_is_a_warning_and_one_without_its_recipe_an_error(project: Project) -> None:
    lock = project.workspace.recipes / "r.lock"
    lock.rename(lock.with_name("gone.lock"))
    assert found(project) == [("error", "lock", "gone.lock"), ("warning", "lock", "r.lock")]


def test_why_that_only_repeats_the_title_is_no_reason(project: Project) -> None:
    title = "Requests of eight words or more fail no more with it"
    edit(project, TOML, 'title = "T"', f'title = "{title}"')
    edit(project, TOML, WHY, f'why = "{title}"\n')
    assert told(project, "reasons") == ["why is only the title again"]


@pytest.mark.parametrize(
    ("reason", "severity"),
    [
        ("because", "error"),
        ("…", "error"),
        ("bisecting the garbage", None),
        ("made for s; not tried on 0.20.0 yet", "warning"),
    ],
)
def test_reason_to_leave_a_patch_out(reason: str, severity: str | None, project: Project) -> None:
    add_patch(project, "second")
    edit(project, "r.toml", "made for another release", reason)
    expected = [(severity, "reasons", "r.toml:10")] if severity else []
    assert [item for item in found(project) if item[1] == "reasons"] == expected


def test_circle_of_requires_is_an_error(project: Project) -> None:
    add_patch(project, "second", 'requires = ["mend"]\n')
    edit(project, TOML, "\n[[variant]]", 'requires = ["second"]\n\n[[variant]]')
    said = told(project, "requires")
    assert said[0] == "requires 'second', which requires 'mend' in turn: no order has both"
    assert len(said) == 2


def test_file_that_nothing_names_is_a_warning_and_a_patch_an_error(project: Project) -> None:
    folder = project.workspace.patches / "mend"
    (folder / "old.diff").write_text("")
    (folder / "__pycache__").mkdir()
    assert found(project) == [("warning", "stray", "patches/mend/old.diff")]
    (folder / "old.patch").write_text("")
    assert ("error", "declaration", "patches/mend/patch.toml:1") in found(project)


def test_every_fault_of_every_declaration_is_told_and_the_rest_is_said_to_be_not_checked(project: Project) -> None:
    edit(project, TOML, 'kind = "fix"', 'kind = "other"')
    edit(project, TOML, 'title = "T"', 'title = ""')
    edit(project, TOML, "[[variant]]", '[[variant]]\nreleases = ">=0.1"\nabsent = [{ file = "x" }]\n\n[[variant]]')
    file = project.workspace.recipes / TOML
    with file.open("a") as text:
        text.write('\n[[variant]]\nreleases = "==0.20.0"\nabsent = [{ file = "x" }]\n')
        text.write('\n[[variant]]\nreleases = "==0.21.0"\nabsent = [{ file = "x" }]\n')
        text.write('\n[[variant]]\nreleases = "==9.9"\nabsent = [{ file = "x" }]\n')
    folder = project.workspace.patches / "second"
    folder.mkdir()
    (folder / "patch.toml").write_text("title = 1\n")
    report = lint.lint(project.workspace)
    assert {item.rule for item in report.findings} == {"declaration"}
    lines = [Path(item.where).name for item in report.findings if "/mend/" in item.where]
    assert lines == [f"patch.toml:{line}" for line in (1, 2, 8, 16, 20, 24)]
    second = [item.what for item in report.findings if "/second/" in item.where]
    assert second == [
        "title must be a string, not int", "why is missing", "drop-when is missing", "kind is missing", "date is missing",
        "patch second has no probe",
    ]  # fmt: skip
    assert [item.rule for item in report.not_checked] == ["all on trees"]
    with pytest.raises(LintError, match="12 errors, the first: title is empty"):
        lint.require(report)


def test_each_reference_that_cannot_be_read_is_told(project: Project) -> None:
    bad = "".join(f'[[upstream]]\nref = "http://host.invalid/{n}"\nwhat = "w"\nstate = "open"\n\n' for n in range(2))
    edit(project, TOML, "[[variant]]", f"{bad}[[variant]]")
    assert [where for _, _, where in found(project)] == [f"{TOML}:8", f"{TOML}:13"]


def test_patch_that_requires_itself(project: Project) -> None:
    edit(project, TOML, "\n[[variant]]", 'requires = ["mend"]\n\n[[variant]]')
    assert told(project, "requires") == ["requires itself"]


def test_patch_that_is_no_toml_and_upstreams_that_are_none(project: Project) -> None:
    (project.workspace.recipes / TOML).write_text("title =\n")
    assert [(rule, where) for _, rule, where in found(project)] == [("declaration", f"{TOML}:1")]
    project.workspace.upstreams.write_text("[vllm]\n")
    report = lint.lint(project.workspace)
    assert [(item.rule, len(report.not_checked)) for item in report.findings] == [("declaration", 1)]
    shutil.rmtree(project.workspace.patches)


def test_no_folder_of_patches_is_told(project: Project) -> None:
    shutil.rmtree(project.workspace.patches)
    assert found(project) == [("error", "declaration", "patches")]


def test_recipe_that_cannot_be_read_is_told_with_what_was_not_checked(project: Project) -> None:
    edit(project, "r.toml", 'label = "b70"', 'label = "B70"')
    report = lint.lint(project.workspace)
    assert [item.rule for item in report.findings] == ["declaration"]
    assert [(item.rule, item.what) for item in report.not_checked] == [
        ("series, lock, export", "recipe r"),
        ("page", "PATCHES.md"),
    ]


def test_gap_between_two_releases_that_are_covered(tmp_path: Path) -> None:
    variants = "".join(
        f'\n[[variant]]\nreleases = "=={release}"\nabsent = [{{ file = "x" }}]\n' for release in ("0.20.0", "0.22.0")
    )
    made = make(tmp_path / "clone", b"", variants, {f"0.2{n}.0": {"a.py": LINES + b"#" * n} for n in range(3)})
    assert ("error", "gap", "patches/mend/patch.toml:7") in found(made)
    assert told(made, "gap") == ["no variant covers 0.21.0, between two releases that have one"]


def test_hunk_that_fits_twice_on_one_release_of_the_range(tmp_path: Path, data: bytes) -> None:
    variants = '\n[[variant]]\nreleases = ">=0.20.0,<=0.22.0"\ndiff = "a.patch"\n'
    releases = {"0.20.0": {"a.py": LINES}, "0.21.0": {"a.py": LINES * 2}, "0.22.0": {"a.py": b"other = 1\n"}}
    made = make(tmp_path / "clone", data, variants, releases, here="0.20.0 0.21.0")
    report = lint.lint(made.workspace)
    (twice,) = [item for item in report.findings if item.rule == "unique"]
    assert twice.where.endswith("patch.toml:7")
    assert twice.what == ">=0.20.0,<=0.22.0 on 0.21.0: the old lines of a.py, hunk 1 (line 18) stand at lines 18, 58"
    assert [(item.rule, item.what, item.next) for item in report.not_checked] == [
        ("trees, unique", "the patches on 0.22.0", "./inv forecast --releases 0.22.0")
    ]
    made.bases(Store.open(made.workspace.store)).tree("0.22.0")
    assert any(what.startswith(">=0.20.0,<=0.22.0 on 0.22.0: conflicts") for what in told(made, "trees"))
    assert lint.lint(made.workspace).not_checked == ()


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        ('upstream = [{ file = "a.py", line = "gone = 1" }]', "==0.21.0 on 0.21.0: conflicts: a.py has no line `gone = 1`"),
        ('absent = [{ file = "a.py" }]', "==0.21.0 on 0.21.0: conflicts: a.py is there"),
        ('diff = "a.patch"', "==0.21.0 on 0.21.0: its diff is upstream there: a.py, hunk 1 (line 18) is in at line 18"),
    ],
)  # fmt: skip
def test_variant_that_does_not_become_what_it_says(tmp_path: Path, data: bytes, evidence: str, text: str) -> None:
    variants = (
        f'\n[[variant]]\nreleases = "==0.20.0"\ndiff = "a.patch"\n\n[[variant]]\nreleases = "==0.21.0"\n{evidence}\n'
    )
    made = make(tmp_path / "clone", data, variants, {"0.20.0": {"a.py": LINES}, "0.21.0": {"a.py": NEW}})
    (what,) = told(made, "trees")
    assert what.startswith(text)
    assert ("error", "trees", "patches/mend/patch.toml:11") in found(made)


def test_variant_is_not_held_to_a_release_that_it_does_not_cover(tmp_path: Path, data: bytes) -> None:
    """Another patch covers that one, so it is looked at, and the nearest variant of this one would conflict there."""
    variants = '\n[[variant]]\nreleases = "==0.20.0"\ndiff = "a.patch"\n'
    made = make(tmp_path / "clone", data, variants, {"0.20.0": {"a.py": LINES}, "0.21.0": {"a.py": b"other\n"}})
    add_patch(made, "second")
    edit(made, "patches/second/patch.toml", '"==0.20.0"\ndiff = "a.patch"', '"==0.21.0"\nabsent = [{ file = "b.py" }]')
    (made.workspace.patches / "second" / "a.patch").unlink()
    assert {rule for _, rule, _ in found(made)} == {"gap", "lock", "page"}


def test_nothing_is_said_of_trees_that_are_not_here(tmp_path: Path, data: bytes) -> None:
    """And the command brings them: none of it is fetched by lint."""
    variants = '\n[[variant]]\nreleases = ">=0.20.0,<=0.21.0"\ndiff = "a.patch"\n'
    releases = {"0.20.0": {"a.py": NEW}, "0.21.0": {"a.py": b"x\n"}, "0.22.0": {"a.py": LINES}}
    made = make(tmp_path / "clone", data, variants, releases, here="0.22.0")
    report = lint.lint(made.workspace)
    assert {item.rule for item in report.findings} == {"gap", "lock", "page"}
    assert [(item.rule, item.next) for item in report.not_checked] == [
        ("trees, unique", "./inv forecast --releases 0.20.0,0.21.0"),
        ("series, lock, export", "./inv apply -r r"),
    ]


def test_donor_that_is_not_here_is_not_fetched(tmp_path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its archive lies ready, and lint leaves it there."""
    donor = hashlib.sha256(LINES).hexdigest()
    variants = (
        '\n[[variant]]\nreleases = "==0.20.0"\ndiff = "a.patch"\n'
        f'donors = [{{ release = "0.21.0", path = "b.py", sha256 = "{donor}" }}]\n'
        '\n[[variant]]\nreleases = "==0.21.0"\nupstream = [{ file = "b.py", line = "line_1 = 1" }]\n'
    )
    releases = {"0.20.0": {"a.py": LINES}, "0.21.0": {"b.py": LINES}}
    made = make(tmp_path / "clone", data, variants, releases, here="0.20.0")
    report = lint.lint(made.workspace)
    assert {item.rule for item in report.findings} == {"lock", "page"}
    assert [(item.rule, item.what, item.next) for item in report.not_checked] == [
        ("trees, unique", "the patches on 0.21.0", "./inv forecast --releases 0.21.0"),
        ("trees, unique", "the patches on 0.20.0", "./inv forecast --releases 0.21.0"),
        ("series, lock, export", "the series of r, and the trees of its lock", "./inv apply -r r"),
    ]
    assert report.not_checked[-1].why == "0.21.0, of which mend takes a file, is not in the store"
    assert "0.21.0" not in made.bases(Store.open(made.workspace.store)).here()


def test_branch_of_a_checkout_is_not_asked_for(project: Project) -> None:
    edit(project, "r.toml", 'release = "0.20.0"\n', 'release = "0.20.0"\nsource = "checkout"\n')
    report = lint.lint(project.workspace)
    assert {item.rule for item in report.findings} == {"lock"}
    (skipped,) = report.not_checked
    assert skipped.why == "what https://host.invalid/vllm.git has at v0.20.0 is not in the store"
    # a lock of that checkout says which tree it is; then nobody has to be asked
    edit(project, "r.lock", 'source = "auto"', 'source = "checkout"')
    assert [item.rule for item in lint.lint(project.workspace).not_checked] == ["series, lock, export"]
    edit(project, "r.lock", 'ref = "v0.20.0"\n', f'ref = "v0.20.0"\ncommit = "{"1" * 40}"\n')
    assert (lint.lint(project.workspace).findings, lint.lint(project.workspace).not_checked) == ((), ())


def test_base_that_no_lock_names_is_not_looked_for_elsewhere(project: Project) -> None:
    """Without it the git host would be asked first."""
    (project.workspace.recipes / "r.lock").unlink()
    assert lint.lint(project.workspace).not_checked == ()
    (project.workspace.archives / "vllm-0.20.0.tar.gz").unlink()
    report = lint.lint(project.workspace)
    assert [(item.severity, item.rule) for item in report.findings] == [("warning", "lock")]
    assert [item.why for item in report.not_checked] == ["no lock names the base, and its archive is not under vendor/"]


def test_lock_of_a_patch_that_changed_shows_without_its_base(project: Project) -> None:
    edit(project, PROBE, "import json", "import json  # edited")
    shutil.rmtree(project.workspace.store)
    assert told(project, "lock") == ["patch mend is another one by now"]
    assert {item.rule for item in lint.lint(project.workspace).not_checked} == {"trees, unique", "series, lock, export"}


def test_errors_come_first_and_then_the_order_of_the_files(project: Project) -> None:
    (project.workspace.patches / "mend" / "a-note").write_text("")
    edit(project, TOML, DROP, 'drop-when = "TBD"\n')
    edit(project, TOML, WHY, 'why = "TBD"\n')
    assert [item for item in found(project) if item[1] != "page"] == [
        ("error", "reasons", f"{TOML}:4"), ("error", "reasons", f"{TOML}:5"), ("warning", "stray", "patches/mend/a-note"),
    ]  # fmt: skip


def test_lock_that_cannot_be_read_is_told_once(project: Project) -> None:
    (project.workspace.recipes / "r.lock").write_text("format = 1\n")
    report = lint.lint(project.workspace)
    assert [(item.rule, item.where.rpartition("/")[2]) for item in report.findings] == [("lock", "r.lock:1")]
    assert [item.why for item in report.not_checked] == ["its lock cannot be read"]


def test_empty_probe_is_none(project: Project) -> None:
    (project.workspace.recipes / PROBE).write_text("\n")
    assert told(project, "probe") == ["it is empty"]


def test_retired_patch_that_the_lock_applies(project: Project) -> None:
    edit(project, "r.toml", "[stack]", '[[series.retired]]\npatch = "mend"\nreason = "it is in 0.20.0"\n\n[stack]')
    assert told(project, "lock") == ["patch mend is retired, and there it applies"]


def test_series_that_does_not_go_in_is_an_error(project: Project) -> None:
    edit(project, PATCH, "-line_20 = 20", "-line_20 = 21")
    rules = {rule for _, rule, _ in found(project)}
    assert {"series", "trees"} <= rules


def test_diff_that_only_merges_is_a_warning(project: Project) -> None:
    """Its context is not the release's any more."""
    edit(project, PATCH, " line_18 = 18\n", " line_18 = 19\n")
    store = Store.open(project.workspace.store)
    from_blob(project, store.write_blob(LINES.replace(b"line_18 = 18\n", b"line_18 = 19\n")))
    relock(project)
    assert set(found(project)) == {("warning", "trees", f"{TOML}:7")}
    assert all("three-way merge" in what for what in told(project, "trees"))


def test_series_that_could_not_be_exported_is_an_error(tmp_path: Path) -> None:
    """A rename says nothing of what the file holds; the diff that an export writes would, and may not hold such a line."""
    long = b"x" * (LINE_LIMIT + 1) + b"\n"
    data = b"diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\nrename to b.py\n"
    variants = '\n[[variant]]\nreleases = "==0.20.0"\ndiff = "a.patch"\n'
    made = make(tmp_path / "clone", data, variants, {"0.20.0": {"a.py": long}})
    relock(made)
    assert [item for item in found(made) if item[1] != "page"] == [("error", "export", "r.toml")]
    assert "a line of more than" in told(made, "export")[0]


def from_blob(project: Project, blob: str) -> None:
    """The diff of the patch says that its old file is *blob*."""
    file = project.workspace.recipes / PATCH
    head, _, rest = file.read_text().partition("\nindex ")
    file.write_text(f"{head}\nindex {blob}{rest[40:]}")


def test_damaged_resolution_is_an_error(project: Project) -> None:
    folder = project.workspace.recipes / "resolutions"
    folder.mkdir()
    (folder / "x.json").write_text(json.dumps({}))
    assert found(project) == [("error", "resolutions", "resolutions/x.json")]


def test_page_is_written_and_then_up_to_date(project: Project) -> None:
    edit(project, TOML, 'title = "T"', 'title = "A | B"')
    relock(project)
    report = lint.lint(project.workspace, write=True)
    assert [path.name for path in report.written] == ["PATCHES.md"]
    assert "A | B" in (project.workspace.recipes / "PATCHES.md").read_text()
    assert lint.lint(project.workspace, write=True).written == ()
    assert found(project) == []
    (project.workspace.recipes / "PATCHES.md").unlink()
    assert found(project) == [("error", "page", "PATCHES.md")]


def test_page_waits_for_a_diff_that_cannot_be_read(project: Project) -> None:
    edit(project, PATCH, "--- a/a.py", "--- a/b.py")
    report = lint.lint(project.workspace, write=True)
    assert (report.written, [item.rule for item in report.not_checked]) == ((), ["page"])


@pytest.mark.parametrize(
    ("text", "words", "good"),
    [
        ("", 1, False),
        ("-- … --", 1, False),
        ("n/a", 3, False),
        ("See above.", 2, False),
        ("To be done", 3, False),
        ("XXX say more about what fails here", 3, False),
        ("because torch refuses it", 3, True),
        ("None of the kernels has it", 3, True),
        ("Test runs hang on it", 3, True),
        ("too short", 3, False),
    ],
)
def test_what_is_a_reason(text: str, words: int, good: bool) -> None:
    assert (says_nothing(text, words) == "") is good


def test_no_added_line_is_missed_behind_one_without_newline(tmp_path: Path, bench: Store, make_tree: MakeTree) -> None:
    """And neither context nor what is taken out counts."""
    old = b"one  \ntwo  \nthree"
    new = b"one  \nthree  \nfour  "
    data = bench.diff(make_tree({"a.txt": old}), make_tree({"a.txt": new}))
    variants = '\n[[variant]]\nreleases = "==0.20.0"\ndiff = "a.patch"\n'
    made = make(tmp_path / "clone", data, variants, {"0.20.0": {"a.txt": old}})
    lines = data.split(b"\n")
    wanted = [n for n, line in enumerate(lines, 1) if line in (b"+three  ", b"+four  ")]
    assert [where for _, rule, where in found(made) if rule == "blanks"] == [f"{PATCH}:{n}" for n in wanted]
