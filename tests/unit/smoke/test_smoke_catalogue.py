"""The table of kernels."""

from __future__ import annotations

import importlib.util

import pytest

from patchset.smoke import catalogue

MISSION = {
    "batch_memcpy_kernel",
    "postprocess_mamba_fused_kernel",
    "precopy_mamba_align_fused_kernel",
    "eagle_step_slot_mapping_metadata_kernel",
    "eagle_prepare_inputs_padded_kernel",
    "eagle_prepare_next_token_padded_kernel",
    "copy_and_expand_eagle_inputs_kernel",
    "rejection_greedy_sample_kernel",
    "rejection_random_sample_kernel",
    "expand_kernel",
    "sample_recovered_tokens_kernel",
}


def test_the_mission_has_every_kernel_that_was_named() -> None:
    assert {kernel.name for kernel in catalogue.select("mission")} >= MISSION


def test_names_are_unique_and_case_modules_exist() -> None:
    names = [kernel.name for kernel in catalogue.KERNELS]
    assert len(names) == len(set(names))
    for kernel in catalogue.KERNELS:
        module, _, function = kernel.cases.partition(":")
        spec = importlib.util.find_spec(f"patchset.smoke.{module}")
        assert spec is not None and spec.origin is not None and function
        with open(spec.origin, encoding="utf-8") as file:
            assert f"\ndef {function}(" in file.read(), kernel.cases


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0.23.0", (0, 23, 0)),
        ("0.23.0+xpu.b70.1a2b3c4d", (0, 23, 0)),
        ("0.24.0rc1", (0, 24, 0)),
        ("v0.30", (0, 30, 0)),
        ("0.27.1.dev3+g1234", (0, 27, 1)),
    ],
)
def test_releases_are_read(text: str, numbers: tuple[int, ...]) -> None:
    assert catalogue.parse_release(text) == numbers


@pytest.mark.parametrize("text", ["", "main", "+xpu", "1"])
def test_what_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        catalogue.parse_release(text)


def test_expected_in_follows_the_range() -> None:
    kernel = catalogue.Kernel("k", "f.py", "m:f", "0.22.0", "0.28.0")
    wanted = {"0.21.0": False, "0.22.0": True, "0.25.1": True, "0.28.0": True, "0.29.0": False}
    assert {release: kernel.expected_in(release) for release in wanted} == wanted
    assert catalogue.Kernel("k", "f.py", "m:f", "0.22.0").expected_in("9.0.0")


def test_a_known_defect_holds_in_its_releases_only() -> None:
    row = catalogue.KNOWN_DEFECTS[0]
    assert catalogue.known_defect(row.kernel, row.case, "0.26.0+local") is row
    assert catalogue.known_defect(row.kernel, row.case, "0.28.0") is None
    assert catalogue.known_defect(row.kernel, "another-case", "0.26.0") is None
    assert catalogue.known_defect("expand_kernel", row.case, "0.26.0") is None


def test_an_unknown_name_or_set_is_refused() -> None:
    with pytest.raises(KeyError):
        catalogue.select("mission", ("no_such_kernel",))
    with pytest.raises(KeyError):
        catalogue.select("no-such-set")
    assert [kernel.name for kernel in catalogue.select("mission", ("expand_kernel", "expand_kernel"))] == [
        "expand_kernel"
    ]
