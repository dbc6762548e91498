"""Checkouts for a person to look at: repositories of their own, apart from the store."""

from __future__ import annotations

import os
from pathlib import Path

from patchset.store.diffs import Diffs
from patchset.store.git import ATTRIBUTES, FETCH, Repository


class Checkouts(Diffs):
    """What a store does with checkouts."""

    def make_checkout(self, directory: Path, commit: str) -> None:
        """Make the empty *directory* a repository of its own with *commit* checked out on the branch ``patchset``."""
        there = Repository(directory)
        self.run("init", "--quiet", "--template=", "--initial-branch=patchset", str(directory), repository=None)
        (directory / ".git" / "info").mkdir(exist_ok=True)
        (directory / ".git" / "info" / "attributes").write_text(ATTRIBUTES, encoding="ascii")
        self.move_checkout(directory, commit, there)

    def move_checkout(self, directory: Path, commit: str, there: Repository | None = None) -> None:
        """Bring *commit* into the checkout at *directory* and put its branch and files there."""
        there = there or Repository(directory)
        self.keep(f"checkouts/{commit}", commit)
        self.run(*FETCH, str(self.path), f"refs/checkouts/{commit}", repository=there)
        self.run("reset", "--quiet", "--hard", commit, repository=there)
        self.run("update-ref", "refs/patchset/made", commit, repository=there)

    def made_checkout(self, directory: Path) -> str | None:
        """The commit at which this tool left the checkout at *directory*; None if it is none of its own."""
        if not (directory / ".git").is_dir():
            return None
        answer = self.attempt(
            "rev-parse", "--verify", "--quiet", "refs/patchset/made", repository=Repository(directory)
        )
        return answer.out.decode().strip() if answer.status == 0 else None

    def checkout_state(self, directory: Path, *, ignored: bool = True) -> tuple[str, str, tuple[str, ...]]:
        """Branch and commit of HEAD of the checkout at *directory*, and the paths that are changed or new there.

        Ignored files count unless told otherwise, and so do files that the user told git not to look at: they may well be changed.
        """
        there = Repository(directory)
        branch = self.attempt("symbolic-ref", "--quiet", "HEAD", repository=there).out.decode().strip()
        head = self.run("rev-parse", "--verify", "HEAD", repository=there).decode().strip()
        listed = self.run("ls-files", "-v", "-z", repository=there).split(b"\0")
        hidden = [os.fsdecode(record[2:]) for record in listed if record[:1].islower() or record[:1] == b"S"]
        out = self.run(
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            *(["--ignored"] if ignored else []),
            repository=there,
        )
        return branch, head, (*hidden, *(os.fsdecode(record[3:]) for record in out.split(b"\0") if record))
