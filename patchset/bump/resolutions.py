"""How conflicts were resolved before: by hunk, kept in files that can be shared, and reported whenever they are used.

A resolution is known by the three sides of its conflict, so it is offered again for the same clash only: at another line,
in another release, or by a colleague.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

from patchset.changes import Change
from patchset.errors import DeclarationError
from patchset.merging import Conflict, marked_parts
from patchset.placing import lines_of
from patchset.workspace import UNREADABLE, Workspace, write_atomically

FORMAT = 1

#: Bytes of a file: a clash of ten thousand lines has less.
_LIMIT = 4 * 1024 * 1024
_SIDES = ("base", "ours", "theirs")
_KEYS = {"format", "patch", "release", "made", *_SIDES, "resolution"}
#: What stands for a byte that is no UTF-8; any other surrogate stands for nothing.
_NO_LINE = re.compile("[\n\ud800-\udc7f\udd00-\udfff]")

#: Lines around a clash that tell where its resolution begins and ends; more, as long as they stand there twice.
_NEIGHBOURS = 4


@dataclass(frozen=True)
class Resolution:
    """The lines that a person put in the place of one clash, and where that was."""

    key: str
    lines: tuple[str, ...]
    patch: str
    release: str
    made: str

    def document(self, clash: Conflict) -> bytes:
        """The file under which it is kept, with the clash itself for a reader."""
        sides = {"base": clash.base, "ours": clash.ours, "theirs": clash.theirs}
        content = {
            "format": FORMAT,
            "patch": self.patch,
            "release": self.release,
            "made": self.made,
            **sides,
            "resolution": self.lines,
        }
        return json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def key(clash: Conflict) -> str:
    """sha256 of the three sides; where they stand does not count."""
    sides = [list(clash.base), list(clash.ours), list(clash.theirs)]
    return sha256(json.dumps(sides).encode()).hexdigest()


def read(folder: Path) -> dict[str, Resolution]:
    """Key → every resolution kept in *folder*.

    :raises DeclarationError: a file there is none.
    """
    found = {}
    for file in sorted(folder.glob("*.json")):
        try:
            with open(file, "rb") as stream:
                data = stream.read(_LIMIT + 1)
            resolution = _parse(data, file.stem)
        except UNREADABLE as error:
            raise DeclarationError(
                f"not a resolution: {type(error).__name__}: {error}",
                where=str(file),
                next=f"git checkout {file.name}, or delete it: the conflict is then asked about again",
            ) from error
        found[resolution.key] = resolution
    return found


def _parse(data: bytes, name: str) -> Resolution:
    if len(data) > _LIMIT:
        raise ValueError(f"more than {_LIMIT} bytes")
    document = json.loads(data)
    if not isinstance(document, dict) or document.keys() != _KEYS or document["format"] != FORMAT:
        raise ValueError(f"not format {FORMAT}, with just {', '.join(sorted(_KEYS))}")
    if key(Conflict("", 0, *(_lines(document[side]) for side in _SIDES))) != name:
        raise ValueError("its name is not the hash of the sides it holds")
    for told in ("patch", "release", "made"):
        if not re.fullmatch(r"[\w.+-]{1,100}", document[told], re.ASCII):
            raise ValueError(f"{told} is none")
    return Resolution(name, _lines(document["resolution"]), document["patch"], document["release"], document["made"])


def _lines(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(line, str) and not _NO_LINE.search(line) for line in value):
        raise TypeError("a side is no list of lines")
    return tuple(value)


def known(workspace: Workspace) -> dict[str, Resolution]:
    """Every resolution that may be offered: those that are shared, and those of bumps not finished yet."""
    return {**read(_shared(workspace)), **read(_own(workspace))}


def remember(
    workspace: Workspace, sides: Sequence[tuple[str, bytes | None, bytes | None]], patch: str, release: str, today: date
) -> None:
    """Keep how each clash of a file was resolved: *sides* are (path, the attempt with markers, the result)."""
    for _, attempt, result in sides:
        for resolution, clash in learn(attempt, result, patch, release, today) if attempt and result else []:
            write_atomically(_own(workspace) / f"{resolution.key}.json", resolution.document(clash))


def to_share(workspace: Workspace) -> list[Change]:
    """The changes that make what was remembered part of the recipes."""
    files = sorted(_own(workspace).glob("*.json"))
    return [Change(_shared(workspace) / file.name, file.read_bytes()) for file in files]


def forget_shared(workspace: Workspace) -> None:
    """Drop what :func:`to_share` put among the recipes."""
    for change in to_share(workspace):
        (_own(workspace) / change.path.name).unlink()


def _shared(workspace: Workspace) -> Path:
    return workspace.recipes / "resolutions"


def _own(workspace: Workspace) -> Path:
    return workspace.state / "resolutions"


def resolve(data: bytes, offered: Mapping[str, Resolution]) -> tuple[bytes, list[tuple[int, Resolution]], int]:
    """*data* with each clash in it that is among *offered* resolved: (content, (line, resolution) of each, clashes left)."""
    out: list[bytes] = []
    used, left = [], 0
    for part in marked_parts("", data):
        if isinstance(part, bytes):
            out.append(part)
            continue
        clash, text = part
        resolution = offered.get(key(clash))
        if resolution is None:
            out.append(text)
            left += 1
        else:
            used.append((clash.line, resolution))
            out.append("".join(f"{line}\n" for line in resolution.lines).encode("utf-8", "surrogateescape"))
    return b"".join(out), used, left


def learn(attempt: bytes, resolved: bytes, patch: str, release: str, today: date) -> list[tuple[Resolution, Conflict]]:
    """What *resolved* says about each clash of *attempt*: the lines between the same neighbours.

    Where the text beside a clash was edited too, or its neighbours stand in more than one place, nothing is learnt of it;
    nor where the last line has no newline, which lines alone cannot say.
    """
    parts = list(marked_parts("", attempt))
    lines = [line.removesuffix(b"\n") for line in lines_of(resolved)]
    found: dict[str, tuple[Resolution, Conflict]] = {}
    doubtful, at = set(), 0
    for index, part in enumerate(parts):
        if isinstance(part, bytes):
            continue
        before, after = (_text_lines(parts[i]) if 0 <= i < len(parts) else [] for i in (index - 1, index + 1))
        start, name = _after(lines, before, at), key(part[0])
        end = None if start is None else _before(lines, after, start)
        if start is None or end is None or (end == len(lines) and not resolved.endswith(b"\n")):
            doubtful.add(name)
            continue
        kept = tuple(line.decode("utf-8", "surrogateescape") for line in lines[start:end])
        if name in found and found[name][0].lines != kept:
            doubtful.add(name)  # one clash, resolved in two ways: which of them is meant cannot be told
        found[name] = (Resolution(name, kept, patch, release, today.isoformat()), part[0])
        at = end
    return [item for name, item in found.items() if name not in doubtful]


def _text_lines(part: bytes | tuple[Conflict, bytes]) -> list[bytes]:
    return [line.removesuffix(b"\n") for line in lines_of(part)] if isinstance(part, bytes) else []


def _after(lines: Sequence[bytes], text: Sequence[bytes], at: int) -> int | None:
    """The index behind the end of *text* in *lines* from *at* on; None where that is not one place."""
    if not text:
        return at
    for size in _sizes(text):
        places = _places(lines, text[-size:], at)
        if len(places) < 2:
            return places[0] + size if places else None
    return None


def _before(lines: Sequence[bytes], text: Sequence[bytes], at: int) -> int | None:
    """The index of the beginning of *text* in *lines* from *at* on; None where that is not one place."""
    if not text:
        return len(lines)
    for size in _sizes(text):
        places = _places(lines, text[:size], at)
        if len(places) < 2:
            return places[0] if places else None
    return None


def _sizes(text: Sequence[bytes]) -> list[int]:
    """How many lines of *text* to go by: few first, all of them at last."""
    sizes = [_NEIGHBOURS * 2**step for step in range(20) if _NEIGHBOURS * 2**step < len(text)]
    return [*sizes, len(text)]


def _places(lines: Sequence[bytes], wanted: Sequence[bytes], at: int) -> list[int]:
    first = wanted[0]
    return [
        index
        for index in range(at, len(lines) - len(wanted) + 1)
        if lines[index] == first and list(lines[index : index + len(wanted)]) == list(wanted)
    ]
