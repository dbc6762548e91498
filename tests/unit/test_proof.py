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
from patchset.proof import Findings, ask, recall
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
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def new_patch(patch_folder: Callable[..., Path], upstream: Upstream, log: Path) -> Callable[..., Patch]:
    numbers = itertools.count()

    def make(program: str = PROGRAM) -> Patch:
        probe = program.format(log=str(log)) + f"# {next(numbers)}\n"
        variant = '[[variant]]\nreleases = "==1.0"\nabsent = [{ file = "x" }]\n'
        return read_patch(patch_folder(variant, {"probe.py": probe.encode()}, id=f"p{next(numbers)}"), upstream)

    return make


@pytest.fixture
def asked(bench: Store, scratch: Path, cache: Path) -> Callable[..., Findings]:
    """What the probes say of these questions."""
    return lambda questions, **more: ask(questions, bench, LAB, cache=cache, scratch=scratch, **more)


def ran(log: Path) -> list[list[str]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_every_question_is_answered_from_its_own_tree(
    asked: Callable[..., Findings], make_tree: Callable[..., str], new_patch: Callable[..., Patch]
) -> None:
    patches, trees = [new_patch(), new_patch()], [make_tree({"a": f"{n}".encode()}) for n in range(3)]
    heard = []
    questions = [(patch, tree) for patch in patches for tree in trees]
    found = asked(questions, heard=heard.append)
    assert {pair: finding.reason for pair, finding in found.items()} == {
        (patch.id, tree): str(number) for patch in patches for number, tree in enumerate(trees)
    }
    assert sorted(map(str, heard)) == sorted(map(str, found.values()))


def test_no_more_trees_lie_about_than_probes_run_at_once_and_none_at_the_end(
    asked: Callable[..., Findings],
    make_tree: Callable[..., str],
    new_patch: Callable[..., Patch],
    scratch: Path,
    log: Path,
) -> None:
    patches, trees = [new_patch(), new_patch(), new_patch()], [make_tree({"a": f"t{n}".encode()}) for n in range(6)]
    # asked patch by patch, as the columns of a matrix are: the trees would all be there at once
    asked([(p, t) for p in patches for t in trees])
    assert len(ran(log)) == 18
    assert max(map(len, ran(log))) <= 2
    assert list(scratch.iterdir()) == []


def test_each_tree_is_written_once(
    asked: Callable[..., Findings],
    make_tree: Callable[..., str],
    new_patch: Callable[..., Patch],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written, export = [], Store.export
    monkeypatch.setattr(Store, "export", lambda self, tree, where: (written.append(tree), export(self, tree, where)))
    patches, trees = [new_patch(), new_patch()], [make_tree({"a": f"w{n}".encode()}) for n in range(3)]
    asked([(p, t) for p in patches for t in trees])
    assert sorted(written) == sorted(trees)


def test_what_is_known_needs_no_tree_and_the_same_question_is_asked_once(
    asked: Callable[..., Findings], make_tree: Callable[..., str], new_patch: Callable[..., Patch], log: Path
) -> None:
    patch, tree = new_patch(), make_tree({"a": b"once"})
    first = asked([(patch, tree), (patch, tree)])
    again = asked([(patch, tree)])
    assert len(ran(log)) == 1
    assert [finding.cached for finding in (*first.values(), *again.values())] == [False, True]
    asked([(patch, tree)], fresh=True)
    assert len(ran(log)) == 2


def test_tree_that_cannot_be_written_is_an_error_and_not_a_verdict(
    asked: Callable[..., Findings],
    make_tree: Callable[..., str],
    new_patch: Callable[..., Patch],
    scratch: Path,
    cache: Path,
) -> None:
    patch, tree = new_patch(), make_tree({"a": b"x"})
    (scratch / f"tree-{tree[:12]}.part").mkdir()
    (scratch / f"tree-{tree[:12]}.part" / "mine").write_bytes(b"")
    with pytest.raises(WorktreeError):
        asked([(patch, tree)])
    assert not cache.exists()


def test_recall_gives_what_is_kept_for_this_laboratory_and_runs_nothing(
    asked: Callable[..., Findings],
    make_tree: Callable[..., str],
    new_patch: Callable[..., Patch],
    cache: Path,
    log: Path,
) -> None:
    patch, other, tree = new_patch(), new_patch(), make_tree({"a": b"kept"})
    asked([(patch, tree)])
    found = recall([(patch, tree), (other, tree)], LAB.identity, cache)
    assert list(found) == [(patch.id, tree)]
    assert (found[patch.id, tree].verdict, found[patch.id, tree].cached) == (Verdict.DEFECT, True)
    assert recall([(patch, tree)], "another laboratory", cache) == {}
    assert len(ran(log)) == 1


def test_kept_verdict_that_was_cut_short_is_not_recalled(
    asked: Callable[..., Findings], make_tree: Callable[..., str], new_patch: Callable[..., Patch], cache: Path
) -> None:
    patch, tree = new_patch(), make_tree({"a": b"cut"})
    asked([(patch, tree)])
    for file in (cache / "probes").iterdir():
        file.write_bytes(file.read_bytes()[:20])
    assert recall([(patch, tree)], LAB.identity, cache) == {}
