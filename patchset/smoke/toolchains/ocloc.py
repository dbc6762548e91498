"""Intel's offline compiler: SPIR-V to machine code for the B70, and how that ended.

Facts:

* ``bmg-g31`` is the chip of the B70. A thread may have 128 registers, or 256 of them with half the threads.
* A compilation takes 0.1-3 s; one that never ends is an answer too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from patchset.smoke.lanes import CannotRun
from patchset.smoke.toolchains import CACHE
from patchset.smoke.toolchains.machine_code import MachineCode, Unreadable, read

#: The words that start it, as a shell has them; without it the ``ocloc`` on the PATH is taken.
WORDS = "PATCHSET_OCLOC"
DEVICE = "bmg-g31"
#: Register mode → the driver's words for it.
MODES = {"default": "", "256": "-cl-intel-256-GRF-per-thread"}

#: Seconds of processor time for one compilation, so that a busy machine changes no verdict: more than ten times what the
#: slowest known one takes that comes to a good end.
LIMIT = 120
#: Seconds on the clock: nothing that still computes is stopped by it.
_CLOCK = 3600.0
_TAIL = 12
_ENTRY_LIMIT = 64 * 1024
_FORMAT = 1
_SCRATCH = re.compile(r"scratch space exceeds.*?:\s*(\d+) bytes", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Made:
    """How one compilation ended.

    :param code: None if there is no machine code.
    :param told: the end of what the compiler printed, if there is none.
    :param scratch: bytes of scratch that it refused, if that is why.
    """

    code: MachineCode | None
    seconds: float
    told: str = ""
    scratch: int | None = None
    timed_out: bool = False


@dataclass(frozen=True)
class Ocloc:
    """The compiler: the *words* that start it, its *version*, and where results are kept (None: nowhere)."""

    words: tuple[str, ...]
    version: str
    cache: Path | None

    def compile(self, spirv: bytes, kernel: str, mode: str, limit: int = LIMIT) -> Made:
        """*kernel* of a module, with the registers of *mode*; what was compiled before by the same compiler is looked up."""
        kept = self._entry(spirv, kernel, mode)
        known = _recall(kept)
        if known is not None:
            return known
        made = self._compile(spirv, kernel, mode, limit)
        if kept is not None and not made.timed_out:  # the next machine may be faster
            _keep(kept, made)
        return made

    def _compile(self, spirv: bytes, kernel: str, mode: str, limit: int) -> Made:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="patchset-ocloc-") as name:
            folder = Path(name)
            (folder / "kernel.spv").write_bytes(spirv)
            words = ["compile", "-spirv_input", "-file", "kernel.spv", "-device", DEVICE, "-output_no_suffix"]
            words += ["-output", "kernel", "-out_dir", name, *(["-options", MODES[mode]] if MODES[mode] else [])]
            ended = _start([*self.words, *words], folder, limit)
            seconds = round(time.monotonic() - started, 3)
            if ended.returncode in (None, -signal.SIGXCPU, -signal.SIGKILL):
                return Made(None, seconds, f"it was stopped after {limit} s of processor time", timed_out=True)
            text = ended.stdout.decode("utf-8", "replace")
            binary = folder / "kernel.bin"
            if ended.returncode or not binary.is_file():
                refused = _SCRATCH.search(text)
                told = "\n".join([f"status {ended.returncode}", *text.strip().splitlines()[-_TAIL:]])
                return Made(None, seconds, told, int(refused.group(1)) if refused else None)
            try:
                return Made(read(binary.read_bytes(), kernel), seconds)
            except Unreadable as error:
                return Made(None, seconds, f"what it made cannot be read: {error}")

    def _entry(self, spirv: bytes, kernel: str, mode: str) -> Path | None:
        if self.cache is None:
            return None
        what = hashlib.sha256(
            json.dumps(
                [_FORMAT, self.version, DEVICE, mode, MODES[mode], kernel, hashlib.sha256(spirv).hexdigest()]
            ).encode()
        )
        return self.cache / "ocloc" / f"{what.hexdigest()}.json"


def find(environment: Mapping[str, str] = os.environ) -> Ocloc:
    """The compiler that *environment* names, or has on its PATH.

    :raises CannotRun: there is none, or it does not know the B70.
    """
    given = environment.get(WORDS, "")
    words = tuple(shlex.split(given)) or tuple(filter(None, [shutil.which("ocloc", path=environment.get("PATH"))]))
    if not words:
        raise CannotRun(f"Intel's offline compiler is wanted: set {WORDS} to the words that start it")
    with tempfile.TemporaryDirectory(prefix="patchset-ocloc-") as folder:
        try:
            version = _start([*words, "--version"], Path(folder), LIMIT)
            knows = _start([*words, "ids", DEVICE], Path(folder), LIMIT)
        except OSError as error:
            raise CannotRun(f"{words[0]} cannot be started: {error}") from error
    if version.returncode or knows.returncode or b"Matched ids" not in knows.stdout:
        raise CannotRun(f"{words[-1]} does not know {DEVICE}: {knows.stdout.decode('utf-8', 'replace').strip()[-300:]}")
    named = version.stdout.decode("utf-8", "replace").split()
    cache = environment.get(CACHE, "")
    # Two of one version may have other libraries beside them; who fetched them by hash says so in the words' folder.
    return Ocloc(words, f"{named[0] if named else 'unknown'} {_build(words)}".strip(), Path(cache) if cache else None)


def _build(words: Sequence[str]) -> str:
    """A short hash over the compiler's own files: the program and the libraries beside those it is given."""
    digest = hashlib.sha256()
    for word in words:
        path = Path(word)
        for file in [path] if path.is_file() else sorted(path.glob("lib*.so*")) if path.is_dir() else []:
            digest.update(f"{file.name} {file.stat().st_size}\n".encode())
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class _Ended:
    """``returncode`` is negative for a signal, None past the clock; ``stdout`` has both streams."""

    returncode: int | None
    stdout: bytes


def _start(words: Sequence[str], folder: Path, limit: int) -> _Ended:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    child = subprocess.Popen(
        list(words),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(child.pid, resource.RLIMIT_CPU, (limit, limit + 5))
        out, _ = child.communicate(timeout=_CLOCK)
        return _Ended(child.returncode, out)
    except subprocess.TimeoutExpired:
        child.kill()
        return _Ended(None, child.communicate()[0])
    except BaseException:
        child.kill()
        child.wait()
        raise


def _recall(kept: Path | None) -> Made | None:
    """What *kept* says; None where it cannot be read, which is as good as not there."""
    try:
        if kept is None or kept.stat().st_size > _ENTRY_LIMIT:
            return None
        data: dict[str, Any] = json.loads(kept.read_bytes())
        code = data.pop("code")
        if code is not None:
            code = MachineCode(**{**code, "undefined": tuple(code["undefined"])})
        return Made(code, **data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _keep(kept: Path, made: Made) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_name(f"{kept.name}.{os.getpid()}.part")
    part.write_text(json.dumps(asdict(made)), "utf-8")
    os.replace(part, kept)
