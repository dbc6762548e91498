"""Probes on many trees: each tree is written once and removed when it is done with; what is known is not run again."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from patchset.errors import WorktreeError
from patchset.lab import Lab
from patchset.patch import Patch, read_patch
from patchset.probe import Verdict
from patchset.proof import ask, lab_identity, recall
from patchset.store import Store
from patchset.upstream import Upstream

LAB = Lab(Path(sys.executable), "this python")
#: Says what the tree holds, and writes down which trees lie beside it.
PROGRAM = """\
import json, pathlib, sys
tree = pathlib.Path(sys.argv[1])
with open({log!r}, "a") as log:
    log.write(json.dumps(sorted(p.name for p in tree.parent.glob("tree-*"))) + "\\n")
print(json.dumps({{"verdict": "defect", "reason": (tree / "a").read_text(), "checks": []}}))
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def new_patch(patch_folder: Callable[..., Path], upstream: Upstream, log: Path) -> Callable[..., Patch]:
    numbers = itertools.count()

    def make(program: str = PROGRAM) -> Patch:
        probe = program.format(log=str(log)) + f"# {next(numbers)}\n"
        variant = '[[variant]]\nreleases = "==1.0"\nabsent = [{ file = "x" }]\n'
        return read_patch(patch_folder(variant, {"probe.py": probe.encode()}, id=f"p{next(numbers)}"), upstream)

    return make


def ran(log: Path) -> list[list[str]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_every_question_is_answered_from_its_own_tree(
    bench: Store, make_tree: Callable[..., str], new_patch: Callable[..., Patch], scratch: Path, tmp_path: Path
) -> None:
    patches, trees = [new_patch(), new_patch()], [make_tree({"a": f"{n}".encode()}) for n in range(3)]
    heard = []
    questions = [(patch, tree) for patch in patches for tree in trees]
    found = ask(questions, bench, LAB, cache=tmp_path / "cache", scratch=scratch, heard=heard.append)
    assert {pair: finding.reason for pair, finding in found.items()} == {
        (patch.id, tree): str(number) for patch in patches for number, tree in enumerate(trees)
    }
    assert sorted(map(str, heard)) == sorted(map(str, found.values()))


def test_no_more_trees_lie_about_than_probes_run_at_once_and_none_at_the_end(
    bench: Store,
    make_tree: Callable[..., str],
    new_patch: Callable[..., Patch],
    scratch: Path,
    tmp_path: Path,
    log: Path,
) -> None:
    patches, trees = [new_patch(), new_patch(), new_patch()], [make_tree({"a": f"t{n}".encode()}) for n in range(6)]
    # asked patch by patch, as the columns of a matrix are: the trees would all be there at once
    ask([(p, t) for p in patches for t in trees], bench, LAB, cache=tmp_path / "cache", scratch=scratch)
    assert len(ran(log)) == 18
    assert max(map(len, ran(log))) <= 2
    assert list(scratch.iterdir()) == []


def test_each_tree_is_written_once(
    bench: Store,
    make_tree: Callable[..., str],
    new_patch: Callable[..., Patch],
    scratch: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written, export = [], Store.export
    monkeypatch.setattr(Store, "export", lambda self, tree, where: (written.append(tree), export(self, tree, where)))
    patches, trees = [new_patch(), new_patch()], [make_tree({"a": f"w{n}".encode()}) for n in range(3)]
    ask([(p, t) for p in patches for t in trees], bench, LAB, cache=tmp_path / "cache", scratch=scratch)
    assert sorted(written) == sorted(trees)


def test_what_is_known_needs_no_tree_and_the_same_question_is_asked_once(
    bench: Store,
    make_tree: Callable[..., str],
    new_patch: Callable[..., Patch],
    scratch: Path,
    tmp_path: Path,
    log: Path,
) -> None:
    patch, tree, cache = new_patch(), make_tree({"a": b"once"}), tmp_path / "cache"
    first = ask([(patch, tree), (patch, tree)], bench, LAB, cache=cache, scratch=scratch)
    again = ask([(patch, tree)], bench, LAB, cache=cache, scratch=scratch)
    assert len(ran(log)) == 1
    assert [finding.cached for finding in (*first.values(), *again.values())] == [False, True]
    ask([(patch, tree)], bench, LAB, cache=cache, scratch=scratch, fresh=True)
    assert len(ran(log)) == 2


def test_tree_that_cannot_be_written_is_an_error_and_not_a_verdict(
    bench: Store, make_tree: Callable[..., str], new_patch: Callable[..., Patch], scratch: Path, tmp_path: Path
) -> None:
    patch, tree = new_patch(), make_tree({"a": b"x"})
    (scratch / f"tree-{tree[:12]}.part").mkdir()
    (scratch / f"tree-{tree[:12]}.part" / "mine").write_bytes(b"")
    with pytest.raises(WorktreeError):
        ask([(patch, tree)], bench, LAB, cache=tmp_path / "cache", scratch=scratch)
    assert not (tmp_path / "cache").exists()


def test_recall_gives_what_is_kept_for_this_laboratory_and_runs_nothing(
    bench: Store,
    make_tree: Callable[..., str],
    new_patch: Callable[..., Patch],
    scratch: Path,
    tmp_path: Path,
    log: Path,
) -> None:
    patch, other, tree, cache = new_patch(), new_patch(), make_tree({"a": b"kept"}), tmp_path / "cache"
    ask([(patch, tree)], bench, LAB, cache=cache, scratch=scratch)
    found = recall([(patch, tree), (other, tree)], LAB.identity, cache)
    assert list(found) == [(patch.id, tree)]
    assert (found[patch.id, tree].verdict, found[patch.id, tree].cached) == (Verdict.DEFECT, True)
    assert recall([(patch, tree)], "another laboratory", cache) == {}
    assert len(ran(log)) == 1


def test_kept_verdict_that_was_cut_short_is_not_recalled(
    bench: Store, make_tree: Callable[..., str], new_patch: Callable[..., Patch], scratch: Path, tmp_path: Path
) -> None:
    patch, tree, cache = new_patch(), make_tree({"a": b"cut"}), tmp_path / "cache"
    ask([(patch, tree)], bench, LAB, cache=cache, scratch=scratch)
    for file in (cache / "probes").iterdir():
        file.write_bytes(file.read_bytes()[:20])
    assert recall([(patch, tree)], LAB.identity, cache) == {}


def test_identity_of_the_laboratory_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATCHSET_LAB_PYTHON", raising=False)
    assert lab_identity(tmp_path / "environments").startswith("lock ")
    assert list(tmp_path.iterdir()) == []
