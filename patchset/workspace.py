"""The folders of one clone, the lock that lets one run at a time change them, and scratch space for a run."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchset.errors import Busy, MissingTool, PatchsetError, WorktreeError

VENDOR_VARIABLE = "PATCHSET_VENDOR"
#: Names, for what a run starts, the vendor/ that this run holds: a run in there would wait for one that waits for it.
HELD_VARIABLE = "PATCHSET_HELD"

#: What reading a kept result can raise when it was cut short or edited; then it is as good as not there.
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)

#: How files end that are still being written; a killed run leaves them.
_PART = ".part"
#: The names of :func:`write_atomically`, of a wheel's publication, and of a receipt.
_PART_NAME = re.compile(r"\..+[-.][a-z0-9_]{8}\.part|receipt-\d{8}T\d{6}Z(-\d+)?\.\d+\.part")
#: Stands in every folder that is used as ``vendor``.
_MARKER = ".patchset"
_OWN_NAMES = frozenset({".lock", "archives", "cache", "environments", "logs", "scratch", "store.git"})

#: Memory file system for throwaway trees: deleting 7,000 files costs 0.2 s there and can cost half a minute on disk.
_MEMORY = Path("/dev/shm")
#: A build needs about 250 MB of it, base and patched trees about 100 MB each.
_MEMORY_NEEDED = 2 * 1024**3
_DISK_NEEDED = 3 * 1024**3


@dataclass(frozen=True)
class Workspace:
    """Where everything of one clone lies. Everything below ``vendor`` but upstreams.toml, and ``dist``, can be deleted.

    ``shared`` is another clone's ``vendor``, for a copy of the declarations that is only tried.
    """

    root: Path
    shared: Path | None = None

    @property
    def recipes(self) -> Path:
        """Recipes and their locks."""
        return self.root / "recipes"

    @property
    def patches(self) -> Path:
        """The patches, a folder each."""
        return self.root / "recipes" / "patches"

    @property
    def upstreams(self) -> Path:
        """The known upstreams and releases."""
        return self.root / "vendor" / "upstreams.toml"

    @property
    def vendor(self) -> Path:
        """Everything that was fetched or can be made again; ``PATCHSET_VENDOR`` lets several clones share it."""
        return self.shared or Path(os.environ.get(VENDOR_VARIABLE) or self.root / "vendor").absolute()

    @property
    def store(self) -> Path:
        """The object store (a bare git repository)."""
        return self.vendor / "store.git"

    @property
    def archives(self) -> Path:
        """Downloaded source archives."""
        return self.vendor / "archives"

    @property
    def environments(self) -> Path:
        """Virtual environments: one to build, one to probe and smoke."""
        return self.vendor / "environments"

    @property
    def work(self) -> Path:
        """Checkouts for a person, who may have changed them: never deleted by this tool."""
        return self.root / "work"

    @property
    def state(self) -> Path:
        """What a task in several steps must remember between them, as JSON."""
        return self.work / "state"

    @property
    def journal(self) -> Path:
        """Where :mod:`patchset.changes` stages a change of several files."""
        return self.state / "changes"

    @property
    def cache(self) -> Path:
        """Results that are known by the hash of all that went into them."""
        return self.vendor / "cache"

    @property
    def logs(self) -> Path:
        """What builds and probes printed."""
        return self.vendor / "logs"

    @property
    def dist(self) -> Path:
        """What is delivered: a folder a runtime."""
        return self.root / "dist"

    def fault(self, error: Exception) -> PatchsetError:
        """A fault of this tool itself, with its traceback in a file beside the other logs."""
        log = self.logs / f"fault-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.log"
        text = "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")
        try:
            write_atomically(log, text)
        except (OSError, WorktreeError):
            log = Path("(no log could be written)")
        last = traceback.extract_tb(error.__traceback__)[-1]
        return PatchsetError(
            f"a fault of this tool: {type(error).__name__}: {error}",
            where=f"{last.filename}:{last.lineno}",
            next=f"report it with {log}",
        )

    @contextmanager
    def only_run(self, task: str, *, wait: bool, say: Callable[[str], None]) -> Iterator[None]:
        """Hold the clone for *task*; another run waits, or fails if it must not.

        The kernel drops the lock with the process, so a killed run blocks nobody. What such a run left in scratch is
        removed here, where no other run can be using it.

        :raises Busy: another run holds it and *wait* is False, or it is the one that started this one and waits for it.
        :raises WorktreeError: ``PATCHSET_VENDOR`` names a folder with things of somebody else.
        """
        self._take_vendor()
        with open(self.vendor / ".lock", "a+", encoding="utf-8", errors="backslashreplace") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                holder = file.read().strip() or "another run"
                if os.environ.get(HELD_VARIABLE) == self.held()[HELD_VARIABLE]:
                    raise Busy(
                        f"{holder} is at work in this clone, and waits for the end of the test that this runs in",
                        where=str(self.root),
                        next="let the test look at the tree that it is started in; what needs ./inv, in another clone",
                    ) from None
                if not wait:
                    raise Busy(
                        f"{holder} is at work in this clone",
                        where=str(self.root),
                        next="wait for it, or run again without --no-wait",
                    ) from None
                say(f"waiting for {holder}, which is at work in this clone")
                fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(f"inv {task} (pid {os.getpid()}, since {time.strftime('%H:%M:%S')})")
            file.flush()
            self._sweep()
            yield

    def held(self) -> dict[str, str]:
        """Environment variables for a program of the user's that is started, and waited for, in :meth:`only_run`."""
        return {HELD_VARIABLE: os.path.realpath(self.vendor)}

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty directory for this run, removed at its end; in memory where there is room.

        :raises MissingTool: there is room nowhere.
        """
        parent = self._scratch_parent()
        with tempfile.TemporaryDirectory(prefix="run-", dir=parent, ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        with suppress(OSError):  # not empty: another part of this run is at work there
            parent.rmdir()

    def _scratch_parent(self) -> Path:
        for parent, needed in ((self._memory(), _MEMORY_NEEDED), (self.vendor / "scratch", _DISK_NEEDED)):
            if parent is None:
                continue
            try:
                parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                # In a directory that everyone may write to, a name of ours can be somebody else's folder or link.
                owned = not parent.is_symlink() and parent.stat().st_uid == os.getuid()
                if owned and shutil.disk_usage(parent).free >= needed:
                    return parent
            except OSError:
                continue
        free = shutil.disk_usage(self.vendor).free
        raise MissingTool(
            f"too little room: {free // 1024**2} MB free, {_DISK_NEEDED // 1024**2} MB needed",
            where=str(self.vendor),
            next="free some room, or delete what can be made again: vendor/environments, vendor/cache",
        )

    def _memory(self) -> Path | None:
        key = hashlib.sha256(os.fsencode(self.vendor.resolve())).hexdigest()[:12]
        return _MEMORY / f"patchset-{os.getuid()}-{key}" if _MEMORY.is_dir() else None

    def _take_vendor(self) -> None:
        """Make ``vendor``, or see that it is one: what a killed run left there is deleted by its name."""
        make_folder(self.vendor)
        with suppress(FileNotFoundError), os.scandir(self.vendor) as entries:
            names = {entry.name for entry in entries}
            if not names & {_MARKER, "upstreams.toml"} and not names <= _OWN_NAMES:
                raise WorktreeError(
                    f"{VENDOR_VARIABLE} names a folder that holds other things ({', '.join(sorted(names - _OWN_NAMES)[:3])})",
                    where=str(self.vendor),
                    next="name a folder that is empty, or not there yet, or another clone's vendor/",
                )
        (self.vendor / _MARKER).touch()

    def _sweep(self) -> None:
        left = [parent for parent in (self._memory(), self.vendor / "scratch") if parent and not parent.is_symlink()]
        left += [*self.vendor.glob("store-*"), *self.vendor.glob("again-*")]
        left += [*(self.store / "tmp").glob("index-*"), *self.logs.glob("*.json")]
        # What git leaves when it is killed: packs half written, packs it was about to name, and its locks on files.
        left += (self.store / "objects").glob("pack/tmp_*")
        left += (self.store / "objects").glob("pack/*.keep")
        left += (self.store / "objects").glob("obj*")  # gitdb's, for an object half written
        left += self.store.glob("fast_import_crash_*")
        left += [*self.store.glob("*.lock"), *(self.store / "refs").rglob("*.lock")]
        left += (self.store / "refs" / "import").glob("*")
        left += self.cache.rglob(f"*{_PART}")
        for folder in (self.dist, self.recipes):
            # They are the user's too: only what has a name that nobody else gives.
            left += [path for path in folder.rglob(f"*{_PART}") if _PART_NAME.fullmatch(path.name)]
        for path in left:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):  # a folder without the right to write: what is left there harms nobody
                    path.unlink()


def make_folder(folder: Path) -> None:
    """Make *folder*, and those that it is to be in, where they are not there yet.

    :raises WorktreeError: something else has its name, or that of a folder above it.
    :raises OSError: no room or no right.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        places = [place for place in (folder, *folder.parents) if os.path.lexists(place) and not place.is_dir()]
        if not places:  # it came and went meanwhile
            raise
        kind = "a link that leads to no folder" if places[0].is_symlink() else "no folder"
        raise WorktreeError(
            f"{places[0].name} is {kind}, and a folder is needed there",
            where=str(places[0]),
            next=f"mv {places[0]} {places[0]}.aside, then run again",
        ) from error


def copy_folder(source: Path, target: Path) -> None:
    """The folder *source* at *target*, where all of it can be changed, whatever rights the original has."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, target, ignore=ignored, copy_function=shutil.copyfile)
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        folder.chmod(0o755)


def free_megabytes(place: Path) -> int:
    """The room where *place* is or would be."""
    there = next(folder for folder in (place, *place.parents) if folder.is_dir())
    return shutil.disk_usage(there).free // 1024**2


def read_json(file: Path, limit: int) -> Any:
    """The JSON value in *file*, which has *limit* bytes at most.

    :raises ValueError, OSError, RecursionError: it is larger, is no JSON, or cannot be read; all are among :data:`UNREADABLE`.
    """
    if file.stat().st_size > limit:
        raise ValueError(f"more than {limit} bytes")
    return json.loads(file.read_bytes())


def read_json_lines(file: Path, limit: int) -> list[Any]:
    """The JSON values in *file*, one a line, as :func:`read_json` reads one."""
    if file.stat().st_size > limit:
        raise ValueError(f"more than {limit} bytes")
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def write_atomically(path: Path, data: bytes) -> None:
    """Put *data* at *path* whole or not at all: written beside it, synced, renamed.

    :raises WorktreeError: something that is no folder is where its folder would be.
    :raises OSError: no room or no right; it names *path*, not the name that it has until it is whole.
    """
    make_folder(path.parent)
    try:
        _write_atomically(path, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def _write_atomically(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=_PART, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def digest(value: object) -> str:
    """sha256 of *value* as JSON: the key of a result that is known by all that went into it."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def sources_digest(folder: Path) -> str:
    """sha256 over every file below *folder* (compiled Python aside): names and bytes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return digest(
        [[path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()] for path in files]
    )
