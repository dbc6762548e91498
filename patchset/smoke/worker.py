"""The child process of a lane: reads a job, imports torch and triton, runs kernels, writes one JSON line an event.

A line is on disk before the next thing starts, so whatever kills this process, its parent knows what it was doing.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import operator
import sys
import time
import traceback
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from patchset.smoke.lanes import LANES, CannotRun
from patchset.smoke.report import (
    FAILED,
    NOT_RUN,
    PASSED,
    CaseResult,
    Outcome,
    Resources,
    case_as_json,
    resources_as_json,
)

if TYPE_CHECKING:
    from patchset.smoke.case import Case  # which needs NumPy

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
        for kernel in job.get("faulty", ()):
            if not _run_mutants(lane, kernel, job, events):
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
    function = _function(kernel, kernel["module"])
    parameters = _parameters(kernel)
    cases = getattr(lane, "expand", lambda _, made: made)(function, _cases(kernel, job))
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
            FAILED if message else NOT_RUN if outcome.not_run else PASSED,
            round(time.monotonic() - started, 4),
            message or outcome.not_run or outcome.note,
            outcome.differences,
            outcome.cold_seconds,
            outcome.warm_seconds,
            outcome.graph_seconds,
            outcome.graph,
        )
        _tell(events, event="case-end", kernel=kernel["name"], result=case_as_json(result))


def _function(kernel: dict[str, Any], module: str) -> Any:
    return operator.attrgetter(kernel["name"])(_import_file(Path(module)))


def _parameters(kernel: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(name, has_default) for name, has_default in kernel["parameters"]]


def _cases(kernel: dict[str, Any], job: dict[str, Any]) -> list[Case]:
    import numpy as np

    from patchset.smoke.case import Subject

    rng = np.random.default_rng([job["seed"], zlib.crc32(kernel["name"].encode())])
    names = frozenset(name for name, _ in _parameters(kernel))
    module, _, maker = kernel["cases"].partition(":")
    made: list[Case] = getattr(importlib.import_module(f"patchset.smoke.{module}"), maker)(
        Subject(kernel["name"], names, tuple(job["release"]), rng)
    )
    return made


def _run_mutants(lane: Any, kernel: dict[str, Any], job: dict[str, Any], events: IO[str]) -> bool:
    """The faults of one kernel, each until a case sees it; False if one has harmed this process."""
    right = _function(kernel, kernel["module"])
    parameters = _parameters(kernel)
    cases = [case for case in _cases(kernel, job) if case.name in kernel["passed"] and all(case.grid)]
    cases.sort(key=_size)
    for number, module in enumerate(kernel["mutants"]):
        _tell(events, event="mutant", kernel=kernel["name"], number=number)
        caught, message = None, ""
        try:
            faulty = _function(kernel, module)
        except Exception as error:  # it is no module: nothing to see
            message, cases_of = _describe(error).splitlines()[0], []
        else:
            cases_of = cases
        for case in cases_of:
            seen, refused = _differs(lane, faulty, parameters, case)
            message = message or refused
            if seen:
                caught = case
                break
        # The first one starts in a process that nothing harmed.
        if caught is not None and number and any(_differs(lane, right, parameters, caught)):
            return False
        name = None if caught is None else caught.name
        _tell(events, event="mutant-end", kernel=kernel["name"], number=number, caught=name, message=message)
    return True


def _differs(lane: Any, function: Any, parameters: list[tuple[str, bool]], case: Case) -> tuple[bool, str]:
    """Is what a launch left not as *case* wants it? And what kept it from being launched, if anything."""
    try:
        ran = lane.run(function, parameters, case)
    except Exception as error:
        return False, _describe(error).splitlines()[0]
    return bool(ran.differences if isinstance(ran, Outcome) else ran), ""


def _size(case: Case) -> int:
    """How much there is to do in a case, roughly."""
    elements = sum(array.start.size for array in (*case.arrays.values(), *case.memory.values()))
    return elements * math.prod(case.grid)


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
