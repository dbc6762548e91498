"""Rules on trees: what each variant becomes on each release of its range, and each recipe's series, lock and export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset import export, resolve, sources
from patchset.bases import Bases
from patchset.environment import lock_hash
from patchset.errors import DeclarationError, PatchsetError, SourceError
from patchset.forecast import Cell, text_pass
from patchset.lab import LOCK as LAB_REQUIREMENTS
from patchset.lint_model import Finding, NotChecked, at_variant, of_error
from patchset.lock import Lock, differences, read_lock
from patchset.outcome import Outcome
from patchset.patch import Patch, covered
from patchset.recipe import Recipe
from patchset.resolve import Project
from patchset.wheel import environments


def variant_rules(project: Project, bases: Bases, recipes: Sequence[Recipe]) -> tuple[list[Finding], list[NotChecked]]:
    """Each variant on each release of its range that is here, behind the patches before it."""
    here = dict(bases.here())
    series = max((recipe.series for recipe in recipes), key=len, default=())
    order = [project.patches[name] for name in dict.fromkeys([*series, *project.patches])]
    wanted = [release for release in bases.upstream.releases if any(covered(patch, {release: 0}) for patch in order)]
    missing = [release for release in wanted if release not in here]
    skipped = []
    if missing:
        span = missing[0] if len(missing) == 1 else f"{len(missing)} releases ({missing[0]} … {missing[-1]})"
        brings = f"./inv forecast --releases {','.join(missing)}"
        skipped.append(NotChecked("trees, unique", f"the patches on {span}", "not in the store", brings))
    cells, unavailable = text_pass(bases.store, bases, {r: here[r] for r in wanted if r in here}, order)
    skipped += [
        NotChecked("trees, unique", f"the patches on {item.release}", item.why, item.next) for item in unavailable
    ]
    return [finding for cell in cells if cell.covered for finding in _cell(cell)], skipped


def _cell(cell: Cell) -> Iterator[Finding]:
    step, patch = cell.step, cell.patch
    where, on = at_variant(patch, cell.variant), f"{cell.variant.name} on {cell.release}"
    again = f"./inv forecast --patch {patch.id} --releases {cell.release}"
    told = "; ".join(step.evidence[:3])
    for place in step.places:
        if place.ambiguous:
            what = f"{on}: the old lines of {place} stand at lines {', '.join(map(str, place.fits))}"
            yield Finding("error", "unique", where, what, "make the diff with more context, or narrow the range")
    if step.outcome.stops and not any(place.ambiguous for place in step.places):
        yield Finding("error", "trees", where, f"{on}: {step.outcome.value}: {told}", again)
    elif step.outcome is Outcome.MERGES:
        what = f"{on}: it only goes in by a three-way merge: {told}"
        yield Finding("warning", "trees", where, what, f"./inv bump --to {cell.release} makes a variant of it")
    elif cell.variant.changes_tree and not step.outcome.changes_tree and not step.outcome.stops:
        yield Finding("error", "trees", where, f"{on}: its diff is {step.outcome.value} there: {told}", again)


def recipe_rules(project: Project, recipe: Recipe, bases: Bases) -> tuple[list[Finding], list[NotChecked]]:
    """The lock of *recipe*, as far as it shows; and, where its base is here, its series, its whole lock and its export."""
    found, locked = _lock(project, recipe)
    why = _not_here(project, recipe, bases, locked)
    if why:
        what, brings = f"the series of {recipe.name}, and the trees of its lock", f"./inv apply -r {recipe.name}"
        return found, [NotChecked("series, lock, export", what, why, brings)]
    try:
        resolved = resolve.resolve(project, recipe, bases.store, lambda text: None)
        wrong = export.check_untouched(project, resolved, bases.store)
    except PatchsetError as error:
        return [*found, of_error("series", error, recipe.name)], []
    edits = f"./inv apply -r {recipe.name} --checkout DIR, mend it there, then ./inv export -r {recipe.name} --from DIR"
    found += [Finding("error", "export", str(recipe.file), text, edits) for text in wrong]
    changed = differences(locked, resolved.lock) if locked and not found else ()
    if changed:
        lines = [line for line in changed if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        what = f"it is not what the recipe resolves to: {'; '.join(lines[:4])}"
        found.append(Finding("error", "lock", str(_lock_file(recipe)), what, f"./inv lock -r {recipe.name}"))
    return found, []


def _not_here(project: Project, recipe: Recipe, bases: Bases, lock: Lock | None) -> str:
    """Why *recipe* cannot be resolved from what is here; empty: it can."""
    pin = recipe.pin
    if lock is None and _lock_file(recipe).exists():
        return "its lock cannot be read"
    named = lock is not None and not list(_other_pin(project, recipe, lock)) and bases.store.has_object(lock.pin.tree)
    if pin.source == "checkout":
        # what a branch is today only its host knows; a lock that holds says which commit and tree it was
        if not named or lock is None or lock.pin.commit is None:
            return f"what {pin.repository} has at {pin.ref} is not in the store"
    elif pin.release not in bases.here():
        return f"the base {pin.release} is not in the store"
    elif pin.source == "auto" and not named and not _archive(project, recipe).is_file():
        return "no lock names the base, and its archive is not under vendor/"
    for patch in project.series_of(recipe):
        donors = [
            donor for variant in patch.variants if variant.releases.contains(pin.release) for donor in variant.donors
        ]
        for donor in donors:
            if donor.release not in bases.here():
                return f"{donor.release}, of which {patch.id} takes a file, is not in the store"
    return ""


def _archive(project: Project, recipe: Recipe) -> Path:
    """Where the archive of the recipe's release lies once it was fetched."""
    distribution = project.upstreams[recipe.pin.upstream].distribution
    return project.workspace.archives / sources.default_filename(sources.Pin(distribution, recipe.pin.release))


@dataclass(frozen=True)
class Local(Bases):
    """Bases that are here already: nothing is fetched."""

    def tree(self, release: str) -> str:
        """The tree of *release*.

        :raises SourceError: it is not in the store.
        """
        if release not in self.here():
            raise SourceError(f"{release} is not in the store", next=f"./inv forecast --releases {release}")
        return super().tree(release)


def orphan_locks(folder: Path) -> Iterator[Finding]:
    """Locks in *folder* whose recipe is gone."""
    for file in sorted(folder.glob("*.lock")):
        if not file.with_suffix(".toml").is_file():
            yield Finding("error", "lock", str(file), "there is no recipe of that name", f"delete {file.name}")


def _lock_file(recipe: Recipe) -> Path:
    return recipe.file.with_suffix(".lock")


def _lock(project: Project, recipe: Recipe) -> tuple[list[Finding], Lock | None]:
    """What a lock says otherwise than the declarations, without any tree; and the lock."""
    file, again = _lock_file(recipe), f"./inv lock -r {recipe.name}"
    try:
        lock = read_lock(file)
    except DeclarationError as error:
        return [of_error("lock", error)], None
    if lock is None:
        return [Finding("warning", "lock", str(file), "there is none yet", again)], None
    wrong = list(_outdated(project, recipe, lock))
    return [Finding("error", "lock", str(file), "; ".join(wrong), again)] if wrong else [], lock


def _other_pin(project: Project, recipe: Recipe, lock: Lock) -> Iterator[str]:
    pin, release = lock.pin, project.upstreams[recipe.pin.upstream].release(recipe.pin.release)
    declared = {
        "upstream": (pin.upstream, recipe.pin.upstream),
        "release": (pin.release, recipe.pin.release),
        "sha256 of the archive": (pin.sha256, release.sha256),
        "size of the archive": (pin.size, release.size),
        "source": (pin.source, recipe.pin.source),
        "repository": (pin.repository, recipe.pin.repository),
        "ref": (pin.ref, recipe.pin.ref),
    }
    yield from (f"its {name} is {was}, and now it is {now}" for name, (was, now) in declared.items() if was != now)


def _outdated(project: Project, recipe: Recipe, lock: Lock) -> Iterator[str]:
    yield from _other_pin(project, recipe, lock)
    locked = tuple(item.id for item in lock.patches)
    if locked != recipe.series:
        yield f"its series is {', '.join(locked) or 'empty'}, and now it is {', '.join(recipe.series) or 'empty'}"
    retired = {item.patch for item in recipe.retired}
    for item in lock.patches:
        patch = project.patches.get(item.id)
        if patch and item.id in recipe.series and item.digest != _digest(patch, recipe.pin.release):
            yield f"patch {item.id} is another one by now"
        if item.id in retired and item.outcome.changes_tree:
            yield f"patch {item.id} is retired, and there it {item.outcome.value}"
    now = {**dict(environments()), "lab": lock_hash(LAB_REQUIREMENTS)}
    for name in sorted({*now, *dict(lock.environments)}):
        if dict(lock.environments).get(name) != now.get(name):
            yield f"the requirements of the environment {name} are other ones by now"


def _digest(patch: Patch, release: str) -> str:
    return patch.digest_for(release) if covered(patch, {release: 0}) else ""
