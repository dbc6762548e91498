"""A patch opened as a commit of a checkout: which one, with what behind it, and never over a person's work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_edit import LINES, amend, bring, changed, fresh, git, make_project, opened, three, variant, write

from patchset import edit
from patchset.errors import DeclarationError, SeriesError, WorktreeError
from patchset.resolve import Project
from patchset.store import Store

Make = Callable[[], Project]


@pytest.fixture
def make(bench: Store, make_tree: Callable[..., str], tmp_path: Path) -> Make:
    """A project of three patches at lines 10, 30 and 50."""

    def diff(old: bytes, new: bytes) -> bytes:
        return bench.diff(make_tree({"a.py": old}), make_tree({"a.py": new}))

    return lambda: three(tmp_path / "clone", diff, {"0.20.0": LINES})


def test_patch_is_the_last_commit_of_a_repository_of_its_own(make: Make) -> None:
    project = make()
    done = edit.open_patch(project, project.recipe("r"), "second", "")
    assert done == edit.Opened(
        "r", "second", "==0.20.0", project.workspace.work / "edit-r", "made", ("a.py",), ("third",)
    )
    assert git(done.directory, "log", "--format=%s|%(trailers:key=Patch,valueonly,separator=)").splitlines() == [
        "the second|second",
        "the first|first",
        "vllm 0.20.0|",
    ]
    assert git(done.directory, "branch", "--show-current") == "patchset\n"
    assert git(done.directory, "status", "--porcelain") == ""
    assert (done.directory / "a.py").read_bytes() == changed(10, 30)
    assert git(done.directory, "show", "--format=", "--unified=0").count("\n-line_") == 1


def test_directory_of_choice_relative_to_where_one_is(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make()
    monkeypatch.chdir(tmp_path)
    assert opened(project, "third", "here/it") == tmp_path / "here" / "it"
    assert (tmp_path / "here/it/a.py").read_bytes() == changed(10, 30, 50)


def test_opening_another_patch_moves_an_untouched_checkout(make: Make) -> None:
    project = make()
    recipe = project.recipe("r")
    said = [edit.open_patch(project, recipe, patch, "").what for patch in ("first", "first", "third", "second")]
    assert said == ["made", "unchanged", "moved", "moved"]
    assert (project.workspace.work / "edit-r/a.py").read_bytes() == changed(10, 30)


def disturb_file(directory: Path) -> None:
    write(directory, b"mine\n")


def disturb_new(directory: Path) -> None:
    write(directory, b"mine\n", "mine.py")


def disturb_commit(directory: Path) -> None:
    amend(directory, changed(10, 11))


def disturb_branch(directory: Path) -> None:
    git(directory, "switch", "-qc", "mine")


@pytest.mark.parametrize("disturb", [disturb_file, disturb_new, disturb_commit, disturb_branch])
@pytest.mark.parametrize("patch", ["first", "second"])
def test_work_of_a_person_is_not_replaced(disturb: Callable[[Path], None], patch: str, make: Make) -> None:
    project = make()
    directory = opened(project)
    disturb(directory)
    before = (git(directory, "log", "--all", "--format=%H %D"), git(directory, "status", "--porcelain"))
    content = (directory / "a.py").read_bytes()
    with pytest.raises(WorktreeError) as error:
        opened(project, patch)
    assert error.value.next and error.value.where == str(directory)
    after = (git(directory, "log", "--all", "--format=%H %D"), git(directory, "status", "--porcelain"))
    assert (after, (directory / "a.py").read_bytes()) == (before, content)


def test_patch_that_is_not_there_or_changes_nothing_cannot_be_opened(make: Make) -> None:
    project = make()
    with pytest.raises(DeclarationError, match=r"no patch 'x' .*first, second, third"):
        opened(project, "x")
    folder = project.patches["second"].folder
    text = (folder / "patch.toml").read_text()
    (folder / "patch.toml").write_text(text.replace('diff = "a.patch"', 'absent = [{ file = "b.py" }]'))
    (folder / "a.patch").unlink()
    with pytest.raises(DeclarationError, match=r"second changes nothing at 0\.20\.0 \(absent\)") as error:
        opened(project, "second")
    assert "./inv forecast --patch second" in error.value.next
    assert opened(project, "third")
    assert not list(project.workspace.work.glob("edit-r?*"))


def test_series_that_stops_has_nothing_to_open(bench: Store, make_tree: Callable[..., str], tmp_path: Path) -> None:
    """0.20.0 does not have the line: the person is told which patch, and no directory is made."""
    data = bench.diff(make_tree({"a.py": LINES}), make_tree({"a.py": changed(10)}))
    releases = {"0.20.0": {"a.py": LINES.replace(b"line_10", b"ten")}}
    project = make_project(tmp_path / "clone", releases, {"first": (variant(), {"a.patch": data})})
    with pytest.raises(SeriesError, match=r"first \(conflicts\)"):
        opened(project)
    assert not project.workspace.work.exists()


def test_patch_that_only_merges_opens_at_what_the_merge_made(
    bench: Store, make_tree: Callable[..., str], tmp_path: Path
) -> None:
    data = bench.diff(make_tree({"a.py": LINES}), make_tree({"a.py": changed(10)}))
    releases = {"0.20.0": {"a.py": changed(12)}, "0.21.0": {"a.py": LINES}}
    project = make_project(tmp_path / "clone", releases, {"first": (variant(), {"a.patch": data})})
    bring(project, ["0.21.0"])
    assert (opened(fresh(project)) / "a.py").read_bytes() == changed(10, 12)
