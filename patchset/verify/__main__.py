"""The command: ``python -m patchset.verify TARGET`` or ``python verify.pyz TARGET``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from .model import USAGE, Unusable
from .target import verify
from .text import code_table, error_lines, harmless, lines_of


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the arguments, without obeying them."""
        _write(sys.stderr, [harmless(f"error: {message}"), f"  next: {self.prog} --help"])
        sys.exit(USAGE)


def main(arguments: Sequence[str] | None = None, *, program: str = "python -m patchset.verify") -> int:
    """Verify what *arguments* (those of the process unless given) name, print what was found, return the exit code."""
    options = _parser(program).parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        # A path need not be text, and a terminal need not be UTF-8; saying it oddly beats not saying it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        report = verify(options.target, receipt=options.receipt, start=options.start)
    except Unusable as error:
        _write(sys.stderr, error_lines(error))
        if options.json:
            _write(sys.stdout, [json.dumps({"error": error.as_dict()}, indent=2, sort_keys=True)])
        return USAGE
    text = [json.dumps(report.as_dict(), indent=2, sort_keys=True)] if options.json else lines_of(report)
    _write(sys.stdout, text)
    return report.exit_code


def _parser(program: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program,
        description="Is this wheel, receipt or installed vLLM what it says it is? Nothing of it is imported or run.",
        epilog=f"exit codes (of several findings the highest counts):\n{code_table()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "target", metavar="TARGET", help="a wheel, a receipt, site-packages, a virtual environment, or its vllm folder"
    )
    parser.add_argument(
        "--receipt", metavar="FILE", help="a receipt that the wheel or the installation must agree with"
    )
    parser.add_argument(
        "--from", dest="start", metavar="DIR", help="where the server is started; the current folder unless given"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    return parser


def _write(stream: object, lines: Sequence[str]) -> None:
    try:
        print("\n".join(lines), file=stream, flush=True)  # type: ignore[call-overload]
    except BrokenPipeError:
        # The reader (`| head`) went; Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    sys.exit(main())
