"""Two recipes side by side: the same text at another place is not the same change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping

import pytest
from made_project import write_project

from patchset import review_show
from patchset.compare import Change, Comparison, changes_between, compare, paired, read
from patchset.compare_place import Source
from patchset.console import Console
from patchset.errors import DeclarationError, StoreError
from patchset.lock import read_lock
from patchset.resolve import Project, relock
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
    [(1, ""), (4, ""), (5, "First"), (7, "First.run"), (9, "First.run"), (11, "First"), (12, "First.stop"), (18, "Second.run")],
)  # fmt: skip
def test_scope_is_the_class_and_function_around_a_line(line: int, scope: str) -> None:
    assert Source(SOURCE).scope(line) == scope


@pytest.mark.parametrize(
    ("line", "added", "scope"),
    [
        (10, b"        more()\n", "First.run"),  # at the end of a function, in its body
        (11, b"        more()\n", "First.run"),
        (11, b"    def more(self):\n", "First"),
        (14, b"def more():\n", ""),
        (7, b"        more()\n", "First.run"),
        (7, b"\n", "First.run"),
        (20, b"        more()\n", "Second.run"),
        (20, b"more()\n", ""),
    ],
)
def test_line_that_comes_in_belongs_where_its_indentation_says(line: int, added: bytes, scope: str) -> None:
    assert Source(SOURCE).scope_of_insertion(line, [b"\n", added]) == scope


def test_scope_of_a_table_behind_a_class_is_not_the_class() -> None:
    source = Source(b"class A:\n    x = 1\n\n\nTABLE = {\n    1: 2,\n    3: 4,\n}\n")
    assert source.scope(6) == source.scope_of_insertion(7, [b"    2: 3,\n"]) == ""


def test_text_at_the_edge_of_the_line_does_not_end_a_function() -> None:
    lines = b'def f(\n    a,\n):\n    """\nText.\n"""\n    return a\n'
    assert [Source(lines).scope(line) for line in (1, 2, 5, 7)] == ["", "f", "f", "f"]


def test_file_that_is_no_python_has_no_scopes() -> None:
    assert Source(b"def f(:\n    x\n").scope(2) == ""


def test_change_is_told_with_its_line_and_scope(bench: Store, make_tree: MakeTree) -> None:
    (change,) = changes_between(bench, make_tree({"f.py": SOURCE}), make_tree({"f.py": fixed(2)}))
    removed, added = (b"        value = get()\n",), (b"        value = take()\n",)
    assert (change.path, change.line, change.scope) == ("f.py", 18, "Second.run")
    assert (change.removed, change.added) == (removed, added)
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


def test_likest_text_of_a_function_is_its_partner_and_an_unlike_one_is_none() -> None:
    left = [change("", b"alpha = beta(gamma, delta)\n"), change("", b"one two three four\n")]
    right = [change("", b"five six seven eight nine ten\n"), change("", b"alpha = beta(gamma, epsilon)\n")]
    assert [(p.kind, p.left and p.left.added, p.right and p.right.added) for p in paired(left, right)] == [
        ("changed", left[0].added, right[1].added), ("gone", left[1].added, None), ("new", None, right[0].added),
    ]  # fmt: skip


def test_change_that_moved_within_its_file_is_taken_before_one_in_another() -> None:
    left = [change("A.f", b"1\n")]
    right = [change("A.f", b"1\n", path="g.py"), change("B.f", b"1\n")]
    assert [(p.kind, p.right and p.right.path) for p in paired(left, right)] == [("moved", "f.py"), ("new", "g.py")]


def test_like_block_of_another_function_does_not_count(bench: Store, make_tree: MakeTree) -> None:
    """Upstream adds a function that has the same lines: the place is still the one of its own function."""
    one = b"def f():\n    a()\n    x = get()\n    b()\n"
    two = b"def e():\n    a()\n    x = get()\n    b()\n\n\n" + one

    def changed(source: bytes) -> tuple[Change, ...]:
        head, _, tail = source.rpartition(b"get()")
        return changes_between(bench, make_tree({"f.py": source}), make_tree({"f.py": head + b"take()" + tail}))

    assert [pair.kind for pair in paired(changed(one), changed(two))] == ["same"]


TWINS = b"def f():\n    first()\n    x = get()\n    between()\n    x = get()\n    last()\n"


@pytest.mark.parametrize("insert", [False, True])
def test_like_block_of_one_function_is_another_place(insert: bool, bench: Store, make_tree: MakeTree) -> None:
    """Neither patch id nor function tells them apart; which of the like blocks it is does."""

    def changed(source: bytes, nth: int) -> tuple[Change, ...]:
        parts = source.split(b"    x = get()\n")
        block = b"    x = get()\n    check(x)\n" if insert else b"    x = take()\n"
        blocks = [block if index == nth else b"    x = get()\n" for index in range(len(parts) - 1)]
        edited = b"".join(part + block for part, block in zip(parts, [*blocks, b""], strict=True))
        return changes_between(bench, make_tree({"f.py": source}), make_tree({"f.py": edited}))

    moved_down = b"# one line more\n" + TWINS
    third = TWINS.replace(b"    first()\n", b"    x = get()\n    first()\n")
    (pair,) = paired(changed(TWINS, 0), changed(TWINS, 1))
    assert (pair.kind, pair.left and pair.left.line, pair.right and pair.right.line) == (
        "moved",
        3 + insert,
        5 + insert,
    )
    for source, left, right in ((moved_down, 0, 0), (moved_down, 1, 1), (third, 0, 1), (third, 1, 2)):
        assert [pair.kind for pair in paired(changed(TWINS, left), changed(source, right))] == ["same"]
    assert [pair.kind for pair in paired(changed(TWINS, 0), changed(third, 0))] == ["moved"]


def test_new_file_mode_and_deletion_are_changes_too(bench: Store, make_tree: MakeTree) -> None:
    before = make_tree({"a": b"a\n", "b": b"b\n"})
    after = make_tree({"a": ("100755", b"a\n"), "c.py": b"c = 1\n"})
    assert [(c.path, c.line, c.scope, c.added) for c in changes_between(bench, before, after)] == [
        ("a", 0, "mode", ()), ("b", 1, "", ()), ("c.py", 0, "", (b"c = 1\n",)),
    ]  # fmt: skip
    pairs = paired(changes_between(bench, before, after), changes_between(bench, before, after))
    assert [pair.kind for pair in pairs] == ["same", "same", "same"]
    assert changes_between(bench, before, before) == ()


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
    assert [name for name, _, _ in found.pin] == ["release", "base", "tree", "version"]
    assert found.order is None


def shown(found: Comparison, capsys: pytest.CaptureFixture[str]) -> str:
    review_show.show_comparison(Console(), found)
    return capsys.readouterr().out


def test_what_is_shown_has_line_and_function_of_both_sides(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shown(compare(project, project.recipe("r"), project.recipe("s")), capsys)
    assert "  same change, other place: f.py:7 in First.run → f.py:18 in Second.run\n" in out
    review_show.show_comparison(Console(as_json=True), compare(project, project.recipe("r"), project.recipe("s")))
    (pair,) = json.loads(capsys.readouterr().out)["patches"][0]["changes"]
    assert (pair["kind"], pair["left"]["line"], pair["right"]["scope"]) == ("moved", 7, "Second.run")


def test_recipe_is_the_same_as_itself(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    found = compare(project, project.recipe("r"), project.recipe("r"))
    assert (found.pin, found.stack, found.omitted, found.order) == ((), (), (), None)
    assert [pair.kind for patch in found.patches for pair in patch.pairs] == ["same"]
    assert found.same
    said = "r and itself are the same: pin, series and every change, stack and what is left out\n"
    assert shown(found, capsys).endswith(f"  1 change the same, at the same place\n{said}")
    review_show.show_comparison(Console(as_json=True), found)
    assert json.loads(capsys.readouterr().out)["same"] is True
    assert not compare(project, project.recipe("r"), project.recipe("s")).same


def test_recipe_beside_the_state_that_its_lock_holds(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    relock(project, project.recipe("r"), lambda text: None)
    found = compare(project, read(project, "r.lock"), read(project, "r"))
    assert (found.left, found.pin, found.stack, found.order) == ("r.lock", (), None, None)
    assert shown(found, capsys).endswith("r.lock and r are the same: pin, series and every change\n")
    assert [(item.left, [pair.kind for pair in item.pairs]) for item in found.patches] == [
        (("==0.20.0", "applies"), ["same"])
    ]
    # the patch is edited, and the lock not made anew: the tree of before is still known
    file = project.workspace.patches / "mend" / "0.patch"
    file.write_bytes(file.read_bytes().replace(b"value = take()", b"value = give()"))
    now = Project.read(project.workspace)
    found = compare(now, read(now, "r.lock"), read(now, "r"))
    (patch,) = found.patches
    assert (patch.left, [pair.kind for pair in patch.pairs]) == (("as locked", "applies"), ["changed"])
    assert [name for name, _, _ in found.pin] == ["tree", "version"]
    out = shown(found, capsys)
    assert "not compared, a lock does not have them" in out
    assert "      -+        value = take()\n      ++        value = give()\n" in out
    assert "  same place, other text: f.py:7 in First.run → f.py:7 in First.run\n       -        value = get()\n" in out


def test_lock_that_is_not_there_or_whose_trees_are_not(project: Project) -> None:
    with pytest.raises(DeclarationError, match="no such lock"):
        read(project, "r.lock")
    relock(project, project.recipe("r"), lambda text: None)
    file = project.workspace.recipes / "r.lock"
    lock = read_lock(file)
    assert lock
    file.write_text(file.read_text().replace(lock.tree, "1" * 40))
    with pytest.raises(StoreError, match="not in the store"):
        compare(project, read(project, "r.lock"), read(project, str(file)))


def test_patch_of_one_recipe_only_is_said_to_be(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    edit(project, "s", 'patches = ["mend"]', 'patches = []\n\n[[series.omit]]\npatch = "mend"\nreason = "the reason"')
    now = Project.read(project.workspace)
    found = compare(now, now.recipe("r"), now.recipe("s"))
    assert (found.order, found.omitted) == ((("mend",), ()), (("mend", "", "the reason"),))
    assert [(item.left[1], item.right[1], [p.kind for p in item.pairs]) for item in found.patches] == [
        ("applies", "", ["gone"])
    ]
    out = shown(found, capsys)
    assert "s leaves mend out: the reason\n" in out
    assert "mend: applies (==0.20.0) | not in the series\n  only in r: f.py:7 in First.run\n" in out


def test_two_patches_of_one_text_at_two_places_are_brought_together(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """One recipe has the one, the other the other; their patch ids are equal."""
    twin = project.workspace.patches / "twin"
    shutil.copytree(project.workspace.patches / "mend", twin)
    leave_out = '\n\n[[series.omit]]\npatch = "{}"\nreason = "the other one does it"'
    edit(project, "r", 'patches = ["mend"]', 'patches = ["mend"]' + leave_out.format("twin"))
    edit(project, "s", 'patches = ["mend"]', 'patches = ["twin"]' + leave_out.format("mend"))
    now = Project.read(project.workspace)
    found = compare(now, now.recipe("r"), now.recipe("s"))
    (pair,) = [pair for item in found.patches for pair in item.pairs]
    assert (pair.kind, pair.other) == ("moved", "twin")
    assert "mend: applies (==0.20.0) | not in the series\n  same change, other place, there by patch twin: f.py:7 in First.run → f.py:18 in Second.run\n" in shown(found, capsys)  # fmt: skip


def test_two_patches_that_share_a_blank_line_have_nothing_to_do_with_each_other(
    project: Project, bench: Store, make_tree: MakeTree
) -> None:
    folder = project.workspace.patches
    shutil.copytree(folder / "mend", folder / "twin")
    for name, after in (("mend/0.patch", b"import os\n"), ("twin/1.patch", b"    c = 3\n")):
        source = project.workspace.patches / name
        new = SOURCE.replace(after, after + b"\n", 1)
        source.write_bytes(bench.diff(make_tree({"f.py": SOURCE}), make_tree({"f.py": new})))
    leave_out = '\n\n[[series.omit]]\npatch = "{}"\nreason = "the other one does it"'
    edit(project, "r", 'patches = ["mend"]', 'patches = ["mend"]' + leave_out.format("twin"))
    edit(project, "s", 'patches = ["mend"]', 'patches = ["twin"]' + leave_out.format("mend"))
    now = Project.read(project.workspace)
    found = compare(now, now.recipe("r"), now.recipe("s"))
    assert [(pair.kind, pair.other) for item in found.patches for pair in item.pairs] == [("gone", ""), ("new", "")]


def edit(project: Project, recipe: str, old: str, new: str) -> None:
    file = project.workspace.recipes / f"{recipe}.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
