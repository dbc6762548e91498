"""The kernels that are exercised: a row each. Facts read from the release archives 0.19.1 to 0.33.0."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAMBA_FILE = "vllm/v1/worker/mamba_utils.py"
EAGLE_FILE = "vllm/v1/spec_decode/utils.py"
REJECTION_FILE = "vllm/v1/sample/rejection_sampler.py"

Release = tuple[int, ...]


@dataclass(frozen=True)
class Kernel:
    """One kernel of vLLM.

    :param file: the file of the tree that defines it.
    :param cases: ``module:function`` inside this package; the function takes a
        :class:`~patchset.smoke.case.Subject` and gives the kernel's cases.
    :param first: the first release that has it.
    :param last: the last release that has it; None: the newest one known still has it.
    :param sets: the named sets it belongs to.
    """

    name: str
    file: str
    cases: str
    first: str
    last: str | None = None
    sets: tuple[str, ...] = ("mission",)

    def expected_in(self, release: str) -> bool:
        """True if *release* must have this kernel."""
        here = parse_release(release)
        if here < parse_release(self.first):
            return False
        return self.last is None or here <= parse_release(self.last)


@dataclass(frozen=True)
class KnownDefect:
    """A case that upstream's own code of some releases gets wrong. It is run and reported by name; it is not a pass.

    Outside ``first``..``last`` the same case must pass, and inside it only *arrays* may be wrong.

    :param race: it shows only if programs run one after the other, or in an unlucky order.
    """

    kernel: str
    case: str
    first: str
    last: str
    arrays: frozenset[str]
    reference: str
    what: str
    race: bool = False

    def covers(self, kernel: str, case: str, release: str) -> bool:
        """True if this is the known defect of that case in that release."""
        within = parse_release(self.first) <= parse_release(release) <= parse_release(self.last)
        return within and (kernel, case) == (self.kernel, self.case)


KERNELS: tuple[Kernel, ...] = (
    Kernel("batch_memcpy_kernel", MAMBA_FILE, "cases_mamba:batch_memcpy", "0.19.1"),
    Kernel("postprocess_mamba_fused_kernel", MAMBA_FILE, "cases_mamba:postprocess", "0.22.0"),
    Kernel("precopy_mamba_align_fused_kernel", MAMBA_FILE, "cases_mamba:precopy", "0.25.0"),
    Kernel("preprocess_mamba_align_fused_kernel", MAMBA_FILE, "cases_align:preprocess_align", "0.25.0"),
    Kernel("eagle_step_slot_mapping_metadata_kernel", EAGLE_FILE, "cases_eagle:step_slot_mapping", "0.19.1"),
    Kernel("eagle_prepare_inputs_padded_kernel", EAGLE_FILE, "cases_eagle:prepare_inputs_padded", "0.19.1"),
    Kernel("eagle_prepare_next_token_padded_kernel", EAGLE_FILE, "cases_eagle:prepare_next_token_padded", "0.19.1"),
    Kernel("copy_and_expand_eagle_inputs_kernel", EAGLE_FILE, "cases_eagle:copy_and_expand", "0.19.1"),
    Kernel("rejection_greedy_sample_kernel", REJECTION_FILE, "cases_rejection:greedy", "0.19.1"),
    Kernel("rejection_random_sample_kernel", REJECTION_FILE, "cases_rejection:random", "0.19.1"),
    Kernel("expand_kernel", REJECTION_FILE, "cases_rejection:expand", "0.19.1"),
    Kernel("sample_recovered_tokens_kernel", REJECTION_FILE, "cases_rejection:recovered", "0.19.1"),
)

KNOWN_DEFECTS: tuple[KnownDefect, ...] = (
    KnownDefect(
        "postprocess_mamba_fused_kernel",
        "mapped-reset-while-siblings-read",
        "0.25.0",
        "0.27.1",
        frozenset({"state0", "state1", "state2", "state3"}),
        "https://github.com/vllm-project/vllm/pull/50432",
        "the count is reset in place while sibling programs still read it, so their states are not copied",
        race=True,
    ),
)


def parse_release(text: str) -> Release:
    """``0.23.0``, ``0.23.0+xpu.b70.1a2b3c4d`` or ``0.23.0rc1`` as numbers that compare.

    :raises ValueError: the text does not start with a version number.
    """
    match = re.match(r"\s*v?(\d+(?:\.\d+)+)", text)
    if match is None:
        raise ValueError(f"{text!r} is not a release")
    numbers = tuple(int(part) for part in match.group(1).split("."))
    return numbers + (0,) * (3 - len(numbers))


def set_names() -> tuple[str, ...]:
    """Every named set, sorted."""
    return tuple(sorted({name for kernel in KERNELS for name in kernel.sets}))


def select(set_name: str | None, names: tuple[str, ...] = ()) -> tuple[Kernel, ...]:
    """The rows of a set, or exactly the *names* if there are any.

    :raises KeyError: a name or set that the catalogue does not have.
    """
    if names:
        by_name = {kernel.name: kernel for kernel in KERNELS}
        return tuple(by_name[name] for name in dict.fromkeys(names))
    if set_name not in set_names():
        raise KeyError(set_name)
    return tuple(kernel for kernel in KERNELS if set_name in kernel.sets)


def known_defect(kernel: str, case: str, release: str) -> KnownDefect | None:
    """The known upstream defect behind that case in that release, or None."""
    return next((row for row in KNOWN_DEFECTS if row.covers(kernel, case, release)), None)
