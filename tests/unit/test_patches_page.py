"""The page about the patches: what a person needs to decide, right on every line, and Markdown that shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_project import write_project
from markdown_it import MarkdownIt

from patchset import patches_page
from patchset.errors import DiffRefused
from patchset.resolve import Project
from patchset.store import Store

RELEASES = ("0.20.0", "0.20.1", "0.21.0", "0.22.0", "0.23.0", "0.24.0")

FIRST = """\
requires = ["base"]

[[upstream]]
ref = "https://github.com/vllm-project/vllm/pull/1"
what = "the *same* change"
state = "merged"
first-release = "0.22.0"

[[upstream]]
ref = "https://host.invalid/a/(b)"
what = "a report"
state = "open"

[[variant]]
releases = ">=0.20.0,<=0.20.1"
diff = "a.patch"
donors = [{ release = "0.22.0", path = "vllm/given.py", sha256 = "SHA" }]
note = "With | its donor."

[[variant]]
releases = "==0.21.0"
diff = "b.patch"

[[variant]]
releases = "==0.22.0"
upstream = [{ file = "a.py", line = "x" }]
note = "In by then."

[[variant]]
releases = ">=0.23.0,<=0.24.0"
upstream = [{ file = "b.py", line = "x" }]
note = "In by then."
"""
BASE = """\

[[variant]]
releases = "==0.20.0"
absent = [{ file = "x.py" }]

[[variant]]
releases = "==0.21.0"
proved = "sound"
note = "Nothing overflows."
"""
PROBE = b'"""Probe of the patch first: does it\nrun? And more.\n\nMuch more.\n"""\n'


@pytest.fixture
def project(tmp_path: Path, bench: Store, make_tree: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.delenv("PATCHSET_VENDOR", raising=False)

    def diff(before: dict[str, bytes], after: dict[str, bytes]) -> bytes:
        return bench.diff(make_tree(before), make_tree(after))

    a = diff({"a.py": b"1\n", "d.py": b"1\n"}, {"a.py": b"2\n", "new.py": b"1\n"})
    b = diff({"a.py": b"1\n", "c.py": b"1\n"}, {"a.py": b"2\n", "c.py": b"2\n"})
    patches = {
        "base": (BASE, {"probe.py": b"import json\n"}),
        "first": (FIRST.replace("SHA", "ab" * 32), {"a.patch": a, "b.patch": b, "probe.py": PROBE}),
    }
    made = write_project(tmp_path / "clone", {release: {} for release in RELEASES}, patches, ["base", "first"])
    text = (made.workspace.recipes / "r.toml").read_text()
    omits = '["base"]\n\n[[series.omit]]\npatch = "first"\nreason = "not | tried"'
    retires = '["base", "first"]\n\n[[series.retired]]\npatch = "first"\nreason = "its probe is sound"\nupstream = "https://github.com/o/vllm/pull/1"\nfirst-release = "0.22.0"'
    for name, release, series in (("s", "0.21.0", omits), ("t", "0.22.0", retires)):
        other = text.replace('"0.20.0"', f'"{release}"').replace('["base", "first"]', series)
        (made.workspace.recipes / f"{name}.toml").write_text(other)
    return Project.read(made.workspace)


def page(project: Project) -> str:
    recipes = [project.recipe(name) for name in ("r", "s", "t")]
    return patches_page.page(list(project.patches.values()), recipes, RELEASES)


def section(project: Project, name: str) -> str:
    return page(project).split(f"\n## {name}\n")[1].split("\n## ")[0]


def test_head_lists_every_patch_with_the_releases_it_changes(project: Project) -> None:
    head = page(project).partition("\n## ")[0]
    assert "- [base](#base): T. It changes nothing on any known release.\n" in head
    assert head.endswith("- [first](#first): T. It changes vLLM 0.20.0 to 0.21.0.\n")


def test_section_of_a_patch(project: Project) -> None:
    """The whole of it, as it stands."""
    assert (
        section(project, "first")
        == """
**T.** A fix. It changes vLLM 0.20.0 to 0.21.0. It needs `base` before it.

w

**Drop it when:** d

**Its [probe](patches/first/probe.py):** Does it run?

| releases | what is done |
| --- | --- |
| 0.20.0 to 0.20.1 | one file of 0.22.0, then changed by [a.patch](patches/first/a.patch) |
| 0.21.0 | changed by [b.patch](patches/first/b.patch) |
| 0.22.0 to 0.24.0 | nothing to do, fixed upstream |

Where it changes vLLM:

- `a.py`: 0.20.0 to 0.21.0
- `c.py`: 0.21.0
- `d.py` (deleted): 0.20.0 to 0.20.1
- `new.py` (new): 0.20.0 to 0.20.1
- `vllm/given.py` (taken whole from 0.22.0): 0.20.0 to 0.20.1

About these releases:

- 0.20.0 to 0.20.1: With | its donor.
- 0.22.0 to 0.24.0: In by then.

Upstream:

- [vllm#1](https://github.com/vllm-project/vllm/pull/1), merged, first in 0.22.0: the \\*same\\* change
- [host.invalid/a/(b)](https://host.invalid/a/%28b%29), open: a report

Recipes:

- `r` (vLLM 0.20.0), patch 2 of 2: one file of 0.22.0, then changed by [a.patch](patches/first/a.patch)
- `s` (vLLM 0.21.0) leaves it out: not | tried
- `t` (vLLM 0.22.0), patch 2 of 2, retired, since 0.22.0 ([vllm#1](https://github.com/o/vllm/pull/1)): its probe is
  sound
"""
    )


def test_what_nobody_has_said_is_said_to_be_so(project: Project) -> None:
    text = section(project, "base")
    assert (
        """\
| 0.20.0 | nothing to do, what it mends is not there |
| 0.20.1 | nobody has said yet |
| 0.21.0 | nothing to do, its probe finds it sound |
| 0.22.0 to 0.24.0 | nobody has said yet |
"""
        in text
    )
    assert "Where it changes" not in text
    assert "Upstream: no issue or pull request is named.\n" in text
    assert "**Its [probe](patches/base/probe.py):** it does not say what it does.\n" in text
    assert "- `t` (vLLM 0.22.0), patch 1 of 2: nobody has said what it does there\n" in text


def test_page_is_markdown_without_surprises(project: Project) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(page(project))
    assert [t.markup for t in tokens if t.type == "heading_open"] == ["#", "##", "##"]
    assert not [t for t in tokens if t.type in ("html_block", "code_block", "hr", "blockquote_open")]
    children = [child for t in tokens for child in t.children or []]
    assert not [child for child in children if child.type in ("html_inline", "em_open", "image")]
    links = [dict(child.attrs)["href"] for child in children if child.type == "link_open"]
    assert {link for link in links if not str(link).startswith(("https://", "#", "patches/"))} == set()
    for link in links:
        if str(link).startswith("patches/"):
            assert (project.workspace.recipes / str(link)).is_file()


def test_probe_that_does_not_compile_and_a_diff_that_cannot_be_read(project: Project) -> None:
    probe = project.patches["first"].probe
    probe.write_text("def f(:")
    assert patches_page.probe_says(probe) == "it does not compile."
    (probe.parent / "a.patch").write_text("no diff\n")
    with pytest.raises(DiffRefused):
        page(project)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"""Do it and look.\n\nUsage: x\n"""', "Do it and look."),
        ('"""Do it\nover two lines\n\nUsage: x\n"""', "Do it over two lines"),
        ('"""Probe of x: short groups. More."""', "Short groups."),
        ('"""Reads 0.1.2 of it. More."""', "Reads 0.1.2 of it."),
        ("x = 1", "it does not say what it does."),
    ],
)
def test_first_sentence_of_a_probe(text: str, said: str, tmp_path: Path) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text(text)
    assert patches_page.probe_says(probe) == said
