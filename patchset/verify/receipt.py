"""A receipt: its own chain, the wheel that it names, and whether both tell of one run."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .beside import check_byproduct
from .bounded import Malformed, Unread, read
from .claims import RECORD_FILE, Receipt, Record, read_receipt, same_version
from .identity import check_chain
from .model import Check, Finding, Kind, Report, Unusable, few
from .wheel import WheelReading, facts_of, read_wheel

_AGAIN = "take receipt and wheel of one run together: both lie in dist/VERSION where they were made"


def load_receipt(path: Path) -> Receipt:
    """The receipt in the file *path*.

    :raises Unusable: it cannot be read, or is none.
    """
    try:
        return read_receipt(read(path))
    except Unread as error:
        raise Unusable(
            f"the receipt cannot be read: {error}", where=str(path), next="name a receipt that is there"
        ) from error
    except Malformed as error:
        raise Unusable(
            f"this is not a receipt: {error}", where=str(path), next="name a receipt as ./inv runtime wrote it"
        ) from error


def verify_receipt(path: Path) -> Report:
    """Verify the receipt *path*, and the wheel beside it.

    :raises Unusable: it is no receipt.
    """
    receipt = load_receipt(path)
    checks = [*chain_checks(receipt, path.name)]
    wheel = path.with_name(receipt.wheel_name)
    record, sha256 = None, ""
    if os.path.lexists(wheel):
        try:
            reading = read_wheel(wheel)
        except Unusable as error:
            checks.append(Check("wheel", "", (Finding(Kind.UNREAD, wheel.name, error.what, error.next),)))
        else:
            record, sha256 = reading.record, reading.sha256
            checks += [*wheel_checks(receipt, wheel.name, reading), _attested(wheel, path), *reading.checks]
    else:
        what = "the wheel that the receipt names is not beside it"
        checks.append(
            Check("wheel", "", (Finding(Kind.UNPROVED, wheel.name, what, f"copy {wheel.name} beside the receipt"),))
        )
    checks += not_run_checks(receipt)
    facts = facts_of(record, sha256) or (("version", receipt.run.version), ("tree", receipt.run.tree))
    return Report("receipt", str(path), tuple(checks), facts)


def verify_wheel_with(path: Path, receipt_path: Path) -> Report:
    """Verify the wheel *path* by itself and by a receipt that may lie anywhere.

    :raises Unusable: one of them is not what it must be.
    """
    receipt = load_receipt(receipt_path)
    reading = read_wheel(path)
    checks = (
        *chain_checks(receipt, receipt_path.name),
        *wheel_checks(receipt, path.name, reading),
        _attested(path, receipt_path),
        *reading.checks,
        *not_run_checks(receipt),
    )
    return Report("wheel", str(path), checks, facts_of(reading.record, reading.sha256))


def chain_checks(receipt: Receipt, name: str) -> tuple[Check, ...]:
    """From the base over each patch to the version, as the receipt *name* has it."""
    return check_chain(receipt.run, name, _AGAIN), _check_lock(receipt, name)


def wheel_checks(receipt: Receipt, name: str, reading: WheelReading) -> tuple[Check, ...]:
    """The wheel called *name* is the receipt's, byte for byte, and its record says the same."""
    findings = []
    if name != receipt.wheel_name:
        findings.append(Finding(Kind.CHAIN, name, f"the receipt is of {receipt.wheel_name}", _AGAIN))
    if (receipt.wheel_sha256, receipt.wheel_size) != (reading.sha256, reading.size):
        what = f"the receipt's wheel is {receipt.wheel_sha256} with {receipt.wheel_size} bytes, this one {reading.sha256} with {reading.size}"
        findings.append(Finding(Kind.CHAIN, name, what, _AGAIN))
    if receipt.wheel_name.split("-")[1:2] and not same_version(receipt.wheel_name.split("-")[1], receipt.run.version):
        what = f"the receipt is of version {receipt.run.version}, and its wheel is called {receipt.wheel_name}"
        findings.append(Finding(Kind.IDENTITY, receipt.wheel_name, what, _AGAIN))
    return Check("wheel of the receipt", "the same bytes", few(findings)), agreement(receipt, reading.record)


def agreement(receipt: Receipt, record: Record | None) -> Check:
    """Receipt and record tell the same: base, stack, series, omitted, tree."""
    what = "record and receipt"
    if record is None:
        return Check(what, not_run="there is no record that can be read")
    one, other = receipt.run, record.run
    if (one.version, one.tree) != (other.version, other.tree):
        told = f"the receipt is of {one.version} (tree {one.tree}), the record of {other.version} (tree {other.tree})"
        return Check(what, findings=(Finding(Kind.CHAIN, RECORD_FILE, told, _AGAIN),))
    findings = [
        Finding(
            Kind.CHAIN, RECORD_FILE, f"{place}: the receipt says {_short(left)}, the record {_short(right)}", _AGAIN
        )
        for place, left, right in _differences(one.compared, other.compared, "")
    ]
    return Check(what, "say the same of base, series, omitted and tree", few(findings))


def not_run_checks(receipt: Receipt) -> tuple[Check, ...]:
    """What the receipt says was not run: it is not run here either."""
    return tuple(Check(what, not_run=why) for what, why in receipt.not_run)


def _attested(wheel: Path, receipt: Path) -> Check:
    return check_byproduct(wheel, receipt.name, hashlib.sha256(read(receipt)).hexdigest())


def _check_lock(receipt: Receipt, name: str) -> Check:
    """The ``[result]`` of the lock that the receipt quotes. (TOML has no reader in Python 3.10; these lines are the tool's own.)"""
    section = re.search(r"(?ms)^\[result\]\n(.*?)(?:^\[|\Z)", receipt.lock_text)
    said = dict(re.findall(r'(?m)^([a-z-]+) = "([^"\n]*)"$', section[1])) if section else {}
    wanted = {"tree": receipt.run.tree, "commit": receipt.run.commit, "version": receipt.run.version}
    if not said.keys() & wanted.keys():
        return Check("lock in the receipt", not_run="it has no [result]")
    findings = [
        Finding(Kind.CHAIN, name, f"its lock says {key} {said[key][:100]}, the receipt {value}", _AGAIN)
        for key, value in wanted.items()
        if key in said and said[key] != value
    ]
    return Check("lock in the receipt", "has the same result", few(findings))


def _differences(one: Any, other: Any, place: str) -> Iterable[tuple[str, Any, Any]]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(one.get(key), other.get(key), f"{place}.{key}" if place else key)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(left, right, f"{place}[{number}]")
    elif one != other or type(one) is not type(other):
        yield place, one, other


def _short(value: Any) -> str:
    text = f"{len(value)} items" if isinstance(value, list) else "nothing" if value is None else str(value)
    return text if len(text) <= 100 else text[:100] + "…"
