"""What the tests of a bump share: releases of one file and its patch, and how a person resolves a conflict of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from patchset import bump
from patchset.bump import Bumped, Stopped
from patchset.console import Console
from patchset.resolve import Project, require_locked, resolve
from patchset.store import Store

ROOT = Path(__file__).resolve().parents[3]

#: The fixture ``make``.
Make = Callable[..., Project]

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


def fresh(project: Project) -> Project:
    return Project.read(project.workspace)


def start(project: Project, to: str, name: str = "") -> Bumped | Stopped:
    return bump.start(project, project.recipe("r-0.20"), to, name, Console())


def go_on(project: Project) -> Bumped | Stopped:
    """What `inv bump --continue` does: with what is declared now."""
    return bump.go_on(fresh(project), Console())


def finish(project: Project) -> Bumped:
    """Go on, to the end."""
    done = go_on(project)
    assert isinstance(done, Bumped)
    return done


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


def git(directory: Path, *words: str) -> str:
    who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {"PATH": os.environ["PATH"], "HOME": "/dev/null", **who}
    return subprocess.run(["git", *words], cwd=directory, env=env, check=True, capture_output=True, text=True).stdout
