"""Which releases a person means."""

from __future__ import annotations

import pytest

from patchset.errors import DeclarationError
from patchset.ranges import select

KNOWN = ("0.19.1", "0.20.0", "0.20.2", "0.22.0", "0.22.1", "0.33.0", "0.33.1.post1")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("0.20..0.22", "0.20.0 0.20.2 0.22.0 0.22.1"),
        ("0.20..0.22.0", "0.20.0 0.20.2 0.22.0"),
        ("0.20.1..0.22.0", "0.20.2 0.22.0"),
        ("0.22..", "0.22.0 0.22.1 0.33.0 0.33.1.post1"),
        ("..0.20", "0.19.1 0.20.0 0.20.2"),
        ("..0.20.0", "0.19.1 0.20.0"),
        ("0.33", "0.33.0 0.33.1.post1"),
        ("0.33.0", "0.33.0"),
        ("0.22..0.22", "0.22.0 0.22.1"),
        ("0", " ".join(KNOWN)),
        ("0.33, 0.19.1,0.22.0..0.22.0", "0.19.1 0.22.0 0.33.0 0.33.1.post1"),
    ],
)
def test_range_names_releases_in_their_order(text: str, named: str) -> None:
    assert select(text, KNOWN) == tuple(named.split())


@pytest.mark.parametrize(
    "text", ["", "..", "a..b", "0.20..x", "0.20...0.22", "0.20..0.21..0.22", ",", "0.20,", "0.20 0.21", "-1"]
)
def test_nonsense_is_refused_with_how_it_is_written(text: str) -> None:
    with pytest.raises(DeclarationError, match="is not a range of releases") as caught:
        select(text, KNOWN)
    assert "0.20..0.33" in caught.value.next


def test_range_the_wrong_way_round_is_refused() -> None:
    with pytest.raises(DeclarationError, match="the wrong way round"):
        select("0.22..0.20", KNOWN)


@pytest.mark.parametrize("text", ["0.21", "0.20,0.21", "0.34..", "..0.18"])
def test_part_that_names_nothing_is_refused_with_what_is_known(text: str) -> None:
    with pytest.raises(DeclarationError, match=r"names no known release \(known: 0\.19\.1, "):
        select(text, KNOWN)
