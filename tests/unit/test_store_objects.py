"""Objects and trees made without a git of their own are those that git makes; and the git that stays is mended when it dies."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchset.store import Entry, Store
from patchset.store.elsewhere import read_commit

MakeTree = Callable[..., str]
PlainGit = Callable[..., str]

NAMES = st.sampled_from(["a", "a.b", "a-b", "a0", "b", "é", "\udcff", "x y", "new\nline"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
FILES = st.dictionaries(PATHS, st.sampled_from(["100644", "100755", "120000"]), max_size=8)


def by_index(store: Store, files: dict[str, str], blob: str, folder: Path) -> str | None:
    """The tree that git's own index makes of *files*; None where it cannot hold them all."""
    extra = {"GIT_INDEX_FILE": str(folder / "index"), "GIT_WORK_TREE": str(folder)}
    store.run("read-tree", "--empty", extra=extra)
    lines = [f"{mode} {blob}\t".encode() + os.fsencode(path) + b"\0" for path, mode in files.items()]
    store.run("update-index", "-z", "--index-info", stdin=b"".join(lines), extra=extra)
    kept = store.run("ls-files", "-z", extra=extra).split(b"\0")[:-1]
    return store.run("write-tree", extra=extra).decode().strip() if len(kept) == len(files) else None


@settings(max_examples=120, deadline=None)
@given(before=FILES, after=FILES)
def test_trees_are_those_of_git_s_index(
    before: dict[str, str], after: dict[str, str], bench: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("index")
    blob = bench.write_blob(b"content\n")
    wanted = [by_index(bench, files, blob, folder) for files in (before, after)]
    if None in wanted:
        return  # one name as a file and as a directory
    empty = bench.run("mktree", stdin=b"").decode().strip()
    first = bench.with_files(empty, {path: Entry(mode, blob) for path, mode in before.items()})
    gone = dict.fromkeys(before.keys() - after.keys())
    second = bench.with_files(first, {**gone, **{path: Entry(mode, blob) for path, mode in after.items()}})
    assert [first, second] == wanted
    assert {path: entry.mode for path, entry in bench.entries(second).items()} == after
    out = bench.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", first, second)
    assert bench.changed_paths(first, second) == tuple(sorted(os.fsdecode(n) for n in out.split(b"\0") if n))


def test_commit_is_the_one_that_git_would_make(bench: Store, make_tree: MakeTree) -> None:
    from datetime import datetime, timezone

    tree, date = make_tree({"f": b"x\n"}), datetime(2026, 5, 6, 7, 8, 9, tzinfo=timezone.utc)
    first = bench.commit(tree, (), "titlé\n\nbody", date)
    who = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in
           (("NAME", "patchset"), ("EMAIL", "patchset@localhost"), ("DATE", "1778051289 +0000"))}  # fmt: skip
    theirs = bench.run("commit-tree", tree, "-p", first, stdin=b"two\n", extra=who).decode().strip()
    assert bench.commit(tree, (first,), "two", date) == theirs
    assert bench.run("fsck", "--strict", "--no-dangling", first) == b""


@pytest.mark.parametrize(
    ("claimed", "message", "told"),
    [
        ("", "für".encode(), "für"),
        ("ISO-8859-1", "für".encode("latin-1"), "für"),
        ("ISO-8859-1", "für".encode(), "für"),  # i18n.commitEncoding says so, and nobody encoded it
        ("no-such-encoding", b"f\xfcr", "f\ufffdr"),
    ],
)
def test_commit_of_a_person_is_read_in_its_encoding(
    claimed: str, message: bytes, told: str, bench: Store, tmp_path: Path, plain_git: PlainGit
) -> None:
    plain_git(tmp_path, "init", "-q", "there")
    there = tmp_path / "there"
    (there / "message").write_bytes(message)
    tree = plain_git(there, "write-tree")
    parent = plain_git(there, "commit-tree", tree, "-m", "parent")
    words = ("-c", f"i18n.commitEncoding={claimed}") if claimed else ()
    oid = plain_git(there, *words, "commit-tree", tree, "-p", parent, "-F", "message")
    read = read_commit(bench, there, oid)
    assert (read.id, read.tree, read.parents, read.author) == (oid, tree, (tree,), "somebody <somebody>")
    assert read.message.strip() == told
    commit = bench.commit_at(bench.bring_head(there, oid))
    assert (commit.id, commit.tree, commit.parents, commit.message.strip()) == (oid, tree, (parent,), told)


def test_git_that_was_killed_is_started_again(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s.git")
    blob = store.write_blob(b"x")
    git = store._reader()._process.proc
    git.kill()
    git.wait()
    assert store.blob(blob) == b"x"


def test_object_that_git_wrote_later_is_seen(bench: Store) -> None:
    assert not bench.has_object("0" * 40)
    oid = bench.run("hash-object", "-w", "--stdin", stdin=b"written by another git").decode().strip()
    assert bench.blob(oid) == b"written by another git"


def test_written_object_is_one_that_any_git_reads(bench: Store) -> None:
    data = bytes(range(256)) * 300
    oid = bench.write_blob(data)
    assert bench.run("hash-object", "--stdin", stdin=data).decode().strip() == oid
    assert bench.run("cat-file", "blob", oid) == data


def test_file_can_only_be_made_where_nothing_is_in_the_way(bench: Store, make_tree: MakeTree) -> None:
    tree = make_tree({"d/f": b"x\n"})
    assert {path: bench.is_free(tree, path) for path in ("d/f", "d", "d/f/g", "d/g", "e/f/g")} == {
        "d/f": False, "d": False, "d/f/g": False, "d/g": True, "e/f/g": True,
    }  # fmt: skip


def test_diff_has_whole_ids_and_no_renames(bench: Store, make_tree: MakeTree) -> None:
    old, new = make_tree({"a/f": b"x\n" * 9, "b": b"\0"}), make_tree({"a/g": b"x\n" * 9, "b": b"\0\1"})
    data = bench.diff(old, new)
    assert b"deleted file mode 100644" in data and b"GIT binary patch" in data and b"rename" not in data
    assert bench.apply(old, data) == (new, "")
    assert bench.diff(old, old) == b""


def test_renames_tell_where_a_file_went_and_how_alike_it_is(bench: Store, make_tree: MakeTree) -> None:
    lines = [b"line %d\n" % number for number in range(20)]
    old = make_tree({"a/f": b"".join(lines), "a/h": b"only here\n" * 30, "stays": b"x\n"})
    new = make_tree({"b/g": b"".join([*lines[:-2], b"other\n"]), "stays": b"x\n", "more": b"y\n"})
    ((path, (went, alike)),) = bench.renames(old, new).items()
    assert (path, went) == ("a/f", "b/g") and 80 <= alike < 100
