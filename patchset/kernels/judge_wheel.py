"""What a kernels wheel is, and what its operators' checks say. Pure."""

from __future__ import annotations

import re

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from patchset.kernels.finding import Finding, Verdict, Wish
from patchset.kernels.have import NAME, Had
from patchset.kernels.read import Contents
from patchset.patch import Variant

#: The patch that short speculative groups need where the kernels refuse them.
BOUNDARY = "mtp-boundary"

_GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)")
_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_")
_PYTHONS = tuple(f"3.{minor}" for minor in range(8, 20))


def version(had: Had, wish: Wish) -> Finding:
    """Is it the version that release and recipe ask for, with the hash that is pinned?"""
    this = Version(had.version)
    sides = [
        (f"release {wish.release}", wish.required),
        (f"recipe {wish.recipe}", wish.stack.get(NAME, "")),
    ]
    said = [f"{who} asks for {what}" for who, what in sides if what]
    against = [who for who, what in sides if what and not SpecifierSet(what).contains(this, prereleases=True)]
    if against:
        advice = f"serve with {NAME}{wish.required}" if wish.required else ""
        return Finding("version", Verdict.MIND, f"this is {had.version}; {'; '.join(said)}", (), advice)
    if not said:
        return Finding("version", Verdict.UNKNOWN, f"this is {had.version}; neither release nor recipe asks for one")
    known = "its hash is the pinned one" if had.pinned else had.note or "its hash is pinned nowhere"
    return Finding("version", Verdict.GOOD if had.pinned else Verdict.MIND, f"{had.version}, as asked for; {known}")


def python(had: Had, wish: Wish) -> Finding:
    """Does pip install it for the recipe's Pythons?"""
    specifier = wish.stack.get("python", "")
    if not specifier:
        return Finding("Python", Verdict.UNKNOWN, f"the recipe names no Python; the wheel is for {', '.join(had.tags)}")
    asked = [python for python in _PYTHONS if SpecifierSet(specifier).contains(python)]
    served = [python for python in asked if any(_serves(tag, python) for tag in had.tags)]
    text = f"tagged {', '.join(had.tags)}; the recipe has Python {specifier}"
    if not served:
        return Finding("Python", Verdict.BAD, f"{text}: pip installs it for none of {', '.join(asked) or 'these'}")
    left = [python for python in asked if python not in served]
    if left:
        return Finding("Python", Verdict.MIND, f"{text}: not for {', '.join(left)}")
    return Finding("Python", Verdict.GOOD, text)


def _serves(tag: str, python: str) -> bool:
    """Does pip install a wheel of this tag for CPython *python*? (The packaging specification's compatibility tags.)"""
    interpreter, abi, _ = tag.split("-", 2)
    minor = int(python.partition(".")[2])
    match = re.fullmatch(r"(cp|py)3(\d*)", interpreter)
    if not match:
        return False
    least = int(match[2] or 0)
    return least == minor if abi.startswith("cp3") else least <= minor


def glibc(had: Had, found: Contents) -> Finding:
    """Does it need a newer glibc than its tag says?"""
    needed = {
        (int(match[1]), int(match[2])): item.file
        for item in found.objects
        for _, version in item.versions
        for match in [_GLIBC.match(version)]
        if match
    }
    claimed = [(int(match[1]), int(match[2])) for tag in had.tags for match in [_MANYLINUX.search(tag)] if match]
    if not needed:
        return Finding("glibc", Verdict.UNKNOWN, "no object asks for a version of it")
    most = max(needed)
    text = f"needs {most[0]}.{most[1]}"
    if not claimed:
        return Finding("glibc", Verdict.GOOD, f"{text}; the tag claims no version")
    least = max(claimed)
    if most > least:
        return Finding(
            "glibc",
            Verdict.MIND,
            f"{text}, and the tag claims {least[0]}.{least[1]}",
            (needed[most],),
            "ldd --version on the host",
        )
    return Finding("glibc", Verdict.GOOD, f"{text}; the tag claims {least[0]}.{least[1]}")


# -- what the operators' checks say ------------------------------------------------------------------------------------


def group_rule(found: Contents, wish: Wish) -> Finding:
    """Are short speculative groups refused, and if so: does any reach the operator?"""
    about = "speculative groups"
    rules = sorted({rule for _, rule in found.groups})
    places = tuple(sorted({file for file, _ in found.groups}))
    if len(rules) != 1 or rules[0] not in ("==", "<="):
        why = f"the check compares with {' and '.join(rules)}" if rules else "the check's text is in no object"
        return Finding(about, Verdict.UNKNOWN, f"whether short groups are refused is not known: {why}", places)
    if rules == ["<="]:
        more = f"; {BOUNDARY} is applied, and these kernels do not need it" if wish.applied else ""
        return Finding(about, Verdict.GOOD, f"short groups are taken (<=): {BOUNDARY} is not needed{more}", places)
    refuse = "your kernels refuse ragged groups (==)"
    if wish.applied:
        return Finding(about, Verdict.GOOD, f"{refuse}, and {BOUNDARY} pads them", places)
    variant = _variant(wish)
    if variant is None:
        why = f"nothing is declared of {BOUNDARY} for {wish.release}"
        return Finding(about, Verdict.UNKNOWN, f"{refuse}; whether any reaches them is not known: {why}", places)
    if variant.absent:
        return Finding(about, Verdict.GOOD, f"{refuse}; in {wish.release} none reaches them: {variant.note}", places)
    if variant.changes_tree:
        advice = f"add {BOUNDARY} to [series] patches of {wish.recipe}, then ./inv runtime -r {wish.recipe}"
        return Finding(about, Verdict.BAD, f"{refuse}, and the series lacks {BOUNDARY}", places, advice)
    text = f"{refuse}, and {wish.release} counts on kernels that take them: {variant.note}"
    return Finding(about, Verdict.BAD, text, places, f"serve with {NAME}{wish.required}")


def _variant(wish: Wish) -> Variant | None:
    if wish.patch is None or not wish.patch.covers(wish.release):
        return None
    return wish.patch.variant_for(wish.release)


def mixed(found: Contents) -> Finding:
    """Is a batch that mixes speculative groups with a prefill refused?"""
    about = "mixed batches"
    places = tuple(sorted({file for file, _ in found.mixed}))
    if places:
        text = "refused: with speculation on, a batch of speculative groups beside a prefill ends the engine"
        return Finding(about, Verdict.MIND, f"{text} ({found.mixed[0][1]})", places)
    if not found.groups:
        return Finding(about, Verdict.UNKNOWN, "neither this refusal nor the check of groups is in any object's texts")
    return Finding(about, Verdict.GOOD, "no object has the text of the refusal of 0.1.12 and 0.1.13")
