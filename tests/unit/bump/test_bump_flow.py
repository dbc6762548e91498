"""A recipe carried to another release, on a project of its own with real archives, real git and probes that really run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from made_bump import (
    BROKEN,
    CLASH,
    FIXED,
    LINES,
    NEAR,
    WHOLE,
    accepted,
    conflicted,
    declared,
    fresh,
    git,
    in_tree,
    settle,
    start,
    variants,
)

from patchset import bump, rewrite
from patchset.bump import Bumped, Stopped, resolutions
from patchset.console import Console
from patchset.errors import DeclarationError, LockError, ProbeError, WorktreeError
from patchset.resolve import Project
from patchset.store import Store

# -- clean --------------------------------------------------------------------------------------------------------------


def test_next_release_widens_the_range_and_the_recipe_is_accepted(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": b"# head\n" + BROKEN})
    done = start(project, "0.21.0")
    assert isinstance(done, Bumped) and done.recipe == "r-0.21"
    assert variants(project) == {">=0.20.0,<=0.21.0": "0.20.patch"}
    assert in_tree(project, accepted(project, "r-0.21")) == b"# head\n" + WHOLE
    assert {path.name for path in done.written} == {"r-0.21.toml", "r-0.21.lock", "patch.toml", "PATCHES.md"}
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


@pytest.mark.parametrize(
    ("references", "why"),
    [
        ("", "patch.toml names no change of upstream's that was merged"),
        (
            '[[upstream]]\nref = "https://h/1"\nwhat = "w"\nstate = "open"\n',
            "names no change of upstream's that was merged",
        ),
        (
            '[[upstream]]\nref = "https://h/1"\nwhat = "w"\nstate = "merged"\n',
            "patch.toml does not say which release first had https://h/1",
        ),
        (
            '[[upstream]]\nref = "https://h/1"\nwhat = "w"\nstate = "merged"\nfirst-release = "0.22.0"\n',
            "upstream's change is first in 0.22.0 by patch.toml",
        ),
    ],
)
def test_retired_without_a_reference_says_why(references: str, why: str, make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": FIXED}, f"\n{references}")
    start(project, "0.21.0")
    (retired,) = fresh(project).recipe("r-0.21").retired
    assert retired.reason.endswith(f"it says sound; {why}" if why.startswith("patch.toml") else why)
    assert (retired.upstream, retired.first_release) == ("", None)


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


def test_conflict_is_laid_out_for_git_and_for_a_person(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    before = declared(project)
    stopped = start(project, "0.21.0")
    assert isinstance(stopped, Stopped) and stopped.clash.patch == "mend-a"
    file = conflicted(project)
    assert git(file.parent, "status", "--porcelain") == "UU a.py\n"
    assert [git(file.parent, "show", f":{stage}:a.py").encode() for stage in (1, 2, 3)] == [BROKEN, CLASH, WHOLE]
    text = file.read_text()
    for label in (
        "<<<<<<< vLLM 0.21.0 with the series so far\n",
        "||||||| common base: vLLM 0.20.0\n",
        ">>>>>>> patch mend-a\n",
    ):
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
    with pytest.raises(WorktreeError, match="its probe says defect of the result") as error:
        bump.go_on(project, Console())
    assert "mend it there" in error.value.next
    assert declared(project) == before
    # it is still there to be mended, and was not learnt
    file = conflicted(project)
    file.write_bytes(file.read_bytes().replace(b"'broken'  # resolved badly", b"'whole'"))
    assert isinstance(bump.go_on(project, Console()), Bumped)
    (learnt,) = (project.workspace.recipes / "resolutions").glob("*.json")
    assert b"badly" not in learnt.read_bytes()


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


def test_refusal_comes_before_anybody_is_asked(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    other = project.workspace.recipes / "r-0.21.toml"
    other.write_text((project.workspace.recipes / "r-0.20.toml").read_text())
    with pytest.raises(DeclarationError, match=r"r-0\.21\.toml is there already") as error:
        start(fresh(project), "0.21.0")
    assert "--name" in error.value.next and '+release = "0.21.0"' in error.value.detail
    assert bump.status(project) is None and not conflicted(project).parent.exists()


def test_point_release_does_not_replace_the_recipe_of_another_one(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.20.1": BROKEN})
    before = declared(project)
    with pytest.raises(DeclarationError, match=r"r-0\.20\.toml is the recipe that this bump starts from") as error:
        start(project, "0.20.1")
    assert error.value.next == "./inv bump -r r-0.20 --to 0.20.1 --name ANOTHER-NAME"
    assert declared(project) == before
    assert isinstance(start(project, "0.20.1", "r-0.20.1"), Bumped)


def test_lock_that_says_otherwise_is_not_overwritten(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN})
    start(project, "0.21.0")
    lock = project.workspace.recipes / "r-0.21.lock"
    lock.write_text(re.sub(r'(?m)^(sha256 = ")[0-9a-f]{2}', r"\g<1>00", lock.read_text()))
    before = declared(project)
    with pytest.raises(LockError, match="is there already") as error:
        start(fresh(project), "0.21.0")
    assert declared(project) == before and "-sha256" in error.value.detail
    assert bump.status(project) is None


def test_to_where_the_recipe_is_already_changes_nothing(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN})
    recipe = project.recipe("r-0.20")
    start(project, "0.20.0", "same")
    before = declared(project)
    done = bump.start(fresh(project), fresh(project).recipe("same"), "0.20.0", "same", Console())
    assert isinstance(done, Bumped) and done.written == () and declared(project) == before
    assert recipe.file.exists()


@pytest.mark.parametrize("name", ["../other", "a/b", ".x", "-x", "x.toml", "two words"])
def test_name_that_is_none_is_refused(name: str, make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN})
    with pytest.raises(DeclarationError, match="no name for a recipe"):
        start(project, "0.20.0", name)
    assert bump.status(project) is None


def test_recipe_from_elsewhere_is_refused(make: Callable[..., Project], tmp_path: Path) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN})
    elsewhere = tmp_path / "mine.toml"
    elsewhere.write_bytes((project.workspace.recipes / "r-0.20.toml").read_bytes())
    with pytest.raises(DeclarationError, match="only a recipe under recipes/"):
        bump.start(project, project.recipe(str(elsewhere)), "0.21.0", "", Console())


def test_comments_of_the_recipe_are_kept(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN})
    recipe = project.workspace.recipes / "r-0.20.toml"
    text = recipe.read_text().replace("[series]", "# In this order, since b needs a.\n[series]")
    recipe.write_text("# vLLM 0.20.0.\n# Ours; ask the team before you change it.\n#\n\n" + text)
    start(fresh(project), "0.21.0")
    made = (project.workspace.recipes / "r-0.21.toml").read_text()
    assert made.startswith(
        "# vLLM 0.21.0, carried there from r-0.20 (vLLM 0.20.0).\n# Ours; ask the team before you change it.\n"
    )
    assert "# In this order, since b needs a.\n[series]" in made


def test_patch_that_another_one_requires_is_not_skipped_alone(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH}, head={"mend-b": 'requires = ["mend-a"]\n'})
    start(project, "0.21.0")
    with pytest.raises(DeclarationError, match="mend-b requires it"):
        bump.skip(project, "why not", Console())
    assert bump.status(project) and conflicted(project).exists()


def test_resolution_that_does_not_hold_here_is_told_and_not_used(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH, "0.22.0": CLASH + b"again = 'broken'\n"})
    toml = project.patches["mend-a"].folder / "patch.toml"
    start(project, "0.21.0")
    settle(conflicted(project))
    assert isinstance(bump.go_on(project, Console()), Bumped)
    # without the variant, so that the same clash comes again, in a release where resolving it so is not enough
    text = rewrite.remove_variant(toml.read_text(), "==0.21.0")
    toml.write_text(text)
    (toml.parent / "0.21.0.patch").unlink()
    (project.workspace.recipes / "r-0.21.lock").unlink()
    (project.workspace.recipes / "r-0.21.toml").unlink()
    stopped = start(fresh(project), "0.22.0")
    assert isinstance(stopped, Stopped)
    assert len(stopped.reused) == 1 and "was tried and does not hold at a.py:21" in stopped.reused[0]
    assert b"<<<<<<<" in conflicted(project, "r-0.22").read_bytes()


def test_final_probe_that_disagrees_writes_nothing_and_names_a_command_that_works(
    make: Callable[..., Project], bench: Store, make_tree: Callable[..., str]
) -> None:
    covering = '\n[[variant]]\nreleases = "==0.21.0"\ndiff = "no.patch"\n'
    useless = bench.diff(make_tree({"a.py": BROKEN}), make_tree({"a.py": BROKEN.replace(b"line_1 = 1", b"line_1 = 2")}))
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN}, covering, more={"no.patch": useless})
    before = declared(project)
    with pytest.raises(ProbeError, match="outcome and probe disagree for mend-a") as error:
        start(project, "0.21.0")
    assert "./inv forecast --probes --releases 0.21.0" in error.value.next
    assert declared(project) == before and bump.status(project) is None


def test_directory_of_ours_in_the_way_is_never_deleted(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN})
    mine = project.workspace.work / "bump-r-0.21" / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    assert isinstance(start(project, "0.21.0"), Bumped)
    (kept,) = project.workspace.work.glob("bump-r-0.21.aborted-*")
    assert (kept / "notes.txt").read_text() == "mine"
