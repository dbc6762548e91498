"""Run git on a repository, with nothing of the user's configuration in it. Nothing outside ``patchset.store`` does."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

from patchset import process
from patchset.errors import MissingTool, StoreError

#: The oldest git whose ``merge-tree --write-tree`` can be relied on.
GIT_MINIMUM = (2, 38)

#: Overrules every attribute that a tree's own .gitattributes could use to change bytes on their way in or out.
ATTRIBUTES = (
    "* -text !eol !ident !filter !working-tree-encoding !merge !diff !whitespace !conflict-marker-size "
    "!export-ignore !export-subst\n"
)

#: A fetch that brings what it is told to and nothing else: no tag, and no FETCH_HEAD that another run could take for its own.
FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head")

#: How long to wait for a git host's first answer, unless a caller knows better.
SECONDS_TO_ANSWER = 60.0


@dataclass(frozen=True)
class Answer:
    """What git said: exit status, standard output, standard error."""

    status: int
    out: bytes
    err: str


@dataclass(frozen=True)
class Repository:
    """A repository with a work tree, which is not the store."""

    directory: Path

    @property
    def words(self) -> list[str]:
        """The options that send git there."""
        return ["--git-dir", str(self.directory / ".git"), "--work-tree", str(self.directory)]


#: Stands for the store itself where a command says which repository it is for.
OWN = Repository(Path())


class GitRepository:
    """The bare repository at ``path``, and git run on it (or on another, for the few commands that concern one)."""

    def __init__(self, path: Path) -> None:
        self._program = _find("git", "git")  # first: without git, importing GitPython fails in words of its own
        # GitPython looks for a git of its own when it is imported, and fails on one that the environment names wrongly.
        os.environ["GIT_PYTHON_REFRESH"] = "quiet"
        from git.cmd import Git  # GitPython costs 0.1 s, and `inv --list` has no use for it

        self._env = _find("env", "coreutils")
        self.path = path
        self.lock = threading.RLock()
        self._git = Git(str(path.parent))

    # Keyword arguments of both: ``repository`` is the store itself unless another is named, None for none at all;
    # ``extra`` goes over the isolated environment.

    def run(
        self,
        *words: str,
        stdin: bytes = b"",
        stdin_file: IO[bytes] | None = None,
        repository: Repository | None = OWN,
        extra: Mapping[str, str] | None = None,
    ) -> bytes:
        """What `git *words*` prints.

        :raises StoreError: its status is not 0.
        """
        answer = self.attempt(*words, stdin=stdin, stdin_file=stdin_file, repository=repository, extra=extra)
        if answer.status != 0:
            command = next((word for word in words if not word.startswith("-")), words[0])
            raise StoreError(
                f"git {command} failed ({answer.status}): {last_line(answer.err)}",
                where=str(self.path),
                detail=answer.err.strip(),
                next=f"check room on the disk; if it stays, move {self.path} away and run again",
            )
        return answer.out

    def attempt(
        self,
        *words: str,
        stdin: bytes = b"",
        stdin_file: IO[bytes] | None = None,
        repository: Repository | None = OWN,
        extra: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Run `git *words*` and return what became of it, whatever its status.

        :param timeout: in seconds, for the few commands that only wait for an answer. GitPython's watchdog outlives a
            Ctrl-C, so a long one would keep a person waiting; a fetch has git's own bound on a stalled transfer.
        """
        command = self._command(words, repository, extra)
        with tempfile.TemporaryFile() as spool:
            if stdin_file is None:
                spool.write(stdin)
                spool.seek(0)
            status, out, err = self._git.execute(
                command,
                istream=stdin_file or spool,
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
                kill_after_timeout=timeout,
                umask=0o022,
            )
        return Answer(int(status), out, err)

    def converse(self, *words: str, extra: Mapping[str, str] | None = None) -> Any:
        """A git that stays and answers: GitPython's handle of a process with open standard input and output."""
        return self._git.execute(self._command(words, OWN, extra), istream=PIPE, as_process=True)

    def _command(
        self, words: Sequence[str], repository: Repository | None, extra: Mapping[str, str] | None
    ) -> list[str]:
        where = ["--git-dir", str(self.path)] if repository is OWN else repository.words if repository else []
        environment = {**_isolated_environment(), **(extra or {})}
        # GitPython starts from os.environ, where GIT_* of a caller's own repository may stand: `env -i` drops it.
        return [
            *process.dies_with_parent(),
            self._env,
            "-i",
            *(f"{name}={value}" for name, value in environment.items()),
            self._program,
            *where,
            *_FIXED_SETTINGS,
            *words,
        ]

    def require_recent_git(self) -> None:
        """:raises MissingTool: git is older than :data:`GIT_MINIMUM`."""
        text = self.run("version", repository=None).decode()
        found = re.search(r"(\d+)\.(\d+)", text)
        if not found or tuple(map(int, found.groups())) < GIT_MINIMUM:
            raise MissingTool(
                f"{text.strip()} is too old: {'.'.join(map(str, GIT_MINIMUM))} or newer is needed",
                next="install a newer git, for example from your distribution's backports",
            )


#: What a repository's own configuration or a future default could change, held fixed.
_FIXED_SETTINGS = tuple(
    word
    for setting in (
        # Conflict markers name the common base by a short id, and how short depends on how many objects the store has.
        "core.abbrev=40",
        "core.hooksPath=/dev/null",
        "core.autocrlf=false",
        "core.attributesFile=/dev/null",
        "core.excludesFile=/dev/null",
        "core.fsmonitor=false",
        "core.quotePath=true",
        "core.precomposeUnicode=false",
        "apply.whitespace=nowarn",
        "apply.ignoreWhitespace=no",
        "merge.conflictStyle=merge",
        "merge.renames=true",
        "merge.renameLimit=7000",
        "merge.directoryRenames=conflict",
        "diff.renames=true",
        "diff.algorithm=myers",
        "gc.auto=0",
        "maintenance.auto=false",
        "fetch.unpackLimit=1",
        "transfer.unpackLimit=1",
        "protocol.ext.allow=never",
        "http.lowSpeedLimit=1000",
        "http.lowSpeedTime=60",
        "advice.detachedHead=false",
    )
    for word in ("-c", setting)
)


def _isolated_environment() -> dict[str, str]:
    """What git may see: how to find programs, how to reach the network, and nothing that the user configured."""
    seen = ("PATH", "SSH_AUTH_SOCK", "TMPDIR", *process.NETWORK)
    kept = {name: value for name, value in os.environ.items() if name in seen}
    return {
        **kept,
        "HOME": os.devnull,
        "XDG_CONFIG_HOME": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=30",
        "LC_ALL": "C",
        "TZ": "UTC",
    }


def _find(program: str, package: str) -> str:
    found = shutil.which(program)
    if not found:
        raise MissingTool(f"{program} is not installed, or not on PATH", next=f"sudo apt install {package}")
    return found


def last_line(text: str) -> str:
    """The last line of *text* that is not blank, which is where git says what was wrong."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def without_password(url: str) -> str:
    """*url* with its user part hidden, for messages."""
    return re.sub(r"//[^/@]*@", "//***@", url)
