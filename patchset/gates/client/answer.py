"""One completion as it streams in: what came, and when, read strictly and kept in bounds.

Facts (vLLM 0.19-0.33, chat completions, streaming):

* ``return_token_ids`` (0.10.2 and later): every chunk's choice has ``token_ids``, the tokens that came since the chunk before it; one chunk
  may have several, and a chunk without text may have some. The first chunk has a role and no tokens.
* ``stream_options.continuous_usage_stats``: every chunk has ``usage``, whose ``completion_tokens`` is the count so far.
* The last chunk before ``[DONE]`` has ``usage`` and no choice; ``prompt_tokens_details`` stands there, if the server was started with
  ``--enable-prompt-tokens-details``.
* What a reasoning model thinks comes as ``delta.reasoning``, before 0.12 as ``delta.reasoning_content``.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from typing import Any

#: No honest count of tokens is larger.
MOST_TOKENS = 10_000_000
#: Chunks of one answer: one a token, and some that have none.
MOST_CHUNKS = 1_000_000
#: Characters of an answer that are kept to be counted and hashed, and those that are recorded.
MOST_TEXT = 8_000_000
HEAD = 200

_PLAIN = frozenset("\t\n\r")
_ENDS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})


class Unreadable(Exception):
    """An answer is not what the protocol says. The text says why."""


class Answer:
    """What one answer said so far. Times are seconds since ``began``, on the clock that the pieces are stamped with."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.said: list[str] = []
        self.thought: list[str] = []
        self.ids: list[int] = []
        self.by_ids: list[tuple[float, int]] = []
        self.by_usage: list[tuple[float, int]] = []
        self.thought_ids = self.thought_usage = 0
        self.finish: str | None = None
        self.usage: Any = None
        self.first: float | None = None
        self.has_ids = False
        self.chunks = self.size = self._counted = 0

    def take(self, chunk: Any, at: float) -> None:
        """Note *chunk* (the JSON value, as it came), whose last byte came at *at*.

        :raises Unreadable: it is not what the protocol says.
        """
        self.chunks += 1
        if self.chunks > MOST_CHUNKS:
            raise Unreadable(f"the answer has more than {MOST_CHUNKS} chunks")
        if not isinstance(chunk, dict):
            raise Unreadable("a chunk of the answer is no object")
        choices, usage = chunk.get("choices"), chunk.get("usage")
        if choices is None and usage is None:
            raise Unreadable("a chunk of the answer has neither choices nor usage")
        if choices is not None and not isinstance(choices, list):
            raise Unreadable("the choices of a chunk are no list")
        seconds = at - self.began
        if choices:
            self._choice(choices, usage, seconds)
        if usage is not None:
            self.usage = usage

    def _choice(self, choices: list[Any], usage: Any, seconds: float) -> None:
        choice = choices[0]
        if len(choices) != 1 or not isinstance(choice, dict) or choice.get("index", 0) != 0:
            raise Unreadable("a chunk has other choices than the one that was asked for")
        delta = choice.get("delta") or {}
        if not isinstance(delta, dict):
            raise Unreadable("the delta of a chunk is no object")
        content, thought = self._text(delta, "content"), self._text(delta, "reasoning")
        thought = thought or self._text(delta, "reasoning_content")
        self.said.append(content)
        self.thought.append(thought)
        self.size += len(content) + len(thought)
        if self.size > MOST_TEXT:
            raise Unreadable(f"the answer has more than {MOST_TEXT} characters")
        ids = choice.get("token_ids")
        if ids is not None:
            self._ids(ids, seconds, bool(thought))
        if usage is not None:
            self._running(usage, seconds, bool(thought))
        if self.first is None and (content or thought or ids):
            self.first = seconds
        finish = choice.get("finish_reason")
        if finish is not None:
            if self.finish is not None:
                raise Unreadable("the answer ends twice")
            if not isinstance(finish, str) or finish not in _ENDS:
                raise Unreadable(f"the answer ends with {str(finish)[:40]!r}, which is no finish reason")
            self.finish = finish

    def _text(self, delta: dict[str, Any], name: str) -> str:
        value = delta.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise Unreadable(f"the {name} of a chunk is no text")
        return value

    def _ids(self, ids: Any, seconds: float, is_thought: bool) -> None:
        if not isinstance(ids, list) or not all(type(one) is int and 0 <= one < 2**31 for one in ids):
            raise Unreadable("the token ids of a chunk are no list of token ids")
        self.has_ids = True
        if ids:
            self.ids += ids
            self.by_ids.append((seconds, len(ids)))
            self.thought_ids += len(ids) * is_thought
        if len(self.ids) > MOST_TOKENS:
            raise Unreadable(f"the answer has more than {MOST_TOKENS} tokens")

    def _running(self, usage: Any, seconds: float, is_thought: bool) -> None:
        count = whole(usage, "completion_tokens")
        new = (count or 0) - self._counted
        if new < 0:
            raise Unreadable("the count of tokens in the answer's usage goes down")
        if new:
            self._counted += new
            self.by_usage.append((seconds, new))
            self.thought_usage += new * is_thought

    @property
    def completion_tokens(self) -> int | None:
        """How many tokens the server says it made; None: it does not."""
        return whole(self.usage, "completion_tokens")

    @property
    def prompt_tokens(self) -> int | None:
        """How many tokens the server says the prompt has; None: it does not."""
        return whole(self.usage, "prompt_tokens")

    @property
    def cached_tokens(self) -> int | None:
        """How many of them came from a cache; None: the server does not say, which is not zero."""
        return whole(_part(self.usage, "prompt_tokens_details"), "cached_tokens")

    @property
    def said_reasoning(self) -> int | None:
        """How many tokens were reasoning, as usage has it."""
        return whole(_part(self.usage, "completion_tokens_details"), "reasoning_tokens")

    def arrivals(self, source: str) -> list[tuple[float, int]]:
        """(seconds, tokens) of each chunk that has some, by *source*; empty if that does not account for every token."""
        found = {"token_ids": self.by_ids, "usage": self.by_usage}.get(source, [])
        return found if found and sum(tokens for _, tokens in found) == self.completion_tokens else []

    def reasoning_tokens(self, source: str) -> int | None:
        """How many tokens were reasoning: the server's word, else those of chunks with reasoning text; None: nobody can know."""
        if self.said_reasoning is not None:
            return self.said_reasoning
        return {"token_ids": self.thought_ids, "usage": self.thought_usage}.get(source)

    def output_sha256(self) -> str:
        """sha256 of all text: reasoning, a NUL, and the rest; of the rest alone where there is no reasoning."""
        thought, said = "".join(self.thought), "".join(self.said)
        text = f"{thought}\0{said}" if thought else said
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def text(self) -> str:
        """Reasoning and the rest, as they came."""
        return "".join(self.thought) + "".join(self.said)

    def counts(self) -> dict[str, int | None]:
        """What the text is made of, for those who judge whether it is one."""
        text, run = self.text(), longest_run(self.ids)
        kinds = Counter(map(kind_of, text))
        return {
            "characters": len(text),
            "visible": kinds["visible"],
            "control": kinds["control"],
            "longest_run": run if self.ids else None,
            "distinct": len(set(self.ids)) if self.ids else None,
        }

    def head(self) -> str:
        """The beginning of the text; what is no character is written as one that says so."""
        return self.text()[:HEAD].encode("utf-8", "replace").decode("utf-8")


def kind_of(character: str) -> str:
    """``control`` (what no text has, and what stands for bytes that are none), ``space``, or ``visible``."""
    if character in _PLAIN or character.isspace():
        return "space"
    if character == "\N{REPLACEMENT CHARACTER}" or unicodedata.category(character) in ("Cc", "Cs", "Cn", "Co"):
        return "control"
    return "visible"


def longest_run(ids: list[int]) -> int:
    """How often the same token stands behind itself at most."""
    longest = run = 0
    last = None
    for one in ids:
        run = run + 1 if one == last else 1
        longest, last = max(longest, run), one
    return longest


def _part(holder: Any, name: str) -> Any:
    """The object *name* in the object *holder*; None where it is not there."""
    if holder is None:
        return None
    if not isinstance(holder, dict):
        raise Unreadable("the usage of the answer is no object")
    return holder.get(name)


def whole(holder: Any, name: str) -> int | None:
    """The whole number *name* of *holder*; None where it is not there.

    :raises Unreadable: it is something else, or absurd.
    """
    value = _part(holder, name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise Unreadable(f"{name} is {str(value)[:40]!r}, which is no count of tokens")
    return value
