"""Releases and commits between two ends, in both directions, alone and together with the patches."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from made_bisect import adding, answer, document, ids, replacing, write, write_recipe

from patchset.bisect import show
from patchset.errors import BisectError, DeclarationError
from patchset.resolve import Project
from patchset.store import Store

LINES = [f"line {number}" for number in range(1, 13)]


def text(**changed: str) -> bytes:
    """Twelve lines, some of them otherwise: l3="x" is the third."""
    lines = [changed.get(f"l{number}", line) for number, line in enumerate(LINES, 1)]
    return "".join(f"{line}\n" for line in lines).encode()


def edited(path: str, old: bytes, new: bytes) -> bytes:
    """A diff with three lines around each change."""
    sides = [side.decode().splitlines(keepends=True) for side in (old, new)]
    head = f"diff --git a/{path} b/{path}\n"
    return (head + "".join(difflib.unified_diff(*sides, f"a/{path}", f"b/{path}"))).encode()


def releases(count: int, more: Callable[[int], Mapping[str, bytes]] = lambda n: {}) -> dict[str, dict[str, bytes]]:
    """1.0, 1.1, …, each with its number in the file v, and *more* by number."""
    return {f"1.{n}": {"a.py": b"a = 1\n", "v": f"{n}\n".encode(), **more(n)} for n in range(count)}


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """1.0 to 1.7 with the patches p, q and s: all of them in r on 1.0 and in new on 1.7, one in first on 1.0, none in bare on 1.7."""
    root = tmp_path_factory.mktemp("eight") / "clone"
    project = write(root, {id: adding(f"{id}.py", "x = 1") for id in ("p", "q", "s")}, releases(8))
    project = write_recipe(project, "new", ["p", "q", "s"], "1.7")
    project = write_recipe(project, "first", ["p"], "1.0")
    return write_recipe(project, "bare", [], "1.7")


def transition(found: dict[str, Any]) -> tuple[str, str, str, str]:
    """What was found, and between which releases."""
    return found["kind"], found["axis"], found["good"]["release"], found["bad"]["release"]


def shown(found: dict[str, Any]) -> str:
    """An answer in words."""
    return "\n".join(show.lines(found))


# -- releases ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [1, 2, 4, 7])
def test_release_that_brought_it_is_found_within_the_bound(eight: Project, at: int) -> None:
    made = document(eight, "1.0", "1.7", test=f"test $(cat v) -lt {at}")
    found = made["answer"]
    assert transition(found) == ("change", "releases", f"1.{at - 1}", f"1.{at}")
    assert found["line"] == [f"vLLM 1.{n}" for n in range(8)]
    assert (found["changes"], found["at"]) == (7, {"good": at - 1, "bad": at})
    assert found["tests"] <= found["bound"] == 3
    assert len(made["steps"]) == 2 + found["tests"]
    assert all(step["patches"] == ["p", "q", "s"] for step in made["steps"])
    assert found["releases"]["fixed"] is False
    assert f"came with vLLM 1.{at}" in shown(found)


@pytest.mark.parametrize("at", [1, 3, 6, 7])
def test_release_that_mended_it_is_found_from_the_newer_end(eight: Project, at: int) -> None:
    """Good is new, bad is old."""
    found = answer(eight, "1.7", "1.0", test=f"test $(cat v) -ge {at}")
    assert transition(found) == ("change", "releases", f"1.{at}", f"1.{at - 1}")
    assert found["line"] == [f"vLLM 1.{n}" for n in reversed(range(8))]
    assert found["tests"] <= found["bound"] == 3
    assert found["releases"]["fixed"] is True
    assert f"fixed in vLLM 1.{at}; vLLM 1.{at - 1} still has it" in shown(found)


def test_neighbouring_releases_need_no_search(eight: Project) -> None:
    for good, bad, test in (("1.3", "1.4", "test $(cat v) -lt 4"), ("1.4", "1.3", "test $(cat v) -ge 4")):
        made = document(eight, good, bad, test=test)
        assert transition(made["answer"]) == ("change", "releases", good, bad)
        assert len(made["steps"]) == 2


def test_releases_that_cannot_be_judged_leave_a_span(eight: Project) -> None:
    test = "case $(cat v) in 3|4) exit 125;; esac; test $(cat v) -lt {}"
    found = answer(eight, "1.0", "1.7", test=test.format(4))
    assert transition(found) == ("span", "releases", "1.2", "1.5")
    assert [item["label"] for item in found["between"]] == ["vLLM 1.3", "vLLM 1.4"]
    assert transition(answer(eight, "1.0", "1.7", test=test.format(6))) == ("change", "releases", "1.5", "1.6")


def test_series_none_tests_the_bare_releases(eight: Project) -> None:
    made = document(eight, "1.0", "1.7", test="test ! -e p.py && test $(cat v) -lt 5", series="none")
    assert transition(made["answer"]) == ("change", "releases", "1.4", "1.5")
    assert all(step["patches"] == [] for step in made["steps"])


def test_series_can_be_some_of_the_patches(eight: Project) -> None:
    made = document(eight, "1.0", "1.7", test="test -e q.py && test ! -e p.py && test $(cat v) -lt 5", series="q")
    assert transition(made["answer"]) == ("change", "releases", "1.4", "1.5")
    assert all(step["patches"] == ["q"] for step in made["steps"])


def test_what_upstream_changed_and_the_series_touches_is_named(tmp_path: Path) -> None:
    def more(n: int) -> dict[str, bytes]:
        return {"m.py": text(l12="late" if n > 2 else "early"), "b.py": b"2\n" if n > 2 else b"1\n"}

    project = write(
        tmp_path / "clone", {"p": edited("m.py", more(0)["m.py"], text(l2="p", l12="early"))}, releases(5, more)
    )
    found = answer(project, "1.0", "1.4", test="! grep -q late m.py")
    assert transition(found) == ("change", "releases", "1.2", "1.3")
    assert found["releases"]["touched"] == ["m.py"]
    assert found["releases"]["changed"] == 3
    assert "m.py" in shown(found)


def test_two_trees_of_one_release_are_a_change_with_nothing_between(eight: Project) -> None:
    made = document(eight, "1.0", "1.1", test="test $(cat v) -lt 1", series="none")
    trees = [made["answer"][side]["tree"] for side in ("good", "bad")]
    found = answer(eight, *(f"tree:{tree}@1.0" for tree in trees), test="test $(cat v) -lt 1")
    assert (found["kind"], found["axis"], found["changes"], found["tests"]) == ("change", "releases", 1, 0)
    assert [found[side]["tree"] for side in ("good", "bad")] == trees
    assert all(tree[:12] in shown(found) for tree in trees)


# -- the series on other releases --------------------------------------------------------------------------------------


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each three-way merge: did it go without a conflict?"""
    seen: list[bool] = []
    merge = Store.merge

    def counted(self: Store, *words: Any, **named: Any) -> Any:
        merged = merge(self, *words, **named)
        seen.append(not merged.conflicts)
        return merged

    monkeypatch.setattr(Store, "merge", counted)
    return seen


def test_series_is_merged_where_its_diff_does_not_go_in(tmp_path: Path, merges: list[bool]) -> None:
    """From 1.2 on, lines around the change are others, and from 1.4 on the file has another name."""

    def more(n: int) -> dict[str, bytes]:
        return {"new.py" if n > 3 else "m.py": text(**({"l3": "other", "l9": "other"} if n > 1 else {}))}

    project = write(tmp_path / "clone", {"p": edited("m.py", text(), text(l6="patched"))}, releases(7, more))
    for at in (1, 3, 5, 6):
        test = f"grep -rqx patched *.py && test $(cat v) -lt {at} || ! grep -rqx patched *.py"
        made = document(project, "1.0", "1.6", test=test)
        assert transition(made["answer"]) == ("change", "releases", f"1.{at - 1}", f"1.{at}")
        assert {step["verdict"] for step in made["steps"]} == {"good", "bad"}
    assert merges
    assert all(merges)


def clashing(root: Path) -> Project:
    """1.3 changes the very line that the patch p changes; the other releases do not. Patch q goes in anywhere."""
    diffs = {"q": adding("q.py", "x = 1"), "p": edited("m.py", text(), text(l6="patched"))}
    return write(root, diffs, releases(7, lambda n: {"m.py": text(l6="upstream") if n == 3 else text()}))


def test_release_on_which_the_series_clashes_is_a_step_that_cannot_apply_and_leaves_a_span(tmp_path: Path) -> None:
    project = clashing(tmp_path / "clone")
    for good, bad, compare in (("1.0", "1.6", "-lt 3"), ("1.0", "1.6", "-lt 4"), ("1.6", "1.0", "-ge 4")):
        made = document(project, good, bad, test=f"test $(cat v) {compare}")
        found = made["answer"]
        assert transition(found) == ("span", "releases", *(("1.2", "1.4") if good == "1.0" else ("1.4", "1.2")))
        assert [item["label"] for item in found["between"]] == ["vLLM 1.3"]
        assert found["between"][0]["why"].startswith("p: ")
        assert "m.py" in found["between"][0]["why"]
        (step,) = [step for step in made["steps"] if step["label"] == "vLLM 1.3"]
        assert (step["verdict"], step["tree"], step["runs"]) == ("cannot-apply", "", [])
        assert "clashes in m.py" in step["reason"]
        assert "vLLM 1.3: p: " in shown(found)


def test_release_on_which_the_series_clashes_elsewhere_is_passed_by(tmp_path: Path) -> None:
    project = clashing(tmp_path / "clone")
    for at in (1, 2, 5, 6):
        found = answer(project, "1.0", "1.6", test=f"test $(cat v) -lt {at}")
        assert transition(found) == ("change", "releases", f"1.{at - 1}", f"1.{at}")
    bare = answer(project, "1.0", "1.6", test="test $(cat v) -lt 3", series="q")
    assert transition(bare) == ("change", "releases", "1.2", "1.3")


def test_end_on_which_the_series_cannot_be_had_ends_it_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(BisectError, match="nothing can be said of the bad end: cannot-apply, p: ") as caught:
        answer(clashing(tmp_path / "clone"), "1.0", "1.3", test="test $(cat v) -lt 3")
    assert "m.py" in caught.value.what


# -- releases and patches ----------------------------------------------------------------------------------------------


def test_fault_of_the_release_alone_is_no_patch(eight: Project) -> None:
    made = document(eight, "base", "new", test="test $(cat v) -lt 6")
    assert transition(made["answer"]) == ("change", "releases", "1.5", "1.6")
    assert made["answer"]["good"]["patches"] == []
    assert [step["role"] for step in made["steps"][:4]] == ["good end", "bad end", "axis", "axis"]


def test_fault_of_the_series_alone_is_a_patch_on_the_good_release(eight: Project) -> None:
    found = answer(eight, "base", "new", test="test ! -e q.py")
    assert transition(found) == ("change", "patches", "1.0", "1.0")
    assert ids(found["patches"]) == ["q"]


def test_fault_that_needs_release_and_patch_is_a_pair_that_names_both(eight: Project) -> None:
    for at, id in ((1, "p"), (4, "q"), (7, "s")):
        found = answer(eight, "base", "new", test=f"test $(cat v) -lt {at} || test ! -e {id}.py")
        assert (found["kind"], found["axis"], found["alone"]) == ("pair", "both", True)
        assert transition(found["release"]) == ("change", "releases", f"1.{at - 1}", f"1.{at}")
        assert transition(found["patch"]) == ("change", "patches", f"1.{at}", f"1.{at}")
        assert ids(found["patch"]["patches"]) == [id]
        for part in ("release", "patch"):
            assert found[part]["tests"] <= found[part]["bound"]
        assert "both together" in shown(found)
        assert f"vLLM 1.{at}" in shown(found)
        assert f"{id} " in shown(found)


def test_pair_is_found_when_the_bad_end_is_the_older_release(eight: Project) -> None:
    found = answer(eight, "bare", "r", test="test $(cat v) -ge 3 || test ! -e s.py")
    assert (found["kind"], found["alone"]) == ("pair", True)
    assert transition(found["release"]) == ("change", "releases", "1.3", "1.2")
    assert ids(found["patch"]["patches"]) == ["s"]
    assert found["release"]["releases"]["fixed"] is True


def test_fault_that_a_patch_cures_on_the_new_release_is_a_pair_with_its_removal(eight: Project) -> None:
    """The release brings it, and the patch that mended it is not there any more."""
    found = answer(eight, "r", "bare", test="test $(cat v) -lt 5 || test -e q.py")
    assert found["kind"] == "pair"
    assert transition(found["release"]) == ("change", "releases", "1.4", "1.5")
    assert [(patch["edit"], patch["id"]) for patch in found["patch"]["patches"]] == [("removed", "q")]


def test_either_alone_is_enough_then_the_release_is_told(eight: Project) -> None:
    found = answer(eight, "base", "new", test="test $(cat v) -lt 6 && test ! -e q.py")
    assert transition(found) == ("change", "releases", "1.5", "1.6")


def test_part_of_the_series_in_both_ends_is_no_suspect(eight: Project) -> None:
    found = answer(eight, "first", "new", test="test $(cat v) -lt 2 || test ! -e q.py")
    assert found["kind"] == "pair"
    assert found["patch"]["changes"] == 2
    assert ids(found["patch"]["patches"]) == ["q"]


def test_pair_among_releases_that_say_nothing_is_a_span(eight: Project) -> None:
    test = "case $(cat v) in 3|4) exit 125;; esac; test $(cat v) -lt 4 || test ! -e q.py"
    found = answer(eight, "base", "new", test=test)
    assert (found["kind"], found["patch"]) == ("span", None)
    assert transition(found["release"]) == ("span", "releases", "1.2", "1.5")
    assert "vLLM 1.3" in shown(found)


def test_old_series_that_cannot_be_had_on_the_new_release_leaves_what_can_be_told(tmp_path: Path) -> None:
    """The good end's patch clashes on 1.4 and later; the bad end has another one."""
    diffs = {"p": edited("m.py", text(), text(l6="patched")), "q": adding("q.py", "x = 1")}
    project = write(
        tmp_path / "clone", diffs, releases(6, lambda n: {"m.py": text(l6="upstream") if n > 3 else text()})
    )
    project = write_recipe(write_recipe(project, "old", ["p"], "1.0"), "new", ["q"], "1.5")
    made = document(project, "old", "new", test="test $(cat v) -lt 2 || test ! -e q.py")
    found = made["answer"]
    assert (found["kind"], found["alone"]) == ("pair", False)
    assert transition(found["release"]) == ("change", "releases", "1.1", "1.2")
    assert [(patch["edit"], patch["id"]) for patch in found["patch"]["patches"]] == [("added", "q")]
    (stuck,) = [step for step in made["steps"] if step["verdict"] == "cannot-apply"]
    assert (stuck["role"], stuck["release"]) == ("axis", "1.5")
    late = answer(project, "old", "new", test="test $(cat v) -lt 5 || test ! -e q.py")
    assert (late["kind"], late["patch"]) == ("span", None)
    assert transition(late["release"]) == ("change", "releases", "1.4", "1.5")
    assert "only this much could be told apart" in shown(late)


def test_new_series_that_cannot_be_had_on_the_old_release_is_an_error_with_the_reason(tmp_path: Path) -> None:
    diffs = {"q": adding("q.py", "x = 1"), "p": replacing("late.py", "l = 1", "l = 2")}
    project = write(tmp_path / "clone", diffs, releases(5, lambda n: {"late.py": b"l = 1\n"} if n > 1 else {}))
    project = write_recipe(write_recipe(project, "new", ["q", "p"], "1.4"), "r", ["q"], "1.0")
    with pytest.raises(
        BisectError, match=r"the bad end's series cannot be tested on 1\.0: cannot-apply, p: "
    ) as caught:
        answer(project, "r", "new", test="! grep -q 'l = 2' late.py")
    assert "--over" in caught.value.next


# -- what is asked -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("good", "bad", "over", "said"),
    [
        ("base", "new", "releases", "the ends differ in their patches too"),
        ("base", "new", "patches", "their patches alone are not the difference"),
        ("r", "new", "both", "the ends have the same patches"),
        ("1.0", "1.7", "both", "the ends have the same patches"),
        ("1.0", "1.7", "patches", "their patches alone are not the difference"),
    ],
)
def test_axis_on_which_the_ends_do_not_differ_alone_is_refused(
    eight: Project, good: str, bad: str, over: str, said: str
) -> None:
    with pytest.raises(DeclarationError, match=said) as caught:
        answer(eight, good, bad, over=over, test="test $(cat v) -lt 4")
    assert caught.value.next


def test_recipes_with_one_series_on_two_releases_are_a_question_of_releases(eight: Project) -> None:
    found = answer(eight, "r", "new", test="test $(cat v) -lt 4")
    assert transition(found) == ("change", "releases", "1.3", "1.4")


# -- commits -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def history(tmp_path: Path, plain_git: Callable[..., str]) -> Path:
    """Commits c0 to c8 on main, tagged so, each with its number in v; c4 merges a side branch, tagged side."""
    folder = tmp_path / "history"
    folder.mkdir()
    plain_git(folder, "init", "-q", "-b", "main")

    def commit(name: str, number: str) -> None:
        (folder / "v").write_text(f"{number}\n")
        (folder / "a.py").write_text("a = 1\n")
        plain_git(folder, "add", "-A")
        plain_git(folder, "commit", "-q", "-m", f"make {name}")
        plain_git(folder, "tag", name)

    for number in range(4):
        commit(f"c{number}", str(number))
    plain_git(folder, "checkout", "-q", "-b", "aside")
    commit("side", "900")
    plain_git(folder, "checkout", "-q", "main")
    plain_git(folder, "merge", "-q", "--no-ff", "--no-commit", "-s", "ours", "aside")
    for number in range(4, 9):
        commit(f"c{number}", str(number))
    return folder


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """1.0 and 1.1 with the patches p and q."""
    root = tmp_path_factory.mktemp("two") / "clone"
    return write(root, {id: adding(f"{id}.py", "x = 1") for id in ("p", "q")}, releases(2))


@pytest.mark.parametrize("at", [1, 4, 5, 8])
def test_commit_that_brought_it_is_found_with_the_series_on_each(two: Project, history: Path, at: int) -> None:
    made = document(two, "commit:c0", "commit:c8", history=str(history), test=f"test -e q.py; test $(cat v) -lt {at}")
    found = made["answer"]
    assert (found["kind"], found["axis"], found["changes"]) == ("change", "releases", 8)
    assert found["tests"] <= found["bound"] == 3
    assert f"(make c{at - 1})" in found["good"]["label"]
    assert f"(make c{at})" in found["bad"]["label"]
    assert len(found["line"]) == 9
    assert not any("side" in label for label in found["line"])
    assert all(step["patches"] == ["p", "q"] for step in made["steps"])
    assert found["releases"]["changed"] == 1
    assert found["releases"]["fixed"] is None


@pytest.mark.parametrize("at", [1, 4, 8])
def test_commit_that_mended_it_is_found_from_the_newer_end(two: Project, history: Path, at: int) -> None:
    found = answer(two, "commit:main", "commit:c0", history=str(history), test=f"test $(cat v) -ge {at}")
    assert found["kind"] == "change"
    assert f"(make c{at})" in found["good"]["label"]
    assert f"(make c{at - 1})" in found["bad"]["label"]
    assert "(make c8)" in found["line"][0]
    assert "between" in shown(found)


def test_commits_can_be_tested_bare_and_are_named_relative_to_others(two: Project, history: Path) -> None:
    made = document(
        two,
        "commit:main~6",
        "commit:main~1",
        history=str(history),
        series="none",
        test="test ! -e p.py && test $(cat v) -lt 5",
    )
    assert "(make c5)" in made["answer"]["bad"]["label"]
    assert made["answer"]["changes"] == 5


def test_only_commits_that_are_looked_at_are_copied(two: Project, history: Path, plain_git: Callable[..., str]) -> None:
    """Beside them, only the tree before an end."""
    for number in range(9, 25):
        (history / "v").write_text(f"{number} of many\n")
        plain_git(history, "commit", "-q", "-a", "-m", f"make c{number}")
    found = answer(two, "commit:c8", "commit:main", history=str(history), test="test $(cut -d' ' -f1 v) -lt 9")
    assert "(make c9)" in found["bad"]["label"]
    store = Store.open(two.workspace.store)
    trees = plain_git(history, "log", "--format=%T", "c8..main").split()
    assert 0 < sum(store.has_object(tree) for tree in trees) <= 2 + found["tests"]


@pytest.mark.parametrize(("good", "bad"), [("commit:c0", "1.1"), ("1.0", "commit:c8"), ("base", "commit:c8")])
def test_one_end_a_commit_and_the_other_not_is_refused(two: Project, history: Path, good: str, bad: str) -> None:
    test = "test $(cat v) -lt 8" if bad.startswith("commit") else "test $(cat v) -lt 1"
    over = "both" if good == "base" else ""
    with pytest.raises(DeclarationError, match="one end is a commit, and the other is not"):
        answer(two, good, bad, history=str(history), test=test, over=over)


def test_commits_on_no_one_line_are_refused(two: Project, history: Path) -> None:
    with pytest.raises(DeclarationError, match="not among the first parents"):
        answer(two, "commit:c6", "commit:side", history=str(history), test="test $(cat v) -lt 900")


def test_commit_without_history_or_that_is_not_there_is_refused(two: Project, history: Path, tmp_path: Path) -> None:
    for folder, rev, said in (
        ("", "c0", "a commit of no repository"),
        (str(history), "nothing", "nothing"),
        (str(tmp_path / "nowhere"), "c0", "no such directory"),
    ):
        with pytest.raises(DeclarationError, match=said):
            answer(two, f"commit:{rev}", "commit:c8", history=folder, test="true")
