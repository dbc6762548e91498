"""Virtual environments of ours: filled from a hash-checked lock, made when first asked for, and used again."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, canonicalize_version

from patchset import process
from patchset.errors import MissingTool, SourceError

_MARKER = "complete.json"
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+==[^\s;\\]+(?: *;[^\\\n]*)?)", re.MULTILINE)
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)

#: Runs pip in a new environment: words after `pip install` → did it work. Logs go where the environment's log is.
Pip = Callable[[Sequence[str]], bool]


def locked_pins(lock: Path) -> dict[str, str]:
    """Canonical name → version of everything in *lock*."""
    return {canonicalize_name(name): version for name, version in _PIN.findall(lock.read_text("utf-8"))}


def lock_hash(lock: Path) -> str:
    """sha256 of a lock: what identifies an environment, whatever machine it is on."""
    return hashlib.sha256(lock.read_bytes()).hexdigest()


def ensure(
    envs: Path,
    purpose: str,
    lock: Path,
    *,
    before: Callable[[Pip], None] | None = None,
    rule: str = "",
    say: Callable[[str], None] = lambda text: None,
) -> Path:
    """The interpreter of the environment for *lock* and this Python; the environment is made if it is not there.

    Scripts in it carry its absolute path, so it is made in place. A marker written last says that it is complete and
    where it was made; without a fitting one (a run that was killed, a folder that was copied) it is made anew. A complete one
    that may be somebody else's is left as it is: see :func:`_place`.

    :param purpose: the first part of its folder's name.
    :param before: installs what the lock cannot name, before the lock; *rule* is a text that identifies it.
    :raises MissingTool: this Python cannot make a virtual environment.
    :raises SourceError: pip could not install the lock; its log is kept and named.
    """
    key = hashlib.sha256((lock_hash(lock) + rule).encode()).hexdigest()[:12]
    name = f"{purpose}-{key}-py{sys.version_info.major}.{sys.version_info.minor}"
    wanted = (envs / name).resolve()
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(wanted.with_name(f"{wanted.name}.lock")):
        env = _place(wanted)
        if not is_complete(env, lock, rule):
            why = (
                f", beside {wanted}, which is another's: delete that if nothing uses it"
                if env == _beside(wanted)
                else ""
            )
            say(f"making the {purpose} environment (once){why}")
            env.parent.mkdir(exist_ok=True)
            _make(env, lock, env.with_name(f"{env.name}.log"), before)
            (env / _MARKER).write_text(json.dumps(_identity(env, lock, rule), indent=1) + "\n", encoding="utf-8")
    return env / "bin" / "python"


def _place(wanted: Path) -> Path:
    """Where the environment that belongs at *wanted* is, or is to be made: there, unless a whole one is there that may be in use.

    One that was made under another name of the same folder (a mount) is used under that name. One whose own place cannot be
    seen from here was moved, or is used under that name by others (a mount in a container, another machine), and one of
    another Python that is still there may be used by another clone: then ours goes into a folder of its own beside it.
    """
    marker = _marker(wanted)
    if marker is None:
        return wanted
    made, base = Path(marker["environment"]), marker["base"]
    if made != wanted and not _is_same(made, wanted):
        there = _marker(made)
        is_copy = there is not None and there["environment"] == str(made)  # then nobody uses it
        return wanted if is_copy else _beside(wanted)
    return _beside(wanted) if base != sys.base_prefix and os.path.exists(base) else made


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _beside(wanted: Path) -> Path:
    """A place for an environment of the same name, which nobody else has, whoever else shares the folder."""
    whose = hashlib.sha256(f"{wanted}\n{sys.base_prefix}".encode()).hexdigest()[:12]
    return wanted.with_name(f"at-{whose}") / wanted.name


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def is_complete(env: Path, lock: Path, rule: str = "") -> bool:
    """Was *env* filled to its end from *lock*, at this place, for this very Python, which is still there?"""
    return _marker(env) == _identity(env, lock, rule) and (env / "bin" / "python").exists()


def _marker(env: Path) -> dict[str, str] | None:
    """What the marker of *env* says; None where there is none that can be read."""
    try:
        marker = json.loads((env / _MARKER).read_bytes())
    except (OSError, ValueError):
        return None
    is_one = isinstance(marker, dict) and all(isinstance(marker.get(key), str) for key in ("environment", "base"))
    return marker if is_one else None


def _identity(env: Path, lock: Path, rule: str) -> dict[str, str]:
    return {
        "environment": str(env),
        "lock": lock_hash(lock),
        "rule": rule,
        "base": sys.base_prefix,
        "python": sys.version,
    }


def missing(env: Path, lock: Path) -> list[str]:
    """What *lock* names for this Python and machine, and *env* does not hold: an exit status proves nothing."""
    held = set()
    for path in env.glob("lib/*/site-packages/*.dist-info"):
        name, _, version = path.name.removesuffix(".dist-info").rpartition("-")
        held.add((canonicalize_name(name), canonicalize_version(version)))
    missing = []
    for text in _REQUIREMENT.findall(lock.read_text("utf-8")):
        requirement = Requirement(text)
        pin = (canonicalize_name(requirement.name), canonicalize_version(str(requirement.specifier).removeprefix("==")))
        if (not requirement.marker or requirement.marker.evaluate()) and pin not in held:
            missing.append(text.split(";")[0].strip())
    return missing


def _make(env: Path, lock: Path, log: Path, before: Callable[[Pip], None] | None) -> None:
    if env.exists():
        shutil.rmtree(env)
    environment = process.clean_environment({"PIP_DRY_RUN": "0", "PIP_REQUIRE_VIRTUALENV": "0"}, pip=True)

    def pip(words: Sequence[str]) -> bool:
        command = [
            env / "bin" / "python",
            "-I",
            "-m",
            "pip",
            "--no-input",
            "--disable-pip-version-check",
            "install",
            # A pip configuration may say where files come from; where they go is said here.
            "--no-user",
            "--target=",
            f"--prefix={env}",
            "--root=/",
            "--no-compile",
            "--only-binary",
            ":all:",
            *words,
        ]
        return process.run(command, cwd=env.parent, env=environment, timeout=3600, log=log).returncode == 0

    try:
        made = process.run(
            [sys.executable, "-I", "-m", "venv", env], cwd=env.parent, env=environment, timeout=300, log=log
        )
        if made.returncode:
            raise MissingTool(
                "Python could not make a virtual environment",
                where=str(log),
                detail=made.tail(),
                next="sudo apt install python3-venv",
            )
        if before:
            before(pip)
        # Wheels only: a source distribution would run code that no hash of the lock covers (its own build requirements).
        if not pip(["--require-hashes", "--no-deps", "-r", str(lock)]):
            raise SourceError(
                "an environment could not be filled from its lock",
                where=str(log),
                detail="\n".join(log.read_text("utf-8", "replace").splitlines()[-15:]),
                next="see the log: without network, or with a wrong index in pip's configuration, mend that and run again",
            )
        absent = missing(env, lock)
        if absent:
            raise SourceError(
                f"pip said that it installed its lock, and {', '.join(absent[:3])} is not there",
                where=str(log),
                next="look for options in pip's configuration that change where or whether it installs: pip config list",
            )
    except BaseException:
        shutil.rmtree(env, ignore_errors=True)
        raise
    log.unlink(missing_ok=True)
