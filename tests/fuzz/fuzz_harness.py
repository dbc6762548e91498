"""What every fuzzed program here has in common: its command line, libFuzzer's bounds, and how a test runs it in a child.

``python tests/fuzz/fuzz_diff.py --minutes 15`` searches for a quarter of an hour; ``--runs N`` ends after N executions, which
with the fixed seed are the same ones each time. A crash is written to ``--crashes`` as the input that made it; give that
file as an argument to run it alone.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "tests" / "unit"):
    sys.path.insert(0, str(folder))

#: Bounds on one input of 1 MB: seconds, and megabytes of the whole process (git and libraries of Python included).
SECONDS, MEGABYTES, LARGEST = 30, 1024, 1024 * 1024

Mutate = Callable[[bytes, int, int], bytes]


def room() -> Path:
    """A folder for what this run makes, removed when it ends."""
    return Path(os.environ["FUZZ_ROOM"])


@dataclass(frozen=True)
class Search:
    """What a run did: executions, and how many branches were known after the seeds and at the end."""

    status: int
    executions: int
    covered_before: int
    covered: int
    log: str

    def __str__(self) -> str:
        return f"{self.executions} executions, coverage {self.covered_before} -> {self.covered}"


def main(test: Callable[[bytes], None], mutate: Mutate, seeds: Callable[[], Iterable[bytes]]) -> None:
    """Fuzz *test* with *mutate* from *seeds* as the command line says. Does not return.

    The search runs in a child: libFuzzer ends its process at once on a crash, and what it made would stay behind.
    """
    if "FUZZ_ROOM" not in os.environ:
        memory = Path("/dev/shm")
        with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if memory.is_dir() else None) as made:
            sys.exit(subprocess.run([sys.executable, *sys.argv], env={**os.environ, "FUZZ_ROOM": made}).returncode)
    import atheris

    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("inputs", nargs="*", type=Path, help="run these alone, such as a crash that was found")
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--runs", type=int, default=-1)
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--corpus", type=Path, help="keep what was found here, and start from it")
    parser.add_argument("--crashes", type=Path, default=Path.cwd(), help="where an input that crashed is written")
    options = parser.parse_args()
    if options.runs < 0 and not options.minutes and not options.inputs:
        parser.error("say --minutes N, --runs N, or which inputs to run")
    words = [
        f"-seed={options.seed}",
        f"-timeout={SECONDS}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-artifact_prefix={options.crashes}/",
        "-print_final_stats=1",
    ]
    if options.inputs:
        words += map(str, options.inputs)
    else:
        corpus = options.corpus or room() / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds()):
            (corpus / f"seed-{number:03}").write_bytes(seed)
        words += [f"-runs={options.runs}", f"-max_total_time={int(options.minutes * 60)}", "-max_len=8192"]
        words += ["-len_control=0", str(corpus)]
    atheris.Setup([sys.argv[0], *words], test, custom_mutator=mutate)
    atheris.Fuzz()


def search(program: Path, runs: int, folder: Path, timeout: float) -> Search:
    """Run *program* for *runs* executions in a child process, with its corpus and crashes under *folder*."""
    crashes = folder / "crashes"
    crashes.mkdir(parents=True)
    ended = subprocess.run(
        [sys.executable, program, "--runs", str(runs), "--corpus", folder / "corpus", "--crashes", crashes],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
        check=False,
    )
    return summary(ended.returncode, ended.stdout.decode("utf-8", "replace"))


def summary(status: int, log: str) -> Search:
    """What libFuzzer's *log* says of a run that ended with *status*."""
    executions = re.search(r"stat::number_of_executed_units:\s*(\d+)", log)
    covered = [int(number) for number in re.findall(r" cov: (\d+)", log)]
    return Search(
        status, int(executions[1]) if executions else 0, covered[0] if covered else 0, max(covered, default=0), log
    )
