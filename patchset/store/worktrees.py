"""One directory that holds one tree after the other, for tests that run in it."""

from __future__ import annotations

from pathlib import Path

from patchset.store.trees import Trees


class Worktree:
    """A directory that can be made to hold any tree of *store*; only what differs is written.

    Whatever was left there or changed in between is undone: git compares each file with what it wrote, and removes the rest.
    """

    def __init__(self, store: Trees, directory: Path) -> None:
        self._store = store
        self.directory = directory
        directory.mkdir(parents=True)
        # Beside the directory, not in it: a test that looks at its directory sees the tree and nothing of ours.
        index = directory.with_name(directory.name + ".index")
        self._extra = {"GIT_INDEX_FILE": str(index)}
        self._words = ("--work-tree", str(directory.resolve()))

    def hold(self, tree: str) -> Path:
        """Make the directory hold *tree* and nothing else, and return it.

        :raises StoreError: git could not.
        """
        self._store.run(*self._words, "read-tree", "--reset", "-u", tree, extra=self._extra)
        # twice --force: a repository that a test made in there goes too
        self._store.run(*self._words, "clean", "--force", "--force", "-d", "-x", "--quiet", extra=self._extra)
        return self.directory
