"""What a recipe declares, checked against upstreams and patches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patchset.errors import DeclarationError
from patchset.patch import Patch, read_patches
from patchset.recipe import Retired, read_recipe, recipe_file
from patchset.upstream import Upstream

RECIPE = """\
[pin]
upstream = "u"
release = "1.0"

[series]
patches = [
    "a",
    "b",
]

[[series.omit]]
patch = "c"
reason = "r"

[wheel]
label = "b70"

[stack]
python = ">=3.10"
"""


@pytest.fixture
def patches(patch_folder: Callable[..., Path], upstream: Upstream) -> dict[str, Patch]:
    variant = '[[variant]]\nreleases = "==1.0"\nabsent = [{ file = "f" }]\n'
    folders = [patch_folder(('requires = ["a"]\n' if id == "b" else "") + variant, id=id) for id in ("a", "b", "c")]
    return read_patches(folders[0].parent, upstream)


@pytest.fixture
def read(tmp_path: Path, upstream: Upstream, patches: dict[str, Patch]) -> Callable[..., object]:
    def recipe(text: str) -> object:
        file = tmp_path / "r.toml"
        file.write_text(text, encoding="utf-8")
        return read_recipe(file, {"u": upstream}, patches)

    return recipe


def test_defaults_are_those_of_the_upstream(read: Callable[..., object]) -> None:
    recipe = read(RECIPE)
    pin = recipe.pin  # type: ignore[attr-defined]
    assert (pin.source, pin.repository, pin.ref) == ("auto", "https://host.invalid/u.git", "v1.0")
    assert (recipe.name, recipe.series, recipe.label, recipe.rust) == ("r", ("a", "b"), "b70", False)  # type: ignore[attr-defined]
    assert recipe.stack == {"python": ">=3.10"}  # type: ignore[attr-defined]
    assert [(item.patch, item.reason) for item in recipe.omitted] == [("c", "r")]  # type: ignore[attr-defined]


def test_retired_patch_stays_in_the_series(read: Callable[..., object]) -> None:
    block = '[[series.retired]]\npatch = "b"\nreason = "r"\nupstream = "https://x"\nfirst-release = "1.1"\n\n[wheel]'
    recipe = read(RECIPE.replace("[wheel]", block))
    assert recipe.series == ("a", "b")  # type: ignore[attr-defined]
    assert recipe.retired == (Retired("b", "r", "https://x", "1.1"),)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('upstream = "u"', 'upstream = "v"', 2, "none of u"),
        ('release = "1.0"', 'release = "7.0"', 3, "not known"),
        ('release = "1.0"', "release = 1.0", 3, "must be a string"),
        ('release = "1.0"', 'release = "1.0"\nsource = "web"', 4, "none of auto"),
        ('release = "1.0"', 'release = "1.0"\ntag = "x"', 4, "unknown key 'tag'"),
        ('    "b",\n', "", 6, "'b' is under recipes/patches and this series does not list it"),
        ('    "b",\n', '    "b",\n    "a",\n', 9, "'a' is listed twice"),
        ('    "b",\n', '    "b",\n    "c",\n', 9, "'c' is listed twice"),
        ('    "b",\n', '    "b",\n    "z",\n', 9, "'z' is not under recipes/patches"),
        ('    "a",\n    "b",\n', '    "b",\n    "a",\n', 7, "requires 'a' earlier"),
        ('patch = "c"', 'patch = "z"', 12, "none of a, b, c"),
        ('reason = "r"', 'reason = "r"\n\n[[series.omit]]\npatch = "c"\nreason = "s"', 15, "left out twice"),
        ('reason = "r"', 'reason = ""', 13, "reason is empty"),
        ('reason = "r"', 'reason = "r"\n[[series.retired]]\npatch = "c"\nreason = "s"', 15, "none of a, b"),
        ('reason = "r"', 'reason = "r"\n' + 2 * '[[series.retired]]\npatch = "a"\nreason = "s"\n', 17, "retired twice"),
        ('label = "b70"', 'label = "B70"', 16, "lower-case"),
        ('label = "b70"', 'label = "b70-x"', 16, "lower-case"),
        ('label = "b70"', 'label = "b70"\nrust = "yes"', 17, "true or false"),
        ('python = ">=3.10"', 'python = "3.10"', 19, "not a version specifier"),
        ('python = ">=3.10"', 'python = ">=3.10"\n[smoke]\nlanes = ["warp"]', 21, "none of interpret"),
        ('python = ">=3.10"', 'python = ">=3.10"\n[smoke]\nlanes = []', 21, "no lane"),
        ('python = ">=3.10"', 'python = ">=3.10"\n[smoke]\nlanes = ["interpret", "interpret"]', 21, "one twice"),
        ('python = ">=3.10"', 'python = ">=3.10"\n[smoke]\nset = "nonesuch"', 21, "none of mission"),
        ('python = ">=3.10"', 'python = ">=3.10"\n[smok]\nset = "x"', 20, "unknown key 'smok'"),
        ("[stack]\n", "[stacks]\n", 1, "stack is missing"),
    ],
)
def test_what_is_wrong_is_refused_at_its_line(
    old: str, new: str, line: int, words: str, read: Callable[..., object], tmp_path: Path
) -> None:
    assert RECIPE.count(old) == 1
    with pytest.raises(DeclarationError) as error:
        read(RECIPE.replace(old, new))
    assert words in error.value.what
    assert error.value.where == f"{tmp_path / 'r.toml'}:{line}"
    assert error.value.next


def test_recipe_is_found_by_name_or_path_and_others_are_listed(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("", encoding="utf-8")
    assert recipe_file(tmp_path, "x") == recipe_file(tmp_path, str(tmp_path / "x.toml")) == tmp_path / "x.toml"
    with pytest.raises(DeclarationError, match=r"no recipe 'y' \(there are: x\)"):
        recipe_file(tmp_path, "y")
