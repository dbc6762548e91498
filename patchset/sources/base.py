"""A pin becomes a base tree: by archive or by checkout, whichever is here already, and the same tree either way."""

from __future__ import annotations

import configparser
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from patchset.errors import DeclarationError, LockError, SourceError, StoreError
from patchset.sources import archive as archives
from patchset.sources import checkout, index
from patchset.sources.extract import extract
from patchset.sources.redact import hide

if TYPE_CHECKING:
    from patchset.store import Store

#: Where the store remembers which tree an archive gave: ``refs/archives/<rules>/<sha256>``. The number goes up when
#: :func:`drop_generated` changes, so that no tree of other rules is taken for today's.
ARCHIVES = "archives/1"

#: How long ``auto`` waits for a git host before it takes the archive.
SECONDS_TO_ANSWER = 10.0


@dataclass(frozen=True)
class Pin:
    """What is asked for. Everything after ``source`` is known or None.

    ``tree`` is what the lock says; the result must be that, or there is none.
    """

    distribution: str
    release: str
    source: str = "auto"
    filename: str | None = None
    sha256: str | None = None
    size: int | None = None
    url: str | None = None
    ref: str | None = None
    commit: str | None = None
    tree: str | None = None


@dataclass(frozen=True)
class ArchiveRecord:
    """Which archive a base came from. ``size`` is None only where it came from the store and the lock has no size."""

    filename: str
    sha256: str
    size: int | None


@dataclass(frozen=True)
class BaseTree:
    """A base in the store: its tree id, where it came from, and (``note``) what a person should know about that."""

    tree: str
    source: str
    archive: ArchiveRecord | None
    commit: str | None
    url: str | None
    note: str


def base_from_archive(
    store: Store,
    pin: Pin,
    *,
    cache: Path,
    scratch: Path,
    settings: index.PipSettings | None = None,
    progress: archives.Progress | None = None,
) -> BaseTree:
    """The base tree of the release's source archive, without what packaging added to it.

    :param cache: where archives are kept.
    :param scratch: an existing directory for the unpacked files, best on a memory file system; they are removed.
    :raises SourceError: the archive cannot be had as pinned, or is not safe to unpack.
    """
    found: index.Found | None = None

    def locate() -> index.Found:
        nonlocal found
        found = found or index.find_archive(pin.distribution, pin.release, sha256=pin.sha256, settings=settings)
        return found

    filename = pin.filename or (default_filename(pin) if pin.sha256 else locate().filename)
    had = archives.fetch(filename, pin.sha256, cache=cache, locate=locate, settings=settings, progress=progress)
    with tempfile.TemporaryDirectory(prefix="extract-", dir=scratch) as folder:
        root = extract(had.path, Path(folder))
        drop_generated(root)
        tree = store.import_directory(root)
    store.keep(f"{ARCHIVES}/{had.sha256}", store.commit(tree, (), "base", datetime.fromtimestamp(0, timezone.utc)))
    return BaseTree(tree, "archive", ArchiveRecord(had.filename, had.sha256, had.size), None, None, had.note)


def base_from_checkout(store: Store, url: str, ref: str | None, commit: str | None = None) -> BaseTree:
    """The tree of one commit of a git repository. Without *commit*, what *ref* names now is resolved and returned.

    :raises DeclarationError: URL, ref or commit are not what they must be.
    :raises SourceError: git cannot bring it.
    """
    had = checkout.check_out(store, url, ref, commit)
    return BaseTree(had.tree, "checkout", None, had.commit, had.url, "")


def resolve(
    pin: Pin,
    store: Store,
    *,
    cache: Path,
    scratch: Path,
    settings: index.PipSettings | None = None,
    progress: archives.Progress | None = None,
) -> BaseTree:
    """The base tree of *pin*, fetching as little as possible: nothing where the locked tree is in the store.

    ``auto`` takes what is here (tree, archive, commit, in this order); else the checkout if the git host answers within
    :data:`SECONDS_TO_ANSWER`; else the archive, and says so in ``note``.

    :raises DeclarationError: the pin contradicts itself.
    :raises SourceError: it cannot be had.
    :raises LockError: what was had is not the tree of the lock.
    """
    if pin.source not in ("auto", "archive", "checkout"):
        raise DeclarationError(f"source = {pin.source!r}", next='write "auto", "archive" or "checkout"')
    if pin.source == "checkout" and not pin.url:
        raise DeclarationError(
            f"{pin.distribution} has no git URL to check out from", next="add one to vendor/upstreams.toml"
        )
    ready = _from_store(pin, store)
    if ready:
        return ready

    def from_archive(note: str = "") -> BaseTree:
        base = base_from_archive(store, pin, cache=cache, scratch=scratch, settings=settings, progress=progress)
        return replace(base, note="; ".join(part for part in (note, base.note) if part))

    if pin.source == "checkout":
        base = base_from_checkout(store, str(pin.url), pin.ref, pin.commit)
    elif pin.source == "archive" or not pin.url:
        base = from_archive()
    elif pin.sha256 and (cache / (pin.filename or default_filename(pin))).is_file():
        base = from_archive("auto: the archive is here")
    else:
        try:
            base = _from_host_that_answers(pin, store)
        except (SourceError, StoreError) as error:
            base = _archive_instead(error, from_archive)
    if pin.tree and base.tree != pin.tree:
        raise LockError(
            f"the {base.source} of {pin.distribution} {pin.release} gives the base tree {base.tree}; "
            f"the lock says {pin.tree}",
            where=base.url or (base.archive.filename if base.archive else ""),
            next="find out what moved (a tag, a re-uploaded file), then lock again on purpose",
        )
    return base


def default_filename(pin: Pin) -> str:
    """The file name that PEP 625 gives a source archive."""
    return f"{re.sub(r'[-_.]+', '_', pin.distribution).lower()}-{pin.release}.tar.gz"


def drop_generated(root: Path) -> tuple[str, ...]:
    """Remove from *root* what building the archive put there and no git tree has; return the names.

    By content, not by name alone: an upstream may well track a ``setup.cfg`` or a ``_version.py`` of its own.
    """
    doomed = [path for path in [root / "PKG-INFO", *root.glob("*.egg-info")] if path.exists()]
    doomed += [path for path in [root / "setup.cfg"] if path.is_file() and _is_generated_setup_cfg(path)]
    doomed += [path for path in root.glob("*/_version.py") if path.is_file() and _is_generated_version(path)]
    for path in doomed:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return tuple(sorted(path.relative_to(root).as_posix() for path in doomed))


def _is_generated_setup_cfg(path: Path) -> bool:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (configparser.Error, UnicodeError):
        return False
    return parser.sections() == ["egg_info"] and set(parser.options("egg_info")) <= {"tag_build", "tag_date"}


def _is_generated_version(path: Path) -> bool:
    with open(path, "rb") as stream:
        head = stream.read(200)
    return b"file generated by" in head and b"don't track in version control" in head


def known_archives(store: Store) -> dict[str, str]:
    """sha256 of each archive that was imported → the tree it gave."""
    return {name.rpartition("/")[2]: tree for name, tree in store.kept(ARCHIVES).items()}


def _from_store(pin: Pin, store: Store) -> BaseTree | None:
    if not pin.tree and pin.source == "archive" and pin.sha256:
        pin = replace(pin, tree=known_archives(store).get(pin.sha256))
        why = "the store has what this archive gave"
    else:
        why = "the base tree of the lock is in the store"
    if not pin.tree or not store.has_tree(pin.tree):
        return None
    if pin.sha256 and pin.source != "checkout":
        record = ArchiveRecord(pin.filename or default_filename(pin), pin.sha256, pin.size)
        return BaseTree(pin.tree, "archive", record, None, None, why)
    if pin.commit and pin.source != "archive":
        url = hide(pin.url) if pin.url else None
        return BaseTree(pin.tree, "checkout", None, pin.commit, url, why)
    return None


def _from_host_that_answers(pin: Pin, store: Store) -> BaseTree:
    url = checkout.check_git_url(str(pin.url))
    if not (pin.commit and checkout.commit_here(store, pin.commit)):
        # By ref even where the commit is known: a commit id needs no asking, and this is to see whether it answers.
        store.resolve_remote(url, checkout.check_ref(pin.ref or "HEAD"), timeout=SECONDS_TO_ANSWER)
    base = base_from_checkout(store, url, pin.ref, pin.commit)
    if pin.tree and base.tree != pin.tree and pin.sha256:
        raise SourceError(
            f"the checkout of {base.commit} gives the tree {base.tree}, not the locked one",
            where=base.url or "",
            next="find out whether the tag moved",
        )
    return base


def _archive_instead(error: SourceError | StoreError, from_archive: Callable[[str], BaseTree]) -> BaseTree:
    why = f"{hide(error.what)} ({hide(error.where)})" if error.where else hide(error.what)
    try:
        return from_archive(f"auto: took the archive, since {why}")
    except SourceError as second:
        raise SourceError(
            f"neither git nor the package index gives it: {why}; {second.what}",
            where=second.where,
            next=second.next,
            detail=second.detail,
        ) from second
