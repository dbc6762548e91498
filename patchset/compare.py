"""What two recipes make different: pin, stack, order, and what each patch changes, and where.

Two patches with the same text need not do the same: identical blocks at other places have one patch id. So each change is
compared with its file, the function it stands in, and which of several like blocks of that function it is about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path

from patchset import diff, resolve
from patchset.compare_place import Change, Source, Spot
from patchset.diff_model import FileDiff, Hunk
from patchset.diff_rules import show
from patchset.errors import DeclarationError, StoreError
from patchset.lock import Lock, read_lock
from patchset.patch import covered
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.store import Store

__all__ = ["Change", "Comparison", "Pair", "PatchDifference", "Side", "changes_between", "compare", "paired", "read"]

_WORD = re.compile(rb"\w+|[^\w\s]")

#: The share of words that two changes have in common at least, to be versions of one.
_LIKE = 0.4


@dataclass(frozen=True)
class Pair:
    """One change on both sides, or on one.

    ``kind``: ``same``; ``moved``, the same text at another place; ``changed``, a like text in the same function; ``gone`` or
    ``new``, on the left or the right only. ``other`` is the patch that has it on the right, if that is another one.
    """

    kind: str
    left: Change | None
    right: Change | None
    other: str = ""


@dataclass(frozen=True)
class PatchDifference:
    """One patch in both: (variant, outcome) on each side ('' for not in the series), and its changes."""

    patch: str
    left: tuple[str, str]
    right: tuple[str, str]
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Comparison:
    """Two recipes or locks.

    ``pin``, ``stack`` and ``omitted`` hold (name, left, right) of what differs, '' for what is not there (None on a side that
    does not say: a lock has no stack); ``order`` is both series if they differ.
    """

    left: str
    right: str
    pin: tuple[tuple[str, str, str], ...]
    stack: tuple[tuple[str, str, str], ...] | None
    omitted: tuple[tuple[str, str, str], ...] | None
    order: tuple[tuple[str, ...], tuple[str, ...]] | None
    patches: tuple[PatchDifference, ...]

    @property
    def same(self) -> bool:
        """Is nothing different, of what both sides say?"""
        pairs = (pair for item in self.patches for pair in item.pairs)
        alike = all(item.left[1] == item.right[1] for item in self.patches) and all(
            pair.kind == "same" for pair in pairs
        )
        return alike and not (self.pin or self.stack or self.omitted or self.order)


@dataclass(frozen=True)
class Done:
    """What one patch of a side did: its variant and outcome, and the trees before and after it."""

    variant: str
    outcome: str
    before: str
    after: str


@dataclass(frozen=True)
class Side:
    """One of the two. ``stack`` and ``omitted`` (patch → reason) are None where it does not say."""

    name: str
    pin: Mapping[str, str]
    stack: Mapping[str, str] | None
    omitted: Mapping[str, str] | None
    done: Mapping[str, Done]


def read(project: Project, name: str) -> Recipe | Lock:
    """The recipe called *name*; or, where that ends in ``.lock``, the lock in that file, or of that recipe.

    :raises DeclarationError: there is none, or it cannot be read.
    """
    if not name.endswith(".lock"):
        return project.recipe(name)
    file = Path(name) if Path(name).is_file() else project.workspace.recipes / name
    lock = read_lock(file)
    if lock is None:
        raise DeclarationError("there is no such lock", where=str(file), next=f"./inv lock -r {file.stem}")
    return lock


def compare(project: Project, left: Recipe | Lock, right: Recipe | Lock) -> Comparison:
    """Compare two recipes as they resolve now, or the state that a lock holds.

    :raises PatchsetError: a recipe cannot be resolved, or the trees of a lock are not here.
    """
    store = Store.open(project.workspace.store)
    one, other = (_side(project, store, item) for item in (left, right))
    stacks = None if one.stack is None or other.stack is None else _differing(one.stack, other.stack)
    omitted = None if one.omitted is None or other.omitted is None else _differing(one.omitted, other.omitted)
    orders = (tuple(one.done), tuple(other.done))
    names = list(dict.fromkeys([*one.done, *other.done]))
    patches = _across([_patch(store, name, one, other) for name in names])
    return Comparison(
        one.name,
        other.name,
        _differing(one.pin, other.pin),
        stacks,
        omitted,
        orders if orders[0] != orders[1] else None,
        patches,
    )


# -- sides --------------------------------------------------------------------------------------------------------------


def _side(project: Project, store: Store, item: Recipe | Lock) -> Side:
    return _locked_side(project, store, item) if isinstance(item, Lock) else _resolved_side(project, store, item)


def _resolved_side(project: Project, store: Store, recipe: Recipe) -> Side:
    resolved = resolve.resolve(project, recipe, store, lambda text: None)
    before, done = resolved.applied.base_tree, {}
    for step in resolved.applied.steps:
        done[step.patch] = Done(step.variant, step.outcome.value, before, step.tree)
        before = step.tree
    pin = {"release": resolved.release.version, "base": resolved.base.tree, "tree": resolved.applied.tree}
    omitted = {item.patch: item.reason for item in recipe.omitted}
    return Side(recipe.name, {**pin, "version": resolved.version}, recipe.stack, omitted, done)


def _locked_side(project: Project, store: Store, lock: Lock) -> Side:
    """A lock names every tree; the variant is told where the patch is still what it was."""
    before, done = lock.pin.tree, {}
    for tree in (before, *(item.tree for item in lock.patches)):
        if not store.has_object(tree):
            raise StoreError(
                f"tree {tree} of that lock is not in the store",
                where=f"{lock.recipe}.lock",
                next=f"check out the commit that has this lock, and there: ./inv apply -r {lock.recipe}",
            )
    for item in lock.patches:
        patch, variant = project.patches.get(item.id), "as locked"
        if patch and covered(patch, {lock.pin.release: 0}) and patch.digest_for(lock.pin.release) == item.digest:
            variant = patch.variant_for(lock.pin.release).name
        done[item.id] = Done(variant, item.outcome.value, before, item.tree)
        before = item.tree
    pin = {"release": lock.pin.release, "base": lock.pin.tree, "tree": lock.tree, "version": lock.version}
    return Side(f"{lock.recipe}.lock", pin, None, None, done)


def _differing(left: Mapping[str, str], right: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    names = dict.fromkeys([*left, *right])
    pairs = ((name, left.get(name, ""), right.get(name, "")) for name in names)
    return tuple(item for item in pairs if item[1] != item[2])


# -- changes ------------------------------------------------------------------------------------------------------------


def _patch(store: Store, patch: str, *sides: Side) -> PatchDifference:
    there = [side.done.get(patch) for side in sides]
    told = [(done.variant, done.outcome) if done else ("", "") for done in there]
    changes = [changes_between(store, done.before, done.after) if done else () for done in there]
    return PatchDifference(patch, *told, paired(*changes))


def changes_between(store: Store, before: str, after: str) -> tuple[Change, ...]:
    """Every change from tree *before* to tree *after*, with the place it stands at."""
    data = store.diff(before, after) if before != after else b""
    if not data:
        return ()
    found = []
    for file in diff.read(data, "the change"):
        old = Source((store.read(before, show(file.old_path)) or b"") if file.old_path else b"")
        found += [change for hunk in file.hunks for change in _of_hunk(file, hunk, old)]
        if not file.hunks:
            found.append(Change(show(file.path), 0, file.change, (), ()))
    return tuple(found)


def _of_hunk(file: FileDiff, hunk: Hunk, old: Source) -> list[Change]:
    """The changes of one hunk, context aside."""
    found = []
    for tag, a, b, c, d in SequenceMatcher(None, hunk.old, hunk.new, autojunk=False).get_opcodes():
        if tag != "equal":
            removed, added, line = hunk.old[a:b], hunk.new[c:d], hunk.old_start + a
            scope = old.scope(line) if removed else old.scope_of_insertion(line, added)
            found.append(Change(show(file.path), line, scope, removed, added, old.spots(line, len(removed))))
    return found


# -- pairs --------------------------------------------------------------------------------------------------------------


def paired(left: Sequence[Change], right: Sequence[Change]) -> tuple[Pair, ...]:
    """Each change of one side with the one of the other that it is: by text and place, by text, by place and likeness; or alone."""
    partner: dict[int, tuple[str, int]] = {}
    taken: set[int] = set()
    for kind, rule in _RULES:
        fits = [
            (-likeness, i, j)
            for i, one in enumerate(left)
            for j, other in enumerate(right)
            if i not in partner and j not in taken and (likeness := rule(one, other)) > 0
        ]
        for _, i, j in sorted(fits):
            if i not in partner and j not in taken:
                partner[i] = (kind, j)
                taken.add(j)
    pairs = [
        Pair(partner[i][0], change, right[partner[i][1]]) if i in partner else Pair("gone", change, None)
        for i, change in enumerate(left)
    ]
    return (*pairs, *(Pair("new", None, change) for j, change in enumerate(right) if j not in taken))


def _same(left: Change, right: Change) -> float:
    return float(_text(left) == _text(right) and _at_one_place(left, right))


def _moved(left: Change, right: Change) -> float:
    """In the same file rather than in another one, and in the same function rather than elsewhere."""
    if _text(left) != _text(right) or not any(_text(left)):
        return 0.0
    return 1.0 + (left.path == right.path) + ((left.path, left.scope) == (right.path, right.scope))


def _changed(left: Change, right: Change) -> float:
    """How much alike two texts of one function are; nothing below :data:`_LIKE`."""
    if (left.path, left.scope) != (right.path, right.scope):
        return 0.0
    words = [_WORD.findall(b"".join((*side.removed, *side.added))) for side in (left, right)]
    likeness = SequenceMatcher(None, *words, autojunk=False).quick_ratio()
    return likeness if likeness >= _LIKE else 0.0


#: How sure each rule is that two changes are one, in the order in which they are asked.
_RULES = (("same", _same), ("moved", _moved), ("changed", _changed))


def _across(patches: Sequence[PatchDifference]) -> tuple[PatchDifference, ...]:
    """*patches* with what one has only on the left, and another only on the right, brought together where the text is one."""
    new = [(item.patch, pair) for item in patches for pair in item.pairs if pair.kind == "new"]
    taken: list[Pair] = []
    merged = []
    for item in patches:
        pairs = []
        for pair in item.pairs:
            match = _elsewhere(item.patch, pair, [entry for entry in new if entry[1] not in taken])
            if match:
                patch, found = match
                taken.append(found)
                assert pair.left and found.right
                kind = "same" if _at_one_place(pair.left, found.right) else "moved"
                pair = Pair(kind, pair.left, found.right, patch)
            pairs.append(pair)
        merged.append(replace(item, pairs=tuple(pairs)))
    return tuple(replace(item, pairs=tuple(pair for pair in item.pairs if pair not in taken)) for item in merged)


def _elsewhere(patch: str, pair: Pair, new: Sequence[tuple[str, Pair]]) -> tuple[str, Pair] | None:
    """The change of another patch that *pair*, which is gone, is; one at the same place before one at another."""
    if pair.kind != "gone" or pair.left is None or not _says_something(pair.left):
        return None
    like = [
        (name, item) for name, item in new if name != patch and item.right and _text(item.right) == _text(pair.left)
    ]
    return min(like, key=lambda entry: not _at_one_place(pair.left, entry[1].right), default=None)


def _text(change: Change) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    return change.removed, change.added


def _says_something(change: Change) -> bool:
    """A blank line, or a bracket, is no sign that two patches have something to do with each other."""
    return any(len(line.strip()) > 3 for line in (*change.removed, *change.added))


def _at_one_place(left: Change, right: Change) -> bool:
    """Is it the same place of the file, though lines before it may be more or fewer?"""
    if (left.path, left.scope) != (right.path, right.scope):
        return False
    if not left.spots or not right.spots:
        return left.spots == right.spots
    return any(_is_one(a, b) for a, b in zip(left.spots, right.spots, strict=True))


def _is_one(left: Spot, right: Spot) -> bool:
    """Both the only one of their kind, or the same one of as many."""
    return (left.text, left.scope, left.nth, left.of) == (right.text, right.scope, right.nth, right.of)
