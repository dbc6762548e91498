"""Patches as others keep them: mails, bare diffs, quilt folders. Bytes in, structure out; nothing is repaired."""

from __future__ import annotations

import email
import email.errors
import email.header
import email.policy
import email.utils
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path

from patchset import diff
from patchset.diff_model import FileDiff
from patchset.errors import DiffRefused

#: What no series of patches comes near.
SIZE_LIMIT = 64 * 1024 * 1024
FILES_LIMIT = 2000

_MAIL = re.compile(rb"^From (?:[0-9a-f]{40} |\S+@\S+ ).*\d{4}\r?$", re.MULTILINE)
_DIFF = re.compile(rb"^(?:diff --git |--- )", re.MULTILINE)
_SIGNATURE = re.compile(rb"^-- \r?\n(?:[^\n]*\n?){1,3}\s*\Z", re.MULTILINE)
_NUMBER = re.compile(r"^\s*(?:\[[^\]]*\]\s*)+")


@dataclass(frozen=True)
class Foreign:
    """One patch of somebody else's.

    ``data`` is its diff, byte for byte as it came; ``files`` what that says. ``origin`` names the file (and the mail in it),
    with the file's sha256; ``strip`` is how many leading parts its paths have (1: a/ and b/).
    """

    title: str
    message: str
    author: str
    date: datetime | None
    origin: str
    sha256: str
    data: bytes
    files: tuple[FileDiff, ...]
    strip: int = 1


@dataclass(frozen=True)
class Series:
    """Patches in order, and what was left out, with the reason."""

    patches: tuple[Foreign, ...]
    skipped: tuple[str, ...]


def read(source: Path) -> Series:
    """The patches in *source*: a file (diff, mail, mbox) or a folder (quilt, or patch files in the order of their names).

    :raises DiffRefused: a patch is one that the strict reader turns away, or there is none.
    """
    if source.is_dir():
        listed = _listed(source)
    elif source.is_file():
        listed = [(source, 1)]
    else:
        raise DiffRefused(
            "no such file or folder", where=str(source), next="name a diff, an mbox, or a folder of patches"
        )
    patches: list[Foreign] = []
    skipped: list[str] = []
    for file, strip in listed:
        more, left = _read_file(file, strip)
        patches += more
        skipped += left
    if not patches:
        raise DiffRefused(
            "there is no diff in it" + (f" ({'; '.join(skipped)})" if skipped else ""),
            where=str(source),
            next="name a diff, an mbox, or a folder of patches",
        )
    return Series(tuple(patches), tuple(skipped))


def _listed(folder: Path) -> list[tuple[Path, int]]:
    """(file, strip level) of each patch in a folder: as quilt's ``series`` lists them, else by name."""
    for series in (folder / "series", folder / "patches" / "series"):
        if series.is_file():
            return _quilt(series)
    files = sorted(path for path in folder.iterdir() if path.suffix in (".patch", ".diff", ".mbox", ".eml"))
    if len(files) > FILES_LIMIT:
        raise DiffRefused(f"more than {FILES_LIMIT} files", where=str(folder), next="name a smaller folder")
    return [(path, 1) for path in files]


def _quilt(series: Path) -> list[tuple[Path, int]]:
    """quilt(1): a line a patch, with -pN or -p ab where it is not -p1, and comments."""
    found = []
    for number, line in enumerate(series.read_text("utf-8", "replace").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{series}:{number}"
        file = series.parent / words[0]
        if ".." in Path(words[0]).parts or Path(words[0]).is_absolute() or words[0].startswith("-"):
            raise DiffRefused(f"{words[0]!r} leaves the folder", where=where, next="edit that line")
        if not file.is_file():
            raise DiffRefused(f"{words[0]} is not there", where=where, next="restore it, or take it out of the series")
        level = {"-p0": 0, "-p1": 1, "-pab": 1}.get("".join(words[1:]) or "-p1")
        if level is None:
            raise DiffRefused(
                f"option {' '.join(words[1:])!r}: only -p0, -p1 and -p ab are read here",
                where=where,
                next="quilt refresh -p1 that patch",
            )
        found.append((file, level))
    return found[: FILES_LIMIT + 1]


def _read_file(file: Path, strip: int) -> tuple[list[Foreign], list[str]]:
    if file.stat().st_size > SIZE_LIMIT:
        raise DiffRefused(f"larger than {SIZE_LIMIT} bytes", where=str(file), next="check that it is a patch")
    data = file.read_bytes()
    digest = sha256(data).hexdigest()
    starts = [match.start() for match in _MAIL.finditer(data)]
    if not starts or starts[0] != 0:
        return [_bare(file, data, digest, strip)], []
    patches, skipped = [], []
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(data)], strict=True), 1):
        name = f"{file.name}, mail {number}" if len(starts) > 1 else file.name
        mail = _mail(name, data[start:end], digest, strip)
        if isinstance(mail, str):
            skipped.append(mail)
        else:
            patches.append(mail)
    return patches, skipped


def _bare(file: Path, data: bytes, digest: str, strip: int) -> Foreign:
    at = _DIFF.search(data)
    head = data[: at.start()] if at else b""
    message = head.decode("utf-8", "replace").strip()
    title = message.partition("\n")[0].lstrip("# ").strip() or file.stem
    body = data[at.start() :] if at else data
    return Foreign(title, message, "", None, file.name, digest, body, _strictly(body, file.name, strip), strip)


def _mail(name: str, data: bytes, digest: str, strip: int) -> Foreign | str:
    """One mail; or, where it has no diff, a line that says so."""
    message = email.message_from_bytes(data.partition(b"\n")[2], policy=email.policy.compat32)
    subject = _decoded(message.get("Subject", ""))
    title = _NUMBER.sub("", subject).strip() or name
    head_end = re.search(rb"\r?\n\r?\n", data)
    body = data[head_end.end() :] if head_end else b""
    at = _DIFF.search(body)
    if at is None:
        return f"{name} ({subject or 'no subject'}): no diff in it, so it is a cover letter or talk"
    if message.get("Content-Transfer-Encoding", "").lower() in ("quoted-printable", "base64"):
        raise DiffRefused(
            f"the mail is {message['Content-Transfer-Encoding']}: its diff is not here as it was made",
            where=name,
            next="save the patch itself (git am writes it, or git format-patch makes it), and import that",
        )
    text = body[: at.start()].decode("utf-8", "replace")
    diff_bytes = body[at.start() :]
    signature = _SIGNATURE.search(diff_bytes)
    diff_bytes = diff_bytes[: signature.start()] if signature else diff_bytes
    # git format-patch parts the message from its statistics with a line of three dashes
    said = re.split(r"^---$", text, maxsplit=1, flags=re.MULTILINE)[0].strip()
    files = _strictly(diff_bytes, name, strip)
    return Foreign(title, said, _decoded(message.get("From", "")), _date(message.get("Date")), name, digest, diff_bytes,
                   files, strip)  # fmt: skip


def _strictly(data: bytes, name: str, strip: int) -> tuple[FileDiff, ...]:
    return diff.read(data, name) if strip == 1 else ()


def _decoded(value: str) -> str:
    """A header with its encoded words (RFC 2047) and folding taken out."""
    try:
        parts = email.header.decode_header(value)
        text = "".join(p.decode(c or "utf-8", "replace") if isinstance(p, bytes) else p for p, c in parts)
    except (LookupError, ValueError, email.errors.HeaderParseError):
        text = value
    return re.sub(r"\s+", " ", text).strip()


def _date(value: str | None) -> datetime | None:
    try:
        date = email.utils.parsedate_to_datetime(value or "")
    except (TypeError, ValueError, OverflowError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
    return date.astimezone(timezone.utc) if 1970 < date.year < 2100 else None
