"""A call in a process of its own: what it gives, or how that process ended."""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
from collections.abc import Callable
from typing import Any


class Died(Exception):
    """The process did not come to an end of its own, or in time. The text says how it ended."""


class Refused(Exception):
    """What was called raised. The text is of that exception."""


def call(function: Callable[[], Any], limit: float) -> Any:
    """What *function* gives; it runs in a copy of this process, so whatever it does to it is not felt here.

    :param limit: seconds for it.
    :raises Died: a signal, or the limit.
    :raises Refused: it raised.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        _answer(function, read, write)
    os.close(write)
    try:
        told = _all(read, time.monotonic() + limit)
        if told is None:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(read)
        _, status = os.waitpid(child, 0)
    if told is None:
        raise Died(f"it did not come to an end in {limit:g} s")
    if os.WIFSIGNALED(status):
        raise Died(f"it died of {signal.Signals(os.WTERMSIG(status)).name}")
    if not told:
        raise Died(f"it ended with status {os.waitstatus_to_exitcode(status)}")
    good, value = pickle.loads(told)  # written by this program's own copy
    if not good:
        raise Refused(value)
    return value


def _answer(function: Callable[[], Any], read: int, write: int) -> None:
    """The copy: never comes back."""
    os.close(read)
    try:
        told = (True, function())
    except BaseException as error:
        told = (False, _text(error))
    try:
        with os.fdopen(write, "wb") as stream:
            pickle.dump(told, stream)
    finally:
        os._exit(0)


def _text(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[-1:]) or 'no text'}"


def _all(read: int, until: float) -> bytes | None:
    """Everything that comes, or None if the time is over first."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([read], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return None
        part = os.read(read, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
