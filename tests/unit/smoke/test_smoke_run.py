"""The program on tiny trees: what passes, and each way that a kernel may go wrong."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from patchset.smoke.catalogue import REJECTION_FILE, select
from tests.unit.smoke.support import Ran, smoke

#: A kernel of ours with the contract of vLLM's: each request's value, once a token.
EXPAND = """
from vllm.triton_utils import tl, triton


@triton.jit(do_not_specialize=["replace_from", "replace_to"])
def expand_kernel(output_ptr, input_ptr, cu_num_tokens_ptr, replace_from, replace_to, MAX_NUM_TOKENS: tl.constexpr):
    request = tl.program_id(0)
    end = tl.load(cu_num_tokens_ptr + request)
    start = tl.load(cu_num_tokens_ptr + request - 1, mask=request > 0, other=0)
    value = tl.load(input_ptr + request)
    value = tl.where(value == replace_from, replace_to, value)
    at = start + tl.arange(0, MAX_NUM_TOKENS)
    tl.store(output_ptr + at, value, mask=at < end)
"""
GREEDY = """

@triton.jit
def rejection_greedy_sample_kernel(output_token_ids_ptr, surprise):
    tl.store(output_token_ids_ptr, surprise)
"""
#: Two reads that change no result: behind the array's end, and a word of eight bytes that starts in the middle of one.
BEHIND = "tl.load(input_ptr + tl.num_programs(0))"
ASKEW = "tl.load((cu_num_tokens_ptr.to(tl.int64) + 4).to(tl.pointer_type(tl.int64)))"
CRASH = "    tl.store((end * 0).to(tl.int64).to(tl.pointer_type(tl.int32)), 1)\n"


def _tree(folder: Path, text: str) -> Path:
    path = folder / "tree" / REJECTION_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return folder / "tree"


def _run(python: Path, folder: Path, text: str, *more: str) -> Ran:
    tree = _tree(folder, text)
    names = more or ("--kernel", "expand_kernel")
    return smoke(python, folder, "--tree", tree, "--release", "0.23.0", "--seed", "3", *names)


def test_a_right_kernel_passes_and_the_result_says_where_it_came_from(lab_python: Path, tmp_path: Path) -> None:
    ran = _run(lab_python, tmp_path, EXPAND)
    assert ran.status == 0, ran.output + ran.errors
    assert ran.output.splitlines()[-1].startswith(
        "kernels: 1 passed, 0 failed, 0 missing, 0 not in this release; cases: "
    )
    assert ran.data["seed"] == 3 and ran.data["release"] == "0.23.0"
    assert ran.data["source"] == {"kind": "tree", "path": str(tmp_path / "tree"), "version": None, "sha256": None}
    assert set(ran.data["environment"]) == {"python", "torch", "triton", "numpy"}
    assert all(case["status"] == "passed" for case in ran.kernel("expand_kernel")["cases"])


def test_the_same_kernel_out_of_a_wheel(lab_python: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "vllm-0.23.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(
            "vllm-0.23.0.dist-info/METADATA", "Metadata-Version: 2.4\nName: vllm\nVersion: 0.23.0+xpu.b70.0\n"
        )
        archive.writestr(REJECTION_FILE, EXPAND)
    ran = smoke(lab_python, tmp_path, "--wheel", wheel, "--kernel", "expand_kernel")
    assert ran.status == 0, ran.output + ran.errors
    assert ran.data["release"] == "0.23.0" and ran.data["source"]["version"] == "0.23.0+xpu.b70.0"
    assert len(ran.data["source"]["sha256"]) == 64


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("wrong-value", "request - 1", "request", "the result differs"),
        ("beyond-the-end", "at < end", "at < end + 1", "written outside the array"),
        (
            "read-outside",
            "tl.load(input_ptr + request)",
            f"tl.load(input_ptr + request) + 0 * {BEHIND}",
            "outside the array",
        ),
        (
            "word-askew",
            "tl.load(input_ptr + request)",
            f"tl.load(input_ptr + request) + 0 * {ASKEW}",
            "8 does not divide",
        ),
        ("input-overwritten", "tl.store(output_ptr", "tl.store(input_ptr", "input_ptr: "),
        ("exception", "tl.arange(0, MAX_NUM_TOKENS)", "tl.no_such_thing(1)", "no_such_thing"),
        ("import-error", "from vllm.triton_utils", "import no_such_package as nsp\nfrom vllm.triton_utils", "nsp"),
    ],
)
def test_a_wrong_kernel_is_red_and_says_why(
    lab_python: Path, tmp_path: Path, name: str, old: str, new: str, told: str
) -> None:
    text = EXPAND.replace(old, new)
    assert text != EXPAND
    if name == "import-error":
        text = text.replace("request = ", "unused = nsp.x\n    request = ")
    ran = _run(lab_python, tmp_path, text)
    assert ran.status == 10, ran.output + ran.errors
    assert ran.kernel("expand_kernel")["status"] == "failed"
    assert told in ran.output


def test_the_seed_decides_the_inputs_whatever_else_runs(lab_python: Path, tmp_path: Path) -> None:
    text = EXPAND.replace("request - 1", "request")
    both = ("--kernel", "rejection_greedy_sample_kernel", "--kernel", "expand_kernel")

    def wrong(*more: str) -> list[object]:
        ran = _run(lab_python, tmp_path, text + GREEDY, *more)
        return [case["differences"] for case in ran.kernel("expand_kernel")["cases"]]

    first = wrong("--kernel", "expand_kernel")
    assert wrong(*both) == first
    assert wrong("--kernel", "expand_kernel", "--seed", "4") != first


def test_a_kernel_that_kills_the_process_takes_no_other_with_it(lab_python: Path, tmp_path: Path) -> None:
    kernels = ("--kernel", "expand_kernel", "--kernel", "rejection_greedy_sample_kernel")
    ran = _run(lab_python, tmp_path, EXPAND + CRASH + GREEDY, *kernels)
    assert ran.status == 10
    crashed, other = ran.kernel("expand_kernel"), ran.kernel("rejection_greedy_sample_kernel")
    assert "SIGSEGV" in crashed["message"] and crashed["cases"][-1]["status"] == "failed"
    assert other["status"] == "failed" and "surprise" in other["cases"][0]["message"]


def test_a_kernel_that_never_ends_is_stopped(lab_python: Path, tmp_path: Path) -> None:
    endless = EXPAND.replace("    request = tl", "    while True:\n        pass\n    request = tl")
    ran = _run(lab_python, tmp_path, endless, "--kernel", "expand_kernel", "--limit", "12")
    assert ran.status == 10
    assert "stopped after 12 s" in ran.kernel("expand_kernel")["message"]


def test_a_kernel_that_should_be_there_is_missing_and_one_that_should_not_is_told_apart(
    lab_python: Path, tmp_path: Path
) -> None:
    ran = _run(lab_python, tmp_path, EXPAND, "--set", "mission")
    assert ran.status == 10
    wanted = {
        kernel.name: "missing" if kernel.expected_in("0.23.0") else "not-in-release" for kernel in select("mission")
    }
    assert wanted["precopy_mamba_align_fused_kernel"] == "not-in-release"
    assert ran.statuses() == {**wanted, "expand_kernel": "passed"}


def test_nothing_to_run_is_not_a_pass(lab_python: Path, tmp_path: Path) -> None:
    ran = _run(lab_python, tmp_path, EXPAND, "--kernel", "precopy_mamba_align_fused_kernel")
    assert ran.status == 10
    assert "1 not in this release; cases: 0" in ran.output


def test_without_torch_the_reason_is_printed(tmp_path: Path) -> None:
    # The interpreter of the tests has no triton: the engine never needs it.
    ran = _run(Path(sys.executable), tmp_path, EXPAND)
    assert ran.status == 12 and not ran.data
    assert "cannot run this lane: ModuleNotFoundError: No module named" in ran.errors


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--tree", "/nowhere"],
        ["--wheel", "/nowhere.whl"],
        ["--kernel", "no_such_kernel", "--installed"],
        ["--set", "no-such-set", "--installed"],
        ["--lane", "no-such-lane"],
        ["--wheel", "a", "--tree", "b"],
    ],
)
def test_usage_errors(tmp_path: Path, arguments: list[str]) -> None:
    assert smoke(Path(sys.executable), tmp_path, *arguments).status == 2


def test_a_tree_that_does_not_tell_its_release_asks_for_it(tmp_path: Path) -> None:
    ran = smoke(Path(sys.executable), tmp_path, "--tree", _tree(tmp_path, EXPAND))
    assert ran.status == 2 and "--release X.Y.Z" in ran.errors


def test_the_list_needs_no_torch(tmp_path: Path) -> None:
    ran = smoke(Path(sys.executable), tmp_path, "--list")
    assert ran.status == 0
    assert [line.split()[0] for line in ran.output.splitlines()] == [kernel.name for kernel in select("mission")]
