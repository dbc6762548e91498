"""How much does our wheel cost over `python -m build --wheel`, and how much less after one changed patch?

    .venv/bin/python benchmarks/wheel.py [--recipe b70-0.23] [--rounds 3] [--edits 20]

What is compared, each in a process of its own, in turns, from the patched tree in the store to the wheel; the median of the rounds counts:

* plain: the tree is written to a folder, and `python -m build --wheel` makes a wheel of it, with the same locked environment, compiler,
  variables and options. What it makes has no record, and nobody looked at it.
* whole: our wheel by upstream's build: the same, and then record, proof, RECORD and archive are made and checked.
* rebuilt: one file of the series gets another line, and the wheel is assembled from that of the base, which is kept; a line more
  each round, so that no round can reuse another's.

For the last, what a person waits is printed too: the process from exec to end, with Python's start, every import, and the series
applied. For the others that is the same second more.

The wheel that is rebuilt is compared with a whole build of its tree in the first round: other bytes are an error. With `--edits N`,
N trees with ten random edits each below vllm/ are assembled and compared with whole builds.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from patchset.environment import ensure  # noqa: E402
from patchset.resolve import Project, Resolved, resolve  # noqa: E402
from patchset.store import Entry, Store  # noqa: E402
from patchset.wheel import BUILD_REQUIREMENTS, Rooms, WheelRequest, build, compiler, make_wheel, toolchain  # noqa: E402
from patchset.workspace import Workspace  # noqa: E402

MOST_OVERHEAD = 0.05
LEAST_RATIO = 10
MOST_SECONDS = 1.5  # for a rebuild
_EDITS_A_TREE = 10


def main() -> int:
    """Print seconds, ratios and memory; status 1 if a wheel is not the same bytes or a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--recipe", default="b70-0.23")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--edits", type=int, default=0, metavar="N", help="trees with random edits to prove as well")
    parser.add_argument("--part", choices=("plain", "whole", "rebuilt"), help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--room", type=Path, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.part:
        print(json.dumps(part(words.part, words.recipe, words.number, words.room)))
        return 0
    workspace = Workspace(ROOT)
    with workspace.scratch() as scratch:
        room = Path(tempfile.mkdtemp(prefix="bench-", dir=scratch))
        good = compare(words.recipe, words.rounds, room)
        return 0 if edits(words.recipe, words.edits, room) and good else 1


def compare(recipe: str, rounds: int, room: Path) -> bool:
    """The table of the three, and whether the targets are met."""
    run("rebuilt", recipe, 0, room)  # the environments and the base's wheel are there afterwards
    measured: dict[str, list[dict[str, Any]]] = {"plain": [], "whole": [], "rebuilt": []}
    for number in range(1, rounds + 1):
        for name, results in measured.items():
            results.append(run(name, recipe, number, room))
    proof = run("whole", recipe, -1, room)
    same = proof["sha256"] == run("rebuilt", recipe, 1, room)["sha256"]
    seconds = {name: statistics.median(item["seconds"] for item in results) for name, results in measured.items()}
    print(f"{recipe}, {rounds} rounds, median seconds (each), and the most memory of one process")
    for name, results in measured.items():
        every = ", ".join(f"{item['seconds']:.2f}" for item in results)
        print(f"  {name:<8}{seconds[name]:7.2f} s  ({every})  {max(item['peak'] for item in results):6.0f} MB")
    overhead, ratio = seconds["whole"] / seconds["plain"] - 1, seconds["whole"] / seconds["rebuilt"]
    print(f"whole over plain     {overhead:+.1%}  (at most {MOST_OVERHEAD:.0%})")
    waited = statistics.median(item["process"] for item in measured["rebuilt"])
    print(f"whole against rebuilt {ratio:.1f}×  (at least {LEAST_RATIO}×)")
    print(f"rebuilt, as a process {waited:.2f} s  (at most {MOST_SECONDS} s)")
    print(f"a rebuilt wheel is {'the same bytes as' if same else 'OTHER BYTES THAN'} a whole build of its tree")
    return same and overhead <= MOST_OVERHEAD and ratio >= LEAST_RATIO and waited <= MOST_SECONDS


def edits(recipe: str, trees: int, room: Path) -> bool:
    """Random edits, assembled and built whole: whether all of them were the same bytes."""
    resolved, store, workspace = opened(recipe)
    entries = store.entries(resolved.base.tree)
    paths = [path for path in entries if path.startswith("vllm/") and path.endswith(".py") and path != "vllm/envs.py"]
    chance = random.Random(20260613)
    good = 0
    for number in range(trees):
        changes = {}
        for path in chance.sample(paths, _EDITS_A_TREE):
            data = store.blob(entries[path].blob)
            cut = chance.randrange(len(data) + 1)
            text = bytes(chance.randrange(256) for _ in range(chance.randrange(200)))
            changes[path] = replace(entries[path], blob=store.write_blob(data[:cut] + text + data[cut:]))
        request = request_of(resolved, store, store.with_files(resolved.base.tree, changes))
        made = [
            make_wheel(request, rooms(workspace, room, f"edits-{number}"), out=room / name, whole=name == "whole")
            for name in ("assembled", "whole")
        ]
        good += made[0].sha256 == made[1].sha256 and made[0].made != made[1].made
    if trees:
        print(f"{good} of {trees} trees with {_EDITS_A_TREE} random edits each: assembled is a whole build's bytes")
    return good == trees


def run(name: str, recipe: str, number: int, room: Path) -> dict[str, Any]:
    """One part as a process: its own seconds, those from exec to end, the peak of its memory in MB, and the wheel's hash."""
    argv = [sys.executable, __file__, "--part", name, "--recipe", recipe, "--number", str(number), "--room", str(room)]
    started = time.perf_counter()
    ended = subprocess.run(argv, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    said = json.loads(ended.stdout.splitlines()[-1])
    return {**said, "process": seconds}


def part(name: str, recipe: str, number: int, room: Path) -> dict[str, object]:
    """What the process of one part does."""
    if name == "plain":
        return plain(recipe, number, room)
    resolved, store, workspace = opened(recipe)
    tree = resolved.applied.tree
    if number:
        path = resolved.applied.touched[0]
        entry = store.entry(tree, path)
        assert entry
        line = f"\n# round {abs(number)}\n".encode()
        tree = store.with_file(tree, path, Entry(entry.mode, store.write_blob(store.blob(entry.blob) + line)))
    started = time.perf_counter()
    made = make_wheel(
        request_of(resolved, store, tree),
        rooms(workspace, room, f"{name}-{number}"),
        out=room / f"{name}-{number}",
        whole=name == "whole",
    )
    return {"seconds": time.perf_counter() - started, "sha256": made.sha256, "peak": peak()}


def plain(recipe: str, number: int, room: Path) -> dict[str, object]:
    """`python -m build --wheel`, in the environment that ours builds in."""
    resolved, store, workspace = opened(recipe)
    source, place = room / f"plain-source-{number}", room / f"plain-{number}"
    place.mkdir()
    python = ensure(workspace.environments, "build", BUILD_REQUIREMENTS)
    cxx = compiler.make_ready(workspace.environments)
    started = time.perf_counter()
    store.export(resolved.applied.tree, source)
    # The list of files, which git would tell it, and what 0.24-0.26 need to build their extensions on every Python.
    listed = source / "vllm.egg-info" / "SOURCES.txt"
    listed.parent.mkdir()
    listed.write_text("".join(f"{path}\n" for path in store.entries(resolved.applied.tree)), "utf-8")
    toolchain.ask_stable_abi(source)
    wanted = build.BuildRequest(source, {}, resolved.release.version, resolved.version, epoch(resolved))
    argv = [
        python, "-I", "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check",
        "-C--build-option=--py-limited-api=cp38", "--outdir", place / "dist", source,
    ]  # fmt: skip
    environment = build.environment(wanted, python, cxx if toolchain.native_extensions(source) else None, place)
    subprocess.run(argv, cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return {"seconds": time.perf_counter() - started, "peak": peak()}


def opened(recipe: str) -> tuple[Resolved, Store, Workspace]:
    """The recipe, resolved on this clone's store."""
    workspace = Workspace(ROOT)
    project, store = Project.read(workspace), Store.open(workspace.store)
    return resolve(project, project.recipe(recipe), store, lambda text: None), store, workspace


def request_of(resolved: Resolved, store: Store, tree: str) -> WheelRequest:
    """A wheel of *tree*, which stands on the base of *resolved*."""
    version = f"{resolved.release.version}+xpu.bench.t{tree[:8]}"
    record = {"format": 2, "series": []}
    return WheelRequest(store, resolved.base.tree, tree, resolved.release.version, version, epoch(resolved), record)


def rooms(workspace: Workspace, room: Path, name: str) -> Rooms:
    """Where it is made: with the clone's environments and kept bases."""
    return Rooms(workspace.cache / "bases", workspace.environments, room / "scratch", room / f"{name}.log")


def epoch(resolved: Resolved) -> int:
    """SOURCE_DATE_EPOCH of the pin."""
    return int(resolved.release.date.timestamp())


def peak() -> float:
    """The most memory, in MB, that this process or one that it started held at once."""
    kinds: Sequence[int] = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 1024


if __name__ == "__main__":
    raise SystemExit(main())
