"""``python -m patchset.smoke``: run vLLM's kernels in a lane.

Exit codes: 0 every kernel that the release must have ran and passed; 10 a kernel failed, is missing or is not the receipt's,
or a planted fault was not seen; 2 usage; 12 torch, triton or numpy cannot be imported, or the lane lacks what it needs, as a
device.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from patchset.smoke import catalogue, receipt, report, runner
from patchset.smoke.lanes import LANES
from patchset.smoke.receipt import Receipt, ReceiptError
from patchset.smoke.sources import Source, SourceError, installed_source, tree_source, wheel_source
from patchset.smoke.triton_cache import PRIME, PRIMED, CacheError, CacheUse

OK, USAGE, RED, UNUSABLE = 0, 2, 10, 12
#: What of a run's surroundings a person is told.
SHOWN = ("device", "driver", "igc", "cache")


def main(argv: Sequence[str] | None = None, program: str = "python -m patchset.smoke") -> int:
    """Parse, run, print. The exit code is 0 only if every kernel that the release must have ran and passed."""
    parser = _parser(program)
    options = parser.parse_args(argv)
    try:
        kernels = catalogue.select(options.set, tuple(options.kernel))
    except KeyError as error:
        parser.error(f"the catalogue has no {error}; see --list")
    if options.list:
        _print_list(kernels)
        return OK
    cache = _cache(options, parser)
    if not any(kernel.is_for(options.lane) for kernel in kernels):
        parser.error(f"none of these kernels is for lane {options.lane}; see --list")
    try:
        proof = _receipt(options, parser)
        source = _source(options, parser)
        release = options.release or source.version
        if release is None:
            parser.error(f"{source.path} does not say which release it is: add --release X.Y.Z")
        release = ".".join(map(str, catalogue.parse_release(release)))
    except (ReceiptError, SourceError, ValueError) as error:
        parser.error(str(error))
    if options.json and options.json != "-":
        # A result that is there after this run is of this run.
        Path(options.json).unlink(missing_ok=True)
    seed = secrets.randbits(31) if options.seed is None else options.seed
    out = sys.stderr if options.json == "-" else sys.stdout
    if source.version and catalogue.parse_release(source.version) != catalogue.parse_release(release):
        print(f"note: {source.path} says it is {source.version}; --release {release} counts", file=sys.stderr)
    print(f"lane {options.lane}, release {release}, {source.kind} {source.path}, seed {seed}", file=out, flush=True)
    try:
        result = runner.run(
            source,
            release,
            kernels,
            lane=options.lane,
            seed=seed,
            limit=options.limit,
            cache=cache,
            faults=options.mutants,
        )
    except runner.Unusable as error:
        print(f"{sys.executable} cannot run this lane: {error}", file=sys.stderr)
        return UNUSABLE
    except (SourceError, CacheError) as error:
        parser.error(str(error))
    if proof is not None:
        result = receipt.compared(result, proof)
    _print_result(result, out)
    if options.json:
        _write_json(result, options.json)
    return OK if result.ok else RED


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description=__doc__, allow_abbrev=False)
    parser.add_argument("--lane", choices=sorted(LANES), default="interpret", help="how to run them (interpret)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--wheel", type=Path, metavar="FILE", help="kernels out of this wheel")
    where.add_argument("--tree", type=Path, metavar="DIR", help="kernels out of this source tree")
    where.add_argument("--installed", action="store_true", help="kernels out of the vllm this interpreter would import")
    parser.add_argument("--release", metavar="X.Y.Z", help="the release whose kernels and contracts count")
    parser.add_argument("--kernel", action="append", default=[], metavar="NAME", help="only this one (repeatable)")
    parser.add_argument("--set", default="mission", help="a named set of kernels (mission)")
    parser.add_argument("--seed", type=_seed, help="inputs are random; the seed is printed")
    parser.add_argument("--json", metavar="FILE|-", help="write the result as JSON")
    parser.add_argument("--limit", type=float, default=runner.CHILD_LIMIT, metavar="SECONDS", help="for one process")
    parser.add_argument("--mutants", action="store_true", help="also plant faults, each of which some case must see")
    parser.add_argument("--receipt", type=Path, metavar="FILE", help="the kernels must be this receipt's")
    cache = parser.add_mutually_exclusive_group()
    cache.add_argument("--prime", type=Path, metavar="DIR", help="fill Triton's cache DIR with all that is compiled")
    cache.add_argument("--primed", type=Path, metavar="DIR", help="use that cache; a slow first call is red")
    parser.add_argument("--list", action="store_true", help="show the catalogue and stop")
    return parser


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def _source(options: argparse.Namespace, parser: argparse.ArgumentParser) -> Source:
    if options.wheel:
        return wheel_source(options.wheel)
    if options.tree:
        return tree_source(options.tree)
    if options.installed:
        return installed_source()
    parser.error("say where the kernels are: --wheel FILE, --tree DIR or --installed")


def _receipt(options: argparse.Namespace, parser: argparse.ArgumentParser) -> Receipt | None:
    if options.receipt is None:
        return None
    if not (options.installed or options.wheel):
        parser.error("--receipt is for --installed or --wheel: a source tree has not the version that a wheel gets")
    return receipt.read(options.receipt)


def _cache(options: argparse.Namespace, parser: argparse.ArgumentParser) -> CacheUse:
    if (options.prime or options.primed) and options.lane != runner.CACHED_LANE:
        parser.error(f"--prime and --primed are for --lane {runner.CACHED_LANE}")
    if options.prime:
        return CacheUse(PRIME, options.prime)
    return CacheUse(PRIMED, options.primed) if options.primed else runner.FRESH_CACHE


def _print_list(kernels: Sequence[catalogue.Kernel]) -> None:
    for kernel in kernels:
        print(f"{kernel.name:<42} {kernel.first}-{kernel.last or 'now':<8} {','.join(kernel.sets):<10} {kernel.file}")


def _print_result(result: report.SmokeResult, out: TextIO) -> None:
    for kernel in result.kernels:
        print(report.kernel_line(kernel), file=out)
        for line in report.failure_lines(kernel):
            print(line, file=out)
    for name in SHOWN:
        if name in result.environment:
            print(f"{name}: {result.environment[name]}", file=out)
    for line in report.receipt_lines(result):
        print(line, file=out)
    print(report.summary_line(result), file=out)


def _write_json(result: report.SmokeResult, where: str) -> None:
    text = json.dumps(result.as_json(), indent=2) + "\n"
    if where == "-":
        sys.stdout.write(text)
        return
    # A reader of the file must find the whole result or none.
    target = Path(where)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


if __name__ == "__main__":
    sys.exit(main())
