"""Where in a file a change stands, in words that survive other lines coming and going elsewhere. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from patchset.placing import lines_of


@dataclass(frozen=True)
class Spot:
    """A block of lines in a file, and which of the ``of`` like blocks of its class and function it is (``nth``, from 1)."""

    text: tuple[bytes, ...]
    scope: str
    nth: int
    of: int


#: Where a neighbour would be, and the file begins or ends.
_EDGE = Spot((), "", 1, 1)


@dataclass(frozen=True)
class Change:
    """Lines that go out and come in at one place of the old file.

    ``line`` counts from 1; ``scope`` is the class and function around it; ``spots`` are the lines that go out and those
    around (see :meth:`Source.spots`), none in a file that is new.
    """

    path: str
    line: int
    scope: str
    removed: tuple[bytes, ...]
    added: tuple[bytes, ...]
    spots: tuple[Spot, ...] = ()

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f" in {self.scope}" if self.scope else "")


@dataclass(frozen=True)
class _Span:
    """A class or function: its full name, the line and column of its ``def`` or ``class``, and its last line."""

    name: str
    start: int
    end: int
    column: int


class Source:
    """A file of the old tree. Of one that is no Python that can be read, no classes and functions are known."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.lines = lines_of(data)

    def scope(self, line: int) -> str:
        """The classes and functions around *line* (from 1), as ``Class.function``; empty at the top of the file.

        The line of a ``def`` itself belongs to what is around it.
        """
        return max(
            (span for span in self._spans if span.start < line <= span.end), key=lambda s: s.start, default=_NOWHERE
        ).name

    def scope_of_insertion(self, line: int, added: Sequence[bytes]) -> str:
        """The same of lines that come in before *line*: at the end of a function their indentation says if they belong to it."""
        first = next((text for text in added if text.strip()), None)
        if first is None:
            return self.scope(line)
        column, above = len(first) - len(first.lstrip()), self._text_before(line)
        around = (s for s in self._spans if s.start < line and s.end >= min(above, line) and s.column < column)
        return max(around, key=lambda s: s.start, default=_NOWHERE).name

    def spots(self, line: int, count: int) -> tuple[Spot, ...]:
        """The *count* lines that start at *line* (from 1), if any; and the nearest lines with text before and after them.

        A block that stands more than once in its function is told apart by its neighbours.
        """
        if not self.lines:
            return ()
        found = [self._spot(line, count)] if count else []
        after = next((at for at in range(line + count, len(self.lines) + 1) if self.lines[at - 1].strip()), 0)
        return tuple([*found, *(self._spot(at, 1) if at else _EDGE for at in (self._text_before(line), after))])

    def _text_before(self, line: int) -> int:
        return next((at for at in range(min(line - 1, len(self.lines)), 0, -1) if self.lines[at - 1].strip()), 0)

    def _spot(self, line: int, count: int) -> Spot:
        block, scope = tuple(self.lines[line - 1 : line - 1 + count]), self.scope(line)
        like = [at for at in self._like(block) if self.scope(at) == scope]
        return Spot(block, scope, like.index(line) + 1, len(like))

    def _like(self, block: tuple[bytes, ...]) -> Iterator[int]:
        for at in range(len(self.lines) - len(block) + 1):
            if self.lines[at] == block[0] and tuple(self.lines[at : at + len(block)]) == block:
                yield at + 1

    @cached_property
    def _spans(self) -> tuple[_Span, ...]:
        try:
            return tuple(_spans(ast.parse(self._data), ""))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ()


def _spans(node: ast.AST, above: str) -> Iterator[_Span]:
    for child in ast.iter_child_nodes(node):
        name = above
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{above}.{child.name}" if above else child.name
            yield _Span(name, child.lineno, child.end_lineno or child.lineno, child.col_offset)
        yield from _spans(child, name)


_NOWHERE = _Span("", 0, 0, 0)
