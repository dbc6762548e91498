"""What a server's log says of paths that were not taken: the slow one is used, and the answers look the same.

Sources of the patterns: messages of vLLM 0.19-0.33 at the level WARNING (``logger.warning`` and ``warning_once``), of torch, and of Triton's
Intel backend, read in their source. A line of the level INFO or DEBUG says what was chosen, not that something failed.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchset.errors import GateError
from patchset.verify import bounded

#: A pattern in lower case → what it means for what is measured.
FALLBACKS: tuple[tuple[str, str], ...] = (
    (r"\bfall(?:s|en|ing)?[ -]?back\b|\bfallback\b", "something chosen is not used"),
    (r"\bunoptimi[sz]ed\b", "a kernel without tuning"),
    (r"\bperformance (?:might|may|will|could) be\b", "a kernel without tuning"),
    (r"\bsub-?optimal\b", "a kernel without tuning"),
    (r"\busing (?:the )?(?:naive|native|slow|emulat\w+)\b|\bemulation\b", "a plain implementation"),
    (r"\brequires triton; using\b|\bdisabling triton\b", "no Triton kernels"),
    (r"\b(?:cuda|xpu|piecewise)[ _]?graphs?\b.*\b(?:disabl\w*|not support\w*|skipp\w*)", "no graph capture"),
    (r"\bdisabl\w* (?:torch\.compile|(?:cuda|xpu) ?graph)", "neither compilation nor capture"),
    (r"\btorch\.compile\b.*\b(?:disabl\w*|not support\w*|fail\w*|skipp\w*)", "no compilation"),
    (
        r"\b(?:prefix caching|chunked prefill|speculative decoding|async\w* scheduling)\b.*\b(?:disabl\w*|not support\w*)",
        "a feature is off",
    ),
    (
        r"\bfailed to import (?:from )?(?:vllm\._(?:moe_|xpu_)?c|vllm_xpu_kernels|triton kernels)\b|\bno module named '?vllm_xpu",
        "kernels are missing",
    ),
    (r"\bregister spill|\bspill(?:ed|s|ing)?\b.*\b(?:bytes|registers?)\b", "a kernel that spills registers"),
    (r"\bunknown vllm environment variable\b", "a setting without effect"),
)

#: What makes such a line one of something that was asked for, or that cannot be otherwise.
CHOSEN: tuple[tuple[str, str], ...] = (
    (r"\bby (?:the )?(?:environment variable|user settings?|user)\b", "a setting says so"),
    (r"\benforce[ _-]eager (?:is )?set\b", "a flag says so"),
    (r"\bdoesn't include cpu backend\b", "vLLM on a CPU has no Triton"),
)

#: Larger logs are not a server's start and a test; the beginning, where a server says what it chose, must be in it.
MOST_BYTES = 256 * 1024**2
_MOST_LINE = 500
_MOST_LINES = 50
_FOUND = re.compile("|".join(f"(?:{pattern})" for pattern, _ in FALLBACKS))
_CHOSEN = re.compile("|".join(f"(?:{pattern})" for pattern, _ in CHOSEN))
_LEVEL = re.compile(r"\b(?:INFO|DEBUG|TRACE|WARN(?:ING)?|ERROR|CRITICAL)\b")
_QUIET = frozenset({"INFO", "DEBUG", "TRACE"})
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class ServerLog:
    """A log as it was when it was read; ``fallbacks``: its lines that :data:`FALLBACKS` know, 50 at most."""

    path: str
    bytes: int
    sha256: str
    fallbacks: tuple[str, ...]

    def recorded(self) -> dict[str, Any]:
        """For the result."""
        return {"path": self.path, "bytes": self.bytes, "sha256": self.sha256, "fallbacks": list(self.fallbacks)}


def read_log(path: str | os.PathLike[str]) -> ServerLog:
    """The log in the file *path*.

    :raises GateError: it cannot be read, is empty, or too large.
    """
    try:
        data = bounded.read(path, MOST_BYTES)
    except bounded.Unread as error:
        raise GateError(
            f"the server's log cannot be read: {error}",
            where=str(path),
            next="name the file that the server writes to: --server-log FILE",
        ) from error
    if not data.strip():
        raise GateError(
            "the server's log is empty",
            where=str(path),
            next="name the file that the server writes to: --server-log FILE",
        )
    return ServerLog(str(Path(path).absolute()), len(data), hashlib.sha256(data).hexdigest(), fallbacks(data))


def fallbacks(data: bytes) -> tuple[str, ...]:
    """The lines of the log *data* that warn of a fallback, without colours, each once."""
    found: dict[str, None] = {}
    for raw in data.splitlines():
        line = _COLOUR.sub("", raw[: 8 * _MOST_LINE].decode("utf-8", "replace")).strip()
        level = _LEVEL.search(line[:120])
        is_warning = not (level and level[0] in _QUIET)
        if line and is_warning and _FOUND.search(line.lower()) and not _CHOSEN.search(line.lower()):
            found[line[:_MOST_LINE]] = None
            if len(found) == _MOST_LINES:
                break
    return tuple(found)
