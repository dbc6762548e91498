"""One directory that holds one tree after the other, for tests that run in it."""

from __future__ import annotations

import os
import time
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
        self._index = directory.with_name(directory.name + ".index")
        self._extra = {"GIT_INDEX_FILE": str(self._index)}
        self._words = ("--work-tree", str(directory.resolve()))

    def hold(self, tree: str) -> Path:
        """Make the directory hold *tree* and nothing else, and return it.

        :raises StoreError: git could not.
        """
        first = not self._index.exists()
        self._store.run(*self._words, "read-tree", "--reset", "-u", tree, extra=self._extra)
        if first:
            self._age()
        # twice --force: a repository that a test made in there goes too
        self._store.run(*self._words, "clean", "--force", "--force", "-d", "-x", "--quiet", extra=self._extra)
        return self.directory

    def _age(self) -> None:
        """Date all files a minute back, in the index too.

        Files and index of one second could have been changed after it was written, so git would read every file at each
        of the next steps (`git help update-index`, "racy"). What a test changes gets today's time, and is seen.
        """
        past = time.time() - 60
        for folder, _, names in os.walk(self.directory):
            for name in names:
                os.utime(os.path.join(folder, name), (past, past), follow_symlinks=False)
        self._store.run(*self._words, "update-index", "-q", "--refresh", extra=self._extra)
