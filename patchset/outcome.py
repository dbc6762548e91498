"""What becomes of one variant on one tree: the eight outcomes, each with its evidence. Trees in, trees out."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from patchset import diff as diffs
from patchset import diff_check, merging, patching
from patchset.diff_model import FileDiff
from patchset.diff_rules import check_link, show
from patchset.errors import DiffRefused, StoreError
from patchset.merging import Conflict
from patchset.patch import Absent, Donor, Present, Variant
from patchset.placing import Place, places
from patchset.store import Entry, Store

#: Lines named of a hunk that fits in more places than one.
_SHOWN = 20

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
class Became:
    """What a variant became.

    ``evidence`` are lines for a person; ``tree`` is the one after it (the one before, where nothing is changed);
    ``places`` are the hunks of its diff on the tree before; ``conflicts`` both sides of each clash.
    """

    outcome: Outcome
    evidence: tuple[str, ...]
    tree: str
    places: tuple[Place, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


def become(store: Store, tree: str, variant: Variant, donor_file: DonorFile, *, verify: bool = True) -> Became:
    """*variant* on *tree*. With *verify* git computes each result a second time, and they must agree.

    :raises DiffRefused: its diff is turned away.
    """
    missing, found = _evidence(store, tree, variant)
    if missing:
        return Became(Outcome.CONFLICTS, missing, tree)
    if not variant.changes_tree:
        outcome = Outcome.ABSENT if variant.absent or variant.proved == "absent" else Outcome.UPSTREAM
        return Became(outcome, (*([variant.note] if variant.note else []), *found), tree)
    after, donated = tree, []
    for donor in variant.donors:
        if store.entry(tree, donor.to):
            why = f"{donor.to} is there already; the donor file of {donor.release} would replace it"
            return Became(Outcome.CONFLICTS, (why,), tree)
        after = store.with_file(after, donor.to, Entry("100644", store.write_blob(donor_file(donor))))
        donated.append(f"{donor.to} from {donor.release}, sha256 {donor.sha256[:12]}…")
    if variant.diff is None:
        return Became(Outcome.APPLIES, (*donated, *found), after)
    became = apply_diff(store, after, variant.diff, verify=verify)
    result = became.tree if became.outcome.changes_tree else tree
    return Became(became.outcome, (*donated, *became.evidence, *found), result, became.places, became.conflicts)


# -- evidence of a variant ---------------------------------------------------------------------------------------------


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
    if variant.proved:
        found.append(f"no line of the tree is named for it: its probe alone says that it is {variant.proved} here")
    return tuple(missing), tuple(found)


def _find_line(store: Store, tree: str, present: Present) -> int:
    found = lines_with(store.read(tree, present.file) or b"", present.line)
    return found[0] if found else 0


def lines_with(data: bytes, line: str) -> tuple[int, ...]:
    """The lines (from 1) of *data* that are *line* once they are stripped."""
    wanted = line.encode()
    return tuple(number for number, text in enumerate(data.split(b"\n"), 1) if text.strip() == wanted)


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


# -- a diff on a tree --------------------------------------------------------------------------------------------------


def apply_diff(store: Store, tree: str, diff: Path | bytes, name: str = "", *, verify: bool = True) -> Became:
    """*diff* (a file, or its bytes) on *tree*; *name* is how messages call it (default: the file's, with its folder).

    :raises DiffRefused: the strict reader turns it away.
    :raises StoreError: git makes another tree of it than this tool; then neither is to be believed.
    """
    data = diff if isinstance(diff, bytes) else diff.read_bytes()
    name = name or ("the diff" if isinstance(diff, bytes) else f"{diff.parent.name}/{diff.name}")
    files = _read(store, data, name)
    found = places(files, lambda path: store.read(tree, os.fsdecode(path)))
    forward, backward, refusal = _try(store, tree, data, files, found, name, verify)
    if forward and backward:
        why = "it applies both forward and backward: what it adds is there, and so is what it replaces"
        return Became(Outcome.AMBIGUOUS, (why,), tree, found)
    twice = [place for place in found if place.ambiguous]
    if forward and twice:
        lines = tuple(f"{place} fits at lines {_numbers(place.fits)}" for place in twice)
        return Became(Outcome.AMBIGUOUS, lines, tree, found)
    if forward:
        _check_links(store, forward, files, name)
        return Became(Outcome.APPLIES, _offsets(found), forward, found)
    if backward and all(file.change == "delete" for file in files):
        # A file that is not there may have been deleted or never made: not found is not fixed.
        return Became(Outcome.ABSENT, tuple(f"no {show(file.path)}" for file in files), tree, found)
    if backward:
        lines = tuple(f"{place} is in at line {place.done[0]}" for place in found if place.done)
        return Became(Outcome.UPSTREAM, lines, tree, found)
    inside = [place for place in found if place.done and not place.fits]
    if inside and all(place.done or place.fits for place in found):
        lines = tuple(f"{place}: {f'in at line {place.done[0]}' if place in inside else 'not in'}" for place in found)
        return Became(Outcome.PARTIAL, lines, tree, found)
    return _merge(store, tree, data, files, found, refusal)


def files_of(variant: Variant) -> tuple[FileDiff, ...]:
    """The structure of the diff of *variant*; none where it has none, or it is refused, which shows when it is applied."""
    try:
        return diffs.read(variant.diff.read_bytes(), variant.diff.name) if variant.diff else ()
    except DiffRefused:
        return ()


@lru_cache(maxsize=256)
def _read(store: Store, data: bytes, name: str) -> tuple[FileDiff, ...]:
    """The structure of a diff, in which this tool, git and unidiff agree."""
    files = diffs.read(data, name)
    try:
        diff_check.cross_check(files, store.numstat(data), data, name)
    except StoreError as error:
        raise DiffRefused(
            f"git cannot read it: {error.what}", where=name, next="make the diff again: git diff --full-index --binary"
        ) from error
    return files


def _try(
    store: Store, tree: str, data: bytes, files: Sequence[FileDiff], found: Sequence[Place], name: str, verify: bool
) -> tuple[str | None, str | None, str]:
    """(tree with the diff in, tree with it taken out, what git said); None where it does not go that way."""
    ours = _computed(store, tree, files, found)
    if ours and not verify:
        return ours, None, ""
    if not verify and _plain(files) and any(not place.fits and not place.done for place in found):
        return None, None, ""  # neither side of that hunk stands there, so it goes neither way
    forward, refusal = store.apply(tree, data)
    backward, _ = store.apply(tree, data, reverse=True)
    # git only warns where an old mode is another one than the diff says; a change that changes nothing is none
    forward, backward = (None if result == tree else result for result in (forward, backward))
    if ours and (forward != ours or backward):
        raise StoreError(
            f"git makes the tree {forward} of this diff, and this tool {ours}",
            where=name,
            next="report it with the diff; until then, make the diff again with more context",
        )
    return forward, backward, refusal


def _plain(files: Sequence[FileDiff]) -> bool:
    """Does each diff of a file stand for itself? A second one goes on the first's result; what is gone has no lines."""
    paths = [path for file in files for path in {file.old_path, file.new_path} if path]
    return len(set(paths)) == len(paths) and all(file.change in ("modify", "add", "mode") for file in files)


def _computed(store: Store, tree: str, files: Sequence[FileDiff], found: Sequence[Place]) -> str | None:
    """The tree with the diff in, where that can be told without git, and it cannot be in already."""
    if all(place.done for place in found):
        return None

    def file_at(path: bytes) -> patching.File:
        entry = store.entry(tree, os.fsdecode(path))
        return (entry.mode, store.blob(entry.blob)) if entry else None

    made = patching.result(files, found, file_at, lambda path: store.is_free(tree, os.fsdecode(path)))
    return None if made is None else store.with_files(tree, _entries(store, made))


def _entries(store: Store, made: Mapping[bytes, patching.File]) -> dict[str, Entry | None]:
    return {
        os.fsdecode(path): Entry(file[0], store.write_blob(file[1])) if file else None for path, file in made.items()
    }


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


def _numbers(lines: Sequence[int]) -> str:
    shown = ", ".join(map(str, lines[:_SHOWN]))
    return shown if len(lines) <= _SHOWN else f"{shown} and {len(lines) - _SHOWN} more"


def _offsets(found: tuple[Place, ...]) -> tuple[str, ...]:
    moved = [place for place in found if place.offset]
    if not moved:
        return ("at the lines it names",)
    return tuple(f"{place}: offset {place.offset:+d}" for place in moved)


def _merge(
    store: Store, tree: str, data: bytes, files: tuple[FileDiff, ...], found: tuple[Place, ...], refusal: str
) -> Became:
    """Three-way, where the diff names the whole ids of its old files and the store has them."""
    lost = tuple(
        f"{place}: {'the file is not there' if place.missing else 'its old lines are not there'}"
        for place in found
        if not place.fits and not place.done
    )
    inside = tuple(f"{place} is in at line {place.done[0]}" for place in found if place.done and not place.fits)
    lines = (*lost, *inside) or ((refusal.strip(),) if refusal.strip() else ())
    merged = merging.three_way(store, tree, data, files)
    if merged is None:
        clashes = merging.from_hunks(files, found, lambda path: store.read(tree, os.fsdecode(path)))
        return Became(Outcome.CONFLICTS, lines or ("git cannot apply it",), tree, found, clashes)
    if merged.clashing:
        told = tuple(f"three-way merge: {path} conflicts" for path in merged.clashing)
        return Became(Outcome.CONFLICTS, (*told, *lines), tree, found, merged.conflicts)
    return Became(Outcome.MERGES, lines, merged.tree, found)
