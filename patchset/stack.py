"""What a release must run beside: torch, Triton, vllm-xpu-kernels, transformers, Python; and what a change of one means.

Read from the release's own tree. What stands in no tree and was found out otherwise is in :data:`KNOWLEDGE`, with its
source; what a change means for the patches is in :data:`MEANINGS`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from patchset.errors import SourceError
from patchset.store import Store

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: In the order of a recipe's [stack]. ``triton-xpu`` up to 0.27, ``triton`` (a shim that requires it) from 0.28 on.
NAMES = ("python", "torch", "triton-xpu", "triton", "vllm-xpu-kernels", "transformers")

_XPU = "requirements/xpu.txt"
_COMMON = "requirements/common.txt"
_DOCKER = "docker/Dockerfile.xpu"
_PYPROJECT = "pyproject.toml"


@dataclass(frozen=True)
class Known:
    """What is known of one name and stands in no tree, for a range of releases; why, and where that is from."""

    name: str
    specifier: str
    releases: SpecifierSet
    why: str
    source: str


KNOWLEDGE = (
    Known(
        "python",
        "<3.14",
        SpecifierSet(">=0.19.1"),
        "wheels, probes and kernels here were proved with Python 3.10 to 3.13; releases themselves allow 3.14 from 0.20.0 on",
        "this project's own requires-python",
    ),
    Known(
        "transformers",
        ">=5.10",
        SpecifierSet(">=0.19.1"),
        "the configuration of Gemma 4 unified came with transformers 5.10 (absent in 5.9.0), whatever the release's own floor says",
        "recipes/patches/gemma4-unified/patch.toml, executed",
    ),
    Known(
        "transformers",
        "<5.15",
        SpecifierSet(">=0.19.1,<=0.27.1"),
        "from 5.15 on the text configuration of Gemma 4 has no global_head_dim and refuses a plain read of head_dim, which "
        "these releases do (0.28.0 reads it by layer)",
        "recipes/patches/gemma4-unified/patch.toml; vllm/model_executor/models/gemma4.py of 0.19.1, 0.27.1 and 0.28.0",
    ),
)


@dataclass(frozen=True)
class Meaning:
    """What it means for the series that *name* goes to, or past, *version*; ``back`` says it for the other way."""

    name: str
    version: str
    text: str
    back: str


MEANINGS = (
    Meaning(
        "vllm-xpu-kernels",
        "0.1.12",
        "0.1.12 and 0.1.13 refuse any batch that mixes speculative groups with a prefill",
        "mixed batches of speculative groups and a prefill are not refused",
    ),
    Meaning(
        "vllm-xpu-kernels",
        "0.1.14",
        "mixed batches are taken again; convolution states become one window in column 0 (kernels #544)",
        "convolution states are one snapshot a column again (kernels #544)",
    ),
    Meaning(
        "vllm-xpu-kernels",
        "0.1.15.3",
        "contains the boundary fix (kernels #600): short speculative groups are taken, and mtp-boundary is not needed",
        "does not contain the boundary fix (kernels #600): mtp-boundary is needed",
    ),
    Meaning(
        "torch",
        "2.14",
        "the pointer rule flips (pytorch#191458): item assignment into a uint64 tensor takes 2**63 and more, and refuses wrapped "
        "negatives; mamba-uint64-pointers writes what both take",
        "the pointer rule flips back (pytorch#191458): item assignment refuses 2**63 and more even into a uint64 tensor",
    ),
    Meaning(
        "python",
        "3.11",
        "Python 3.10 is not enough any more",
        "Python 3.10 is enough",
    ),
    # 5.10 itself is what KNOWLEDGE raises a floor to that is too low; above it the floor is the release's own.
    Meaning(
        "transformers",
        "5.10.1",
        "the release's own floor is now high enough for Gemma 4 unified; below, 5.10 is asked for here",
        "the release's own floor is too low for Gemma 4 unified: 5.10 is asked for here",
    ),
)


@dataclass(frozen=True)
class Change:
    """One name whose specifier differs between two releases (empty: it is not asked for), and what that means."""

    name: str
    before: str
    after: str
    meaning: str


def of(store: Store, tree: str, release: str) -> dict[str, str]:
    """Distribution (or ``python``) → specifier that the release at *tree* must run beside, in the order of a recipe.

    :raises SourceError: the tree does not say it in any of the ways that releases are known to.
    """
    stated = stated_in(store, tree)
    found = {}
    for name in NAMES:
        known = [item.specifier for item in KNOWLEDGE if item.name == name and item.releases.contains(release, True)]
        if name in stated:
            found[name] = together([stated[name], *known])
    return found


def stated_in(store: Store, tree: str) -> dict[str, str]:
    """The same as the tree itself says it, before anything that is only known.

    :raises SourceError: as for :func:`of`.
    """
    xpu = _requirements(_text(store, tree, _XPU))
    found = {
        "python": _python(_text(store, tree, _PYPROJECT)),
        "torch": xpu.get("torch", ""),
        "vllm-xpu-kernels": xpu.get("vllm-xpu-kernels", ""),
        "transformers": _requirements(_text(store, tree, _COMMON)).get("transformers", ""),
    }
    # From 0.28.0 on a shim is required; before, only the image's recipe says which Triton goes with the torch.
    if "triton" in xpu:
        found["triton"] = xpu["triton"]
    else:
        pinned = re.findall(r"\btriton-xpu(==[0-9][0-9a-z.+]*)", _text(store, tree, _DOCKER))
        found["triton-xpu"] = pinned[-1] if pinned else ""
    if "+" not in found["torch"] and "download.pytorch.org/whl/xpu" in _text(store, tree, _XPU):
        found["torch"] += "+xpu"  # named without its build, from the index that has no other
    for name, specifier in found.items():
        if not specifier or specifier == "+xpu":
            raise SourceError(
                f"the tree does not say which {name} it needs in any known way",
                where=f"tree {tree[:12]}: {', '.join((_XPU, _COMMON, _PYPROJECT, _DOCKER))}",
                next="look at those files, and write the recipe's [stack] by hand",
            )
    return found


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    """What differs between two stacks, and what each difference means for the series."""
    names = [*NAMES, *sorted({*before, *after} - {*NAMES})]
    return tuple(
        Change(
            name, before.get(name, ""), after.get(name, ""), meaning(name, before.get(name, ""), after.get(name, ""))
        )
        for name in names
        if before.get(name) != after.get(name)
    )


def meaning(name: str, before: str, after: str) -> str:
    """What a change of *name* from one specifier to another means; empty where nothing is known to depend on it."""
    if name == "triton" and not before:
        return "a distribution named triton is a shim that requires triton-xpu, so that nothing pulls NVIDIA's into its folder"
    if name == "triton" and not after:
        return "no shim named triton: whatever pulls NVIDIA's triton overwrites triton-xpu's folder"
    old, new = _floor(before), _floor(after)
    if not old or not new:
        return ""
    said = []
    for item in MEANINGS:
        if item.name == name and old < Version(item.version) <= new:
            said.append(item.text)
        if item.name == name and new < Version(item.version) <= old:
            said.append(item.back)
    if name == "transformers" and "<5.15" in before and "<5.15" not in after:
        said.append("reads Gemma 4's text configuration by layer, so 5.15 and later will do")
    if name == "transformers" and "<5.15" in after and "<5.15" not in before:
        said.append("reads Gemma 4's text configuration plainly, which 5.15 and later refuse")
    return "; ".join(said)


def together(texts: Iterable[str]) -> str:
    """One specifier that says all of *texts*, with nothing in it that another part says already: ``>=5.10,<5.15``."""
    parts = [part for text in texts for part in SpecifierSet(text)]
    exact = [part for part in parts if part.operator == "=="]
    if exact:
        return str(exact[0])
    lower = max(
        (p for p in parts if p.operator in (">=", ">")), key=lambda p: (Version(p.version), p.operator), default=None
    )
    upper = min(
        (p for p in parts if p.operator in ("<", "<=")), key=lambda p: (Version(p.version), p.operator), default=None
    )
    holes = sorted((p for p in parts if p.operator == "!=" and _is_hole(p, lower, upper)), key=str)
    rest = sorted((p for p in parts if p.operator in ("~=", "===")), key=str)
    return ",".join([*(_short(part) for part in (lower, upper) if part), *map(str, holes), *map(str, rest)])


def _is_hole(hole: Specifier, lower: Specifier | None, upper: Specifier | None) -> bool:
    """Does it take out anything that the bounds leave?"""
    start = Version(hole.version.removesuffix(".*"))
    below = lower and start < Version(lower.version) and not Specifier(f"=={hole.version}").contains(lower.version)
    return not below and not (upper and start >= Version(upper.version))


def _short(part: Specifier) -> str:
    version = Version(part.version)
    plain = len(version.release) > 2 and str(version) == part.version and version.release[-1] == 0
    return f"{part.operator}{part.version.removesuffix('.0') if plain else part.version}"


def _floor(specifier: str) -> Version | None:
    versions = [Version(part.version) for part in SpecifierSet(specifier) if part.operator in ("==", ">=", ">", "~=")]
    return max((Version(version.public) for version in versions), default=None)


def _text(store: Store, tree: str, path: str) -> str:
    return (store.read(tree, path) or b"").decode("utf-8", "replace")


def _python(text: str) -> str:
    try:
        return str(tomllib.loads(text)["project"]["requires-python"])
    except (ValueError, KeyError, TypeError):
        return ""


def _requirements(text: str) -> dict[str, str]:
    """Canonical name → specifier of each line of a requirements file; a wheel's URL counts as the version in its name."""
    found = {}
    for line in text.splitlines():
        words = line.split(" #")[0].strip()
        if not words or words.startswith(("#", "-")):
            continue
        try:
            requirement = Requirement(words)
            specifier = str(requirement.specifier)
            if requirement.url:
                specifier = f"=={parse_wheel_filename(requirement.url.rsplit('/', 1)[-1])[1]}"
        except (InvalidRequirement, InvalidWheelFilename, InvalidSpecifier):
            continue
        found[canonicalize_name(requirement.name)] = specifier
    return found
