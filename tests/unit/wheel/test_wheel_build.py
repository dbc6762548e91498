"""What is refused before a build starts; the build itself is in tests/real."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from wheel_samples import FILES, VERSION, blob_id

from patchset.errors import WheelError
from patchset.wheel.build import WheelRequest, build_wheel, tree_contents
from patchset.wheel.inspect import DELETED

PYPROJECT = '[build-system]\nrequires = ["setuptools"]\n[project]\nname = "vllm"\nrequires-python = ">=3.10"\n'
MAMBA = "vllm/v1/worker/mamba_utils.py"


@pytest.fixture
def request_(tmp_path: Path) -> WheelRequest:
    source = tmp_path / "source"
    for name, data in {**FILES, "setup.py": b"\n", "pyproject.toml": PYPROJECT.encode()}.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    return WheelRequest(source, "0.23.0", VERSION, "1a2b3c4d" * 5, 1_780_000_000, {})


def refused(request: WheelRequest, room: Path) -> str:
    with pytest.raises(WheelError) as caught:
        build_wheel(request, out=room / "out", envs=room / "envs", scratch=room / "scratch", log=room / "build.log")
    assert caught.value.next
    assert not any((room / name).exists() for name in ("out", "envs", "scratch", "build.log")), (
        "something was made first"
    )
    return caught.value.what


@pytest.mark.parametrize(
    "left", ["build/lib/vllm/old.py", "vllm.egg-info/SOURCES.txt", "vllm/_version.py", ".git/HEAD", "vllm/vllm-rs"]
)
def test_a_folder_that_was_built_in_before(request_: WheelRequest, tmp_path: Path, left: str) -> None:
    (request_.source / left).parent.mkdir(parents=True, exist_ok=True)
    (request_.source / left).write_bytes(b"")
    assert "is not a fresh tree" in refused(request_, tmp_path)


def test_a_folder_that_is_not_the_patched_tree(request_: WheelRequest, tmp_path: Path) -> None:
    for patched in ({MAMBA: "0" * 39 + "1"}, {"vllm/new.py": "1" * 40}, {MAMBA: DELETED}):
        assert "is not the patched tree" in refused(replace(request_, patched=patched), tmp_path)


def test_a_build_requirement_that_the_lock_lacks(request_: WheelRequest, tmp_path: Path) -> None:
    (request_.source / "pyproject.toml").write_text(PYPROJECT.replace('"setuptools"', '"setuptools>=900", "maturin"'))
    assert "setuptools>=900" in refused(request_, tmp_path)


def test_rust_for_a_release_that_has_none(request_: WheelRequest, tmp_path: Path) -> None:
    assert "has no Rust front end" in refused(replace(request_, rust=True), tmp_path)


def test_tree_contents(request_: WheelRequest) -> None:
    found = tree_contents(request_.source)
    assert list(found) == sorted([*FILES, "pyproject.toml", "setup.py"])
    assert found[MAMBA].blob == blob_id(FILES[MAMBA])
