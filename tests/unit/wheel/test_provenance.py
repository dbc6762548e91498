"""The statement about a wheel: in-toto and SLSA as this project's own strict schema has them, made of bill and receipt alone."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from made_bill import BILL, DIFF, FIX, RECEIPT, receipt_bytes

import patchset
from patchset.errors import WheelError
from patchset.wheel.bill import content_name
from patchset.wheel.provenance import BUILD_TYPE, BUILDER, SCHEMA, file_name, statement

LOCKS = {"build": "8" * 64, "lab": "9" * 64}
NAME = "receipt-20261201T100203Z.json"
VALIDATOR = Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))


def made(receipt: bytes | None = None) -> dict[str, Any]:
    document = json.loads(statement(BILL, receipt or receipt_bytes(), NAME, LOCKS))
    assert list(VALIDATOR.iter_errors(document)) == []
    return document


def test_schema_is_one() -> None:
    Draft202012Validator.check_schema(VALIDATOR.schema)


def test_it_is_about_the_wheel_of_the_receipt() -> None:
    document = made()
    wheel = RECEIPT["wheel"]
    assert document["subject"] == [{"name": wheel["name"], "digest": {"sha256": wheel["sha256"]}}]
    assert (document["_type"], document["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://slsa.dev/provenance/v1",
    )
    assert file_name(wheel["name"]) == f"{wheel['name']}.intoto.json"


def test_everything_that_went_in_is_a_dependency_with_its_hash() -> None:
    found = made()["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert found[0] == {
        "name": "vllm-1.2.0.tar.gz",
        "uri": "pkg:pypi/vllm@1.2.0?file_name=vllm-1.2.0.tar.gz",
        "digest": {"sha256": BILL.sha256},
    }
    assert found[1] == {"name": "base tree", "digest": {"gitTree": BILL.base_tree}}
    by_name = {item["name"]: item for item in found}
    assert by_name["patch small-fix"]["digest"] == {"sha256": hashlib.sha256(DIFF.encode()).hexdigest()}
    assert by_name["patch small-fix"]["uri"] == content_name(DIFF.encode())
    assert "patch a-backport" not in by_name  # it has no diff; its files come from the donor's archive
    assert "patch unneeded" not in by_name
    donors = [item["annotations"]["to"] for item in found if item["name"] == "vllm-1.3.0.tar.gz"]
    assert donors == ["vllm/here.py", "tests/t.py"]
    assert by_name["locked requirements: build"]["digest"] == {"sha256": LOCKS["build"]}


def test_parameters_name_what_is_left_out() -> None:
    definition = made()["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["series"] == ["small-fix", "unneeded", "a-backport"]
    assert definition["externalParameters"]["omitted"] == [{"patch": "left-out", "reason": "it is being bisected"}]
    assert definition["internalParameters"]["reused"] == ["probe verdicts"]
    assert definition["internalParameters"]["sourceDateEpoch"] == BILL.epoch
    assert not set(definition["externalParameters"]) & set(definition["internalParameters"])


def test_the_run_is_the_receipt_s() -> None:
    details = made()["predicate"]["runDetails"]
    assert details["builder"] == {"id": BUILDER, "version": {"vllm-xpu-patchset": "9.8.7"}}
    assert (details["metadata"]["startedOn"], details["metadata"]["finishedOn"]) == (
        "2026-12-01T10:00:00Z",
        "2026-12-01T10:02:03Z",
    )
    assert details["byproducts"][0] == {"name": NAME, "digest": {"sha256": hashlib.sha256(receipt_bytes()).hexdigest()}}
    other = made(receipt_bytes(finished="2026-12-01T10:02:04Z"))["predicate"]["runDetails"]
    assert other["metadata"]["invocationId"] != details["metadata"]["invocationId"]
    assert statement(BILL, receipt_bytes(), NAME, LOCKS) == statement(
        BILL, receipt_bytes(), NAME, dict(reversed(LOCKS.items()))
    )


def test_uris_are_of_this_project_and_of_no_host() -> None:
    for uri in (BUILD_TYPE, BUILDER):
        assert re.fullmatch(r"pkg:generic/vllm-xpu-patchset\?[a-z-]+=[a-z0-9-]+(#.*)?", uri)
    described = Path(patchset.__file__).parent.parent / BUILD_TYPE.partition("#")[2]
    assert described == SCHEMA
    assert VALIDATOR.schema["properties"]["predicate"]["properties"]["buildDefinition"]["properties"]["buildType"][
        "const"
    ] == (BUILD_TYPE)


@pytest.mark.parametrize(
    "receipt",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        receipt_bytes(wheel=None),
        receipt_bytes(machine={"system": "Linux"}),
        receipt_bytes(reused=7),
        receipt_bytes(runtime="1.2.0+xpu.b70.00000000"),
        receipt_bytes(tree="0" * 40),
    ],
)
def test_what_is_no_receipt_of_this_runtime_is_refused(receipt: bytes) -> None:
    with pytest.raises(WheelError) as caught:
        statement(BILL, receipt, NAME, LOCKS)
    assert caught.value.where == NAME and caught.value.next.startswith("./inv runtime")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every object and list in *value*, by the way to it."""
    if isinstance(value, (dict, list)):
        yield path
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))


def test_schema_lets_nothing_be_added_or_left_out() -> None:
    document = made()
    free = ("stack",)  # names of distributions
    for path in places(document):
        changed = copy.deepcopy(document)
        spot = changed
        for key in path:
            spot = spot[key]
        if not isinstance(spot, dict) or path[-1:] == free:
            continue
        for key in list(spot):
            kept = spot.pop(key)
            assert not VALIDATOR.is_valid(changed), (path, key)
            spot[key] = kept
        spot["surplus"] = "x"
        assert not VALIDATOR.is_valid(changed), path


def test_bytes_that_are_not_utf_8_are_named_as_they_are() -> None:
    raw = DIFF.encode("latin-1")
    bill = replace(BILL, patches=(replace(FIX, diff=raw.decode("utf-8", "surrogateescape")),))
    document = json.loads(statement(bill, receipt_bytes(), NAME, LOCKS))
    [diff] = [item for item in document["predicate"]["buildDefinition"]["resolvedDependencies"] if "mediaType" in item]
    assert diff["digest"]["sha256"] == hashlib.sha256(raw).hexdigest()
