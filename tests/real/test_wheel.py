"""vLLM 0.23.0 becomes an XPU wheel, with upstream's own setup.py, twice, and loads beside a real torch."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from patchset.environment import ensure
from patchset.errors import SourceError, WheelError
from patchset.wheel import BUILD_REQUIREMENTS
from patchset.wheel.build import BuiltWheel, WheelRequest, build_wheel
from patchset.wheel.inspect import check_wheel, inspect_wheel

RELEASE = "0.23.0"
VERSION = "0.23.0+xpu.b70.1a2b3c4d"
PATCHED = "vllm/v1/worker/mamba_utils.py"
EPOCH = 1_781_308_800


@pytest.fixture(scope="module")
def shop(room: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix="wheel-", dir=room))


def fresh(tree: Path, target: Path) -> Path:
    """A writable copy, as git would export it, without what a source archive adds to a tree."""
    left_out = shutil.ignore_patterns("PKG-INFO", "setup.cfg", "*.egg-info", "_version.py", ".git", "__pycache__")
    shutil.copytree(tree, target, ignore=left_out)
    for folder, _, names in os.walk(target):
        os.chmod(folder, 0o755)
        for name in names:
            path = Path(folder, name)
            path.chmod(0o755 if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else 0o644)
    with (target / PATCHED).open("ab") as stream:
        stream.write(b"\n# patched\n")
    return target


def request_for(source: Path) -> WheelRequest:
    data = (source / PATCHED).read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    record = {"base": {"release": RELEASE}, "series": ["mamba"], "outcomes": {"mamba": "applies"}}
    return WheelRequest(source, RELEASE, VERSION, "1a2b3c4d" * 5, EPOCH, record, patched={PATCHED: blob})


def build(source: Path, shop: Path, name: str) -> BuiltWheel:
    return build_wheel(
        request_for(source), out=shop / name, envs=shop / "envs", scratch=shop / "scratch", log=shop / f"{name}.log"
    )


@pytest.fixture(scope="module")
def built(shop: Path, tree_of: Callable[[str], Path]) -> BuiltWheel:
    return build(fresh(tree_of(RELEASE), shop / "source"), shop, "out")


def test_it_is_what_the_tree_says(built: BuiltWheel, shop: Path) -> None:
    source = shop / "source"
    assert built.path == shop / "out" / "vllm-0.23.0+xpu.b70.1a2b3c4d-cp38-abi3-linux_x86_64.whl"
    assert built.sha256 == hashlib.sha256(built.path.read_bytes()).hexdigest()
    assert 5_000_000 < built.size == built.path.stat().st_size < 12_000_000
    assert built.tags == ("cp38-abi3-linux_x86_64",)
    assert built.native == ("vllm/spinloop.abi3.so",)
    assert (built.rust, built.rust_reason) == (False, "not asked for (wheel.rust = false), so not attempted")
    assert any(text.startswith("vllm_xpu_kernels") for text in built.requires) and "torch==2.11.0" in built.requires
    with zipfile.ZipFile(built.path) as archive:
        assert archive.read(PATCHED) == (source / PATCHED).read_bytes()
        assert archive.testzip() is None
    check_wheel(built.path, version=VERSION, patched=request_for(source).patched)


def test_it_holds_the_data_files_that_only_git_knows(built: BuiltWheel) -> None:
    members = inspect_wheel(built.path).members
    assert "vllm/transformers_utils/chat_templates/template_chatml.jinja" in members
    assert members["vllm/utils/numa_wrapper.sh"].executable


def test_it_carries_its_record(built: BuiltWheel, shop: Path) -> None:
    record = inspect_wheel(built.path).record
    assert record is not None and record["outcomes"] == {"mamba": "applies"}
    wheel = json.loads(json.dumps(record["wheel"]))
    assert wheel["tree"] == "1a2b3c4d" * 5 and wheel["rust"]["included"] is False
    assert wheel["files"] == {PATCHED: hashlib.sha256((shop / "source" / PATCHED).read_bytes()).hexdigest()}
    assert wheel["torch"] == built.torch == "stand-in: no torch code is compiled or linked"


def test_nothing_else_is_left(built: BuiltWheel, shop: Path) -> None:
    assert list((shop / "scratch").iterdir()) == []
    assert list((shop / "out").iterdir()) == [built.path]


def test_its_extension_loads_beside_a_real_torch(built: BuiltWheel, shop: Path, lab_python: Path) -> None:
    with zipfile.ZipFile(built.path) as archive:
        archive.extract("vllm/spinloop.abi3.so", shop / "loaded")
    program = "import torch, sys; sys.path.insert(0, sys.argv[1]); import spinloop; print(callable(spinloop.spinloop))"
    argv = [lab_python, "-I", "-B", "-c", program, shop / "loaded" / "vllm"]
    assert subprocess.run(argv, capture_output=True, check=True, text=True).stdout.strip() == "True"


def test_another_folder_and_umask_give_the_same_bytes(
    built: BuiltWheel, shop: Path, tree_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "TZ": "Asia/Tokyo",
        "CXXFLAGS": "-O0 -g",
        "VLLM_TARGET_DEVICE": "cpu",
        "PYTHONPATH": "/nowhere",
    }.items():
        monkeypatch.setenv(name, value)
    source = fresh(tree_of(RELEASE), shop / "elsewhere" / "a longer name")
    before = os.umask(0o077)
    try:
        again = build(source, shop, "again")
    finally:
        os.umask(before)
    assert again.sha256 == built.sha256


def test_a_build_that_fails_names_its_log_and_the_compilers_words(
    built: BuiltWheel, shop: Path, tree_of: Callable[[str], Path]
) -> None:
    source = fresh(tree_of(RELEASE), shop / "broken")
    (source / "csrc" / "spinloop.cpp").write_text("#error planted for the test\n")
    with pytest.raises(WheelError, match="failed") as caught:
        build(source, shop, "failed")
    assert "planted for the test" in caught.value.detail
    assert caught.value.where == str(shop / "failed.log") and (shop / "failed.log").is_file()
    assert not (shop / "failed").exists() and list((shop / "scratch").iterdir()) == []


def test_an_extension_that_uses_torch_is_refused(built: BuiltWheel, shop: Path, tree_of: Callable[[str], Path]) -> None:
    source = fresh(tree_of(RELEASE), shop / "torch")
    with (source / "csrc" / "spinloop.cpp").open("a") as stream:
        stream.write(
            "\nnamespace at { void init(); }\n"
            'extern "C" __attribute__((visibility("default"))) void planted() { at::init(); }\n'
        )
    with pytest.raises(WheelError, match=r"_ZN2at4initEv \(a torch symbol"):
        build(source, shop, "torch-out")
    assert not (shop / "torch-out").exists()


def test_an_environment_is_used_again(built: BuiltWheel, shop: Path) -> None:
    envs = shop / "envs"
    (env,) = (path for path in envs.iterdir() if path.is_dir())
    before = (env / "complete.json").stat().st_mtime_ns
    assert ensure(envs, "build", BUILD_REQUIREMENTS) == env / "bin" / "python"
    assert (env / "complete.json").stat().st_mtime_ns == before


def test_a_wrong_hash_leaves_no_environment_but_the_log(tmp_path: Path) -> None:
    wheel = tmp_path / "tiny-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        archive.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("tiny-1.dist-info/RECORD", "")
    lock = tmp_path / "tiny.lock"
    lock.write_text(f"tiny @ {wheel.as_uri()} \\\n    --hash=sha256:{'0' * 64}\n")
    with pytest.raises(SourceError, match="could not be filled from its lock") as caught:
        ensure(tmp_path / "envs", "build", lock)
    assert Path(caught.value.where).is_file() and "hash" in caught.value.detail.lower()
    assert [path.name for path in (tmp_path / "envs").iterdir() if path.is_dir()] == []
