"""Which patches need which: found by trying the trees, whatever is declared."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from patchset import graph as graphs
from patchset import graph_draw
from patchset.errors import MissingTool, SeriesError, WorktreeError
from patchset.outcome import Outcome
from patchset.patch import Patch, read_patch
from patchset.store import Store
from patchset.upstream import Upstream

MakeTree = Callable[..., str]
Files = Mapping[str, bytes]
Make = Callable[..., Patch]
Draw = Callable[..., graphs.Graph]
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

    def patch(id: str, before: Files, after: Files, requires: str = "", evidence: str = "", context: int = 3) -> Patch:
        data = bench.diff(make_tree(before), make_tree(after), context=context)
        head = f"requires = [{requires}]\n" if requires else ""
        variant = f'[[variant]]\nreleases = "==1.0"\ndiff = "a.patch"\n{evidence}'
        return read_patch(patch_folder(head + variant, {"a.patch": data}, id=id), upstream)

    return patch


@pytest.fixture
def draw(bench: Store, make_tree: MakeTree) -> Draw:
    def run(files: Files, *patches: Patch) -> graphs.Graph:
        return graphs.graph(bench, "r", "1.0", make_tree(files), patches, lambda donor: b"")

    return run


def test_patches_apart_in_one_file_need_nothing(make: Make, draw: Draw) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    two = make("two", {"f": text()}, {"f": text(l100="b")})
    found = draw({"f": text()}, one, two)
    assert (found.needs, found.order_matters) == ({"one": (), "two": ()}, ())
    assert graph_draw.lines(found) == [
        "r on 1.0: 2 patches", "├─ one  applies", "└─ two  applies", "no patch needs another one here",
    ]  # fmt: skip


def test_need_is_found_through_a_chain_and_only_the_direct_one_is_named(make: Make, draw: Draw) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    apart = make("apart", {"f": text()}, {"f": text(l100="x")})
    two = make("two", {"f": text(l10="a")}, {"f": text(l10="b")}, requires='"one"')
    three = make("three", {"f": text(l10="b")}, {"f": text(l10="c")}, requires='"one", "apart"')
    found = draw({"f": text()}, one, apart, two, three)
    assert found.needs == {"one": (), "apart": (), "two": ("one",), "three": ("two",)}
    assert found.order_matters == ()
    # one is needed through two, so requiring it is borne out; apart is not needed at all
    assert (found.declared_only("three"), found.undeclared("three")) == (("apart",), ("two",))
    assert (found.declared_only("two"), found.undeclared("two")) == ((), ())
    assert graph_draw.lines(found) == [
        "r on 1.0: 4 patches",
        "├─ one          applies",
        "│  └─ two       applies",
        "│     └─ three  applies; not declared in requires: two; declared only, not by its text: apart",
        "└─ apart        applies",
    ]


def test_need_of_two_at_once(make: Make, draw: Draw) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    apart = make("apart", {"f": text()}, {"f": text(l100="x")})
    two = make("two", {"f": text()}, {"f": text(l17="b")})
    both = make("both", {"f": text(l10="a", l17="b")}, {"f": text(l10="a", l12="c", l15="d", l17="b")})
    found = draw({"f": text()}, one, apart, two, both)
    assert found.needs == {"one": (), "apart": (), "two": (), "both": ("one", "two")}
    assert "   └─ both  applies; also needs one; not declared in requires: one, two" in graph_draw.lines(found)


def test_none_of_what_is_needed_can_be_spared(make: Make, draw: Draw) -> None:
    """The last one fits behind the first, not behind the second, and again behind the third: the first is enough."""
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    away = make("away", {"f": text(l10="a")}, {"f": text(l10="z")})
    again = make("again", {"f": text(l10="z")}, {"f": text(l10="a")})
    far = make("far", {"f": text()}, {"f": text(l150="a")})
    last = make("last", {"f": text(l10="a")}, {"f": text(l10="b")})
    found = draw({"f": text()}, one, away, again, far, last)
    assert found.needs == {"one": (), "away": ("one",), "again": ("away",), "far": (), "last": ("one",)}


def test_need_reaches_through_a_file_that_only_the_one_between_has(make: Make, draw: Draw) -> None:
    before, after = {"f": text(l10="a"), "g": text()}, {"f": text(l10="b"), "g": text(l5="x")}
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    between = make("between", before, after)
    aside = make("aside", {"g": text()}, {"g": text(l100="y")})
    last = make("last", {"g": text(l5="x")}, {"g": text(l5="y")})
    found = draw({"f": text(), "g": text()}, one, between, aside, last)
    assert found.needs == {"one": (), "between": ("one",), "aside": (), "last": ("between",)}


def test_new_file_is_needed_by_who_edits_it(make: Make, draw: Draw) -> None:
    adds = make("adds", {}, {"g": text()})
    edits = make("edits", {"g": text()}, {"g": text(l5="a")})
    assert draw({"f": b"x\n"}, adds, edits).needs == {"adds": (), "edits": ("adds",)}


def test_file_in_the_place_of_a_folder_is_needed_to_go(make: Make, draw: Draw) -> None:
    """No path is named by both."""
    clears = make("clears", {"g/h": b"x\n"}, {})
    adds = make("adds", {}, {"g": b"file\n"})
    assert draw({"g/h": b"x\n"}, clears, adds).needs == {"clears": (), "adds": ("clears",)}


def test_line_that_a_variant_vouches_for_makes_a_need_though_no_file_is_changed_by_both(make: Make, draw: Draw) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    evidence = 'upstream = [{ file = "f", line = "a" }]\n'
    two = make("two", {"g": text()}, {"g": text(l10="b")}, evidence=evidence)
    assert draw({"f": text(), "g": text()}, one, two).needs == {"one": (), "two": ("one",)}


def test_patch_that_is_in_because_of_another_needs_it(make: Make, draw: Draw) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    twin = make("twin", {"f": text()}, {"f": text(l10="a")})
    found = draw({"f": text()}, one, twin)
    assert (found.outcomes["twin"], found.needs["twin"]) == (Outcome.UPSTREAM, ("one",))
    assert '  "twin" [label="twin\\nupstream", style=dashed];\n' in graph_draw.dot(found)


def test_order_that_matters_is_seen(make: Make, draw: Draw) -> None:
    """The first hunk says that it is at the beginning of the file, and is not any more once the second one is in."""
    one = make("one", {"f": b"x\n"}, {"f": b"x\none\n"})
    two = make("two", {"f": b"x\n"}, {"f": b"two\nx\n"})
    found = draw({"f": b"x\n"}, one, two)
    assert (found.needs, found.order_matters) == (
        {"one": (), "two": ()},
        (graphs.Order("one", "two", "one does not go in behind two"),),
    )
    assert "order matters: one before two: one does not go in behind two" in graph_draw.lines(found)


def test_order_is_looked_at_on_what_both_need(make: Make, draw: Draw) -> None:
    ground = make("ground", {}, {"g": b"a\nb\n"})
    end = make("end", {"g": b"a\nb\n"}, {"g": b"a\nb\nend\n"})
    top = make("top", {"g": b"a\nb\n"}, {"g": b"top\na\nb\n"})
    found = draw({"f": text()}, ground, end, top)
    assert found.needs == {"ground": (), "end": ("ground",), "top": ("ground",)}
    assert [(item.first, item.second) for item in found.order_matters] == [("end", "top")]


def test_other_order_that_gives_another_tree_is_seen(make: Make, draw: Draw) -> None:
    """One changes the edge of the place that the other is about, and puts a copy of that place elsewhere."""
    base = text()
    edited = base.replace(b"line 50\n", b"fifty\n")
    place = b"".join(LINES[47:54])
    copied = base.replace(b"line 47\n", b"forty-seven\n").replace(b"line 150\n", b"line 150\n" + place)
    copies = make("copies", {"f": base}, {"f": copied}, context=1)
    edits = make("edits", {"f": base}, {"f": edited})
    assert draw({"f": base}, copies, edits).order_matters == (
        graphs.Order("copies", "edits", "the other way round the tree is another"),
    )


def test_patch_that_another_one_stops_is_told_with_it(make: Make, draw: Draw) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    far = make("far", {"f": text()}, {"f": text(l150="a")})
    two = make("two", {"f": text()}, {"f": text(l10="b")})
    lost = make("lost", {"f": text(l10="q")}, {"f": text(l10="b")})
    found = draw({"f": text()}, far, one, two, lost)
    assert found.stopped_by == {"two": "one", "lost": ""}
    assert "├─ two   conflicts; goes in without one" in graph_draw.lines(found)
    assert "└─ lost  conflicts; does not go into the base either" in graph_draw.lines(found)
    assert '  "two" -> "one" [color=red, label="stopped by"];\n' in graph_draw.dot(found)


def test_patch_that_changes_nothing_needs_nothing(make: Make, draw: Draw) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    found = draw({"f": text(l10="a")}, one)
    assert (found.outcomes, found.needs) == ({"one": Outcome.UPSTREAM}, {"one": ()})


def test_patch_without_a_variant_for_the_release_is_an_error(make: Make, bench: Store, make_tree: MakeTree) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    with pytest.raises(SeriesError, match=r"no variant for release 1\.1"):
        graphs.graph(bench, "r", "1.1", make_tree({"f": text()}), [one], lambda donor: b"")


def test_sixty_four_patches_in_a_chain(make: Make, draw: Draw) -> None:
    versions = [text(l50=f"step {n}") if n else text() for n in range(65)]
    patches = [make(f"p{n:02}", {"f": versions[n]}, {"f": versions[n + 1]}) for n in range(64)]
    found = draw({"f": text()}, *patches)
    assert len(found.outcomes) == 64
    assert all(found.needs[f"p{n:02}"] == ((f"p{n - 1:02}",) if n else ()) for n in range(64))


def test_sixty_four_patches_of_one_file_that_need_three_each(make: Make, draw: Draw) -> None:
    """The worst of it: every pair could depend on each other, and needs of needs are many. None of what is named can be spared."""
    spots = {f"l{3 * n}": "" for n in range(64)}
    now, patches = dict[str, str](), []
    wanted: dict[str, set[int]] = {}
    for n in range(64):
        near = sorted({(7 * n) % 64, (11 * n + 5) % 64, (29 * n + 3) % 64})
        before = dict(now)
        now |= {f"l{3 * spot}": f"{n} was here" for spot in near}
        wanted[f"p{n:02}"] = set(near)
        patches.append(make(f"p{n:02}", {"f": text(**before)}, {"f": text(**now)}))
    assert len(spots) == 64
    found = draw({"f": text()}, *patches)
    assert all(outcome is Outcome.APPLIES for outcome in found.outcomes.values())
    owner: dict[int, str] = {}
    for n in range(64):
        name = f"p{n:02}"
        last = {owner[spot] for spot in wanted[name] if spot in owner}
        # what was last written over at the same line must be in, by itself or through another one
        assert last <= found.below(name) | {name}
        owner |= dict.fromkeys(wanted[name], name)


def test_graph_is_written_as_text_and_drawn(
    tmp_path: Path, make: Make, draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make("one", {"f": text()}, {"f": text(l10="a")})
    two = make("two", {"f": text(l10="a")}, {"f": text(l10="b")})
    three = make("three", {"f": text()}, {"f": text(l100="b")}, requires='"one"')
    found = draw({"f": text()}, one, two, three)
    dot = graph_draw.dot(found)
    assert dot.startswith('digraph "r on 1.0" {\n') and '  "two" -> "one";\n' in dot
    assert '  "three" -> "one" [style=dashed, label="declared only"];\n' in dot
    assert graphs.write(found, "", "") == ()
    assert graphs.write(found, str(tmp_path / "g.dot"), "") == (tmp_path / "g.dot",)
    assert (tmp_path / "g.dot").read_text("utf-8") == dot
    if shutil.which("dot"):
        graphs.write(found, "", str(tmp_path / "g.svg"))
        assert b"<title>two&#45;&gt;one</title>" in (tmp_path / "g.svg").read_bytes()
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingTool, match="graphviz is not installed") as raised:
        graphs.write(found, str(tmp_path / "other.dot"), str(tmp_path / "other.svg"))
    assert "sudo apt install graphviz" in raised.value.next
    assert not list(tmp_path.glob("other.*"))


@pytest.mark.parametrize("status", [0, 1])
def test_picture_that_dot_does_not_draw_is_told(status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dot"
    program.write_text(f"#!/bin/sh\necho syntax error in line 1 >&2\nexit {status}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(MissingTool, match="could not draw") as raised:
        graph_draw.svg("digraph {}")
    assert "syntax error in line 1" in raised.value.detail


def test_place_that_holds_something_else_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    graphs.require_places("", "")
    graphs.require_places(str(tmp_path / "new.dot"), str(tmp_path / "new.svg"))
    for name in ("mine.txt", ".", "none/g.dot", "mine.txt/g.dot"):
        for dot, svg, flag in ((str(tmp_path / name), "", "--dot"), ("", str(tmp_path / name), "--svg")):
            with pytest.raises(WorktreeError) as caught:
                graphs.require_places(dot, svg)
            assert flag in str(caught.value.next)
    (tmp_path / "old.dot").write_text('digraph "x" {}')
    graphs.require_places(str(tmp_path / "old.dot"), "")
