"""Kernels that upstream added: found however they are written, in a tree and in a wheel, and told without a red."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from patchset.smoke import report
from patchset.smoke.catalogue import EAGLE_FILE
from patchset.smoke.report import CaseResult, KernelResult, SmokeResult, SourceInfo, Unknown
from patchset.smoke.sources import Source, tree_source, wheel_source
from patchset.smoke.unknown import jit_functions, unknown_kernels
from tests.unit.smoke.support import validator

ADDED = "vllm/v1/spec_decode/added.py"
TEXT = """import triton
from vllm.triton_utils import tl


@triton.autotune(configs=[], key=[])
@triton.jit
def tuned(x):
    pass


@triton.jit(do_not_specialize=["n"])
def plain(n):
    pass


def host(n):
    plain[(1,)](n)
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (TEXT, ["tuned", "plain"]),
        ("from triton import jit\n@jit\ndef k(x): ...\n", ["k"]),
        ("from triton import jit as compiled\n@compiled\ndef k(x): ...\n", ["k"]),
        ("import triton as t\n@t.heuristics({})\n@wrapped\ndef k(x): ...\n", ["k"]),
        ("from vllm.triton_utils import triton as t\nk = t.jit(f)\n", ["k"]),
        ("import triton\nif triton:\n    @triton.jit\n    def k(x): ...\n", ["k"]),
        ("import triton\nclass A:\n    @staticmethod\n    @triton.jit\n    def k(x): ...\n", ["A.k"]),
        ("import triton\ndef make(n):\n    @triton.jit\n    def k(x): ...\n    return k\n", ["make.k"]),
        ("from numba import jit\n@jit(nopython=True)\ndef k(x): ...\n", []),
        ("import jax\n@jax.jit\ndef k(x): ...\ny = jax.jit(k)\n", []),
        ("import triton\n@triton.testing.perf_report([])\ndef bench(x): ...\n", []),
    ],
)
def test_a_kernel_is_found_however_it_is_written(text: str, names: list[str]) -> None:
    found = dict(jit_functions(text))
    assert list(found) == names
    assert all(name.rpartition(".")[2] in text.splitlines()[line - 1] for name, line in found.items())


def _tree(folder: Path) -> Path:
    known = "import triton\n\n\n@triton.jit\ndef eagle_prepare_inputs_padded_kernel(x):\n    pass\n"
    for file, text in {
        ADDED: TEXT,
        EAGLE_FILE: known,
        "vllm/v1/spec_decode/deeper/unwatched.py": TEXT,
        "vllm/other.py": TEXT,
        "vllm/v1/worker/broken.py": "\n\ndef (\n",
    }.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, "utf-8")
    return folder


def test_a_tree_an_installed_one_and_a_wheel_tell_the_same(tmp_path: Path) -> None:
    tree = _tree(tmp_path / "tree")
    wheel = tmp_path / "vllm-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vllm-1.dist-info/METADATA", "Name: vllm\nVersion: 1.0\n")
        for path in tree.rglob("*.py"):
            archive.write(path, path.relative_to(tree).as_posix())
    found = unknown_kernels(tree_source(tree))
    assert found[:2] == (Unknown(ADDED, 7, "tuned"), Unknown(ADDED, 12, "plain"))
    assert [(one.file, one.line) for one in found[2:]] == [("vllm/v1/worker/broken.py", 3)]
    assert found[2].name.startswith("cannot be read: ")
    assert unknown_kernels(wheel_source(wheel)) == unknown_kernels(Source("installed", tree, None)) == found


def test_it_is_told_in_the_last_line_and_in_the_json_and_is_not_red() -> None:
    case = CaseResult("one", report.PASSED, 0.1)
    kernel = KernelResult("k", "vllm/a.py", report.PASSED, "0" * 64, "", 0.1, (case,))
    plain = SmokeResult("interpret", 5, "0.23.0", SourceInfo("tree", "/t", None, None), (kernel,), 1.0)
    told = replace(plain, unknown=(Unknown(ADDED, 7, "tuned"),))
    assert told.ok
    assert report.summary_line(told).endswith(f"1 unknown to the catalogue, not run: tuned ({ADDED}:7)")
    assert "unknown" not in report.summary_line(plain)
    data = json.loads(json.dumps(told.as_json()))
    validator().validate(data)
    assert data["unknown"] == [{"file": ADDED, "line": 7, "name": "tuned"}] and report.from_json(data) == told
