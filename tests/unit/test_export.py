"""A patch edited as a commit and written back: only what changed, and never over what changed elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from made_edit import (
    LINES,
    amend,
    changed,
    checkout,
    declared,
    final,
    fresh,
    git,
    make_project,
    opened,
    run,
    three,
    variant,
    write,
)

from patchset import export, series_edit
from patchset.errors import DiffRefused, SeriesError, WorktreeError
from patchset.resolve import Project, resolve
from patchset.store import Entry, Store
from patchset.store.trees import EPOCH

Make = Callable[..., Project]


@pytest.fixture
def make(bench: Store, make_tree: Callable[..., str], tmp_path: Path) -> Make:
    """Release → the content of a.py: a project of three patches of it, at lines 10, 30 and 50."""

    def diff(old: bytes, new: bytes) -> bytes:
        return bench.diff(make_tree({"a.py": old}), make_tree({"a.py": new}))

    def project(releases: Mapping[str, bytes], **more: object) -> Project:
        return three(tmp_path / "clone", diff, releases, **more)  # type: ignore[arg-type]

    return project


@pytest.mark.parametrize("patch", ["first", "second", "third"])
def test_untouched_checkout_is_a_no_op(patch: str, make: Make) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project, patch)
    before = declared(project)
    assert run(project, directory).exported == ()
    assert declared(project) == before


@pytest.mark.parametrize(("more", "exported"), [(15, ["first"]), (32, ["first", "second"])])
def test_edit_of_the_first_patch_carries_the_later_ones(more: int, exported: list[str], make: Make) -> None:
    """Line 32 is context of the second patch: that is written anew too, so that it applies and need not be merged."""
    project = make({"0.20.0": LINES})
    directory = opened(project)
    amend(directory, changed(10, more))
    before = declared(project)
    assert [item.patch for item in run(project, directory, write=False).exported] == exported
    assert declared(project) == before
    run(project, directory)
    written = {name for name, content in declared(project).items() if before.get(name) != content}
    assert written == {f"recipes/patches/{patch}/a.patch" for patch in exported}
    assert final(project) == changed(10, 30, more, 50)
    assert run(project, directory).exported == ()


def test_exported_diff_is_that_of_the_store_whatever_git_is_told(make: Make, bench: Store) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project)
    for key, value in (("diff.noprefix", "true"), ("diff.context", "0"), ("core.abbrev", "4"), ("color.ui", "always")):
        git(directory, "config", key, value)
    amend(directory, changed(10, 12))
    run(project, directory)
    data = (project.patches["first"].folder / "a.patch").read_bytes()
    assert data.startswith(b"diff --git a/a.py b/a.py\nindex ") and len(data.split(b"\n")[1]) == len("index ") + 82 + 7
    assert b"\x1b" not in data and data.count(b"\n line_") >= 6


def test_whole_series_is_edited_with_a_fixup_squashed_or_not(make: Make, tmp_path: Path) -> None:
    project = make({"0.20.0": LINES})
    directory = checkout(project, tmp_path / "whole")
    write(directory, changed(8, 10, 30, 50))
    git(directory, "commit", "-qam", "fixup! the first")
    assert [item.patch for item in run(project, directory, write=False).exported] == ["first"]
    git(directory, "-c", "sequence.editor=true", "rebase", "-q", "-i", "--autosquash", "--root")
    assert git(directory, "log", "--format=%s").split("\n")[:3] == ["the third", "the second", "the first"]
    assert [item.patch for item in run(project, directory).exported] == ["first"]
    assert final(project) == changed(8, 10, 30, 50)
    assert run(project, directory).exported == ()


@pytest.mark.parametrize(
    ("disturb", "words"),
    [
        (lambda d: write(d, b"not committed\n"), "not committed"),
        (lambda d: (write(d, changed(10, 1)), git(d, "commit", "-qam", "new work")), "belongs to no patch"),
        (lambda d: (write(d, changed(10, 1)), git(d, "commit", "-qam", "x\n\nPatch: other")), "names 'other'"),
        (lambda d: git(d, "reset", "-q", "--hard", "HEAD~2"), "second, third is missing there"),
    ],
    ids=["uncommitted", "no patch", "another patch", "dropped at the end"],
)
def test_what_is_no_series_is_refused_with_the_next_command(
    disturb: Callable[[Path], object], words: str, make: Make
) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project, "third")
    before = declared(project)
    disturb(directory)
    with pytest.raises((WorktreeError, SeriesError), match=words) as error:
        run(project, directory)
    assert error.value.next
    assert declared(project) == before


def test_dropped_and_reordered_commits_are_named(make: Make) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project, "third")
    commits = git(directory, "rev-list", "--reverse", "HEAD").split()[1:]
    git(directory, "reset", "-q", "--hard", commits[0])
    git(directory, "cherry-pick", commits[2])
    with pytest.raises(SeriesError, match="second is missing there"):
        run(project, directory)
    git(directory, "cherry-pick", commits[1])
    with pytest.raises(SeriesError, match="it has first, third, second"):
        run(project, directory)


def test_directory_that_is_no_checkout_or_of_another_base_is_refused(make: Make, tmp_path: Path) -> None:
    project = make({"0.20.0": LINES})
    with pytest.raises(WorktreeError, match="no checkout there"):
        run(project, tmp_path / "nowhere")
    git(tmp_path, "init", "-q", "other")
    (tmp_path / "other" / "f").write_text("x")
    git(tmp_path / "other", "add", "f")
    git(tmp_path / "other", "commit", "-qm", "x")
    with pytest.raises(WorktreeError, match=r"not based on vLLM 0\.20\.0"):
        run(project, tmp_path / "other")


def test_later_patch_that_no_longer_goes_in_is_named(make: Make) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project)
    amend(directory, changed(10, 30, word=b"OTHER"))
    before = declared(project)
    with pytest.raises(SeriesError, match=r"patch second does not go in any more: a\.py"):
        run(project, directory)
    assert declared(project) == before


def test_edit_that_does_not_compile_or_undoes_the_patch_is_refused(make: Make) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project)
    amend(directory, changed(10) + b"def f(:\n")
    with pytest.raises(SeriesError, match="does not compile"):
        run(project, directory)
    write(directory, LINES)
    git(directory, "commit", "-qa", "--amend", "--no-edit", "--allow-empty")
    with pytest.raises(SeriesError, match="changes nothing any more"):
        run(project, directory)


# -- a checkout that is not of today ------------------------------------------------------------------------------------


def test_patch_changed_elsewhere_since_is_not_undone(make: Make, tmp_path: Path) -> None:
    """Two checkouts of one series: the one that is exported second must not bring the old state back."""
    project = make({"0.20.0": LINES})
    old, other = checkout(project, tmp_path / "old"), checkout(project, tmp_path / "other")
    write(other, changed(10, 30, 31, 50))
    git(other, "commit", "-qam", "fixup! the second")
    run(project, other)
    before = declared(project)
    with pytest.raises(WorktreeError, match="since this checkout was made, second changed") as error:
        run(project, old)
    assert "cherry-pick" in error.value.next
    git(old, "switch", "-qc", "mine")
    amend(old, changed(10, 30, 50, 52))
    with pytest.raises(WorktreeError, match="second changed"):
        run(project, old)
    assert declared(project) == before
    assert final(project) == changed(10, 30, 31, 50)


def test_the_remedy_it_names_works(make: Make, tmp_path: Path) -> None:
    project = make({"0.20.0": LINES})
    old = checkout(project, tmp_path / "old")
    write(old, changed(8, 10, 30, 50))
    git(old, "commit", "-qam", "fixup! the first")
    amend(opened(project), changed(10, 11))
    run(project, project.workspace.work / "edit-r")
    with pytest.raises(WorktreeError, match="first changed"):
        run(project, old)
    new = checkout(project, tmp_path / "new")
    git(new, "fetch", "-q", str(old))
    git(new, "cherry-pick", "FETCH_HEAD")
    run(project, new)
    assert final(project) == changed(8, 10, 11, 30, 50)


def test_checkout_goes_on_being_of_use_after_an_export(make: Make) -> None:
    """Edit, export, edit on, export; then another patch in the same directory, and the first once more."""
    project = make({"0.20.0": LINES})
    directory = opened(project)
    for more in ((11,), (11, 12)):
        amend(directory, changed(10, *more))
        run(project, directory)
    assert opened(project, "second") == directory
    amend(directory, changed(10, 11, 12, 30, 31))
    with pytest.raises(WorktreeError, match="HEAD is at") as error:
        opened(project, "first")
    assert f"./inv export --from {directory}" in error.value.next
    run(project, directory)
    opened(project, "first")
    assert (directory / "a.py").read_bytes() == changed(10, 11, 12)
    assert final(project) == changed(10, 11, 12, 30, 31, 50)


def test_export_killed_after_its_files_were_written_is_ended_by_the_next(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project)
    amend(directory, changed(10, 11))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Store, "note_exported", killed)
        with pytest.raises(KeyboardInterrupt):
            run(project, directory)
    assert run(project, directory).exported == ()
    opened(project, "second")
    assert (directory / "a.py").read_bytes() == changed(10, 11, 30)


def test_check_writes_nothing_not_even_in_the_checkout(make: Make) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project)
    amend(directory, changed(10, 11))
    refs, before = git(directory, "for-each-ref"), declared(project)
    assert run(project, directory, write=False).exported
    assert (git(directory, "for-each-ref"), declared(project)) == (refs, before)


def test_foreign_repository_is_exported_and_never_taken_for_one_of_this_tool(make: Make, tmp_path: Path) -> None:
    project = make({"0.20.0": LINES})
    git(tmp_path, "clone", "-q", "-b", "patchset", str(checkout(project, tmp_path / "whole")), "mine")
    mine = tmp_path / "mine"
    write(mine, changed(10, 30, 50, 52))
    git(mine, "commit", "-qam", "fixup! the third")
    run(project, mine)
    assert final(project) == changed(10, 30, 50, 52)
    with pytest.raises(WorktreeError, match="no checkout of this tool"):
        checkout(project, mine)


@pytest.mark.parametrize("how", ["drop", "move"])
def test_dropped_and_moved_commits_go_with_the_recipe(how: str, make: Make, tmp_path: Path) -> None:
    """What the refusal tells to type makes the branch right, and what else was edited in it is written."""
    project = make({"0.20.0": LINES})
    directory = checkout(project, tmp_path / "whole")
    write(directory, changed(8, 10, 30, 50))
    git(directory, "commit", "-qam", "fixup! the first")
    commits = git(directory, "rev-list", "--reverse", "HEAD").split()[1:]
    git(directory, "reset", "-q", "--hard", commits[0])
    git(directory, "cherry-pick", *(commits[2:] if how == "drop" else [commits[2], commits[1], commits[3]]))
    with pytest.raises(SeriesError, match="is not the series") as error:
        run(project, directory)
    now = fresh(project)
    if how == "drop":
        assert "./inv drop second" in error.value.next
        series_edit.drop(now, now.recipe("r"), "second", "not needed")
    else:
        assert "./inv move second --after third" in error.value.next
        series_edit.move(now, now.recipe("r"), "second", after="third")
    assert [item.patch for item in run(project, directory).exported] == ["first"]
    assert final(project) == (changed(8, 10, 50) if how == "drop" else changed(8, 10, 30, 50))


# -- what may not be written --------------------------------------------------------------------------------------------


def test_repository_inside_and_link_out_of_the_tree_are_refused(make: Make, tmp_path: Path) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project)
    before = declared(project)
    (directory / "l").symlink_to("../../etc/passwd")
    git(directory, "add", "l")
    amend(directory, changed(10, 11))
    with pytest.raises(DiffRefused, match="link"):
        run(project, directory)
    git(directory, "rm", "-q", "--cached", "l")
    (directory / "l").unlink()
    git(directory, "init", "-q", "inner")
    git(directory / "inner", "commit", "-q", "--allow-empty", "-m", "x")
    git(directory, "add", "inner")
    amend(directory, changed(10, 11))
    with pytest.raises(DiffRefused):
        run(project, directory)
    assert declared(project) == before


def test_untouched_patch_that_only_merges_is_a_no_op(
    bench: Store, make_tree: Callable[..., str], tmp_path: Path
) -> None:
    """Its diff does not apply as it stands; but nobody edited it."""
    old, new = {"a.py": LINES}, {"a.py": changed(10)}
    drifted = {"a.py": changed(12)}
    data = bench.diff(make_tree(old), make_tree(new))
    project = make_project(
        tmp_path / "clone", {"0.20.0": drifted, "0.21.0": old}, {"first": (variant(), {"a.patch": data})}
    )
    project.bases(Store.open(project.workspace.store)).tree("0.21.0")  # the merge needs the old file
    now = fresh(project)
    store = Store.open(project.workspace.store)
    resolved = resolve(now, now.recipe("r"), store, lambda text: None)
    assert [step.outcome.value for step in resolved.applied.steps] == ["merges"]
    assert export.check_untouched(now, resolved, store) == ()
    before = declared(project)
    directory = opened(project)
    assert run(project, directory).exported == ()
    assert declared(project) == before
    amend(directory, changed(10, 12, 14))
    run(project, directory)
    resolved = resolve(fresh(project), fresh(project).recipe("r"), store, lambda text: None)
    assert [step.outcome.value for step in resolved.applied.steps] == ["applies"]


def test_check_untouched_tells_of_commits_that_are_not_what_the_diffs_say(make: Make) -> None:
    project = make({"0.20.0": LINES})
    store = Store.open(project.workspace.store)
    resolved = resolve(project, project.recipe("r"), store, lambda text: None)
    assert export.check_untouched(project, resolved, store) == ()
    last = resolved.applied.steps[-1]
    other = store.with_file(last.tree, "a.py", Entry("100644", store.write_blob(changed(10, 30, 50, 52))))
    commit = store.commit(other, store.commit_at(last.commit).parents, "x\n\nPatch: third", EPOCH)
    tampered = replace(resolved, applied=replace(resolved.applied, commit=commit))
    (line,) = export.check_untouched(project, tampered, store)
    assert line.startswith("third ==0.20.0")
