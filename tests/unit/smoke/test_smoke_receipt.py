"""The smoke on a host: kernels against a receipt, and the whole program as one file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchset.smoke import receipt, report
from patchset.smoke.catalogue import REJECTION_FILE
from patchset.smoke.receipt import ReceiptError
from patchset.smoke.report import CaseResult, KernelResult, SmokeResult, SourceInfo
from patchset.wheel.single_file import SMOKE, smoke_file
from tests.unit.smoke.support import smoke, validator
from tests.unit.smoke.test_smoke_run import EXPAND

VERSION = "0.23.0+xpu.b70.1a2b3c4d"
ONE, TWO = "1" * 64, "2" * 64
CASE = CaseResult("one", report.PASSED, 0.1)


def _receipt(folder: Path, kernels: dict[str, str | None] | None = None, **more: Any) -> Path:
    rows = [{"name": name, "sha256": sha256} for name, sha256 in (kernels or {"a": ONE}).items()]
    path = folder / "receipt-1.json"
    path.write_text(json.dumps({"format": 2, "runtime": VERSION, "smoke": [{"kernels": rows}], **more}), "utf-8")
    return path


def _result(**kernels: str | None) -> SmokeResult:
    made = tuple(
        KernelResult(
            name, "vllm/a.py", report.PASSED if sha256 else report.ABSENT, sha256, cases=(CASE,) * bool(sha256)
        )
        for name, sha256 in kernels.items()
    )
    return SmokeResult("interpret", 5, "0.23.0", SourceInfo("installed", "/t", VERSION, None), made, 1.0)


def test_the_receipts_kernels_are_green_and_it_is_told(tmp_path: Path) -> None:
    proof = receipt.read(_receipt(tmp_path, {"a": ONE, "b": None, "other": TWO}))
    result = receipt.compared(_result(a=ONE, b=None), proof)
    assert result.ok and report.receipt_lines(result) == [f"receipt of {VERSION}: 1 of 1 kernels have its source"]
    data = json.loads(json.dumps(result.as_json()))
    validator().validate(data)
    assert report.from_json(data) == result


@pytest.mark.parametrize(
    ("here", "there", "told"),
    [
        (
            {"a": TWO},
            {"a": ONE},
            f"sha256 {TWO} here, {ONE} in receipt-1.json; install the wheel of receipt-1.json again",
        ),
        ({"a": None}, {"a": ONE}, f"sha256 none here, {ONE} in"),
        ({"a": ONE}, {"a": None}, f"sha256 {ONE} here, none in"),
        ({"a": ONE}, {"b": ONE}, "receipt-1.json says nothing of this kernel: use the smoke.pyz that lies beside it"),
    ],
)
def test_another_source_is_red_by_name_with_both_hashes(
    tmp_path: Path, here: dict[str, str | None], there: dict[str, str | None], told: str
) -> None:
    result = receipt.compared(_result(**here, fine=TWO), receipt.read(_receipt(tmp_path, {**there, "fine": TWO})))
    assert not result.ok and [kernel.status for kernel in result.kernels] == [report.FAILED, report.PASSED]
    assert told in result.kernels[0].message and told in "\n".join(report.failure_lines(result.kernels[0]))
    validator().validate(json.loads(json.dumps(result.as_json())))


def test_another_version_is_red(tmp_path: Path) -> None:
    other = replace(_result(a=ONE), source=SourceInfo("installed", "/t", "0.23.0", None))
    result = receipt.compared(other, receipt.read(_receipt(tmp_path)))
    assert not result.ok
    (_, line) = report.receipt_lines(result)
    assert f"vllm is 0.23.0 here, the receipt is of {VERSION}; install the wheel of" in line


RIGHT = {"format": 2, "runtime": VERSION, "smoke": [{"kernels": [{"name": "a", "sha256": ONE}]}]}
BAD = {
    "empty": "",
    "not-json": "{",
    "list": "[]",
    "deep": "[" * 100_000,
    "not-utf-8": b"\xff",
    "key-twice": '{"format": 2, "format": 2}',
    "nan": json.dumps({**RIGHT, "extra": float("nan")}),
    "long-number": json.dumps(RIGHT)[:-1] + ', "n": ' + "9" * 5000 + "}",
    "other-format": json.dumps({**RIGHT, "format": 3}),
    "no-runtime": json.dumps({**RIGHT, "runtime": None}),
    "runtime-with-escape": json.dumps({**RIGHT, "runtime": "0.23.0\x1b[2J"}),
    "no-smoke": json.dumps({**RIGHT, "smoke": []}),
    "no-kernels": json.dumps({**RIGHT, "smoke": [{"kernels": []}]}),
    "kernel-no-object": json.dumps({**RIGHT, "smoke": [{"kernels": [3]}]}),
    "kernel-no-name": json.dumps({**RIGHT, "smoke": [{"kernels": [{"sha256": ONE}]}]}),
    "kernel-no-hash": json.dumps({**RIGHT, "smoke": [{"kernels": [{"name": "a"}]}]}),
    "hash-upper-case": json.dumps({**RIGHT, "smoke": [{"kernels": [{"name": "a", "sha256": "A" * 64}]}]}),
    "two-sources": json.dumps({**RIGHT, "smoke": [*RIGHT["smoke"], {"kernels": [{"name": "a", "sha256": TWO}]}]}),
    "too-large": " " * (receipt.SIZE_LIMIT + 1),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_what_is_no_receipt_is_refused(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "receipt.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ReceiptError, match=r"receipt\.json"):
        receipt.read(path)


def test_a_pipe_is_never_waited_for_and_a_bad_receipt_is_a_usage_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    tree = tmp_path / "vllm"
    tree.mkdir()
    for words in (["--installed", "--receipt", tmp_path / "pipe"], ["--tree", tmp_path, "--receipt", tmp_path / "x"]):
        ran = smoke(Path(sys.executable), tmp_path, *words)
        assert ran.status == 2 and ("is not a file" in ran.errors or "--receipt is for" in ran.errors)


def test_one_file_runs_all_of_it_and_is_the_same_bytes_each_time(lab_python: Path, tmp_path: Path) -> None:
    code = "import sys; from patchset.wheel.single_file import smoke_file; sys.stdout.buffer.write(smoke_file())"
    made = [
        subprocess.run(
            [sys.executable, "-B", "-c", code],
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": seed, "TZ": zone},
            capture_output=True,
            check=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    ]
    assert made[0] == made[1] == smoke_file()
    pyz = tmp_path / SMOKE
    pyz.write_bytes(made[0])
    with zipfile.ZipFile(pyz) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"__main__.py", "patchset"}
    assert {"/".join(name.split("/")[:2]) for name in names[1:]} == {"patchset/__init__.py", "patchset/smoke"}

    wheel = tmp_path / "vllm-0.23.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vllm-0.23.0.dist-info/METADATA", f"Name: vllm\nVersion: {VERSION}\n")
        archive.writestr(REJECTION_FILE, EXPAND)
    proof, out = _receipt(tmp_path, {"expand_kernel": ONE}), tmp_path / "out.json"
    ran = subprocess.run(
        [lab_python, pyz, "--wheel", wheel, "--kernel", "expand_kernel", "--receipt", proof, "--json", out],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 10, ran.stdout + ran.stderr
    (kernel,) = json.loads(out.read_text("utf-8"))["kernels"]
    # Its cases ran, in a process that was started out of the file; only the receipt speaks against it.
    assert kernel["cases"] and all(case["status"] == "passed" for case in kernel["cases"])
    assert f"sha256 {kernel['sha256']} here, {ONE} in receipt-1.json" in ran.stdout
    assert f"receipt of {VERSION}: 0 of 1 kernels have its source" in ran.stdout
