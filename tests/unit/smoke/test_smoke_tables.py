"""What of the tree's kernels is known, and kernels that stand in a class; the references by hand, where NumPy is."""

from __future__ import annotations

import subprocess
from pathlib import Path

from patchset.smoke.catalogue import KERNELS, KNOWN_ELSEWHERE, is_watched, unknown
from patchset.smoke.extract import cut
from patchset.smoke.planted import PLANTED
from tests.unit.smoke.support import alone

EXAMPLES = Path(__file__).parent / "reference_examples.py"


def test_the_references_give_what_was_worked_out_by_hand(lab_python: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [lab_python, "-B", EXAMPLES],
        env={"PYTHONPATH": str(alone(tmp_path)), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    written = EXAMPLES.read_text("utf-8").count("\ndef check_")
    assert (ran.returncode, ran.stdout) == (0, f"{written} checked\n"), ran.stderr


def test_what_is_known_is_watched_and_every_kernel_has_planted_faults() -> None:
    assert all(is_watched(kernel.file) for kernel in KERNELS if "mission" in kernel.sets)
    assert all(is_watched(file) and why for (file, _), why in KNOWN_ELSEWHERE.items())
    assert {kernel.name for kernel in KERNELS if kernel.lanes is None} == set(PLANTED)
    assert not is_watched("vllm/v1/worker/gpu/sample/gumbel.py") and not is_watched("x/vllm/v1/worker/utils.py")
    known = KERNELS[0]
    assert unknown(known.file, [known.name, "new_kernel", "_memcpy_u64_tiled"]) == ("new_kernel",)
    assert unknown("vllm/v1/worker/other.py", [known.name]) == (known.name,)


CLASSES = """import triton
from vllm.triton_utils import tl

SIZE = 3


class Launcher(Base["Launcher.Key"]):
    width = 7

    @staticmethod
    @triton.jit(do_not_specialize=["n"])
    def kernel(out_ptr, n, BLOCK: tl.constexpr):
        tl.store(out_ptr, n + SIZE)

    @triton.jit
    def another(out_ptr):
        tl.store(out_ptr, 0)

    def plain(self):
        return self.kernel
"""


class Text:
    """A tree of one file."""

    def read(self, file: str) -> str | None:
        return CLASSES if file == "vllm/a.py" else None


def test_a_kernel_in_a_class_comes_in_a_class_at_its_own_line() -> None:
    piece = cut(Text(), "vllm/a.py", "Launcher.kernel")
    assert piece is not None and [one.name for one in piece.parameters] == ["out_ptr", "n", "BLOCK"]
    lines, origin = piece.text.splitlines(), CLASSES.splitlines()
    at = origin.index("    @staticmethod")
    assert lines[at - 1] == "class Launcher:" and lines[at : at + 4] == origin[at : at + 4]
    assert piece.line == at + 1 and "another" not in piece.text and "Base" not in piece.text
    assert piece.helpers == ("SIZE",)
    compile(piece.text, "cut", "exec")
    assert cut(Text(), "vllm/a.py", "Launcher.plain") is None and cut(Text(), "vllm/a.py", "kernel") is None
