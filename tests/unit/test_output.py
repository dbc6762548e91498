"""What is printed and what is recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchset.console import Console
from patchset.errors import SeriesError
from patchset.receipt import write_receipt

LONG = "/a/path/" + "x" * 400


def test_json_document_stands_alone_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(as_json=True)
    console.say("progress")
    console.line("line")
    console.table(["a"], [["b"]])
    with console.step("work") as step:
        step.note = "reused"
    console.json({"b": 1, "a": [2]})
    out, err = capsys.readouterr()
    assert json.loads(out) == {"b": 1, "a": [2]}
    assert "progress" in err and "work (reused)" in err


def test_person_gets_the_result_on_standard_output_and_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.say("progress")
    console.line("line")
    console.table(["patch", "outcome"], [["p", "applies"]], title="T")
    console.json({"a": 1})
    out, err = capsys.readouterr()
    assert all(word in out for word in ("line", "patch", "applies", "T")) and "{" not in out
    assert err == "progress\n"


def test_away_from_a_terminal_nothing_is_coloured_wrapped_or_read_as_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    console = Console()
    console.line(f"{LONG} [red]x[/red]")
    console.table(["a"], [["conflicts"]])
    console.error(SeriesError("what", where=LONG, next="n", detail="[bold]d"))
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert out.splitlines()[0] == f"{LONG} [red]x[/red]"
    assert f"where: {LONG}" in err and "[bold]d" in err


def test_error_says_what_where_next_and_detail(capsys: pytest.CaptureFixture[str]) -> None:
    Console(as_json=True).error(SeriesError("it broke", where="f:1", next="inv x", detail="one\ntwo"))
    out, err = capsys.readouterr()
    assert [line.strip() for line in err.splitlines()] == ["error: it broke", "where: f:1", "next: inv x", "one", "two"]
    assert json.loads(out)["error"] == {
        "kind": "series",
        "exit_code": 7,
        "what": "it broke",
        "where": "f:1",
        "next": "inv x",
        "detail": "one\ntwo",
    }


def test_receipt_never_replaces_another_one(tmp_path: Path) -> None:
    document = {"finished": "2026-11-30T01:02:03Z", "n": 1}
    files = [write_receipt(tmp_path / "dist", {**document, "n": number}) for number in range(3)]
    assert [json.loads(file.read_bytes())["n"] for file in files] == [0, 1, 2]
    assert sorted(path.name for path in (tmp_path / "dist").iterdir()) == sorted(file.name for file in files)
    assert files[0].name == "receipt-20261130T010203Z.json"


def test_control_characters_of_a_title_or_a_path_never_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b[31m\x07\x9b2J\x00b"
    console = Console()
    console.say(hostile)
    console.line(hostile)
    console.table(["x"], [[hostile]], title=hostile)
    console.error(SeriesError(hostile, where=hostile, next=hostile, detail=f"{hostile}\n{hostile}"))
    out, err = capsys.readouterr()
    assert not [char for char in out + err if char != "\n" and (ord(char) < 32 or 127 <= ord(char) < 160)]
    assert out.count(r"a\x1b[31m\x07\x9b2J\x00b") == 3 and err.count(r"a\x1b[31m\x07\x9b2J\x00b") == 6
