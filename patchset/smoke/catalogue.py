"""The kernels that are exercised: a row each. Facts read from the release archives 0.19.1 to 0.33.0."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from patchset.smoke import catalogue_models

MAMBA_FILE = "vllm/v1/worker/mamba_utils.py"
EAGLE_FILE = "vllm/v1/spec_decode/utils.py"
REJECTION_FILE = "vllm/v1/sample/rejection_sampler.py"
FLY_FILE = "vllm/v1/spec_decode/fly.py"
BLOCK_TABLE_FILE = "vllm/v1/worker/block_table.py"
RUNNER_TABLE_FILE = "vllm/v1/worker/gpu/block_table.py"
ZEROING_FILE = "vllm/v1/worker/utils.py"
BACKENDS_FILE = "vllm/v1/attention/backends/utils.py"
FILTER_FILE = "vllm/v1/sample/ops/topk_topp_triton.py"

#: Where a Triton kernel that this module does not name is worth a report: files of the tree, ``*`` for one path part.
WATCHED_FILES = (
    "vllm/v1/sample/*.py",
    "vllm/v1/sample/ops/*.py",
    "vllm/v1/spec_decode/*.py",
    "vllm/v1/worker/*.py",
    RUNNER_TABLE_FILE,
    BACKENDS_FILE,
)

Release = tuple[int, ...]


@dataclass(frozen=True)
class Kernel:
    """One kernel of vLLM.

    :param name: of one in a class ``Class.function``.
    :param file: the file of the tree that defines it.
    :param cases: ``module:function`` inside this package; the function takes a
        :class:`~patchset.smoke.case.Subject` and gives the kernel's cases.
    :param first: the first release that has it.
    :param last: the last release that has it; None: the newest one known still has it.
    :param sets: the named sets it belongs to.
    :param lanes: the lanes that it is run in; None: every lane.
    :param earlier: (last release, file) of places that it was at before, oldest first.
    """

    name: str
    file: str
    cases: str
    first: str
    last: str | None = None
    sets: tuple[str, ...] = ("mission",)
    lanes: tuple[str, ...] | None = None
    earlier: tuple[tuple[str, str], ...] = ()

    @property
    def compiled_only(self) -> bool:
        """True if its cases are launches by their types: compiled, and not run."""
        return self.cases.startswith("launches")

    def placed(self, release: str) -> Kernel:
        """This row with the file that *release* has it in."""
        here = parse_release(release)
        return replace(self, file=next((at for last, at in self.earlier if here <= parse_release(last)), self.file))

    def expected_in(self, release: str) -> bool:
        """True if *release* must have this kernel."""
        here = parse_release(release)
        if here < parse_release(self.first):
            return False
        return self.last is None or here <= parse_release(self.last)

    def is_for(self, lane: str) -> bool:
        """True if it is run in *lane*."""
        return self.lanes is None or lane in self.lanes


@dataclass(frozen=True)
class KnownDefect:
    """A case that upstream's own code of some releases gets wrong. It is run and reported by name; it is not a pass.

    Outside ``first``..``last`` the same case must pass, and inside it only *arrays* may be wrong.

    :param last: the last release with it; None: no release is known that is without it.
    :param compiled: it is no result that is wrong but the machine code that is unfit, in the lane that only compiles.
    :param race: it shows only if programs run one after the other, or in an unlucky order.
    """

    kernel: str
    case: str
    first: str
    last: str | None
    arrays: frozenset[str]
    reference: str
    what: str
    race: bool = False
    compiled: bool = False

    def covers(self, kernel: str, case: str, release: str) -> bool:
        """True if this is the known defect of that case in that release."""
        here = parse_release(release)
        within = parse_release(self.first) <= here and (self.last is None or here <= parse_release(self.last))
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
    Kernel("copy_and_expand_dflash_inputs_kernel", EAGLE_FILE, "cases_dflash:dflash", "0.20.0"),
    Kernel("apply_fly_greedy_acceptance_kernel", FLY_FILE, "cases_fly:greedy", "0.33.0"),
    Kernel("apply_fly_random_acceptance_kernel", FLY_FILE, "cases_fly:random", "0.33.0"),
    Kernel("_compute_slot_mapping_kernel", BLOCK_TABLE_FILE, "cases_block_table:slot_mapping", "0.19.1", "0.28.0"),
    Kernel("ComputeSlotMappingKernel.kernel", BLOCK_TABLE_FILE, "cases_block_table:slot_mapping", "0.29.0"),
    Kernel("_compute_slot_mappings_kernel", RUNNER_TABLE_FILE, "cases_block_table:slot_mappings", "0.19.1"),
    Kernel("_gather_block_tables_kernel", RUNNER_TABLE_FILE, "cases_block_table:gather", "0.19.1"),
    Kernel("_zero_kv_blocks_kernel", ZEROING_FILE, "cases_zeroing:zero_blocks", "0.19.1"),
    Kernel("get_aligned_state_indices_multi_group_kernel", MAMBA_FILE, "cases_states:aligned_indices", "0.29.0"),
    Kernel("_mamba_align_block_table_kernel", BACKENDS_FILE, "cases_states:align_block_table", "0.33.0"),
    *(
        Kernel(
            row.name,
            row.file,
            row.launches,
            row.first,
            row.last,
            (catalogue_models.SET,),
            catalogue_models.LANES,
            row.earlier,
        )
        for row in catalogue_models.ROWS
    ),
)

_BEYOND = "a position beyond its table's row gets a slot of whatever lies behind the row, not none"
_BEYOND_ISSUE = "https://github.com/vllm-project/vllm/issues/53982"

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
    KnownDefect(
        "_gather_block_tables_kernel",
        "padded-unlike-widths",
        "0.19.1",
        "0.22.1",
        frozenset({"gathered1"}),
        "https://github.com/vllm-project/vllm/pull/38831",
        "padded rows of every group are cleared as wide as the first group's: past the end of a narrower one's table",
    ),
    *(
        KnownDefect(name, "beyond-the-table", first, last, frozenset({array}), _BEYOND_ISSUE, _BEYOND)
        for name, first, last, array in (
            ("_compute_slot_mapping_kernel", "0.19.1", "0.28.0", "slot_mapping_ptr"),
            ("ComputeSlotMappingKernel.kernel", "0.29.0", None, "slot_mapping_ptr"),
            ("_compute_slot_mappings_kernel", "0.19.1", None, "slot_mappings_ptr"),
        )
    ),
    *(
        KnownDefect(row.kernel, row.launch, row.first, row.last, frozenset(), row.reference, row.what, compiled=True)
        for row in catalogue_models.UNFIT
    ),
)

_CALLED = "called by the kernels of its file, and cut out with them"
_FILTER = (
    "masks logits by top-k and top-p: from 8 rows on where requests have seeds of their own or tokens are drafted; "
    "not exercised: its ties depend on the order of its search"
)
_FILTER_KERNELS = ("_topk_topp_kernel", "_topp_sb_stats_kernel", "_topp_sb_step_kernel", "_topp_sb_mask_kernel")
_FILTER_PARTS = (
    "_topk_topp",
    "_topp_sb_combine",
    "_topp_sb_ladder",
    "_topp_sb_row_stats",
    "_update_min_larger_stats",
)

#: Triton functions of :data:`WATCHED_FILES` that have no row of their own, and why: (file, name) → reason.
KNOWN_ELSEWHERE: dict[tuple[str, str], str] = {
    (MAMBA_FILE, "_copy_mamba_state_block"): _CALLED,
    (MAMBA_FILE, "_memcpy_u64_tiled"): _CALLED,
    (RUNNER_TABLE_FILE, "_load_ptr"): _CALLED,
    **{(FILTER_FILE, name): _FILTER for name in _FILTER_KERNELS},
    **{(FILTER_FILE, name): _CALLED for name in _FILTER_PARTS},
}


def is_watched(file: str) -> bool:
    """True if *file* of the tree is one of :data:`WATCHED_FILES`."""
    path = PurePosixPath(file)
    return any(
        path.match(pattern) and len(path.parts) == len(PurePosixPath(pattern).parts) for pattern in WATCHED_FILES
    )


def unknown(file: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those Triton functions *names* of *file* that neither a row nor :data:`KNOWN_ELSEWHERE` has."""
    known = {(kernel.file, kernel.name) for kernel in KERNELS} | KNOWN_ELSEWHERE.keys()
    return tuple(name for name in names if (file, name) not in known)


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
    """The rows of a set, or of several with commas between them; or exactly the *names* if there are any.

    :raises KeyError: a name or set that the catalogue does not have.
    """
    if names:
        by_name = {kernel.name: kernel for kernel in KERNELS}
        return tuple(by_name[name] for name in dict.fromkeys(names))
    sets = (set_name or "").split(",")
    for name in sets:
        if name not in set_names():
            raise KeyError(name)
    return tuple(kernel for kernel in KERNELS if not set(sets).isdisjoint(kernel.sets))


def known_defect(kernel: str, case: str, release: str) -> KnownDefect | None:
    """The known upstream defect behind that case in that release, or None."""
    return next((row for row in KNOWN_DEFECTS if row.covers(kernel, case, release)), None)
