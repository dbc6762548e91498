"""What lint has to say: a finding, or something that it could not look at."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from patchset.errors import PatchsetError
from patchset.patch import Patch, Variant
from patchset.toml_lines import Lines

#: The rules, by the word that a finding carries, and what each wants.
RULES: Mapping[str, str] = {
    "declaration": "every upstream, patch and recipe can be read: ranges closed and apart, references https, probes there",
    "reasons": "why, drop-when and every reason for leaving a patch out says something",
    "references": "what a retired patch names as its reason is a https URL",
    "gap": "no known release between two that a patch covers is left out",
    "requires": "what a patch requires is another patch, and not in a circle",
    "stray": "every file of a patch's folder belongs to it",
    "probe": "a probe compiles and has been written",
    "diff": "a diff can be read",
    "blanks": "no added line ends in blanks",
    "resolutions": "what is remembered of earlier conflicts can be read",
    "unique": "each hunk's old lines stand once in every release of its range",
    "trees": "each variant becomes what it says on every release of its range",
    "series": "each recipe's series goes in on its release",
    "lock": "a lock is of its recipe, and of its patches as they are",
    "export": "exporting a series that nobody touched changes nothing",
    "page": "the page about the patches is what they say",
}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: the rule it breaks, where (``file:line``), and what to do. Only an ``error`` makes lint fail."""

    severity: str
    rule: str
    where: str
    what: str
    next: str


@dataclass(frozen=True)
class NotChecked:
    """Something that a rule could not look at, why, and the command that makes it possible."""

    rule: str
    what: str
    why: str
    next: str


@dataclass(frozen=True)
class TomlFile:
    """A TOML file that can be read, and the lines of its keys."""

    path: Path

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self.path.read_text("utf-8"))

    def at(self, *place: str | int) -> str:
        """``file:line`` of the keys and indices in *place*."""
        return f"{self.path}:{self._lines.of(place)}"


def toml_of(patch: Patch) -> TomlFile:
    """The patch.toml of *patch*."""
    return TomlFile(patch.folder / "patch.toml")


def at_variant(patch: Patch, variant: Variant) -> str:
    """``file:line`` of *variant* in its patch.toml."""
    return toml_of(patch).at("variant", patch.variants.index(variant))


def of_error(rule: str, error: PatchsetError, otherwise: str = "") -> Finding:
    """*error* as a finding; *otherwise* is its place where it names none."""
    return Finding("error", rule, error.where or otherwise, error.what, error.next or "mend it, then ./inv lint")


def attempt(rule: str, kind: type[PatchsetError], run: Callable[[], object]) -> list[Finding]:
    """The finding that *run* raises as an error of *kind*, if it does."""
    try:
        run()
    except kind as error:
        return [of_error(rule, error)]
    return []


#: Words that stand where a reason has still to be written.
_PLACEHOLDERS = re.compile(
    r"(?:todo|tbd|tba|fixme|xxx+|wip|n\W?a|none|nothing|unknown|later|placeholder|because|reason|why|dummy|test|foo|bar|asdf|"
    r"lorem ipsum|see above|to be (?:done|written|decided|determined|filled in))\b",
    re.IGNORECASE,
)
_MARKED = re.compile(r"\b(?:TODO|FIXME|TBD|XXX)\b")


def says_nothing(text: str, words: int) -> str:
    """Why *text* is no reason, in words; empty if it may be one.

    :param words: how many it takes at least to say something.
    """
    plain = " ".join(re.findall(r"[^\W_][\w.'-]*", text))
    if _MARKED.search(text) or (_PLACEHOLDERS.match(plain) and len(plain.split()) <= words):
        return f"is a placeholder ({shortened(text)!r})"
    if len(plain.split()) < words:
        return f"is only {shortened(text)!r}"
    return ""


def shortened(text: str) -> str:
    """*text* on one line, with its end cut off where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59].rstrip()}…"
