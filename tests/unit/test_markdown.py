"""Text as Markdown shows as the same text: read back by a Markdown parser."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from patchset import markdown

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def tokens(text: str) -> list[Token]:
    return PARSER.parse(text)


def words_of(found: list[Token]) -> str:
    """What a reader sees: text and code, blanks as one."""
    parts = []
    for token in found:
        for child in token.children or []:
            assert child.type in ("text", "code_inline", "softbreak", "text_special"), child
            parts.append(" " if child.type == "softbreak" else child.content)
        if token.type in ("fence", "inline"):
            parts.append(token.content if token.type == "fence" else " ")
    return " ".join("".join(parts).split())


def kinds(text: str) -> list[str]:
    return [token.type for token in tokens(text) if token.level == 0 and not token.type.endswith("_close")]


@pytest.mark.parametrize(
    "text",
    [
        "2**63 and 2**64",
        "a * b * c, *args and **kwargs",
        "__init__ of _private_ and snake_case_name",
        "<image|> and <b>bold</b> and a <= b",
        "see [this](that) and [that][this], or [x]: y",
        "&amp; is not & is not &#65;",
        "~~gone~~ and ~/path",
        r"a \* b, C:\new and \\",
        "one ` tick",
        "- not a list",
        "+ nor this",
        "# no heading",
        "1. no number",
        "2) no number",
        "> no quote",
        "===",
        "---",
        "```",
        "| no | table |",
        "https://host.invalid/a_b_c?x=1&copy=2",
    ],
)
def test_text_stays_what_it_is(text: str) -> None:
    page = markdown.paragraph(markdown.inline(text))
    assert kinds(page) == ["paragraph_open"]
    assert words_of(tokens(page)) == text


@given(st.text(alphabet=st.sampled_from("ab1 *_`<>&[]()#+-.!|~=\\:;/\n"), max_size=60))
def test_any_text_without_code_stays_what_it_is(text: str) -> None:
    # what stands between backticks is code by intent; its backticks are not shown
    plain = " ".join(text.replace("`", "'").split())
    page = markdown.paragraph(markdown.inline(plain))
    assert words_of(tokens(page)) == plain
    assert kinds(page) == (["paragraph_open"] if plain else [])
    items = markdown.bullets([markdown.inline(plain)] * 2)
    assert words_of(tokens(items)) == " ".join([plain, plain]).strip()


def test_code_between_backticks_stays_code() -> None:
    page = markdown.inline("run `inv lint --write` or ``a ` b*c*`` on *all*")
    (inline,) = [token for token in tokens(page) if token.type == "inline"]
    assert [child.content for child in inline.children or [] if child.type == "code_inline"] == [
        "inv lint --write", "a ` b*c*",
    ]  # fmt: skip
    assert "em_open" not in [child.type for child in inline.children or []]


def test_lines_are_filled_and_none_starts_as_something_else() -> None:
    text = " ".join(f"{'word' * 5} - # 1. + >" for _ in range(60))
    page = markdown.paragraph(markdown.inline(text))
    assert max(map(len, page.splitlines())) <= markdown.WIDTH and len(page.splitlines()) > 10
    assert kinds(page) == ["paragraph_open"] and words_of(tokens(page)) == text


def test_blocks_are_paragraphs_lists_and_code() -> None:
    text = """\
First line
of a paragraph:

    Error: *not* `marked`
        deeper

Behind it:
    RuntimeError: x
* one item
  over two lines
- another
And the end.
"""
    blocks = markdown.blocks(text)
    page = "\n\n".join(blocks)
    assert kinds(page) == [
        "paragraph_open", "fence", "paragraph_open", "fence", "bullet_list_open", "paragraph_open",
    ]  # fmt: skip
    assert blocks[1] == "```text\nError: *not* `marked`\n    deeper\n```"
    assert blocks[4] == "- one item over two lines\n- another"


def test_fence_is_longer_than_any_in_the_code() -> None:
    block = markdown.code_block("```\nx\n```")
    (fence,) = tokens(block)
    assert (fence.type, fence.content) == ("fence", "```\nx\n```\n")


def test_table_keeps_its_columns_whatever_the_cells_hold() -> None:
    page = markdown.table(["a", "b"], [["x | y", "1"], [markdown.inline("`p|q`\nr"), "2"]])
    found = tokens(page)
    assert [token.type for token in found].count("td_open") == 4
    assert re.sub(r"\s+", " ", words_of(found)) == "a b x | y 1 p|q r 2"
