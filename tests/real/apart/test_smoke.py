"""The interpret lane on real releases: right kernels are green, planted faults are red."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from patchset.smoke.catalogue import EAGLE_FILE, MAMBA_FILE, REJECTION_FILE, select
from patchset.smoke.mutate import Mutant, MutationError, apply
from patchset.smoke.planted import PLANTED
from patchset.smoke.planted_tables import PLANTED_TABLES
from tests.unit.smoke.support import smoke

pytestmark = pytest.mark.real

FILES = (MAMBA_FILE, EAGLE_FILE, REJECTION_FILE)
MISSION = {kernel.name: kernel for kernel in select("mission")}
#: Their faults have a round of their own.
BESIDE = tuple(PLANTED_TABLES)
#: What the newer runner's kernels take from another file.
HELPERS = "vllm/v1/worker/gpu/buffer_utils.py"
TreeOf = Callable[[str], Path]

RECOVERED, EXPAND = "sample_recovered_tokens_kernel", "expand_kernel"
STEP, INPUTS = "eagle_step_slot_mapping_metadata_kernel", "eagle_prepare_inputs_padded_kernel"
POST = "postprocess_mamba_fused_kernel"
PRE, ALIGN = "precopy_mamba_align_fused_kernel", "preprocess_mamba_align_fused_kernel"

#: Rounds of planted faults. In each, the kernels named are red and all others stay green.
COMMON_FIRST, COMMON_SECOND = (
    {name: faults[n] for name, faults in PLANTED.items() if name not in (*BESIDE, PRE, ALIGN)} for n in (0, 1)
)
ALIGN_FIRST, ALIGN_SECOND = ({name: PLANTED[name][n] for name in (PRE, ALIGN)} for n in (0, 1))
MOVED, TILE_TAIL = PLANTED[POST][2:]
ROUNDS: list[tuple[str, dict[str, Mutant]]] = [
    ("0.23.0", COMMON_FIRST),
    ("0.33.0", {**COMMON_FIRST, **ALIGN_FIRST}),
    ("0.33.0", {**COMMON_SECOND, **ALIGN_SECOND}),
    ("0.33.0", {POST: MOVED, PRE: MOVED}),
    ("0.33.0", {POST: TILE_TAIL, PRE: TILE_TAIL}),
]
#: Releases that are run whole, with the kernels that each must have; those of the recipes are run with their wheels.
WHOLE = {"0.19.1": 13, "0.28.0": 17, "0.31.0": 18}


@pytest.mark.parametrize("release", WHOLE)
def test_every_kernel_of_the_release_passes(tree_of: TreeOf, lab_python: Path, tmp_path: Path, release: str) -> None:
    ran = smoke(lab_python, tmp_path, "--tree", tree_of(release), "--release", release)
    assert ran.status == 0, ran.output + ran.errors
    assert ran.data["summary"]["kernels"] == {
        "passed": WHOLE[release],
        "failed": 0,
        "missing": 0,
        "not-in-release": len(MISSION) - WHOLE[release],
    }
    # Both runners' slots beyond a table; padded rows; a count reset too early.
    known = 2 + (release <= "0.22.1") + ("0.25.0" <= release <= "0.27.1")
    assert ran.data["summary"]["cases"]["known-defect"] == known


def test_every_kernel_of_the_catalogue_has_a_planted_fault() -> None:
    assert set(MISSION) == {name for _, faults in ROUNDS for name in faults} | set(BESIDE)


@pytest.mark.parametrize(("release", "faults"), ROUNDS, ids=[f"{r}-{n}" for n, (r, _) in enumerate(ROUNDS)])
def test_planted_faults_are_red(
    tree_of: TreeOf, lab_python: Path, tmp_path: Path, release: str, faults: dict[str, Mutant]
) -> None:
    tree = _copy(tree_of(release), tmp_path / "tree")
    for mutant in dict.fromkeys(faults.values()):
        file = next(name for name in FILES if f"def {mutant.function}(" in (tree / name).read_text("utf-8"))
        (tree / file).write_text(apply((tree / file).read_text("utf-8"), mutant), "utf-8")
    # A fixed seed: a fault that random inputs would show only now and then is no test.
    words = [word for name in faults for word in ("--kernel", name)]
    ran = smoke(lab_python, tmp_path, "--tree", tree, "--release", release, "--seed", "1", *words)
    assert ran.status == 10
    statuses = {name: status for name, status in ran.statuses().items() if status != "not-in-release"}
    assert statuses == {name: "failed" if name in faults else "passed" for name in statuses}, ran.output
    for name in faults:
        failed = [case for case in ran.kernel(name)["cases"] if case["status"] == "failed"]
        assert failed and all(case["differences"] for case in failed), f"{name} failed otherwise than by its results"


@pytest.mark.parametrize("release", ["0.26.0", "0.33.0"])
def test_planted_faults_in_the_kernels_beside_the_mission_are_red(
    tree_of: TreeOf, lab_python: Path, tmp_path: Path, release: str
) -> None:
    there = [MISSION[name] for name in BESIDE if MISSION[name].expected_in(release)]
    tree = _copy(tree_of(release), tmp_path / "tree", HELPERS, *dict.fromkeys(kernel.file for kernel in there))
    for kernel in there:
        text = (tree / kernel.file).read_text("utf-8")
        (tree / kernel.file).write_text(_with_first_fault(text, PLANTED_TABLES[kernel.name]), "utf-8")
    words = [word for kernel in there for word in ("--kernel", kernel.name)]
    ran = smoke(lab_python, tmp_path, "--tree", tree, "--release", release, "--seed", "1", *words)
    assert ran.status == 10
    assert ran.statuses() == {kernel.name: "failed" for kernel in there}, ran.output
    for kernel in there:
        failed = [case for case in ran.kernel(kernel.name)["cases"] if case["status"] == "failed"]
        assert any(case["differences"] for case in failed), f"{kernel.name} failed otherwise than by its results"


def _with_first_fault(text: str, faults: tuple[Mutant, ...]) -> str:
    """*text* with the first of *faults* that fits it; other releases' do not."""
    for fault in faults:
        try:
            return apply(text, fault)
        except MutationError:
            continue
    raise AssertionError(f"none of {[str(fault) for fault in faults]} fits")


def test_a_kernel_that_was_dropped_is_red(tree_of: TreeOf, lab_python: Path, tmp_path: Path) -> None:
    tree = _copy(tree_of("0.23.0"), tmp_path / "tree")
    text = (tree / REJECTION_FILE).read_text("utf-8")
    (tree / REJECTION_FILE).write_text(text.replace(f"def {EXPAND}(", "def renamed_kernel("), "utf-8")
    ran = smoke(lab_python, tmp_path, "--tree", tree, "--release", "0.23.0", "--kernel", EXPAND, "--kernel", INPUTS)
    assert ran.status == 10
    assert ran.statuses() == {EXPAND: "missing", INPUTS: "passed"}


def _copy(tree: Path, target: Path, *files: str) -> Path:
    for name in files or FILES:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tree / name, target / name)
    return target
