"""The branch of a checkout, read as a series: which commits are which patch's, and the trees that they make."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset.errors import SeriesError, WorktreeError
from patchset.store import Commit, Store

#: (commit without a line ``Patch: ID``, patches that have commits of their own) → the patches that it may be all the same.
Unnamed = Callable[[Commit, Collection[str]], Sequence[str]]

_TRAILER = re.compile(r"^Patch: (\S+)\s*$", re.MULTILINE)
_FIXUP = re.compile(r"^(?:(?:fixup|squash|amend)! )+")


@dataclass(frozen=True)
class Branch:
    """What a person has on a branch: patch → its commits, in the order in which the patches first come.

    ``again`` is the command that exports it.
    """

    directory: Path
    again: str
    commits: Mapping[str, Sequence[Commit]]


def tip(store: Store, directory: Path) -> str:
    """The commit of HEAD at *directory*, with its history in the store.

    :raises WorktreeError: there is no checkout, something is under way in it, or it has changes that are not committed.
    """
    if not (directory / ".git").is_dir():
        raise WorktreeError(
            "no checkout there", where=str(directory), next="./inv edit PATCH makes one; --from DIR names another"
        )
    if store.is_unfinished(directory):
        raise WorktreeError(
            "a rebase, merge or cherry-pick is under way there",
            where=str(directory),
            next=f"end it first: git -C {directory} status",
        )
    _, _, changes = store.checkout_state(directory, ignored=False)
    if changes:
        raise WorktreeError(
            f"{len(changes)} files there have changes that are not committed, or are new; the first is {changes[0]}",
            where=str(directory),
            next=f"git -C {directory} add --all, then git -C {directory} commit --amend --no-edit (or --fixup COMMIT); "
            "then export again",
        )
    return store.bring_head(directory)


def by_patch(
    commits: Sequence[Commit],
    known: Sequence[str] | None,
    directory: Path,
    again: str,
    unnamed: Unnamed = lambda commit, taken: (),
) -> Branch:
    """*commits*, oldest first, by patch.

    A commit's patch is what its line ``Patch: ID`` says; a fixup without one belongs to the patch whose commit it names,
    by subject or id, as `git rebase --autosquash` takes it.

    :param known: the patches that there can be; None: any.
    :param unnamed: is asked about a commit that is neither.
    :raises SeriesError: a merge; a commit of no patch; a fixup that may be of several.
    """
    found: dict[str, list[Commit]] = {}
    with_line = {name for commit in commits for name in _TRAILER.findall(commit.message)}
    for commit in commits:
        if len(commit.parents) != 1:
            raise SeriesError(
                f"commit {_short(commit)} is a merge, and a series has none",
                where=str(directory),
                next=f"git -C {directory} rebase {commit.parents[0][:12]} makes one line of it; then {again}",
            )
        said = tuple(dict.fromkeys(_TRAILER.findall(commit.message)))
        names = said or _named_by_fixup(commit, found) or unnamed(commit, {*with_line, *found})
        if len(names) > 1:
            raise SeriesError(
                f"commit {_short(commit)} may be of {' or '.join(names)}: "
                + ("it names them all" if said else "they are called so too"),
                where=str(directory),
                next=f"leave one line Patch: ID at the end of its message (git -C {directory} rebase -i), then {again}",
            )
        patch = names[0] if names else ""
        if not patch or (known is not None and patch not in known):
            raise SeriesError(
                f"commit {_short(commit)} belongs to no patch of the series"
                + (f": it names {patch!r}" if patch else ": it has no line Patch: ID, and is no fixup of one that has"),
                where=str(directory),
                next=f"./inv new ID --commit {commit.id[:12]} --from {directory} makes it one; or make it part of one (the line "
                f"Patch: ID at the end of its message) or leave it out: git -C {directory} rebase -i, then {again}",
            )
        found.setdefault(patch, []).append(commit)
    return Branch(directory, again, found)


def _named_by_fixup(commit: Commit, found: Mapping[str, Sequence[Commit]]) -> tuple[str, ...]:
    """The patches that a fixup may mean: those of the earlier commits with the subject, or else the id, that it names."""
    if not _FIXUP.match(commit.subject):
        return ()
    named = _FIXUP.sub("", commit.subject)
    for fits in (
        lambda earlier: earlier.subject == named,
        lambda earlier: len(named) >= 4 and earlier.id.startswith(named),
        lambda earlier: bool(named) and earlier.subject.startswith(named),
    ):
        patches = tuple(patch for patch, commits in found.items() if any(fits(earlier) for earlier in commits))
        if patches:
            return patches
    return ()


def check_order(branch: Branch, wanted: Sequence[str], left: Collection[str]) -> None:
    """The branch has the patches of *wanted*, in order, from the first one on; and at least those of *left*.

    :raises SeriesError: one is missing, or they are in another order.
    """
    there = list(branch.commits)
    last = max((wanted.index(patch) + 1 for patch in (*there, *left) if patch in wanted), default=0)
    if there == list(wanted[:last]):
        return
    missing = [patch for patch in wanted[:last] if patch not in there]
    if missing:
        what = f"{', '.join(missing)} is missing there"
        remedy = (
            f'./inv drop {missing[0]} --reason "…" leaves it out of the recipe, then {branch.again}; '
            f"to keep it, look for its commit (git -C {branch.directory} reflog); "
            f"./inv edit {wanted[last - 1]} --into DIR makes a checkout of the series as it is"
        )
    else:
        what = f"it has {', '.join(there)}"
        moved = next(patch for patch, other in zip(wanted, there, strict=False) if patch != other)
        remedy = f"./inv move {moved} --after {there[there.index(moved) - 1]} changes the order in the recipe; then {branch.again}"
    raise SeriesError(
        f"the branch is not the series in its order ({', '.join(wanted)}): {what}",
        where=str(branch.directory),
        next=remedy,
    )


def tree_after(store: Store, branch: Branch, patch: str, before: str) -> str:
    """The tree after the commits of *patch*, on the tree *before* them.

    :raises SeriesError: one of them, made further behind, does not go in there.
    """
    tree = before
    for commit in branch.commits[patch]:
        parent = store.commit_at(commit.parents[0]).tree
        if parent == tree:
            tree = commit.tree
            continue
        merged = store.merge(parent, tree, commit.tree)
        if merged.conflicts:
            raise SeriesError(
                f"commit {_short(commit)} does not go in where patch {patch} is: {', '.join(merged.conflicts)}",
                where=str(branch.directory),
                next=f"git -C {branch.directory} rebase -i --autosquash {branch.commits[patch][0].id[:12]}~1, resolve there, then {branch.again}",
            )
        tree = merged.tree
    return tree


def left_as(store: Store, directory: Path, base: str, unnamed: Unnamed) -> tuple[tuple[str, str, str], ...]:
    """(patch, tree before it, tree after it) of the branch as this tool last made or exported it.

    Empty where that cannot be told: a repository that this tool did not make.

    :param base: the commit that it stands on.
    :param unnamed: as with :func:`by_patch`.
    """
    made = store.made_checkout(directory)
    commits = store.commits_since(base, store.bring_head(directory, made)) if made else None
    if commits is None:
        return ()
    tree, found = store.commit_at(base).tree, []
    branch = by_patch(commits, None, directory, "", unnamed)
    for patch in branch.commits:
        after = tree_after(store, branch, patch, tree)
        found.append((patch, tree, after))
        tree = after
    return tuple(found)


def _short(commit: Commit) -> str:
    return f"{commit.id[:12]} ({commit.subject})"
