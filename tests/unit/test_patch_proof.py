"""Proofs of patches: the table is read strictly, and what it says of itself is held against its cells."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_project import write_project

from patchset import patch_proof_show
from patchset.console import Console
from patchset.errors import DeclarationError, ProbeError
from patchset.lab import Lab
from patchset.lint_declared import patch_rules
from patchset.patch import Patch, read_patch
from patchset.patch_proof import Verdict, prove_recipe, read, require, run
from patchset.upstream import Upstream

LAB = Lab(Path(sys.executable), "this python")

GOOD: dict[str, Any] = {
    "title": "t",
    "columns": ["unpatched", "ours"],
    "rows": [
        {"name": "one", "cells": [{"verdict": "dies", "text": "refused"}, {"verdict": "good", "text": ""}]},
        {"name": "two", "cells": [{"verdict": "dies", "text": "refused"}, {"verdict": "dies", "text": "refused"}]},
        {"name": "three", "cells": [{"verdict": "wrong", "text": "off"}, {"verdict": "good", "text": "2 cases"}]},
    ],
    "notes": ["a note"],
    "ok": True,
}


def with_(place: str, value: object) -> dict[str, Any]:
    """GOOD with another value at a place such as ``rows.0.name``; None takes the key out."""
    document = copy.deepcopy(GOOD)
    *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    target: Any = document
    for part in path:
        target = target[part]
    if value is None:
        del target[last]
    else:
        target[last] = value
    return document


def test_a_table_is_read_and_given_back() -> None:
    table = read(GOOD, "p", "again")
    assert table.as_dict() == {**GOOD, "source": "p"}
    assert table.rows[1].cells[1].verdict is Verdict.DIES
    require([table])


CELL = "rows.0.cells.1"


@pytest.mark.parametrize(
    "document",
    [
        [GOOD],
        None,
        "good",
        with_("title", None),
        with_("more", 1),
        with_("title", " "),
        with_("title", "x" * 1001),
        with_("columns", []),
        with_("columns", ["a"]),
        with_("columns", ["same", "same"]),
        with_("rows", []),
        with_("rows", [GOOD["rows"][0]] * 2),
        with_("rows", {"one": 1}),
        with_("rows.0.cells", GOOD["rows"][0]["cells"][:1]),
        with_("rows.0.more", 1),
        with_("notes", "a note"),
        with_("notes.0", 1),
        with_("ok", 1),
        with_("ok", "true"),
        with_(f"{CELL}.verdict", "sound"),
        with_(f"{CELL}.verdict", ["good"]),
        with_(f"{CELL}.text", 3),
        with_("rows.0.cells.0.text", ""),
        with_(f"{CELL}.more", 1),
        with_("rows.0.name", ["x"]),
    ],
)
def test_what_is_no_table_is_refused(document: object) -> None:
    with pytest.raises(ProbeError, match="did not print a table"):
        read(document, "p", "again")


@pytest.mark.parametrize("verdict", ["wrong", "not run"])
def test_ok_is_not_believed_against_a_cell(verdict: str) -> None:
    document = with_(CELL, {"verdict": verdict, "text": "why"})
    with pytest.raises(ProbeError, match=f"says ok, and 'one' is {verdict}"):
        read(document, "p", "again")
    assert not read({**document, "ok": False}, "p", "again").ok


def test_ok_is_not_believed_where_only_the_patch_dies_or_nothing_is_good() -> None:
    with pytest.raises(ProbeError, match="'three' is dies"):
        read(with_("rows.2.cells.1", {"verdict": "dies", "text": "why"}), "p", "again")
    with pytest.raises(ProbeError, match="good nowhere"):
        read(with_("rows", [GOOD["rows"][1]]), "p", "again")


def test_what_is_not_proved_fails_and_names_the_cells() -> None:
    document = {**with_(CELL, {"verdict": "wrong", "text": "another token"}), "ok": False}
    with pytest.raises(ProbeError, match="not proved: p") as caught:
        require([read(GOOD, "fine", "again"), read(document, "p", "again")])
    assert caught.value.detail == "p: one: wrong: another token\np: two: dies: refused"


@pytest.fixture
def patch_with(patch_folder: Callable[..., Path], upstream: Upstream) -> Callable[[str], Patch]:
    """A patch whose ``proof.py`` is this program."""

    def make(program: str) -> Patch:
        files = {"probe.py": b"#\n", "proof.py": program.encode()}
        return read_patch(patch_folder('[[variant]]\nreleases = "==1.0"\nabsent = [{ file = "x" }]\n', files), upstream)

    return make


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    both = tmp_path / "trees" / "base", tmp_path / "trees" / "patched"
    for tree in both:
        tree.mkdir(parents=True)
    return both


def test_a_proof_gets_both_trees_and_is_isolated(
    patch_with: Callable[[str], Patch], trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    said = "[sys.argv[1:], sys.flags.isolated, sys.dont_write_bytecode, os.environ.get('PYTHONPATH')]"
    program = f"import json, os, sys\nd = json.loads({json.dumps(GOOD)!r})\nd['notes'] = [json.dumps({said})]\n"
    table = run(patch_with(program + "print('noise')\nprint(json.dumps(d))"), *trees, LAB)
    assert json.loads(table.notes[0]) == [[str(tree) for tree in trees], 1, True, None]
    assert table.source == "p"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("raise SystemExit(3)", "the proof ended with status 3"),
        ("import os; os.kill(os.getpid(), 9)", "the proof ended with status -9"),
        ("", "did not print a table"),
        ("print('fine')", "did not print a table"),
        ("print('[' * 100000)", "did not print a table"),
        ("print('\"' + 'x' * 300000 + '\"')", "more than 262144 bytes"),
        (f"print({json.dumps({**GOOD, 'ok': None})!r})", "did not print a table"),
        (f"print({json.dumps(GOOD)!r})\nprint('bye')", "did not print a table"),
    ],
)
def test_a_proof_that_gives_no_table_is_an_error(
    program: str, said: str, patch_with: Callable[[str], Patch], trees: tuple[Path, Path]
) -> None:
    with pytest.raises(ProbeError, match=said) as caught:
        run(patch_with(program), *trees, LAB)
    assert caught.value.next == "./inv proof --patch p"


def test_a_patch_without_proof_has_none(patch_folder: Callable[..., Path], upstream: Upstream) -> None:
    text = '[[variant]]\nreleases = "==1.0"\nabsent = [{ file = "x" }]\n'
    assert read_patch(patch_folder(text, {"probe.py": b"#\n"}), upstream).proof is None


def test_the_table_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    table = read(with_("rows.2.cells.0.text", "long " * 100), "p", "again")
    patch_proof_show.show(Console(), "r", [table])
    out = capsys.readouterr().out
    assert "scenario" in out and "dies: refused" in out and "  a note\n" in out
    assert out.count("long") == 24 and "…" in out
    assert "p: unpatched 2 dies, 1 wrong; ours 2 good, 1 dies; proved" in out
    patch_proof_show.show(Console(as_json=True), "r", [table])
    document = json.loads(capsys.readouterr().out)
    assert document == {"format": 1, "recipe": "r", "proofs": [table.as_dict()]}


def test_a_proof_is_no_stray_file_and_must_compile(patch_with: Callable[[str], Patch]) -> None:
    patch = patch_with("def f(:\n")
    found = [item for item in patch_rules(patch, {"p": patch}, ["p"], ["1.0"]) if str(patch.proof) in item.where]
    assert [(item.severity, item.rule, item.where) for item in found] == [("error", "probe", f"{patch.proof}:1")]
    (patch.folder / "proof.py").write_bytes(b"#\n")
    assert not [item for item in patch_rules(patch, {"p": patch}, ["p"], ["1.0"]) if str(patch.proof) in item.where]


def test_nothing_is_proved_where_a_patch_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    releases = {"0.20.0": {"a.py": b"a = 1\n"}}
    nothing = '[[variant]]\nreleases = "==0.20.0"\nabsent = [{ file = "b.py" }]\nnote = "n"\n'
    patches = {"with-proof": (nothing, {"proof.py": b"1 / 0\n"}), "without": (nothing, {})}
    project = write_project(tmp_path, releases, patches, ["with-proof", "without"])
    recipe = project.recipe("r")
    assert prove_recipe(project, recipe, Console()) == ()
    assert "with-proof: nothing to prove on 0.20.0" in capsys.readouterr().err
    patch_proof_show.show(Console(), "r", [])
    assert capsys.readouterr().out == "no patch of r has something to prove\n"
    for name in ("without", "gone"):
        with pytest.raises(DeclarationError, match="it has: with-proof"):
            prove_recipe(project, recipe, Console(), only=name)
