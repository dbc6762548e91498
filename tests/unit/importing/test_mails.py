"""What a mail's header says, decoded; and what is no mail that a diff can be taken from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from patchset.errors import DiffRefused
from patchset.importing import mails

SEPARATOR = b"From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"


def mail(header: bytes, body: bytes = b"text\n") -> bytes:
    return SEPARATOR + header + b"\n" + body


@pytest.mark.parametrize(
    ("header", "title", "author"),
    [
        (b"From: A <a@x>\nSubject: [PATCH 2/3] Mend it\n", "Mend it", "A <a@x>"),
        (b"From: A <a@x>\nSubject: [PATCH] [XPU] Mend\n it, all\n", "Mend it, all", "A <a@x>"),
        (b"From: =?UTF-8?q?J=C3=B6rg?= <a@x>\nSubject: =?iso-8859-1?B?5OQ=?=\n", "ää", "Jörg <a@x>"),
        ("From: Jörg <a@x>\nSubject: raw ü\n".encode(), "raw ü", "Jörg <a@x>"),
        (b"From: A <a@x>\nSubject: =?no-such-code?q?x?=\n", "=?no-such-code?q?x?=", "A <a@x>"),
        (b"Author: A <a@x>\nDescription: as Debian has it\n", "as Debian has it", "A <a@x>"),
    ],
)
def test_header_is_decoded(header: bytes, title: str, author: str) -> None:
    read = mails.read(mail(header), "m")
    assert (read.title, read.author) == (title, author)
    assert mail(header)[read.body :] == b"text\n"


@pytest.mark.parametrize(
    ("date", "moment"),
    [
        (b"Tue, 1 Dec 2026 10:00:00 +0200", datetime(2026, 12, 1, 8, tzinfo=timezone.utc)),
        (b"1 Dec 2026 10:00:00 -0000", datetime(2026, 12, 1, 10, tzinfo=timezone.utc)),
        (b"Fri, 1 Jan 1960 10:00:00 +0000", None),
        (b"soon", None),
        (b"Tue, 99 Dec 2026 99:00:00 +9999", None),
    ],
)
def test_date_is_in_utc_or_not_known(date: bytes, moment: datetime | None) -> None:
    assert mails.read(mail(b"From: a\nDate: " + date + b"\n"), "m").date == moment


@pytest.mark.parametrize(
    ("header", "line", "words"),
    [
        (b"From: a\nContent-Transfer-Encoding: Base64\n", 3, "base64"),
        (b"From: a\nContent-Transfer-Encoding: quoted-printable\n", 3, "quoted-printable"),
        (b"From: a\nSubject: b\nContent-Type: multipart/mixed; boundary=x\n", 4, "attachments"),
        (b"X: y\n", 1, "no header"),
    ],
)
def test_mail_that_is_not_plain_is_refused_at_its_line(header: bytes, line: int, words: str) -> None:
    with pytest.raises(DiffRefused, match=words) as error:
        mails.read(mail(header), "m")
    assert error.value.where == f"m:{line}" and error.value.next


def test_mbox_is_split_where_mails_start() -> None:
    one, two = mail(b"From: a\n", b">From here\n from 1 to 2\n"), b"From a@x Mon Sep 17 00:00:00 2001\nFrom: b\n\n"
    assert mails.split(one + two) == [one, two]
    assert mails.split(b"x\n" + one) == [b"x\n" + one]


@pytest.mark.parametrize(
    ("line", "separates"),
    [
        (SEPARATOR, True),
        (b"From - Tue Dec  1 10:00:00 2026\n", True),
        (b"From MAILER-DAEMON Tue Dec  1 10:00:00 2026\r\n", True),
        (b"From a@x Tue Dec  1 10:00:00 2026 +0100\n", True),
        (b"From a@x Tue Dec  1 10:00:00 +0100 2026\n", True),
        (b"From a@x Tue Dec  1 10:00:00\n", False),
        (b"From a@x Tue Dec  1 10:00 2026\n", True),
        (b"From a@x Tue Dec  1 10:00:00 26\n", False),
        (b"From here on it is 10: see below in 2026\n", False),
        (b">From a@x Tue Dec  1 10:00:00 2026\n", False),
        (b"From: a@x Tue Dec  1 10:00:00 2026\n", False),
        (b"From " + b"a@" * 500_000 + b"\n", False),
        (b"From " + b"1:11:11 1" * 100_000 + b":\n", False),
    ],
)
def test_mails_start_where_git_sees_them_start(
    line: bytes, separates: bool, tmp_path: Path, plain_git: Callable[..., str]
) -> None:
    data = mail(b"From: a\nSubject: b\n\n") + line + b"Subject: c\n\nd\n"
    assert len(mails.split(data)) == 1 + separates
    (tmp_path / "mbox").write_bytes(data)
    assert plain_git(tmp_path, "mailsplit", "-b", f"-o{tmp_path}", "mbox") == str(1 + separates)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (b"text/plain; charset=iso-8859-1", "fü\x9fr"),
        (b"text/plain; charset=utf-8", "f�\ufffdr"),
        (b"text/plain; charset=no-such", "f�\ufffdr"),
        (b"text/plain; charset=hex", "f�\ufffdr"),
        (b"text/plain; charset*0*=x'y'%FF", "f�\ufffdr"),
        (b"text/plain", "f�\ufffdr"),
    ],
)
def test_text_is_read_as_its_mail_says(kind: bytes, text: str) -> None:
    read = mails.read(mail(b"From: a\nSubject: b\nContent-Type: " + kind + b"\n"), "m")
    assert mails.text(b"f\xfc\x9fr", read.charset) == text


def test_header_ends_where_the_diff_begins_without_a_blank_line() -> None:
    data = b"Subject: mend it\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n\n-a\n+b\n"
    assert mails.is_mail(data)
    assert data[mails.read(data, "m").body :].startswith(b"--- a/f\n")


def test_message_ends_before_the_statistics_and_may_name_the_author() -> None:
    text = "From: =?utf-8?q?J=C3=B6rg?= <j@x>\n\nWhy.\n\n---\n f | 2 +-\n"
    assert mails.said(text, "Sender <s@x>") == ("Why.", "Jörg <j@x>")
    assert mails.said("Why.\n--- not the end\n", "A") == ("Why.\n--- not the end", "A")
