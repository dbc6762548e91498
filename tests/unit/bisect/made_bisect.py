"""A project to bisect in: patches that each add a file, real archives, real git; and what is asked of it."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from made_project import write_project

from patchset.bisect import task
from patchset.bisect.answer import SCHEMA as SCHEMA_FILE
from patchset.bisect.evidence import Result
from patchset.bisect.record import Question, Record
from patchset.bisect.refs import Point, Refs, as_declared
from patchset.bisect.session import Session
from patchset.bisect.states import Trees
from patchset.bisect.trial import Run, Slot, Started, Subject, Trial
from patchset.console import Console
from patchset.resolve import Project
from patchset.store import Store
from patchset.workspace import Workspace

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = Draft202012Validator(json.loads(SCHEMA_FILE.read_text("utf-8")))
RELEASE = "1.0"
BASE = {"a.py": b"a = 1\n"}


def adding(path: str, *lines: str) -> bytes:
    """A diff that makes the file *path*."""
    head = (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n"
    )
    return (head + "".join(f"+{line}\n" for line in lines)).encode()


def replacing(path: str, old: str, new: str) -> bytes:
    """A diff that changes the one line of *path*."""
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n".encode()


def patch(diff: bytes, releases: str = f"=={RELEASE}") -> tuple[str, Mapping[str, bytes]]:
    """A patch with one variant, as :func:`made_project.write_project` wants it."""
    return f'\n[[variant]]\nreleases = "{releases}"\ndiff = "it.patch"\n', {"it.patch": diff}


def write(root: Path, diffs: Mapping[str, bytes], releases: Mapping[str, Mapping[str, bytes]] | None = None) -> Project:
    """Patches by id, in the order of the series of recipe r, on the first of *releases* (default: 1.0)."""
    releases = releases or {RELEASE: BASE}
    first = next(iter(releases))
    return write_project(root, releases, {id: patch(diff, f"=={first}") for id, diff in diffs.items()}, list(diffs))


def numbered(root: Path, count: int) -> Project:
    """*count* patches p01, p02, …: each adds a file of its name, f01 and so on."""
    return write(root, {f"p{n:02}": adding(f"f{n:02}.py", f"x = {n}") for n in range(1, count + 1)})


def document(
    project: Project, good: str = "base", bad: str = "r", *, fresh: bool = False, **flags: Any
) -> dict[str, Any]:
    """The document that ``inv bisect --good GOOD --bad BAD`` ends with."""
    made = task.run(project, Question("r", good, bad, **flags), task.Wish(fresh=fresh), Console())
    assert made
    SCHEMA.validate(json.loads(json.dumps(made)))
    return made


def answer(project: Project, good: str = "base", bad: str = "r", **flags: Any) -> dict[str, Any]:
    """The answer alone."""
    return document(project, good, bad, **flags)["answer"]


def go_on(project: Project) -> dict[str, Any]:
    """What ``inv bisect --continue`` ends with."""
    made = task.run(project, Question("r", "", ""), task.Wish(go_on=True), Console())
    assert made
    return made


def again(project: Project) -> Project:
    """What the clone declares now."""
    return Project.read(Workspace(project.workspace.root))


def ids(patches: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ids of patches in an answer."""
    return [item["id"] for item in patches]


def write_recipe(project: Project, name: str, patches: Sequence[str], release: str = RELEASE) -> Project:
    """One more recipe."""
    text = (project.workspace.recipes / "r.toml").read_text("utf-8")
    first, _, rest = text.partition("patches = [")
    rest = rest.partition("]")[2]
    names = ", ".join(f'"{patch}"' for patch in patches)
    pin = f'[pin]\nupstream = "vllm"\nrelease = "{release}"\n\n[series]\n'
    assert first.endswith("[series]\n")
    left = "".join(
        f'\n[[series.omit]]\npatch = "{patch}"\nreason = "another end"\n'
        for patch in sorted(project.patches.keys() - set(patches))
    )
    (project.workspace.recipes / f"{name}.toml").write_text(f"{pin}patches = [{names}]\n{left}{rest}", encoding="utf-8")
    return again(project)


class Coin:
    """A test that fails by chance: at one rate on states with all of *culprits*, at another on the rest. No process.

    It is a trial like any other, told which patches are in; ``silent`` are positions (numbers of patches) on which it says
    nothing.
    """

    def __init__(
        self, seed: int, culprits: Sequence[str], bad: float, good: float = 0.0, silent: Collection[int] = ()
    ) -> None:
        self._random = random.Random(seed)
        self._culprits = set(culprits)
        self._rates = (good, bad)
        self._silent = silent
        self.runs: list[tuple[str, ...]] = []

    @property
    def identity(self) -> str:
        """None of it is reused."""
        return "coin"

    @property
    def needs_worktree(self) -> bool:
        """It looks at no file."""
        return False

    def is_bad(self, subject: Subject) -> bool:
        """Is it on the bad side?"""
        return self._culprits <= set(subject.patches)

    def run(self, subject: Subject, slot: Slot, log: Path, started: Started) -> Run:
        """Run it once."""
        self.runs.append(subject.patches)
        if len(subject.patches) in self._silent:
            return Run(Result.SKIPPED, "nothing to say", 0.0)
        failed = self._random.random() < self._rates[self.is_bad(subject)]
        return Run(Result.BAD if failed else Result.GOOD, "tails" if failed else "heads", 0.0)


class Lab:
    """Sessions on one project: its store, its trees, and the points that references name."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project = project
        self.store = Store.open(project.workspace.store)
        self.bases = project.bases(self.store)
        recipe = project.recipe("r")
        self.trees = Trees(self.store, self.bases, recipe.pin.release)
        carried = tuple(as_declared(patch) for patch in project.series_of(recipe))
        self._refs = Refs(project, recipe, self.store, self.bases, carried)
        self._folder = folder

    def point(self, ref: str) -> Point:
        """The end that *ref* names."""
        return self._refs.read(ref)

    def session(self, trial: Trial, *, good: str = "base", bad: str = "r", **flags: Any) -> Session:
        """A new question."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        record = Record(folder / "state.json", Question("r", good, bad, **flags), "")
        return Session(record, trial, self.trees, cache=None, logs=folder, scratch=folder, say=lambda text: None)
