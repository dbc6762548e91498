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

from patchset.store.checkouts import Checkouts
from patchset.store.git import ATTRIBUTES
from patchset.store.remotes import Remotes
from patchset.store.trees import Entry, Merged

__all__ = ["Entry", "Merged", "Store"]


class Store(Remotes, Checkouts):
    """A bare repository with the trees of all pins. Build it with :meth:`open`."""

    @classmethod
    def open(cls, path: Path) -> Store:
        """The store at *path*; made there first if it is missing.

        It is made beside *path* and renamed, so that a run killed here leaves no half repository.

        :raises MissingTool: no git, or one older than :data:`GIT_MINIMUM`.
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
            except OSError:
                if not (path / "HEAD").is_file():  # else: another run was faster, and its store is as good
                    raise
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
        return store
