"""Smoke results made by hand: every lane, with all that may stand in one, and one that is hostile."""

from __future__ import annotations

from typing import Any

from patchset.smoke.report import (
    CaseResult,
    Difference,
    KernelResult,
    Mutants,
    Resources,
    SmokeResult,
    SourceInfo,
    Survivor,
    Unknown,
)

WHEEL = "vllm-0.23.0+xpu.b70.1a2b3c4d-cp38-abi3-linux_x86_64.whl"
SHA = "ab" * 32
VERSIONS = {"triton": "3.3.0b1", "ocloc": "26.27.039122 5c36223d0fc2", "target": "bmg-g31"}


def codes(scratch: int, spill: int = 0, shared: int = 0, faults: tuple[str, ...] = ()) -> tuple[Resources, ...]:
    """A specialisation in both modes: with 256 registers it takes half."""
    return (
        Resources("0" * 12, "default", shared, 0.5, 32, 128, spill, scratch, 0, 1, faults),
        Resources("0" * 12, "256", shared, 0.5, 32, 256, spill // 2, scratch // 2, 0, 1),
    )


def kernel(
    name: str = "expand_kernel", *, text: str = "1" * 64, resources: tuple[Resources, ...] = (), **more: Any
) -> KernelResult:
    """A kernel that passed two cases."""
    cases = more.pop("cases", (CaseResult("one", "passed", 0.1), CaseResult("odd", "passed", 0.1)))
    status = more.pop("status", "passed")
    return KernelResult(name, "vllm/v1/a.py", status, text, cases=cases, resources=resources, **more)


def result(lane: str, *kernels: KernelResult, **environment: str) -> dict[str, Any]:
    """The JSON of one lane."""
    source = SourceInfo("wheel", WHEEL, "0.23.0+xpu.b70.1a2b3c4d", SHA)
    return SmokeResult(lane, 4711, "0.23.0", source, kernels, 12.5, environment or {"triton": "3.8.0"}).as_json()


def native(*kernels: KernelResult, **environment: str) -> dict[str, Any]:
    """The JSON of the lane native."""
    return result("native", *kernels, **{**VERSIONS, **environment})


def lanes() -> list[dict[str, Any]]:
    """Three lanes: a failure, a known defect, a kernel that is absent, one that one lane has alone, mutants, an unknown one."""
    wrong = CaseResult("odd", "failed", 0.1, "", (Difference("out", "3 of 9 elements wrong", 3, ((1, 2),)),))
    known = CaseResult("mapped", "known-defect", 0.1, "the count is reset, pull 50432")
    timed = CaseResult("one", "passed", 0.1, "", (), 1.25, 28e-6, 5e-6, "same bytes")
    absent = kernel("precopy_kernel", status="not-in-release", cases=(), text="")
    interpret = result(
        "interpret",
        kernel(mutants=Mutants(3, 2, (Survivor("< for <=", 41),))),
        kernel("greedy_kernel", cases=(known, CaseResult("one", "passed", 0.1))),
        absent,
    )
    interpret["unknown"] = [vars(Unknown("vllm/v1/b.py", 7, "gather_kernel"))]
    heavy = codes(65536, 33000, 16)
    return [
        interpret,
        native(kernel(resources=codes(0)), kernel("greedy_kernel", resources=heavy), kernel("gdn_kernel")),
        result(
            "device",
            kernel(cases=(timed,)),
            kernel("greedy_kernel", status="failed", cases=(wrong,)),
            device="NVIDIA H200",
            kind="cuda",
        ),
    ]


def hostile() -> list[dict[str, Any]]:
    """What a wheel or a compiler may have put into a result, to have an effect."""
    bad = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>\u202e"
    fault = codes(65536, 33000, faults=(bad,))
    return [
        native(
            kernel(bad, resources=fault, status="failed", message=bad * 60, cases=(CaseResult(bad, "failed", 0, bad),))
        ),
        result("device", kernel("x_" * 200), device=bad, driver=bad * 50),
    ]
