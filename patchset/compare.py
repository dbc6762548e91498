"""What two recipes make different: pin, stack, order, and what each patch changes, and where.

Two patches with the same text need not do the same: identical blocks at other places have one patch id. So each change is
compared with its file, its line and the function it stands in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchset import diff, resolve
from patchset.diff_model import FileDiff, Hunk
from patchset.diff_rules import show
from patchset.placing import lines_of
from patchset.recipe import Recipe
from patchset.resolve import Project, Resolved
from patchset.store import Store

_SCOPE = re.compile(rb"^(\s*)(?:async\s+def|def|class)\s+(\w+)")


@dataclass(frozen=True)
class Change:
    """Lines that go out and come in at one place: ``scope`` is the class and function around it, by indentation."""

    path: str
    line: int
    scope: str
    removed: tuple[bytes, ...]
    added: tuple[bytes, ...]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f" in {self.scope}" if self.scope else "")


@dataclass(frozen=True)
class Pair:
    """One change on both sides, or on one: ``kind`` is same, moved (the same text at another place), changed, gone or new."""

    kind: str
    left: Change | None
    right: Change | None


@dataclass(frozen=True)
class PatchDifference:
    """One patch in both recipes: (variant, outcome) on each side ('' for not in the series), and its changes."""

    patch: str
    left: tuple[str, str]
    right: tuple[str, str]
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Comparison:
    """Two recipes. ``pin`` and ``stack`` hold (name, left, right) of what differs; ``order`` both series if that does."""

    left: str
    right: str
    pin: tuple[tuple[str, str, str], ...]
    stack: tuple[tuple[str, str, str], ...]
    order: tuple[tuple[str, ...], tuple[str, ...]] | None
    patches: tuple[PatchDifference, ...]


def compare(project: Project, left: Recipe, right: Recipe) -> Comparison:
    """Resolve both recipes and compare them.

    :raises PatchsetError: one of them cannot be resolved.
    """
    store = Store.open(project.workspace.store)
    sides = [resolve.resolve(project, recipe, store, lambda text: None) for recipe in (left, right)]
    pin = _differing(*({"release": s.release.version, "base": s.base.tree, "tree": s.applied.tree} for s in sides))
    names = list(dict.fromkeys([*left.series, *right.series]))
    return Comparison(
        left.name,
        right.name,
        pin,
        _differing(left.stack, right.stack),
        (left.series, right.series) if left.series != right.series else None,
        tuple(_patch(store, name, *sides) for name in names),
    )


def _differing(left: Mapping[str, str], right: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    names = dict.fromkeys([*left, *right])
    pairs = ((name, left.get(name, ""), right.get(name, "")) for name in names)
    return tuple(item for item in pairs if item[1] != item[2])


def _patch(store: Store, patch: str, left: Resolved, right: Resolved) -> PatchDifference:
    told, changes = [], []
    for side in (left, right):
        steps = side.applied.steps
        index = next((i for i, step in enumerate(steps) if step.patch == patch), None)
        if index is None:
            told.append(("", ""))
            changes.append(())
            continue
        before = steps[index - 1].tree if index else side.applied.base_tree
        told.append((steps[index].variant, steps[index].outcome.value))
        changes.append(changes_between(store, before, steps[index].tree))
    return PatchDifference(patch, *told, paired(*changes))


def changes_between(store: Store, before: str, after: str) -> tuple[Change, ...]:
    """Every change from tree *before* to tree *after*, with the scope it stands in."""
    data = store.diff(before, after)
    if not data:
        return ()
    found = []
    for file in diff.read(data, "the change"):
        old = lines_of(store.read(before, show(file.old_path)) or b"") if file.old_path else []
        found += [change for hunk in file.hunks for change in _of_hunk(file, hunk, old)]
        if not file.hunks:
            found.append(Change(show(file.path), 0, file.change, (), ()))
    return tuple(found)


def _of_hunk(file: FileDiff, hunk: Hunk, old: Sequence[bytes]) -> list[Change]:
    """The changes of one hunk, context aside."""
    from difflib import SequenceMatcher

    found = []
    for tag, a, b, c, d in SequenceMatcher(None, hunk.old, hunk.new, autojunk=False).get_opcodes():
        if tag != "equal":
            line = hunk.old_start + a
            scope = scope_at(old, line, inserted=a == b)
            found.append(Change(show(file.path), line, scope, hunk.old[a:b], hunk.new[c:d]))
    return found


def scope_at(lines: Sequence[bytes], line: int, *, inserted: bool = False) -> str:
    """The classes and functions around *line* (from 1) of a Python file, as ``Class.function``; empty at the top.

    :param inserted: nothing stands at *line* yet: what comes in before it can also belong to the block that ends there.
    """
    names: list[str] = []
    following = (text for text in lines[max(line - 1, 0) :] if text.strip())
    preceding = (text for text in reversed(lines[: max(line - 1, 0)]) if text.strip())
    here = next(following, b"")
    above = next(preceding, b"") if inserted else b""
    limit = max(len(here) - len(here.lstrip()), len(above) - len(above.lstrip()))
    for text in reversed(lines[: max(line - 1, 0)]):
        match = _SCOPE.match(text)
        if match and len(match.group(1)) < max(limit, 1):
            names.append(match.group(2).decode("utf-8", "replace"))
            limit = len(match.group(1))
            if limit == 0:
                break
    return ".".join(reversed(names))


def paired(left: Sequence[Change], right: Sequence[Change]) -> tuple[Pair, ...]:
    """Each change of one side with the one of the other that it is: by text and place, by text, by place; or alone."""
    remaining = list(right)
    rules = (
        ("same", lambda a, b: _text(a) == _text(b) and (a.path, a.scope) == (b.path, b.scope)),
        ("moved", lambda a, b: _text(a) == _text(b) and any(_text(a))),
        ("changed", lambda a, b: (a.path, a.scope) == (b.path, b.scope)),
    )
    partner: dict[int, tuple[str, Change]] = {}
    for kind, rule in rules:
        for index, change in enumerate(left):
            match = next((other for other in remaining if rule(change, other)), None) if index not in partner else None
            if match is not None:
                partner[index] = (kind, match)
                remaining.remove(match)
    pairs = [Pair(*_partnered(partner.get(index), change)) for index, change in enumerate(left)]
    return (*pairs, *(Pair("new", None, change) for change in remaining))


def _partnered(found: tuple[str, Change] | None, change: Change) -> tuple[str, Change, Change | None]:
    return (found[0], change, found[1]) if found else ("gone", change, None)


def _text(change: Change) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    return change.removed, change.added
