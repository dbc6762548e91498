"""A conflict as a person meets it: a checkout that ordinary git works in, and what is taken from it and what is not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from made_bump import (
    BROKEN,
    CLASH,
    LINES,
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

from patchset import bump
from patchset.bump import Bumped, Stopped
from patchset.console import Console
from patchset.errors import DeclarationError, WorktreeError
from patchset.resolve import Project
from patchset.store import Store

Make = Callable[..., Project]
MERGED = CLASH.replace(b"state = 'broken'  # other\n", b"state = 'whole'  # both\n")


@pytest.fixture
def stopped(make: Make) -> Project:
    """A project that waits for a person: a.py clashes, and an ignored file belongs to the patch too."""
    project = make({"0.20.0": BROKEN, "0.21.0": {"a.py": CLASH, ".gitignore": b"*.log\nbuild/\n"}})
    assert isinstance(start(project, "0.21.0"), Stopped)
    return project


def go_on(project: Project) -> Bumped:
    done = bump.go_on(fresh(project), Console())
    assert isinstance(done, Bumped)
    return done


def test_mergetool_of_git_works_and_its_backup_is_not_taken(stopped: Project) -> None:
    directory = conflicted(stopped).parent
    script = directory.parent / "tool.sh"
    script.write_text('#!/bin/sh\nsed "s/# other/# by tool/; s/broken/whole/" "$2" > "$4"\n')
    script.chmod(0o755)
    git(
        directory,
        *("-c", f'mergetool.mine.cmd={script} "$BASE" "$LOCAL" "$REMOTE" "$MERGED"'),
        *("-c", "mergetool.mine.trustExitCode=true", "mergetool", "--tool=mine", "--no-prompt"),
    )
    assert (directory / "a.py.orig").exists()
    done = go_on(stopped)
    result = in_tree(stopped, accepted(stopped, done.recipe)) or b""
    assert b"# by tool" in result
    assert in_tree(stopped, done.tree, "a.py.orig") is None


@pytest.mark.parametrize("side", ["--ours", "--theirs"])
def test_sides_can_be_checked_out(side: str, stopped: Project) -> None:
    directory = conflicted(stopped).parent
    git(directory, "checkout", side, "a.py")
    assert (directory / "a.py").read_bytes() == (CLASH if side == "--ours" else WHOLE)
    if side == "--theirs":
        assert in_tree(stopped, go_on(stopped).tree) == WHOLE
        return
    with pytest.raises(WorktreeError, match="nothing is left of mend-a"):
        bump.go_on(stopped, Console())
    assert bump.status(stopped) and directory.exists()


def test_history_has_a_commit_for_the_release_and_one_for_each_patch_before(make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": {"a.py": BROKEN, "b.py": CLASH}})
    start(project, "0.21.0")
    directory = conflicted(project).parent
    log = git(directory, "log", "--format=%B").split()
    assert log == ["T", "Patch:", "mend-a", "vllm", "0.21.0"]
    assert git(directory, "diff", "--name-only", "HEAD~1", "HEAD") == "a.py\n"


def test_committed_resolution_is_taken(stopped: Project) -> None:
    settle(conflicted(stopped))
    who = ("-c", "user.name=p", "-c", "user.email=p@h")
    git(conflicted(stopped).parent, *who, "commit", "-qam", "resolved")
    assert in_tree(stopped, go_on(stopped).tree) == MERGED


def test_what_lies_there_counts_and_not_what_was_staged(stopped: Project) -> None:
    file = conflicted(stopped)
    settle(file, b"state = 'broken'  # staged first\n")
    git(file.parent, "add", "a.py")
    git(file.parent, "update-index", "--assume-unchanged", "a.py")
    file.write_bytes(MERGED)
    assert in_tree(stopped, go_on(stopped).tree) == MERGED


def test_new_file_is_taken_if_added_and_asked_about_if_not(stopped: Project) -> None:
    file = conflicted(stopped)
    settle(file)
    (file.parent / "helper.py").write_text("x = 1\n")
    with pytest.raises(WorktreeError, match=r"1 files are new there and were not added, the first is helper\.py"):
        bump.go_on(stopped, Console())
    git(file.parent, "add", "helper.py")
    assert in_tree(stopped, go_on(stopped).tree, "helper.py") == b"x = 1\n"


def test_ignored_file_that_was_added_by_force_is_taken(stopped: Project) -> None:
    file = conflicted(stopped)
    settle(file)
    (file.parent / "kept.log").write_text("kept\n")
    git(file.parent, "add", "--force", "kept.log")
    assert in_tree(stopped, go_on(stopped).tree, "kept.log") == b"kept\n"


def test_ignored_file_of_a_person_keeps_the_checkout(stopped: Project) -> None:
    file = conflicted(stopped)
    settle(file)
    (file.parent / "notes.log").write_text("mine\n")
    assert in_tree(stopped, go_on(stopped).tree, "notes.log") is None
    (kept,) = stopped.workspace.work.glob("bump-r-0.21.aborted-*")
    assert (kept / "notes.log").read_text() == "mine\n"


@pytest.mark.parametrize("where", ["branch", "tag", "stash"])
def test_commit_that_only_the_checkout_has_keeps_it(stopped: Project, where: str) -> None:
    """The files are again as they were laid out; what a person did is in the checkout's repository alone."""
    directory = conflicted(stopped).parent
    laid_out = (directory / "a.py").read_bytes()
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "-m", "as it was")
    (directory / "precious.txt").write_text("mine\n")
    git(directory, "add", "precious.txt")
    if where == "stash":
        git(directory, "stash", "push", "--quiet")
    else:
        git(directory, "checkout", "--quiet", "-b", "mine")
        git(directory, "commit", "--quiet", "-m", "precious")
        if where == "tag":
            git(directory, "tag", "-a", "-m", "precious", "kept")
        git(directory, "checkout", "--quiet", "-")
        if where == "tag":
            git(directory, "branch", "--quiet", "-D", "mine")
    assert (directory / "a.py").read_bytes() == laid_out and not (directory / "precious.txt").exists()
    bump.abort(stopped, Console())
    (kept,) = stopped.workspace.work.glob("bump-r-0.21.aborted-*")
    named = {"branch": "mine", "tag": "kept", "stash": "stash"}[where]
    assert git(kept, "show", f"{named}:precious.txt") == "mine\n"


def test_all_markers_that_are_left_are_named_and_lines_that_look_so_are_none(make: Make) -> None:
    lookalike = b'"""\n<<<<<<< not one\n>>>>>>>\n"""\n'
    project = make({"0.20.0": BROKEN, "0.21.0": lookalike + CLASH})
    start(project, "0.21.0")
    with pytest.raises(WorktreeError, match=r"3 conflict markers .* a\.py:25") as error:
        bump.go_on(project, Console())
    assert error.value.detail.splitlines() == ["a.py:25", "a.py:27", "a.py:31"]
    file = conflicted(project)
    head, _, rest = file.read_bytes().partition(b"<<<<<<< vLLM")
    file.write_bytes(head + b"state = 'whole'\n" + rest.partition(b">>>>>>> patch")[2].partition(b"\n")[2])
    assert lookalike in (in_tree(project, go_on(project).tree) or b"")


def test_markers_of_a_file_with_crlf_are_named_too(make: Make, bench: Store, make_tree: Callable[..., str]) -> None:
    broken, clash, whole = (text.replace(b"\n", b"\r\n") for text in (BROKEN, CLASH, WHOLE))
    project = make({"0.20.0": broken, "0.21.0": clash}, diff_a=({"a.py": broken}, {"a.py": whole}))
    stopped = start(project, "0.21.0")
    assert isinstance(stopped, Stopped)
    assert b"<<<<<<< vLLM 0.21.0 with the series so far" in conflicted(project).read_bytes()
    with pytest.raises(WorktreeError, match="3 conflict markers"):
        bump.go_on(project, Console())
    conflicted(project).write_bytes(clash.replace(b"'broken'", b"'whole'"))
    assert in_tree(project, go_on(project).tree) == clash.replace(b"'broken'", b"'whole'")


GONE = {"c.py": BROKEN}


@pytest.mark.parametrize("choice", ["add", "rm"])
def test_deleted_file_must_be_decided_about(
    choice: str, make: Make, bench: Store, make_tree: Callable[..., str]
) -> None:
    """The release deleted a file that the patch changes: there are no lines to resolve."""
    files = ({"a.py": BROKEN, "c.py": BROKEN}, {"a.py": WHOLE, "c.py": BROKEN + b"more = 1\n"})
    project = make({"0.20.0": files[0], "0.21.0": {"a.py": CLASH}}, diff_a=files)
    stopped = start(project, "0.21.0")
    assert isinstance(stopped, Stopped) and stopped.clash.merged.conflicts == ("a.py", "c.py")
    assert "c.py: 0.21.0 does not have it any more, and the patch changes it" in stopped.clash.why
    directory = conflicted(project).parent
    assert "DU c.py" in git(directory, "status", "--porcelain") or "UD c.py" in git(directory, "status", "--porcelain")
    settle(conflicted(project))
    with pytest.raises(WorktreeError, match=r"c\.py cannot be merged by lines") as error:
        bump.go_on(project, Console())
    assert "git rm c.py" in error.value.next
    git(directory, choice, *(["--quiet"] if choice == "rm" else []), "c.py")
    done = go_on(project)
    assert (in_tree(project, done.tree, "c.py") is not None) == (choice == "add")
    accepted(project, done.recipe)


def test_binary_file_on_both_sides_must_be_decided_about(make: Make) -> None:
    old, ours, theirs = b"\0old", b"\0ours", b"\0theirs"
    files = ({"a.py": BROKEN, "x.bin": old}, {"a.py": WHOLE, "x.bin": theirs})
    project = make({"0.20.0": files[0], "0.21.0": {"a.py": BROKEN, "x.bin": ours}}, diff_a=files)
    stopped = start(project, "0.21.0")
    assert isinstance(stopped, Stopped) and stopped.clash.merged.conflicts == ("x.bin",)
    directory = conflicted(project).parent
    with pytest.raises(WorktreeError, match=r"x\.bin cannot be merged by lines"):
        bump.go_on(project, Console())
    git(directory, "checkout", "--theirs", "x.bin")
    done = go_on(project)
    assert in_tree(project, done.tree, "x.bin") == theirs
    accepted(project, done.recipe)


def test_checkout_that_is_gone_is_laid_out_again(stopped: Project) -> None:
    before = conflicted(stopped).read_bytes()
    shutil.rmtree(conflicted(stopped).parent)
    again = bump.go_on(stopped, Console())
    assert isinstance(again, Stopped) and conflicted(stopped).read_bytes() == before


def test_checkout_that_is_none_any_more_is_said_and_kept(stopped: Project) -> None:
    directory = conflicted(stopped).parent
    shutil.rmtree(directory / ".git")
    with pytest.raises(WorktreeError, match="cannot be read"):
        bump.go_on(stopped, Console())
    assert isinstance(bump.restart(stopped, Console()), Stopped)
    (kept,) = stopped.workspace.work.glob("bump-r-0.21.aborted-*")
    assert (kept / "a.py").exists() and (directory / ".git").is_dir()


def test_link_in_the_place_of_the_checkout_is_not_followed(stopped: Project, tmp_path: Path) -> None:
    directory = conflicted(stopped).parent
    os.rename(directory, tmp_path / "elsewhere")
    directory.symlink_to(tmp_path / "elsewhere")
    bump.abort(stopped, Console())
    assert (tmp_path / "elsewhere" / "a.py").exists() and not os.path.lexists(directory)


def test_two_aborts_in_one_second_keep_both(make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    for text in (b"one", b"two"):
        start(project, "0.21.0")
        conflicted(project).write_bytes(text)
        bump.abort(project, Console())
    kept = {(path / "a.py").read_bytes() for path in project.workspace.work.glob("bump-r-0.21.aborted-*")}
    assert kept == {b"one", b"two"}


def test_patch_that_was_mended_meanwhile_needs_no_person_any_more(stopped: Project) -> None:
    folder = stopped.patches["mend-a"].folder
    store = Store.open(stopped.workspace.store)
    tree = store.tree_of(bump_head(stopped))
    from made_trees import tree_in

    (folder / "mine.patch").write_bytes(store.diff(tree_in(store, {"a.py": CLASH}), tree_in(store, {"a.py": MERGED})))
    text = (folder / "patch.toml").read_text() + '\n[[variant]]\nreleases = "==0.21.0"\ndiff = "mine.patch"\n'
    (folder / "patch.toml").write_text(text)
    settle(conflicted(stopped), b"state = 'whole'  # not needed after all\n")
    done = go_on(stopped)
    assert tree and in_tree(stopped, done.tree) == MERGED
    assert variants(stopped) == {"==0.20.0": "0.20.patch", "==0.21.0": "mine.patch"}
    (kept,) = stopped.workspace.work.glob("bump-r-0.21.aborted-*")
    assert b"not needed after all" in (kept / "a.py").read_bytes()


def bump_head(project: Project) -> str:
    return git(conflicted(project).parent, "rev-parse", "HEAD").strip()


def test_object_store_that_was_deleted_meanwhile_costs_nothing(stopped: Project) -> None:
    before = declared(stopped)
    settle(conflicted(stopped))
    shutil.rmtree(stopped.workspace.store)
    assert in_tree(stopped, go_on(stopped).tree) == MERGED
    assert declared(stopped).keys() > before.keys()


def test_hidden_leftovers_of_a_killed_run_are_swept(stopped: Project) -> None:
    left = stopped.workspace.work / ".bump-r-0.21-12345"
    (left / "deep").mkdir(parents=True)
    bump.abort(stopped, Console())
    assert not left.exists() and not list(stopped.workspace.work.glob("bump-*"))


def test_release_without_the_file_is_a_conflict_and_not_fixed(make: Make) -> None:
    """Not found is not fixed: the defect is elsewhere now, in a file that is no rename of the old one."""
    project = make({"0.20.0": BROKEN, "0.21.0": {"z/a9.py": b"state = 'broken'\n"}})
    stopped = start(project, "0.21.0")
    assert isinstance(stopped, Stopped) and stopped.clash.merged.conflicts == ("a.py",)
    directory = conflicted(project).parent
    git(directory, "rm", "--quiet", "a.py")
    (directory / "z" / "a9.py").write_bytes(b"state = 'whole'\n")
    done = go_on(project)
    assert in_tree(project, done.tree, "z/a9.py") == b"state = 'whole'\n"
    assert LINES not in (in_tree(project, accepted(project, done.recipe)) or b"")


def test_patch_that_was_never_needed_before_is_written_by_a_person(make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN})
    folder = project.patches["mend-a"].folder
    text = (folder / "patch.toml").read_text().replace('diff = "0.20.patch"', 'proved = "sound"\nnote = "n"')
    (folder / "patch.toml").write_text(text)
    (folder / "0.20.patch").unlink()
    stopped = start(fresh(project), "0.21.0")
    assert isinstance(stopped, Stopped) and "0.21.0 has the defect" in stopped.clash.why
    with pytest.raises(WorktreeError, match="nothing is left of mend-a"):
        bump.go_on(fresh(project), Console())
    conflicted(project).write_bytes(WHOLE)
    done = go_on(project)
    assert done.carried[0].how == "written by hand" and in_tree(project, accepted(project, done.recipe)) == WHOLE


@pytest.mark.parametrize("target", [{"a.py": CLASH}, {"x.bin": b"\0ours"}, {"a.py": CLASH, "x.bin": b"\0ours"}])
def test_checkout_that_nobody_touched_is_removed(target: dict[str, bytes], make: Make) -> None:
    files = ({"a.py": BROKEN, "x.bin": b"\0old"}, {"a.py": WHOLE, "x.bin": b"\0theirs"})
    project = make({"0.20.0": files[0], "0.21.0": {"a.py": BROKEN} | target}, diff_a=files)
    stopped = start(project, "0.21.0")
    assert isinstance(stopped, Stopped)
    git(conflicted(project).parent, "status")  # refreshes its index, and changes nothing
    bump.abort(project, Console())
    assert not list(project.workspace.work.glob("*bump-*"))


def test_resolution_of_a_colleague_that_comes_meanwhile_does_not_overrule_the_person(
    stopped: Project, make_tree: Callable[..., str]
) -> None:
    from datetime import date

    from patchset.bump import resolutions

    now = bump.status(stopped)
    store = Store.open(stopped.workspace.store)
    assert now and now.waiting
    attempt = store.read(now.waiting.attempt, "a.py") or b""
    theirs = CLASH.replace(b"'broken'  # other", b"'whole'  # the colleague's")
    (made,) = resolutions.learn(attempt, theirs, "mend-a", "0.21.0", date(2026, 12, 1))
    folder = stopped.workspace.recipes / "resolutions"
    folder.mkdir()
    (folder / f"{made[0].key}.json").write_bytes(made[0].document(made[1]))
    settle(conflicted(stopped))
    assert in_tree(stopped, go_on(stopped).tree) == MERGED


def test_attempt_that_the_state_invents_is_not_believed(stopped: Project) -> None:
    from dataclasses import replace

    from patchset.bump.state import write_state

    now = bump.status(stopped)
    assert now and now.waiting
    settle(conflicted(stopped))
    write_state(stopped.workspace, replace(now, waiting=replace(now.waiting, attempt="1" * 40)))
    with pytest.raises(WorktreeError, match="cannot be read"):
        bump.go_on(stopped, Console())
    write_state(
        stopped.workspace,
        replace(now, waiting=None, resolved={"mend-a": "1" * 40}, clashes={"mend-a": now.waiting.clash}),
    )
    with pytest.raises(DeclarationError, match="not in the object store any more"):
        bump.go_on(stopped, Console())
    assert isinstance(bump.restart(stopped, Console()), Stopped)
