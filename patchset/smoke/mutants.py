"""The mutation score: each kernel is run again with its planted faults, and some case must see each of them.

Seen is a fault by what a launch left, or if the launch took the process with it or never ended. An exception does not count:
that a kernel does not compile says nothing of the cases.

Several faults share a process. A fault may damage its process, and then all that comes after it would be called seen: so
after each the right kernel runs the same case, and what is in doubt is run again, first in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchset.smoke.extract import Cut
from patchset.smoke.mutate import Mutant, MutationError, apply, line_of
from patchset.smoke.planted import PLANTED
from patchset.smoke.report import Mutants, Survivor
from patchset.smoke.sources import Source

#: The lanes that run kernels where a fault harms nobody.
LANES = ("interpret", "spirv")
#: Why the others do not.
NOT_RUN = {
    "native": "lane native compiles kernels and runs none",
    "device": "a fault may take the device from whoever uses it",
}


@dataclass(frozen=True)
class Planted:
    """One fault in one kernel.

    :param line: of the kernel's file where it is.
    :param text: the module that has it.
    """

    mutant: Mutant
    line: int
    text: str

    @property
    def what(self) -> str:
        """The fault in words."""
        return str(self.mutant)


#: Runs some faults of one kernel in a child process, with a limit; gives its events and how it ended.
RunChild = Callable[[Sequence[Planted]], tuple[list[dict[str, Any]], str]]


def planted(source: Source, piece: Cut, table: Mapping[str, tuple[Mutant, ...]] = PLANTED) -> tuple[Planted, ...]:
    """The faults of *table* that fit the kernel as *source* has it."""
    text = source.read(piece.file) or ""
    found = []
    for mutant in table.get(piece.name, ()):
        try:
            found.append(Planted(mutant, line_of(text, mutant), apply(piece.text, mutant)))
        except MutationError:
            continue  # another release's
    return tuple(found)


def score(faults: Sequence[Planted], run: RunChild) -> Mutants:
    """Run *faults* until each is settled."""
    survivors: list[Survivor] = []
    left = list(faults)
    while left:
        events, death = run(left)
        ends = [event for event in events if event["event"] == "mutant-end"]
        for fault, event in zip(left, ends, strict=False):
            if not event["caught"]:
                refused = f" (only refused: {event['message']})" if event["message"] else ""
                survivors.append(Survivor(f"{fault.what}{refused}", fault.line))
        if not any(event["event"] == "mutant" for event in events):
            why = f" (not run: {death.splitlines()[0]})"
            survivors += [Survivor(f"{fault.what}{why}", fault.line) for fault in left]
            break
        # The next one ended the process, or harmed it: if it was the first one there, that is its own doing.
        left = left[len(ends) or 1 :]
    return Mutants(len(faults), len(faults) - len(survivors), tuple(survivors))
