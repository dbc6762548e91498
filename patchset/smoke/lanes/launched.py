"""What lanes that only compile a launch make of it: plain kernels, a launch a configuration, and the arguments by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from patchset.smoke.case import Case
from patchset.smoke.launches import Argument, Launch, Memory, Type


def plain(function: Any) -> tuple[Any, list[dict[str, Any]], dict[str, Any]]:
    """A kernel without its decorators.

    :return: the ``triton.jit`` function; the configurations of its autotuner, as arguments (one empty, if it has none);
        and name → function of the arguments, for what a heuristic decides.
    """
    configurations: list[dict[str, Any]] = [{}]
    heuristics: dict[str, Any] = {}
    while hasattr(function, "fn") and not hasattr(function, "params"):
        if hasattr(function, "configs"):
            configurations = [
                {**one.kwargs, "num_warps": one.num_warps, "num_stages": one.num_stages} for one in function.configs
            ]
        elif hasattr(function, "values"):
            heuristics.update(function.values)
        function = function.fn
    return function, configurations, heuristics


def expand(function: Any, cases: Sequence[Case | Launch]) -> list[Case | Launch]:
    """*cases* with a launch for each configuration of *function*'s autotuner."""
    made: list[Case | Launch] = []
    for case in cases:
        configurations = plain(function)[1] if isinstance(case, Launch) else [{}]
        if not isinstance(case, Launch) or configurations == [{}]:
            made.append(case)
            continue
        for one in configurations if case.every else configurations[:: max(1, len(configurations) - 1)]:
            name = f"{case.name} {', '.join(f'{key}={value}' for key, value in one.items())}"
            tuned = {key: value for key, value in one.items() if key not in ("num_warps", "num_stages")}
            options = {**case.options, **{key: value for key, value in one.items() if key not in tuned}}
            made.append(replace(case, name=name, arguments={**case.arguments, **tuned}, options=options))
    return made


def given(
    parameters: Sequence[tuple[str, bool]],
    case: Launch,
    heuristics: Mapping[str, Any],
    pointer: Callable[[Memory], Any],
) -> dict[str, Any]:
    """What the compiler is given for the parameters that the kernel has, and what the launch asks of it.

    :param parameters: (name, has a default) in the kernel's order.
    :param pointer: an array as the compiler wants it.
    :raises KeyError: the kernel wants one that the launch does not have.
    """
    import triton.language as tl

    named: dict[str, Argument] = {
        **case.arguments,
        **{name: decide(case.arguments) for name, decide in heuristics.items()},
    }
    made: dict[str, Any] = {}
    for name, has_default in parameters:
        if name not in named:
            if not has_default:
                raise KeyError(f"the kernel has a parameter that its launches do not know: {name}")
            continue
        value = named[name]
        if isinstance(value, Memory):
            made[name] = pointer(value)
        else:
            made[name] = getattr(tl, value.name) if isinstance(value, Type) else value
    return {**made, **case.options}
