"""Patches on a tree: what becomes of each, in order, and the tree after it. Trees in, trees out; no worktree."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset import diff as diffs
from patchset import diff_check
from patchset.diff_model import FileDiff
from patchset.diff_rules import check_link, show
from patchset.errors import DiffRefused, SeriesError, StoreError
from patchset.patch import Absent, Donor, Patch, Present, Variant
from patchset.placing import Place, places
from patchset.store import Entry, Store

#: The bytes of a donor file, checked against its sha256.
DonorFile = Callable[[Donor], bytes]


class Outcome(str, enum.Enum):
    """What became of one patch on one base."""

    APPLIES = "applies"
    MERGES = "merges"
    UPSTREAM = "upstream"
    PARTIAL = "partial"
    ABSENT = "absent"
    AMBIGUOUS = "ambiguous"
    CONFLICTS = "conflicts"
    REFUSED = "refused"

    @property
    def changes_tree(self) -> bool:
        """Is the patch in the tree because of us?"""
        return self in (Outcome.APPLIES, Outcome.MERGES)

    @property
    def stops(self) -> bool:
        """Can no runtime be made with this outcome?"""
        return self not in (Outcome.APPLIES, Outcome.MERGES, Outcome.UPSTREAM, Outcome.ABSENT)


@dataclass(frozen=True)
class Step:
    """One patch of a series on the tree before it.

    ``tree`` and ``commit`` are those after it (those before it where it changes nothing); ``touched`` are the paths
    that differ; ``evidence`` are lines for a person: offsets, the place of an upstream fix, hunks in conflict.
    """

    patch: str
    title: str
    variant: str
    outcome: Outcome
    evidence: tuple[str, ...]
    tree: str
    commit: str
    touched: tuple[str, ...]


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
    store: Store, base_tree: str, release: str, patches: Sequence[Patch], base_commit: str, donor_file: DonorFile
) -> Applied:
    """Apply *patches* in order to *base_tree* and return what became of each.

    A patch that cannot be applied leaves the tree as it was and says so in its outcome; the next one is tried all the
    same, so that one run shows all that is wrong. Callers that need a runtime pass the result to :func:`require`.

    :param release: of the base; it chooses each patch's variant.
    :raises SeriesError: a patch has no variant for *release*.
    """
    tree, commit, steps = base_tree, base_commit, []
    for patch in patches:
        step = apply_patch(store, tree, commit, patch, patch.variant_for(release), donor_file)
        steps.append(step)
        tree, commit = step.tree, step.commit
    return Applied(base_tree, base_commit, tuple(steps), tree, commit)


def apply_patch(store: Store, tree: str, commit: str, patch: Patch, variant: Variant, donor_file: DonorFile) -> Step:
    """One patch on *tree*; *commit* is the commit of *tree*."""
    try:
        outcome, evidence, after = _become(store, tree, variant, donor_file)
    except DiffRefused as refusal:
        outcome, evidence, after = Outcome.REFUSED, (str(refusal),), tree
    if outcome.changes_tree:
        if after == tree:
            raise SeriesError(
                f"patch {patch.id} applied and changed nothing",
                where=variant.name,
                next=f"look at {variant.diff}: it describes the tree as it already is",
            )
        message = f"{patch.title}\n\nPatch: {patch.id}\nVariant: {variant.name}"
        commit = store.commit(after, (commit,), message, patch.date)
    touched = store.changed_paths(tree, after) if after != tree else ()
    return Step(patch.id, patch.title, variant.name, outcome, evidence, after, commit, touched)


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


# -- what a variant becomes on a tree ----------------------------------------------------------------------------------


def _become(store: Store, tree: str, variant: Variant, donor_file: DonorFile) -> tuple[Outcome, tuple[str, ...], str]:
    missing, found = _evidence(store, tree, variant)
    if missing:
        return Outcome.CONFLICTS, missing, tree
    if not variant.changes_tree:
        outcome = Outcome.UPSTREAM if variant.upstream else Outcome.ABSENT
        return outcome, (*([variant.note] if variant.note else []), *found), tree
    after, donated = tree, []
    for donor in variant.donors:
        if store.entry(tree, donor.to):
            return (
                Outcome.CONFLICTS,
                (f"{donor.to} is there already; the donor file of {donor.release} would replace it",),
                tree,
            )
        after = store.with_file(after, donor.to, Entry("100644", store.write_blob(donor_file(donor))))
        donated.append(f"{donor.to} from {donor.release}, sha256 {donor.sha256[:12]}…")
    if variant.diff is None:
        return Outcome.APPLIES, (*donated, *found), after
    outcome, lines, result = apply_diff(store, after, variant.diff)
    return outcome, (*donated, *lines, *found), result if outcome.changes_tree else tree


def _evidence(store: Store, tree: str, variant: Variant) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(what the variant vouches for and is not so, what it vouches for and is), as lines for a person."""
    missing, found = [], []
    for present in variant.upstream:
        line = _find_line(store, tree, present)
        if line:
            found.append(f"{present.file}:{line}: {present.line}")
        else:
            missing.append(f"{present.file} has no line `{present.line}`: the fix is not where patch.toml says it is")
    for absent in variant.absent:
        text = _absent(store, tree, absent)
        if text.startswith("no "):
            found.append(text)
        else:
            missing.append(text)
    return tuple(missing), tuple(found)


def _find_line(store: Store, tree: str, present: Present) -> int:
    data = store.read(tree, present.file) or b""
    wanted = present.line.encode()
    return next((number for number, line in enumerate(data.split(b"\n"), 1) if line.strip() == wanted), 0)


def _absent(store: Store, tree: str, absent: Absent) -> str:
    data = store.read(tree, absent.file)
    if data is None:
        return f"no {absent.file}" if absent.symbol is None else f"no {absent.file}, so no `{absent.symbol}` there"
    if absent.symbol is None:
        return f"{absent.file} is there: patch.toml says the feature is not"
    at = data.find(absent.symbol.encode())
    if at < 0:
        return f"no `{absent.symbol}` in {absent.file}"
    line = data[:at].count(b"\n") + 1
    return f"{absent.file}:{line} has `{absent.symbol}`: patch.toml says the feature is not there"


def apply_diff(store: Store, tree: str, file: Path) -> tuple[Outcome, tuple[str, ...], str]:
    """The diff in *file* on *tree*: (outcome, lines of evidence, tree after).

    :raises DiffRefused: the strict reader turns it away.
    """
    data = file.read_bytes()
    name = f"{file.parent.name}/{file.name}"
    files = diffs.read(data, name)
    try:
        diff_check.cross_check(files, store.numstat(data), data, name)
    except StoreError as error:
        raise DiffRefused(
            f"git cannot read it: {error.what}", where=name, next="make the diff again: git diff --full-index --binary"
        ) from error
    found = places(files, lambda path: store.read(tree, os.fsdecode(path)))
    forward, refusal = store.apply(tree, data)
    backward, _ = store.apply(tree, data, reverse=True)
    # git only warns where an old mode is another one than the diff says; a change that changes nothing is none
    forward, backward = (None if result == tree else result for result in (forward, backward))
    if forward and backward:
        return (
            Outcome.AMBIGUOUS,
            ("it applies both forward and backward: what it adds is there, and so is what it replaces",),
            tree,
        )
    twice = [place for place in found if place.ambiguous]
    if forward and twice:
        return (
            Outcome.AMBIGUOUS,
            tuple(f"{place} fits at lines {', '.join(map(str, place.fits))}" for place in twice),
            tree,
        )
    if forward:
        _check_links(store, forward, files, name)
        return Outcome.APPLIES, _offsets(found), forward
    if backward and all(file.change == "delete" for file in files):
        # A file that is not there may have been deleted or never made: not found is not fixed.
        return Outcome.ABSENT, tuple(f"no {show(file.path)}" for file in files), tree
    if backward:
        return Outcome.UPSTREAM, tuple(f"{place} is in at line {place.done[0]}" for place in found if place.done), tree
    inside = [place for place in found if place.done and not place.fits]
    if inside and all(place.done or place.fits for place in found):
        return (
            Outcome.PARTIAL,
            tuple(f"{place}: {f'in at line {place.done[0]}' if place in inside else 'not in'}" for place in found),
            tree,
        )
    return _merge(store, tree, data, files, found, refusal)


def _check_links(store: Store, tree: str, files: Sequence[FileDiff], name: str) -> None:
    """A link that the diff moved, or changed without saying that it is one, must stay inside the tree like any other."""
    for file in files:
        if file.new_path is None or file.new_mode in ("100644", "100755"):
            continue
        entry = store.entry(tree, os.fsdecode(file.new_path))
        if entry and entry.mode == "120000":
            check_link(
                file.new_path,
                [store.blob(entry.blob)],
                lambda rule, line=file.line: DiffRefused(
                    rule, where=f"{name}:{line}", next="take that link out of the diff"
                ),
            )


def _offsets(found: tuple[Place, ...]) -> tuple[str, ...]:
    moved = [place for place in found if place.offset]
    if not moved:
        return ("at the lines it names",)
    return tuple(f"{place}: offset {place.offset:+d}" for place in moved)


def _merge(
    store: Store, tree: str, data: bytes, files: tuple[FileDiff, ...], found: tuple[Place, ...], refusal: str
) -> tuple[Outcome, tuple[str, ...], str]:
    """Three-way, where the diff names the whole ids of its old files and the store has them."""
    lines = tuple(
        f"{place}: {'the file is not there' if place.missing else 'its old lines are not there'}"
        for place in found
        if not place.fits and not place.done
    )
    base = tree
    for file in files:
        if file.old_path is None:
            continue
        if not file.old_blob or not store.has_object(file.old_blob):
            return Outcome.CONFLICTS, lines or (refusal.strip(),), tree
        base = store.with_file(
            base, file.old_path.decode("utf-8", "surrogateescape"), Entry(file.old_mode or "100644", file.old_blob)
        )
    theirs, _ = store.apply(base, data)
    if not theirs:
        return Outcome.CONFLICTS, lines or (refusal.strip(),), tree
    merged = store.merge(base, tree, theirs)
    if merged.conflicts:
        return Outcome.CONFLICTS, (*(f"three-way merge: {path} conflicts" for path in merged.conflicts), *lines), tree
    return Outcome.MERGES, lines, merged.tree
