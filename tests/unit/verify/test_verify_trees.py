"""Object ids made here are git's own, and the proof a wheel carries makes its tree's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import made_verify as mv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchset.errors import WheelError
from patchset.store import Store
from patchset.verify.trees import BadTree, blob_id, forest_of, tree_id
from patchset.wheel.tree_proof import tree_proof


def test_ids_are_gits(bench: Store, tmp_path: Path) -> None:
    for path, (mode, data) in mv.BASE.items():
        place = tmp_path / "tree" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if mode == mv.LINK:
            place.symlink_to(data.decode())
        else:
            place.write_bytes(data)
            place.chmod(0o755 if mode == mv.EXECUTABLE else 0o644)
    tree = bench.import_directory(tmp_path / "tree")
    entries = bench.entries(tree)
    assert entries == dict(sorted(mv.entries_of(mv.BASE).items()))
    assert forest_of({path: (entry.mode, entry.blob) for path, entry in entries.items()}).root == tree
    assert bench.write_blob(b"x") == blob_id(b"x")
    members = [path for path in entries if path.startswith("vllm/")]
    proof = tree_proof(entries, members, tree)
    assert proof["executable"] == ["vllm/run.sh"]
    assert {place: [name for _, name, _ in rest] for place, rest in proof["rest"].items()} == {
        "": ["README.md", "csrc", "setup.py", "tests"],
        "vllm": ["copy.py"],
    }
    assert ["040000", "csrc", bench.run("rev-parse", f"{tree}:csrc").decode().strip()] in proof["rest"][""]
    with pytest.raises(WheelError, match="make the tree"):
        tree_proof(entries, members, "a" * 40)


def test_sorting_as_git_does(make_tree: Callable[..., str], bench: Store) -> None:
    tree = make_tree({name: b"x" for name in ("a.b", "a/b", "a0", "a-b", "é", "b/a/c", "b.a")})
    entries = bench.entries(tree)
    assert forest_of({path: (entry.mode, entry.blob) for path, entry in entries.items()}).root == tree


NAMES = st.sampled_from(["a", "b", "a.b", "a-", "a0", "é", "z"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@given(st.dictionaries(PATHS, st.sampled_from(["100644", "100755", "120000"]), min_size=1, max_size=12), st.data())
def test_any_part_of_a_tree_and_its_proof_make_it(modes: dict[str, str], data: st.DataObject) -> None:
    files = {path: mode for path, mode in modes.items() if not any(other.startswith(f"{path}/") for other in modes)}
    entries = mv.entries_of({path: (mode, path.encode()) for path, mode in files.items()})
    root = forest_of({path: (entry.mode, entry.blob) for path, entry in entries.items()}).root
    members = data.draw(st.lists(st.sampled_from(sorted(files)), unique=True))
    proof = tree_proof(entries, [*members, "made/by/the/build.so"], root)
    rest = {
        place: {name: (mode, oid) for mode, name, oid in left}
        for place, left in json.loads(json.dumps(proof))["rest"].items()
    }
    held = {
        path: ("100755" if path in proof["executable"] else "100644", entries[path].blob)
        for path in members
        if files[path] != "120000"
    }
    assert forest_of(held, rest).root == root
    for path in held:
        others = {other: value for other, value in held.items() if other != path}
        assert forest_of(others, rest).root == forest_of(held, rest).root_without(path) != root


@pytest.mark.parametrize(
    ("files", "rest"),
    [
        ({"a": ("100644", "1" * 40)}, {"": {"a": ("100644", "1" * 40)}}),
        ({"a/b": ("100644", "1" * 40)}, {"": {"a": ("040000", "1" * 40)}}),
        ({"a/b": ("100644", "1" * 40), "a": ("100644", "1" * 40)}, {}),
        ({"a//b": ("100644", "1" * 40)}, {}),
        ({"a/..": ("100644", "1" * 40)}, {}),
        ({"a\0b": ("100644", "1" * 40)}, {}),
        ({"\ud800": ("100644", "1" * 40)}, {}),
        ({"a": ("100600", "1" * 40)}, {}),
        ({"a": ("100644", "1" * 39)}, {}),
        ({"a": ("100644", "1" * 38 + " 1")}, {}),
        ({"a": ("100644", "g" * 40)}, {}),
    ],
)
def test_what_git_cannot_hold(files: dict[str, tuple[str, str]], rest: dict[str, dict[str, tuple[str, str]]]) -> None:
    with pytest.raises(BadTree):
        forest_of(files, rest)


def test_a_name_that_is_no_utf_8() -> None:
    assert tree_id({"\udcff": ("100644", blob_id(b""))}) != tree_id({"ÿ": ("100644", blob_id(b""))})
