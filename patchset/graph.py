"""Which patches of a series depend on which, found by trying the trees: without one, does the other still go in?"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset import process
from patchset.errors import MissingTool, PatchsetError
from patchset.outcome import Outcome
from patchset.patch import Patch
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.series import apply_patch
from patchset.store import Store
from patchset.workspace import write_atomically


@dataclass(frozen=True)
class Graph:
    """The patches of a series that change the tree, in order.

    ``needs`` maps each to a smallest set of earlier ones without which it does not go in; ``declared`` to what its
    patch.toml requires; ``order_matters`` are pairs that both go in alone, and the other way round give another tree or do
    not go in. To go in is to become what it becomes in the series: a merge in place of a plain application is a need.
    ``idle`` are patches that change nothing on this base.
    """

    recipe: str
    release: str
    patches: tuple[str, ...]
    needs: Mapping[str, tuple[str, ...]]
    declared: Mapping[str, tuple[str, ...]]
    order_matters: tuple[tuple[str, str], ...]
    idle: tuple[str, ...]


def of_recipe(project: Project, recipe: Recipe, say: Callable[[str], None] = lambda text: None) -> Graph:
    """The graph of *recipe*'s series on its release.

    :raises SourceError: the release cannot be had.
    """
    store = Store.open(project.workspace.store)
    bases = project.bases(store, say, recipe.pin.upstream)
    base = bases.tree(recipe.pin.release)
    return graph(store, recipe.name, recipe.pin.release, base, project.series_of(recipe), bases.donor_file)


def write(found: Graph, dot_file: str, svg_file: str) -> tuple[Path, ...]:
    """Write the graph to the files that are named (empty: none), and return them."""
    files = []
    for name, content in ((dot_file, lambda: dot(found).encode()), (svg_file, lambda: svg(dot(found)))):
        if name:
            write_atomically(Path(name).absolute(), content())
            files.append(Path(name).absolute())
    return tuple(files)


def graph(
    store: Store, recipe: str, release: str, base: str, patches: Sequence[Patch], donor_file: Callable[..., bytes]
) -> Graph:
    """Try the subsets of *patches* that matter on the tree *base*.

    Patches that touch no file in common cannot depend on each other; all else is tried.
    """
    tries = _Tries(store, release, donor_file)
    changing, idle, tree, touched = [], [], base, {}
    for patch in patches:
        after = tries.first(tree, patch)
        if after is None:
            idle.append(patch.id)
            continue
        changing.append(patch)
        touched[patch.id] = set(store.changed_paths(tree, after))
        tree = after
    needs: dict[str, tuple[str, ...]] = {}
    for index, patch in enumerate(changing):
        needs[patch.id] = _needed(tries, base, patch, changing[:index], touched, needs)
    pairs = [
        (one.id, other.id)
        for index, other in enumerate(changing)
        for one in changing[:index]
        if touched[one.id] & touched[other.id] and not _commute(tries, base, one, other)
    ]
    declared = {patch.id: patch.requires for patch in changing}
    return Graph(recipe, release, tuple(p.id for p in changing), needs, declared, tuple(pairs), tuple(idle))


def _needed(
    tries: _Tries,
    base: str,
    patch: Patch,
    earlier: Sequence[Patch],
    touched: Mapping[str, set[str]],
    needs: Mapping[str, tuple[str, ...]],
) -> tuple[str, ...]:
    """A smallest set of earlier patches with which *patch* goes in; only the ones it needs itself, not what those need."""
    if tries.on(base, patch) is not None:
        return ()
    kept = [other for other in earlier if touched[other.id] & touched[patch.id]]
    kept = [other for other in earlier if other in kept or any(other.id in _all(needs, k.id) for k in kept)]
    for other in reversed(list(kept)):
        if any(other.id in _all(needs, needed.id) for needed in kept):
            continue  # another one that is needed needs it
        without = [item for item in kept if item is not other]
        tree = tries.all_on(base, without)
        if tree is not None and tries.on(tree, patch) is not None:
            kept = without
    below = {name for item in kept for name in _all(needs, item.id)}
    return tuple(item.id for item in kept if item.id not in below)


def _all(needs: Mapping[str, tuple[str, ...]], patch: str) -> set[str]:
    """Everything that *patch* needs, directly or not."""
    found: set[str] = set()
    left = list(needs.get(patch, ()))
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += needs.get(name, ())
    return found


def _commute(tries: _Tries, base: str, one: Patch, other: Patch) -> bool:
    """Do both orders give one tree? True too where one does not go in alone: then it is a need, not an order."""
    alone = [tries.on(base, patch) for patch in (one, other)]
    if None in alone:
        return True
    return tries.all_on(base, [one, other]) == tries.all_on(base, [other, one])


class _Tries:
    """Patches on trees, each tried once."""

    def __init__(self, store: Store, release: str, donor_file: Callable[..., bytes]) -> None:
        self._store = store
        self._release = release
        self._donor_file = donor_file
        self._known: dict[tuple[str, str], tuple[Outcome, str] | None] = {}
        self._wanted: dict[str, Outcome] = {}

    def first(self, tree: str, patch: Patch) -> str | None:
        """The tree after *patch* in the series itself, which says what it is to go in; None where it changes nothing."""
        found = self._on(tree, patch)
        if found is None:
            return None
        self._wanted[patch.id] = found[0]
        return found[1]

    def on(self, tree: str, patch: Patch) -> str | None:
        """The tree after *patch*; None where it does not become what it becomes in the series."""
        found = self._on(tree, patch)
        good = found is not None and found[0] in (Outcome.APPLIES, self._wanted[patch.id])
        return found[1] if found and good else None

    def all_on(self, tree: str, patches: Sequence[Patch]) -> str | None:
        """The tree after all of *patches*; None where one does not go in."""
        for patch in patches:
            after = self.on(tree, patch)
            if after is None:
                return None
            tree = after
        return tree

    def _on(self, tree: str, patch: Patch) -> tuple[Outcome, str] | None:
        if (tree, patch.id) not in self._known:
            self._known[tree, patch.id] = self._try(tree, patch)
        return self._known[tree, patch.id]

    def _try(self, tree: str, patch: Patch) -> tuple[Outcome, str] | None:
        try:
            variant = patch.variant_for(self._release)
            step = apply_patch(self._store, tree, "", patch, variant, self._donor_file, verify=False)
        except PatchsetError:
            return None
        return (step.outcome, step.tree) if step.outcome.changes_tree else None


# -- drawn --------------------------------------------------------------------------------------------------------------


def lines(found: Graph) -> list[str]:
    """The graph as text for a terminal: each patch, what it needs, and what is only declared."""
    told = []
    for patch in found.patches:
        needs, declared = found.needs[patch], found.declared[patch]
        parts = [f"needs {', '.join(needs)}"] if needs else ["goes in alone"]
        only = [name for name in declared if name not in needs]
        parts += [f"declared only, not by its text: {', '.join(only)}"] if only else []
        undeclared = [name for name in needs if name not in declared]
        parts += [f"not declared in requires: {', '.join(undeclared)}"] if undeclared else []
        told.append(f"{patch}: {'; '.join(parts)}")
    told += [f"order matters: {one} before {other}" for one, other in found.order_matters]
    return [*told, *(f"{patch}: changes nothing at {found.release}" for patch in found.idle)]


def dot(found: Graph) -> str:
    """The graph in the DOT language: an arrow from a patch to what it needs."""
    out = [f"digraph {_quoted(f'{found.recipe} on {found.release}')} {{", "  rankdir=BT;", "  node [shape=box];"]
    out += [f"  {_quoted(patch)};" for patch in found.patches]
    out += [f"  {_quoted(patch)} [style=dashed];" for patch in found.idle]
    for patch in found.patches:
        out += [f"  {_quoted(patch)} -> {_quoted(name)};" for name in found.needs[patch]]
        only = [name for name in found.declared[patch] if name not in found.needs[patch]]
        out += [f'  {_quoted(patch)} -> {_quoted(name)} [style=dashed, label="declared"];' for name in only]
    out += [f'  {_quoted(b)} -> {_quoted(a)} [dir=none, style=dotted, label="order"];' for a, b in found.order_matters]
    return "\n".join([*out, "}", ""])


def svg(text: str) -> bytes:
    """*text*, in the DOT language, as a picture.

    :raises MissingTool: graphviz is not installed, or cannot read it.
    """
    program = shutil.which("dot")
    if not program:
        raise MissingTool(
            "graphviz is not installed", next="sudo apt install graphviz, or --dot FILE for the text of it"
        )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "graph.dot")
        source.write_text(text, encoding="utf-8")
        ended = process.run([program, "-Tsvg", source], cwd=folder, env=process.clean_environment(), timeout=120)
    if ended.returncode:
        raise MissingTool(
            "dot could not draw the graph", detail=ended.tail(), next="--dot FILE writes what it was given"
        )
    return ended.stdout


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
