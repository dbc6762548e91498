"""From a recipe to trees: the pin becomes a base, the series is applied to it, and the lock says what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.version import Version

from patchset import series, sources, wheel
from patchset.bases import Bases, base_commit
from patchset.environment import lock_hash
from patchset.errors import DeclarationError, SeriesError
from patchset.lab import LOCK as LAB_REQUIREMENTS
from patchset.lock import Lock, LockedPatch, LockedPin, differences, read_lock, require_same
from patchset.patch import Patch, read_patches
from patchset.recipe import Recipe, read_recipe, recipe_file
from patchset.series import Applied
from patchset.sources import BaseTree
from patchset.store import Store
from patchset.upstream import Release, Upstream, read_upstreams
from patchset.workspace import Workspace, digest, write_atomically


@dataclass(frozen=True)
class Project:
    """What is declared in a clone: the upstreams and every patch, read and checked."""

    workspace: Workspace
    upstreams: Mapping[str, Upstream]
    patches: Mapping[str, Patch]

    @classmethod
    def read(cls, workspace: Workspace) -> Project:
        """Read everything below *workspace*'s ``vendor/upstreams.toml`` and ``recipes/patches``.

        :raises DeclarationError: with file and line.
        """
        upstreams = read_upstreams(workspace.upstreams)
        return cls(workspace, upstreams, read_patches(workspace.patches, upstreams["vllm"]))

    def recipe(self, name: str) -> Recipe:
        """The recipe called *name*, checked against upstreams and patches.

        :raises DeclarationError: with file and line.
        """
        return read_recipe(recipe_file(self.workspace.recipes, name), self.upstreams, self.patches)

    def bases(self, store: Store, say: Callable[[str], None] = lambda text: None, upstream: str = "vllm") -> Bases:
        """The bases of *upstream*'s releases in *store*."""
        return Bases(self.workspace, self.upstreams[upstream], store, say)

    def series_of(self, recipe: Recipe) -> tuple[Patch, ...]:
        """The patches of *recipe*'s series in order."""
        return tuple(self.patches[name] for name in recipe.series)


@dataclass(frozen=True)
class Resolved:
    """A recipe with its base, the series on it, and the lock that says so. ``version`` is the wheel's."""

    recipe: Recipe
    release: Release
    base: BaseTree
    applied: Applied
    lock: Lock

    @property
    def version(self) -> str:
        """``<release>+xpu.<label>.<8 of the patched tree's id>``."""
        return self.lock.version


def resolve(project: Project, recipe: Recipe, store: Store, say: Callable[[str], None]) -> Resolved:
    """Get the base, apply the series, and compute the lock; nothing is written but objects in the store.
    The lock on disk is *not* yet compared: see :func:`require_locked`.

    :raises SourceError: the base or a donor cannot be had as pinned.
    :raises SeriesError: a patch has no variant, cannot be applied, or leaves a file that does not compile.
    """
    workspace = project.workspace
    upstream = project.upstreams[recipe.pin.upstream]
    release = upstream.release(recipe.pin.release)
    old = _usable(read_lock(recipe.file.with_suffix(".lock")), recipe, release)
    with workspace.scratch() as scratch:
        base = sources.resolve(_pin(recipe, upstream, old), store, cache=workspace.archives, scratch=scratch)
    if base.note:
        say(f"  base: {base.note}")
    store.complete(base.tree)
    commit = base_commit(store, upstream, release.version, base.tree)
    donor_file = project.bases(store, say, upstream.name).donor_file
    applied = series.apply_series(store, base.tree, release.version, project.series_of(recipe), commit, donor_file)
    series.require(applied)
    _require_retired(recipe, applied)
    series.check_compiles(store, applied.tree, applied.touched)
    store.keep(f"runtimes/{recipe.name}", applied.commit)
    return Resolved(recipe, release, base, applied, _lock(project, recipe, release, base, applied))


def require_locked(resolved: Resolved) -> bool:
    """Compare with the lock on disk. True: there is none yet.

    :raises LockError: there is one and it says otherwise.
    """
    file = resolved.recipe.file.with_suffix(".lock")
    old = read_lock(file)
    if old is not None:
        require_same(file, old, resolved.lock)
    return old is None


def relock(project: Project, recipe: Recipe, say: Callable[[str], None]) -> tuple[Path, tuple[str, ...]]:
    """Resolve *recipe* and write its lock if that changed: (the file, the lines that changed; ``new`` for a first one)."""
    file = recipe.file.with_suffix(".lock")
    try:
        old = read_lock(file)
    except DeclarationError as error:  # of an older version of this tool, or damaged: it is made anew, by request
        say(f"  the lock there cannot be read and is made anew: {error}")
        file.unlink()
        old = None
    resolved = resolve(project, recipe, Store.open(project.workspace.store), say)
    changed = differences(old, resolved.lock) if old else ("new",)
    if changed:
        write_lock(resolved)
    return file, changed


def write_lock(resolved: Resolved) -> None:
    """Write the lock beside its recipe; a commit that the old one knew is kept."""
    write_atomically(resolved.recipe.file.with_suffix(".lock"), resolved.lock.text().encode())


def _require_retired(recipe: Recipe, applied: Applied) -> None:
    """What is recorded as not needed any more must be so in this run."""
    became = {step.patch: step for step in applied.steps}
    for item in recipe.retired:
        if became[item.patch].outcome.changes_tree:
            raise SeriesError(
                f"patch {item.patch} is retired here ({item.reason}), and yet it {became[item.patch].outcome.value}",
                where=f"{recipe.file.name}, variant {became[item.patch].variant}",
                next=f"take its [[series.retired]] out of {recipe.file.name}, or mend its variant in patch.toml",
            )


def _usable(old: Lock | None, recipe: Recipe, release: Release) -> Lock | None:
    """A lock of another declaration says nothing about this one's base: its tree must not be taken for it."""
    if old is None:
        return None
    pin = old.pin
    locked = (pin.upstream, pin.release, pin.sha256, pin.size, pin.source, pin.repository, pin.ref)
    wanted = recipe.pin
    declared = (
        wanted.upstream,
        wanted.release,
        release.sha256,
        release.size,
        wanted.source,
        wanted.repository,
        wanted.ref,
    )
    return old if locked == declared else None


def _pin(recipe: Recipe, upstream: Upstream, old: Lock | None) -> sources.Pin:
    release = upstream.release(recipe.pin.release)
    return sources.Pin(
        distribution=upstream.distribution,
        release=release.version,
        source=recipe.pin.source,
        sha256=release.sha256,
        size=release.size,
        url=recipe.pin.repository,
        ref=recipe.pin.ref,
        commit=old.pin.commit if old else None,
        tree=old.pin.tree if old else None,
    )


def _lock(project: Project, recipe: Recipe, release: Release, base: BaseTree, applied: Applied) -> Lock:
    upstream = project.upstreams[recipe.pin.upstream]
    patches = tuple(
        LockedPatch(
            step.patch, project.patches[step.patch].digest_for(release.version), step.outcome, step.tree, step.commit
        )
        for step in applied.steps
    )
    donors = tuple(
        donor
        for step in applied.steps
        if step.outcome.changes_tree
        for donor in project.patches[step.patch].variant_for(release.version).donors
    )
    archive = sources.default_filename(sources.Pin(upstream.distribution, release.version))
    pin = LockedPin(
        upstream.name,
        release.version,
        archive,
        release.sha256,
        release.size,
        base.commit,
        base.tree,
        applied.base_commit,
        recipe.pin.source,
        recipe.pin.repository,
        recipe.pin.ref,
    )
    # A local version's part of digits only loses its leading zeros in normal form: packaging says what it is then called.
    version = str(Version(f"{release.version}+xpu.{recipe.label}.{applied.tree[:8]}"))
    return Lock(
        recipe.name,
        pin,
        donors,
        patches,
        applied.tree,
        applied.commit,
        version,
        digest([dict(recipe.stack), [asdict(item) for item in recipe.omitted], recipe.rust]),
        (*wheel.environments(), ("lab", lock_hash(LAB_REQUIREMENTS))),
    )
