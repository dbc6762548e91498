"""Patches in mails: what the header says, decoded, and the diff below it, byte for byte."""

from __future__ import annotations

import email
import email.errors
import email.header
import email.policy
import email.utils
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from email.message import Message

from patchset.errors import DiffRefused

_FROM = re.compile(rb"^From [^\n]*", re.MULTILINE)
#: What a time leaves around its last colon.
_MINUTE = re.compile(rb"\d.\d\d\Z")
_SECOND = re.compile(rb"\d\d[ \t]*\+?(\d{1,9})(?!\d)")
#: A file that starts with one of these starts with a header: a mail without its separator, or a patch after DEP-3.
_HEADER = re.compile(
    rb"(?:From|Subject|Date|Author|Description|Return-Path|Received|Message-Id|MIME-Version): ", re.IGNORECASE
)
_HEADER_LINES = re.compile(rb"(?:From [^\n]*\n)?((?:(?!Index: )[!-9;-~]+:[^\n]*\n|[ \t][^\n]*\n)*)(?:\r?\n)?")
_NUMBER = re.compile(r"^\s*(?:\[[^\]]*\]\s*)+")
_CLAIMED_AUTHOR = re.compile(r"From: ([^\n]+)\n+")


@dataclass(frozen=True)
class Mail:
    """What a mail's header says; ``body`` is where in the mail's bytes what is below it begins."""

    title: str
    author: str
    date: datetime | None
    body: int
    charset: str


def split(data: bytes) -> list[bytes]:
    """Each mail in *data*; the whole of it where it does not start as an mbox does."""
    starts = [match.start() for match in _FROM.finditer(data) if _is_separator(match.group())]
    if not starts or starts[0] != 0:
        return [data]
    return [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]


def is_mail(data: bytes) -> bool:
    """Does *data* start with a mail's header?"""
    line = _FROM.match(data)
    return (line is not None and _is_separator(line.group())) or _HEADER.match(data) is not None


def _is_separator(line: bytes) -> bool:
    """Does *line* start another mail? As `git mailsplit` sees it: it ends in a time and a year."""
    head, colon, tail = line.rpartition(b":")
    year = _SECOND.match(tail)
    return bool(colon) and _MINUTE.search(head[-4:]) is not None and year is not None and int(year.group(1)) > 90


def read(data: bytes, name: str) -> Mail:
    """The header of the mail *data*; *name* is how messages call it.

    :raises DiffRefused: it says neither from whom nor about what, or that what is below is not plain.
    """
    lines = _HEADER_LINES.match(data)
    assert lines is not None  # it matches nothing, too
    head = data[: lines.end()]
    message = email.message_from_bytes(lines.group(1), policy=email.policy.compat32)
    encoding = str(message.get("Content-Transfer-Encoding", "")).strip().lower()
    if encoding in ("quoted-printable", "base64"):
        raise DiffRefused(
            f"the mail is {encoding}: its diff is not here as it was made",
            where=f"{name}:{_line_of(head, b'content-transfer-encoding:')}",
            next="save the patch itself (git format-patch makes it; git mailinfo decodes a mail), and import that",
        )
    if message.get_content_maintype() == "multipart":
        raise DiffRefused(
            "the mail has attachments, and a diff in one is not here as it was made",
            where=f"{name}:{_line_of(head, b'content-type:')}",
            next="save the attached patch, and import that",
        )
    subject = _first(message, "Subject", "Description")
    author = _first(message, "From", "Author")
    if not subject and not author:
        raise DiffRefused(
            "what looks like the start of a mail has no header: it stands in the text of the one before",
            where=f"{name}:1",
            next="put a > before that line, as mail programs do, or import the mails one by one",
        )
    title = _NUMBER.sub("", subject).strip()
    return Mail(title, author, _date(message.get("Date")), lines.end(), _charset(message))


def text(data: bytes, charset: str) -> str:
    """*data* as its mail says that it is to be read; what it then is not, replaced."""
    try:
        return data.decode(charset, "replace")
    except (LookupError, ValueError):  # one that nobody knows, or that makes no text
        return data.decode("utf-8", "replace")


def said(text: str, author: str) -> tuple[str, str]:
    """(message, author) of the *text* between a mail's header and its diff.

    git format-patch parts the message from its statistics with a line of three dashes, and names the author in the text
    where somebody else sent the mail.
    """
    message = re.split(r"^---\s*$", text, maxsplit=1, flags=re.MULTILINE)[0].strip()
    claimed = _CLAIMED_AUTHOR.match(message)
    return (message[claimed.end() :].strip(), decoded(claimed.group(1))) if claimed else (message, author)


def decoded(value: str) -> str:
    """A header with its encoded words (RFC 2047) and folding taken out."""
    try:
        parts = email.header.decode_header(value)
        text = "".join(
            part.decode(code or "utf-8", "replace") if isinstance(part, bytes) else part for part, code in parts
        )
    except (LookupError, ValueError, email.errors.HeaderParseError):
        text = value
    return re.sub(r"\s+", " ", text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")).strip()


def _first(message: Message, *names: str) -> str:
    return next((text for text in _headers(message, names) if text), "")


def _headers(message: Message, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = message.get(name)
        # an 8-bit header comes as a Header, whose text has lost its bytes; the raw value has them as surrogates
        raw = next((text for key, text in message.raw_items() if key.lower() == name.lower()), None) if value else None
        if raw is not None:
            yield decoded(str(raw))


def _charset(message: Message) -> str:
    try:
        return message.get_content_charset("utf-8")
    except (LookupError, ValueError):  # a parameter that is encoded itself, in something unknown
        return "utf-8"


def _line_of(head: bytes, start: bytes) -> int:
    at = head.lower().find(b"\n" + start)
    return head.count(b"\n", 0, at + 1) + 1 if at >= 0 else 1


def _date(value: object) -> datetime | None:
    try:
        date = email.utils.parsedate_to_datetime(str(value or ""))
        date = (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    return date if 1970 < date.year < 2100 else None
