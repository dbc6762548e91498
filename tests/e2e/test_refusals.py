"""What must not go through: a patch that is gone, faked or edited, a wheel with a wrong kernel, a clone in use."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from patchset.workspace import VENDOR_VARIABLE, Workspace
from tests.e2e.conftest import Inv, Typed, type_in

RuntimeOf = Callable[[str], Typed]


def test_a_patch_taken_out_of_the_series_fails_the_run_and_is_named(clone: Path, inv: Inv) -> None:
    recipe = clone / "recipes" / "b70-0.23.toml"
    recipe.write_text(recipe.read_text().replace('    "mtp-boundary",\n', ""))
    ended = inv("runtime")
    assert ended.status == 3
    assert "mtp-boundary" in ended.err and "b70-0.23.toml:" in ended.err


def test_a_patch_left_out_by_name_is_in_the_receipt_with_its_defect(clone: Path, inv: Inv) -> None:
    recipe = clone / "recipes" / "b70-0.23.toml"
    text = recipe.read_text().replace('    "mtp-boundary",\n', "")
    recipe.write_text(
        text.replace(
            "# What the serving host",
            '[[series.omit]]\npatch = "mtp-boundary"\nreason = "looking for it"\n\n# What the serving host',
        )
    )
    (clone / "recipes" / "b70-0.23.lock").unlink()
    document = inv("runtime", "--json").json
    [omitted] = document["omitted"]
    assert (omitted["patch"], omitted["reason"], omitted["probe"]) == ("mtp-boundary", "looking for it", "defect")
    assert (clone / "recipes" / "b70-0.23.lock").exists()


def test_an_edited_patch_is_not_what_the_lock_says(clone: Path, inv: Inv) -> None:
    manifest = clone / "recipes" / "patches" / "cached-tokens-zero" / "patch.toml"
    manifest.write_text(manifest.read_text("utf-8").replace('title = "', 'title = "Edited: ', 1), "utf-8")
    ended = inv("runtime")
    assert ended.status == 11
    assert "digest" in ended.err and "inv lock" in ended.err


def test_a_changed_hash_of_the_archive_is_not_hidden_by_the_lock(clone: Path, inv: Inv) -> None:
    """The locked tree is in the store; it must not be taken for an archive that nobody has looked at."""
    upstreams = clone / "vendor" / "upstreams.toml"
    upstreams.write_text(upstreams.read_text().replace('sha256 = "760269', 'sha256 = "860269'))
    for task in ("lock", "runtime"):
        ended = inv(task)
        assert ended.status == 4, ended.err
        assert "860269" in ended.err


def test_a_patch_that_applies_and_mends_nothing_stays_red(clone: Path, inv: Inv) -> None:
    """The patch's added lines become a comment: it applies, the file compiles, and the defect is still there."""
    folder = clone / "recipes" / "patches" / "cached-tokens-zero"
    diff = folder / "0.20-0.23.patch"
    diff.write_text(re.sub(r"^\+(?!\+)(.*) is not None(.*)$", r"+\1\2  # mended", diff.read_text(), flags=re.M))
    assert inv("lock").status == 0
    ended = inv("runtime")
    assert ended.status == 8
    assert "cached-tokens-zero" in ended.err
    assert not (clone / "dist").exists()


def test_a_patch_that_does_not_apply_is_named_with_file_and_hunk(clone: Path, inv: Inv) -> None:
    folder = clone / "recipes" / "patches" / "cached-tokens-zero"
    diff = folder / "0.20-0.23.patch"
    diff.write_text(re.sub(r"^(-.*)num_cached_tokens", r"\1num_cashed_tokens", diff.read_text(), count=1, flags=re.M))
    diff.write_text(re.sub(r"^index .*\n", "", diff.read_text(), flags=re.M))
    ended = inv("apply")
    assert ended.status == 7
    assert "cached-tokens-zero" in ended.err and "hunk" in ended.err


def test_a_wheel_with_one_changed_comparison_is_red(inv: Inv, runtime_of: RuntimeOf, tmp_path: Path) -> None:
    wheel = Path(runtime_of("b70-0.23").json["paths"]["wheel"])
    mutated = tmp_path / wheel.name
    kernel = "vllm/v1/sample/rejection_sampler.py"
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(mutated, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            data = old.read(name)
            if name == kernel:
                changed = data.replace(
                    b"rejected = draft_token_id != target_argmax_id", b"rejected = draft_token_id == target_argmax_id"
                )
                assert changed != data
                data = changed
            new.writestr(name, data)
    ended = inv("smoke", "--wheel", str(mutated))
    assert ended.status == 10
    assert "rejection_greedy_sample_kernel" in ended.err


def test_checkout_has_a_commit_a_patch_and_is_never_written_over(inv: Inv, tmp_path: Path) -> None:
    there = tmp_path / "look"
    assert inv("apply", "--checkout", str(there)).status == 0
    log = subprocess.run(
        ["git", "-C", str(there), "log", "--format=%b"], capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r"^Patch: (.*)$", log, re.M) == ["mtp-boundary", "cached-tokens-zero", "mamba-uint64-pointers"]
    assert inv("apply", "--checkout", str(there)).status == 0
    readme = there / "README.md"
    readme.write_text("mine\n")
    ended = inv("apply", "-r", "b70-0.22", "--checkout", str(there))
    assert ended.status == 14
    assert readme.read_text() == "mine\n"


def test_a_second_run_in_the_clone_waits_or_says_so(inv: Inv, clone: Path, workspace: Workspace) -> None:
    with workspace.only_run("something long", wait=True, say=print):
        ended = inv("apply", "--no-wait")
        assert ended.status == 13
        assert "inv something long" in ended.err
        waiting = subprocess.Popen(
            [str(clone / "inv"), "apply"],
            cwd=clone,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**os.environ, VENDOR_VARIABLE: str(workspace.vendor)},
        )
        assert waiting.stderr is not None
        assert "waiting for inv something long" in waiting.stderr.readline()
        assert waiting.poll() is None
    waiting.stderr.read()
    assert waiting.wait() == 0


@pytest.mark.parametrize(
    "words",
    [
        ("runtime", "-r", "nonesuch"),
        ("probe", "--patch", "nonesuch"),
        ("smoke", "--lane", "nonesuch"),
        ("smoke", "--wheel", "nonesuch.whl"),
    ],
)
def test_a_wrong_name_is_answered_with_what_there_is(words: tuple[str, ...], inv: Inv) -> None:
    ended = inv(*words)
    assert ended.status == 3
    assert "nonesuch" in ended.err and "next:" in ended.err


def test_killed_at_any_moment_the_next_run_succeeds(
    clone: Path, tmp_path: Path, workspace: Workspace, lab_python: Path, runtime_of: RuntimeOf
) -> None:
    """A cold vendor/ (but for downloads), `kill -9` after each of the first lines of progress and between them."""
    expected = runtime_of("b70-0.23").json["wheel"]["sha256"]
    vendor = tmp_path / "vendor"
    (vendor / "archives").mkdir(parents=True)
    for archive in workspace.archives.glob("vllm-0.23.0.tar.gz"):
        os.link(archive, vendor / "archives" / archive.name)
    env = {VENDOR_VARIABLE: str(vendor), "PATCHSET_LAB_PYTHON": str(lab_python)}
    survived = 0
    for moment in (0.3, 1.5, 3.0, 5.0, 8.0, 13.0):
        run = subprocess.Popen(
            [str(clone / "inv"), "runtime"],
            cwd=clone,
            env={**os.environ, **env},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(moment)
        if run.poll() is None:
            os.kill(run.pid, signal.SIGKILL)
        survived += run.wait() == 0
    ended = type_in(clone, "runtime", "--json", env=env)
    assert ended.status == 0, ended.err
    assert ended.json["wheel"]["sha256"] == expected
    assert survived or len(list((clone / "dist").rglob("receipt-*.json"))) == 1
    assert (
        not list(vendor.glob("scratch/*"))
        and not list(vendor.glob("store.git/tmp/*"))
        and not list(vendor.glob("store-*"))
    )
