"""Repositories that are not the store, only read: a commit's objects copied from one, and what the history of one holds."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from patchset.errors import DeclarationError
from patchset.store.commits import read_commit_object
from patchset.store.git import Answer, GitRepository, last_line
from patchset.store.trees import Trees

_AUTHOR = re.compile(r"(.*) (\d{1,11}) [+-]\d{4}\Z", re.DOTALL)


@dataclass(frozen=True)
class ForeignCommit:
    """One commit of another repository: its trees are in the store. ``parents`` are the trees of its parents."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: str
    date: datetime
    message: str

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.strip().partition("\n")[0]


def read_commit(store: Trees, directory: Path, revision: str) -> ForeignCommit:
    """The commit *revision* of the repository at *directory*, its tree and its parents' trees copied into *store*.

    Nothing is written over there, no history is copied, and no hook runs.

    :raises DeclarationError: there is no repository or no such commit, or its parent is not there.
    """
    oid = read_commit_id(store, directory, revision)
    if len(oid) != 40:
        raise DeclarationError(
            "that repository names its objects by SHA-256, and the store by SHA-1: they cannot be copied",
            where=str(directory),
            next=f"git -C {directory} format-patch -1 --stdout {oid[:12]} > FILE, then ./inv import FILE",
        )
    said = read_commit_object(_said(store, directory, "cat-file", "commit", oid))
    trees = tuple(_tree_of(store, directory, parent) for parent in said.parents)
    _copy(store, directory, [said.tree, *trees])
    match = _AUTHOR.match(said.author)
    moment = datetime.fromtimestamp(int(match.group(2)) if match else 0, timezone.utc)
    return ForeignCommit(oid, said.tree, trees, match.group(1) if match else said.author, moment, said.message)


@dataclass(frozen=True)
class Listed:
    """A commit of another repository, by its id, that of its tree, and its subject."""

    oid: str
    tree: str
    subject: str


def commits_between(store: Trees, directory: Path, old: str, new: str) -> tuple[Listed, ...]:
    """The commits from *old* to *new*, both among them, along first parents. Nothing is copied.

    :raises DeclarationError: no repository, no such commit, or *old* is not on the way back from *new*.
    """
    ends = [read_commit_id(store, directory, revision) for revision in (old, new)]
    words = ("log", "--first-parent", "--reverse", "--format=%H %T %s", f"{ends[0]}..{ends[1]}", "--")
    lines = _said(store, directory, *words).decode("utf-8", "replace").splitlines()
    first = (
        _said(store, directory, "log", "-1", "--format=%H %T %s", ends[0], "--").decode("utf-8", "replace").splitlines()
    )
    listed = tuple(Listed(*[*line.split(" ", 2), ""][:3]) for line in first + lines)
    parents = _said(store, directory, "rev-list", "--first-parent", ends[1], "--").decode("ascii").split()
    if ends[0] not in parents:
        raise DeclarationError(
            f"{old} is not among the first parents of {new}",
            where=str(directory),
            next=f"git -C {directory} merge-base {old} {new}: name an end that is on one line with the other",
        )
    return listed


def read_commit_id(store: Trees, directory: Path, revision: str) -> str:
    """The id of the commit *revision* in the repository at *directory*.

    :raises DeclarationError: there is no repository or no such commit.
    """
    if not directory.is_dir():
        raise DeclarationError("no such directory", where=str(directory), next="name a git repository")
    named = _ask(store, directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if named.status != 0:
        what = last_line(named.err) or f"no commit {revision!r} in the repository there"
        raise DeclarationError(what, where=str(directory), next=f"git -C {directory} log --oneline: name one of these")
    return named.out.decode("ascii").strip()


def bring_tree(store: Trees, directory: Path, tree: str) -> None:
    """Copy *tree* and all below it from the repository at *directory*, if it is not in *store* yet."""
    _copy(store, directory, [tree])


def last_commit_of(store: GitRepository, root: Path, folder: Path) -> str:
    """The newest commit of the repository at *root* that touched *folder*, if it holds the folder just as it is now.

    Empty where there is no repository, or files in the folder are new, changed or ignored.
    """
    words = ("status", "--porcelain", "-z", "--untracked-files=all", "--ignored", "--", str(folder))
    changes = _ask(store, root, "--no-optional-locks", *words)
    pycache = all(b"/__pycache__/" in record for record in changes.out.split(b"\0") if record)
    if changes.status != 0 or not pycache:
        return ""
    return _ask(store, root, "log", "-1", "--format=%H", "--", str(folder)).out.decode("ascii").strip()


def _tree_of(store: GitRepository, directory: Path, commit: str) -> str:
    answer = _ask(store, directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{tree}}")
    if answer.status != 0:
        raise DeclarationError(
            f"the parent {commit[:12]} is not in the repository there (a shallow clone?)",
            where=str(directory),
            next=f"git -C {directory} fetch --deepen=1",
        )
    return answer.out.decode("ascii").strip()


def _copy(store: Trees, directory: Path, trees: list[str]) -> None:
    """Every object below *trees*, as one pack."""
    missing = [tree for tree in trees if not store.has_tree(tree)]
    if not missing:
        return
    wanted = "".join(f"{tree}\n" for tree in missing).encode("ascii")
    pack = _said(store, directory, "pack-objects", "--revs", "--stdout", "--quiet", "--window=0", stdin=wanted)
    with tempfile.TemporaryFile() as file:
        file.write(pack)
        file.seek(0)
        store.run("index-pack", "--stdin", stdin_file=file)


def _ask(store: GitRepository, directory: Path, *words: str, stdin: bytes = b"") -> Answer:
    """git in *directory* itself: a repository around it is not asked."""
    ceiling = {"GIT_CEILING_DIRECTORIES": os.path.realpath(directory.parent), "GIT_NO_LAZY_FETCH": "1"}
    return store.attempt("-C", os.path.realpath(directory), *words, repository=None, stdin=stdin, extra=ceiling)


def _said(store: GitRepository, directory: Path, *words: str, stdin: bytes = b"") -> bytes:
    answer = _ask(store, directory, *words, stdin=stdin)
    if answer.status != 0:
        raise DeclarationError(
            f"git {words[0]} failed there: {last_line(answer.err)}",
            where=str(directory),
            next=f"git -C {directory} fsck",
        )
    return answer.out
