"""Rules on what is written down: patch.toml, probes, diffs, recipes and resolutions; no tree is looked at."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

from patchset import declared, diff, newpatch
from patchset.bump import resolutions
from patchset.diff_model import Hunk
from patchset.errors import DeclarationError, DiffRefused
from patchset.lint_model import Finding, attempt, of_error, says_nothing, toml_of
from patchset.lint_model import TomlFile as Toml
from patchset.patch import KINDS, Patch, Variant, covered, read_patch, read_reference, read_variant
from patchset.recipe import Recipe
from patchset.upstream import Upstream
from patchset.workspace import Workspace

#: Words that it takes at least: to say why a patch is there, and to say when it can go or why it is left out.
_WHY_WORDS = 8
_REASON_WORDS = 3

#: The reason that a new patch gets in the recipes that it was not made for.
_UNTRIED = re.compile(r"; not tried on \S+ yet\Z")

#: What a patch's folder holds beside its diffs.
_OWN = ("patch.toml", "probe.py", "proof.py")


def read(folder: Path, upstream: Upstream) -> tuple[Patch | None, list[Finding]]:
    """The patch in *folder*, or everything that keeps it from being read: all of it, not only the first."""
    try:
        return read_patch(folder, upstream), []
    except DeclarationError as error:
        found = [of_error("declaration", error), *_more_faults(folder, upstream)]
        return None, list(dict.fromkeys(found))


def _more_faults(folder: Path, upstream: Upstream) -> Iterator[Finding]:
    """What is wrong with each key, reference, variant and pair of ranges, each looked at alone."""
    try:
        table = declared.read(folder / "patch.toml")
        references, variants = table.tables("upstream"), table.tables("variant")
    except DeclarationError:
        return  # it is no TOML, or not of that shape: the first fault says so
    heads = (*(partial(table.text, key) for key in ("title", "why", "drop-when")), partial(table.one_of, "kind", KINDS))
    for head in (*heads, partial(table.moment, "date"), partial(table.texts, "requires", ()), table.done):
        yield from attempt("declaration", DeclarationError, head)
    for item in references:
        yield from attempt("declaration", DeclarationError, partial(read_reference, item))
    good: list[tuple[int, Variant]] = []
    for index, item in enumerate(variants):
        try:
            good.append((index, read_variant(item, folder, upstream)))
        except DeclarationError as error:
            yield of_error("declaration", error)
    for (_, one), (index, other) in combinations(good, 2):
        both = [r for r in upstream.releases if one.releases.contains(r) and other.releases.contains(r)]
        if both:
            yield of_error(
                "declaration",
                # in the words of read_patch, so that the pair it names is not told twice
                variants[index].error(
                    f"release {both[0]} is in more than one range: {one.name}; {other.name}", key="releases"
                ),
            )


def patch_rules(
    patch: Patch, patches: Mapping[str, Patch], names: Container[str], known: Sequence[str]
) -> Iterator[Finding]:
    """Everything that can be said of *patch* without a tree.

    :param patches: those that can be read; *names* has the others too.
    :param known: all releases, ascending.
    """
    yield from _reasons(patch)
    yield from _gaps(patch, known)
    yield from _requires(patch, patches, names)
    yield from _stray(patch)
    yield from _probe(patch)
    for file in dict.fromkeys(variant.diff for variant in patch.variants if variant.diff):
        yield from _blanks(file)


def recipe_rules(recipe: Recipe) -> Iterator[Finding]:
    """The reasons that *recipe* gives for what it leaves out, and for what it holds to be done upstream."""
    file = Toml(recipe.file)
    for index, item in enumerate(recipe.omitted):
        bad = says_nothing(item.reason, _REASON_WORDS)
        where = file.at("series", "omit", index, "reason")
        if bad:
            yield Finding("error", "reasons", where, f"the reason to leave {item.patch} out {bad}", "say why")
        elif _UNTRIED.search(item.reason):
            yield Finding(
                "warning",
                "reasons",
                where,
                f"nobody has tried {item.patch} on {recipe.pin.release} yet",
                f"./inv forecast --patch {item.patch} --releases {recipe.pin.release}",
            )
    for index, retired in enumerate(recipe.retired):
        bad = says_nothing(retired.reason, _REASON_WORDS)
        if bad:
            where = file.at("series", "retired", index, "reason")
            yield Finding("error", "reasons", where, f"the reason to retire {retired.patch} {bad}", "say why")
        if retired.upstream and not retired.upstream.startswith("https://"):
            where = file.at("series", "retired", index, "upstream")
            yield Finding("error", "references", where, f"{retired.upstream!r} is no https URL", "name it by its URL")


def resolution_rules(workspace: Workspace) -> list[Finding]:
    """Resolutions of earlier conflicts that cannot be read."""
    folder = workspace.recipes / "resolutions"
    return attempt("resolutions", DeclarationError, lambda: resolutions.read(folder))


# -- one rule each ------------------------------------------------------------------------------------------------------


def _reasons(patch: Patch) -> Iterator[Finding]:
    file = toml_of(patch)
    bad = says_nothing(patch.why, _WHY_WORDS)
    if not bad and " ".join(patch.why.split()) == patch.title:
        bad = "is only the title again"
    if bad:
        yield Finding("error", "reasons", file.at("why"), f"why {bad}", "say what fails without it, and for whom")
    bad = says_nothing(patch.drop_when, _REASON_WORDS)
    if newpatch.NOBODY_SAID in patch.drop_when:
        bad = "is the generated text"
    if bad:
        yield Finding("error", "reasons", file.at("drop-when"), f"drop-when {bad}", "say when the patch can go")


def _gaps(patch: Patch, known: Sequence[str]) -> Iterator[Finding]:
    have = covered(patch, dict.fromkeys(known))
    inside = known[known.index(have[0]) : known.index(have[-1]) + 1]
    where, look = toml_of(patch).at("variant"), f"./inv forecast --patch {patch.id}"
    for release in inside:
        if release not in have:
            what = f"no variant covers {release}, between two releases that have one"
            yield Finding("error", "gap", where, what, f"{look} --releases {release}")
    outside = [release for release in known if release not in inside]
    if outside:
        yield Finding("warning", "gap", where, f"it says nothing about {', '.join(outside)}", look)


def _requires(patch: Patch, patches: Mapping[str, Patch], names: Container[str]) -> Iterator[Finding]:
    file = toml_of(patch)
    for index, needed in enumerate(patch.requires):
        what = ""
        if needed == patch.id:
            what = "requires itself"
        elif needed not in names:
            what = f"requires {needed!r}, which is no patch here"
        elif needed in patches and patch.id in _reached(needed, patches):
            what = f"requires {needed!r}, which requires {patch.id!r} in turn: no order has both"
        if what:
            yield Finding("error", "requires", file.at("requires", index), what, "take it out of requires")


def _reached(patch: str, patches: Mapping[str, Patch]) -> set[str]:
    found: set[str] = set()
    left = [patch]
    while left:
        for needed in patches[left.pop()].requires:
            if needed in patches and needed not in found:
                found.add(needed)
                left.append(needed)
    return found


def _stray(patch: Patch) -> Iterator[Finding]:
    """Files that nothing uses. (A .patch that no variant names is an error of the declaration.)"""
    used = {*_OWN, *(variant.diff.name for variant in patch.variants if variant.diff)}
    for item in sorted(patch.folder.iterdir()):
        if item.name not in used and not item.name.startswith((".", "__")):
            yield Finding(
                "warning",
                "stray",
                str(item),
                "nothing names it: no variant, and no rule of this project",
                "name it in a [[variant]], or delete it",
            )


def _probe(patch: Patch) -> Iterator[Finding]:
    source = patch.probe.read_bytes()
    for program in (patch.probe, patch.proof):
        if program is None:
            continue
        try:
            compile(program.read_bytes(), str(program), "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            where, advice = f"{program}:{getattr(error, 'lineno', None) or 1}", f"mend it, then ./inv {program.stem}"
            yield Finding("error", "probe", where, f"it does not compile: {error}", advice)
    for text, what in ((newpatch.UNWRITTEN, "it is the generated one, which shows nothing"), ("", "it is empty")):
        if text.encode() in source if text else not source.strip():
            at = source[: source.find(text.encode())].count(b"\n") + 1
            advice = "write it: run the tree's code, so that it is red without the patch and green with it"
            yield Finding("error", "probe", f"{patch.probe}:{at}", what, advice)


def _blanks(file: Path) -> Iterator[Finding]:
    """Blanks at the end of added lines: they show as noise in every later diff of that file."""
    data = file.read_bytes()
    try:
        files = diff.read(data, f"{file.parent.name}/{file.name}")
    except DiffRefused as error:
        line = error.where.rpartition(":")[2]
        where = f"{file}:{line}" if line.isdigit() else str(file)
        yield Finding("error", "diff", where, error.what, error.next)
        return
    lines = data.split(b"\n")
    for number in _added(lines, (hunk for part in files for hunk in part.hunks)):
        line = lines[number - 1].removesuffix(b"\r")
        if line.rstrip(b" \t") != line:
            yield Finding(
                "error",
                "blanks",
                f"{file}:{number}",
                "an added line ends in blanks",
                f"take them out: ./inv edit {file.parent.name}",
            )


def _added(lines: Sequence[bytes], hunks: Iterable[Hunk]) -> Iterator[int]:
    """The numbers (from 1) of the lines that *hunks* add, in the diff that *lines* are."""
    for hunk in hunks:
        left, number = len(hunk.old) + hunk.added, hunk.line
        while left > 0:
            number += 1
            if lines[number - 1].startswith(b"\\"):
                continue  # "\ No newline at end of file" is about the line before
            left -= 1
            if lines[number - 1].startswith(b"+"):
                yield number
