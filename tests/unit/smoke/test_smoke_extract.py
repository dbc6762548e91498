"""Kernels cut out of source text, and the places text comes from."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from patchset.smoke.extract import ExtractError, Parameter, cut
from patchset.smoke.sources import SourceError, installed_source, tree_source, wheel_source

FILE = "vllm/v1/a.py"
SOURCE = '''from __future__ import annotations

import math
import torch
from vllm.triton_utils import tl, triton
from vllm.v1.b import LIMIT, helper
from .c import NEAR

PAD: int = -1
UNUSED = torch.tensor([1])


@triton.jit
def inner(x):
    return x + PAD


@triton.jit(do_not_specialize=["n"])
def kernel(
    out_ptr,  # where to
    n,
    BLOCK: tl.constexpr,
    FLAG: tl.constexpr = False,
):
    """Text."""
    offset = tl.arange(0, BLOCK)
    value = inner(offset) + helper(offset) + NEAR + math.pi
    tl.store(out_ptr + offset, value, mask=offset < min(n, LIMIT))


@triton.jit
def lost(x):
    return x + nowhere


def plain(x):
    return x
'''
OTHER = """from vllm.triton_utils import tl, triton
LIMIT = 7
SCALE = 3


@triton.jit
def helper(x):
    return x * SCALE
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in ((FILE, SOURCE), ("vllm/v1/b.py", OTHER), ("vllm/v1/c.py", "NEAR = 4\n")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path


def test_a_kernel_comes_with_what_it_uses_and_nothing_else(tree: Path) -> None:
    piece = cut(tree_source(tree), FILE, "kernel")
    assert piece is not None
    assert set(piece.helpers) == {"PAD", "inner", "LIMIT", "SCALE", "helper", "NEAR"}
    assert "vllm" not in piece.text and "UNUSED" not in piece.text and "import torch" not in piece.text
    assert "import math" in piece.text and "import triton.language as tl" in piece.text
    assert piece.text.startswith("from __future__ import annotations\n")
    compile(piece.text, "cut", "exec")
    order = [piece.text.index(text) for text in ("PAD: int", "def inner", "def kernel")]
    assert order == sorted(order)


def test_the_signature_and_the_text_are_the_files_own(tree: Path) -> None:
    piece = cut(tree_source(tree), FILE, "kernel")
    assert piece is not None
    assert piece.parameters == (
        Parameter("out_ptr", False, False),
        Parameter("n", False, False),
        Parameter("BLOCK", True, False),
        Parameter("FLAG", True, True),
    )
    lines = SOURCE.splitlines()
    start = lines.index('@triton.jit(do_not_specialize=["n"])')
    end = next(i for i, line in enumerate(lines) if "tl.store" in line)
    assert piece.kernel_text == "\n".join(lines[start : end + 1])
    assert piece.line == start + 1
    assert piece.sha256 == hashlib.sha256(piece.kernel_text.encode()).hexdigest()


@pytest.mark.parametrize(("file", "name"), [(FILE, "absent"), ("vllm/v1/nofile.py", "kernel")])
def test_what_is_not_there_is_none(tree: Path, file: str, name: str) -> None:
    assert cut(tree_source(tree), file, name) is None


def test_names_that_lead_nowhere_are_errors(tree: Path) -> None:
    with pytest.raises(ExtractError, match="nowhere"):
        cut(tree_source(tree), FILE, "lost")
    with pytest.raises(ExtractError, match=r"not a triton\.jit function"):
        cut(tree_source(tree), FILE, "plain")
    (tree / "vllm/v1/b.py").unlink()
    with pytest.raises(ExtractError, match="cannot be followed"):
        cut(tree_source(tree), FILE, "kernel")


def test_a_syntax_error_names_the_line(tree: Path) -> None:
    (tree / FILE).write_text("def kernel(:\n", "utf-8")
    with pytest.raises(ExtractError, match=r"vllm/v1/a\.py:1: "):
        cut(tree_source(tree), FILE, "kernel")


def _wheel(path: Path, metadata: str, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vllm-1.dist-info/METADATA", metadata)
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_a_wheel_gives_the_same_cut_as_the_tree(tree: Path, tmp_path: Path) -> None:
    files = {name: (tree / name).read_text("utf-8") for name in (FILE, "vllm/v1/b.py", "vllm/v1/c.py")}
    path = _wheel(
        tmp_path / "vllm-1.whl", "Metadata-Version: 2.4\nName: vllm\nVersion: 0.23.0+xpu.b70.0\n\nVersion: 9", files
    )
    source = wheel_source(path)
    assert source.version == "0.23.0+xpu.b70.0"
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert cut(source, FILE, "kernel") == cut(tree_source(tree), FILE, "kernel")


def test_what_is_no_wheel_or_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"PK not really")
    with pytest.raises(SourceError, match="cannot be read as a wheel"):
        wheel_source(tmp_path / "x.whl")
    with zipfile.ZipFile(tmp_path / "y.whl", "w") as archive:
        archive.writestr("vllm/x.py", "")
    with pytest.raises(SourceError, match="0 METADATA"):
        wheel_source(tmp_path / "y.whl")
    with pytest.raises(SourceError, match="no vllm directory"):
        tree_source(tmp_path)


def test_a_tree_tells_its_release_if_it_knows_it(tree: Path) -> None:
    assert tree_source(tree).version is None
    (tree / "vllm/_version.py").write_text("__version__ = version = '0.30.0'\n", "utf-8")
    assert tree_source(tree).version == "0.30.0"
    (tree / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: vllm\nVersion: 0.31.0\n", "utf-8")
    assert tree_source(tree).version == "0.31.0"


def test_a_file_beyond_the_bound_is_not_read(tree: Path) -> None:
    (tree / FILE).write_bytes(b"#" * (8 * 1024 * 1024 + 1))
    with pytest.raises(SourceError, match="larger than"):
        cut(tree_source(tree), FILE, "kernel")


def test_the_installed_vllm_is_found_without_importing_it(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="no vllm is installed"):
        installed_source()
    (tree / "vllm/__init__.py").write_text("raise AssertionError('imported')\n", "utf-8")
    (tree / "vllm-0.26.0.dist-info").mkdir()
    (tree / "vllm-0.26.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: vllm\nVersion: 0.26.0+xpu.1\n", "utf-8"
    )
    monkeypatch.syspath_prepend(str(tree))
    source = installed_source()
    assert (source.kind, source.path, source.version) == ("installed", tree, "0.26.0+xpu.1")
    assert cut(source, FILE, "kernel") == cut(tree_source(tree), FILE, "kernel")
