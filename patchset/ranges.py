"""Which of the known releases a person means: ``0.20..0.33``, ``0.30..``, ``..0.22``, ``0.23``, and lists of these."""

from __future__ import annotations

import re
from collections.abc import Sequence

from packaging.version import InvalidVersion, Version

from patchset.errors import DeclarationError

_HOW = "--releases 0.20..0.33, 0.30.., ..0.22.1, 0.23 (all of 0.23.x), or a list of these parted by commas"


def select(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """The releases of *known* (ascending) that *text* names, in their order.

    A bound counts as far as it goes: ``0.20`` as the lower one is 0.20.0, as the upper one all of 0.20.x.

    :raises DeclarationError: a part of *text* is no range, is the wrong way round, or names no known release.
    """
    found: set[str] = set()
    for part in text.split(","):
        low, high = _bounds(part.strip())
        named = {release for release in known if _within(Version(release), low, high)}
        if not named:
            raise DeclarationError(
                f"{part.strip()!r} names no known release (known: {', '.join(known)})",
                where="--releases",
                next="name one of these; ./inv releases shows what the index has beside them, --add makes it known",
            )
        found |= named
    return tuple(release for release in known if release in found)


def _bounds(part: str) -> tuple[Version | None, Version | None]:
    match = re.fullmatch(r"([^.][^ ]*?)?(\.\.)([^.][^ ]*)?|([^ ]+)", part)
    try:
        if not match or part == "..":
            raise ValueError("no range")
        low, _, high, only = match.groups()
        if only:
            low = high = only
        bounds = (Version(low) if low else None, Version(high) if high else None)
        if bounds[0] and bounds[1] and not _within(bounds[0], None, bounds[1]):
            raise ValueError("the wrong way round")
    except (InvalidVersion, ValueError) as error:
        why = "the wrong way round" if "wrong way" in str(error) else "not a range of releases"
        raise DeclarationError(f"{part!r} is {why}", where="--releases", next=_HOW) from error
    return bounds


def _within(release: Version, low: Version | None, high: Version | None) -> bool:
    if low and release < low:
        return False
    return not high or release.release[: len(high.release)] <= high.release
