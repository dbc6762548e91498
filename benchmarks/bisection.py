"""How fast is `inv bisect` over 64 patches, against `git bisect run` over the same 64 commits in a worktree?

    .venv/bin/python benchmarks/bisection.py             # fetches vLLM 0.23.0's archive if it is not there

(Not bisect.py: a program finds its own folder before the standard library, where `random` takes its `bisect` from.)

What is compared: 64 patches, each to another file of vllm/, chosen by a seed; one of them, at a position chosen by the seed, brings a
line that the test looks for. Both sides get the same test, a shell command that takes some milliseconds, so that all the rest is overhead.

* ours: `./inv bisect --json` as a whole process, from the shell's exec to its end, in a copy of this clone with those patches and a store
  that knows nothing but the base. Patches become trees, the worktree is made, both ends are tested, state and logs are kept.
* git: `bisect start`, `bad`, `good`, `run` and `reset` in a worktree that is there already, over commits that are there already (`git am`
  made them); the ends are believed, two tests less. What making commits and worktree took is told, and not counted.

Both have their repository beside the clone's store, whose objects they share (alternates), and their worktree where this tool makes its
own: in memory where there is room. That both name the patch that was planted, and that their last trees are one, is checked. An
overhead a step is a step's time less that of its test; the first worktree is written before the first step, and is in ours.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forecast import ROOT, git, mail, repository

from patchset.resolve import Project
from patchset.sources.base import ARCHIVES
from patchset.store import Entry, Store
from patchset.workspace import VENDOR_VARIABLE, Workspace

RELEASE = "0.23.0"
TARGET = 0.3  # seconds that a step may cost beside its test
_PLANTED = "PLANTED = True"
_PATCH = """\
title = "Bench"
kind = "fix"
date = 2026-06-13T00:00:00Z
why = "To be searched."
drop-when = "The benchmark ends."

[[variant]]
releases = "==0.23.0"
diff = "it.patch"
"""
_RECIPE = """\
[pin]
upstream = "vllm"
release = "0.23.0"

[series]
patches = [{names}]

[stack]
torch = "==2.11.0+xpu"

[wheel]
label = "bench"
"""


@dataclass(frozen=True)
class Line:
    """The base and, by id, the diffs of the patches in order, the same with the fault, and the files that they change."""

    store: Store
    commit: str
    diffs: Mapping[str, bytes]
    planted: Mapping[str, bytes]
    paths: Mapping[str, str]

    def with_fault(self, id: str) -> dict[str, bytes]:
        """The diffs, that of patch *id* with the fault."""
        return {**self.diffs, id: self.planted[id]}

    def test(self, id: str) -> str:
        """A command that fails where the fault of patch *id* is in."""
        return f"! grep -q '{_PLANTED}' {self.paths[id]}"


@dataclass(frozen=True)
class Took:
    """One search: ours with the overhead of each step and the seconds in them, git's with those for commits and worktree."""

    seconds: float
    tests: int
    named: str
    tree: str
    overheads: Sequence[float] = ()
    steps: float = 0.0
    prepare: tuple[float, float] = (0.0, 0.0)


def main() -> int:
    """Search for a fault at each position, both ways, and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patches", type=int, default=64)
    parser.add_argument("--positions", type=int, default=5, help="faults, one after the other (default 5)")
    parser.add_argument("--seed", type=int, default=20260613)
    chosen = parser.parse_args()
    by = random.Random(chosen.seed)
    workspace = Workspace(ROOT, Workspace(ROOT).vendor)
    os.environ.pop(VENDOR_VARIABLE, None)  # the copy has a store of its own
    print(f"{chosen.patches} patches on vLLM {RELEASE}; {os.cpu_count()} cores; {git('--version', cwd=ROOT)}")
    rows, wrong = [], False
    workspace.vendor.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=workspace.vendor) as folder:
        line = line_of(workspace, Path(folder), chosen.patches, by)
        clone = clone_in(Path(folder), line)
        subprocess.run(["./inv", "--list"], cwd=clone, capture_output=True, check=True)  # warms
        print("          tests      seconds                overhead a step   git, not counted")
        print("position  ours  git   ours  in steps   git   median    max     am, worktree")
        for id in by.sample(list(line.diffs), min(chosen.positions, chosen.patches)):
            mine = ours(clone, line, id)
            other = gits(Path(folder), Workspace(clone, clone / "vendor"), line, id)
            rows.append((mine, other))
            print(
                f"{id:<8}{mine.tests:>6}{other.tests:>5}{mine.seconds:>7.2f}{mine.steps:>10.2f}{other.seconds:>6.2f}"
                f"{statistics.median(mine.overheads):>9.3f}{max(mine.overheads):>7.3f}"
                f"{other.prepare[0]:>9.2f}{other.prepare[1]:>10.2f}"
            )
            if not mine.named == other.named == id or mine.tree != other.tree:
                wrong = True
                print(f"    wrong: ours named {mine.named} of {mine.tree}, git {other.named} of {other.tree}")
    mines, others = (sum(took.seconds for took in side) for side in zip(*rows, strict=True))
    overheads = [overhead for mine, _ in rows for overhead in mine.overheads]
    whole = others + sum(sum(other.prepare) for _, other in rows)
    print(
        f"ratio git/ours {others / mines:.2f}x (with its commits and worktree {whole / mines:.2f}x); "
        f"overhead a step: median {statistics.median(overheads):.3f} s, max {max(overheads):.3f} s, wanted {TARGET} s"
    )
    return int(wrong)


def line_of(workspace: Workspace, folder: Path, count: int, by: random.Random) -> Line:
    """*count* patches to files that are there, each without and with the fault."""
    with workspace.only_run("benchmark", wait=True, say=print):
        clones = Store.open(workspace.store)
        bases = Project.read(workspace).bases(clones, print)
        tree, commit = bases.tree(RELEASE), bases.commit(RELEASE)
    store = sharing(folder / "made.git", clones)
    sources = [item for item in store.entries(tree).items() if item[0].startswith("vllm/") and item[0].endswith(".py")]
    candidates = [(path, entry) for path, entry in sources if store.blob(entry.blob).endswith(b"\n")]
    diffs, planted, paths = {}, {}, {}
    for number, (path, entry) in enumerate(by.sample(candidates, count), 1):
        id = f"p{number:02}"
        added = by.choice((f"# bench {id}\n", f"\n\ndef bench_{id}() -> int:\n    return {by.randrange(1000)}\n"))
        paths[id] = path
        for into, more in ((diffs, ""), (planted, f"{_PLANTED}\n")):
            data = store.blob(entry.blob) + (added + more).encode()
            into[id] = store.diff(tree, store.with_file(tree, path, Entry(entry.mode, store.write_blob(data))))
    return Line(clones, commit, diffs, planted, paths)


def sharing(path: Path, store: Store) -> Store:
    """A store of its own at *path* that reads the objects of *store* too."""
    made = Store.open(path)
    (path / "objects" / "info" / "alternates").write_text(f"{store.path / 'objects'}\n", encoding="utf-8")
    return made


def clone_in(folder: Path, line: Line) -> Path:
    """This clone as a person has it, with an environment already made, and without patches and store."""
    clone = folder / "clone"
    shutil.copytree(ROOT / "patchset", clone / "patchset", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("inv", "tasks.py", "vendor/upstreams.toml"):
        (clone / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / name, clone / name)
    (clone / ".venv").mkdir()
    for item in Path(sys.prefix).iterdir():
        if item.name != "requirements.lock":
            (clone / ".venv" / item.name).symlink_to(item)
    shutil.copy2(ROOT / "patchset" / "requirements.lock", clone / ".venv")  # by which ./inv knows that it is complete
    (clone / "recipes").mkdir()
    names = ", ".join(f'"{id}"' for id in line.diffs)
    (clone / "recipes" / "bench.toml").write_text(_RECIPE.format(names=names), encoding="utf-8")
    return clone


def ours(clone: Path, line: Line, id: str) -> Took:
    """`./inv bisect` for the fault of patch *id*, with no tree and no result known."""
    workspace = Workspace(clone, clone / "vendor")
    for old in (workspace.patches, workspace.store, workspace.cache, workspace.work):
        shutil.rmtree(old, ignore_errors=True)
    for name, diff in line.with_fault(id).items():
        patch = workspace.patches / name
        patch.mkdir(parents=True)
        (patch / "patch.toml").write_text(_PATCH, encoding="utf-8")
        (patch / "it.patch").write_bytes(diff)
        (patch / "probe.py").write_bytes(b"")
    archive = Project.read(workspace).upstreams["vllm"].release(RELEASE)
    sharing(workspace.store, line.store).keep(f"{ARCHIVES}/{archive.sha256}", line.commit)
    words = ["./inv", "bisect", "--json", "--recipe=bench", "--good=base", "--bad=bench", f"--test={line.test(id)}"]
    started = time.perf_counter()
    ended = subprocess.run(words, cwd=clone, capture_output=True, check=False)
    seconds = time.perf_counter() - started
    if ended.returncode:
        raise SystemExit(f"{' '.join(words)}\n{ended.stderr.decode('utf-8', 'replace')}")
    document = json.loads(ended.stdout)
    steps = document["steps"]
    return Took(
        seconds,
        sum(len(step["runs"]) for step in steps),
        ", ".join(patch["id"] for patch in document["answer"]["patches"]),
        next(step["tree"] for step in steps if step["role"] == "bad end"),
        [step["overhead"] for step in steps],
        sum(step["seconds"] for step in steps),
    )


def gits(folder: Path, workspace: Workspace, line: Line, id: str) -> Took:
    """`git bisect run` for it, with the repository in *folder* and the worktree where *workspace* has its own."""
    with tempfile.TemporaryDirectory(dir=folder) as own, workspace.scratch() as scratch:
        home, tree = repository(Path(own), line.store), scratch / "tree"
        mails = [mail(Path(own), *item) for item in line.with_fault(id).items()]
        started = time.perf_counter()
        git("worktree", "add", "--quiet", "--detach", str(tree), line.commit, cwd=home)
        there = time.perf_counter()
        git("am", "--quiet", *mails, cwd=tree)
        ready = time.perf_counter()
        git("bisect", "start", cwd=tree)
        git("bisect", "bad", cwd=tree)
        git("bisect", "good", line.commit, cwd=tree)
        said = git("bisect", "run", "sh", "-c", line.test(id), cwd=tree)
        git("bisect", "reset", cwd=tree)
        ended = time.perf_counter()
        commits = git("rev-list", "--reverse", f"{line.commit}..HEAD", cwd=tree).split()
        first = [row.split()[0] for row in said.splitlines() if row.endswith(" is the first bad commit")]
        named = [patch for patch, commit in zip(line.diffs, commits, strict=True) if commit in first]
        tests = sum(row.startswith("running ") for row in said.splitlines())
        last = git("rev-parse", "HEAD^{tree}", cwd=tree)
        return Took(ended - ready, tests, ", ".join(named), last, prepare=(ready - there, there - started))


if __name__ == "__main__":
    raise SystemExit(main())
