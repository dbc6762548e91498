"""What a checklist looks at: a gate's result, whose fields are named when they are missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Raw = Mapping[str, Any]
Requests = Sequence[Mapping[str, Any]]
#: Raises :class:`Wrong`, if what it looks at is not so.
Look = Callable[["Result"], None]


class Wrong(Exception):
    """What a check looks at is missing or not as it must be; its text says what."""


@dataclass(frozen=True)
class Check:
    """One line of a checklist. ``reason``: why it failed; empty if it passed."""

    name: str
    verdict: str
    reason: str = ""


@dataclass(frozen=True)
class Result:
    """What is judged.

    :param requests: read strictly; none, if they cannot be, and then ``unread`` says why.
    """

    raw: Raw
    requests: Requests
    unread: str
    figures: Mapping[str, Any]

    def field(self, path: str, kind: type | tuple[type, ...]) -> Any:
        """What stands at *path*, as ``server.log.path`` names it.

        :raises Wrong: nothing does, or something of another kind.
        """
        value: Any = self.raw
        for number, part in enumerate(path.split(".")):
            if not isinstance(value, Mapping) or part not in value:
                raise Wrong(f"{'.'.join(path.split('.')[: number + 1])} is missing")
            value = value[part]
            if value is None:
                raise Wrong(f"{'.'.join(path.split('.')[: number + 1])} was not recorded")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise Wrong(f"{path} is not {' or '.join(_KIND[one] for one in kinds)}")
        return value

    def asked(self, *, phase: str = "", tainted: bool | None = None) -> Requests:
        """The requests, or those of a *phase*, or those that are *tainted* by compilation or are not.

        :raises Wrong: there are none.
        """
        if not self.requests:
            raise Wrong(f"requests: {self.unread}")
        found = [
            one
            for one in self.requests
            if phase in ("", one["phase"]) and (tainted is None or one["jit_tainted"] is tainted)
        ]
        if not found:
            raise Wrong(f"there is no {phase or 'such'} request")
        return found


_KIND = {str: "a text", int: "a number", float: "a number", list: "a list", dict: "an object", bool: "true or false"}
