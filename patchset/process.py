"""The one place that starts processes. (git: see ``store``; ``smoke`` runs alone, and so starts its own.)"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset.errors import MissingTool

#: How to reach the network from here.
NETWORK = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
)
#: What of the caller's environment a child may see. Everything else (PYTHONPATH, GIT_*, CFLAGS, VLLM_*, locale, time
#: zone) could change what is produced, so it is not passed on.
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "REQUESTS_CA_BUNDLE", *NETWORK)

#: A child's output is kept up to this many bytes (its end, which is where failures are).
OUTPUT_LIMIT = 4 * 1024 * 1024


@dataclass(frozen=True)
class Finished:
    """A process that ended.

    ``returncode`` is negative for a signal, as in :mod:`subprocess`; ``timed_out`` says that it was killed by us.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float
    timed_out: bool = False

    def tail(self, lines: int = 25) -> str:
        """The end of what it printed, for an error's detail."""
        text = (self.stdout + b"\n" + self.stderr).decode("utf-8", "replace").strip()
        return "\n".join(text.splitlines()[-lines:])


def clean_environment(extra: Mapping[str, str] | None = None, *, pip: bool = False) -> dict[str, str]:
    """A child's environment: what :data:`PASSED_ON` names, C.UTF-8, UTC, and *extra* over it.

    :param pip: also pass ``PIP_*`` and the XDG configuration paths on, so that a child pip has the user's index,
        proxy and certificates. pip's configuration decides where a file comes from; hashes decide which file it is.
    """
    names = [name for name in os.environ if name in PASSED_ON]
    if pip:
        names += [name for name in os.environ if name.startswith("PIP_") or name.startswith("XDG_CONFIG")]
    kept = {name: os.environ[name] for name in names}
    fixed = {
        "LC_ALL": "C.UTF-8",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {**kept, **fixed, **(extra or {})}


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    cwd: str | os.PathLike[str],
    env: Mapping[str, str],
    timeout: float,
    stdin: bytes = b"",
    log: Path | None = None,
    started: Callable[[Callable[[], None]], None] = lambda kill: None,
    alone: bool = False,
) -> Finished:
    """Run *argv* to its end in a process group of its own, and return what became of it. Never raises for a bad status.

    :param timeout: seconds; the whole group is killed past it.
    :param log: a file that gets both streams as they come, so that a killed run leaves its evidence;
        ``stdout`` of the result then holds both.
    :param started: is told how to kill the group from another thread.
    :param alone: what it leaves running in its group is killed when it ends.
    :raises MissingTool: the program is not there, or is none.
    """
    words = tuple(os.fspath(word) for word in argv)
    if not shutil.which(words[0], path=env.get("PATH")):
        raise MissingTool(f"{words[0]} is not here", next=f"install {words[0]}, then run again")
    began = time.monotonic()
    sink = open(log, "wb") if log else None
    try:
        child = subprocess.Popen(
            (*dies_with_parent(), *words),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=sink or subprocess.PIPE,
            stderr=subprocess.STDOUT if sink else subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        if sink:
            sink.close()
        raise MissingTool(f"{words[0]} could not be started: {error.strerror}", next=f"install {words[0]}") from error
    started(lambda: _kill_group(child) if child.poll() is None else None)
    timed_out = False
    try:
        try:
            out, err = child.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            _kill_group(child)
            out, err = child.communicate()
        if alone:
            _kill_group(child)
    except BaseException:
        # Ctrl-C, or the interpreter is going down: a build left running would go on writing into folders that the
        # next run takes for its own.
        _kill_group(child)
        child.wait()
        raise
    finally:
        if sink:
            sink.close()
    if log:
        out, err = log.read_bytes(), b""
    return Finished(
        words,
        child.returncode,
        out[-OUTPUT_LIMIT:],
        (err or b"")[-OUTPUT_LIMIT:],
        time.monotonic() - began,
        timed_out,
    )


@functools.cache
def dies_with_parent() -> tuple[str, ...]:
    """The words before a command that end it when this process is killed.

    A pip, a build or a git left alone would go on writing where the next run makes things anew. (From util-linux; without
    it such a child lives on.)
    """
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()


def run_through(argv: Sequence[str], *, cwd: str | os.PathLike[str], env: Mapping[str, str]) -> int:
    """Run *argv* with its output and the keyboard going straight through, and return its status: a person is watching."""
    return subprocess.run(list(argv), cwd=cwd, env=dict(env), check=False).returncode


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
