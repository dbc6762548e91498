"""What is refused before a build starts; the build itself is in tests/real."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from made_trees import tree_in
from wheel_samples import FILES, VERSION, blob_id

from patchset.errors import MissingTool, WheelError
from patchset.store import Entry, Store
from patchset.wheel import Rooms, WheelRequest, make_wheel
from patchset.wheel import make as make_module
from patchset.wheel.build import BuildRequest, build
from patchset.wheel.draft import Draft
from patchset.wheel.packing import pack
from patchset.wheel.record import Member

PYPROJECT = '[build-system]\nrequires = ["setuptools"]\n[project]\nname = "vllm"\nrequires-python = ">=3.10"\n'
MAMBA = "vllm/v1/worker/mamba_utils.py"
TREE = {**FILES, "setup.py": b"\n", "pyproject.toml": PYPROJECT.encode()}


@pytest.fixture
def order(tmp_path: Path) -> BuildRequest:
    source = tmp_path / "source"
    for name, data in TREE.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    files = {path: Entry("100644", blob_id(data)) for path, data in TREE.items()}
    return BuildRequest(source, files, "0.23.0", VERSION, 1_780_000_000)


@pytest.fixture
def build_refused(tmp_path: Path) -> Callable[[BuildRequest], str]:
    def refused(request: BuildRequest) -> str:
        with pytest.raises(WheelError) as caught:
            build(request, envs=tmp_path / "envs", scratch=tmp_path / "scratch", log=tmp_path / "build.log")
        assert caught.value.next
        made = [name for name in ("envs", "scratch", "build.log") if (tmp_path / name).exists()]
        assert not made, "something was made first"
        return caught.value.what

    return refused


@pytest.mark.parametrize(
    "left", ["build/lib/vllm/old.py", "vllm.egg-info/SOURCES.txt", "vllm/_version.py", ".git/HEAD", "vllm/vllm-rs"]
)
def test_a_folder_that_was_built_in_before(
    order: BuildRequest, build_refused: Callable[[BuildRequest], str], left: str
) -> None:
    (order.source / left).parent.mkdir(parents=True, exist_ok=True)
    (order.source / left).write_bytes(b"")
    assert "is not a fresh tree" in build_refused(order)


def test_a_folder_whose_build_would_be_another(
    order: BuildRequest, build_refused: Callable[[BuildRequest], str]
) -> None:
    other = Entry("100644", "0" * 39 + "1")
    assert "setup.py is not 0000" in build_refused(replace(order, files={**order.files, "setup.py": other}))
    assert "csrc/x.cpp is not there" in build_refused(replace(order, files={**order.files, "csrc/x.cpp": other}))
    (order.source / "cmake").mkdir()
    (order.source / "cmake" / "more.cmake").write_bytes(b"")
    assert "cmake/more.cmake should not be there" in build_refused(order)


def test_a_build_requirement_that_the_lock_lacks(
    order: BuildRequest, build_refused: Callable[[BuildRequest], str]
) -> None:
    (order.source / "pyproject.toml").write_text(PYPROJECT.replace('"setuptools"', '"setuptools>=900", "maturin"'))
    assert "setuptools>=900" in build_refused(order)


@pytest.fixture
def made_of(tmp_path: Path) -> Callable[..., WheelRequest]:
    def request(files: dict[str, bytes], **more: object) -> WheelRequest:
        store = Store.open(tmp_path / "store.git")
        tree = tree_in(store, files)
        return WheelRequest(store, tree, tree, "0.23.0", VERSION, 1_780_000_000, {"series": []}, **more)

    return request


def make(request: WheelRequest, room: Path) -> None:
    rooms = Rooms(room / "bases", room / "envs", room / "scratch", room / "build.log")
    make_wheel(request, rooms, out=room / "out")


def test_rust_for_a_release_that_has_none(made_of: Callable[..., WheelRequest], tmp_path: Path) -> None:
    with pytest.raises(WheelError, match="has no Rust front end"):
        make(made_of(TREE, rust=True), tmp_path)


def test_rust_on_a_machine_without_it(
    made_of: Callable[..., WheelRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = made_of({**TREE, "rust/src/cmd/Cargo.toml": b""}, rust=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingTool, match="needs cargo and rustc"):
        make(request, tmp_path)


def test_a_record_may_not_say_what_is_said_here(made_of: Callable[..., WheelRequest], tmp_path: Path) -> None:
    with pytest.raises(WheelError, match="a key `wheel`"):
        make(replace(made_of(TREE), record={"wheel": {}}), tmp_path)


@pytest.mark.parametrize("name", ["vllm/_version.py", "vllm/spinloop.abi3.so", "vllm/_rust_x.abi3.so"])
def test_a_patch_may_not_bring_what_the_build_makes(
    made_of: Callable[..., WheelRequest], tmp_path: Path, name: str
) -> None:
    request = made_of(TREE)
    tree = request.store.with_file(request.tree, name, Entry("100644", request.store.write_blob(b"")))
    with pytest.raises(WheelError, match=f"a patch brings {name}"):
        make(replace(request, tree=tree), tmp_path)


def test_a_name_that_no_wheel_can_hold(made_of: Callable[..., WheelRequest], tmp_path: Path) -> None:
    with pytest.raises(WheelError, match="is not UTF-8"):
        make(made_of({**TREE, "docs/\udcff.txt": b""}), tmp_path)


@pytest.mark.parametrize("name", ["vllm/a\nb.py", "vllm/a\\b.py", "vllm/c:d.py"])
def test_a_name_that_verify_would_refuse_is_refused_here(
    made_of: Callable[..., WheelRequest], tmp_path: Path, name: str
) -> None:
    request = made_of(TREE)
    tree = request.store.with_file(request.tree, name, Entry("100644", request.store.write_blob(b"")))
    with pytest.raises(WheelError, match="no name for a member"):
        make(replace(request, tree=tree), tmp_path)


def test_a_kept_base_is_used_only_as_it_was_kept(tmp_path: Path) -> None:
    member = Member("vllm-1.dist-info/WHEEL", b"Tag: py3-none-any\n")
    base = make_module._Base(Draft((pack(member),), "vllm-1.dist-info", "1"))
    make_module._keep(base, tmp_path, 0)
    assert make_module._kept(tmp_path) == base
    sound = (tmp_path / "base.json").read_text()
    for old, new in (("vllm-1.dist-info", "vllm-2.dist-info"), ('"version": "1"', '"version": "2"'), ("{", "")):
        (tmp_path / "base.json").write_text(sound.replace(old, new, 1))
        assert make_module._kept(tmp_path) is None
    (tmp_path / "base.json").write_text(sound)
    (tmp_path / "base.whl").write_bytes((tmp_path / "base.whl").read_bytes()[:-1])
    assert make_module._kept(tmp_path) is None
