"""What lint and graph say at their end, for a person and for a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchset import review_show
from patchset.console import Console
from patchset.graph import Graph, Order
from patchset.lint import Finding, NotChecked, Report
from patchset.outcome import Outcome

ROOT = Path("/clone")
REPORT = Report(
    (
        Finding("error", "blanks", "/clone/recipes/patches/p/a.patch:7", "an added line ends in blanks", "take them out"),
        Finding("warning", "gap", "/clone/recipes/patches/p/patch.toml:3", "it says nothing about 1.0", "./inv forecast"),
    ),
    (NotChecked("trees, unique", "the patches on 1.0", "not in the store", "./inv forecast --releases 1.0"),),
    (ROOT / "recipes" / "PATCHES.md",),
)  # fmt: skip
GRAPH = Graph(
    "r",
    "1.0",
    {"one": Outcome.APPLIES, "two": Outcome.APPLIES, "three": Outcome.CONFLICTS},
    {"one": (), "two": ("one",), "three": ()},
    {"one": (), "two": (), "three": ("one",)},
    (Order("one", "two", "how"),),
    {"three": ""},
)


def test_report_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    review_show.show_report(Console(), REPORT, ROOT)
    assert (
        capsys.readouterr().out
        == """\
error: recipes/patches/p/a.patch:7: an added line ends in blanks  [blanks]
    next: take them out
warning: recipes/patches/p/patch.toml:3: it says nothing about 1.0  [gap]
    next: ./inv forecast
not checked: the patches on 1.0: not in the store  [trees, unique]
    next: ./inv forecast --releases 1.0
  wrote  recipes/PATCHES.md
1 error, 1 warning, 1 not checked
"""
    )


def test_report_for_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    review_show.show_report(Console(as_json=True), REPORT, ROOT)
    document = json.loads(capsys.readouterr().out)
    assert (document["good"], document["written"]) == (False, ["recipes/PATCHES.md"])
    assert document["findings"][0] == {
        "severity": "error",
        "rule": "blanks",
        "where": "/clone/recipes/patches/p/a.patch:7",
        "what": "an added line ends in blanks",
        "next": "take them out",
    }
    assert [item["rule"] for item in document["not_checked"]] == ["trees, unique"]


def test_graph_for_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    review_show.show_graph(Console(as_json=True), GRAPH, [], ROOT)
    document = json.loads(capsys.readouterr().out)
    assert [(item["patch"], item["needs"], item["undeclared"]) for item in document["patches"]] == [
        ("one", [], []), ("two", ["one"], ["one"]), ("three", [], []),
    ]  # fmt: skip
    assert document["patches"][2]["declared_only"] == ["one"]
    assert document["order_matters"] == [{"first": "one", "second": "two", "how": "how"}]
    assert document["dot"].startswith("digraph ")


def test_graph_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    review_show.show_graph(Console(), GRAPH, [ROOT / "g.dot"], ROOT)
    assert capsys.readouterr().out.splitlines() == [
        "r on 1.0: 3 patches",
        "├─ one     applies",
        "│  └─ two  applies; not declared in requires: one",
        "└─ three   conflicts; does not go into the base either; declared only, not by its text: one",
        "order matters: one before two: how",
        "  wrote  g.dot",
    ]
