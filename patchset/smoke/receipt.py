"""What a receipt says of the kernels, read strictly, and compared with those that were run.

Nothing of the rest of the project is needed: this runs on a host that has the receipt and the smoke only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchset.smoke import report
from patchset.smoke.report import ReceiptCheck, SmokeResult

#: The receipts that this reads.
FORMAT = 2
#: A receipt has some 100 kB.
SIZE_LIMIT = 8 * 1024 * 1024
_DIGITS = 20
_KERNELS = 10_000
_SHA256 = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"[0-9A-Za-z.+_-]{1,200}")
_NAME = re.compile(r"[A-Za-z_][0-9A-Za-z_.]{0,199}")


class ReceiptError(Exception):
    """It is no receipt that this program can read. The text says why."""


@dataclass(frozen=True)
class Receipt:
    """What a receipt says.

    :param runtime: the version of the wheel.
    :param kernels: name → sha256 of the source text; None: the wheel does not have it.
    """

    path: Path
    runtime: str
    kernels: Mapping[str, str | None]


def read(path: Path) -> Receipt:
    """The receipt in the file *path*.

    :raises ReceiptError: it is none, or it contradicts itself.
    """
    data = _document(_bytes(path), path)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ReceiptError(f"{path} is no receipt of format {FORMAT}")
    runtime, results = data.get("runtime"), data.get("smoke")
    if not isinstance(runtime, str) or not _VERSION.fullmatch(runtime):
        raise ReceiptError(f"{path}: it does not say which runtime it is of")
    if not isinstance(results, list) or not results:
        raise ReceiptError(f"{path}: it has no smoke")
    kernels: dict[str, str | None] = {}
    for result in results:
        for name, sha256 in _kernels(result, path):
            if kernels.setdefault(name, sha256) != sha256:
                raise ReceiptError(f"{path}: it has two sources of {name}, {kernels[name]} and {sha256}")
    return Receipt(path, runtime, kernels)


def compared(result: SmokeResult, receipt: Receipt) -> SmokeResult:
    """*result* with what *receipt* says of it; a kernel whose source is another one is failed, by name."""
    kernels, same = [], 0
    again = f"install the wheel of {receipt.path.name} again"
    for kernel in result.kernels:
        if kernel.name not in receipt.kernels:
            why = f"{receipt.path.name} says nothing of this kernel: use the smoke.pyz that lies beside it"
        elif kernel.sha256 == receipt.kernels[kernel.name]:
            same += kernel.sha256 is not None
            kernels.append(kernel)
            continue
        else:
            here, there = (sha256 or "none" for sha256 in (kernel.sha256, receipt.kernels[kernel.name]))
            why = f"its source is not the receipt's: sha256 {here} here, {there} in {receipt.path.name}; {again}"
        kernels.append(replace(kernel, status=report.FAILED, message="\n".join(filter(None, [why, kernel.message]))))
    faults: tuple[str, ...] = ()
    if result.source.version != receipt.runtime:
        said = result.source.version or "of no version"
        faults = (f"vllm is {said} here, the receipt is of {receipt.runtime}; {again}",)
    check = ReceiptCheck(str(receipt.path), receipt.runtime, same, faults)
    return replace(result, kernels=tuple(kernels), receipt=check)


def _bytes(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise ReceiptError(f"{path} is not a file")
        with open(path, "rb") as file:
            data = file.read(SIZE_LIMIT + 1)
    except (OSError, ValueError) as error:
        raise ReceiptError(f"{path} cannot be read: {error}") from error
    if len(data) > SIZE_LIMIT:
        raise ReceiptError(f"{path} has more than {SIZE_LIMIT} bytes")
    return data


def _document(data: bytes, path: Path) -> Any:
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_once,
            parse_constant=_no_number,
            parse_int=_short,
            parse_float=_short,
        )
    except (ValueError, RecursionError) as error:
        raise ReceiptError(f"{path} is no JSON document: {error}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has one key twice")
    return found


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _short(text: str) -> float:
    if len(text) > 2 * _DIGITS:
        raise ValueError("a number is too long")
    return float(text) if set(text) & set(".eE") else int(text)


def _kernels(result: Any, path: Path) -> list[tuple[str, str | None]]:
    rows = result.get("kernels") if isinstance(result, dict) else None
    if not isinstance(rows, list) or not 0 < len(rows) <= _KERNELS:
        raise ReceiptError(f"{path}: a smoke result in it has no kernels")
    found = []
    for row in rows:
        name, sha256 = (row.get("name"), row.get("sha256", "")) if isinstance(row, dict) else (None, "")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ReceiptError(f"{path}: a kernel in it has no name")
        if sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
            raise ReceiptError(f"{path}: {name} has no sha256")
        found.append((name, sha256))
    return found
