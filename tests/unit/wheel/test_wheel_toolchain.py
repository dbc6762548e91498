"""What a tree needs of the machine, read without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchset.environment import locked_pins
from patchset.errors import MissingTool, WheelError
from patchset.wheel import BUILD_REQUIREMENTS, toolchain

SETUP = """
import sys
from setuptools import Extension
class CMakeExtension(Extension):
    def __init__(self, name): pass
ext_modules = []
if _is_cuda() or _is_hip():
    ext_modules.append(CMakeExtension(name="vllm._moe_C"))
{native}
if _is_cpu():
    if platform.machine() in ("x86_64",):
        ext_modules.append(CMakeExtension(name="vllm._C"))
"""
PROJECT = """
[build-system]
requires = ["cmake>=3.26.1", "setuptools>=77.0.3,<81.0.0", "torch == 2.11.0", "wheel"{more}]
[project]
name = "vllm"
requires-python = "{python}"
"""


def tree(folder: Path, native: str = "", more: str = "", python: str = ">=3.10,<3.15") -> Path:
    folder.joinpath("setup.py").write_text(SETUP.format(native=native))
    folder.joinpath("pyproject.toml").write_text(PROJECT.format(more=more, python=python))
    return folder


ALWAYS = 'ext_modules.append(CMakeExtension(name="vllm.spinloop"))'


@pytest.mark.parametrize(
    ("native", "python", "found"),
    [
        ("", (3, 12), ()),
        (ALWAYS, (3, 12), ("spinloop",)),
        (f"if sys.version_info >= (3, 11):\n    {ALWAYS}", (3, 11), ("spinloop",)),
        (f"if sys.version_info >= (3, 11):\n    {ALWAYS}", (3, 10), ()),
        (f"if not _is_xpu() and sys.version_info >= (3, 11):\n    {ALWAYS}", (3, 12), ()),
        (f"if not _is_xpu():\n    {ALWAYS}", (3, 12), ()),
        (f"if _is_cuda():\n    pass\nelse:\n    {ALWAYS}", (3, 12), ("spinloop",)),
        (f"if _is_cuda() and unknown():\n    {ALWAYS}", (3, 12), ()),
        (f"if unknown():\n    {ALWAYS}", (3, 12), ("spinloop",)),
    ],
)
def test_native_extensions(tmp_path: Path, native: str, python: tuple[int, int], found: tuple[str, ...]) -> None:
    assert toolchain.native_extensions(tree(tmp_path, native), python) == found


def test_another_machine_is_told_so_if_there_is_something_to_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    toolchain.check_tools(tree(tmp_path))
    with pytest.raises(MissingTool, match="spinloop of this vLLM is compiled for Linux on x86_64") as caught:
        toolchain.check_tools(tree(tmp_path, ALWAYS))
    assert "Linux on aarch64" in caught.value.what and "0.27.0" in caught.value.next


def test_no_program_of_the_machine_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    toolchain.check_tools(tree(tmp_path, ALWAYS))


def test_a_python_without_venv_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingTool, match="ensurepip") as caught:
        toolchain.check_tools(tree(tmp_path))
    assert caught.value.next.startswith("apt install python3-venv")


GUARDED = f"""if sys.version_info >= (3, 11):  # Ä
    {ALWAYS}
    if sys.version_info < (3, 10):
        pass
    elif sys.version_info < (3,
                             11) or unknown("ö"):
        {ALWAYS.replace("spinloop", "older")}
print(sys.version_info >= (3, 11))
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_setup_py_decides_by_the_stable_abi_not_by_its_python(tmp_path: Path, end: str) -> None:
    root = tree(tmp_path, GUARDED)
    before = (root / "setup.py").read_text("utf-8")
    (root / "setup.py").write_bytes(before.replace("\n", end).encode())
    toolchain.ask_stable_abi(root)
    after = (root / "setup.py").read_bytes().decode()
    changed = before.replace("if sys.version_info >= (3, 11):", "if True:").replace(
        "elif sys.version_info < (3,\n                             11) or", "elif False or"
    )
    changed = changed.replace("if sys.version_info < (3, 10)", "if False")
    assert after == changed.replace("\n", end) and "print(sys.version_info >= (3, 11))" in after
    assert toolchain.native_extensions(root, (3, 10)) == ("spinloop", "older")


def test_a_setup_py_that_asks_for_no_python_stays_as_it_is(tmp_path: Path) -> None:
    path = tree(tmp_path, ALWAYS) / "setup.py"
    before = path.stat()
    toolchain.ask_stable_abi(tmp_path)
    assert path.stat() == before


def test_requires_python(tmp_path: Path) -> None:
    root = tree(tmp_path, python=">=3.11,<3.15")
    toolchain.check_python(root, "3.13.0")
    with pytest.raises(MissingTool, match=r"requires Python >=3.11,<3.15, and this is Python 3.10.13") as caught:
        toolchain.check_python(root, "3.10.13")
    assert "pyproject.toml" in caught.value.where and "3.11" in caught.value.next


def test_the_lock_against_build_system_requires(tmp_path: Path) -> None:
    pins = locked_pins(BUILD_REQUIREMENTS)
    assert toolchain.unmet_requirements(tree(tmp_path), pins) == ()
    unmet = toolchain.unmet_requirements(
        tree(tmp_path, more=', "setuptools_scm>=99", "maturin", "x; python_version < \'3\'"'), pins
    )
    assert unmet == (f"setuptools_scm>=99 (locked: {pins['setuptools-scm']})", "maturin (locked: nothing)")


def test_a_tree_that_is_not_vllm(tmp_path: Path) -> None:
    with pytest.raises(WheelError, match=r"setup\.py cannot be read"):
        toolchain.native_extensions(tmp_path, (3, 12))
    with pytest.raises(WheelError, match=r"pyproject\.toml cannot be read"):
        toolchain.check_python(tmp_path)


def test_the_lock_is_hashed_and_names_no_index() -> None:
    text = BUILD_REQUIREMENTS.read_text()
    assert "://" not in text and "index" not in text.replace("importlib", "")
    assert all("--hash=sha256:" in block for block in text.split("\n    # via")[0:1])
    for name in locked_pins(BUILD_REQUIREMENTS):
        after = text.split(f"\n{name}==", 1)[-1] if not text.startswith(f"{name}==") else text
        assert after.split("\n")[1].strip().startswith("--hash=sha256:"), name
    assert "torch" not in locked_pins(BUILD_REQUIREMENTS)
