"""Checkouts for a person: never over changes, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from patchset.errors import WorktreeError
from patchset.store import Store
from patchset.store.trees import EPOCH
from patchset.worktree import write_checkout

Git = Callable[..., str]


@pytest.fixture(scope="module")
def commits(bench: Store, make_tree: Callable[..., str]) -> tuple[str, str]:
    """A base, and a patch on it."""
    base = bench.commit(make_tree({"f": b"old\n", "g": b"g\n", ".gitignore": b"*.log\n"}), (), "base", EPOCH)
    return base, bench.commit(
        make_tree({"f": b"new\n", "n": b"n\n", ".gitignore": b"*.log\n"}), (base,), "patch", EPOCH
    )


def snapshot(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


@pytest.mark.parametrize("empty", [True, False], ids=["empty", "missing"])
def test_missing_or_empty_directory_gets_a_repository_of_its_own(
    empty: bool, commits: tuple[str, str], bench: Store, tmp_path: Path, plain_git: Git
) -> None:
    there = tmp_path / "a" / "b"
    if empty:
        there.mkdir(parents=True)
    assert write_checkout(bench, commits[1], there) == "made"
    assert snapshot(there) == {"f": b"new\n", "n": b"n\n", ".gitignore": b"*.log\n"}
    assert plain_git(there, "log", "--format=%H %s", "patchset").splitlines() == [
        f"{commits[1]} patch",
        f"{commits[0]} base",
    ]
    assert plain_git(there, "status", "--porcelain") == ""
    assert plain_git(there, "branch", "--show-current") == "patchset"
    assert [path.name for path in there.parent.iterdir()] == ["b"]


def test_checkout_needs_the_store_no_more(
    commits: tuple[str, str], bench: Store, tmp_path: Path, plain_git: Git
) -> None:
    write_checkout(bench, commits[1], tmp_path / "c")
    assert not (tmp_path / "c/.git/objects/info/alternates").exists()
    assert plain_git(tmp_path / "c", "remote") == ""
    plain_git(tmp_path / "c", "fsck", "--strict")


@pytest.mark.parametrize("kind", ["file in it", "foreign repository", "link in it"])
def test_directory_of_somebody_else_is_refused_untouched(
    kind: str, commits: tuple[str, str], bench: Store, tmp_path: Path, plain_git: Git
) -> None:
    there = tmp_path / "c"
    there.mkdir()
    if kind == "foreign repository":
        plain_git(there, "init", "-q")
    elif kind == "link in it":
        (there / "l").symlink_to("nowhere")
    else:
        (there / "f").write_bytes(b"mine")
    before = sorted(there.rglob("*"))
    with pytest.raises(WorktreeError, match="no checkout of this tool"):
        write_checkout(bench, commits[0], there)
    assert sorted(there.rglob("*")) == before
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_file_or_link_in_its_place_is_refused_untouched(commits: tuple[str, str], bench: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "link").symlink_to("elsewhere")
    for name in ("file", "link"):
        with pytest.raises(WorktreeError, match="not a directory"):
            write_checkout(bench, commits[0], tmp_path / name)
    assert (tmp_path / "file").read_bytes() == b"mine"
    assert os.readlink(tmp_path / "link") == "elsewhere"
    assert not (tmp_path / "elsewhere").exists()


def test_own_clean_checkout_is_moved_forth_and_back(
    commits: tuple[str, str], bench: Store, tmp_path: Path, plain_git: Git
) -> None:
    there = tmp_path / "c"
    assert [write_checkout(bench, commit, there) for commit in (commits[0], commits[0], commits[1])] == [
        "made",
        "unchanged",
        "moved",
    ]
    assert snapshot(there) == {"f": b"new\n", "n": b"n\n", ".gitignore": b"*.log\n"}
    assert write_checkout(bench, commits[0], there) == "moved"
    assert snapshot(there) == {"f": b"old\n", "g": b"g\n", ".gitignore": b"*.log\n"}
    assert plain_git(there, "rev-parse", "patchset") == commits[0]


CHANGES: dict[str, Callable[[Path, Git], object]] = {
    "changed file": lambda there, git: (there / "f").write_bytes(b"mine\n"),
    "changed and staged file": lambda there, git: ((there / "f").write_bytes(b"mine\n"), git(there, "add", "f")),
    "removed file": lambda there, git: (there / "g").unlink(),
    "changed mode": lambda there, git: (there / "f").chmod(0o755),
    "new file": lambda there, git: (there / "mine").write_bytes(b"mine\n"),
    "new file that the move would overwrite": lambda there, git: (there / "n").write_bytes(b"mine\n"),
    "ignored file": lambda there, git: (there / "x.log").write_bytes(b"mine\n"),
    "commit on top": lambda there, git: ((there / "f").write_bytes(b"mine\n"), git(there, "commit", "-qam", "mine")),
    "other commit checked out": lambda there, git: git(there, "commit", "-q", "--amend", "--allow-empty", "-m", "mine"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_own_checkout_with_work_in_it_is_refused_untouched(
    change: str, commits: tuple[str, str], bench: Store, tmp_path: Path, plain_git: Git
) -> None:
    there = tmp_path / "c"
    write_checkout(bench, commits[0], there)
    CHANGES[change](there, plain_git)
    files, head, status = (
        snapshot(there),
        plain_git(there, "rev-parse", "HEAD"),
        plain_git(there, "status", "--porcelain"),
    )
    for commit in commits:
        with pytest.raises(WorktreeError) as error:
            write_checkout(bench, commit, there)
        assert error.value.where == str(there)
    assert (snapshot(there), plain_git(there, "rev-parse", "HEAD"), plain_git(there, "status", "--porcelain")) == (
        files,
        head,
        status,
    )


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError, OSError])
def test_failure_half_way_leaves_no_directory(
    failure: type[BaseException],
    commits: tuple[str, str],
    bench: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def half_way(directory: Path, commit: str) -> None:
        (directory / "f").write_bytes(b"half")
        raise failure("now")

    monkeypatch.setattr(bench, "make_checkout", half_way)
    with pytest.raises(WorktreeError if failure is OSError else failure):
        write_checkout(bench, commits[0], tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_checkout_ignores_umask_and_the_persons_configuration(
    commits: tuple[str, str], bench: Store, tmp_path: Path, umask: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.gitconfig").write_text("[core]\n autocrlf = true\n", encoding="ascii")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    umask(0o077)
    write_checkout(bench, commits[1], tmp_path / "c")
    assert (tmp_path / "c/f").read_bytes() == b"new\n"
    assert ((tmp_path / "c/f").stat().st_mode & 0o777, (tmp_path / "c").stat().st_mode & 0o777) == (0o644, 0o755)


def test_a_branch_of_the_user_is_not_moved(
    commits: tuple[str, str], bench: Store, tmp_path: Path, plain_git: Git
) -> None:
    there = tmp_path / "c"
    write_checkout(bench, commits[0], there)
    plain_git(there, "checkout", "-q", "-b", "work")
    with pytest.raises(WorktreeError, match="work is checked out there"):
        write_checkout(bench, commits[1], there)
    assert plain_git(there, "rev-parse", "work", "patchset").split() == [commits[0], commits[0]]


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_change_that_git_was_told_not_to_see_is_kept(
    flag: str, commits: tuple[str, str], bench: Store, tmp_path: Path, plain_git: Git
) -> None:
    there = tmp_path / "c"
    write_checkout(bench, commits[0], there)
    plain_git(there, "update-index", flag, "f")
    (there / "f").write_bytes(b"mine\n")
    with pytest.raises(WorktreeError, match="have changes"):
        write_checkout(bench, commits[1], there)
    assert (there / "f").read_bytes() == b"mine\n"
