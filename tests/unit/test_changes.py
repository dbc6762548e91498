"""Several files change together: killed at any moment, all are old or all are new once the next run has looked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchset.changes import Change, commit_changes, finish_changes
from patchset.errors import PatchsetError

ROOT = Path(__file__).resolve().parents[2]

#: Ends itself at the Nth of the operations that change a file system.
KILLED = """
import os, sys
from pathlib import Path
from patchset.changes import Change, commit_changes
left = int(sys.argv[2])
def counted(real):
    def call(*words, **more):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
        return real(*words, **more)
    return call
for name in ("rename", "replace", "unlink", "mkdir", "rmdir", "open"):
    setattr(os, name, counted(getattr(os, name)))
root = Path(sys.argv[1])
commit_changes([Change(root / "a", b"new a"), Change(root / "d" / "b", None), Change(root / "e" / "c", b"new c")], root / "state" / "j")
"""

OLD = {"a": b"old a", "d/b": b"old b"}
NEW = {"a": b"new a", "e/c": b"new c"}


def content(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and "state" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def fill(root: Path) -> Path:
    (root / "d").mkdir(parents=True)
    for name, data in OLD.items():
        (root / name).write_bytes(data)
    return root


def test_all_files_change_and_folders_left_empty_go(tmp_path: Path) -> None:
    root = fill(tmp_path / "r")
    changes = [Change(root / "a", b"new a"), Change(root / "d/b", None), Change(root / "e/c", b"new c")]
    assert commit_changes(changes, root / "state/j") == (root / "a", root / "d/b", root / "e/c")
    assert content(root) == NEW
    assert not (root / "d").exists() and not any((root / "state").iterdir())


def test_killed_at_any_moment_all_or_nothing(tmp_path: Path) -> None:
    seen = set()
    for moment in range(200):
        root = fill(tmp_path / str(moment))
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run([sys.executable, "-B", "-c", KILLED, str(root), str(moment)], env=env, check=False)
        finish_changes(root / "state/j")
        assert content(root) in (OLD, NEW), moment
        seen.add(content(root) == NEW)
        assert not any((root / "state").iterdir()) if (root / "state").exists() else True
        if ended.returncode == 0:
            break
    else:
        pytest.fail("it never got to its end")
    assert moment > 8 and seen == {True, False}


def test_what_is_so_already_is_not_touched(tmp_path: Path) -> None:
    root = fill(tmp_path / "r")
    before = (root / "a").stat().st_mtime_ns
    assert commit_changes([Change(root / "a", b"old a"), Change(root / "gone", None)], root / "state/j") == ()
    assert (root / "a").stat().st_mtime_ns == before
    assert not (root / "state").exists()


def test_nothing_changes_where_one_file_cannot(tmp_path: Path) -> None:
    root = fill(tmp_path / "r")
    with pytest.raises(OSError):
        commit_changes([Change(root / "a", b"new a"), Change(root / "a" / "below a file", b"x")], root / "state/j")
    with pytest.raises(PatchsetError, match="twice"):
        commit_changes([Change(root / "a", b"x"), Change(root / "a", b"y")], root / "state/j")
    assert content(root) == OLD


def test_damaged_journal_is_named_and_kept(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    journal.mkdir()
    (journal / "0").write_bytes(b"work of somebody's")
    (journal / "list.json").write_bytes(b"[[")
    with pytest.raises(PatchsetError, match="cannot be read") as error:
        finish_changes(journal)
    assert error.value.where == str(journal / "list.json")
    assert (journal / "0").exists()
