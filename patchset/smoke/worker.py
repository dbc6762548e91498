"""The child process of a lane: reads a job, imports torch and triton, runs kernels, writes one JSON line an event.

A line is on disk before the next thing starts, so whatever kills this process, its parent knows what it was doing.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import time
import traceback
import zlib
from pathlib import Path
from typing import IO, Any

from patchset.smoke.lanes import LANES, CannotRun
from patchset.smoke.report import FAILED, PASSED, CaseResult, Outcome, Resources, case_as_json, resources_as_json

#: Lines of a traceback that are kept: its end names the line of the kernel.
TRACEBACK_LINES = 12


def main(job_file: str) -> None:
    """Run the job in *job_file*. Every outcome is an event; the exit status says nothing."""
    job = json.loads(Path(job_file).read_text("utf-8"))
    with open(job["events"], "a", encoding="utf-8") as events:
        try:
            importlib.import_module("numpy")
            lane = importlib.import_module(LANES[job["lane"]])
            lane.prepare(**job["options"])
            python = ".".join(map(str, sys.version_info[:3]))
            _tell(events, event="environment", environment={"python": python, **lane.environment()})
        except ImportError as error:
            _tell(events, event="unusable", message=f"{type(error).__name__}: {error}")
            return
        except CannotRun as error:
            _tell(events, event="unusable", message=str(error))
            return
        for kernel in job["kernels"]:
            started = time.monotonic()
            _tell(events, event="kernel", kernel=kernel["name"])
            message = ""
            resources: dict[Resources, None] = {}
            try:
                _run_kernel(lane, kernel, job, events, resources)
            except Exception as error:  # an exception outside the cases is this kernel's failure, not the run's
                message = _describe(error)
                if not _alive(lane):
                    _tell(events, event="lost", message=message)
                    return
            _tell(
                events,
                event="kernel-end",
                kernel=kernel["name"],
                message=message,
                seconds=time.monotonic() - started,
                resources=[resources_as_json(one) for one in resources],
            )
        _tell(events, event="end")


def _run_kernel(
    lane: Any, kernel: dict[str, Any], job: dict[str, Any], events: IO[str], resources: dict[Resources, None]
) -> None:
    import numpy as np

    from patchset.smoke.case import Subject

    function = getattr(_import_file(Path(kernel["module"])), kernel["name"])
    parameters = [(name, has_default) for name, has_default in kernel["parameters"]]
    rng = np.random.default_rng([job["seed"], zlib.crc32(kernel["name"].encode())])
    subject = Subject(kernel["name"], frozenset(name for name, _ in parameters), tuple(job["release"]), rng)
    module, _, maker = kernel["cases"].partition(":")
    cases = getattr(importlib.import_module(f"patchset.smoke.{module}"), maker)(subject)
    for case in cases:
        _tell(events, event="case", kernel=kernel["name"], case=case.name)
        started, outcome = time.monotonic(), Outcome()
        try:
            ran = lane.run(function, parameters, case)
            outcome = ran if isinstance(ran, Outcome) else Outcome(ran)
            resources.update(dict.fromkeys(outcome.resources))  # cases share specialisations
            message = "the result differs" if outcome.differences else ""
            message = "; ".join(filter(None, [message, outcome.message]))
        except Exception as error:
            if not _alive(lane):
                raise
            message = _describe(error)
        result = CaseResult(
            case.name,
            FAILED if message else PASSED,
            round(time.monotonic() - started, 4),
            message,
            outcome.differences,
            outcome.cold_seconds,
            outcome.warm_seconds,
            outcome.graph_seconds,
            outcome.graph,
        )
        _tell(events, event="case-end", kernel=kernel["name"], result=case_as_json(result))


def _alive(lane: Any) -> bool:
    asked = getattr(lane, "alive", None)
    return asked is None or bool(asked())


def _import_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    # The interpreter looks a kernel's globals up by module name.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _describe(error: Exception) -> str:
    # The interpreter wraps what a kernel raised; the cause is what a person needs.
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    trace = traceback.format_exception(type(error), error, error.__traceback__)
    tail = "".join(trace).strip().splitlines()[-TRACEBACK_LINES:]
    return f"{type(root).__name__}: {str(root).strip() or 'no text'}\n" + "\n".join(tail)


def _tell(events: IO[str], **event: Any) -> None:
    events.write(json.dumps(event) + "\n")
    events.flush()


if __name__ == "__main__":
    main(sys.argv[1])
