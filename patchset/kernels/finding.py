"""One answer about a kernels wheel, and what of a recipe the answers depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from patchset.errors import KernelsError
from patchset.kernels.have import NAME, Had
from patchset.patch import Patch


class Verdict(Enum):
    """``BAD``: it will fail on the host. ``MIND``: it may, or it is not as pinned. ``UNKNOWN``: it could not be told."""

    GOOD = "good"
    MIND = "mind"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One answer: about what, the verdict, why, where to look, and what to do (empty: nothing)."""

    about: str
    verdict: Verdict
    text: str
    places: tuple[str, ...] = ()
    next: str = ""


@dataclass(frozen=True)
class Wish:
    """What the recipe asks for. ``stack``: its own; ``required``: the version that the release asks for, as a specifier;
    ``patch``: the declared boundary patch, ``applied``: whether it changes this recipe's tree."""

    recipe: str
    release: str
    stack: Mapping[str, str]
    required: str
    patch: Patch | None
    applied: bool


def require(findings: tuple[Finding, ...], had: Had) -> None:
    """Nothing was found that will fail on the host.

    :raises KernelsError: something was; each is in its detail.
    """
    bad = [finding for finding in findings if finding.verdict is Verdict.BAD]
    if bad:
        raise KernelsError(
            f"{NAME} {had.version} will fail beside this recipe: {', '.join(finding.about for finding in bad)}",
            where=had.path.name,
            detail="\n".join(f"{finding.about}: {finding.text}" for finding in bad),
            next=next((finding.next for finding in bad if finding.next), "./inv kernels shows where"),
        )
