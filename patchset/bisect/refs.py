"""What the two ends of a bisection are called: ``base``, a position, a patch, a recipe, a lock, a receipt, a release, a tree."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from patchset.bases import Bases
from patchset.bisect.line import Element
from patchset.bisect.states import State, Stuck, Trees
from patchset.errors import DeclarationError, LockError
from patchset.lock import Lock, LockedPatch, parse_lock, read_lock
from patchset.patch import Patch
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.store import Store
from patchset.store.elsewhere import read_commit
from patchset.workspace import UNREADABLE, read_json

#: A tree of the store, and the release whose kernels and contracts count for it.
_TREE = re.compile(r"tree:([0-9a-f]{7,40})(?:@(\S+))?")
#: How a commit of ``--history`` is named.
COMMIT = "commit:"
_RECEIPT_LIMIT = 16 * 1024 * 1024


@dataclass(frozen=True)
class Point:
    """An end: ``release`` and its base tree, and the patches on it. ``ref`` is how it was named, ``text`` what it is."""

    ref: str
    text: str
    release: str
    base: str
    elements: tuple[Element, ...]

    def state(self) -> State:
        """The state that it is."""
        return State(self.text, self.release, self.base, self.elements)


@dataclass(frozen=True)
class Refs:
    """Reads names of ends.

    :ivar recipe: the recipe whose series positions and patches are of.
    :ivar carried: the patches that a bare release or commit gets.
    :ivar history: a git repository of the upstream, for ``commit:REV``.
    """

    project: Project
    recipe: Recipe
    store: Store
    bases: Bases
    carried: tuple[Element, ...]
    history: Path | None = None

    def read(self, ref: str) -> Point:
        """The point that *ref* names; ``WHOLE:PART`` takes part of a recipe, lock or receipt.

        :raises DeclarationError: it names nothing; all that it could name is listed.
        :raises LockError: a lock or receipt that cannot be made again from what is declared and stored now.
        :raises SourceError: its release cannot be had.
        """
        tree = _TREE.fullmatch(ref)
        if tree:
            return self._tree(ref, tree.group(1), tree.group(2) or self.recipe.pin.release)
        if ref.startswith(COMMIT):
            return self._commit(ref)
        if ref in self.bases.upstream.releases:
            return Point(ref, f"vLLM {ref}", ref, self.bases.tree(ref), self.carried)
        whole, colon, part = ref.rpartition(":")
        if colon and not Path(ref).exists():
            point = self._whole(whole)
            return self._part(point, part, ref)
        if not _is_whole(self.project, ref):
            return self._part(self._recipe(self.recipe.name, self.recipe), ref, ref)
        return self._whole(ref)

    def _whole(self, ref: str) -> Point:
        if Path(ref).exists() and not Path(ref).is_file() and ref.endswith((".lock", ".json")):
            raise DeclarationError("not a file", where=ref, next="name a lock or receipt")  # a pipe would never end
        if ref.endswith(".lock"):
            lock = read_lock(Path(ref))
            if lock is None:
                raise DeclarationError("no such lock", where=ref, next="name a file that is there")
            return self._lock(ref, f"lock {Path(ref).name}", lock)
        if ref.endswith(".json"):
            return self._lock(ref, f"receipt {Path(ref).name}", _lock_of_receipt(Path(ref)))
        return self._recipe(ref, self.project.recipe(ref))

    def _recipe(self, ref: str, recipe: Recipe) -> Point:
        base = self.bases.tree(recipe.pin.release)
        if recipe.pin.source == "checkout":  # then the archive's tree need not be its base
            lock = read_lock(recipe.file.with_suffix(".lock"))
            if lock is None or not self.store.has_tree(lock.pin.tree):
                raise DeclarationError(
                    f"recipe {recipe.name} is of a checkout, and its base is not in the store",
                    where=str(recipe.file),
                    next=f"./inv lock -r {recipe.name}",
                )
            base = lock.pin.tree
        elements = tuple(as_declared(patch) for patch in self.project.series_of(recipe))
        return Point(ref, f"recipe {recipe.name}", recipe.pin.release, base, elements)

    def _part(self, point: Point, part: str, ref: str) -> Point:
        """The first patches of *point*, or those named."""
        ids = [element.id for element in point.elements]
        if part == "base" or part == "0":
            return Point(ref, f"{point.text}, no patch", point.release, point.base, ())
        if part.isdecimal() and int(part) <= len(ids):
            last = int(part)
            text = f"{point.text} up to patch {last}, {ids[last - 1]}"
            return Point(ref, text, point.release, point.base, point.elements[:last])
        if part in ids:
            last = ids.index(part) + 1
            return Point(ref, f"{point.text} up to {part}", point.release, point.base, point.elements[:last])
        wanted = part.split(",")
        if len(wanted) > 1 and all(id in ids for id in wanted):
            elements = tuple(element for element in point.elements if element.id in wanted)
            text = f"{point.text}, only {', '.join(element.id for element in elements)}"
            return Point(ref, text, point.release, point.base, elements)
        raise DeclarationError(
            f"{ref!r} names no end of a bisection: there is no such recipe, lock, receipt or release, and {point.text} has "
            f"no patch or position of that name (it has base, 1 to {len(ids)}: {', '.join(ids)})",
            where=f"recipe {self.recipe.name}",
            next="./inv --help bisect says what can be named; ./inv releases lists releases",
        )

    def _tree(self, ref: str, name: str, release: str) -> Point:
        if release not in self.bases.upstream.releases:
            raise DeclarationError(f"release {release} is not known", where=ref, next="./inv releases")
        tree = self.store.tree_named(name)
        if tree is None:
            raise DeclarationError(
                f"no tree {name} in the store",
                where=str(self.store.path),
                next="run the bisection again: it makes its trees",
            )
        return Point(ref, f"tree {tree[:12]}", release, tree, ())

    def _commit(self, ref: str) -> Point:
        if self.history is None:
            raise DeclarationError(
                f"{ref} is a commit of no repository", where="--history", next="--history DIR: a git checkout of vLLM"
            )
        found = read_commit(self.store, self.history, ref.removeprefix(COMMIT))
        # Its variants and the kernels expected of it are those of the recipe's release: a commit is of none.
        text = f"commit {found.id[:12]} ({found.subject})"
        return Point(ref, text, self.recipe.pin.release, found.tree, self.carried)

    # -- locks and receipts --------------------------------------------------------------------------------------------

    def _lock(self, ref: str, text: str, lock: Lock) -> Point:
        base = self.bases.tree(lock.pin.release)
        if base != lock.pin.tree:
            if not self.store.has_tree(lock.pin.tree):
                raise LockError(
                    f"its base {lock.pin.tree[:12]} is not that of the release's archive ({base[:12]}), and not in the store",
                    where=ref,
                    next=f"./inv apply -r {lock.recipe} where that runtime was made, and bisect there",
                )
            base = lock.pin.tree
        befores = [base, *(item.tree for item in lock.patches)]
        elements = tuple(
            self._element(item, before, lock, ref) for item, before in zip(lock.patches, befores, strict=False)
        )
        point = Point(ref, text, lock.pin.release, base, elements)
        made = Trees(self.store, self.bases, point.release).of(point.state())
        if made != lock.tree:
            found = made.why if isinstance(made, Stuck) else f"tree {made[:12]}"
            raise LockError(
                f"it is of tree {lock.tree[:12]}, and what it names makes another one now: {found}",
                where=ref,
                next="check out the state of recipes/ that it was made from (git log recipes/), and bisect there",
            )
        return point

    def _element(self, item: LockedPatch, before: str, lock: Lock, ref: str) -> Element:
        """A patch of a lock: the declared one if that is still the same, else the change that was recorded."""
        patch = self.project.patches.get(item.id)
        if patch and patch.covers(lock.pin.release) and patch.digest_for(lock.pin.release) == item.digest:
            return as_declared(patch)
        if self.store.has_tree(before) and self.store.has_tree(item.tree):
            return Element(item.id, item.digest, None, before, item.tree)
        raise LockError(
            f"patch {item.id} is not what it was (then {item.digest[:12]}), and its tree {item.tree[:12]} is not in the store",
            where=ref,
            next=f"git log -- recipes/patches/{item.id}: bisect in a checkout of the state that this was made from",
        )


def as_declared(patch: Patch) -> Element:
    """*patch* as it is declared now, whatever the release: its variants are one and the same patch."""
    return Element(patch.id, "", patch)


def _is_whole(project: Project, ref: str) -> bool:
    return ref.endswith((".lock", ".json", ".toml")) or (project.workspace.recipes / f"{ref}.toml").is_file()


def _lock_of_receipt(file: Path) -> Lock:
    try:
        text = read_json(file, _RECEIPT_LIMIT)["lock"]["text"]
        if not isinstance(text, str):
            raise TypeError("its lock is no text")
    except UNREADABLE as error:
        raise DeclarationError(
            f"not a receipt: {error}", where=str(file), next="name a dist/<version>/receipt-….json"
        ) from error
    return parse_lock(text, file)
