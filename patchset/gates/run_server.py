"""The process behind an endpoint on this machine: its command, its environment, and whether it is there.

Facts (proc(5)): ``/proc/net/tcp`` and ``tcp6`` list sockets with local address and port in hexadecimal, state 0A for one that listens,
and an inode; ``/proc/PID/fd`` has links ``socket:[inode]``; ``cmdline`` and ``environ`` are separated by NUL, and ``environ`` is as
the process was started.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from patchset.errors import DeclarationError, GateError

_PROC = Path("/proc")
_LISTENS = "0A"
_MOST_WORDS, _MOST_VALUE = 500, 4000
#: Variables that change what a server computes or how fast.
_TELLING = re.compile(
    r"(?:VLLM|ZE|ZES|SYCL|ONEAPI|CCL|FI|IGC|NEO|INTEL|TRITON|TORCH|TORCHINDUCTOR|PYTORCH|XPU|CUDA|HIP|OMP|KMP|MKL|NCCL|UR|HF|TRANSFORMERS|SAFETENSORS|LD|PYTHON)"
    r"_?[A-Z0-9_]*|PATH|VIRTUAL_ENV|TOKENIZERS_PARALLELISM|OverrideDefaultFP64Settings|RenderCompressedBuffersEnabled|EnableImplicitScaling"
)
_SECRET = re.compile(r"key|token(?!izers)|secret|passw|credential|auth", re.IGNORECASE)
_SECRET_FLAGS = frozenset({"--api-key", "--hf-token", "--ssl-keyfile-password"})
_HIDDEN = "(hidden)"


@dataclass(frozen=True)
class Process:
    """A server's process. ``environment``: what may tell of speed and results, without secrets."""

    pid: int
    command: tuple[str, ...]
    environment: Mapping[str, str]


def address_of(url: str) -> str:
    """The root of the server that *url* names, without a slash or ``/v1`` at its end.

    :raises DeclarationError: it is no plain http(s) address, or has a name and password in it.
    """
    example = "--url http://127.0.0.1:8000"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise DeclarationError(f"--url {url} is no address: {error}", next=example) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or not url.isprintable() or " " in url:
        raise DeclarationError(f"--url {url} is no address of a server", next=example)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise DeclarationError(
            "--url has more than an address: a name, a password or a query",
            next=f"{example}, and a key in the environment: VLLM_API_KEY",
        )
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def process_of(base: str, pid: int = 0) -> Process | None:
    """The process that serves *base*: *pid*, or the one that listens at that port of this machine.

    None: the address is another machine's, or whoever listens is another user's.

    :raises GateError: there is no process *pid*.
    """
    if pid:
        found = _read(pid)
        if found is None:
            raise GateError(
                f"there is no process {pid} that can be read",
                next="name the server's process: --pid $(pgrep -f 'vllm serve')",
            )
        return found
    parts = urlsplit(base)
    if not _is_here(parts):
        return None
    inodes = set(_listening(parts.port or (443 if parts.scheme == "https" else 80)))
    return next((found for one in _owners(inodes) if (found := _read(one))), None)


def is_running(pid: int) -> bool:
    """Is *pid* a process that has not ended?"""
    try:
        state = (_PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return False
    return bool(state) and state[0] not in "ZX"


def flags_of(command: Sequence[str]) -> list[str]:
    """The flags of a vLLM command line, one a string (``--name=value``), in one order: so that two runs can be compared."""
    words = list(command)
    start = next((number for number, word in enumerate(words) if word.startswith("--")), len(words))
    found: list[str] = []
    for word in words[start:]:
        if word.startswith("-") and not _is_number(word):
            found.append(word)
        elif found and "=" not in found[-1]:
            found[-1] = f"{found[-1]}={word}"
        elif found:
            found[-1] = f"{found[-1]} {word}"
    return sorted(found)


def flag(flags: Iterable[str], name: str) -> str | None:
    """The value of ``--name`` among *flags*; None: it is not given, or has none."""
    for one in flags:
        key, _, value = one.partition("=")
        if key.replace("_", "-") == f"--{name}":
            return value or None
    return None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _is_here(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening(port: int) -> Iterable[str]:
    for name in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / name).read_text("utf-8", "replace").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if len(words) > 9 and words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                yield words[9]


def _owners(inodes: set[str]) -> Iterable[int]:
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for folder in sorted(_PROC.iterdir(), key=lambda one: one.name) if wanted else ():
        if not folder.name.isdecimal():
            continue
        try:
            with os.scandir(folder / "fd") as entries:
                if any(os.readlink(entry.path) in wanted for entry in entries):
                    yield int(folder.name)
        except OSError:
            continue


def _read(pid: int) -> Process | None:
    if not is_running(pid):
        return None
    try:
        command = _words((_PROC / str(pid) / "cmdline").read_bytes())
        held = _words((_PROC / str(pid) / "environ").read_bytes())
    except OSError:
        return None
    return Process(pid, _without_secrets(command), _telling(held))


def _words(data: bytes) -> list[str]:
    return [word.decode("utf-8", "backslashreplace")[:_MOST_VALUE] for word in data.split(b"\0") if word][:_MOST_WORDS]


def _telling(held: Iterable[str]) -> dict[str, str]:
    pairs = (one.partition("=") for one in held)
    return {
        name: _HIDDEN if _SECRET.search(name) else value for name, _, value in sorted(pairs) if _TELLING.fullmatch(name)
    }


def _without_secrets(command: Sequence[str]) -> tuple[str, ...]:
    words, hide = [], False
    for word in command:
        name, equals, _ = word.partition("=")
        is_secret = name.replace("_", "-") in _SECRET_FLAGS
        # A flag can have several values: all up to the next flag.
        hide = is_secret and not equals if word.startswith("--") else hide
        words.append(_HIDDEN if hide and not is_secret else f"{name}={_HIDDEN}" if is_secret and equals else word)
    return tuple(words)


def facts(process: Process | None) -> dict[str, Any] | None:
    """*process* for the result, with whether it still runs now."""
    return None if process is None else {"pid": process.pid, "running": is_running(process.pid)}
