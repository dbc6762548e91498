"""The page of a bisection: it says what the document says, does nothing, and replaces nothing else."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from made_bisect import adding, document, go_on, numbered, write

from patchset.bisect import task
from patchset.bisect.page import page, tracks
from patchset.bisect.record import Question
from patchset.console import Console
from patchset.errors import BisectError, WorktreeError
from patchset.resolve import Project


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """p01 to p08, each with a file of its own."""
    return numbered(tmp_path_factory.mktemp("eight") / "clone", 8)


class _Reader(HTMLParser):
    """Text, and tags that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


def _write(project: Project, target: Path, **flags: Any) -> str:
    question = Question("r", **{"good": "base", "bad": "r", "test": "test ! -e f05.py", **flags})
    task.run(project, question, task.Wish(page=target), Console())
    return target.read_text("utf-8")


def test_page_says_what_was_found_and_each_step(eight: Project, tmp_path: Path) -> None:
    made = document(eight, test="test ! -e f05.py")
    reader = read(page(made))
    assert "p05 brings the fault" in reader.text
    for step in made["steps"]:
        assert step["label"] in reader.text
    assert sum(tag == "circle" for tag, _ in reader.tags) == made["answer"]["tests"] == 3


def test_each_step_leaves_less_until_one_change_is_left(eight: Project) -> None:
    for culprit in range(1, 9):
        (track,) = tracks(document(eight, test=f"test ! -e f{culprit:02}.py"))
        assert [row["changes"] for row in track["rows"]] == [4, 2, 1]
        last = track["rows"][-1]
        assert (float(last["from"]), float(last["wide"])) == ((culprit - 1) * 12.5, 12.5)


@pytest.mark.parametrize(
    "flags",
    [
        {"test": "test -e f08.py && exit 1; test -e f02.py && exit 125; exit 0"},
        {"test": "! test -e f03.py || ! test -e f05.py", "minimize": True},
        {"test": "test ! -e f03.py", "drop_one": True, "good": ""},
        {"test": "exit 0", "good": "", "bad": "", "at": "r"},
        {"test": "test ! -e f04.py", "repeat": 3, "jobs": 2},
    ],
    ids=["span", "set", "dropped", "step", "repeated"],
)
def test_every_kind_of_answer_has_a_page(eight: Project, tmp_path: Path, flags: dict[str, Any]) -> None:
    read(_write(eight, tmp_path / "it.html", **flags))


def test_page_is_written_too_where_there_is_no_answer(eight: Project, tmp_path: Path) -> None:
    target = tmp_path / "it.html"
    with pytest.raises(BisectError):
        _write(eight, target, test="exit 1")
    assert "no answer: the good end is bad" in read(target.read_text("utf-8")).text
    assert go_on(eight)["answer"]["kind"] == "none"


def test_texts_have_no_effect_and_only_the_page_s_own_style_does(tmp_path: Path) -> None:
    diff = adding("<script>alert(1)</script>.py", "x = 1")
    project = write(tmp_path / "clone", {"p": diff, "q": adding("q.py", "x = 1")})
    test = "echo '</pre><script>alert(2)</script>\u202e'; test ! -e '<script>alert(1)</script>.py'"
    text = page(document(project, test=test))
    reader = read(text)
    assert not [tag for tag, _ in reader.tags if tag in ("script", "link", "img", "iframe")]
    assert "\u202e" not in text
    assert not [
        name for _, attributes in reader.tags for name in attributes if name.startswith("on") or name == "style"
    ]
    style = re.search(r"<style>(.*)</style>", text, re.DOTALL)
    assert style
    digest = b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = next(a["content"] for tag, a in reader.tags if tag == "meta" and "http-equiv" in a)
    assert f"style-src 'sha256-{digest}'; script-src 'none'" in str(policy)


def test_page_replaces_an_older_one_and_nothing_else(eight: Project, tmp_path: Path) -> None:
    target = tmp_path / "it.html"
    assert _write(eight, target) == _write(eight, target, good="base")
    for place in (tmp_path, tmp_path / "none" / "it.html", tmp_path / "mine.txt"):
        (tmp_path / "mine.txt").write_text("mine")
        with pytest.raises(WorktreeError) as caught:
            _write(eight, place, test="exit 9")
        assert "--html" in str(caught.value.next)
    assert (tmp_path / "mine.txt").read_text() == "mine"
