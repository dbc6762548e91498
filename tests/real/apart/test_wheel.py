"""vLLM 0.23.0 becomes an XPU wheel, with upstream's own setup.py, twice, and loads beside a real torch."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from patchset.environment import ensure
from patchset.errors import SourceError, WheelError
from patchset.store import Entry, Store
from patchset.wheel import BUILD_REQUIREMENTS, BuiltWheel, Rooms, WheelRequest, make_wheel
from patchset.wheel.inspect import check_wheel, inspect_wheel
from patchset.wheel.make import ASSEMBLED
from patchset.workspace import Workspace

ROOT = Path(__file__).resolve().parents[3]
RELEASE = "0.23.0"
PATCHED = "vllm/v1/worker/mamba_utils.py"
EPOCH = 1_781_308_800
ADDED = b"\n# patched\n"


@pytest.fixture(scope="module")
def shop(room: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix="wheel-", dir=room))


@pytest.fixture(scope="module")
def request_(store: Store, base_of: Callable[[str], str]) -> WheelRequest:
    """A wheel of 0.23.0 with one comment more."""
    base = base_of(RELEASE)
    return of_tree(store, base, appended(store, base, PATCHED, ADDED))


def appended(store: Store, tree: str, path: str, data: bytes) -> str:
    entry = store.entry(tree, path)
    assert entry
    return store.with_file(tree, path, replace(entry, blob=store.write_blob(store.blob(entry.blob) + data)))


def of_tree(store: Store, base: str, tree: str, release: str = RELEASE) -> WheelRequest:
    version = f"{release}+xpu.b70.t{tree[:8]}"
    steps = [{"patch": "mamba", "applied": True, "touched": [PATCHED]}]
    record = {"base": {"release": release}, "series": steps, "outcomes": {"mamba": "applies"}}
    return WheelRequest(store, base, tree, release, version, EPOCH, record)


def make(request: WheelRequest, shop: Path, name: str, *, whole: bool = True) -> BuiltWheel:
    rooms = Rooms(shop / "bases", Workspace(ROOT).environments, shop / "scratch" / name, shop / f"{name}.log")
    return make_wheel(request, rooms, out=shop / name, whole=whole)


@pytest.fixture(scope="module")
def built(shop: Path, request_: WheelRequest) -> BuiltWheel:
    return make(request_, shop, "out")


def test_it_is_what_the_tree_says(built: BuiltWheel, shop: Path, request_: WheelRequest) -> None:
    assert built.path == shop / "out" / f"vllm-{request_.version}-cp38-abi3-linux_x86_64.whl"
    assert built.sha256 == hashlib.sha256(built.path.read_bytes()).hexdigest()
    assert 5_000_000 < built.size == built.path.stat().st_size < 12_000_000
    assert built.tags == ("cp38-abi3-linux_x86_64",)
    assert built.native == ("vllm/spinloop.abi3.so",)
    assert (built.rust, built.rust_reason) == (False, "not asked for (wheel.rust = false), so not attempted")
    assert any(text.startswith("vllm_xpu_kernels") for text in built.requires) and "torch==2.11.0" in built.requires
    with zipfile.ZipFile(built.path) as archive:
        assert archive.read(PATCHED) == request_.store.read(request_.tree, PATCHED)
        assert archive.testzip() is None
    files = {path: entry.blob for path, entry in request_.store.entries(request_.tree).items()}
    check_wheel(built.path, version=request_.version, patched={PATCHED: files[PATCHED]}, tree=files)


def test_it_holds_the_data_files_that_only_git_knows(built: BuiltWheel) -> None:
    members = inspect_wheel(built.path).members
    assert "vllm/transformers_utils/chat_templates/template_chatml.jinja" in members
    assert members["vllm/utils/numa_wrapper.sh"].executable


def test_it_carries_its_record(built: BuiltWheel, request_: WheelRequest) -> None:
    record = inspect_wheel(built.path).record
    assert record is not None and record["outcomes"] == {"mamba": "applies"}
    wheel = json.loads(json.dumps(record["wheel"]))
    assert wheel["tree"] == request_.tree and wheel["rust"]["included"] is False
    base = request_.store.read(request_.base, PATCHED) or b""
    assert wheel["files"] == {
        PATCHED: {
            "sha256": hashlib.sha256(base + ADDED).hexdigest(),
            "base": hashlib.sha1(b"blob %d\0" % len(base) + base).hexdigest(),
            "patches": ["mamba"],
        }
    }
    assert sorted(wheel["generated"]) == ["vllm/_version.py", "vllm/spinloop.abi3.so"]
    assert wheel["torch"] == built.torch == "stand-in: no torch code is compiled or linked"


def test_nothing_else_is_left(built: BuiltWheel, shop: Path) -> None:
    assert list((shop / "scratch" / "out").iterdir()) == []
    assert list((shop / "out").iterdir()) == [built.path]


def test_its_extension_loads_beside_a_real_torch(built: BuiltWheel, shop: Path, lab_python: Path) -> None:
    with zipfile.ZipFile(built.path) as archive:
        archive.extract("vllm/spinloop.abi3.so", shop / "loaded")
    program = "import torch, sys; sys.path.insert(0, sys.argv[1]); import spinloop; print(callable(spinloop.spinloop))"
    argv = [lab_python, "-I", "-B", "-c", program, shop / "loaded" / "vllm"]
    assert subprocess.run(argv, capture_output=True, check=True, text=True).stdout.strip() == "True"


def test_another_folder_and_umask_give_the_same_bytes(
    built: BuiltWheel, shop: Path, request_: WheelRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "TZ": "Asia/Tokyo",
        "CXXFLAGS": "-O0 -g",
        "VLLM_TARGET_DEVICE": "cpu",
        "PYTHONPATH": "/nowhere",
    }.items():
        monkeypatch.setenv(name, value)
    before, cores = os.umask(0o077), os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:1])
    try:
        again = make(request_, shop, "a longer name")
    finally:
        os.umask(before)
        os.sched_setaffinity(0, cores)
    assert again.sha256 == built.sha256
    assert again.made == "built whole: asked for"


def test_assembled_is_the_same_bytes(built: BuiltWheel, shop: Path, request_: WheelRequest) -> None:
    first = make(request_, shop, "assembled", whole=False)
    log = (shop / "assembled.log").stat().st_mtime_ns
    again = make(request_, shop, "assembled", whole=False)
    assert (first.made, first.sha256) == (again.made, again.sha256) == (ASSEMBLED, built.sha256)
    assert (shop / "assembled.log").stat().st_mtime_ns == log, "the base was built twice"


def test_many_random_edits_are_the_same_bytes(shop: Path, request_: WheelRequest) -> None:
    """Files below vllm/ edited, emptied, added and removed at random: one whole build proves them all."""
    store, chance = request_.store, random.Random(20260613)
    entries = store.entries(request_.base)
    paths = [path for path in entries if path.startswith("vllm/") and path.endswith(".py") and path != "vllm/envs.py"]
    edits: dict[str, Entry | None] = {}
    for number, path in enumerate(chance.sample(paths, 40)):
        data = store.blob(entries[path].blob)
        cut = chance.randrange(len(data) + 1)
        more = f"# edit {number}\r\n".encode() * chance.randrange(3)
        edits[path] = replace(entries[path], blob=store.write_blob(data[:cut] + more + data[cut:]))
        folder, _, name = path.rpartition("/")
        if number % 4 == 0 and name != "__init__.py":
            edits[path] = None
        if number % 5 == 0:
            edits[f"{folder}/added_{number}.py"] = Entry("100644", store.write_blob(more))
    request = of_tree(store, request_.base, store.with_files(request_.base, edits))
    assembled = make(request, shop, "edits", whole=False)
    assert assembled.made == ASSEMBLED
    assert assembled.sha256 == make(request, shop, "edits-whole").sha256


def test_a_series_that_could_steer_the_build_is_built_whole(shop: Path, request_: WheelRequest) -> None:
    store = request_.store
    tree = appended(store, request_.tree, "requirements/common.txt", b"planted-requirement\n")
    made = make(of_tree(store, request_.base, tree), shop, "steered", whole=False)
    assert made.made == "built whole: the series changes requirements/common.txt, which could steer the build"
    assert "planted-requirement" in made.requires


def test_a_kept_base_that_is_damaged_is_made_anew(built: BuiltWheel, shop: Path, request_: WheelRequest) -> None:
    make(request_, shop, "before", whole=False)
    (kept,) = (shop / "bases").glob("*/base.whl")
    sound = kept.read_bytes()
    kept.write_bytes(sound[: len(sound) // 2] + bytes([sound[len(sound) // 2] ^ 0xFF]) + sound[len(sound) // 2 + 1 :])
    assert make(request_, shop, "damaged", whole=False).sha256 == built.sha256
    assert kept.read_bytes() == sound


def test_a_build_that_fails_names_its_log_and_the_compilers_words(
    built: BuiltWheel, shop: Path, request_: WheelRequest
) -> None:
    store = request_.store
    broken = store.with_file(
        request_.tree, "csrc/spinloop.cpp", Entry("100644", store.write_blob(b"#error planted for the test\n"))
    )
    with pytest.raises(WheelError, match="failed") as caught:
        make(of_tree(store, request_.base, broken), shop, "failed", whole=False)
    assert "planted for the test" in caught.value.detail
    assert caught.value.where == str(shop / "failed.log") and (shop / "failed.log").is_file()
    assert not (shop / "failed").exists() and list((shop / "scratch" / "failed").iterdir()) == []


def test_an_extension_that_uses_torch_is_refused(shop: Path, request_: WheelRequest) -> None:
    planted = (
        b"\nnamespace at { void init(); }\n"
        b'extern "C" __attribute__((visibility("default"))) void planted() { at::init(); }\n'
    )
    tree = appended(request_.store, request_.tree, "csrc/spinloop.cpp", planted)
    with pytest.raises(WheelError, match=r"_ZN2at4initEv \(a torch symbol"):
        make(of_tree(request_.store, request_.base, tree), shop, "torch-out", whole=False)
    assert not (shop / "torch-out").exists()


def test_an_environment_is_used_again(built: BuiltWheel) -> None:
    envs = Workspace(ROOT).environments
    python = ensure(envs, "build", BUILD_REQUIREMENTS)
    before = (python.parents[1] / "complete.json").stat().st_mtime_ns
    assert ensure(envs, "build", BUILD_REQUIREMENTS) == python
    assert (python.parents[1] / "complete.json").stat().st_mtime_ns == before


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
