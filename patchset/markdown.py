"""Plain text as Markdown that shows the same text: nothing in it becomes emphasis, a heading, HTML or another list. Pure.

Text may hold code between backticks, lists (``*`` or ``-``) and indented blocks; these are kept as what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import TextWrapper, dedent

WIDTH = 120

_CODE = re.compile(r"(`+)(?!`)(.*?[^`])\1(?!`)", re.DOTALL)
_SPECIAL = re.compile(
    r"""\\(?=[!-/:-@\[-`{-~])      # a backslash that would escape what follows
    |`|(?<!\s)\*|\*(?!\s)           # an asterisk between blanks is one
    |<(?=[A-Za-z/!?])
    |(?<![^\W_])_|_(?![^\W_])      # at the edge of a word; inside one it is no emphasis
    |~(?=~)|(?<=~)~
    |&(?=\#?\w+;)
    |\[(?=[^\]]*\]\s*[(\[:])""",
    re.VERBOSE,
)
#: What at the start of a line makes it something else than text.
_LEADING = re.compile(r"(?:[-+*](?=\s|$)|>|#{1,6}(?=\s|$)|=+\s*$|-+\s*$|~{3}|(\d{1,9})(?=[.)](?:\s|$)))")
_BULLET = re.compile(r"[*-] +(?=\S)")


def inline(text: str) -> str:
    """*text* on one line, with whatever Markdown would read otherwise escaped; code between backticks stays code."""
    line = " ".join(text.split())
    out, at = [], 0
    for code in _CODE.finditer(line):
        out += [_SPECIAL.sub(r"\\\g<0>", line[at : code.start()]), code.group()]
        at = code.end()
    return "".join([*out, _SPECIAL.sub(r"\\\g<0>", line[at:])])


def cell(text: str) -> str:
    """Markdown *text* as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; heads and cells are Markdown already."""
    lines = [head, ["---"] * len(head), *([cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def paragraph(text: str) -> str:
    """Markdown *text* filled to :data:`WIDTH`, as one paragraph."""
    return _filled(text, "", "")


def bullets(items: Sequence[str]) -> str:
    """A list of Markdown *items*, each filled."""
    return "\n".join(_filled(item, "- ", "  ") for item in items)


def code_block(text: str) -> str:
    """*text* as it is, in a fence that nothing in it can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def blocks(text: str) -> list[str]:
    """*text* of several paragraphs as blocks of Markdown: paragraphs, lists, and what is indented as code."""
    found = []
    for kind, lines in _parts(text.expandtabs(4)):
        if kind == "code":
            found.append(code_block(dedent("\n".join(lines))))
        elif kind == "list":
            found.append(bullets([inline(item) for item in lines]))
        else:
            found.append(paragraph(inline(" ".join(lines))))
    return found


def _parts(text: str) -> Iterator[tuple[str, list[str]]]:
    """(``text``, ``list`` or ``code``, its lines; an item of a list is one)."""
    kind, lines = "", []
    for line in [*text.splitlines(), ""]:
        bullet = _BULLET.match(line)
        if not line.strip():
            now = ""
        elif bullet:
            now, line = "list", line[bullet.end() :]
        elif line.startswith("    ") and kind != "list":
            now = "code"
        else:
            now = "list" if kind == "list" and line.startswith(" ") else "text"
        if now != kind:
            if lines:
                yield kind, lines
            kind, lines = now, []
        if now == "list" and not bullet:
            lines[-1] += f" {line.strip()}"
        elif now:
            lines.append(line)


def _filled(text: str, first: str, rest: str) -> str:
    """*text* broken into lines, none of which starts like something else."""
    room = TextWrapper(WIDTH - len(rest) - 1, break_long_words=False, break_on_hyphens=False)
    lines = [_LEADING.sub(_escaped, line, count=1) if _LEADING.match(line) else line for line in room.wrap(text)]
    return "\n".join(f"{rest if index else first}{line}" for index, line in enumerate(lines))


def _escaped(match: re.Match[str]) -> str:
    return f"{match.group()}\\" if match.group(1) else f"\\{match.group()}"
