"""Triton's cache as files: counted, carried to another place, and kept whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from patchset.smoke import triton_cache
from patchset.smoke.extract import cut
from patchset.smoke.sources import tree_source
from patchset.smoke.triton_cache import PRIME, PRIMED, CacheError, CacheUse
from tests.unit.smoke.support import alone


def _cache(folder: Path, *names: str) -> Path:
    for name in names:
        home = folder / f"KEY{name}"
        home.mkdir(parents=True)
        (home / f"{name}.cubin").write_bytes(b"machine code")
        (home / f"{name}.json").write_text("{}", "utf-8")
        paths = {f"{name}.{end}": str(home / f"{name}.{end}") for end in ("cubin", "json")}
        (home / f"__grp__{name}.json").write_text(json.dumps({"child_paths": paths}), "utf-8")
    return folder


def _paths(cache: Path, name: str) -> dict[str, str]:
    text = (cache / f"KEY{name}" / f"__grp__{name}.json").read_text("utf-8")
    paths: dict[str, str] = json.loads(text)["child_paths"]
    return paths


def test_a_kept_cache_lies_where_it_says_and_has_no_word_of_where_it_was(tmp_path: Path) -> None:
    cache = _cache(tmp_path / "made", "one", "two", "first_kernel")
    (cache / "LAUNCHER").mkdir()
    (cache / "LAUNCHER" / "launcher.so").write_bytes(b"x")
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "kept"
    target.mkdir()
    assert triton_cache.keep(cache, target, but="first_kernel") == 2
    assert sorted(path.name for path in target.iterdir()) == ["KEYone", "KEYtwo", "LAUNCHER"]
    assert [path.name for path in target.parent.iterdir()] == ["kept"]
    assert all(Path(path).is_file() and Path(path).is_relative_to(target) for path in _paths(target, "one").values())


def test_a_copy_is_whole_and_leaves_the_original_alone(tmp_path: Path) -> None:
    cache = _cache(tmp_path / "made", "one")
    before = _paths(cache, "one")
    triton_cache.copy(cache, tmp_path / "copy")
    assert _paths(cache, "one") == before
    assert set(_paths(tmp_path / "copy", "one").values()) == {
        str(tmp_path / "copy" / "KEYone" / name) for name in ("one.cubin", "one.json")
    }
    assert triton_cache.kernels(tmp_path / "copy") == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"child_paths": 3}',
        '{"child_paths": {"../../etc/x": "/etc/x"}}',
        '{"child_paths": {"/x": "/x"}}',
    ],
)
def test_a_list_of_files_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    cache = _cache(tmp_path / "made", "one")
    (cache / "KEYone" / "__grp__one.json").write_text(text, "utf-8")
    with pytest.raises(CacheError, match="__grp__one"):
        triton_cache.relocate(cache)
    with pytest.raises(CacheError):
        triton_cache.keep(cache, tmp_path / "kept", but="")
    assert not (tmp_path / "kept").exists()


def test_what_cannot_be_primed_or_used_is_refused_before_a_run(tmp_path: Path) -> None:
    cache = _cache(tmp_path / "made", "one")
    for use in (
        CacheUse(PRIME, cache),
        CacheUse(PRIME, cache / "KEYone" / "one.json"),
        CacheUse(PRIMED, tmp_path / "no"),
    ):
        with pytest.raises(CacheError):
            triton_cache.check(use)
    for use in (CacheUse(), CacheUse(PRIMED, cache), CacheUse(PRIME, tmp_path / "new")):
        triton_cache.check(use)


#: Compiles for a GPU that need not be there, and prints whether anything was written to the cache meanwhile.
COMPILE = """
import os, pathlib, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from patchset.smoke.lanes.first import first_kernel
cache = pathlib.Path(os.environ["TRITON_CACHE_DIR"])
before = {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}
triton.compile(ASTSource(fn=first_kernel, signature={"counts_ptr": "*i32"}), target=GPUTarget("cuda", 90, 32))
after = {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}
print("compiled" if after != before else "found")
"""

KEY = """
import importlib.util, sys
def load(path):
    spec = importlib.util.spec_from_file_location(path.rpartition("/")[2][:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
for path in sys.argv[2:]:
    print(getattr(load(path), sys.argv[1]).cache_key)
"""

#: A file of vLLM's, but for the name that triton is imported from.
FILE = '''"""A long text

above."""
import math
import triton
import triton.language as tl

NEAR = tl.constexpr(3)
FAR = tl.constexpr(4)


def other():
    return math.pi


@triton.jit
def inner(x):
    return x + NEAR


@triton.jit(do_not_specialize=["n"])
def kernel(out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, inner(at) + FAR, mask=at < n)
'''


def _in_the_laboratory(python: Path, folder: Path, program: str, *words: str, **env: str) -> list[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(alone(folder)), "HOME": str(folder), **env}
    argv = [str(python), "-B", "-c", program, *words]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_tritons_own_cache_is_still_one_after_it_was_moved(lab_python: Path, tmp_path: Path) -> None:
    def compiled(cache: Path) -> list[str]:
        return _in_the_laboratory(lab_python, tmp_path, COMPILE, TRITON_CACHE_DIR=str(cache))

    made, moved, kept = tmp_path / "made", tmp_path / "moved", tmp_path / "kept"
    made.mkdir()
    assert compiled(made) == ["compiled"] and triton_cache.kernels(made) == 1
    shutil.copytree(made, moved)
    assert triton_cache.keep(made, kept, but="") == 1
    shutil.rmtree(made)
    assert compiled(kept) == ["found"]
    assert compiled(moved) == ["compiled"], "a cache that was only moved is found: relocate() is not needed any more"


def test_what_is_cut_out_has_the_key_that_vllms_own_file_has(lab_python: Path, tmp_path: Path) -> None:
    file = tmp_path / "tree" / "vllm/v1/a.py"
    file.parent.mkdir(parents=True)
    file.write_text(FILE, "utf-8")
    piece = cut(tree_source(tmp_path / "tree"), "vllm/v1/a.py", "kernel")
    assert piece is not None
    (tmp_path / "cut.py").write_text(piece.text, "utf-8")
    (tmp_path / "shifted.py").write_text("\n" + piece.text, "utf-8")
    own, cut_out, shifted = _in_the_laboratory(
        lab_python, tmp_path, KEY, "kernel", str(file), str(tmp_path / "cut.py"), str(tmp_path / "shifted.py")
    )
    assert cut_out == own and shifted != own


def test_a_cache_says_whose_it_is_and_is_used_for_no_other(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    owner = triton_cache.Owner("0.23.0+xpu.b70.1", {"a": "1" * 64, "b": "2" * 64})
    with pytest.raises(CacheError, match="does not say whose"):
        triton_cache.require_owner(cache, owner)
    triton_cache.sign(cache, owner, {"triton": "3.8.0"})
    triton_cache.require_owner(cache, owner)
    triton_cache.require_owner(cache, triton_cache.Owner(owner.runtime, {"a": "1" * 64}))
    with pytest.raises(CacheError, match=r"filled for 0\.23\.0\+xpu\.b70\.1, and this is 0\.26\.0"):
        triton_cache.require_owner(cache, triton_cache.Owner("0.26.0", owner.kernels))
    for kernels in ({"a": "3" * 64}, {**owner.kernels, "c": "1" * 64}):
        with pytest.raises(CacheError, match=r"other code of [ac]:"):
            triton_cache.require_owner(cache, triton_cache.Owner(owner.runtime, kernels))
    (cache / "runtime.json").write_text("[]", "utf-8")
    with pytest.raises(CacheError, match="does not say whose"):
        triton_cache.require_owner(cache, owner)
