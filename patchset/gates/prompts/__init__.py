"""Fixed prompts: a set a file, named and versioned in it, so that two results are known to have been asked the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from patchset.errors import GateError
from patchset.verify import bounded

SCHEMA = 1
_HERE = Path(__file__).parent
_MOST_BYTES = 4 * 1024**2
_MOST_PROMPTS = 200
_MOST_TOKENS = 32_768
_ID = "[a-z0-9][a-z0-9-]{0,39}"


@dataclass(frozen=True)
class Prompt:
    """A system message and a user's. ``id`` names it in results."""

    id: str
    system: str
    user: str

    @property
    def sha256(self) -> str:
        """Of both texts."""
        return hashlib.sha256(f"{self.system}\0{self.user}".encode()).hexdigest()

    def messages(self, salt: str = "") -> list[dict[str, str]]:
        """As the chat API takes them. A *salt* stands first, so that no cache knows any block of the prompt."""
        system = f"[{salt}] {self.system}" if salt else self.system
        return [{"role": "system", "content": system}, {"role": "user", "content": self.user}]


@dataclass(frozen=True)
class PromptSet:
    """Prompts, and how many tokens an answer may have. ``sha256`` is of the file."""

    name: str
    sha256: str
    max_tokens: int
    prompts: tuple[Prompt, ...]


def prompts_of(name: str) -> PromptSet:
    """The set of that *name* that comes with the project, or the one in the file *name*.

    :raises GateError: there is none, or it is no set of prompts.
    """
    own = _HERE / f"{name}.json"
    path = own if own.is_file() else Path(name)
    try:
        return _read(bounded.read(path, _MOST_BYTES))
    except (bounded.Unread, bounded.Malformed) as error:
        names = ", ".join(sorted(file.stem for file in _HERE.glob("*.json")))
        raise GateError(
            f"no set of prompts can be read there: {error}",
            where=str(path),
            next=f"name a file like those in {_HERE}, or one of {names}",
        ) from error


def _read(data: bytes) -> PromptSet:
    node = bounded.Node(bounded.parse_json(data))
    if node["schema"].number() != SCHEMA:
        raise bounded.Malformed(f"schema is not {SCHEMA}")
    rows = node["prompts"].list()
    if not 0 < len(rows) <= _MOST_PROMPTS:
        raise bounded.Malformed(f"it has {len(rows)} prompts, not 1 to {_MOST_PROMPTS}")
    prompts = tuple(Prompt(row["id"].text(_ID), row["system"].text(), row["user"].text()) for row in rows)
    if len({prompt.id for prompt in prompts}) != len(prompts):
        raise bounded.Malformed("two prompts have one id")
    most = node["max_tokens"].number()
    if not 0 < most <= _MOST_TOKENS:
        raise bounded.Malformed(f"max_tokens is not 1 to {_MOST_TOKENS}")
    return PromptSet(node["set"].text(_ID), hashlib.sha256(data).hexdigest(), most, prompts)
