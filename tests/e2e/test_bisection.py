"""The second job of a user, typed: since when, and with which patch or release, is it broken?"""

from __future__ import annotations

import difflib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Inv

from patchset.workspace import VENDOR_VARIABLE, Workspace

MAMBA = "mamba-uint64-pointers"
SAMPLER = "vllm/v1/sample/rejection_sampler.py"


def found(inv: Inv, *words: str) -> Any:
    """The answer of `./inv bisect` that came to one."""
    typed = inv("bisect", "--json", *words)
    assert typed.status == 0, typed.err + typed.out
    return typed.json["answer"]


def test_pointer_rule_that_was_swapped_since_the_lock_is_found_by_the_probe(inv: Inv, clone: Path) -> None:
    lock = clone / "recipes" / "b70-0.23.lock"
    diff = clone / "recipes" / "patches" / MAMBA / "0.22-0.23.patch"
    right, wrong = (b"src_ptrs=make_buffer(n, dtype=%s)" % name for name in (b"_ADDRESS_DTYPE", b"torch.int64"))
    assert inv("apply", "-r", "b70-0.23").status == 0  # its trees are in the store
    text = diff.read_bytes()
    assert text.count(right) == 1
    diff.write_bytes(text.replace(right, wrong))
    answer = found(inv, "--good", str(lock), "--bad", "b70-0.23", "--test", f"probe {MAMBA}")
    assert (answer["kind"], answer["axis"]) == ("change", "patches")
    assert [(patch["id"], patch["edit"]) for patch in answer["patches"]] == [(MAMBA, "changed")]
    assert answer["patches"][0]["references"] and answer["bad"]["again"].startswith(
        "./inv bisect -r b70-0.23 --at tree:"
    )


def test_kernel_that_a_patch_breaks_is_found_by_the_smoke(
    inv: Inv, clone: Path, tree_of: Callable[[str], Path]
) -> None:
    old = (tree_of("0.23.0") / SAMPLER).read_text("utf-8")
    line = "                rejected = draft_token_id != target_argmax_id\n"
    assert old.count(line) == 1
    new = old.replace(line, line.replace("!=", "=="))
    sides = (text.splitlines(keepends=True) for text in (old, new))
    lines = "".join(difflib.unified_diff(*sides, f"a/{SAMPLER}", f"b/{SAMPLER}"))
    (clone / "broken.patch").write_text(f"diff --git a/{SAMPLER} b/{SAMPLER}\n{lines}", encoding="utf-8")
    assert inv("import", "broken.patch", "-r", "b70-0.23").status == 0
    assert inv("move", "broken", "--after", "cached-tokens-zero", "-r", "b70-0.23").status == 0
    answer = found(inv, "--good", "base", "--bad", "b70-0.23", "--test", "smoke")
    assert (answer["kind"], [patch["id"] for patch in answer["patches"]]) == ("change", ["broken"])
    assert answer["tests"] <= answer["bound"] == 2
    assert "rejection" in answer["bad"]["reason"]


@pytest.mark.parametrize(
    ("test", "fixed", "still"),
    [
        ("cached-tokens-zero", "0.24.0", "0.23.0"),
        (f"{MAMBA}:1a", "0.24.0", "0.23.0"),
        (f"{MAMBA}:1b", "0.29.0", "0.28.0"),
    ],
)
def test_release_that_fixed_a_defect_is_found_without_any_patch(inv: Inv, test: str, fixed: str, still: str) -> None:
    words = ("--good", "0.33.0", "--bad", "0.22.1", "--series", "none", "--test", f"probe {test}")
    answer = found(inv, *words)
    assert (answer["kind"], answer["releases"]["fixed"]) == ("change", True)
    assert (answer["releases"]["from"], answer["releases"]["to"]) == (f"vLLM {fixed}", f"vLLM {still}")
    assert answer["tests"] <= answer["bound"] == 4


def test_killed_and_continued_and_shown_as_a_page(inv: Inv, clone: Path, workspace: Workspace) -> None:
    """Killed with its test in the middle of the first step."""
    ran = clone / "ran"
    test = f"echo $PATCHSET_TREE >> {ran}; sleep 0.3; ! grep -q _ADDRESS_DTYPE vllm/v1/worker/mamba_utils.py"
    begun = subprocess.Popen(
        [str(clone / "inv"), "bisect", "--good", "base", "--bad", "b70-0.23", "--test", test],
        cwd=clone,
        env={**os.environ, VENDOR_VARIABLE: str(workspace.vendor)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not ran.exists() and begun.poll() is None:
        time.sleep(0.02)
    os.killpg(begun.pid, signal.SIGKILL)
    begun.wait()
    refused = inv("bisect", "--good", "base", "--bad", "b70-0.23", "--test", "true")
    assert refused.status == 3 and "--continue" in refused.err
    went_on = inv("bisect", "--continue", "--html", "it.html")
    assert went_on.status == 0, went_on.err
    assert f"{MAMBA} brings the fault" in went_on.out
    assert f"{MAMBA} brings the fault" in (clone / "it.html").read_text("utf-8")
    trees = ran.read_text().split()
    assert len(trees) <= len(set(trees)) + 1  # only the one that was killed
    assert inv("bisect", "--abort").status == 0
    assert not (clone / "work" / "bisect").exists()


def test_test_that_calls_inv_in_its_own_clone_is_told_so(inv: Inv, clone: Path) -> None:
    typed = inv("bisect", "--good", "base", "--bad", "b70-0.23", "--test", f"{clone}/inv apply || exit 1")
    assert typed.status == 16
    assert "the good end is bad" in typed.err
    (log,) = (clone / "work" / "bisect").glob("*-001-*.log")
    assert "waits for the end of the test" in log.read_text("utf-8")
