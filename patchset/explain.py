"""Why a patch does not go in: where its files and lines went, and the release at which its variant stopped fitting.

Nothing here says that a defect is fixed. Lines that are gone may have moved, and lines that moved may be as wrong as before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import PurePosixPath

from patchset.diff_model import FileDiff, Hunk
from patchset.diff_rules import show
from patchset.errors import DiffRefused, SourceError
from patchset.outcome import DonorFile, become, files_of, lines_with
from patchset.patch import Variant
from patchset.placing import lines_of, places
from patchset.store import Store

#: How far the search for moved lines goes: so many changed files, none larger than this.
_FILES = 400
_BYTES = 2 * 1024 * 1024
#: Lines with something in them that a hunk must have to be looked for elsewhere; fewer would be found anywhere.
_TELLING_LINES = 3


@dataclass(frozen=True)
class Moved:
    """Where a file, or some lines of it, went.

    ``to`` is None where that is not known. ``similarity`` is how alike the two files are in percent, by git's rename
    detection (of the least like step, where it was followed from release to release); 0 where only lines moved.
    ``identical``: the old lines of each hunk stand in ``to`` byte for byte, at ``lines`` (from 1); a file that moved with
    other lines has those of its hunks that stand there.
    """

    path: str
    to: str | None
    similarity: int
    identical: bool
    lines: tuple[int, ...]


@dataclass(frozen=True)
class Why:
    """Why one variant does not go in on one release.

    ``first_broken`` is the first release, on the way from those where the variant goes in, at which it does not.
    ``alone``: it goes in on the untouched base, so that a patch before it in the series is what is in its way.
    """

    moved: tuple[Moved, ...]
    first_broken: str | None
    alone: bool


@dataclass(frozen=True)
class _Lost:
    """A hunk of *file* that stands neither at its *path* nor *here*, where that file is now."""

    path: str
    here: str
    file: FileDiff
    hunk: Hunk

    @property
    def telling(self) -> bytes:
        """Its longest old line: the one least likely to stand anywhere by chance."""
        return max(self.hunk.old, key=len)


@dataclass(frozen=True)
class _Changed:
    """A file that is not what it was, by its path, the folders above it and its ending. ``old``: it was there before."""

    path: str
    folders: tuple[str, ...]
    kind: str
    old: bool


@dataclass(frozen=True)
class Explainer:
    """Explains on the bases of *trees* (release → tree id, ascending), which are all in *store*."""

    store: Store
    trees: Mapping[str, str]
    donor_file: DonorFile
    _goes: dict[tuple[Variant, str], bool] = field(default_factory=dict)
    _renames: dict[tuple[str, str], Mapping[str, tuple[str, int]]] = field(default_factory=dict)
    _changed: dict[tuple[str, str], tuple[_Changed, ...]] = field(default_factory=dict)

    def why(self, release: str, variant: Variant) -> Why:
        """Why *variant* does not go in on *release*, which must be one of the trees."""
        covered = self._covered(release, variant)
        home = covered[0] if covered else None
        working = next((name for name in covered if self._goes_in(name, variant)), None)
        moved = self.moved(self.trees[home] if home else None, self.trees[release], variant)
        return Why(moved, self._first_broken(working, release, variant), self._goes_in(release, variant))

    def saw(self, release: str, variant: Variant, *, goes_in: bool) -> None:
        """Remember what became of *variant* on the untouched base of *release*, so that it is not tried again."""
        self._goes[variant, self.trees[release]] = goes_in

    def _covered(self, release: str, variant: Variant) -> list[str]:
        """The releases that *variant* is for, without *release* itself, the nearest to it first."""
        order = list(self.trees)
        here = order.index(release)
        covered = [name for name in order if variant.releases.contains(name, prereleases=True) and name != release]
        return sorted(covered, key=lambda name: abs(order.index(name) - here))

    def _first_broken(self, working: str | None, release: str, variant: Variant) -> str | None:
        """The first release after *working*, towards *release*, on which *variant* does not go in. By the text only."""
        if working is None:
            return None
        order = list(self.trees)
        start, end = order.index(working), order.index(release)
        # a walk: what is rewritten and put back would mislead a bisection, and a step costs milliseconds
        way = order[start + 1 : end + 1] if start < end else order[end:start][::-1]
        return next((name for name in way if not self._goes_in(name, variant)), None)

    def _goes_in(self, release: str, variant: Variant) -> bool:
        key = (variant, self.trees[release])
        if key not in self._goes:
            try:
                became = become(self.store, self.trees[release], variant, self.donor_file, verify=False)
                self._goes[key] = not became.outcome.stops
            except (DiffRefused, SourceError):
                self._goes[key] = False
        return self._goes[key]

    # -- where things went ---------------------------------------------------------------------------------------------

    def moved(self, origin: str | None, tree: str, variant: Variant) -> tuple[Moved, ...]:
        """Where the files and lines that *variant* needs went between the trees *origin* and *tree*.

        Without an *origin* only what is gone can be told.
        """
        found: list[Moved] = []
        for present in variant.upstream:
            if self.store.entry(tree, present.file) is None:
                to, likeness = self._renamed(origin, tree, present.file)
                lines = self._lines_with(tree, to, present.line)
                found.append(Moved(present.file, to, likeness, bool(lines), lines))
        lost: list[_Lost] = []
        for file in files_of(variant):
            if file.old_path is not None and file.change != "add":
                found += self._followed(origin, tree, os.fsdecode(file.old_path), file, lost)
        elsewhere = self._elsewhere(origin, tree, lost) if origin and lost else {}
        found += [Moved(path, other, 0, True, tuple(lines)) for (path, other), lines in elsewhere.items()]
        known = {item.path for item in found if item.to}
        return tuple(dict.fromkeys(item for item in found if item.to or item.path not in known))

    def _followed(self, origin: str | None, tree: str, path: str, file: FileDiff, lost: list[_Lost]) -> Iterator[Moved]:
        """Where the file at *path* went, if it is gone; the hunks that do not stand there go to *lost*."""
        gone = self.store.entry(tree, path) is None
        to, likeness = self._renamed(origin, tree, path) if gone else (path, 0)
        found = places([file], lambda _: self.store.read(tree, to) if to else None)
        lost += [
            _Lost(path, to or path, file, hunk)
            for hunk, place in zip(file.hunks, found, strict=True)
            if not place.fits and not place.done and sum(bool(line.strip()) for line in hunk.old) >= _TELLING_LINES
        ]
        if gone:
            lines = tuple(place.fits[0] for place in found if place.fits)
            yield Moved(show(file.old_path or b""), to, likeness, 0 < len(lines) == len(file.hunks), lines)

    def _elsewhere(self, origin: str, tree: str, lost: Sequence[_Lost]) -> dict[tuple[str, str], list[int]]:
        """(path, other file) → lines at which the old side of hunks of *lost* stands there, byte for byte.

        Only files that changed since *origin* are looked at: a look-alike that was always there is no move.
        """
        found: dict[tuple[str, str], list[int]] = {}
        wanted = list(lost)
        for other in self._candidates(origin, tree, wanted):
            data = self.store.read(tree, other) or b""
            if not wanted or len(data) > _BYTES:
                continue
            lines = set(lines_of(data))  # one look-up tells nearly always that a hunk is not there
            for item in [item for item in wanted if other != item.here and item.telling in lines]:
                file = replace(item.file, change="modify", hunks=(item.hunk,))
                fits = places([file], lambda _, data=data: data)[0].fits
                if fits:
                    found.setdefault((item.path, other), []).append(fits[0])
                    wanted.remove(item)
        return found

    def _candidates(self, origin: str, tree: str, lost: Sequence[_Lost]) -> list[str]:
        """Files of *tree* that differ from *origin*'s and could hold what is lost, the likeliest first."""
        kinds = {PurePosixPath(item.path).suffix for item in lost}
        homes = {PurePosixPath(item.path).parent.parts for item in lost}
        near: dict[tuple[str, ...], int] = {}
        ranked = []
        for other in self._changed_files(origin, tree):
            if other.kind in kinds:
                if other.folders not in near:
                    near[other.folders] = max(_shared(home, other.folders) for home in homes)
                ranked.append((other.old, -near[other.folders], other.path))
        return [path for _, _, path in sorted(ranked)[:_FILES]]

    def _changed_files(self, origin: str, tree: str) -> tuple[_Changed, ...]:
        """The files of *tree* that differ from *origin*'s; many patches ask for the same two."""
        if (origin, tree) not in self._changed:
            paths = [path for path in self.store.changed_paths(origin, tree) if self.store.entry(tree, path)]
            self._changed[origin, tree] = tuple(
                _Changed(path, at.parent.parts, at.suffix, self.store.entry(origin, path) is not None)
                for path, at in ((path, PurePosixPath(path)) for path in paths)
            )
        return self._changed[origin, tree]

    def _renamed(self, origin: str | None, tree: str, path: str) -> tuple[str | None, int]:
        """Where *path* of *origin* is in *tree*, and how alike the two are in percent; (None, 0) if that cannot be told.

        It is followed from release to release: over many at once a file that moved early has changed beyond recognition.
        """
        if origin is None:
            return None, 0
        followed = self._chain(origin, tree, path)
        return followed if followed[0] else self._pair(origin, tree).get(path, (None, 0))

    def _chain(self, origin: str, tree: str, path: str) -> tuple[str | None, int]:
        order = list(self.trees.values())
        if origin not in order or tree not in order:
            return None, 0
        start, end = order.index(origin), order.index(tree)
        way = order[start : end + 1] if start < end else order[end : start + 1][::-1]
        here, likeness = path, 100
        for before, after in pairwise(way):
            if self.store.entry(after, here) is None:
                here, step = self._pair(before, after).get(here, ("", 0))
                likeness = min(likeness, step)
                if not here:
                    return None, 0
        return (here, likeness) if here != path else (None, 0)

    def _pair(self, before: str, after: str) -> Mapping[str, tuple[str, int]]:
        if (before, after) not in self._renames:
            self._renames[before, after] = self.store.renames(before, after)
        return self._renames[before, after]

    def _lines_with(self, tree: str, path: str | None, line: str) -> tuple[int, ...]:
        return lines_with((self.store.read(tree, path) if path else None) or b"", line)


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    """How many folders from the top two paths have in common."""
    return next(
        (depth for depth, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), len(first)
    )
