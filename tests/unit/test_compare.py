"""Two recipes side by side: the same text at another place is not the same change."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from made_project import write_project

from patchset.compare import Change, changes_between, compare, paired, scope_at
from patchset.resolve import Project
from patchset.store import Store

MakeTree = Callable[..., str]

SOURCE = b"""\
import os


class First:
    def run(self):
        a = 1
        value = get()
        b = 2
        return b

    def stop(self):
        c = 3


class Second:
    def run(self):
        a = 1
        value = get()
        b = 2
        return b
"""


def fixed(place: int) -> bytes:
    parts = SOURCE.split(b"value = get()")
    return (parts[0] + b"value = take()" + parts[1] + b"value = get()" + parts[2] if place == 1 else
            parts[0] + b"value = get()" + parts[1] + b"value = take()" + parts[2])  # fmt: skip


@pytest.mark.parametrize(
    ("line", "scope"),
    [(1, ""), (5, "First"), (7, "First.run"), (9, "First.run"), (11, "First"), (12, "First.stop"), (18, "Second.run")],
)
def test_scope_is_the_class_and_function_around_a_line(line: int, scope: str) -> None:
    assert scope_at(SOURCE.splitlines(keepends=True), line) == scope


def test_line_that_comes_in_at_the_end_of_a_function_is_of_that_function() -> None:
    """Line 11 is the next function's first; what is inserted before it ends the one before."""
    assert scope_at(SOURCE.splitlines(keepends=True), 11, inserted=True) == "First.run"


def test_change_is_told_with_its_line_and_scope(bench: Store, make_tree: MakeTree) -> None:
    (change,) = changes_between(bench, make_tree({"f.py": SOURCE}), make_tree({"f.py": fixed(2)}))
    assert change == Change("f.py", 18, "Second.run", (b"        value = get()\n",), (b"        value = take()\n",))
    assert str(change) == "f.py:18 in Second.run"


def change(scope: str, text: bytes, path: str = "f.py", line: int = 1) -> Change:
    return Change(path, line, scope, (b"old\n",), (text,))


def test_changes_are_paired_by_text_and_place_then_text_then_place() -> None:
    left = [change("A.f", b"1\n"), change("B.f", b"2\n"), change("C.f", b"3\n"), change("D.f", b"4\n")]
    right = [change("C.f", b"other\n"), change("X.f", b"2\n"), change("A.f", b"1\n", line=99), change("N.f", b"5\n")]
    found = paired(left, right)
    assert [(p.kind, p.left and p.left.scope, p.right and p.right.scope) for p in found] == [
        ("same", "A.f", "A.f"), ("moved", "B.f", "X.f"), ("changed", "C.f", "C.f"), ("gone", "D.f", None),
        ("new", None, "N.f"),
    ]  # fmt: skip


@pytest.fixture
def project(tmp_path: object, bench: Store, make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch) -> Project:
    """One patch whose two variants have one text, and change one class in 0.20.0 and another in 0.21.0."""
    monkeypatch.delenv("PATCHSET_VENDOR", raising=False)

    def diff(place: int) -> bytes:
        return bench.diff(make_tree({"f.py": SOURCE}), make_tree({"f.py": fixed(place)}))

    variants = "".join(f'\n[[variant]]\nreleases = "==0.2{n}.0"\ndiff = "{n}.patch"\n' for n in (0, 1))
    files: Mapping[str, bytes] = {"0.patch": diff(1), "1.patch": diff(2)}
    releases = {"0.20.0": {"f.py": SOURCE}, "0.21.0": {"f.py": SOURCE, "g.py": b""}}
    made = write_project(tmp_path / "clone", releases, {"mend": (variants, files)}, ["mend"])  # type: ignore[operator]
    other = made.workspace.recipes / "s.toml"
    text = (made.workspace.recipes / "r.toml").read_text()
    other.write_text(text.replace('"0.20.0"', '"0.21.0"').replace("2.12.0", "2.13.0"))
    return Project.read(made.workspace)


def test_same_text_at_another_place_is_not_the_same_change(project: Project) -> None:
    found = compare(project, project.recipe("r"), project.recipe("s"))
    (patch,) = found.patches
    assert (patch.left, patch.right) == (("==0.20.0", "applies"), ("==0.21.0", "applies"))
    (pair,) = patch.pairs
    assert (pair.kind, str(pair.left), str(pair.right)) == ("moved", "f.py:7 in First.run", "f.py:18 in Second.run")
    assert found.stack == (("torch", "==2.12.0+xpu", "==2.13.0+xpu"),)
    assert [name for name, _, _ in found.pin] == ["release", "base", "tree"]
    assert found.order is None


def test_recipe_is_the_same_as_itself(project: Project) -> None:
    found = compare(project, project.recipe("r"), project.recipe("r"))
    assert (found.pin, found.stack, found.order) == ((), (), None)
    assert [pair.kind for patch in found.patches for pair in patch.pairs] == ["same"]


def test_patch_of_one_recipe_only_is_said_to_be(project: Project) -> None:
    file = project.workspace.recipes / "s.toml"
    file.write_text(
        file.read_text().replace('patches = ["mend"]', 'patches = []\n\n[[series.omit]]\npatch = "mend"\nreason = "r"')
    )
    now = Project.read(project.workspace)
    found = compare(now, now.recipe("r"), now.recipe("s"))
    assert found.order == (("mend",), ())
    assert [(item.left[1], item.right[1], [p.kind for p in item.pairs]) for item in found.patches] == [
        ("applies", "", ["gone"])
    ]
