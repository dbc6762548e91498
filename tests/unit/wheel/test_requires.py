"""What a plain `pip install` of a wheel would do to the recipe's stack, line by line; and METADATA that installers refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from wheel_samples import INFO, METADATA, VERSION

from patchset.outcome import Outcome
from patchset.series import Step
from patchset.wheel.requires import (
    CONFLICT,
    NOTE,
    Finding,
    check_wheel_requires,
    has_gemma4,
    metadata_findings,
    requirement_findings,
)

STACK = {
    "python": ">=3.10,<3.14",
    "torch": "==2.11.0+xpu",
    "triton-xpu": "==3.7.0",
    "vllm-xpu-kernels": "==0.1.9",
    "transformers": ">=5.10,<5.15",
}
SHIM = {"python": ">=3.11,<3.14", "torch": "==2.14.0+xpu", "triton": "==3.8.0+xpu"}
KERNELS = "vllm_xpu_kernels @ https://host.invalid/vllm_xpu_kernels-0.1.{}-cp38-abi3-manylinux_2_28_x86_64.whl"


def found(requirement: str, stack: dict[str, str] | None = None, *, gemma4: bool = True) -> list[tuple[str, str]]:
    findings = requirement_findings([requirement], STACK if stack is None else stack, gemma4=gemma4, where="M")
    for finding in findings:
        assert (finding.where, finding.requirement) == ("M", requirement) and finding.next
    return [(finding.severity, finding.why) for finding in findings]


@pytest.mark.parametrize(
    "requirement",
    [
        "numpy",
        "transformers>=5.10,<5.15",
        "transformers>=5.11,<5.12",
        "vllm_xpu_kernels==0.1.9",
        "xgrammar>=0.2; platform_machine == 'aarch64'",
        "xgrammar; sys_platform == 'win32'",
        "torchvision; python_version >= '3.14'",
        "nvidia-nccl-cu13; extra == 'cuda'",
        "flashinfer-python; extra == 'flashinfer'",
        "nvidia-nccl-cu13; platform_system == 'Darwin'",
    ],
)
def test_nothing_to_say(requirement: str) -> None:
    assert found(requirement) == []


@pytest.mark.parametrize(
    ("requirement", "severity", "why"),
    [
        ("torch==2.11.0", NOTE, "an installed +xpu build satisfies it"),
        ("torch==2.11.0+xpu", NOTE, "only PyTorch's XPU index has that version"),
        ("torch==2.12.0", CONFLICT, "no version is both"),
        ("torch==2.11.0+cu130", CONFLICT, "belongs to the CUDA stack"),
        ("torch>=2.12", CONFLICT, "no version is both"),
        ("torch===2.11.0", NOTE, "cannot be compared"),
        ("transformers>=5.15", CONFLICT, "no version is both"),
        (KERNELS.format(9), NOTE, "a direct reference"),
        (KERNELS.format(8), CONFLICT, "that file is version 0.1.8"),
        ("vllm_xpu_kernels @ https://host.invalid/kernels.zip", NOTE, "the file it names does not say its version"),
        ("vllm_xpu_kernels>=0.1.9", NOTE, "pip takes the newest version, above the stack's"),
        ("vllm_xpu_kernels<=0.1.9", NOTE, "an installed version below the stack's satisfies it and stays"),
        ("xgrammar<1.0.0,>=0.2.0", CONFLICT, "pulls in triton beside triton-xpu"),
        ("triton", CONFLICT, "installs triton beside triton-xpu"),
        ("Triton==3.7.0", CONFLICT, "installs triton beside triton-xpu"),
        ("torchvision", CONFLICT, "link libtorch_cuda, which torch==2.11.0+xpu does not have"),
        ("torchaudio==2.11.1", CONFLICT, "link libtorch_cuda"),
        ("nvidia-nccl-cu13>=2", CONFLICT, "belongs to the CUDA stack"),
        ("flashinfer-python", CONFLICT, "belongs to the CUDA stack"),
        ("one two", CONFLICT, "cannot be read"),
    ],
)
def test_one_line_against_the_stack(requirement: str, severity: str, why: str) -> None:
    [(is_severity, is_why)] = found(requirement)
    assert is_severity == severity and why in is_why


@pytest.mark.parametrize(
    ("requirement", "beyond"),
    [
        ("transformers>=4.56.0,!=5.0.*", ("below the stack's", "above the stack's")),
        ("transformers>=5.12", ("above the stack's",)),
        ("transformers>=4.56,<5.15", ("below the stack's",)),
        ("transformers", ("below the stack's", "above the stack's")),
    ],
)
def test_transformers_matter_where_gemma_4_is_in_the_wheel(requirement: str, beyond: tuple[str, ...]) -> None:
    [(severity, why)] = found(requirement)
    assert severity == CONFLICT and "Gemma 4" in why
    assert [text for text in ("below the stack's", "above the stack's") if text in why] == list(beyond)
    [(severity, why)] = found(requirement, gemma4=False)
    assert severity == NOTE and "Gemma 4" not in why


def test_the_shim_named_triton_satisfies_what_others_pull_in() -> None:
    assert found("xgrammar==0.2.8", SHIM) == []
    assert [severity for severity, _ in found("triton==3.8.0+xpu", SHIM)] == [NOTE]
    assert [severity for severity, _ in found("triton-xpu==3.8.0", SHIM)] == [CONFLICT]


def test_a_stack_without_triton_has_no_owner_to_lose() -> None:
    assert found("xgrammar", {"torch": "==2.11.0+xpu"}) == []


def test_markers_are_those_of_the_stack_s_pythons() -> None:
    assert found("torchvision; python_version < '3.11'", STACK)
    assert found("torchvision; python_version < '3.11'", {**STACK, "python": ">=3.11"}) == []
    assert found("torchvision; python_version < '3.13'", {**STACK, "python": "==3.12.4"})


def test_two_lines_about_one_distribution() -> None:
    lines = ["setuptools<81; python_version > '3.11'", "setuptools>=82"]
    [finding] = requirement_findings(lines, STACK)
    assert finding.severity == CONFLICT and "`setuptools<81" in finding.why and finding.requirement == lines[1]
    assert requirement_findings(lines, {**STACK, "python": "==3.11.*"}) == ()
    assert requirement_findings(["setuptools<81", "setuptools>=78"], STACK) == ()


def test_a_finding_can_be_written_down() -> None:
    [finding] = requirement_findings(["triton"], STACK, where="x/METADATA")
    assert finding.as_dict() == {
        "severity": "conflict",
        "where": "x/METADATA",
        "requirement": "triton",
        "pin": "triton-xpu==3.7.0",
        "why": finding.why,
        "next": finding.next,
    }
    assert "--force-reinstall --no-deps 'triton-xpu==3.7.0'" in finding.next


@pytest.mark.parametrize("outcome", list(Outcome))
def test_gemma_4_is_in_the_wheel_by_our_patch_or_by_upstream(outcome: Outcome) -> None:
    steps = [Step(name, "", "", outcome, (), "", "", ()) for name in ("other", "gemma4-unified")]
    assert has_gemma4(steps) == (outcome in (Outcome.APPLIES, Outcome.MERGES, Outcome.UPSTREAM))
    assert not has_gemma4(steps[:1])


# -- METADATA ----------------------------------------------------------------------------------------------------------

GOOD = """\
Metadata-Version: 2.4
Name: vllm
Version: 1.2.0+xpu.b70.deadbeef
Requires-Python: >=3.10,<3.15
License-Expression: Apache-2.0
License-File: LICENSE
Classifier: Intended Audience :: Developers
Description-Content-Type: text/markdown

# It serves
"""


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("Metadata-Version: 2.4\n", "", "metadata-version"),
        ("Metadata-Version: 2.4", "Metadata-Version: 9.9", "metadata"),
        ("Name: vllm\n", "", "name"),
        ("Version: 1.2.0+xpu.b70.deadbeef", "Version: 1.2-xpu b70", "version"),
        ("Apache-2.0", "Apache-2.0 XOR MIT", "license-expression"),
        ("text/markdown", "text/html", "description-content-type"),
        ("LICENSE\n", "../LICENSE\n", "license-file"),
        ("LICENSE\n", "NOTICE\n", "License-File: NOTICE"),
        ("Developers\n", "Developers\nClassifier: Intended Audience :: Developers\n", "Classifier: Intended"),
        ("Developers\n", "Developers\nClassifier: License :: OSI Approved\n", "Classifier: License ::"),
        ("# It serves\n", "", "Description"),
        ("Description-Content-Type: text/markdown\n", "", "Description-Content-Type"),
        (">=3.10,<3.15", ">=3.11", "Requires-Python: >=3.11"),
        (">=3.10,<3.15", "3.10 and later", "requires-python"),
        ("License-File: LICENSE", "Requires-Dist: one two", "requires-dist"),
        ("# It serves", "\x00\ud800", "description"),
    ],
)
def test_metadata_that_is_refused(old: str, new: str, field: str) -> None:
    members = {"METADATA", "licenses/LICENSE"}
    assert metadata_findings(GOOD.encode(), members, ">=3.10,<3.14") == ()
    assert old in GOOD
    findings = metadata_findings(GOOD.replace(old, new).encode("utf-8", "surrogatepass"), members, ">=3.10,<3.14", "M")
    assert field in " ".join(finding.requirement for finding in findings)
    assert {(finding.severity, finding.where) for finding in findings} == {(CONFLICT, "M")}


def test_a_wheel_is_read_whole_and_conflicts_come_first(make_wheel: Callable[..., Path]) -> None:
    text = METADATA.replace("Requires-Dist: numpy", "License-File: LICENSE\nRequires-Dist: xgrammar")
    wheel = make_wheel({f"{INFO}/METADATA": text.encode()})
    findings = check_wheel_requires(wheel, STACK, [])
    assert all(isinstance(finding, Finding) and finding.where == f"{INFO}/METADATA" for finding in findings)
    severities = [finding.severity for finding in findings]
    assert severities == sorted(severities) and set(severities) == {CONFLICT, NOTE}
    said = {finding.requirement: finding.why for finding in findings}
    assert said["License-File: LICENSE"] == "is not in the wheel"
    assert "triton" in said["xgrammar"] and "numpy" not in said
    assert not any("nvidia" in requirement for requirement in said)  # of an extra, and in the description
    with_licence = make_wheel({f"{INFO}/METADATA": text.encode(), f"{INFO}/licenses/LICENSE": b"terms\n"})
    again = {finding.requirement for finding in check_wheel_requires(with_licence, STACK, [])}
    assert again == set(said) - {"License-File: LICENSE"}
    assert VERSION in with_licence.name
