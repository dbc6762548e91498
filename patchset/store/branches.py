"""A branch that a person worked on: its commits, brought into the store to be read there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patchset.errors import StoreError
from patchset.store.commits import read_commit_object
from patchset.store.conflicts import Conflicts
from patchset.store.git import FETCH, Repository


@dataclass(frozen=True)
class Commit:
    """One commit: its id, tree and parents' ids, and its message as text."""

    id: str
    tree: str
    parents: tuple[str, ...]
    message: str

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.partition("\n")[0]


class Branches(Conflicts):
    """What a store does with branches of checkouts."""

    def bring_head(self, directory: Path, revision: str = "HEAD") -> str:
        """The commit that *revision* names in the repository at *directory*, with all it reaches, and its id.

        :raises StoreError: it is no repository, or the revision is not there.
        """
        there = Repository(directory)
        commit = self.run("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}", repository=there)
        oid = commit.decode().strip()
        if not self.has_object(oid):
            self.run("update-ref", f"refs/patchset/exported/{oid}", oid, repository=there)
            self.run(*FETCH, str(directory), f"refs/patchset/exported/{oid}:refs/exported/{oid}")
            self.run("update-ref", "-d", f"refs/patchset/exported/{oid}", repository=there)
        return oid

    def commit_at(self, oid: str) -> Commit:
        """The commit *oid*.

        :raises StoreError: it is none, or not here.
        """
        kind, data = self.object(oid)
        if kind != "commit":
            raise StoreError(f"{oid} is a {kind}, not a commit", next="name a commit")
        said = read_commit_object(data)
        return Commit(oid, said.tree, said.parents, said.message)

    def commits_since(self, base: str, tip: str) -> tuple[Commit, ...] | None:
        """The commits from *base* (left out) to *tip*, oldest first, along first parents; None if *base* is not among them."""
        out = self.run("rev-list", "--first-parent", "--reverse", f"{base}..{tip}").decode().split()
        found = tuple(self.commit_at(oid) for oid in out)
        first = found[0].parents[:1] if found else (tip,)
        return found if first == (base,) else None

    def note_exported(self, directory: Path, commit: str) -> None:
        """The checkout at *directory* has *commit*, and all of it is in the patches: it may be moved on from there.

        A repository that this tool did not make stays as it is.
        """
        if self.made_checkout(directory) not in (None, commit):
            self.run("update-ref", "refs/patchset/made", commit, repository=Repository(directory))

    def is_unfinished(self, directory: Path) -> bool:
        """Is a rebase, merge, cherry-pick or am under way in the checkout at *directory*?"""
        names = ("rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
        return any((directory / ".git" / name).exists() for name in names)
