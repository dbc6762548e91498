"""Trees in, trees out: reading, making, patching and merging them, with no worktree."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from patchset.errors import SourceError, StoreError, WorktreeError
from patchset.store.objects import Objects

#: Who made the commits. Fixed, so that two machines get the same commit ids.
_IDENTITY = "patchset"
_EMAIL = "patchset@localhost"

_DIRECTORY = "040000"

EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Entry:
    """One file of a tree: git mode (``100644``, ``100755`` or ``120000``) and blob id."""

    mode: str
    blob: str


@dataclass(frozen=True)
class Merged:
    """A three-way merge: the resulting tree, and the paths in conflict (then the tree holds conflict markers).

    ``stages`` are what an index would hold for those: (path, stage 1 to 3 for base, ours and theirs, entry).
    """

    tree: str
    conflicts: tuple[str, ...]
    messages: str
    stages: tuple[tuple[str, int, Entry], ...] = ()


class Trees(Objects):
    """What a store does with objects and trees."""

    def has_tree(self, tree: str) -> bool:
        """Is *tree* here with every object below it? (A run killed during an import leaves packs out, never parts.)"""
        if not self.has_object(tree):
            return False
        answer = self.attempt("rev-list", "--objects", "--missing=print", tree)
        return answer.status == 0 and b"\n?" not in b"\n" + answer.out

    def entries(self, tree: str) -> dict[str, Entry]:
        """Every file of *tree*: path → :class:`Entry`, sorted by path."""
        return dict(sorted((os.fsdecode(path), Entry(mode, oid)) for path, mode, oid in self._walk(tree, b"")))

    def entry(self, tree: str, path: str) -> Entry | None:
        """The file at *path* in *tree*, or None (also where *path* is a directory)."""
        mode, oid = self._at(tree, os.fsencode(path).split(b"/"))
        return Entry(mode, oid) if mode and mode != _DIRECTORY else None

    def is_free(self, tree: str, path: str) -> bool:
        """Could a file be made at *path*: nothing is there, and nothing above it is a file?"""
        parts = os.fsencode(path).split(b"/")
        above = (self._at(tree, parts[:depth])[0] for depth in range(1, len(parts)))
        return all(mode in ("", _DIRECTORY) for mode in above) and not self._at(tree, parts)[0]

    def blob(self, oid: str) -> bytes:
        """The bytes of a blob.

        :raises StoreError: it is not here.
        """
        return self.object(oid)[1]

    def read(self, tree: str, path: str) -> bytes | None:
        """The bytes of the file at *path* in *tree*, or None if there is none."""
        entry = self.entry(tree, path)
        return self.blob(entry.blob) if entry else None

    def write_blob(self, data: bytes) -> str:
        """Put *data* in the store and return its blob id."""
        return self.write_object("blob", data)

    def _at(self, tree: str, parts: Sequence[bytes]) -> tuple[str, str]:
        """(mode, id) of what lies at a path; ('', '') for nothing."""
        mode, oid = _DIRECTORY, tree
        for part in parts:
            if mode != _DIRECTORY:
                return "", ""
            mode, oid = self.tree_object(oid).get(part, ("", ""))
        return mode, oid

    def _walk(self, tree: str, prefix: bytes) -> Iterator[tuple[bytes, str, str]]:
        for name, (mode, oid) in self.tree_object(tree).items():
            if mode == _DIRECTORY:
                yield from self._walk(oid, prefix + name + b"/")
            else:
                yield prefix + name, mode, oid

    def changed_paths(self, old: str, new: str) -> tuple[str, ...]:
        """The paths that differ between two trees (renames as a removal and an addition), sorted."""
        return tuple(sorted(os.fsdecode(path) for path in self._differing(old, new, b"")))

    def _differing(self, old: str | None, new: str | None, prefix: bytes) -> Iterator[bytes]:
        before, after = (self.tree_object(tree) if tree else {} for tree in (old, new))
        for name in before.keys() | after.keys():
            sides = [level.get(name, ("", "")) for level in (before, after)]
            if sides[0] == sides[1]:
                continue
            if any(mode not in ("", _DIRECTORY) for mode, _ in sides):
                yield prefix + name
            if any(mode == _DIRECTORY for mode, _ in sides):
                inner = (oid if mode == _DIRECTORY else None for mode, oid in sides)
                yield from self._differing(*inner, prefix + name + b"/")

    def import_directory(self, root: Path) -> str:
        """Every file below *root* as a tree, and its id. Ignore rules and attributes of that directory do not count.

        Modes are 100755 where the owner may execute, else 100644; a link is stored as a link.

        :raises SourceError: a name git cannot hold, or a file that is neither a file nor a link.
        """
        reference = f"refs/import/{os.getpid()}-{id(root):x}"
        with tempfile.TemporaryFile() as stream:
            stream.write(f"feature done\ncommit {reference}\ncommitter x <x> 0 +0000\ndata 0\n".encode())
            for path in _files_below(root):
                _write_import_record(stream, root, path)
            stream.write(b"done\n")
            stream.seek(0)
            self.run("fast-import", "--quiet", "--date-format=raw", "--depth=0", stdin_file=stream)
        tree = self.tree_of(reference)
        # The pack stays; a commit of fixed content keeps the tree reachable under a name that says what it is.
        self.run("update-ref", f"refs/trees/{tree}", self.commit(tree, (), "import", EPOCH))
        self.run("update-ref", "-d", reference)
        return tree

    def export(self, tree: str, directory: Path) -> None:
        """Write *tree* to *directory*, which must be empty or missing; modes 644 and 755 whatever the umask.

        :raises WorktreeError: *directory* holds something.
        """
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise WorktreeError(f"{directory} is not empty", next="name a directory that is empty or not there yet")
        with self._index(tree) as index:
            self.run("--work-tree", str(directory.resolve()), "checkout-index", "--all", "--force", extra=index)

    def with_file(self, tree: str, path: str, entry: Entry) -> str:
        """*tree* with the file *path* set to *entry*."""
        return self.with_files(tree, {path: entry})

    def with_files(self, tree: str, changes: Mapping[str, Entry | None]) -> str:
        """*tree* with each path of *changes* set to an entry, or removed (None; it need not be there).

        As in git's index, a file replaces a directory of its name and the other way round; a directory left empty goes.
        """
        if not changes:
            return tree
        parts = {os.fsencode(path): entry for path, entry in changes.items()}
        return self._changed(tree, parts) or self.write_object("tree", b"")

    def _changed(self, tree: str | None, changes: Mapping[bytes, Entry | None]) -> str | None:
        level = dict(self.tree_object(tree)) if tree else {}
        below: dict[bytes, dict[bytes, Entry | None]] = {}
        # what goes before what comes, so that a file can take the place of a directory that goes
        for path, entry in sorted(changes.items(), key=lambda item: item[1] is not None):
            name, slash, rest = path.partition(b"/")
            if slash:
                below.setdefault(name, {})[rest] = entry
            elif entry:
                level[name] = (entry.mode, entry.blob)
            else:
                level.pop(name, None)
        for name, inner in below.items():
            mode, oid = level.get(name, ("", ""))
            made = self._changed(oid if mode == _DIRECTORY else None, inner)
            if made:
                level[name] = (_DIRECTORY, made)
            elif mode == _DIRECTORY:
                del level[name]
        return self.write_tree_object(level) if level else None

    def merge(self, base: str, ours: str, theirs: str) -> Merged:
        """Three-way merge of trees, with rename detection and no worktree (two commits on one synthetic parent).

        Conflicts stand in the tree's files with the common base between the sides (``diff3``).
        """
        parent = self.commit(base, (), "base", EPOCH)
        left = self.commit(ours, (parent,), "ours", EPOCH)
        right = self.commit(theirs, (parent,), "theirs", EPOCH)
        words = ("merge-tree", "--write-tree", "-z", "--messages", left, right)
        answer = self.attempt("-c", "merge.conflictStyle=diff3", *words)
        if answer.status not in (0, 1):
            raise StoreError(
                f"git merge-tree failed: {answer.err.strip()}", next="git --version; 2.38 or newer is needed"
            )
        head, _, rest = answer.out.partition(b"\0")
        listed, _, messages = rest.partition(b"\0\0") if answer.status else (b"", b"", rest)
        stages = tuple(_read_stage(record) for record in listed.split(b"\0") if record)
        conflicts = tuple(sorted({path for path, _, _ in stages}))
        text = messages.replace(b"\0", b" ").decode("utf-8", "replace")
        return Merged(head.decode().strip(), conflicts, text, stages)

    def commit(self, tree: str, parents: Sequence[str], message: str, date: datetime) -> str:
        """A commit with a fixed author and committer and the date given, so that its id depends on nothing else."""
        who = f"{_IDENTITY} <{_EMAIL}> {int(date.timestamp())} +0000"
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), f"author {who}", f"committer {who}"]
        return self.write_object("commit", "\n".join([*lines, "", message, ""]).encode())

    def tree_of(self, commit: str) -> str:
        """The id of the tree of *commit*, or of the commit that a reference of that name stands for.

        :raises StoreError: there is none.
        """
        return self.run("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()

    def tree_named(self, text: str) -> str | None:
        """The id of the tree that *text*, the first digits of an id of a tree or commit, names; None if there is none."""
        answer = self.attempt("rev-parse", "--verify", "--quiet", f"{text}^{{tree}}")
        return answer.out.decode("ascii").strip() if answer.status == 0 else None

    def keep(self, name: str, commit: str) -> None:
        """Keep *commit* and all it reaches under ``refs/<name>``."""
        self.run("update-ref", f"refs/{name}", commit)

    def kept(self, below: str) -> dict[str, str]:
        """Reference → tree of what :meth:`keep` kept under ``refs/<below>/``."""
        lines = self.run("for-each-ref", "--format=%(refname) %(tree)", f"refs/{below}/").decode().splitlines()
        return dict(line.rsplit(" ", 1) for line in lines)

    @contextmanager
    def _index(self, tree: str) -> Iterator[Mapping[str, str]]:
        scratch = self.path / "tmp"
        scratch.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="index-", dir=scratch) as folder:
            # update-index wants a work tree, and never looks at it for what is done here: an empty one.
            extra = {"GIT_INDEX_FILE": os.path.join(folder, "index"), "GIT_WORK_TREE": folder}
            self.run("read-tree", tree, extra=extra)
            yield extra


def _read_stage(record: bytes) -> tuple[str, int, Entry]:
    meta, path = record.split(b"\t", 1)
    mode, oid, stage = meta.decode("ascii").split(" ")
    return os.fsdecode(path), int(stage), Entry(mode, oid)


def _files_below(root: Path) -> Iterable[Path]:
    for folder, folders, names in os.walk(root):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = [name for name in folders if name not in links]
        for name in sorted(names + links):
            yield Path(folder, name)


def _write_import_record(stream: IO[bytes], root: Path, path: Path) -> None:
    relative = os.fsencode(path.relative_to(root))
    if b"\n" in relative or b".git" in [part.lower() for part in relative.split(b"/")]:
        raise SourceError(
            f"{os.fsdecode(relative)!r} is no name that a tree can hold",
            where=str(root),
            next="check where this archive or directory comes from",
        )
    if path.is_symlink():
        mode, data = b"120000", os.fsencode(os.readlink(path))
    elif path.is_file():
        mode, data = (b"100755" if os.stat(path).st_mode & 0o100 else b"100644"), path.read_bytes()
    else:
        raise SourceError(
            f"{os.fsdecode(relative)} is neither a file nor a link",
            where=str(root),
            next="check where this archive or directory comes from",
        )
    quoted = b'"' + relative.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    stream.write(b"M " + mode + b" inline " + quoted + b"\ndata %d\n" % len(data) + data + b"\n")
