"""Was the client itself held up? Then what it saw as late came in time, and no figure of it is the server's.

On a machine without a free core the kernel lets a client wait that does little, and a whole answer is then read at once: its tokens seem
to come in a burst after a long pause. (Seen with a server of two busy processes on two cores: up to two seconds.)

Fact (sched(7), "The autogroup feature"): processes of one session share what time the kernel gives that session, and ``nice`` counts only among
them. What a session gets is set in ``/proc/self/autogroup``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

#: A heart that beats so often costs a client nothing that can be measured.
_BEAT = 0.005
#: What is later than this is remembered, with when it was.
_LATE = 0.002


def go_first() -> None:
    """Let this session, which is the client's alone, be served before others, where that is allowed."""
    with suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as file:
        file.write("-10")


class Lag:
    """How late the client's own clock came round, and when."""

    def __init__(self) -> None:
        self.late: list[tuple[float, float]] = []

    def note(self, at: float, late: float) -> None:
        """It came round at *at*, *late* seconds after it should have."""
        if late > _LATE:
            self.late.append((at, late))

    def since(self, began: float) -> float:
        """The longest delay that ended after *began* (``time.perf_counter``), in seconds; 0 for none worth a word."""
        longest = 0.0
        for at, late in reversed(self.late):
            if at < began:
                break
            longest = max(longest, late)
        return longest


@asynccontextmanager
async def watched() -> AsyncIterator[Lag]:
    """The lag of this event loop, while it is looked at."""
    lag = Lag()

    async def beat() -> None:
        while True:
            due = time.perf_counter() + _BEAT
            await asyncio.sleep(_BEAT)
            now = time.perf_counter()
            lag.note(now, now - due)

    task = asyncio.create_task(beat())
    try:
        yield lag
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
