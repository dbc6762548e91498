"""check_wheel: a sound wheel passes; each fault is caught and named."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from wheel_samples import FILES, INFO, METADATA, VERSION, blob_id

from patchset.errors import WheelError
from patchset.wheel.inspect import DELETED, _same_version, check_wheel, inspect_wheel, requirement_faults

MAMBA = "vllm/v1/worker/mamba_utils.py"
PATCHED = {MAMBA: blob_id(FILES[MAMBA]), "tests/v1/test_mamba.py": "1" * 40}
TREE = {path: hashlib.sha256(data).hexdigest() for path, data in FILES.items()} | {"setup.py": "2" * 64}


def faults_of(path: Path, **keywords: object) -> str:
    with pytest.raises(WheelError) as caught:
        check_wheel(path, **{"version": VERSION, "patched": PATCHED, "tree": TREE, **keywords})  # type: ignore[arg-type]
    assert caught.value.where == str(path) and caught.value.next
    return caught.value.detail or caught.value.what


def with_requirement(line: str) -> bytes:
    return METADATA.replace("Requires-Dist: numpy", f"Requires-Dist: numpy\nRequires-Dist: {line}").encode()


def test_a_sound_wheel_passes(make_wheel: Callable[..., Path]) -> None:
    facts = check_wheel(make_wheel(), version=VERSION, patched=PATCHED, tree=TREE)
    assert (facts.name, facts.version, facts.tags) == ("vllm", VERSION, ("py3-none-any",))
    assert facts.sha256 == hashlib.sha256(facts.path.read_bytes()).hexdigest()
    assert facts.size == facts.path.stat().st_size
    assert facts.members[MAMBA].blob == PATCHED[MAMBA]
    assert "nvidia-cuda-runtime" not in " ".join(facts.requires), "the description was read as headers"


def test_a_patched_file_may_be_named_by_sha256(make_wheel: Callable[..., Path]) -> None:
    check_wheel(make_wheel(), version=VERSION, patched={MAMBA: hashlib.sha256(FILES[MAMBA]).hexdigest()})


def test_the_record_of_the_build_is_read(make_wheel: Callable[..., Path]) -> None:
    facts = inspect_wheel(make_wheel({f"{INFO}/patchset.json": json.dumps({"base": "0.23.0"}).encode()}))
    assert facts.record == {"base": "0.23.0"}
    with pytest.raises(WheelError, match="not JSON"):
        inspect_wheel(make_wheel({f"{INFO}/patchset.json": b"{"}))


def test_a_flipped_byte(make_wheel: Callable[..., Path]) -> None:
    flipped = FILES[MAMBA].replace(b"uint64", b"uint65")
    found = faults_of(make_wheel(later={MAMBA: flipped}))
    assert f"{MAMBA} is not the tree's" in found
    assert f"{MAMBA} is not what RECORD says" in found


def test_a_flipped_byte_with_a_record_to_match(make_wheel: Callable[..., Path]) -> None:
    found = faults_of(make_wheel({MAMBA: FILES[MAMBA] + b"#\n"}), tree=None)
    assert f"{MAMBA} is not the tree's" in found and "RECORD" not in found


def test_an_unpatched_file_that_differs_from_the_tree(make_wheel: Callable[..., Path]) -> None:
    assert "vllm/__init__.py is not the tree's" in faults_of(make_wheel({"vllm/__init__.py": b""}))


def test_a_missing_patched_file(make_wheel: Callable[..., Path]) -> None:
    assert f"{MAMBA} is not in the wheel" in faults_of(make_wheel({MAMBA: None}), tree=None)


def test_a_data_file_that_the_build_left_out(make_wheel: Callable[..., Path]) -> None:
    assert "numa_wrapper.sh is not in the wheel" in faults_of(make_wheel({"vllm/utils/numa_wrapper.sh": None}))


def test_a_deleted_file_that_is_still_there(make_wheel: Callable[..., Path]) -> None:
    assert "the series deletes it" in faults_of(make_wheel(), patched={MAMBA: DELETED}, tree=None)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("vllm/old_module.py", "vllm/old_module.py is in the wheel and not in the tree"),
        ("vllm/__pycache__/envs.cpython-311.pyc", "is a build leftover"),
        ("vllm/envs.py.orig", "is a build leftover"),
        ("vllm/.git/config", "is a build leftover"),
        ("tests/test_envs.py", "is stray"),
        ("torch/__init__.py", "is stray"),
        ("vllm.egg-info/SOURCES.txt", "is stray"),
        (f"vllm-{VERSION}.data/scripts/x", "is stray"),
        (f"{INFO}/direct_url.json", "is stray"),
        ("vllm/_C.abi3.so", "is a library that no XPU build makes"),
    ],
)
def test_a_stray_member(make_wheel: Callable[..., Path], name: str, said: str) -> None:
    found = faults_of(make_wheel({name: b"x"}))
    assert any(line.startswith(name) and said in line for line in found.splitlines()), found


@pytest.mark.parametrize("name", [f"{INFO}/patchset.json", f"{INFO}/licenses/LICENSE", f"{INFO}/sboms/vllm.cdx.json"])
def test_known_generated_members_pass(make_wheel: Callable[..., Path], name: str) -> None:
    check_wheel(make_wheel({name: b"{}"}), version=VERSION, patched=PATCHED, tree=TREE)


@pytest.mark.parametrize(
    "line",
    ["nvidia-nccl-cu12==2.27", "NVIDIA_cutlass_dsl>=4", "cuda-python", "cupy-cuda12x", "flashinfer-python==0.6",
     "xformers", "humming-kernels", "torchvision==0.26.0+cu130", "something[cu13]",
     "torchaudio @ https://example.org/whl/cu130/torchaudio-2.11.0-cp312-abi3-linux_x86_64.whl",
     "nvidia-nvtx ; sys_platform == 'linux'"],
)  # fmt: skip
def test_a_cuda_requirement(make_wheel: Callable[..., Path], line: str) -> None:
    found = faults_of(make_wheel({f"{INFO}/METADATA": with_requirement(line)}))
    assert "is of the CUDA stack" in found and found.count("\n") == 0, found


@pytest.mark.parametrize(
    "line", ["torch==2.11.0+xpu", "triton==3.8.0+xpu", "cudf-nothing", "depyf>=0.20", "cachetools"]
)
def test_what_is_no_cuda_requirement(line: str) -> None:
    assert requirement_faults(["torch", "vllm-xpu-kernels", line]) == []


def test_a_wheel_that_is_not_for_xpu(make_wheel: Callable[..., Path]) -> None:
    lines = [line for line in METADATA.splitlines(keepends=True) if "xpu_kernels" not in line]
    assert "has no vllm-xpu-kernels" in faults_of(make_wheel({f"{INFO}/METADATA": "".join(lines).encode()}))


@pytest.mark.parametrize("requirement", ["torch ==", "-r common.txt"])
def test_a_requirement_that_cannot_be_read(requirement: str) -> None:
    assert any("cannot be read" in fault for fault in requirement_faults([requirement]))


def test_the_wrong_version_in_each_place(make_wheel: Callable[..., Path]) -> None:
    found = faults_of(make_wheel(), version="0.23.0+xpu.b70.ffffffff")
    assert "METADATA Version is" in found and "of the file name is" in found and ".dist-info's version is" in found
    renamed = make_wheel(filename="vllm-0.23.1-py3-none-any.whl")
    assert faults_of(renamed) == f"the version of the file name is 0.23.1, not {VERSION}"


def test_a_local_version_of_digits_is_the_same_in_its_normal_form() -> None:
    assert _same_version("0.23.0+xpu.b70.1234567", "0.23.0+xpu.b70.01234567")
    assert not _same_version("0.23.0+xpu.b70.1234568", "0.23.0+xpu.b70.01234567")


def test_tags_that_disagree(make_wheel: Callable[..., Path]) -> None:
    path = make_wheel(filename=f"vllm-{VERSION}-cp38-abi3-linux_x86_64.whl")
    assert "WHEEL says the tags py3-none-any" in faults_of(path)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda text: text.replace("sha256=", "sha256=A", 1), "is not what RECORD says"),
        (lambda text: "".join(text.splitlines(keepends=True)[1:]), "vllm/__init__.py is not in RECORD"),
        (lambda text: text + "vllm/ghost.py,sha256=x,1\n", "RECORD lists vllm/ghost.py, which is not in the wheel"),
        (lambda text: text + text.splitlines(keepends=True)[0], "lists vllm/__init__.py again"),
        (lambda text: text + "one,two\n", "has 2 fields"),
        (lambda text: text.replace("RECORD,,", "RECORD,sha256=x,1"), "a hash of itself"),
    ],
)
def test_a_wrong_record(make_wheel: Callable[..., Path], edit: Callable[[str], str], said: str) -> None:
    sound = zipfile.ZipFile(io.BytesIO(make_wheel().read_bytes())).read(f"{INFO}/RECORD").decode()
    assert said in faults_of(make_wheel(later={f"{INFO}/RECORD": edit(sound).encode()}))


def test_a_missing_record(make_wheel: Callable[..., Path]) -> None:
    assert f"{INFO}/RECORD is missing" in faults_of(make_wheel(later={f"{INFO}/RECORD": None}))


def test_every_fault_is_named_at_once(make_wheel: Callable[..., Path]) -> None:
    found = faults_of(make_wheel({MAMBA: None, "vllm/x.pyc": b"", f"{INFO}/METADATA": with_requirement("cupy")}))
    for part in (f"{MAMBA} is not in the wheel", "vllm/x.pyc is a build leftover", "'cupy' is of the CUDA stack"):
        assert part in found


def test_what_is_no_wheel_at_all(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    damaged = tmp_path / f"vllm-{VERSION}-py3-none-any.whl"
    damaged.write_bytes(b"PK\x03\x04 no")
    with pytest.raises(WheelError, match="cannot be read"):
        inspect_wheel(damaged)
    with pytest.raises(WheelError, match=r"no .*METADATA"):
        inspect_wheel(make_wheel({f"{INFO}/METADATA": None}))
    with pytest.raises(WheelError, match=r"2 \.dist-info folders"):
        inspect_wheel(make_wheel({"other-1.dist-info/METADATA": b""}))
    with pytest.raises(WheelError, match="2 fields Version"):
        inspect_wheel(
            make_wheel({f"{INFO}/METADATA": METADATA.replace("Name: vllm", "Name: vllm\nVersion: 1").encode()})
        )
