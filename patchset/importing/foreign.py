"""Patches as others keep them: mails, bare diffs, folders, quilt. Bytes in, structure out; nothing is repaired in silence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from patchset import diff
from patchset.diff_model import FileDiff
from patchset.diff_rules import show
from patchset.errors import DiffRefused
from patchset.importing import mails, quilt
from patchset.importing.quilt import FILES_LIMIT, Listed
from patchset.newpatch import one_line

#: What no series of patches comes near, all its files together.
SIZE_LIMIT = 64 * 1024 * 1024
SKIPPED_LIMIT = 10_000
SUFFIXES = (".patch", ".diff", ".mbox", ".eml")

#: A mail without any of these is talk; with one, it is for the strict reader to say what it is.
_DIFF = re.compile(rb"^(?:diff -|Index: |@@ |(?:---|\*\*\*) [^\n]*\n(?:\+\+\+|---) )", re.MULTILINE)
_SIGNATURE = re.compile(rb"^-- \r?\n(?:[^\n]*\n){0,3}\s*\Z", re.MULTILINE)
_PLACE = re.compile(r":(\d+)\Z")


@dataclass(frozen=True)
class Foreign:
    """One patch of somebody else's.

    ``data`` is its diff, byte for byte as it came unless ``note`` says otherwise; ``files`` what that says, with lines
    counted from its start. ``origin`` names the file and the mail in it; ``sha256`` is of the whole file.
    """

    title: str
    message: str
    author: str
    date: datetime | None
    origin: str
    sha256: str
    data: bytes
    files: tuple[FileDiff, ...]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """Patches in order, and what was left out, with the reason."""

    patches: tuple[Foreign, ...]
    skipped: tuple[str, ...]


def read(source: Path) -> Series:
    """The patches in *source*: a file (diff, mail, mbox) or a folder (quilt, or patch files in the order of their names).

    :raises DiffRefused: a patch is one that the strict reader turns away, or there is none.
    """
    skipped: list[str] = []
    series = next((file for file in (source / "series", source / "patches" / "series") if file.is_file()), None)
    if series:
        quilt.check_inside(source, series, str(series))
        listed = quilt.listed(series)
    elif source.is_dir():
        listed = _by_name(source, skipped)
    elif source.is_file():
        listed = [Listed(source, 1)]
    else:
        raise DiffRefused(
            "no such file or folder", where=str(source), next="name a diff, an mbox, or a folder of patches"
        )
    patches: list[Foreign] = []
    size = 0
    for item in listed:
        size += item.file.stat().st_size
        if size > SIZE_LIMIT:
            raise DiffRefused(f"larger than {SIZE_LIMIT} bytes", where=str(item.file), next="import it in parts")
        for mail in _mails(item.file):
            if len(skipped) > SKIPPED_LIMIT or len(patches) >= FILES_LIMIT:
                what = f"more than {FILES_LIMIT} patches, or {SKIPPED_LIMIT} mails or files that are none"
                raise DiffRefused(what, where=str(item.file), next="import it in parts")
            found = _read_one(item, mail, declared=series is not None)
            if isinstance(found, str):
                skipped.append(found)
            else:
                patches.append(found)
    if not patches:
        raise DiffRefused(
            "there is no diff in it" + (f" ({'; '.join(skipped[:20])}{' …' * (len(skipped) > 20)})" if skipped else ""),
            where=str(source),
            next="name a diff, an mbox, or a folder of patches",
        )
    return Series(tuple(patches), tuple(skipped))


def parts(item: Foreign) -> list[Foreign]:
    """*item* as one patch a file, each with the bytes of its own sections, in an order that makes the same tree.

    A diff takes what it copies from the tree as it was, so a copy comes before what changes its source. Two sections of
    one file (it becomes a link, say) stay together.
    """
    lines = item.data.split(b"\n")[:-1]
    starts = [file.line - 1 for file in item.files]
    sections: dict[bytes, list[bytes]] = {}
    for file, start, end in zip(item.files, starts, [*starts[1:], len(lines)], strict=True):
        sections.setdefault(file.path, []).append(b"".join(line + b"\n" for line in lines[start:end]))
    copies = {file.path for file in item.files if file.change == "copy"}
    found = []
    for path in sorted(sections, key=lambda path: path not in copies):
        data = b"".join(sections[path])
        title = f"{item.title}: {show(path)}"
        found.append(replace(item, title=title, data=data, files=diff.read(data, item.origin)))
    return found


def _by_name(folder: Path, skipped: list[str]) -> list[Listed]:
    found = []
    for path in sorted(folder.iterdir()):
        if path.suffix in SUFFIXES and path.is_file():
            quilt.check_inside(folder, path, str(path))
            found.append(Listed(path, 1))
        else:
            skipped.append(f"{one_line(path.name)}: no file that ends in {', '.join(SUFFIXES)}")
    return found


@dataclass(frozen=True)
class _Mail:
    """One mail of a file, or the bare diff that it is: its name, the lines before it there, the whole file's sha256."""

    name: str
    lines_before: int
    sha256: str
    data: bytes


def _mails(file: Path) -> Iterator[_Mail]:
    data = file.read_bytes()
    digest, name = sha256(data).hexdigest(), one_line(file.name)
    found, before = mails.split(data), 0
    for number, part in enumerate(found, 1):
        yield _Mail(f"{name}, mail {number}" if len(found) > 1 else name, before, digest, part)
        before += part.count(b"\n")


def _read_one(item: Listed, mail: _Mail, *, declared: bool) -> Foreign | str:
    """One mail or bare diff; or, where a mail has no diff, a line that says so."""
    data, note = mail.data, ""
    origins = tuple(range(data.count(b"\n") + 1))
    try:
        head = mails.read(data, str(item.file)) if mails.is_mail(data) else None
        if head and not _DIFF.search(data, head.body):
            return (
                f"{mail.name} ({one_line(head.title) or 'no subject'}): no diff in it, so it is a cover letter or talk"
            )
        if declared:
            made = quilt.normalised(data, item.strip, str(item.file))
            data = made.data
            if made.files:
                note = f"{mail.name}: declared -p{item.strip}; {made.files} files got the header that git writes, hunks byte for byte"
                origins = made.origins
        files = diff.read(data, str(item.file))
    except DiffRefused as refusal:
        raise _placed(refusal, item, mail, origins, declared) from None
    start = sum(len(line) + 1 for line in data.split(b"\n")[: files[0].line - 1])
    text = mails.text(data[head.body if head else 0 : start], head.charset if head else "utf-8")
    message, author = mails.said(text, head.author if head else "")
    title = (head.title if head else message.partition("\n")[0].lstrip("# ").strip()) or one_line(item.file.stem)
    body = _without_signature(data[start:], mail.name)
    return Foreign(
        one_line(title),
        message,
        author,
        head.date if head else None,
        mail.name,
        mail.sha256,
        body,
        diff.read(body, str(item.file)),
        note,
    )


def _placed(refusal: DiffRefused, item: Listed, mail: _Mail, origins: tuple[int, ...], declared: bool) -> DiffRefused:
    """*refusal* with the line as it is in the file, and the way in that a series file would be."""

    def line(match: re.Match[str]) -> str:
        at = min(int(match.group(1)) - 1, len(origins) - 1)
        return f":{origins[at] + mail.lines_before + 1}"

    advice = refusal.next
    fits = [] if declared else quilt.levels(mail.data, item.file.name)
    if fits:
        other = f" (or -p{fits[1]})" if len(fits) > 1 else ""
        name = re.sub(r"[^\w.+-]+", "_", item.file.name)
        renamed = f", renamed to {name}," if name != item.file.name else ""
        advice = (
            f"make it again with git diff; or declare how its paths are meant: a folder with this file{renamed} and a file "
            f"`series` that holds the line `{name} -p{fits[0]}`{other}, and ./inv import FOLDER"
        )
    return DiffRefused(refusal.what, where=_PLACE.sub(line, refusal.where), next=advice, detail=refusal.detail)


def _without_signature(data: bytes, name: str) -> bytes:
    """*data* without a mail's signature. A last hunk may end in lines that look like one: then its counts say so."""
    found = _SIGNATURE.search(data)
    if found is None:
        return data
    short = data[: found.start()]
    try:
        return short if len(diff.read(short, name)) == len(diff.read(data, name)) else data
    except DiffRefused:
        return data
