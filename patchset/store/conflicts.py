"""A merge that a person must end: a checkout with the three sides in its index, and what it holds when they are done."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from patchset.store.checkouts import Checkouts
from patchset.store.git import Repository
from patchset.store.trees import Entry


class Conflicts(Checkouts):
    """What a store does with conflicts that a person resolves."""

    def make_conflict(
        self,
        directory: Path,
        commit: str,
        merged: str,
        stages: Sequence[tuple[str, int, Entry]],
        files: Mapping[str, bytes],
    ) -> None:
        """Make the empty *directory* a checkout of *commit* in the middle of a merge.

        Paths that merged cleanly are staged as in the tree *merged*; those in *stages* have base, ours and theirs in the
        index, and *files* in the directory.
        """
        self.make_checkout(directory, commit)
        there = Repository(directory)
        tree = self.tree_of(commit)
        # One commit that reaches every object the index will name, so that one fetch brings them.
        sides = self.with_files(
            self.with_files(tree, {}),
            {f"side/{stage}/{number}": entry for number, (_, stage, entry) in enumerate(stages)},
        )
        self._bring(directory, merged, "merged")
        self._bring(directory, sides, "sides")
        conflicted = {path for path, _, _ in stages}
        records = []
        for path in self.changed_paths(tree, merged):
            if path not in conflicted:
                entry = self.entry(merged, path)
                records.append(_record(path, 0, entry))
        for path in sorted(conflicted):
            records.append(_record(path, 0, None))
        records += [_record(path, stage, entry) for path, stage, entry in stages]
        self.run("update-index", "-z", "--index-info", stdin=b"".join(records), repository=there)
        for path in self.changed_paths(tree, merged):
            if path not in conflicted:
                _put(directory, path, self.entry(merged, path), self.read(merged, path))
        modes = {path: entry.mode for path, _, entry in stages}
        for path, data in files.items():
            _put(directory, path, Entry(modes.get(path, "100644"), ""), data)

    def worktree_tree(self, directory: Path) -> str:
        """The tree that the checkout at *directory* holds now: what is tracked there, and new files that git sees.

        Its index is not touched. The attempt that :meth:`make_conflict` laid out comes back with it.
        """
        there = Repository(directory)
        with tempfile.TemporaryDirectory(prefix="index-", dir=self.path / "tmp") as folder:
            extra = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
            self.run("read-tree", "HEAD", repository=there, extra=extra)
            self.run("add", "--all", "--", ".", repository=there, extra=extra)
            tree = self.run("write-tree", repository=there, extra=extra).decode().strip()
        who = {f"GIT_{role}_{what}": "patchset" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        commit = self.run("commit-tree", tree, stdin=b"resolved\n", repository=there, extra=who).decode().strip()
        self.run("update-ref", "refs/patchset/resolved", commit, repository=there)
        self.run(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            str(directory),
            f"+refs/patchset/resolved:refs/resolved/{tree}",
            # the store may have been deleted and made again since
            f"+refs/patchset/merged:refs/attempts/{tree}",
        )
        return tree

    def tree_of(self, commit: str) -> str:
        """The tree of *commit*."""
        return self.run("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()

    def _bring(self, directory: Path, tree: str, name: str) -> None:
        from patchset.store.trees import EPOCH

        commit = self.commit(tree, (), name, EPOCH)
        self.keep(f"checkouts/{commit}", commit)
        self.run(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            str(self.path),
            f"refs/checkouts/{commit}:refs/patchset/{name}",
            repository=Repository(directory),
        )


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
