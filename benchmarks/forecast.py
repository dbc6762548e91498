"""How fast is a forecast's text pass, against the same patches applied by `git am -3` and by quilt?

    ./inv forecast --json --releases 0.19.1..0.33.0      # once, so that the store is warm
    .venv/bin/python benchmarks/forecast.py

What is compared: the series of a recipe on every release that is in the store, from a warm store to result trees.

* ours: `./inv forecast --json` as a whole process, from the shell's exec to its end. It also judges every patch that changes nothing
  (is the fix there? where?), reads the probes' verdicts and writes a document of evidence.
* git am -3, told what to do: one worktree a release, and in it one `git am -3` with a mail for each patch that changes that release, in the
  variant for it. That a patch is not needed, which is most of the matrix, it is told: it does nothing for those cells.
* git am -3, every patch: the same, and where no variant changes the release, the nearest that changes one is tried, alone, and aborted
  when it fails: every cell is looked at, as it is without this tool. Trees that differ from ours are counted, and are no error: there
  git took a patch that the release does not need.
* quilt: the release's files, the same patches in `patches/series`, and one `quilt push -a` without fuzz.

The baselines get the variant's own diff for each release, and donor files as a diff that adds them; they share our object store
(alternates) and a memory file system where there is one; removing worktrees is not counted. Each result is compared with ours by tree
id: a row whose trees differ is an error. Printed: seconds, and ratios with and without the time to make the worktrees.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from patchset.outcome import DonorFile  # noqa: E402
from patchset.patch import Variant  # noqa: E402
from patchset.resolve import Project  # noqa: E402
from patchset.store import Entry, Store  # noqa: E402
from patchset.workspace import Workspace  # noqa: E402

_WHO = {f"GIT_{who}_{what}": "bench@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
_ENVIRONMENT = {
    **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
    **_WHO,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "LC_ALL": "C.UTF-8",
}


@dataclass(frozen=True)
class Job:
    """One release: its base commit, the (patch id, diff) pairs that change it, and the tree that ours made of it.

    ``others`` are the patches that change nothing there, with the diff that somebody would try who does not know that.
    """

    release: str
    commit: str
    diffs: tuple[tuple[str, bytes], ...]
    tree: str
    others: tuple[tuple[str, bytes], ...]


@dataclass
class Taken:
    """Seconds of one way: making the worktrees, and patching in them."""

    prepare: float = 0.0
    patch: float = 0.0
    wrong: list[str] = field(default_factory=list)


def main() -> int:
    """Run all of it and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-r", "--recipe", default="b70-0.23")
    parser.add_argument("--releases", default="0.19.1..0.33.0")
    parser.add_argument("--room", default="", help="where worktrees are made (default: in memory where there is some)")
    parser.add_argument("--runs", type=int, default=5, help="of ours; the median counts (default 5)")
    chosen = parser.parse_args()
    command = [str(ROOT / "inv"), "forecast", "--json", "-r", chosen.recipe, "--releases", chosen.releases]
    document, seconds = ours(command, chosen.runs)
    project = Project.read(Workspace(ROOT))
    store = Store.open(project.workspace.store)
    jobs = list(jobs_of(project, store, document))
    print(
        f"{len(document['patches'])} patches x {len(document['releases'])} releases, {len(document['cells'])} cells, of which "
        f"{sum(len(job.diffs) for job in jobs)} change a tree; {os.cpu_count()} cores; {git('--version', cwd=ROOT)}"
    )
    print(
        f"ours, whole process        {statistics.median(seconds):7.2f} s   (median of {', '.join(f'{s:.2f}' for s in seconds)})"
    )
    failed = False
    for name, way in WAYS.items():
        if name == "quilt" and not shutil.which("quilt"):
            print(f"{name:<27}not run: quilt is not installed (sudo apt install quilt)")
            continue
        with room(chosen.room) as folder:
            taken = way(folder, store, jobs)
        total, median = taken.prepare + taken.patch, statistics.median(seconds)
        print(
            f"{name:<27}{total:7.2f} s   (worktrees {taken.prepare:.2f} s, patching {taken.patch:.2f} s)   "
            f"ratio {total / median:.1f}x, patching alone {taken.patch / median:.1f}x"
        )
        for line in taken.wrong:
            print(f"    {line}")
        print(f"    result trees equal to ours: {len(jobs) - len(taken.wrong)} of {len(jobs)}")
        failed |= bool(taken.wrong) and name != _EVERY
    return int(failed)


def ours(command: Sequence[str], runs: int) -> tuple[dict, list[float]]:
    """(the document, seconds of each run of the whole process)."""
    seconds, out = [], b""
    for _ in range(runs + 1):
        started = time.perf_counter()
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        seconds.append(time.perf_counter() - started)
        if ended.returncode:
            raise SystemExit(f"{' '.join(command)}\n{ended.stderr.decode('utf-8', 'replace')}")
        out = ended.stdout
    return json.loads(out), seconds[1:]  # the first one warms the page cache


def jobs_of(project: Project, store: Store, document: dict) -> Iterator[Job]:
    """What the baselines have to do, release by release."""
    bases = project.bases(store)
    for release in document["releases"]:
        cells = [cell for cell in document["cells"] if cell["release"] == release["release"]]
        diffs, others = [], []
        for cell in cells:
            patch = project.patches[cell["patch"]]
            if cell["outcome"] in ("applies", "merges"):
                variant = next(item for item in patch.variants if item.name == cell["variant"])
                diffs.append((patch.id, diff_of(variant, store, bases.donor_file)))
            else:
                changing = replace(patch, variants=tuple(item for item in patch.variants if item.changes_tree))
                variant = changing.nearest(release["release"], tuple(bases.upstream.releases))
                others.append((patch.id, diff_of(variant, store, bases.donor_file)))
        commit = bases.commit(release["release"])
        tree = cells[-1]["tree"] if cells else release["tree"]
        yield Job(release["release"], commit, tuple(diffs), tree, tuple(others))


def diff_of(variant: Variant, store: Store, donor_file: DonorFile) -> bytes:
    """The variant as one diff: what adds its donor files, and its own."""
    empty = store.with_files(store.write_object("tree", b""), {})
    donated = {item.to: Entry("100644", store.write_blob(donor_file(item))) for item in variant.donors}
    added = store.diff(empty, store.with_files(empty, donated)) if donated else b""
    return added + (variant.diff.read_bytes() if variant.diff else b"")


def with_git_am(folder: Path, store: Store, jobs: Sequence[Job], *, every: bool = False) -> Taken:
    """A worktree a release, and `git am -3` in it: of the patches that change it, then (*every*) of each other one."""
    taken, home = Taken(), repository(folder, store)
    for job in jobs:
        mails = folder / f"mails-{job.release}"
        mails.mkdir()
        batches = [[mail(mails, *item) for item in job.diffs]]
        batches += [[mail(mails, *item)] for item in job.others] if every else []
        tree = folder / f"tree-{job.release}"
        started = time.perf_counter()
        git("worktree", "add", "--quiet", "--detach", str(tree), job.commit, cwd=home)
        ready = time.perf_counter()
        for names in filter(None, batches):
            words = ["git", "am", "-3", "--quiet", *names]
            if subprocess.run(words, cwd=tree, env=_ENVIRONMENT, capture_output=True).returncode:
                subprocess.run(["git", "am", "--abort"], cwd=tree, env=_ENVIRONMENT, capture_output=True)
        taken.patch += time.perf_counter() - ready
        taken.prepare += ready - started
        found = git("rev-parse", "HEAD^{tree}", cwd=tree)
        if found != job.tree:
            taken.wrong.append(f"{job.release}: tree {found}, ours {job.tree}")
        shutil.rmtree(tree)
    return taken


def mail(folder: Path, patch: str, diff: bytes) -> str:
    """The path of a mail that `git am` takes, with *diff* in it."""
    head = f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nFrom: bench <bench@localhost>\nDate: Mon, 1 Jun 2026 00:00:00 +0000\n"
    path = folder / f"{patch}.patch"
    path.write_bytes(f"{head}Subject: [PATCH] {patch}\n\n---\n".encode() + diff + b"-- \n2.39\n\n")
    return str(path)


def with_quilt(folder: Path, store: Store, jobs: Sequence[Job]) -> Taken:
    """The release's files, and `quilt push -a` in them."""
    taken, home = Taken(), repository(folder, store)
    environment = {
        **_ENVIRONMENT,
        "QUILT_PATCHES": "patches",
        "QUILT_PUSH_ARGS": "",
        "QUILTRC": "-",
        "QUILT_NO_DIFF_INDEX": "1",
    }
    for job in jobs:
        tree = folder / f"tree-{job.release}"
        patches = folder / f"patches-{job.release}"
        patches.mkdir()
        (patches / "series").write_text("".join(f"{patch}.patch\n" for patch, _ in job.diffs), encoding="ascii")
        for patch, diff in job.diffs:
            (patches / f"{patch}.patch").write_bytes(diff)
        started = time.perf_counter()
        git("worktree", "add", "--quiet", "--detach", str(tree), job.commit, cwd=home)
        ready = time.perf_counter()
        said = ""
        if job.diffs:
            ended = subprocess.run(
                ["quilt", "push", "-a", "-q", "--fuzz=0"],
                cwd=tree,
                env={**environment, "QUILT_PATCHES": str(patches)},
                capture_output=True,
            )
            said = (
                " ".join((ended.stdout + ended.stderr).decode("utf-8", "replace").split())[-200:]
                if ended.returncode
                else ""
            )
        taken.patch += time.perf_counter() - ready
        taken.prepare += ready - started
        shutil.rmtree(tree / ".pc", ignore_errors=True)
        git("add", "--all", "--force", cwd=tree)
        found = git("write-tree", cwd=tree)
        if found != job.tree:
            taken.wrong.append(f"{job.release}: tree {found}, ours {job.tree} {said}")
        shutil.rmtree(tree)
    return taken


_EVERY = "git am -3, every patch"
WAYS = {"git am -3, told what to do": with_git_am, _EVERY: partial(with_git_am, every=True), "quilt": with_quilt}


def repository(folder: Path, store: Store) -> Path:
    """A repository of the baseline's own that reads the store's objects."""
    home = folder / "repository"
    git("init", "--quiet", str(home), cwd=folder)
    (home / ".git" / "objects" / "info" / "alternates").write_text(f"{store.path / 'objects'}\n", encoding="utf-8")
    return home


@contextmanager
def room(parent: str) -> Iterator[Path]:
    """A folder for worktrees below *parent*; in memory where there is some, if that is empty."""
    memory = Path("/dev/shm")
    below = parent or (str(memory) if memory.is_dir() else None)
    with tempfile.TemporaryDirectory(prefix="patchset-bench-", dir=below) as folder:
        yield Path(folder)


def git(*words: str, cwd: Path) -> str:
    """What git prints, as a person's git would, with no configuration."""
    return subprocess.run(
        ["git", *words], cwd=cwd, env=_ENVIRONMENT, check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
