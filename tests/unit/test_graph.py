"""Which patches need which: found by trying the trees, whatever is declared."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from patchset import graph as graphs
from patchset.errors import MissingTool
from patchset.patch import Patch, read_patch
from patchset.store import Store
from patchset.upstream import Upstream

MakeTree = Callable[..., str]
LINES = [b"line %d\n" % n for n in range(200)]


def text(**lines: str) -> bytes:
    """200 lines, some of them other ones: l7="x" is line 7."""
    return b"".join(
        lines.get(f"l{n}", "").encode() + b"\n" if f"l{n}" in lines else line for n, line in enumerate(LINES)
    )


@pytest.fixture
def make(
    bench: Store, make_tree: MakeTree, patch_folder: Callable[..., Path], upstream: Upstream
) -> Callable[..., Patch]:
    """(id, files before, files after) → a patch for release 1.0."""

    def patch(id: str, before: Mapping[str, bytes], after: Mapping[str, bytes], requires: str = "") -> Patch:
        data = bench.diff(make_tree(before), make_tree(after))
        head = f"requires = [{requires}]\n" if requires else ""
        folder = patch_folder(head + '[[variant]]\nreleases = "==1.0"\ndiff = "a.patch"\n', {"a.patch": data}, id=id)
        return read_patch(folder, upstream)

    return patch


@pytest.fixture
def draw(bench: Store, make_tree: MakeTree) -> Callable[..., graphs.Graph]:
    def run(files: Mapping[str, bytes], *patches: Patch) -> graphs.Graph:
        return graphs.graph(bench, "r", "1.0", make_tree(files), patches, lambda donor: b"")

    return run


def test_patches_apart_in_one_file_need_nothing(make: Callable[..., Patch], draw: Callable[..., graphs.Graph]) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    two = make("two", {"f": text()}, {"f": text(l100="b")})
    found = draw({"f": text()}, one, two)
    assert (found.patches, found.needs, found.order_matters) == (("one", "two"), {"one": (), "two": ()}, ())


def test_need_is_found_through_a_chain_and_only_the_direct_one_is_named(
    make: Callable[..., Patch], draw: Callable[..., graphs.Graph]
) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    apart = make("apart", {"f": text()}, {"f": text(l100="x")})
    two = make("two", {"f": text(l10="a")}, {"f": text(l10="b")})
    three = make("three", {"f": text(l10="b")}, {"f": text(l10="c")}, requires='"one"')
    found = draw({"f": text()}, one, apart, two, three)
    assert found.needs == {"one": (), "apart": (), "two": ("one",), "three": ("two",)}
    told = graphs.lines(found)
    assert "three: needs two; declared only, not by its text: one; not declared in requires: two" in told


def test_need_of_two_at_once(make: Callable[..., Patch], draw: Callable[..., graphs.Graph]) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    two = make("two", {"f": text()}, {"f": text(l17="b")})
    both = make("both", {"f": text(l10="a", l17="b")}, {"f": text(l10="a", l12="c", l15="d", l17="b")})
    found = draw({"f": text()}, one, two, both)
    assert found.needs == {"one": (), "two": (), "both": ("one", "two")}


def test_new_file_is_needed_by_who_edits_it(make: Callable[..., Patch], draw: Callable[..., graphs.Graph]) -> None:
    adds = make("adds", {}, {"g": text()})
    edits = make("edits", {"g": text()}, {"g": text(l5="a")})
    assert draw({"f": b"x\n"}, adds, edits).needs == {"adds": (), "edits": ("adds",)}


def test_order_that_matters_is_seen(make: Callable[..., Patch], draw: Callable[..., graphs.Graph]) -> None:
    """The first hunk says that it is at the beginning of the file, and is not any more once the second one is in."""
    one = make("one", {"f": b"x\n"}, {"f": b"x\none\n"})
    two = make("two", {"f": b"x\n"}, {"f": b"two\nx\n"})
    found = draw({"f": b"x\n"}, one, two)
    assert (found.needs, found.order_matters) == ({"one": (), "two": ()}, (("one", "two"),))
    assert "order matters: one before two" in graphs.lines(found)


def test_patch_that_changes_nothing_is_idle(make: Callable[..., Patch], draw: Callable[..., graphs.Graph]) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    found = draw({"f": text(l10="a")}, one)
    assert (found.patches, found.idle) == ((), ("one",))
    assert graphs.lines(found) == ["one: changes nothing at 1.0"]


def test_sixty_four_patches_in_a_chain(make: Callable[..., Patch], draw: Callable[..., graphs.Graph]) -> None:
    versions = [text(l50=f"step {n}") if n else text() for n in range(65)]
    patches = [make(f"p{n:02}", {"f": versions[n]}, {"f": versions[n + 1]}) for n in range(64)]
    found = draw({"f": text()}, *patches)
    assert len(found.patches) == 64
    assert all(found.needs[f"p{n:02}"] == ((f"p{n - 1:02}",) if n else ()) for n in range(64))


def test_dot_names_every_patch_and_need_and_is_drawn(
    make: Callable[..., Patch], draw: Callable[..., graphs.Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    two = make("two", {"f": text(l10="a")}, {"f": text(l10="b")})
    dot = graphs.dot(draw({"f": text()}, one, two))
    assert '  "two" -> "one";\n' in dot and dot.startswith('digraph "r on 1.0" {\n')
    if shutil.which("dot"):
        assert b"<svg" in graphs.svg(dot)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingTool, match="graphviz is not installed"):
        graphs.svg(dot)
