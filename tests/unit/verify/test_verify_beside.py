"""What lies beside the wheel, and the bill of materials in it, are of this wheel."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_verify as mv
import pytest
from made_verify import state, told

from patchset.verify import verify

MADE = mv.make()


def test_beside_the_wheel(tmp_path: Path) -> None:
    path = MADE.write(tmp_path)
    digest = mv.sha256(path.read_bytes())
    sums, statement = (path.with_name(path.name + suffix) for suffix in (".sha256", ".intoto.json"))
    good = {"_type": "https://in-toto.io/Statement/v1", "subject": [{"name": path.name, "digest": {"sha256": digest}}]}
    sums.write_text(f"{digest}  {path.name}\n")
    statement.write_text(json.dumps(good))
    report = verify(path)
    assert (report.exit_code, state(report, "*.sha256"), state(report, "*.intoto.json")) == (0, "ok", "ok")
    for text, kind in [
        (f"{'a' * 64}  {path.name}\n", "chain"),
        (f"{digest}  other.whl\n", "chain"),
        ("", "unread"),
        ("\x1b[2J", "unread"),
        (" " * 3_000_000 + "x", "unread"),
    ]:
        sums.write_text(text)
        assert told(verify(path)) == {(kind, sums.name)}
    sums.unlink()
    for document, kind in [
        ({**good, "subject": []}, "chain"),
        ({**good, "subject": [{"name": path.name, "digest": {"sha256": "a" * 64}}]}, "chain"),
        ({**good, "_type": "https://in-toto.io/Statement/v0.1"}, "unread"),
        ({**good, "subject": [{"name": path.name, "digest": {"sha1": "a" * 40}}]}, "unread"),
        ({**good, "predicate": {"runDetails": {"byproducts": [{"digest": {"gitTree": "a" * 40}}]}}}, "chain"),
        ([], "unread"),
    ]:
        statement.write_text(json.dumps(document))
        assert told(verify(path)) == {(kind, statement.name)}
    statement.unlink()
    statement.symlink_to(statement)
    assert told(verify(path)) == {("unread", statement.name)}


BILL_FILE = "sboms/patchset.cdx.json"


def with_bill(data: bytes) -> mv.Made:
    return mv.Made(MADE.members, MADE.record, MADE.version, {BILL_FILE: data})


def test_the_bill_of_materials_as_it_is_written(tmp_path: Path) -> None:
    report = verify(with_bill(mv.bill_document(MADE)).write(tmp_path))
    assert (report.findings, state(report, "bill of materials")) == ((), "ok")


@pytest.mark.parametrize(
    "change",
    [
        {"tree": "a" * 40},
        {"commit": "a" * 40},
        {"patches": ()},
        {"patches": mv.bill_of(MADE).patches[:2]},
        {"patches": (*mv.bill_of(MADE).patches, replace(mv.bill_of(MADE).patches[0], id="more"))},
        {"patches": (replace(mv.bill_of(MADE).patches[0], tree="a" * 40), *mv.bill_of(MADE).patches[1:])},
        {"patches": (replace(mv.bill_of(MADE).patches[0], outcome="upstream"), *mv.bill_of(MADE).patches[1:])},
        {"patches": (replace(mv.bill_of(MADE).patches[0], applied=False), *mv.bill_of(MADE).patches[1:])},
        {"omitted": ()},
    ],
)
def test_a_bill_of_materials_of_another_run(tmp_path: Path, change: dict[str, Any]) -> None:
    data = mv.bill_document(MADE, **change)
    report = verify(with_bill(data).write(tmp_path))
    assert (told(report), report.exit_code) == ({("chain", BILL_FILE)}, 28)


def test_a_diff_that_was_changed_in_the_bill_of_materials(tmp_path: Path) -> None:
    data = mv.bill_document(MADE)
    assert data.count(b"-a = 'defect'") == 1
    report = verify(with_bill(data.replace(b"-a = 'defect'", b"-a = 'effect'")).write(tmp_path))
    assert told(report) == {("chain", BILL_FILE)}


@pytest.mark.parametrize("data", [b"{", b"{}", b'{"metadata": {"component": {"properties": [{"name": 1}]}}}'])
def test_a_bill_of_materials_that_is_none(tmp_path: Path, data: bytes) -> None:
    assert told(verify(with_bill(data).write(tmp_path))) == {("unread", BILL_FILE)}


def test_a_bill_of_materials_of_another_tool(tmp_path: Path) -> None:
    made = mv.Made(MADE.members, MADE.record, MADE.version, {"sboms/auditwheel.cdx.json": b"{}"})
    report = verify(made.write(tmp_path))
    assert (report.exit_code, state(report, "bill of materials")) == (0, "not run")
