"""A child process of the smoke: started with a job, watched, and read event by event, however it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: Lines of a dead child's standard error that are kept.
STDERR_LINES = 15
_ROOT = Path(__file__).resolve().parents[2]


def run(
    argv: Sequence[str], base: Path, job: Mapping[str, Any], variables: Mapping[str, str], limit: float
) -> tuple[list[dict[str, Any]], str]:
    """The events that a child told, and how it ended.

    :param argv: the program; the file that has the job is added.
    :param base: the child's own directory, empty but for what the job names.
    :param job: what it is to do, without ``events``.
    :param variables: added to this process's environment.
    :param limit: seconds until it is stopped.
    """
    events = base / "events.jsonl"
    (base / "job.json").write_text(json.dumps({**job, "events": str(events)}), "utf-8")
    death = _start([*argv, str(base / "job.json")], base, variables, limit)
    told: list[dict[str, Any]] = []
    for line in events.read_text("utf-8").splitlines() if events.is_file() else []:
        try:
            told.append(json.loads(line))
        except json.JSONDecodeError:
            break  # the child died while it wrote this line
    return told, death


def _start(argv: Sequence[str], base: Path, variables: Mapping[str, str], limit: float) -> str:
    # A directory, or the one file that this program is: Python imports from both.
    path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONFAULTHANDLER": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    with open(base / "stderr", "wb") as errors:
        # Its own directory, so that nothing of the caller's directory is imported in place of torch. The caller's
        # process group, so that who kills this program's group kills the child too.
        child = subprocess.Popen(
            argv, cwd=base, env=environment, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
        )
        try:
            status: int | None = child.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    tail = (base / "stderr").read_bytes().decode("utf-8", "replace").strip().splitlines()[-STDERR_LINES:]
    return "\n".join([_ending(status, limit), *tail])


def _ending(status: int | None, limit: float) -> str:
    if status is None:
        return f"the process was stopped after {limit:g} s"
    if status < 0:
        try:
            return f"the process died of {signal.Signals(-status).name}"
        except ValueError:
            return f"the process died of signal {-status}"
    return f"the process ended with status {status}"
