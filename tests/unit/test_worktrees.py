"""One directory for one tree after the other: whatever happened in there, it then holds just that tree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patchset.errors import WorktreeError
from patchset.store import Store
from patchset.store.worktrees import Worktree

FILES = {"a.py": b"a = 1\n", "d/b.py": b"b = 1\n", "c.py": b"c = 1\n"}


def held(directory: Path) -> dict[str, bytes]:
    """Every file below *directory*."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_it_holds_one_tree_after_the_other(bench: Store, make_tree: Callable[..., str], tmp_path: Path) -> None:
    worktree = Worktree(bench, tmp_path / "it" / "tree")
    for files in (FILES, {**FILES, "a.py": b"a = 2\n"}, {"d": b"now a file\n"}, {}, FILES):
        assert held(worktree.hold(make_tree(files))) == files


def test_change_of_the_same_size_in_the_same_second_is_undone(
    bench: Store, make_tree: Callable[..., str], tmp_path: Path
) -> None:
    worktree, tree = Worktree(bench, tmp_path / "it" / "tree"), make_tree(FILES)
    for _ in range(3):
        directory = worktree.hold(tree)
        assert held(directory) == FILES
        (directory / "a.py").write_bytes(b"a = 7\n")
        (directory / "d" / "b.py").unlink()
        (directory / "d" / "new.pyc").write_bytes(b"")
        subprocess.run(["git", "init", "-q", str(directory / "deep")], check=True)
    assert held(worktree.hold(tree)) == FILES


def test_change_that_keeps_the_time_is_undone_where_the_next_tree_has_another_file(
    bench: Store, make_tree: Callable[..., str], tmp_path: Path
) -> None:
    """As `cp -p` does: the time of its last change still tells."""
    worktree, tree = Worktree(bench, tmp_path / "it" / "tree"), make_tree(FILES)
    directory = worktree.hold(tree)
    before = (directory / "a.py").stat()
    (directory / "a.py").write_bytes(b"a = 70\n")
    os.utime(directory / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert held(worktree.hold(make_tree({**FILES, "c.py": b"c = 2\n"}))) == {**FILES, "c.py": b"c = 2\n"}


def test_files_are_older_than_the_index_so_that_git_need_not_read_them(
    bench: Store, make_tree: Callable[..., str], tmp_path: Path
) -> None:
    worktree = Worktree(bench, tmp_path / "it" / "tree")
    directory = worktree.hold(make_tree(FILES))
    index = (tmp_path / "it" / "tree.index").stat().st_mtime
    assert all(path.stat().st_mtime < index - 30 for path in directory.rglob("*") if path.is_file())


def test_repository_that_was_made_at_the_top_or_among_files_of_the_tree_goes_too(
    bench: Store, make_tree: Callable[..., str], tmp_path: Path
) -> None:
    worktree, tree = Worktree(bench, tmp_path / "it" / "tree"), make_tree(FILES)
    directory = worktree.hold(tree)
    for place in (directory, directory / "d"):
        subprocess.run(["git", "init", "-q", str(place)], check=True)
    (directory / "c.py").unlink()
    assert held(worktree.hold(tree)) == FILES
    assert not (directory / ".git").exists() and not (directory / "d" / ".git").exists()


def test_what_was_put_in_the_place_of_the_directory_is_left_alone(
    bench: Store, make_tree: Callable[..., str], tmp_path: Path
) -> None:
    worktree, tree = Worktree(bench, tmp_path / "it" / "tree"), make_tree(FILES)
    directory, victim = worktree.hold(tree), tmp_path / "victim"
    victim.mkdir()
    (victim / "mine.txt").write_text("mine")
    directory.rename(directory.with_name("old"))
    directory.symlink_to(victim)
    with pytest.raises(WorktreeError, match="put in its place"):
        worktree.hold(tree)
    assert held(victim) == {"mine.txt": b"mine"}
    directory.unlink()
    with pytest.raises(WorktreeError, match="is gone"):
        worktree.hold(tree)
