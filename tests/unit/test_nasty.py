"""The nasty inputs: each is the small form of something that was reported in public about a tool that applies patches.

``nasty.json`` is a list of ``{name, note, base, patch, verdict, …}``. ``base`` maps a path to ``{"data": base64}`` or
``{"link": target}``, with a ``mode`` where it is not a plain file's; ``patch`` is base64. Verdicts:

* ``accept``: it applies; ``result`` maps every path of the resulting tree to its git mode and bytes. Nothing else is right.
* ``refuse``: the strict reader turns it away before git sees it; ``rule`` says in words which rule.
* ``outcome``: it is well formed, and this became of it on this base: ``upstream``, ``ambiguous``, ``conflicts``. The
  tree is unchanged.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchset import diff
from patchset.errors import DiffRefused
from patchset.outcome import apply_diff
from patchset.store import Store

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("nasty.json").read_bytes())


def cases(verdict: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in CASES if case["verdict"] == verdict]


def content(entry: dict[str, str]) -> tuple[str, bytes]:
    if "link" in entry:
        return "120000", entry["link"].encode()
    return entry.get("mode", "100644"), base64.b64decode(entry["data"])


@pytest.fixture
def case_on_disk(tmp_path: Path, make_tree: Callable[..., str]) -> Callable[[dict[str, Any]], tuple[str, Path]]:
    def write(case: dict[str, Any]) -> tuple[str, Path]:
        file = tmp_path / "case.patch"
        file.write_bytes(base64.b64decode(case["patch"]))
        return make_tree({path: content(entry) for path, entry in case["base"].items()}), file

    return write


def test_every_case_has_a_verdict_that_a_test_below_reads() -> None:
    assert sum(len(cases(verdict)) for verdict in ("accept", "refuse", "outcome")) == len(CASES) == 41


@pytest.mark.parametrize("case", cases("accept"))
def test_accepted_case_gives_exactly_its_result(
    case: dict[str, Any],
    case_on_disk: Callable[..., tuple[str, Path]],
    bench: Store,
    files_of: Callable[..., dict[str, Any]],
) -> None:
    tree, file = case_on_disk(case)
    became = apply_diff(bench, tree, file)
    assert files_of(became.tree) == {path: content(entry) for path, entry in case["result"].items()}
    assert became.outcome.changes_tree


@pytest.mark.parametrize("case", cases("refuse"))
def test_refused_case_is_refused_by_the_reader_with_place_and_advice(case: dict[str, Any]) -> None:
    with pytest.raises(DiffRefused) as refusal:
        diff.read(base64.b64decode(case["patch"]), "case.patch")
    assert refusal.value.where.startswith("case.patch:")
    assert refusal.value.next


@pytest.mark.parametrize("case", cases("outcome"))
def test_well_formed_case_has_its_outcome_and_leaves_the_tree(
    case: dict[str, Any], case_on_disk: Callable[..., tuple[str, Path]], bench: Store
) -> None:
    tree, file = case_on_disk(case)
    became = apply_diff(bench, tree, file)
    assert (became.outcome.value, became.tree) == (case["outcome"], tree)
    assert became.evidence
