"""The only package that runs git: trees in, trees out.

One bare repository under ``vendor/`` holds the trees of every pin. Nothing here needs a worktree, and nothing the user
has configured reaches git: each command starts from an empty environment (`env -i`), with system and global
configuration switched off, no hooks, and the repository's own ``info/attributes`` overruling whatever attributes a tree
carries. git's exit status is never taken as proof of a result; callers compare tree ids.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from patchset.errors import StoreError
from patchset.store.branches import Branches, Commit
from patchset.store.git import ATTRIBUTES
from patchset.store.remotes import Remotes
from patchset.store.trees import Entry, Merged

__all__ = ["Commit", "Entry", "Merged", "Store"]


class Store(Remotes, Branches):
    """A bare repository with the trees of all pins. Build it with :meth:`open`."""

    @classmethod
    def open(cls, path: Path) -> Store:
        """The store at *path*; made there first if it is missing.

        It is made beside *path* and renamed, so that a run killed here leaves no half repository.

        :raises MissingTool: no git, or one older than :data:`GIT_MINIMUM`.
        :raises StoreError: something is at *path* that is no repository.
        """
        path = path.resolve()
        store = cls(path)
        if not (path / "HEAD").is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            store.require_recent_git()
            fresh = Path(tempfile.mkdtemp(prefix="store-", dir=path.parent))
            try:
                store.run("init", "--quiet", "--bare", "--template=", str(fresh), repository=None)
                (fresh / "info").mkdir(exist_ok=True)
                (fresh / "info" / "attributes").write_text(ATTRIBUTES, encoding="ascii")
                (fresh / "tmp").mkdir()
                os.chmod(fresh, 0o755)
                os.rename(fresh, path)
            except OSError as error:
                if (path / "HEAD").is_file():  # another run was faster, and its store is as good
                    return store
                if os.path.lexists(path):
                    raise StoreError(
                        f"the object store cannot be made: {error.strerror or error}",
                        where=str(path),
                        next=f"mv {path} {path}.damaged, then run again: all that was in it is made again from the archives",
                    ) from error
                raise
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
        attributes = path / "info" / "attributes"
        if not attributes.is_file() or attributes.read_text("ascii", "replace") != ATTRIBUTES:
            attributes.parent.mkdir(exist_ok=True)
            attributes.write_text(ATTRIBUTES, encoding="ascii")  # edited or lost: without it, trees could change bytes
        return store
