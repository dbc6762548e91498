"""``recipes/PATCHES.md``: what each patch is for, where it goes in, and when it can go; for whoever asks if they need it.

Made of patch.toml, the diffs and the recipes, and of nothing else: the same bytes on every machine and day.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from patchset import diff, markdown
from patchset.changes import Change
from patchset.diff_rules import show
from patchset.errors import DiffRefused
from patchset.markdown import inline
from patchset.patch import Patch, Reference, Variant, read_patch
from patchset.recipe import Recipe, read_recipe
from patchset.resolve import Project
from patchset.workspace import copy_folder

NAME = "PATCHES.md"

_INTRODUCTION = (
    "What is changed in vLLM here, why, and when it need not be any more: for whoever has to decide whether they need a "
    "patch. Generated from `recipes/patches/*/patch.toml` and the recipes by `./inv lint --write`: edit those, not this "
    "page. What each patch becomes on each release, tried on the trees: `./inv forecast`."
)
_KINDS = {"fix": "A fix", "backport": "A backport", "workaround": "A workaround"}
_FILE_WORDS = {"add": "new", "delete": "deleted", "rename": "renamed", "copy": "copied", "mode": "mode"}
_NOTHING = {
    "upstream": "nothing to do, fixed upstream",
    "absent": "nothing to do, what it mends is not there",
    "proved": "nothing to do, its probe finds it {}",
}


def page(patches: Sequence[Patch], recipes: Sequence[Recipe], releases: Sequence[str]) -> str:
    """The whole page: a list of all patches, then each of them.

    :param releases: every known release, ascending.
    :raises DiffRefused: a diff cannot be read.
    """
    listed = [
        f"[{patch.id}](#{_anchor(patch.id)}): {inline(patch.title)}. {_changes(patch, releases)}." for patch in patches
    ]
    parts = ["# Patches", markdown.paragraph(_INTRODUCTION), markdown.bullets(listed)]
    return "\n\n".join([*parts, *(block for patch in patches for block in _section(patch, recipes, releases))]) + "\n"


def file_of(recipes: Path) -> Path:
    """Where the page lies."""
    return recipes / NAME


def with_page(project: Project, changes: Sequence[Change]) -> list[Change]:
    """*changes* to the declarations of *project*, and the page as it is with them: to be made together.

    None, where they change nothing. Nor where a diff cannot be read: then `inv lint` names it, and says that the page was not
    looked at.

    :raises DeclarationError: a patch or recipe could not be read, now or with *changes*: the page is of all of them.
    """
    if not any(change.is_one() for change in changes):
        return list(changes)
    recipes = project.workspace.recipes
    inside = {_below(recipes, change.path): change.data for change in changes}
    with project.workspace.scratch() as scratch:
        patches = _patches_with(project, inside, scratch)
        read = [
            read_recipe(file, project.upstreams, patches)
            for file in _recipe_files_with(recipes, inside, scratch / "toml")
        ]
        try:
            text = page(list(patches.values()), read, tuple(project.upstreams["vllm"].releases))
        except DiffRefused:
            return list(changes)
    return [*changes, Change(file_of(recipes), text.encode())]


def _patches_with(project: Project, inside: Mapping[Path, bytes | None], scratch: Path) -> dict[str, Patch]:
    """Every patch as it is with the changes *inside* the folder of recipes; those that change are read from *scratch*."""
    folder, patches = project.workspace.patches, dict(project.patches)
    changed = {path: data for path, data in inside.items() if path.parts[0] == folder.name and len(path.parts) > 2}
    for id in {path.parts[1] for path in changed}:
        if (folder / id).is_dir():
            copy_folder(folder / id, scratch / folder.name / id)
    for path, data in changed.items():
        _put(scratch / path, data)
    for id in {path.parts[1] for path in changed}:
        patches.pop(id, None)
        if (scratch / folder.name / id / "patch.toml").is_file():
            patches[id] = read_patch(scratch / folder.name / id, project.upstreams["vllm"])
    return dict(sorted(patches.items()))


def _recipe_files_with(recipes: Path, inside: Mapping[Path, bytes | None], scratch: Path) -> list[Path]:
    """The file of each recipe: where it lies, or, where it changes, in *scratch*."""
    files = {file.name: file for file in recipes.glob("*.toml")}
    for path, data in inside.items():
        if len(path.parts) == 1 and path.suffix == ".toml":
            files.pop(path.name, None)
            if data is not None:
                _put(scratch / path, data)
                files[path.name] = scratch / path
    return [file for _, file in sorted(files.items())]


def _below(recipes: Path, path: Path) -> Path:
    """*path* as seen from *recipes*, by whatever name its folder is called; as it is, where it lies elsewhere."""
    for folder, file in ((recipes, path), (recipes.resolve(), path.parent.resolve() / path.name)):
        if file.is_relative_to(folder):
            return file.relative_to(folder)
    return path.absolute()


def _put(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _section(patch: Patch, recipes: Sequence[Recipe], releases: Sequence[str]) -> list[str]:
    needs = f" It needs {' and '.join(f'`{name}`' for name in patch.requires)} before it." if patch.requires else ""
    where, notes = _where(patch, releases), _notes(patch, releases)
    named = [_reference(item) for item in patch.references]
    return [
        f"## {patch.id}",
        markdown.paragraph(f"**{inline(patch.title)}.** {_KINDS[patch.kind]}. {_changes(patch, releases)}.{needs}"),
        *markdown.blocks(patch.why),
        markdown.paragraph(f"**Drop it when:** {inline(_drop_when(patch.drop_when))}"),
        markdown.paragraph(f"**Its [probe](patches/{patch.id}/probe.py):** {inline(probe_says(patch.probe))}"),
        markdown.table(["releases", "what is done"], _rows(patch, releases)),
        *(["Where it changes vLLM:", markdown.bullets(where)] if where else []),
        *(["About these releases:", markdown.bullets(notes)] if notes else []),
        *(["Upstream:", markdown.bullets(named)] if named else ["Upstream: no issue or pull request is named."]),
        *(["Recipes:", markdown.bullets([_recipe(patch, recipe) for recipe in recipes])] if recipes else []),
    ]


# -- by release ---------------------------------------------------------------------------------------------------------


def _rows(patch: Patch, releases: Sequence[str]) -> list[tuple[str, str]]:
    """(releases, what is done there) for every known release, neighbours with the same fate together."""

    return _fates(releases, lambda variant: "nobody has said yet" if variant is None else _done(patch, variant), patch)


def _notes(patch: Patch, releases: Sequence[str]) -> list[str]:
    fates = _fates(releases, lambda variant: inline(variant.note) if variant else "", patch)
    return [f"{names}: {note}" for names, note in fates if note]


def _fates(releases: Sequence[str], told: Callable[[Variant | None], str], patch: Patch) -> list[tuple[str, str]]:
    """(releases, what *told* says of their variant), neighbours of which the same is said together."""
    grouped = groupby(releases, lambda release: told(_variant(patch, release)))
    return [(_named(list(names)), text) for text, names in grouped]


def _done(patch: Patch, variant: Variant) -> str:
    """What a variant does, as Markdown."""
    if not variant.changes_tree:
        kind = "upstream" if variant.upstream else "absent" if variant.absent else "proved"
        return _NOTHING[kind].format(variant.proved)
    sources = dict.fromkeys(donor.release for donor in variant.donors)
    donated = f"{_count(len(variant.donors), 'file')} of {' and '.join(sources)}" if variant.donors else ""
    name = variant.diff.name if variant.diff else ""
    patched = f"changed by [{inline(name)}](patches/{patch.id}/{name})" if name else ""
    return ", then ".join(part for part in (donated, patched) if part)


def _where(patch: Patch, releases: Sequence[str]) -> list[str]:
    """Each file that the patch changes, with the releases in which it does."""
    files: dict[tuple[str, str], list[str]] = {}
    for variant in patch.variants:
        for file in _touched(variant):
            files.setdefault(file, []).extend(_covered(variant, releases))
    return [
        f"`{path}`{f' ({how})' if how else ''}: {_runs(found, releases)}"
        for (path, how), found in sorted(files.items(), key=lambda item: item[0])
    ]


def _touched(variant: Variant) -> list[tuple[str, str]]:
    """(path, what else than a change of its text becomes of it)."""
    donors = [(donor.to, f"taken whole from {donor.release}") for donor in variant.donors]
    if not variant.diff:
        return donors
    files = diff.read(variant.diff.read_bytes(), f"{variant.diff.parent.name}/{variant.diff.name}")
    return [*donors, *((show(file.path), _FILE_WORDS.get(file.change, "")) for file in files)]


def _changes(patch: Patch, releases: Sequence[str]) -> str:
    changed = [name for variant in patch.variants if variant.changes_tree for name in _covered(variant, releases)]
    return f"It changes vLLM {_runs(changed, releases)}" if changed else "It changes nothing on any known release"


def _variant(patch: Patch, release: str) -> Variant | None:
    return next((variant for variant in patch.variants if _covered(variant, [release])), None)


def _covered(variant: Variant, releases: Sequence[str]) -> list[str]:
    return [release for release in releases if variant.releases.contains(release, prereleases=True)]


def _runs(found: Sequence[str], releases: Sequence[str]) -> str:
    """*found*, neighbours as ``first to last``."""
    runs = [list(group) for there, group in groupby(releases, lambda release: release in found) if there]
    return " and ".join(_named(run) for run in runs)


def _named(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


# -- in words -----------------------------------------------------------------------------------------------------------


def _reference(item: Reference) -> str:
    first = f", first in {item.first_release}" if item.first_release else ""
    return f"{_link(item.ref)}, {item.state}{first}: {inline(item.what)}"


def _link(url: str) -> str:
    """A link with the short name that people say: ``vllm#44665``."""
    match = re.fullmatch(r"https://[^/]+/[^/]+/([^/]+)/(?:pull|issues)/(\d+)/?", url)
    name = f"{match[1]}#{match[2]}" if match else url.removeprefix("https://").rstrip("/")
    return f"[{inline(name)}]({url.replace('(', '%28').replace(')', '%29')})"


def _recipe(patch: Patch, recipe: Recipe) -> str:
    name = f"`{recipe.name}` (vLLM {recipe.pin.release})"
    for omitted in recipe.omitted:
        if omitted.patch == patch.id:
            return f"{name} leaves it out: {inline(omitted.reason)}"
    place = f"patch {recipe.series.index(patch.id) + 1} of {len(recipe.series)}"
    for retired in recipe.retired:
        if retired.patch == patch.id:
            since = f", since {retired.first_release}" if retired.first_release else ""
            link = f" ({_link(retired.upstream)})" if retired.upstream.startswith("https://") else ""
            return f"{name}, {place}, retired{since}{link}: {inline(retired.reason)}"
    variant = _variant(patch, recipe.pin.release)
    fate = "nobody has said what it does there" if variant is None else _done(patch, variant)
    return f"{name}, {place}: {fate}"


def probe_says(probe: Path) -> str:
    """What *probe* does, in the first sentence of its docstring."""
    try:
        text = ast.get_docstring(ast.parse(probe.read_bytes())) or ""
    except (SyntaxError, ValueError):
        return "it does not compile."
    first = re.split(r"\n\s*\n|(?<=[.!?])\s", text.strip(), maxsplit=1)[0]
    said = re.sub(r"\AProbe of (?:the patch )?[\w.-]+: *", "", " ".join(first.split()))
    return said[:1].upper() + said[1:] if said else "it does not say what it does."


def _drop_when(text: str) -> str:
    return re.sub(r"\A\s*drop (?:it )?when\s+", "", text, flags=re.IGNORECASE)


def _anchor(name: str) -> str:
    """The anchor that a renderer makes of a heading."""
    return re.sub(r"[^a-z0-9 _-]", "", name.lower()).replace(" ", "-")


def _count(number: int, thing: str) -> str:
    words: Mapping[int, str] = {1: "one", 2: "two", 3: "three"}
    return f"{words.get(number, str(number))} {thing}{'' if number == 1 else 's'}"
