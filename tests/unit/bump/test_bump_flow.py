"""A recipe carried to another release, on a project of its own with real archives, real git and probes that really run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from made_project import write_project

from patchset import bump, lab
from patchset.bump import Bumped, Stopped, resolutions, state
from patchset.console import Console
from patchset.errors import DeclarationError, ProbeError, WorktreeError
from patchset.lab import Lab
from patchset.resolve import Project, require_locked, resolve
from patchset.store import Store

ROOT = Path(__file__).resolve().parents[3]

LINES = b"".join(b"line_%d = %d\n" % (n, n) for n in range(40))
BROKEN = LINES.replace(b"line_20 = 20\n", b"state = 'broken'\n")
WHOLE = LINES.replace(b"line_20 = 20\n", b"state = 'whole'\n")
#: Another line beside it: the diff's context is not there, a three-way merge is clean.
NEAR = BROKEN.replace(b"line_18 = 18\n", b"eighteen = 18\n")
#: The same line changed: a conflict.
CLASH = BROKEN.replace(b"state = 'broken'\n", b"state = 'broken'  # other\n")
FIXED = BROKEN.replace(b"state = 'broken'\n", b"state = 'whole'  # upstream's way\n")

#: Says of the one file that the patch is about; in whatever place it is.
PROBE = b"""\
import json, pathlib, sys
text = "".join(p.read_text() for p in sorted(pathlib.Path(sys.argv[1]).rglob("%s*.py")))
verdict = "defect" if "'broken'" in text else "sound" if "'whole'" in text else "absent"
print(json.dumps({"verdict": verdict, "reason": f"it says {verdict}", "checks": []}))
"""


@pytest.fixture(autouse=True)
def this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes here need no torch."""
    monkeypatch.setattr(lab, "ensure", lambda envs, say=None: Lab(Path(sys.executable), "this interpreter"))
    monkeypatch.delenv("PATCHSET_VENDOR", raising=False)


@pytest.fixture
def make(bench: Store, make_tree: Callable[..., str], tmp_path: Path) -> Callable[..., Project]:
    """Release → content of a.py (or path → content) → a project with a patch of a.py and one of b.py for 0.20.0."""

    def project(releases: Mapping[str, bytes | Mapping[str, bytes]], variants: str = "") -> Project:
        files = {r: dict(c) if isinstance(c, Mapping) else {"a.py": c} for r, c in releases.items()}
        for content in files.values():
            content.setdefault("b.py", BROKEN)
        one = '\n[[variant]]\nreleases = "==0.20.0"\ndiff = "0.20.patch"\n'

        def diff(path: str) -> bytes:
            return bench.diff(make_tree({path: BROKEN}), make_tree({path: WHOLE}))

        patches = {
            "mend-a": (one + variants, {"0.20.patch": diff("a.py"), "probe.py": PROBE % b"a"}),
            "mend-b": (one, {"0.20.patch": diff("b.py"), "probe.py": PROBE % b"b"}),
        }
        write_project(tmp_path / "clone", files, patches, ["mend-a", "mend-b"])
        recipe = tmp_path / "clone" / "recipes" / "r.toml"
        recipe.rename(recipe.with_name("r-0.20.toml"))
        return again(Project.read)(tmp_path / "clone")

    return project


def again(read: Callable[..., Project]) -> Callable[[Path], Project]:
    from patchset.workspace import Workspace

    return lambda root: read(Workspace(root))


def fresh(project: Project) -> Project:
    return Project.read(project.workspace)


def start(project: Project, to: str, name: str = "") -> Bumped | Stopped:
    return bump.start(project, project.recipe("r-0.20"), to, name, Console())


def variants(project: Project, patch: str = "mend-a") -> dict[str, str | None]:
    return {v.name: v.diff.name if v.diff else None for v in fresh(project).patches[patch].variants}


def declared(project: Project) -> dict[str, tuple[bytes, int]]:
    """Every file under recipes/ with its bytes and the time it was written."""
    files = (path for path in project.workspace.recipes.rglob("*") if path.is_file())
    return {str(p.relative_to(project.workspace.root)): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}


def accepted(project: Project, name: str) -> str:
    """The tree that the recipe *name* and its lock give, by a run of their own."""
    now = fresh(project)
    resolved = resolve(now, now.recipe(name), Store.open(now.workspace.store), lambda text: None)
    assert not require_locked(resolved)
    return resolved.applied.tree


def in_tree(project: Project, tree: str, path: str = "a.py") -> bytes | None:
    return Store.open(project.workspace.store).read(tree, path)


def conflicted(project: Project, name: str = "r-0.21") -> Path:
    return project.workspace.work / f"bump-{name}" / "a.py"


def settle(file: Path, line: bytes = b"state = 'whole'  # both\n") -> None:
    """Resolve the one clash of *file*, as an editor would."""
    head, _, rest = file.read_bytes().partition(b"<<<<<<< ")
    file.write_bytes(head + line + rest.partition(b">>>>>>> ")[2].partition(b"\n")[2])


# -- clean --------------------------------------------------------------------------------------------------------------


def test_next_release_widens_the_range_and_the_recipe_is_accepted(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": b"# head\n" + BROKEN})
    done = start(project, "0.21.0")
    assert isinstance(done, Bumped) and done.recipe == "r-0.21"
    assert variants(project) == {">=0.20.0,<=0.21.0": "0.20.patch"}
    assert in_tree(project, accepted(project, "r-0.21")) == b"# head\n" + WHOLE
    assert {path.name for path in done.written} == {"r-0.21.toml", "r-0.21.lock", "patch.toml"}
    assert start(fresh(project), "0.21.0").written == ()  # type: ignore[union-attr]


def test_release_further_on_claims_nothing_of_those_between(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH, "0.22.0": BROKEN})
    start(project, "0.22.0")
    assert variants(project) == {"==0.20.0": "0.20.patch", "==0.22.0": "0.20.patch"}


def test_variant_is_derived_by_a_three_way_merge(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": NEAR})
    done = start(project, "0.21.0")
    assert isinstance(done, Bumped) and done.carried[0].how == "three-way merge of variant ==0.20.0 from 0.20.0"
    assert variants(project) == {"==0.20.0": "0.20.patch", "==0.21.0": "0.21.0.patch"}
    tree = accepted(project, "r-0.21")
    assert in_tree(project, tree) == NEAR.replace(b"broken", b"whole")


def test_file_that_moved_is_followed_and_said(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": {"deeper/a2.py": BROKEN}})
    done = start(project, "0.21.0")
    assert isinstance(done, Bumped) and done.carried[0].how.endswith("; a.py is now deeper/a2.py (100 % alike)")
    assert in_tree(project, accepted(project, "r-0.21"), "deeper/a2.py") == WHOLE


def test_backward_is_a_bump_like_any_other(make: Callable[..., Project]) -> None:
    project = make({"0.19.0": FIXED, "0.20.0": BROKEN})
    recipe = project.workspace.recipes / "r-0.20.toml"
    recipe.write_text(recipe.read_text().replace('release = "0.19.0"', 'release = "0.20.0"'))
    done = start(fresh(project), "0.19.0")
    assert isinstance(done, Bumped) and [name for name, _ in done.retired] == ["mend-a"]
    back = fresh(project)
    again = bump.start(back, back.recipe("r-0.19"), "0.20.0", "again", Console())
    assert isinstance(again, Bumped) and again.retired == ()
    assert fresh(project).recipe("again").retired == ()


# -- not needed any more ------------------------------------------------------------------------------------------------


def test_fix_upstream_retires_the_patch_with_reason_and_reference(make: Callable[..., Project]) -> None:
    reference = '\n[[upstream]]\nref = "https://host/1"\nwhat = "w"\nstate = "merged"\nfirst-release = "0.21.0"\n'
    project = make({"0.20.0": BROKEN, "0.21.0": FIXED}, reference)
    done = start(project, "0.21.0")
    assert isinstance(done, Bumped)
    recipe = fresh(project).recipe("r-0.21")
    (retired,) = recipe.retired
    assert (retired.patch, retired.upstream, retired.first_release) == ("mend-a", "https://host/1", "0.21.0")
    assert "sound" in retired.reason and "it says sound" in retired.reason
    assert recipe.series == ("mend-a", "mend-b")
    assert fresh(project).patches["mend-a"].variants[-1].proved == "sound"
    assert in_tree(project, accepted(project, "r-0.21")) == FIXED


def test_evidence_that_stands_is_taken_to_the_next_release(make: Callable[..., Project]) -> None:
    known = '\n[[variant]]\nreleases = "==0.21.0"\nupstream = [{ file = "a.py", line = "state = \'whole\'  # upstream\'s way" }]\n'
    project = make({"0.20.0": BROKEN, "0.21.0": FIXED, "0.22.0": FIXED}, known)
    start(project, "0.22.0")
    assert variants(project) == {"==0.20.0": "0.20.patch", ">=0.21.0,<=0.22.0": None}


def test_feature_that_is_gone_is_absent_and_not_fixed(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": LINES})
    done = start(project, "0.21.0")
    assert isinstance(done, Bumped) and done.retired == () and done.carried[0].outcome.value == "absent"


def test_variant_that_claims_a_fix_which_the_probe_denies_stops(make: Callable[..., Project]) -> None:
    false = '\n[[variant]]\nreleases = "==0.21.0"\nupstream = [{ file = "a.py", line = "line_1 = 1" }]\n'
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN}, false)
    before = declared(project)
    with pytest.raises(ProbeError, match="its probe finds the defect there"):
        start(project, "0.21.0")
    assert declared(project) == before


# -- conflicts ----------------------------------------------------------------------------------------------------------


def git(directory: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": "/dev/null"}
    return subprocess.run(["git", *words], cwd=directory, env=env, check=True, capture_output=True, text=True).stdout


def test_conflict_is_laid_out_for_git_and_for_a_person(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    before = declared(project)
    stopped = start(project, "0.21.0")
    assert isinstance(stopped, Stopped) and stopped.clash.patch == "mend-a"
    file = conflicted(project)
    assert git(file.parent, "status", "--porcelain") == "UU a.py\n"
    assert [git(file.parent, "show", f":{stage}:a.py").encode() for stage in (1, 2, 3)] == [BROKEN, CLASH, WHOLE]
    text = file.read_text()
    for label in ("<<<<<<< vLLM 0.21.0 with the series so far\n", "||||||| vLLM 0.20.0\n", ">>>>>>> patch mend-a\n"):
        assert label in text
    assert declared(project) == before
    with pytest.raises(DeclarationError, match=r"under way, and waits for mend-a"):
        start(project, "0.21.0")


@pytest.mark.parametrize("staged", [True, False])
def test_resolved_conflict_becomes_a_variant(staged: bool, make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    start(project, "0.21.0")
    with pytest.raises(WorktreeError, match=r"3 conflict markers .* a\.py:21"):
        bump.go_on(project, Console())
    settle(conflicted(project))
    if staged:
        git(conflicted(project).parent, "add", "a.py")
    done = bump.go_on(project, Console())
    assert isinstance(done, Bumped) and done.carried[0].how == "resolved by hand, from 0.20.0"
    assert in_tree(project, accepted(project, "r-0.21")) == CLASH.replace(
        b"state = 'broken'  # other\n", b"state = 'whole'  # both\n"
    )
    assert not conflicted(project).parent.exists()
    assert bump.status(project) is None


def test_resolution_that_leaves_the_defect_is_not_believed(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    before = declared(project)
    start(project, "0.21.0")
    settle(conflicted(project), b"state = 'broken'  # resolved badly\n")
    with pytest.raises(ProbeError) as error:
        bump.go_on(project, Console())
    assert "--restart" in error.value.next
    assert declared(project) == before
    assert bump.status(project) is not None


def test_abort_leaves_every_byte_and_keeps_what_was_edited(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    before = declared(project)
    start(project, "0.21.0")
    bump.abort(project, Console())
    assert declared(project) == before
    assert not conflicted(project).parent.exists()
    start(project, "0.21.0")
    settle(conflicted(project), b"my work\n")
    bump.abort(project, Console())
    assert declared(project) == before
    (kept,) = project.workspace.work.glob("bump-r-0.21.aborted-*")
    assert b"my work\n" in (kept / "a.py").read_bytes()
    with pytest.raises(DeclarationError, match="no bump is under way"):
        bump.abort(project, Console())


def test_skipped_patch_is_left_out_by_name_with_its_reason(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    start(project, "0.21.0")
    with pytest.raises(DeclarationError, match="without a reason"):
        bump.skip(project, " ", Console())
    done = bump.skip(project, "not worth it", Console())
    assert isinstance(done, Bumped)
    recipe = fresh(project).recipe("r-0.21")
    assert recipe.series == ("mend-b",)
    assert [(item.patch, item.reason) for item in recipe.omitted] == [("mend-a", "not worth it")]
    assert [item.finding.verdict.value for item in done.exposures] == ["defect"]
    assert variants(project) == {"==0.20.0": "0.20.patch"}


def test_restart_asks_again(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    start(project, "0.21.0")
    settle(conflicted(project), b"half done\n")
    stopped = bump.restart(project, Console())
    assert isinstance(stopped, Stopped)
    assert b"<<<<<<<" in conflicted(project).read_bytes()


def test_resolution_is_remembered_shared_and_reported(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    toml = project.patches["mend-a"].folder / "patch.toml"
    before = toml.read_bytes()
    start(project, "0.21.0")
    settle(conflicted(project))
    first = bump.go_on(project, Console())
    assert isinstance(first, Bumped) and first.reused == ()
    (shared,) = (project.workspace.recipes / "resolutions").glob("*.json")
    # a colleague with the shared resolution, and without the variant
    toml.write_bytes(before)
    (toml.parent / "0.21.0.patch").unlink()
    for file in project.workspace.recipes.glob("r-0.21.*"):
        file.unlink()
    done = start(fresh(project), "0.21.0")
    assert isinstance(done, Bumped) and done.tree == first.tree
    assert len(done.reused) == 1 and done.reused[0].startswith(
        f"resolution {shared.stem[:8]} reused at a.py:21, made 20"
    )
    assert done.reused[0].endswith("for mend-a at 0.21.0")


def test_damaged_resolution_is_named(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    folder = project.workspace.recipes / "resolutions"
    folder.mkdir()
    (folder / f"{'a' * 64}.json").write_text('{"format": 1, "base": [], "ours": [], "theirs": [], "resolution": []}')
    with pytest.raises(DeclarationError, match="not a resolution") as error:
        resolutions.known(project.workspace)
    assert error.value.where.endswith(f"{'a' * 64}.json")


def test_recipe_of_that_name_that_says_otherwise_is_not_overwritten(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN})
    other = project.workspace.recipes / "r-0.21.toml"
    other.write_text((project.workspace.recipes / "r-0.20.toml").read_text())
    before = declared(project)
    with pytest.raises(DeclarationError, match=r"r-0\.21\.toml is there already"):
        start(fresh(project), "0.21.0")
    assert declared(project) == before
    assert isinstance(start(fresh(project), "0.21.0", "other"), Bumped)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"format": 2}', b"\xff", b'{"format":1,"recipe":1,"to":"x","name":"y"}',
             b'{"format":1,"recipe":"r","to":"x","name":"../y","resolved":{},"before":{},"skipped":{},"waiting":null}'],
)  # fmt: skip
def test_damaged_state_is_named_with_the_way_out(text: bytes, make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN})
    file = state.state_file(project.workspace)
    file.parent.mkdir(parents=True)
    file.write_bytes(text)
    with pytest.raises(DeclarationError, match="state of a bump cannot be read") as error:
        bump.status(project)
    assert error.value.where == str(file) and f"rm {file}" in error.value.next


# -- killed -------------------------------------------------------------------------------------------------------------

#: Goes on with the bump in this clone, and ends itself at the Nth change to a file system.
KILLED = """
import os, sys
from pathlib import Path
from patchset import bump, lab
from patchset.changes import finish_changes
from patchset.console import Console
from patchset.lab import Lab
from patchset.resolve import Project
from patchset.workspace import Workspace
lab.ensure = lambda envs, say=None: Lab(Path(sys.executable), "this interpreter")
left = int(sys.argv[2])
def counted(real):
    def call(*words, **more):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
        return real(*words, **more)
    return call
for name in ("rename", "replace"):
    setattr(os, name, counted(getattr(os, name)))
workspace = Workspace(Path(sys.argv[1]))
with workspace.only_run("bump", wait=True, say=print):
    finish_changes(workspace.journal)
    if bump.status(Project.read(workspace)):
        bump.go_on(Project.read(workspace), Console())
"""


def test_killed_at_any_moment_it_ends_the_same(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    start(project, "0.21.0")
    settle(conflicted(project))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop("PATCHSET_VENDOR", None)
    killed = 0
    for moment in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 50):
        words = [sys.executable, "-B", "-c", KILLED, str(project.workspace.root), str(moment)]
        ended = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        assert ended.returncode in (0, -9), ended.stderr
        killed += ended.returncode == -9
        if bump.status(project) is None:
            break
    assert killed > 3 and bump.status(project) is None
    assert variants(project) == {"==0.20.0": "0.20.patch", "==0.21.0": "0.21.0.patch"}
    assert b"# both" in (in_tree(project, accepted(project, "r-0.21")) or b"")
    assert not list(project.workspace.work.glob(".bump-*"))
