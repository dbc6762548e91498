"""How conflicts were resolved before: by hunk, kept in files that can be shared, and reported whenever they are used.

A resolution is known by the three sides of its conflict, so it is offered again for the same clash only: at another line,
in another release, or by a colleague.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from hashlib import sha256
from pathlib import Path

from patchset.changes import Change
from patchset.errors import DeclarationError
from patchset.merging import Conflict, marked_parts
from patchset.placing import lines_of
from patchset.workspace import UNREADABLE, Workspace, write_atomically

FORMAT = 1


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
            document = json.loads(file.read_bytes())
            clash = Conflict("", 0, *(tuple(document[side]) for side in ("base", "ours", "theirs")))
            lines = tuple(document["resolution"])
            if document["format"] != FORMAT or key(clash) != file.stem or not all(isinstance(t, str) for t in lines):
                raise ValueError("its name is not the hash of the sides it holds")
            resolution = Resolution(file.stem, lines, document["patch"], document["release"], document["made"])
        except UNREADABLE as error:
            raise DeclarationError(
                f"not a resolution: {type(error).__name__}: {error}",
                where=str(file),
                next=f"git checkout {file.name}, or delete it: the conflict is then asked about again",
            ) from error
        found[resolution.key] = resolution
    return found


def known(workspace: Workspace) -> dict[str, Resolution]:
    """Every resolution that may be offered: those that are shared, and those of bumps not finished yet."""
    return {**read(_shared(workspace)), **read(_own(workspace))}


def remember(
    workspace: Workspace, sides: Sequence[tuple[str, bytes | None, bytes | None]], patch: str, release: str
) -> None:
    """Keep how each clash of a file was resolved: *sides* are (path, the attempt with markers, the result)."""
    today = datetime.now(timezone.utc).date()
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

    Where the text around a clash was edited too, or its neighbours stand in more than one place, nothing is learnt.
    """
    parts = list(marked_parts("", attempt))
    lines = [line.rstrip(b"\n") for line in lines_of(resolved)]
    found, at = [], 0
    for index, part in enumerate(parts):
        if isinstance(part, bytes):
            continue
        before = _neighbours(parts[index - 1] if index else b"")[-4:]
        after = _neighbours(parts[index + 1] if index + 1 < len(parts) else b"")[:4]
        start = _after(lines, before, at)
        end = _before(lines, after, start) if start is not None else None
        if start is None or end is None:
            continue
        kept = tuple(line.decode("utf-8", "surrogateescape") for line in lines[start:end])
        found.append((Resolution(key(part[0]), kept, patch, release, today.isoformat()), part[0]))
        at = end
    return found


def _neighbours(part: bytes | tuple[Conflict, bytes]) -> list[bytes]:
    return [line.rstrip(b"\n") for line in lines_of(part)] if isinstance(part, bytes) else []


def _after(lines: Sequence[bytes], wanted: Sequence[bytes], at: int) -> int | None:
    if not wanted:
        return 0 if at == 0 else at
    places = [i for i in range(at, len(lines) - len(wanted) + 1) if list(lines[i : i + len(wanted)]) == list(wanted)]
    return places[0] + len(wanted) if len(places) == 1 else None


def _before(lines: Sequence[bytes], wanted: Sequence[bytes], at: int) -> int | None:
    if not wanted:
        return len(lines)
    places = (i for i in range(at, len(lines) - len(wanted) + 1) if list(lines[i : i + len(wanted)]) == list(wanted))
    return next(places, None)
