"""What lies between two series of one release: the edits that lead from one to the other, and any subset of them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from patchset.patch import Patch


@dataclass(frozen=True)
class Element:
    """A patch as it is declared (then ``digest`` is empty), or as a lock recorded it: the change between two trees.

    Two elements of one id and another digest are two versions of one patch.
    """

    id: str
    digest: str
    patch: Patch | None = None
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Edit:
    """One difference between two series: a patch that only one of them has, or has otherwise, or another order.

    ``kind`` is ``added``, ``removed``, ``changed`` or ``reordered`` (then both elements are None and ``id`` is empty).
    """

    kind: str
    id: str
    old: Element | None = None
    new: Element | None = None

    @property
    def text(self) -> str:
        """In words, as what the bad end has and the good one has not."""
        return "the order of the patches" if self.kind == "reordered" else f"{self.id} {self.kind}"


def edits(good: Sequence[Element], bad: Sequence[Element]) -> tuple[Edit, ...]:
    """What leads from *good* to *bad*, in the order of the series; a changed order comes last."""
    old, new = {item.id: item for item in good}, {item.id: item for item in bad}
    found = []
    for id in _union([item.id for item in bad], [item.id for item in good]):
        if id not in old:
            found.append(Edit("added", id, None, new[id]))
        elif id not in new:
            found.append(Edit("removed", id, old[id], None))
        elif old[id].digest != new[id].digest:
            found.append(Edit("changed", id, old[id], new[id]))
    if _reordered(good, bad):
        found.append(Edit("reordered", ""))
    return tuple(found)


def with_edits(
    good: Sequence[Element], bad: Sequence[Element], all_edits: Sequence[Edit], chosen: Collection[int]
) -> tuple[Element, ...]:
    """*good* with those of *all_edits* made whose indices are *chosen*: all of them give *bad*, none gives *good*."""
    old, new = {item.id: item for item in good}, {item.id: item for item in bad}
    made = {all_edits[index].id for index in chosen if all_edits[index].kind != "reordered"}
    order = (bad, good)
    if any(edit.kind == "reordered" and index not in chosen for index, edit in enumerate(all_edits)):
        order = (good, bad)
    ids = _union([item.id for item in order[0]], [item.id for item in order[1]])
    sides = ((new if id in made else old).get(id) for id in ids)
    return tuple(element for element in sides if element)


def _reordered(good: Sequence[Element], bad: Sequence[Element]) -> bool:
    common = {item.id for item in good} & {item.id for item in bad}
    return [item.id for item in good if item.id in common] != [item.id for item in bad if item.id in common]


def _union(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """All of both in the order of *first*; what only *second* has stands behind what it stands behind there."""
    ids = list(first)
    for index, id in enumerate(second):
        if id not in ids:
            before = next((other for other in reversed(second[:index]) if other in ids), None)
            ids.insert(ids.index(before) + 1 if before else 0, id)
    return ids
