"""One run of a test on one tree: a command of the user's, the kernel smoke, or a probe; on the tree or on its wheel."""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from patchset import process
from patchset.bisect.evidence import Result
from patchset.bisect.installed import Installer
from patchset.errors import MissingTool, SmokeError, WheelError
from patchset.lab import Lab
from patchset.lanes import run_smoke
from patchset.patch import Patch
from patchset.probe import Finding, Verdict, probe
from patchset.store.worktrees import Worktree
from patchset.workspace import Workspace, digest, sources_digest

#: What of the environment tells of a terminal or a session, and not of a result: the rest is part of a result's key.
_NOISE = re.compile(
    r"_|PWD|OLDPWD|SHLVL|TERM|COLORTERM|COLUMNS|LINES|NO_COLOR|LS_COLORS|DISPLAY|WINDOWID|STY|MAIL|PS\d|DESKTOP_SESSION"
    r"|INVOCATION_ID|JOURNAL_STREAM|PATCHSET_HELD"
    r"|(TERM|SSH|XDG|DBUS|WAYLAND|TMUX|PROMPT|HIST|LESS|SYSTEMD|GPG|VTE|KONSOLE|GNOME|GTK|QT|KDE|SESSION|PYTEST)_?.*"
)
#: A word of a command that can name a file, and what makes it one that is written.
_WORD = re.compile(r"(>{1,2}\|?\s*)?([^\s'\"`;|&<>()=:,]+)")
#: A seed of the smoke's inputs that all steps share: two trees are compared on the same numbers.
_SEED = "20260613"


@dataclass(frozen=True)
class Subject:
    """What is tested: a tree, the release whose contracts count for it, and what a test may want to know of the step."""

    tree: str
    release: str
    recipe: str
    patches: tuple[str, ...]
    step: int

    def environment(self) -> dict[str, str]:
        """What a command sees of it."""
        return {
            "PATCHSET_RECIPE": self.recipe,
            "PATCHSET_RELEASE": self.release,
            "PATCHSET_TREE": self.tree,
            "PATCHSET_PATCHES": ",".join(self.patches),
            "PATCHSET_STEP": str(self.step),
        }


@dataclass(frozen=True)
class Run:
    """How one run ended: ``reason`` says it in words, ``seconds`` is what the test itself took."""

    result: Result
    reason: str
    seconds: float


@dataclass(frozen=True)
class Slot:
    """Where one test runs at a time: a worktree, and a folder for what else it needs."""

    worktree: Worktree
    folder: Path


#: Told how to kill what was started.
Started = Callable[[Callable[[], None]], None]


class Trial(Protocol):
    """A test that can be run on trees."""

    @property
    def identity(self) -> str:
        """What a result depends on beside the tree: equal identities give equal results."""

    @property
    def needs_worktree(self) -> bool:
        """Is each run in a worktree of the tree?"""

    def run(self, subject: Subject, slot: Slot, log: Path, started: Started) -> Run:
        """Run it once; its output goes to *log*."""


@dataclass(frozen=True)
class Command:
    """A shell command in a worktree of the tree, or, with *installer*, beside an interpreter that has its wheel.

    As for `git bisect run`: status 0 is good, 125 skips, 1 to 127 otherwise is bad. What a signal ended says nothing.
    """

    text: str
    timeout: float
    here: Path
    clone: Workspace
    installer: Installer | None = None

    @functools.cached_property
    def identity(self) -> str:
        """The command, the files that it reads by name, the place, the machine and the environment, as they are at first.

        What such a file reads in its turn is not seen.
        """
        telling = {name: value for name, value in os.environ.items() if not _NOISE.fullmatch(name)}
        machine = [platform.system(), platform.release(), platform.machine(), sys.version]
        stage = self.installer.identity if self.installer else "tree"
        files = _named_files(self.text, self.here)
        return digest(["command", self.text, self.timeout, str(self.here), files, telling, machine, stage])

    @property
    def needs_worktree(self) -> bool:
        """Not with a wheel."""
        return self.installer is None

    def run(self, subject: Subject, slot: Slot, log: Path, started: Started) -> Run:
        """Run it once."""
        env: Mapping[str, str] = {**os.environ, **subject.environment(), "PATCHSET_HERE": str(self.here)}
        if self.installer:
            try:
                installed = self.installer.install(subject, slot.folder)
            except WheelError as error:
                log.write_text(f"{error}\n{error.detail}\n", encoding="utf-8")
                return Run(Result.CANNOT_BUILD, error.what, 0.0)
            if installed.refused:
                log.write_text(installed.refused + "\n", encoding="utf-8")
                last = installed.refused.strip().splitlines()[-1:] or ["no output"]
                return Run(Result.CANNOT_LOAD, f"vLLM cannot be imported from its wheel: {last[0]}", 0.0)
            env, where = {**env, **installed.environment}, installed.empty
        else:
            where = slot.worktree.hold(subject.tree)
        env = {**env, **self.clone.held()}
        ended = process.run(
            ["/bin/sh", "-c", self.text], cwd=where, env=env, timeout=self.timeout, log=log, started=started, alone=True
        )
        return Run(*_judge(ended, self.timeout), ended.seconds)


@dataclass(frozen=True)
class Probing:
    """The probe of a patch, or one of its checks: its defect is bad, ``sound`` and ``absent`` are good."""

    patch: Patch
    check: str
    lab: Lab
    cache: Path
    fresh: bool

    @property
    def identity(self) -> str:
        """The probe's program and the laboratory."""
        return digest(["probe", sha256(self.patch.probe.read_bytes()).hexdigest(), self.check, self.lab.identity])

    @property
    def needs_worktree(self) -> bool:
        """Not where its verdict is known already."""
        return False

    def run(self, subject: Subject, slot: Slot, log: Path, started: Started) -> Run:
        """Run it once; a verdict that is known of this tree is taken."""
        tree, began = subject.tree, time.monotonic()
        finding = probe(self.patch, tree, lambda: slot.worktree.hold(tree), self.lab, self.cache, fresh=self.fresh)
        log.write_text(json.dumps(finding.as_dict(), indent=1) + "\n", encoding="utf-8")
        verdict, reason = self._look(finding)
        results = {Verdict.DEFECT: Result.BAD, Verdict.UNKNOWN: Result.SKIPPED}
        return Run(results.get(verdict, Result.GOOD), f"{verdict.value}: {reason}", time.monotonic() - began)

    def _look(self, finding: Finding) -> tuple[Verdict, str]:
        if not self.check or finding.verdict is Verdict.UNKNOWN:
            return finding.verdict, finding.reason
        checks = [check for check in finding.checks if check.name == self.check]
        if not checks:
            return Verdict.ABSENT, f"the probe has nothing to check as {self.check} here"
        return checks[0].verdict, checks[0].reason


@dataclass(frozen=True)
class Smoking:
    """The kernel smoke in a lane: a kernel that is wrong or missing is bad."""

    lane: str
    kernels: str
    lab: Lab
    root: Path
    installer: Installer | None = None

    @property
    def identity(self) -> str:
        """The smoke's own sources, its lane and seed, and the laboratory."""
        stage = self.installer.identity if self.installer else "tree"
        own = sources_digest(Path(__file__).parents[1] / "smoke")
        return digest(["smoke", own, self.lane, self.kernels, _SEED, self.lab.identity, stage])

    @property
    def needs_worktree(self) -> bool:
        """Not with a wheel."""
        return self.installer is None

    def run(self, subject: Subject, slot: Slot, log: Path, started: Started) -> Run:
        """Run it once."""
        try:
            if self.installer:
                source = ["--wheel", str(self.installer.wheel(subject, slot.folder))]
            else:
                source = ["--tree", str(slot.worktree.hold(subject.tree))]
            words = [*source, "--release", subject.release, "--set", self.kernels, "--seed", _SEED]
            result = run_smoke(words, self.lane, self.lab, self.root, slot.folder)
        except WheelError as error:
            log.write_text(f"{error}\n{error.detail}\n", encoding="utf-8")
            return Run(Result.CANNOT_BUILD, error.what, 0.0)
        except SmokeError as error:
            log.write_text(f"{error}\n{error.detail}\n", encoding="utf-8")
            return Run(Result.CANNOT_LOAD, error.what, 0.0)
        log.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        wrong = [kernel["name"] for kernel in result["kernels"] if kernel["status"] in ("failed", "missing")]
        seconds = sum(float(kernel.get("seconds", 0.0)) for kernel in result["kernels"])
        if result["summary"]["ok"]:
            return Run(Result.GOOD, f"{result['summary']['kernels']['passed']} kernels passed", seconds)
        return Run(Result.BAD, f"wrong: {', '.join(wrong) or 'no kernel ran'}", seconds)


def _judge(ended: process.Finished, timeout: float) -> tuple[Result, str]:
    status = ended.returncode
    if ended.timed_out:
        return (
            Result.SKIPPED,
            f"no end after {timeout:g} s (to call that bad: timeout {timeout:g} COMMAND, in the test)",
        )
    if status == 0:
        return Result.GOOD, "status 0"
    if status == 125:
        return Result.SKIPPED, "status 125: skip"
    if 0 < status < 128:
        last = ended.tail(1)
        hint = " (command not found: it runs in a worktree of vLLM; name your own files by absolute path)"
        return Result.BAD, f"status {status}{hint if status == 127 else ''}{f': {last[:200]}' if last else ''}"
    number = -status if status < 0 else status - 128
    names = {item.value: item.name for item in signal.Signals}
    if number not in names:
        return Result.SKIPPED, f"status {status} (to call that bad: COMMAND || exit 1)"
    return Result.SKIPPED, f"ended by {names[number]} (to call that bad: COMMAND || exit 1)"


def _named_files(command: str, here: Path) -> list[list[str]]:
    """Files that *command* names by absolute path and does not write, with the hash of their content.

    A changed script is another test; a log that it writes is none.
    """
    known = {**os.environ, "PATCHSET_HERE": str(here)}
    found = {}
    for written, word in _WORD.findall(command):
        named = re.sub(r"\$\{?(\w+)\}?", lambda name: known.get(name[1], ""), word)
        path = Path(os.path.expanduser(named))
        if not written and path.is_absolute() and path.is_file() and os.access(path, os.R_OK):
            found[str(path)] = sha256(path.read_bytes()).hexdigest()
    return [list(item) for item in sorted(found.items())]


def require_shell() -> None:
    """:raises MissingTool: no ``/bin/sh``."""
    if not os.access("/bin/sh", os.X_OK):
        raise MissingTool("/bin/sh is not here", next="install dash or bash, then run again")
