"""Patches on a tree: what becomes of each, in order, and the tree after it. Trees in, trees out; no worktree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchset.errors import DiffRefused, SeriesError
from patchset.merging import Conflict
from patchset.outcome import Became, DonorFile, Outcome, become
from patchset.patch import Patch, Variant
from patchset.placing import Place
from patchset.store import Store

__all__ = ["Applied", "Outcome", "Step", "apply_patch", "apply_series", "check_compiles", "require"]


@dataclass(frozen=True)
class Step:
    """One patch of a series on the tree before it.

    ``tree`` and ``commit`` are those after it (those before it where it changes nothing); ``touched`` are the paths
    that differ; ``evidence`` are lines for a person: offsets, the place of an upstream fix, hunks in conflict. ``places``
    are the hunks of the variant's diff on the tree before it, ``conflicts`` both sides of each clash.
    """

    patch: str
    title: str
    variant: str
    outcome: Outcome
    evidence: tuple[str, ...]
    tree: str
    commit: str
    touched: tuple[str, ...]
    places: tuple[Place, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True)
class Applied:
    """A series on a base: its steps, and the tree and commit at the end."""

    base_tree: str
    base_commit: str
    steps: tuple[Step, ...]
    tree: str
    commit: str

    @property
    def touched(self) -> tuple[str, ...]:
        """Every path that some step changed, sorted."""
        return tuple(sorted({path for step in self.steps for path in step.touched}))


def apply_series(
    store: Store,
    base_tree: str,
    release: str,
    patches: Sequence[Patch],
    base_commit: str | None,
    donor_file: DonorFile,
    *,
    verify: bool = True,
) -> Applied:
    """Apply *patches* in order to *base_tree* and return what became of each.

    A patch that cannot be applied leaves the tree as it was and says so in its outcome; the next one is tried all the
    same, so that one run shows all that is wrong. Callers that need a runtime pass the result to :func:`require`.

    :param release: of the base; it chooses each patch's variant.
    :param base_commit: None makes no commits: then only trees can be had of the result.
    :param verify: git computes each result a second time.
    :raises SeriesError: a patch has no variant for *release*.
    """
    tree, commit, steps = base_tree, base_commit or "", []
    for patch in patches:
        step = apply_patch(store, tree, commit, patch, patch.variant_for(release), donor_file, verify=verify)
        steps.append(step)
        tree, commit = step.tree, step.commit
    return Applied(base_tree, base_commit or "", tuple(steps), tree, commit)


def apply_patch(
    store: Store,
    tree: str,
    commit: str,
    patch: Patch,
    variant: Variant,
    donor_file: DonorFile,
    *,
    verify: bool = True,
) -> Step:
    """One patch on *tree*; *commit* is the commit of *tree*, or empty where no commits are wanted."""
    try:
        became = become(store, tree, variant, donor_file, verify=verify)
    except DiffRefused as refusal:
        became = Became(Outcome.REFUSED, (str(refusal),), tree)
    if became.outcome.changes_tree:
        if became.tree == tree:
            raise SeriesError(
                f"patch {patch.id} applied and changed nothing",
                where=variant.name,
                next=f"look at {variant.diff}: it describes the tree as it already is",
            )
        if commit:
            message = f"{patch.title}\n\nPatch: {patch.id}"
            commit = store.commit(became.tree, (commit,), message, patch.date)
    touched = store.changed_paths(tree, became.tree) if became.tree != tree else ()
    return Step(
        patch.id,
        patch.title,
        variant.name,
        became.outcome,
        became.evidence,
        became.tree,
        commit,
        touched,
        became.places,
        became.conflicts,
    )


def require(applied: Applied) -> None:
    """A runtime can be made of *applied*.

    :raises SeriesError: some patch conflicts, is ambiguous, partly in, or refused; all of them are named.
    """
    bad = [step for step in applied.steps if step.outcome.stops]
    if bad:
        detail = "\n".join(
            f"{step.patch}: {step.outcome.value}\n" + "\n".join(f"    {line}" for line in step.evidence) for step in bad
        )
        refused = all(step.outcome is Outcome.REFUSED for step in bad)
        raise (DiffRefused if refused else SeriesError)(
            f"{', '.join(f'{step.patch} ({step.outcome.value})' for step in bad)}: not applied",
            where=bad[0].variant,
            detail=detail,
            next="mend the variant named above under recipes/patches, then: ./inv apply",
        )


def check_compiles(store: Store, tree: str, paths: Iterable[str]) -> None:
    """Every Python file among *paths* of *tree* compiles.

    :raises SeriesError: one does not: a patch that applied cleanly in the wrong place often shows here first.
    """
    for path in paths:
        data = store.read(tree, path) if path.endswith(".py") else None
        if data is None:
            continue
        try:
            # more than ast.parse: a `return` or `continue` that landed outside its block only shows here
            compile(data, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            line = getattr(error, "lineno", 0)
            raise SeriesError(
                f"after the series {path} does not compile: {error}",
                where=f"{path}:{line}",
                next="./inv apply --checkout DIR, and look at that line",
            ) from error
