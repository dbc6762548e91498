"""What the forecast's page shows of the document: judgements, spans and sides in words. No HTML here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any
from urllib.parse import quote, urlsplit

from packaging.version import InvalidVersion, Version

from patchset.outcome import Outcome

#: Outcome → (the letter that stands for it, what it means). In the order of DESIGN.md.
OUTCOMES: Mapping[str, tuple[str, str]] = {
    "applies": ("A", "goes in, at the lines it names or with the offset shown"),
    "merges": ("M", "goes in by a three-way merge"),
    "upstream": ("U", "already there: nothing to apply"),
    "absent": ("–", "the feature it is for is not there: nothing to apply"),
    "partial": ("P", "some hunks are in already, others are not: not applied"),
    "ambiguous": ("?", "a hunk fits more than one place: not applied"),
    "conflicts": ("✕", "the lines it changes are not as it knows them: not applied"),
    "refused": ("!", "the diff is unsafe or malformed: not read any further"),
}

#: What the probe says of the base → the word for it in a cell.
_STATES = {"needed": "needed", "fixed": "fixed", "absent": "absent", "unknown": "cannot tell", None: "not run"}

#: State of a hunk → what it means.
HUNKS: Mapping[str, str] = {
    "fits": "fits",
    "in": "in already",
    "twice": "fits more than once",
    "lost": "not found",
    "missing": "file not there",
}

#: Lines around a difference that are always shown, and the shortest run of others that is folded.
_AROUND = 3
_FOLDED = 5
#: Two sides with more line pairs than this are shown without marks: comparing them takes too long.
_COMPARED = 250_000


@dataclass(frozen=True)
class Gist:
    """One cell in a word: ``tone`` is its colour's name, ``text`` what follows of outcome and verdict.

    ``mark`` is the letter shown for it. ``asked``: a verdict that could deny it was there.
    """

    tone: str
    mark: str
    text: str
    asked: bool


@dataclass(frozen=True)
class Span:
    """Releases in a row on which a patch has the same gist."""

    first: str
    last: str
    count: int
    gist: Gist


@dataclass(frozen=True)
class Line:
    """One line of a side; ``mark`` says how it differs: ``−`` the patch replaces it, ``+`` it brings it, ``~`` the release
    changed it.
    """

    mark: str
    text: str


@dataclass(frozen=True)
class Run:
    """Lines in a row of one side; a folded run is alike on all sides."""

    folded: bool
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Reference:
    """An upstream issue or pull request: ``url`` is empty where it must not be a link; ``name`` is what to show.

    ``there``: is its change in the release that is looked at? None where that cannot be told.
    """

    url: str
    name: str
    what: str
    state: str
    first_release: str
    there: bool | None = None


@dataclass(frozen=True)
class Block:
    """A piece of prose: ``kind`` is ``p``, ``pre`` or ``li``."""

    kind: str
    text: str


# -- one cell ----------------------------------------------------------------------------------------------------------


def gist(cell: Mapping[str, Any]) -> Gist:
    """What a cell comes to."""
    outcome, state, agree = Outcome(cell["outcome"]), cell["state"], cell["agree"]
    mark, asked = OUTCOMES[outcome][0], agree is not None
    if agree is False:
        return Gist("clash", "≠", "text and probe disagree", asked)
    if outcome.stops:
        if state in ("fixed", "absent"):
            return Gist("spare", mark, "does not go in, and its probe says it is not needed", asked)
        return Gist("stops", mark, f"{'needed, and' if state else 'need not probed;'} does not go in", asked)
    if outcome.changes_tree:
        goes_in = "goes in" if cell["covered"] else "goes in by a variant of other releases"
        proof = "" if asked else ", not proved" if state else ", not probed"
        return Gist("carried", mark, f"{'needed, ' if state else ''}{goes_in}{proof}", asked)
    text = {Outcome.UPSTREAM: "fixed upstream", Outcome.ABSENT: "feature not there"}[outcome]
    text = text if asked else f"said to be: {text}; not probed"
    return Gist("fixed" if outcome is Outcome.UPSTREAM else "absent", mark, text, asked)


def state_word(cell: Mapping[str, Any]) -> str:
    """What the probe adds to the outcome, as short as it goes."""
    if cell["agree"] is False:
        return "≠ " + "→".join(side["verdict"] for side in (cell["probe"]["base"], cell["probe"]["patched"]) if side)
    word = _STATES[cell["state"]]
    if cell["agree"] is None:
        return f"{word}, not proved" if cell["state"] else word
    return f"{word} ✓" if not Outcome(cell["outcome"]).stops else word


def detail_word(cell: Mapping[str, Any]) -> str:
    """What stands behind the outcome: the offset furthest from 0, or how many of the hunks do not go in."""
    return offset_word(cell) or (failing_word(cell) if Outcome(cell["outcome"]).stops else "")


def offset_word(cell: Mapping[str, Any]) -> str:
    """The offset furthest from 0 of a diff that applies; nothing where every hunk goes in at the line it names."""
    if cell["outcome"] != Outcome.APPLIES:
        return ""
    offset = max((hunk["offset"] for hunk in cell["hunks"]), key=abs, default=0)
    return f"{offset:+d}" if offset else ""


def failing_word(cell: Mapping[str, Any]) -> str:
    """How many hunks do not go in, of how many: ``3/12``; nothing where there are none to count."""
    failing = sum(hunk["state"] != "fits" for hunk in cell["hunks"])
    return f"{failing}/{len(cell['hunks'])}" if failing else ""


def is_trouble(cell: Mapping[str, Any]) -> bool:
    """Can no runtime be made with this cell, or is its text denied by its probe?"""
    return Outcome(cell["outcome"]).stops or cell["agree"] is False


def hunk_count(hunks: Sequence[Mapping[str, Any]]) -> str:
    """All hunks in a line: how many, in how many files, and how many of each state."""
    files = len({hunk["path"] for hunk in hunks})
    counts = [(sum(hunk["state"] == state for hunk in hunks), word) for state, word in HUNKS.items()]
    told = ", ".join(f"{count} {word.replace('fits', 'fit') if count > 1 else word}" for count, word in counts if count)
    return f"{counted(len(hunks), 'hunk')} in {counted(files, 'file')}: {told}"


def counted(number: int, word: str) -> str:
    """``1 hunk``, ``2 hunks``, ``3 patches``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}{'es' if word.endswith('ch') else 's'}"


# -- rows of cells -----------------------------------------------------------------------------------------------------


def spans(cells: Iterable[Mapping[str, Any]]) -> list[Span]:
    """The cells of one patch, in the order of releases, as spans of the same gist (whatever the outcome is called)."""
    found = []
    for _, same in groupby(cells, key=lambda cell: (gist(cell).tone, gist(cell).text)):
        group = list(same)
        found.append(Span(group[0]["release"], group[-1]["release"], len(group), gist(group[0])))
    return found


def troubles(cells: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The cells of one patch that are trouble; those in a row which say the same are one group."""
    grouped = groupby(cells, key=lambda cell: (cell["outcome"], cell["so"]) if is_trouble(cell) else None)
    return [list(group) for said, group in grouped if said]


def not_run(document: Mapping[str, Any]) -> tuple[int, list[str], str]:
    """(how many cells lack a verdict, why, what to type for them); the last is empty where none does."""
    cells = [cell for cell in document["cells"] if cell["agree"] is None]
    if not cells:
        return 0, [], ""
    reasons = sorted({cell["probe"]["not_run"] for cell in cells} - {""})
    releases = [release["release"] for release in document["releases"]]
    wanted = [release for release in releases if release in {cell["release"] for cell in cells}]
    span = wanted[0] if len(wanted) == 1 else f"{wanted[0]}..{wanted[-1]}"
    return len(cells), reasons, f"./inv forecast -r {document['recipe']} --releases {span} --probes"


def by_file(hunks: Iterable[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Path → its hunks, in the order of the diff."""
    return [(path, list(group)) for path, group in groupby(hunks, key=lambda hunk: hunk["path"])]


# -- conflicts ---------------------------------------------------------------------------------------------------------


def sides(clash: Mapping[str, Any]) -> dict[str, list[Run]]:
    """``base``, ``ours`` and ``theirs`` of a conflict, line by line with marks, what is alike on all sides folded."""
    base, ours, theirs = clash["base"], clash["ours"], clash["theirs"]
    gone_ours, new_ours = _differing(base, ours)
    gone_theirs, new_theirs = _differing(base, theirs)
    return {
        "base": _runs(base, {"−": gone_theirs, "~": gone_ours}),
        "ours": _runs(ours, {"~": new_ours}),
        "theirs": _runs(theirs, {"+": new_theirs}),
    }


def _differing(old: Sequence[str], new: Sequence[str]) -> tuple[set[int], set[int]]:
    """(numbers of the lines of *old* that *new* has not, of *new* that *old* has not); none where it takes too long."""
    if len(old) * len(new) > _COMPARED:
        return set(), set()
    gone, come = set(range(len(old))), set(range(len(new)))
    for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        gone -= set(range(block.a, block.a + block.size))
        come -= set(range(block.b, block.b + block.size))
    return gone, come


def _runs(lines: Sequence[str], marks: Mapping[str, set[int]]) -> list[Run]:
    marked = ["".join(mark for mark, numbers in marks.items() if number in numbers) for number in range(len(lines))]
    near = {at + step for at, mark in enumerate(marked) if mark for step in range(-_AROUND, _AROUND + 1)}
    found = []
    for close, group in groupby(range(len(lines)), key=near.__contains__):
        run = tuple(Line(marked[at], lines[at]) for at in group)
        found.append(Run(bool(near) and not close and len(run) >= _FOLDED, run))
    return found


# -- references and prose ----------------------------------------------------------------------------------------------


def reference(item: Mapping[str, Any], release: str = "") -> Reference:
    """*item* of a patch's references as it stands for *release*."""
    url = item["ref"] if is_link(item["ref"]) else ""
    short = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:pull|issues)/(\d+)/?", url, re.ASCII)
    name = f"{short[1]}#{short[2]}" if short else item["ref"]
    first = item["first_release"] or ""
    return Reference(url, name, item["what"], item["state"], first, _is_there(first, release))


def is_link(text: str) -> bool:
    """May *text* become a link? https only, plain ASCII, a host, and nobody's name before it."""
    if not re.fullmatch(r"https://[!-~]+", text) or re.search(r"[\\\"'<>`{}|^]", text):
        return False
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


def _is_there(first: str, release: str) -> bool | None:
    try:
        return Version(release) >= Version(first) if first and release else None
    except InvalidVersion:
        return None


def prose(text: str) -> list[Block]:
    """Text as patch.toml has it: paragraphs are filled; lines indented by four are kept; ``* `` begins an item."""
    found: list[Block] = []
    joins = False
    for line in text.strip("\n").split("\n"):
        bare = line.strip()
        if not bare:
            joins = False
        elif line.startswith(("    ", "\t")) and not (joins and found[-1].kind == "li"):
            kept = joins and found[-1].kind == "pre"
            found[-1:] = [Block("pre", f"{found[-1].text}\n{line}")] if kept else [*found[-1:], Block("pre", line)]
            joins = True
        elif bare.startswith(("* ", "- ")):
            found.append(Block("li", bare[2:]))
            joins = True
        elif joins and found[-1].kind != "pre" and not re.match(r"\d\w?  ", line):
            found[-1] = Block(found[-1].kind, f"{found[-1].text} {bare}")
        else:
            found.append(Block("p", bare))
            joins = True
    return [Block(block.kind, _unindent(block.text) if block.kind == "pre" else block.text) for block in found]


def _unindent(text: str) -> str:
    lines = text.split("\n")
    depth = min(len(line) - len(line.lstrip()) for line in lines)
    return "\n".join(line[depth:] for line in lines)


def gathered(blocks: Sequence[Block]) -> Iterator[tuple[str, list[str]]]:
    """Blocks as (kind, texts): items in a row belong to one list."""
    for kind, group in groupby(blocks, key=lambda block: block.kind):
        texts = [block.text for block in group]
        yield from [(kind, texts)] if kind == "li" else ((kind, [text]) for text in texts)


def anchor(*words: str) -> str:
    """An id that is unique for *words* and stands in a link as it is."""
    return "/".join(quote(word, safe="", errors="surrogatepass") for word in words)
