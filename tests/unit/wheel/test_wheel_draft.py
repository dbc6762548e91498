"""A wheel assembled from that of the base is, member by member, what a build of the patched tree makes."""

from __future__ import annotations

import pytest
from wheel_samples import FILES, METADATA, VERSION, blob_id

from patchset.errors import WheelError
from patchset.store import Entry
from patchset.wheel.draft import Draft, assemble, draft_of, why_not_base
from patchset.wheel.record import Member

BASE = "0.23.0+xpu.base"
MAMBA = "vllm/v1/worker/mamba_utils.py"
ENTRIES = {path: Entry("100644", blob_id(data)) for path, data in {**FILES, "setup.py": b""}.items()}


def built(version: str, files: dict[str, bytes]) -> tuple[Member, ...]:
    """What setuptools and setuptools-scm make, with the version where they put it."""
    local = version.partition("+")[2]
    info = f"vllm-{version}.dist-info"
    text = f"__version__ = version = '{version}'\n__version_tuple__ = version_tuple = (0, 23, 0, '{local}')\n"
    return (
        *(Member(path, data, path.endswith(".sh")) for path, data in files.items()),
        Member("vllm/_version.py", text.encode()),
        Member("vllm/spinloop.abi3.so", b"\x7fELF"),
        Member(f"{info}/METADATA", METADATA.replace(VERSION, version).encode()),
        Member(f"{info}/WHEEL", b"Wheel-Version: 1.0\nTag: cp38-abi3-linux_x86_64\n"),
        Member(f"{info}/RECORD", b"of the build\n"),
    )


def members(draft: Draft) -> dict[str, tuple[bytes, bool]]:
    return {member.name: (member.content(), member.executable) for member in draft.members}


@pytest.mark.parametrize("version", [VERSION, "0.23.0+xpu.b70.1234567"])
def test_assembled_is_what_a_build_makes(version: str) -> None:
    patched = {**FILES, MAMBA: b"POINTERS = 1\n", "vllm/new.py": b"", "vllm/utils/numa_wrapper.sh": b"#!/bin/sh\n"}
    patched.pop("vllm/__init__.py")
    changed = {**{path: patched.get(path) for path in FILES}, "vllm/new.py": b""}
    made = assemble(draft_of(built(BASE, FILES)), version, changed)
    whole = draft_of(built(version, patched))
    assert members(made) == members(whole)
    assert (made.dist_info, made.version) == (whole.dist_info, whole.version) == (f"vllm-{version}.dist-info", version)
    assert made.finished({"x.json": b"{}"}) == whole.finished({"x.json": b"{}"})


def test_what_it_holds_that_no_tree_has() -> None:
    draft = draft_of(built(BASE, FILES))
    assert set(draft.native) == {"vllm/spinloop.abi3.so"}
    assert set(draft.generated) == {"vllm/spinloop.abi3.so", "vllm/_version.py"}
    assert not draft.rust


def test_a_base_that_can_be_used() -> None:
    assert why_not_base(built(BASE, FILES), ENTRIES, BASE) == ""


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({**FILES, MAMBA: b"other\n"}, "does not copy vllm/v1/worker/mamba_utils.py"),
        ({path: data for path, data in FILES.items() if path != MAMBA}, "does not copy vllm/v1/worker/mamba_utils.py"),
        ({**FILES, "vllm/made.py": b""}, "does not copy vllm/made.py"),
    ],
)
def test_a_build_that_does_more_than_copy(files: dict[str, bytes], words: str) -> None:
    assert words in why_not_base(built(BASE, files), ENTRIES, BASE)


def test_a_version_that_stands_elsewhere() -> None:
    more = (*built(BASE, FILES), Member("vllm-0.23.0+xpu.base.dist-info/entry_points.txt", b"# xpu.base\n"))
    assert "entry_points.txt" in why_not_base(more, ENTRIES, BASE)
    without = tuple(member for member in built(BASE, FILES) if member.name != "vllm/_version.py")
    assert "not expected" in why_not_base(without, ENTRIES, BASE)


def test_a_build_without_metadata() -> None:
    with pytest.raises(WheelError, match="0 METADATA files"):
        draft_of([Member("vllm/__init__.py", b"")])
