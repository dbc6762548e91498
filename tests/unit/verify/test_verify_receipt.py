"""A receipt tells one story from the base to the wheel beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import made_verify as mv
import pytest
from made_verify import kinds

from patchset.verify import Unusable, verify
from patchset.wheel import provenance

MADE = mv.make()


@pytest.fixture
def delivered(tmp_path: Path) -> Callable[..., Path]:
    """A receipt with its wheel beside it, after a change of the receipt."""

    def deliver(change: Callable[[dict], object] = lambda document: None) -> Path:
        document = mv.receipt_of(MADE, MADE.write(tmp_path))
        change(document)
        return mv.write_receipt(tmp_path, document)

    return deliver


def test_a_receipt_and_its_wheel(delivered: Callable[..., Path]) -> None:
    report = verify(delivered())
    assert (report.findings, report.exit_code, report.subject) == ((), 0, "receipt")
    lane = next(check for check in report.checks if check.what == "lane device")
    assert (lane.state, lane.not_run) == ("not run", "needs the card")
    assert {"tree", "RECORD", "record and receipt"} <= {check.what for check in report.checks if check.state == "ok"}


def put(path: str, value: object) -> Callable[[dict], None]:
    def change(document: dict) -> None:
        *above, last = [int(word) if word.isdigit() else word for word in path.split(":")]
        for key in above:
            document = document[key]
        document[last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "expected", "code"),
    [
        ("base:tree", "a" * 40, {"chain"}, 28),
        ("base:tree", MADE.record["series"][0]["tree"], {"chain"}, 28),
        ("base:sha256", "a" * 64, {"chain"}, 28),
        ("series:0:tree", "a" * 40, {"chain"}, 28),
        ("series:1:tree", "a" * 40, {"chain"}, 28),
        ("series:1:touched", ["vllm/a.py"], {"chain"}, 28),
        ("series:2:tree", "a" * 40, {"chain"}, 28),
        ("series:2:title", "another", {"chain"}, 28),
        ("series:2:evidence", [], {"chain"}, 28),
        ("series:2:probe:patched", "defect", {"chain"}, 28),
        ("series", [], {"chain"}, 28),
        ("omitted", [], {"chain"}, 28),
        ("stack", {"torch": "==2.12.0"}, {"chain"}, 28),
        ("recipe", "b70-0.24", {"chain"}, 28),
        ("commit", "a" * 40, {"chain"}, 28),
        ("tree", "a" * 40, {"chain", "identity"}, 28),
        ("runtime", "0.24.0+xpu.b70." + MADE.record["tree"][:8], {"chain", "identity"}, 28),
        ("runtime", "0.23.0+xpu.b70.aaaaaaaa", {"chain", "identity"}, 28),
        ("lock:text", '[result]\ntree = "' + "a" * 40 + '"\n', {"chain"}, 28),
        ("wheel:sha256", "a" * 64, {"chain"}, 28),
        ("wheel:size", 1, {"chain"}, 28),
        ("wheel:name", "vllm-0.24.0-py3-none-any.whl", {"unproved"}, 20),
    ],
)
def test_a_receipt_that_was_edited(
    delivered: Callable[..., Path], path: str, value: object, expected: set[str], code: int
) -> None:
    report = verify(delivered(put(path, value)))
    assert (kinds(report), report.exit_code) == (expected, code)


def test_a_receipt_and_the_wheel_of_another_run(delivered: Callable[..., Path], tmp_path: Path) -> None:
    receipt = delivered()
    MADE.with_member("vllm/b.py", mv.BASE["vllm/b.py"][1]).write(tmp_path)
    report = verify(receipt)
    assert (kinds(report), report.exit_code) == ({"chain", "not-applied"}, 31)


def test_a_wheel_with_a_receipt_from_elsewhere(delivered: Callable[..., Path], tmp_path: Path) -> None:
    receipt, wheel = delivered(), MADE.write(tmp_path / "host")
    assert verify(wheel, receipt=receipt).exit_code == 0
    renamed = wheel.rename(wheel.with_name(wheel.name.replace("cp38-abi3", "py3-none")))
    report = verify(renamed, receipt=receipt)
    assert [(finding.path, finding.what.partition(" cp38")[0]) for finding in report.findings] == [
        (renamed.name, f"the receipt is of {MADE.filename}"),
        ("WHEEL", "it says the tags"),
    ]


def test_the_wheel_is_not_beside_it_or_is_none(delivered: Callable[..., Path], tmp_path: Path) -> None:
    receipt = delivered()
    (tmp_path / MADE.filename).write_bytes(b"no zip")
    assert kinds(verify(receipt)) == {"unread"}
    (tmp_path / MADE.filename).unlink()
    assert (kinds(verify(receipt)), verify(receipt).exit_code) == ({"unproved"}, 20)
    (tmp_path / MADE.filename).symlink_to(tmp_path / MADE.filename)
    assert kinds(verify(receipt)) == {"unread"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("format", 3),
        ("wheel:name", "../vllm-1.whl"),
        ("wheel:name", "vllm-\x1b[2J.whl"),
        ("wheel:sha256", "A" * 64),
        ("wheel:size", "1"),
        ("series:0:applied", "yes"),
        ("series:0:outcome", "conflicts"),
        ("series:0:touched", ["/etc/passwd"]),
        ("not_run", [{"what": "x"}]),
        ("omitted", [{"patch": "first", "reason": "x", "probe": "sound"}]),
        ("lock", {}),
    ],
)
def test_no_receipt(delivered: Callable[..., Path], path: str, value: object) -> None:
    with pytest.raises(Unusable, match="this is not a receipt") as caught:
        verify(delivered(put(path, value)))
    assert caught.value.next


@pytest.mark.parametrize(
    "key", ["format", "base", "series", "omitted", "tree", "commit", "wheel", "not_run", "lock", "runtime"]
)
def test_a_receipt_with_something_missing(delivered: Callable[..., Path], key: str) -> None:
    with pytest.raises(Unusable, match=f"the document has no '{key}'"):
        verify(delivered(lambda document: document.pop(key)))


def test_a_receipt_that_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    os.mkfifo(path)
    with pytest.raises(Unusable, match="not a plain file"):
        verify(path)
    path.unlink()
    path.write_text("[" + "0," * 5_000_000 + "0]")
    with pytest.raises(Unusable, match="more than"):
        verify(path)


def test_the_real_writer_and_this_reader_agree() -> None:
    """What is compared is what both writers of :mod:`patchset.receipt` write."""
    from patchset import receipt
    from patchset.verify import claims

    schema = json.loads(receipt.SCHEMA.read_bytes())
    step = schema["properties"]["series"]["items"]
    assert set(claims._STEP) | {"probe", "variant"} == set(step["required"])
    assert set(claims._BASE) <= set(schema["properties"]["base"]["required"])
    assert schema["properties"]["format"]["const"] in claims.RECEIPT_FORMATS
    assert set(step["properties"]["outcome"]["enum"]) > claims._APPLIED
    assert set(schema["properties"]["omitted"]["items"]["required"]) == {"patch", "reason", "probe", "found"}


def test_the_real_attestation(delivered: Callable[..., Path], tmp_path: Path) -> None:
    def complete(document: dict) -> None:
        document |= {
            "started": "2026-12-03T00:00:00Z",
            "finished": "2026-12-03T00:00:01Z",
            "tool": {"version": "1"},
            "machine": {"system": "Linux", "machine": "x86_64", "python": "3.11.7"},
            "reused": [],
        }
        document["base"]["source"] = "archive"
        document["wheel"] |= {"torch": "none", "rust": False}

    receipt = delivered(complete)
    path = tmp_path / provenance.file_name(MADE.filename)
    sound = provenance.statement(mv.bill_of(MADE), receipt.read_bytes(), receipt.name, {"build": "a" * 64})
    path.write_bytes(sound)
    report = verify(receipt)
    assert report.findings == ()
    assert {check.state for check in report.checks if "attestation" in check.what or "intoto" in check.what} == {"ok"}
    path.write_bytes(sound.replace(MADE.record["tree"].encode(), b"a" * 40))
    assert kinds(verify(receipt)) == {"chain"}
    path.write_bytes(sound)
    receipt.write_bytes(receipt.read_bytes() + b"\n")
    report = verify(receipt)
    assert [finding.path for finding in report.findings] == [path.name], "it has the hash of the receipt as it was"
    receipt.rename(receipt.with_name("receipt-20261203T000009Z.json"))
    assert verify(receipt.with_name("receipt-20261203T000009Z.json")).findings == ()
