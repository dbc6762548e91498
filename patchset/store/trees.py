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
from patchset.store.git import GitRepository

#: Who made the commits. Fixed, so that two machines get the same commit ids.
_IDENTITY = "patchset"
_EMAIL = "patchset@localhost"

EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Entry:
    """One file of a tree: git mode (``100644``, ``100755`` or ``120000``) and blob id."""

    mode: str
    blob: str


@dataclass(frozen=True)
class Merged:
    """A three-way merge: the resulting tree, and the paths in conflict (then the tree holds conflict markers)."""

    tree: str
    conflicts: tuple[str, ...]
    messages: str


class Trees(GitRepository):
    """What a store does with objects and trees."""

    def has_object(self, oid: str) -> bool:
        """Is *oid* in the store, with nothing fetched to find out?"""
        return self.attempt("cat-file", "-e", oid, extra={"GIT_NO_LAZY_FETCH": "1"}).status == 0

    def has_tree(self, tree: str) -> bool:
        """Is *tree* here with every object below it? (A run killed during an import leaves packs out, never parts.)"""
        if not self.has_object(tree):
            return False
        answer = self.attempt("rev-list", "--objects", "--missing=print", tree)
        return answer.status == 0 and b"\n?" not in b"\n" + answer.out

    def entries(self, tree: str) -> dict[str, Entry]:
        """Every file of *tree*: path → :class:`Entry`."""
        found = {}
        for record in self.run("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0"):
            if record:
                meta, name = record.split(b"\t", 1)
                mode, _kind, blob = meta.decode("ascii").split(" ")
                found[os.fsdecode(name)] = Entry(mode, blob)
        return found

    def entry(self, tree: str, path: str) -> Entry | None:
        """The file at *path* in *tree*, or None."""
        out = self.run("--literal-pathspecs", "ls-tree", "-z", "--full-tree", tree, "--", path)
        if not out:
            return None
        mode, kind, blob = out.split(b"\t", 1)[0].decode("ascii").split(" ")
        return Entry(mode, blob) if kind == "blob" else None

    def blob(self, oid: str) -> bytes:
        """The bytes of a blob.

        :raises StoreError: it is not here.
        """
        return self.run("cat-file", "blob", oid)

    def read(self, tree: str, path: str) -> bytes | None:
        """The bytes of the file at *path* in *tree*, or None if there is none."""
        entry = self.entry(tree, path)
        return self.blob(entry.blob) if entry else None

    def write_blob(self, data: bytes) -> str:
        """Put *data* in the store and return its blob id."""
        return self.run("hash-object", "-w", "--no-filters", "--stdin", stdin=data).decode().strip()

    def changed_paths(self, old: str, new: str) -> tuple[str, ...]:
        """The paths that differ between two trees (renames as a removal and an addition), sorted."""
        out = self.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new)
        return tuple(sorted(os.fsdecode(name) for name in out.split(b"\0") if name))

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
        tree = self.run("rev-parse", "--verify", reference + "^{tree}").decode().strip()
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
        with self._index(tree) as index:
            record = f"{entry.mode} {entry.blob}\t".encode() + os.fsencode(path) + b"\0"
            self.run("update-index", "-z", "--index-info", stdin=record, extra=index)
            return self.run("write-tree", extra=index).decode().strip()

    def apply(self, tree: str, diff: bytes, *, reverse: bool = False) -> tuple[str | None, str]:
        """*diff* on *tree*: (the new tree id, '') or (None, what git said). No fuzz, no whitespace leniency.

        *reverse* tells whether the change could be taken out again, that is, whether it is there already.

        git's status 0 is not believed when nothing changed: then the tree id equals *tree*, and the caller sees it.
        """
        with self._index(tree) as index:
            answer = self.attempt(
                "apply",
                "--cached",
                "--whitespace=nowarn",
                "-p1",
                *(["--reverse"] if reverse else []),
                "-",
                stdin=diff,
                extra=index,
            )
            if answer.status != 0:
                return None, answer.err
            return self.run("write-tree", extra=index).decode().strip(), ""

    def numstat(self, diff: bytes) -> list[tuple[str, str, str]]:
        """git's own reading of *diff*: (added, removed, path) a file, ``-`` for binary. For cross-checking a reader.

        :raises StoreError: git cannot read it.
        """
        out = self.run("apply", "--numstat", "-z", "-p1", "-", stdin=diff)
        rows = []
        for record in out.split(b"\0"):
            if record:
                added, removed, path = record.split(b"\t", 2)
                rows.append((added.decode(), removed.decode(), os.fsdecode(path)))
        return rows

    def merge(self, base: str, ours: str, theirs: str) -> Merged:
        """Three-way merge of trees, with rename detection and no worktree (two commits on one synthetic parent)."""
        parent = self.commit(base, (), "base", EPOCH)
        left = self.commit(ours, (parent,), "ours", EPOCH)
        right = self.commit(theirs, (parent,), "theirs", EPOCH)
        answer = self.attempt("merge-tree", "--write-tree", "-z", "--name-only", "--messages", left, right)
        if answer.status not in (0, 1):
            raise StoreError(
                f"git merge-tree failed: {answer.err.strip()}", next="git --version; 2.38 or newer is needed"
            )
        head, _, rest = answer.out.partition(b"\0")
        names, _, messages = rest.partition(b"\0\0")
        conflicts = tuple(sorted({os.fsdecode(name) for name in names.split(b"\0") if name})) if answer.status else ()
        return Merged(head.decode().strip(), conflicts, messages.replace(b"\0", b" ").decode("utf-8", "replace"))

    def commit(self, tree: str, parents: Sequence[str], message: str, date: datetime) -> str:
        """A commit with a fixed author and committer and the date given, so that its id depends on nothing else."""
        stamp = f"{int(date.timestamp())} +0000"
        who = {
            "GIT_AUTHOR_NAME": _IDENTITY,
            "GIT_AUTHOR_EMAIL": _EMAIL,
            "GIT_AUTHOR_DATE": stamp,
            "GIT_COMMITTER_NAME": _IDENTITY,
            "GIT_COMMITTER_EMAIL": _EMAIL,
            "GIT_COMMITTER_DATE": stamp,
        }
        flags = [word for parent in parents for word in ("-p", parent)]
        return self.run("commit-tree", tree, *flags, stdin=message.encode() + b"\n", extra=who).decode().strip()

    def keep(self, name: str, commit: str) -> None:
        """Keep *commit* and all it reaches under ``refs/<name>``."""
        self.run("update-ref", f"refs/{name}", commit)

    @contextmanager
    def _index(self, tree: str) -> Iterator[Mapping[str, str]]:
        scratch = self.path / "tmp"
        scratch.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="index-", dir=scratch) as folder:
            # update-index wants a work tree, and never looks at it for what is done here: an empty one.
            extra = {"GIT_INDEX_FILE": os.path.join(folder, "index"), "GIT_WORK_TREE": folder}
            self.run("read-tree", tree, extra=extra)
            yield extra


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
