"""Edited declarations say what was asked, and keep every comment and the order of the rest."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from patchset import rewrite
from patchset.errors import DeclarationError
from patchset.patch import Absent, Donor, Present, Reference
from patchset.rewrite import NewVariant

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PATCHES = sorted((ROOT / "recipes" / "patches").glob("*/patch.toml"))
RECIPES = sorted((ROOT / "recipes").glob("*.toml"))

PATCH = '''\
title = "T"
why = """
[[variant]]
"""

# the first
[[variant]]
releases = ">=1.0,<=1.1"  # why so
diff = "a.patch"

# the second
# of two lines
[[variant]]
releases = "==1.10"
upstream = [
    { file = "f", line = "[[variant]]" },
]
'''

RECIPE = """\
# A recipe.

[pin]
upstream = "vllm"
release = "0.23.0"  # the pin
ref = "v0.23.0"

[series]
# in this order
patches = ["a", "b", "c"]

# about the stack
[stack]
torch = "==2.11.0"
# because of Gemma
transformers = ">=5"
triton-xpu = "==3.7.0"
"""


def data(text: str) -> dict:
    return tomllib.loads(text)


def comments(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith("#")]


@pytest.mark.parametrize("file", PATCHES, ids=lambda file: file.parent.name)
def test_edit_that_changes_nothing_changes_no_byte_of_a_patch(file: Path) -> None:
    text = file.read_text("utf-8")
    for variant in data(text)["variant"]:
        assert rewrite.set_range(text, variant["releases"], variant["releases"]) == text
        added = rewrite.add_variant(text, NewVariant("==99.0", proved="p"))
        assert rewrite.remove_variant(added, "==99.0") == text


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_edit_that_changes_nothing_changes_no_byte_of_a_recipe(file: Path) -> None:
    text = file.read_text("utf-8")
    said = data(text)
    assert rewrite.set_series(text, said["series"]["patches"]) == text
    assert rewrite.set_stack(text, said["stack"]) == text
    assert rewrite.unretire(rewrite.retire(text, "mtp-boundary", "r", "https://x", "0.31.0"), "mtp-boundary") == text


@pytest.mark.parametrize(
    ("releases", "place"), [("==0.9", 0), ("==1.2", 1), (">=1.2,<=1.9", 1), ("==1.11", 2), (">=2.0,<=2.1", 2)]
)
def test_variant_goes_where_its_range_belongs(releases: str, place: int) -> None:
    edited = rewrite.add_variant(PATCH, NewVariant(releases, diff="b.patch", note='says "so"'))
    assert data(edited)["variant"][place] == {"releases": releases, "diff": "b.patch", "note": 'says "so"'}
    assert len(data(edited)["variant"]) == 3
    assert comments(edited) == comments(PATCH)
    assert (
        edited.index("# the first")
        < edited.index('"a.patch"')
        < edited.index("# of two lines")
        < edited.index('"==1.10"')
    )


def test_range_is_set_and_its_comment_stays() -> None:
    edited = rewrite.set_range(PATCH, ">=1.0,<=1.1", ">=1.0,<=1.2")
    assert edited == PATCH.replace("<=1.1", "<=1.2")
    assert rewrite.set_diff(PATCH, ">=1.0,<=1.1", "z.patch") == PATCH.replace("a.patch", "z.patch")


@pytest.mark.parametrize(
    ("releases", "gone"), [(">=1.0,<=1.1", ["# the first"]), ("==1.10", ["# the second", "# of two lines"])]
)
def test_removed_variant_takes_its_comment_with_it(releases: str, gone: list[str]) -> None:
    edited = rewrite.remove_variant(PATCH, releases)
    assert [item["releases"] for item in data(edited)["variant"]] == [
        item["releases"] for item in data(PATCH)["variant"] if item["releases"] != releases
    ]
    assert set(comments(PATCH)) - set(comments(edited)) == set(gone)
    assert data(edited)["why"] == data(PATCH)["why"]


def test_variant_that_is_not_there_is_named() -> None:
    with pytest.raises(DeclarationError, match=r"no variant ==3\.0 .*==1\.10"):
        rewrite.remove_variant(PATCH, "==3.0")


def test_whole_patch_says_all_that_was_said() -> None:
    text = rewrite.patch_toml(
        'A "title"', "fix", datetime(2026, 12, 1, tzinfo=timezone.utc), 'why\nin """two""" \\ lines\n', "when", ("a",),
        [Reference("https://x/1", "w", "merged", "0.24.0"), Reference("https://x/2", "w", "open", None)],
        [NewVariant("==1.0", "d.patch", (Donor("1.1", "p", "ab" * 32, "q"), Donor("1.1", "p", "ab" * 32, "p")),
                    (Present("f", "x = \"y\""),), (Absent("g", None), Absent("h", "s")), "", "n"),
         NewVariant("==1.1", proved="sound")],
    )  # fmt: skip
    assert data(text) == {
        "title": 'A "title"', "kind": "fix", "date": datetime(2026, 12, 1, tzinfo=timezone.utc),
        "why": 'why\nin """two""" \\ lines\n', "drop-when": "when", "requires": ["a"],
        "upstream": [{"ref": "https://x/1", "what": "w", "state": "merged", "first-release": "0.24.0"},
                     {"ref": "https://x/2", "what": "w", "state": "open"}],
        "variant": [{"releases": "==1.0", "diff": "d.patch",
                     "donors": [{"release": "1.1", "path": "p", "sha256": "ab" * 32, "to": "q"},
                                {"release": "1.1", "path": "p", "sha256": "ab" * 32}],
                     "upstream": [{"file": "f", "line": 'x = "y"'}], "absent": [{"file": "g"}, {"file": "h", "symbol": "s"}],
                     "note": "n"}, {"releases": "==1.1", "proved": "sound"}],
    }  # fmt: skip


def test_recipe_gets_another_pin_and_stack() -> None:
    edited = rewrite.set_stack(
        rewrite.set_pin(RECIPE, "0.28.0"), {"torch": "==2.13.0", "transformers": ">=5", "triton": "==3.7.2"}
    )
    assert data(edited)["pin"] == {"upstream": "vllm", "release": "0.28.0"}
    assert data(edited)["stack"] == {"torch": "==2.13.0", "transformers": ">=5", "triton": "==3.7.2"}
    assert comments(edited) == comments(RECIPE)
    assert 'release = "0.28.0"  # the pin' in edited


def test_patch_is_left_out_and_taken_in_again() -> None:
    edited = rewrite.omit(rewrite.omit(RECIPE, "b", "r1"), "c", "r2")
    assert data(edited)["series"] == {
        "patches": ["a"],
        "omit": [{"patch": "b", "reason": "r1"}, {"patch": "c", "reason": "r2"}],
    }
    assert edited.index("[[series.omit]]") < edited.index("# about the stack")
    back = rewrite.set_series(rewrite.unomit(rewrite.unomit(edited, "b"), "c"), ["a", "b", "c"])
    assert data(back) == data(RECIPE)
    assert comments(back) == comments(RECIPE)


def test_retired_patch_stays_in_the_series_with_its_reason() -> None:
    edited = rewrite.retire(RECIPE, "b", "fixed", "https://x", "0.24.0")
    retired = {"patch": "b", "reason": "fixed", "upstream": "https://x", "first-release": "0.24.0"}
    assert data(edited)["series"] == {"patches": ["a", "b", "c"], "retired": [retired]}
    assert data(rewrite.retire(edited, "b", "again"))["series"]["retired"] == [{"patch": "b", "reason": "again"}]
    assert "retired" not in data(rewrite.omit(edited, "b", "r"))["series"]


def test_bounds_of_a_range() -> None:
    assert [str(bound(">=0.9.0,<=0.10.0")) for bound in (rewrite.lower_bound, rewrite.upper_bound)] == [
        "0.9.0",
        "0.10.0",
    ]
    assert rewrite.closed_range("1.0", "1.0") == "==1.0"
    assert rewrite.closed_range("1.0", "1.1") == ">=1.0,<=1.1"


def test_comment_goes_with_the_specifier_that_it_was_about() -> None:
    edited = rewrite.set_stack(RECIPE, {"torch": "==2.11.0", "transformers": ">=5.20", "triton-xpu": "==3.7.0"})
    assert set(comments(RECIPE)) - set(comments(edited)) == {"# because of Gemma"}


def test_head_is_the_comment_at_the_beginning() -> None:
    assert rewrite.set_head("# a\n# b\n\n[pin]\n# c\n", ["n"]) == "# n\n\n[pin]\n# c\n"
