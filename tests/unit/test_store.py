"""The store: trees in, trees out, and no configuration of anybody's that changes one bit of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from made_trees import on_disk

from patchset.errors import SourceError, StoreError, WorktreeError
from patchset.store import Entry, Store
from patchset.store.trees import EPOCH

MakeTree = Callable[..., str]

NASTY_NAMES = {
    "d/e/f": b"x\n",
    "with space": b"1",
    'quo"te': b"2",
    "back\\slash": b"3",
    "tab\t": b"4",
    "ünï": b"5",
    "latin\udcfc": b"6",
    "-option": b"7",
    "*glob?[x]": b"8",
    "run": ("100755", b"#!\n"),
    "link": ("120000", b"d/e"),
    "dangling": ("120000", b"no/where"),
    "empty": b"",
    "crlf": b"a\r\nb\r\n",
    "binary": bytes(range(256)),
}


def test_directory_goes_in_and_out_unchanged(make_tree: MakeTree, bench: Store, tmp_path: Path) -> None:
    tree = make_tree(NASTY_NAMES)
    bench.export(tree, tmp_path / "out")
    assert on_disk(tmp_path / "out") == {
        path: content if isinstance(content, tuple) else ("100644", content) for path, content in NASTY_NAMES.items()
    }
    assert bench.import_directory(tmp_path / "out") == tree
    assert bench.has_tree(tree)


def test_import_takes_what_ignore_rules_and_attributes_would_change(
    make_tree: MakeTree, bench: Store, tmp_path: Path
) -> None:
    files = {".gitignore": b"*\n", ".gitattributes": b"* text eol=crlf ident\n", "f": b"$Id$\r\nx\n"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert bench.import_directory(tmp_path) == make_tree(files)


def test_import_reads_only_the_owners_execute_bit(make_tree: MakeTree, bench: Store, tmp_path: Path) -> None:
    for name, mode in (("a", 0o611), ("b", 0o700)):
        (tmp_path / name).write_bytes(b"x")
        (tmp_path / name).chmod(mode)
    assert bench.import_directory(tmp_path) == make_tree({"a": b"x", "b": ("100755", b"x")})


def test_import_refuses_what_a_tree_cannot_hold(bench: Store, tmp_path: Path) -> None:
    (tmp_path / "one" / ".GIT").mkdir(parents=True)
    (tmp_path / "one" / ".GIT" / "config").write_bytes(b"")
    (tmp_path / "two").mkdir()
    os.mkfifo(tmp_path / "two" / "pipe")
    with pytest.raises(SourceError, match="no name that a tree can hold"):
        bench.import_directory(tmp_path / "one")
    with pytest.raises(SourceError, match="neither a file nor a link"):
        bench.import_directory(tmp_path / "two")


def test_export_never_writes_into_a_folder_with_something_in_it(
    make_tree: MakeTree, bench: Store, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_bytes(b"x")
    with pytest.raises(WorktreeError):
        bench.export(make_tree({"f": b"y"}), tmp_path)
    assert on_disk(tmp_path) == {"mine": ("100644", b"x")}


def test_reading_a_tree(make_tree: MakeTree, bench: Store) -> None:
    tree = make_tree({"d/f": b"x\n", "*": b"star"})
    assert (bench.read(tree, "d/f"), bench.read(tree, "d"), bench.read(tree, "no"), bench.read(tree, "*")) == (
        b"x\n",
        None,
        None,
        b"star",
    )
    assert bench.entry(tree, "d/f") == Entry("100644", bench.write_blob(b"x\n"))
    assert list(bench.entries(tree)) == ["*", "d/f"]


def test_with_file_changes_one_path(make_tree: MakeTree, bench: Store) -> None:
    tree = make_tree({"d/f": b"x\n", "g": b"y\n"})
    changed = bench.with_file(tree, "d/n", Entry("100755", bench.write_blob(b"z")))
    assert changed == make_tree({"d/f": b"x\n", "g": b"y\n", "d/n": ("100755", b"z")})
    assert bench.changed_paths(tree, changed) == ("d/n",)


def test_changed_paths_names_both_sides_of_a_rename(make_tree: MakeTree, bench: Store) -> None:
    assert bench.changed_paths(make_tree({"a": b"x" * 99}), make_tree({"ü": b"x" * 99})) == ("a", "ü")


def test_tree_with_a_missing_blob_is_not_there(bench: Store) -> None:
    missing = bench.run("mktree", "--missing", stdin=b"100644 blob " + b"12" * 20 + b"\tf\n").decode().strip()
    assert bench.has_object(missing)
    assert not bench.has_tree(missing)
    assert not bench.has_tree("34" * 20)


def test_merge_takes_both_sides_and_names_conflicts(make_tree: MakeTree, bench: Store) -> None:
    lines = b"".join(b"%d\n" % number for number in range(20))
    base, ours = make_tree({"f": lines}), make_tree({"f": lines.replace(b"2\n", b"two\n", 1)})
    theirs = make_tree({"f": lines.replace(b"18\n", b"x\n"), "g": b"new\n"})
    merged = bench.merge(base, ours, theirs)
    assert (merged.tree, merged.conflicts) == (
        make_tree({"f": lines.replace(b"2\n", b"two\n", 1).replace(b"18\n", b"x\n"), "g": b"new\n"}),
        (),
    )
    clash = bench.merge(base, ours, make_tree({"f": lines.replace(b"2\n", b"zwei\n", 1)}))
    assert clash.conflicts == ("f",)
    assert b"<<<<<<<" in (bench.read(clash.tree, "f") or b"")


def test_commit_id_depends_on_nothing_but_its_arguments(make_tree: MakeTree, bench: Store) -> None:
    """The id is git's own for these bytes; anything of this machine in it would change it."""
    tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # git's empty tree
    assert make_tree({}) == tree
    assert bench.run("cat-file", "commit", bench.commit(tree, (), "ä", EPOCH)).decode() == (
        f"tree {tree}\nauthor patchset <patchset@localhost> 946684800 +0000\ncommitter patchset <patchset@localhost> 946684800 +0000\n\nä\n"
    )


def test_failure_of_git_is_an_error_with_git_s_last_words(bench: Store) -> None:
    with pytest.raises(StoreError, match="git diff-tree failed") as error:
        bench.diff("12" * 20, "34" * 20)
    assert "12" * 20 in error.value.detail


@pytest.mark.parametrize("name", ["12" * 20, "HEAD", "12" * 20 + "\ninfo x"])
def test_object_that_is_not_there_is_an_error_that_names_it(bench: Store, name: str) -> None:
    with pytest.raises(StoreError, match=re.escape(name[:40])):
        bench.blob(name)


def test_second_opening_leaves_the_store_as_it_is(tmp_path: Path) -> None:
    blob = Store.open(tmp_path / "s.git").write_blob(b"x")
    assert Store.open(tmp_path / "s.git").blob(blob) == b"x"
    assert [path.name for path in tmp_path.iterdir()] == ["s.git"]


def test_opening_that_fails_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*words: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "rename", broken)
    with pytest.raises(OSError, match="disk full"):
        Store.open(tmp_path / "s.git")
    assert list(tmp_path.iterdir()) == []


def test_without_git_the_advice_is_to_install_it(tmp_path: Path) -> None:
    """In a process of its own: GitPython looks for git once, when it is imported."""
    program = (
        "import sys; from pathlib import Path; from patchset.store import Store; from patchset.errors import MissingTool\n"
        "try: Store.open(Path(sys.argv[1]))\nexcept MissingTool as error: print(error.next)"
    )
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-B", "-c", program, str(tmp_path / "s.git")],
        env={"PATH": str(tmp_path), "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "sudo apt install git\n"


def test_a_store_without_its_head_says_how_to_get_a_new_one(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s.git")
    (store.path / "HEAD").unlink()
    with pytest.raises(StoreError, match="cannot be made") as caught:
        Store.open(tmp_path / "s.git")
    assert f"mv {store.path}" in caught.value.next
    assert not list(tmp_path.glob("store-*"))


def test_edited_attributes_of_a_store_are_put_right(tmp_path: Path) -> None:
    attributes = Store.open(tmp_path / "s.git").path / "info" / "attributes"
    right = attributes.read_text()
    attributes.write_text("* text eol=crlf\n")
    Store.open(tmp_path / "s.git")
    assert attributes.read_text() == right
