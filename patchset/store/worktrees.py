"""One directory that holds one tree after the other, for tests that run in it."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from patchset.errors import StoreError, WorktreeError
from patchset.store.trees import Trees


class Worktree:
    """A directory that can be made to hold any tree of *store*; only what differs is written.

    Whatever was left there or changed in between is undone: git compares each file with what it wrote, and removes the rest.
    """

    def __init__(self, store: Trees, directory: Path) -> None:
        self._store = store
        self.directory = directory
        directory.mkdir(parents=True)
        made = os.lstat(directory)
        self._made = (made.st_dev, made.st_ino)
        # Beside the directory, not in it: a test that looks at its directory sees the tree and nothing of ours.
        self._index = directory.with_name(directory.name + ".index")
        self._extra = {"GIT_INDEX_FILE": str(self._index)}
        self._words = ("--work-tree", str(directory.resolve()))

    def hold(self, tree: str) -> Path:
        """Make the directory hold *tree* and nothing else, and return it.

        :raises WorktreeError: git could not, or something else is where the directory was.
        """
        here = os.lstat(self.directory) if os.path.lexists(self.directory) else None
        if here is None or (here.st_dev, here.st_ino) != self._made:
            raise WorktreeError(
                "the test's worktree is gone: it was removed, or something else was put in its place",
                where=str(self.directory),
                next="mend the test, which may do what it likes in its directory, and not with it",
            )
        first = not self._index.exists()
        try:
            self._store.run(*self._words, "read-tree", "--reset", "-u", tree, extra=self._extra)
            self._remove_repositories()
            # twice --force: a repository that a test made in there goes too
            self._store.run(*self._words, "clean", "--force", "--force", "-d", "-x", "--quiet", extra=self._extra)
        except (StoreError, OSError) as error:
            raise WorktreeError(
                f"the test's worktree cannot be made to hold another tree: {getattr(error, 'what', error)}",
                where=str(self.directory),
                next="if the test took rights away in there or mounted something, mend the test; else make room on the disk",
            ) from error
        if first:
            self._age()
        return self.directory

    def _remove_repositories(self) -> None:
        """Remove what is called .git: no tree holds that, and `git clean` passes by one beside files of the tree."""
        for folder, below, names in os.walk(self.directory):
            for name in [name for name in (*below, *names) if name == ".git"]:
                path = Path(folder, name)
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            below[:] = [name for name in below if name != ".git"]

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
