"""A merge that a person must end: a checkout with the three sides in its index, and what it holds when they are done."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from patchset.store.checkouts import Checkouts
from patchset.store.git import FETCH, Repository
from patchset.store.trees import EPOCH, Entry


class Conflicts(Checkouts):
    """What a store does with conflicts that a person resolves."""

    def make_conflict(
        self,
        directory: Path,
        commit: str,
        merged: str,
        stages: Sequence[tuple[str, int, Entry]],
        written: str,
    ) -> None:
        """Make the empty *directory* a checkout of *commit* in the middle of a merge; its files are the tree *written*.

        Paths that merged cleanly are staged; those in *stages* have base, ours and theirs in the index. *merged* is the tree
        that the merge made: *written* differs from it at most in the paths of *stages*.
        """
        self.make_checkout(directory, commit)
        there = Repository(directory)
        tree = self.tree_of(commit)
        # One commit that reaches every object the index will name, so that one fetch brings them.
        sides = self.with_files(
            tree, {f"side/{stage}/{number}": entry for number, (_, stage, entry) in enumerate(stages)}
        )
        self._bring(directory, merged, "merged")
        self._bring(directory, sides, "sides")
        conflicted = {path for path, _, _ in stages}
        changed = self.changed_paths(tree, written)
        records = [_record(path, 0, self.entry(written, path)) for path in changed if path not in conflicted]
        records += [_record(path, 0, None) for path in sorted(conflicted)]
        records += [_record(path, stage, entry) for path, stage, entry in stages]
        self.run("update-index", "-z", "--index-info", stdin=b"".join(records), repository=there)
        for path in changed:
            _put(directory, path, self.entry(written, path), self.read(written, path))

    def worktree_tree(self, directory: Path) -> str:
        """The tree that the checkout at *directory* holds now: every file that git tracks or that was added there.

        Files count as they lie there, staged or not; its index is not touched. The attempt that :meth:`make_conflict`
        laid out comes back with it.
        """
        there = Repository(directory)
        # with a plain index of its own, no path can be hidden as "assume unchanged" or "skip worktree"
        known = self.run("diff-index", "--cached", "--no-renames", "--name-only", "-z", "HEAD", repository=there)
        with tempfile.TemporaryDirectory(prefix="index-", dir=self.path / "tmp") as folder:
            extra = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
            self.run("read-tree", "HEAD", repository=there, extra=extra)
            self.run("add", "--update", "--", ".", repository=there, extra=extra)
            words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
            self.run(*words, stdin=known, repository=there, extra=extra)
            tree = self.run("write-tree", repository=there, extra=extra).decode().strip()
        who = {f"GIT_{role}_{what}": "patchset" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        commit = self.run("commit-tree", tree, stdin=b"resolved\n", repository=there, extra=who).decode().strip()
        self.run("update-ref", "refs/patchset/resolved", commit, repository=there)
        self.run(
            *FETCH,
            str(directory),
            f"+refs/patchset/resolved:refs/resolved/{tree}",
            # the store may have been deleted and made again since
            f"+refs/patchset/merged:refs/attempts/{tree}",
        )
        return tree

    def unmerged(self, directory: Path) -> tuple[str, ...]:
        """The paths of the checkout at *directory* whose index still holds more than one side."""
        out = self.run("ls-files", "--unmerged", "-z", repository=Repository(directory))
        return tuple(sorted({os.fsdecode(record.split(b"\t", 1)[1]) for record in out.split(b"\0") if record}))

    def not_added(self, directory: Path, *, ignored: bool = False) -> tuple[str, ...]:
        """Files of the checkout at *directory* that git does not track: those it would show, or those it ignores."""
        words = ("ls-files", "--others", *(["--ignored"] if ignored else []), "--exclude-standard", "-z")
        out = self.run(*words, repository=Repository(directory))
        return tuple(os.fsdecode(path) for path in out.split(b"\0") if path)

    def only_there(self, directory: Path) -> tuple[str, ...]:
        """The trees of branches, tags and stashes of the checkout at *directory* whose commits this store does not have."""
        words = ("for-each-ref", "--format=%(objectname) %(tree)%(*tree)")
        there = Repository(directory)
        lines = self.run(*words, repository=there).decode("ascii").splitlines()
        lines.append(self.run("log", "-1", "--format=%H %T", "HEAD", repository=there).decode("ascii").strip())
        pairs = [line.partition(" ") for line in lines]
        return tuple(sorted({tree for commit, _, tree in pairs if not self.has_object(commit)}))

    def _bring(self, directory: Path, tree: str, name: str) -> None:
        commit = self.commit(tree, (), name, EPOCH)
        self.keep(f"checkouts/{commit}", commit)
        brought = f"refs/checkouts/{commit}:refs/patchset/{name}"
        self.run(*FETCH, str(self.path), brought, repository=Repository(directory))


def _record(path: str, stage: int, entry: Entry | None) -> bytes:
    mode, oid = (entry.mode, entry.blob) if entry else ("0", "0" * 40)
    return f"{mode} {oid} {stage}\t".encode() + os.fsencode(path) + b"\0"


def _put(directory: Path, path: str, entry: Entry | None, data: bytes | None) -> None:
    """The file *path* below *directory*, which is this tool's own; no link of it is followed out of it."""
    target = directory / path
    if target.is_symlink() or target.exists():
        target.unlink()
    if entry is None or data is None:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if entry.mode == "120000":
        os.symlink(os.fsdecode(data), target)
        return
    target.write_bytes(data)
    os.chmod(target, 0o755 if entry.mode == "100755" else 0o644)
