"""Bounded searches, each in a process of its own. For longer ones: ``python tests/fuzz/fuzz_diff.py --minutes 15``."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fuzz_large
import fuzz_mutator
import pytest
from fuzz_harness import LARGEST, search

from patchset import diff
from patchset.errors import DiffRefused

HERE = Path(__file__).parent

#: Executions of each search: together about a minute on one core. A hung one is ended after so many seconds.
SEARCHES = {"fuzz_diff.py": 30_000, "fuzz_toml.py": 20_000}
HUNG = 900.0


@pytest.mark.parametrize("program", SEARCHES)
def test_search_finds_nothing(program: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip(
            f"not run: atheris is not installed here (it has wheels for Python 3.11 to 3.13 on x86-64 Linux; this is "
            f"{sys.version_info.major}.{sys.version_info.minor} on {sys.platform})"
        )
    found = search(HERE / program, SEARCHES[program], tmp_path, HUNG)
    record_property("search", str(found))
    crashes = list((tmp_path / "crashes").iterdir())
    assert found.status == 0 and not crashes, found.log[-4000:]
    # A search whose seeds or instrumentation are lost executes as much and looks at nothing.
    assert found.executions >= SEARCHES[program], found
    assert found.covered_before > 100 and found.covered >= found.covered_before, found


@pytest.mark.parametrize("name", fuzz_large.CASES)
def test_a_large_input_is_read_or_refused_within_bounds(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, HERE / "fuzz_large.py", name], capture_output=True, text=True, timeout=HUNG, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout.strip().endswith("files") or ended.stdout.startswith("refused: x.patch")


def test_large_inputs_are_large() -> None:
    small = {
        name: size
        for name, size in ((name, len(make())) for name, make in fuzz_large.CASES.items())
        if size < LARGEST * 0.9
    }
    assert small.keys() == {"binary-bomb"}, small


def test_a_mutation_is_the_same_for_the_same_seed_and_keeps_hunks_whole() -> None:
    seeds = (b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n d\n",)
    mutate = fuzz_mutator.Mutator(lambda: seeds, lambda data, size: data[:size])
    made = [mutate(seeds[0], 4096, seed) for seed in range(300)]
    assert made == [mutate(seeds[0], 4096, seed) for seed in range(300)]
    assert len(set(made)) > 150 and max(map(len, made)) <= 4096
    read = 0
    for data in made:
        try:
            read += bool(diff.read(data, "x.patch"))
        except DiffRefused:
            pass
    assert read > 60, "most mutations die at the first hunk header, and nothing behind it is tried"
