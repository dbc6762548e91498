"""A bump that is killed at any moment: the next command ends it the same, and nothing is carried twice or lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from made_bump import BROKEN, CLASH, ROOT, accepted, conflicted, declared, fresh, in_tree, settle, start

from patchset import bump
from patchset.bump import Bumped, Stopped, state
from patchset.console import Console
from patchset.resolve import Project

#: Starts a bump of this clone, or goes on with it as `inv bump` would, and ends itself at the Nth change that it makes to a
#: file system or asks of git; prints how many there were if it lives.
KILLED = """
import os, sys
from pathlib import Path
from patchset import bump, lab
from patchset.changes import finish_changes
from patchset.console import Console
from patchset.lab import Lab
from patchset.resolve import Project
from patchset.store.git import GitRepository
from patchset.workspace import Workspace
lab.ensure = lambda envs, say=None: Lab(Path(sys.executable), "this interpreter")
seen, left = 0, int(sys.argv[2])
def counted(real):
    def call(*words, **more):
        global seen
        seen += 1
        if seen > left:
            os.kill(os.getpid(), 9)
        return real(*words, **more)
    return call
for name in ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync", "symlink"):
    setattr(os, name, counted(getattr(os, name)))
GitRepository.attempt = counted(GitRepository.attempt)
workspace = Workspace(Path(sys.argv[1]))
with workspace.only_run("bump", wait=True, say=lambda text: None):
    finish_changes(workspace.journal)
    project = Project.read(workspace)
    if bump.status(project):
        bump.go_on(project, Console())
    else:
        bump.start(project, project.recipe("r-0.20"), "0.21.0", "", Console())
print(seen)
"""


def run(project: Project, left: int) -> int | None:
    """How many changes it made; None if it was killed at the one behind *left*."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop("PATCHSET_VENDOR", None)
    words = [sys.executable, "-B", "-c", KILLED, str(project.workspace.root), str(left)]
    ended = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, -9), ended.stderr
    return int(ended.stdout) if ended.returncode == 0 else None


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Project], Callable[[], None]]:
    """Remember a clone as it is now: a function that puts it back like that."""

    def save(project: Project) -> Callable[[], None]:
        root, kept = project.workspace.root, tmp_path / "kept"
        shutil.copytree(root, kept, symlinks=True)

        def back() -> None:
            shutil.rmtree(root)
            shutil.copytree(kept, root, symlinks=True)

        return back

    return save


def moments(total: int, wanted: int) -> list[int]:
    """*wanted* numbers below *total*, the first and the last ones among them."""
    ends = {0, 1, *range(total - 6, total)}
    return sorted({*ends, *(total * step // wanted for step in range(wanted))} & set(range(total)))


def content(project: Project) -> dict[str, bytes]:
    return {name: data for name, (data, _) in declared(project).items()}


def test_start_killed_at_any_moment_is_gone_on_with(
    make: Callable[..., Project], saved: Callable[[Project], Callable[[], None]]
) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    before, back = content(project), saved(project)
    total = run(project, 10**6)
    stopped = bump.status(project)
    assert total and stopped and stopped.waiting
    conflict = conflicted(project).read_bytes()
    assert b"<<<<<<<" in conflict
    begun = 0
    for moment in moments(total, 6):
        back()
        if run(project, moment) is not None:
            continue  # threads ask in another order each time, and this time it asked less
        assert content(project) == before
        begun += bump.status(project) is not None
        assert run(project, 10**6)
        assert bump.status(project) == stopped and conflicted(project).read_bytes() == conflict
        assert not list(project.workspace.work.glob("*.aborted-*")) and not list(project.workspace.work.glob(".*"))
    assert begun > 3


def test_going_on_killed_at_any_moment_ends_the_same(
    make: Callable[..., Project], saved: Callable[[Project], Callable[[], None]]
) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": {"a.py": CLASH, "b.py": CLASH.replace(b"other", b"another")}})
    before = content(project)
    start(project, "0.21.0")
    settle(conflicted(project))
    second = bump.go_on(project, Console())
    assert isinstance(second, Stopped) and second.clash.patch == "mend-b"
    settle(conflicted(project).with_name("b.py"))
    back = saved(project)
    total = run(project, 10**6)
    wanted, tree = content(project), accepted(project, "r-0.21")
    assert total and b"# both" in (in_tree(project, tree, "b.py") or b"") and wanted != before
    killed = 0
    for moment in moments(total, 8):
        back()
        killed += run(project, moment) is None
        assert content(project) in (before, wanted) or project.workspace.journal.is_dir()
        if bump.status(project):
            run(project, 10**6)
        assert bump.status(project) is None
        assert content(project) == wanted and accepted(project, "r-0.21") == tree
        left = [path.name for path in project.workspace.work.rglob("*") if path.is_file()]
        assert left == [], left
    assert killed > 6


def test_killed_again_and_again_it_still_gets_there(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    start(project, "0.21.0")
    settle(conflicted(project))
    killed, moment = 0, 0
    while bump.status(project):
        killed += run(project, moment) is None
        moment += 45
    assert killed > 3
    assert b"# both" in (in_tree(project, accepted(project, "r-0.21")) or b"")
    assert not list(project.workspace.work.glob(".bump-*"))


def test_checkout_that_was_left_by_a_kill_and_edited_since_is_kept(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    start(project, "0.21.0")
    settle(conflicted(project))
    now = bump.status(project)
    assert now and now.waiting
    # as it is when killed between remembering what was resolved and removing the checkout
    from patchset.bump.resolved import resolved_tree
    from patchset.store import Store

    tree = resolved_tree(Store.open(project.workspace.store), conflicted(project).parent, now.waiting)
    state.write_state(project.workspace, now.with_resolved(now.waiting.patch, now.waiting.clash, tree))
    conflicted(project).write_bytes(b"mine\n")
    assert isinstance(bump.go_on(fresh(project), Console()), Bumped)
    (kept,) = project.workspace.work.glob("bump-r-0.21.aborted-*")
    assert (kept / "a.py").read_bytes() == b"mine\n"
