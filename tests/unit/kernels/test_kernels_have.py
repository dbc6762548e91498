"""Where the wheel comes from: a folder that pip looks into, by the hash that is declared; or a file that a person names."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from made_kernels import FILE, write_wheel
from made_project import write_project

from patchset.errors import DeclarationError, SourceError
from patchset.kernels import have
from patchset.resolve import Project
from patchset.upstream import Upstream, Wheel, read_upstreams

KERNELS = '[vllm-xpu-kernels]\ndistribution = "vllm-xpu-kernels"\nrepository = "https://x/y.git"\ntag = "v{release}"\n'


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel in a folder that is all that pip's configuration names."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "offered"))
    return write_wheel(tmp_path / "offered", {"__init__.py": b"x = 1\n"})


def upstream_of(wheel: Path, **change: str) -> Upstream:
    data = wheel.read_bytes()
    known = {"file": FILE, "sha256": hashlib.sha256(data).hexdigest(), **change}
    return Upstream(
        "vllm-xpu-kernels", "vllm-xpu-kernels", "", "", {}, {"0.1.15.4": Wheel("0.1.15.4", **known, size=len(data))}
    )  # fmt: skip


def test_brought_by_its_hash_once_and_then_nothing_is_asked(offered: Path, tmp_path: Path) -> None:
    upstream, cache = upstream_of(offered), tmp_path / "cache"
    first = have.from_index(upstream, "0.1.15.4", cache=cache)
    assert first.path == cache / FILE and first.pinned and first.version == "0.1.15.4"
    assert first.tags == ("cp38-abi3-manylinux_2_28_x86_64",)
    offered.unlink()
    assert have.from_index(upstream, "0.1.15.4", cache=cache) == first


def test_other_bytes_than_declared_are_not_taken(offered: Path, tmp_path: Path) -> None:
    upstream, cache = upstream_of(offered), tmp_path / "cache"
    offered.write_bytes(offered.read_bytes() + b"x")
    with pytest.raises(SourceError, match="arrived with sha256"):
        have.from_index(upstream, "0.1.15.4", cache=cache)
    assert list(cache.iterdir()) == []


def test_a_changed_file_in_the_cache_is_moved_aside_and_said(offered: Path, tmp_path: Path) -> None:
    upstream, cache = upstream_of(offered), tmp_path / "cache"
    cache.mkdir()
    (cache / FILE).write_bytes(b"changed")
    had = have.from_index(upstream, "0.1.15.4", cache=cache)
    assert had.path.read_bytes() == offered.read_bytes() and "moved to" in had.note
    offered.unlink()
    (cache / FILE).write_bytes(b"changed again")
    with pytest.raises(SourceError) as error:
        have.from_index(upstream, "0.1.15.4", cache=cache)
    assert "changed, not used" in error.value.detail


def test_a_version_that_no_index_has_names_the_url_and_the_way_by_file(offered: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as error:
        have.from_index(upstream_of(offered), "0.1.9", cache=tmp_path, url="https://host.invalid/x.whl")
    assert "./inv kernels --wheel FILE" in error.value.next and error.value.where == "https://host.invalid/x.whl"


def test_declared_and_not_offered(offered: Path, tmp_path: Path) -> None:
    upstream = upstream_of(offered, file=FILE.replace("cp38", "cp39"))
    with pytest.raises(SourceError, match=f"no wheel .*cp39.*; it has {FILE}"):
        have.from_index(upstream, "0.1.15.4", cache=tmp_path / "cache")


def test_a_file_that_a_person_names(offered: Path, tmp_path: Path) -> None:
    upstream = upstream_of(offered)
    assert have.from_file(upstream, offered).pinned
    own = write_wheel(tmp_path, {"__init__.py": b""}, "vllm_xpu_kernels-0.1.9-py3-none-any.whl")
    had = have.from_file(upstream, own)
    assert (had.version, had.pinned, had.tags) == (
        "0.1.9",
        False,
        ("py3-none-any",),
    ) and "compared with none" in had.note


@pytest.mark.parametrize(
    ("name", "words"),
    [("x.zip", "not the file name of a wheel"), ("torch-2.0-py3-none-any.whl", "a wheel of torch")],
)
def test_a_file_of_another_name(name: str, words: str, offered: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(offered.read_bytes())
    with pytest.raises(SourceError, match=words):
        have.from_file(upstream_of(offered), tmp_path / name)


def test_a_file_with_a_known_name_and_another_hash(offered: Path) -> None:
    with pytest.raises(SourceError, match="the package index's has 0000"):
        have.from_file(upstream_of(offered, sha256="0" * 64), offered)
    with pytest.raises(SourceError, match="no such file"):
        have.from_file(upstream_of(offered), offered.parent / "vllm_xpu_kernels-0.1.9-py3-none-any.whl")


# -- declared ----------------------------------------------------------------------------------------------------------


def project_with(tmp_path: Path, kernels: str, *, first: bool) -> Project:
    made = write_project(tmp_path / "project", {"1.0": {"a.py": b"x = 1\n"}}, {}, [])
    file = made.workspace.upstreams
    file.write_text("\n".join([kernels, file.read_text()] if first else [file.read_text(), kernels]))
    return Project.read(made.workspace)


def row(version: str) -> str:
    return (
        f'\n[[vllm-xpu-kernels.wheel]]\nversion = "{version}"\n'
        f'file = "vllm_xpu_kernels-{version}-py3-none-any.whl"\nsha256 = "{"ab" * 32}"\nsize = 7\n'
    )


@pytest.mark.parametrize("first", [True, False])
def test_add_writes_the_hash_that_came_in_the_order_of_versions(first: bool, offered: Path, tmp_path: Path) -> None:
    project = project_with(tmp_path, KERNELS + row("0.1.9") + row("0.1.16.1"), first=first)
    made = have.add(project, "0.1.15.4", lambda text: None)
    known = read_upstreams(project.workspace.upstreams)
    assert list(known["vllm-xpu-kernels"].wheels) == ["0.1.9", "0.1.15.4", "0.1.16.1"]
    assert known["vllm-xpu-kernels"].wheels["0.1.15.4"] == made and list(known["vllm"].releases) == ["1.0"]
    assert made.sha256 == hashlib.sha256(offered.read_bytes()).hexdigest()
    with pytest.raises(DeclarationError, match="known already"):
        have.add(Project.read(project.workspace), "0.1.15.4", lambda text: None)


@pytest.mark.parametrize("first", [True, False])
def test_add_at_the_end_stays_with_its_upstream(first: bool, offered: Path, tmp_path: Path) -> None:
    project = project_with(tmp_path, KERNELS + row("0.1.9"), first=first)
    have.add(project, "0.1.15.4", lambda text: None)
    text = project.workspace.upstreams.read_text()
    tables = [line for line in text.splitlines() if line.startswith("[")]
    at = tables.index("[vllm-xpu-kernels]")
    assert tables[at : at + 3] == ["[vllm-xpu-kernels]", *["[[vllm-xpu-kernels.wheel]]"] * 2]
    assert list(read_upstreams(project.workspace.upstreams)["vllm-xpu-kernels"].wheels) == ["0.1.9", "0.1.15.4"]


def test_add_of_what_no_index_has_changes_nothing(offered: Path, tmp_path: Path) -> None:
    project = project_with(tmp_path, KERNELS + row("0.1.9"), first=True)
    before = project.workspace.upstreams.read_bytes()
    with pytest.raises(SourceError, match=r"no wheel of vllm-xpu-kernels 7\.7"):
        have.add(project, "7.7", lambda text: None)
    with pytest.raises(DeclarationError, match="is no version"):
        have.add(project, "seven", lambda text: None)
    assert project.workspace.upstreams.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("py3-none-any.whl", "py3.whl"), "not the file name of a wheel"),
        (("vllm_xpu_kernels-0.1.9-py3", "other-0.1.9-py3"), "no wheel of vllm-xpu-kernels 0.1.9"),
        (("kernels-0.1.9-py3", "kernels-0.1.8-py3"), "no wheel of vllm-xpu-kernels 0.1.9"),
        (("size = 7", "size = 7\nx = 1"), "unknown key 'x'"),
        (("ab" * 32, "ab"), "sha256"),
    ],
)
def test_what_is_declared_wrongly_is_refused(change: tuple[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError) as error:
        project_with(tmp_path, (KERNELS + row("0.1.9")).replace(*change), first=True)
    assert words in error.value.what


def test_a_version_listed_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="listed twice"):
        project_with(tmp_path, KERNELS + row("0.1.9") + row("0.1.9"), first=True)


def test_our_own_file_knows_what_releases_ask_for() -> None:
    wheels = read_upstreams(Path(__file__).parents[3] / "vendor" / "upstreams.toml")["vllm-xpu-kernels"].wheels
    assert {"0.1.13.2", "0.1.14.1", "0.1.15.4"} <= set(wheels)
    assert len({wheel.sha256 for wheel in wheels.values()}) == len(wheels)


def test_the_url_of_requirements() -> None:
    text = "torch==2.11\nvllm_xpu_kernels @ https://h.invalid/vllm_xpu_kernels-0.1.9-cp38-abi3-linux_x86_64.whl\n"
    assert have.required_url(text).endswith("linux_x86_64.whl") and have.required_url("vllm_xpu_kernels==0.1.9\n") == ""


def test_a_pipe_is_no_wheel_and_nobody_waits_for_it(offered: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "vllm_xpu_kernels-0.1.9-py3-none-any.whl"
    os.mkfifo(pipe)
    with pytest.raises(SourceError, match="no such file"):
        have.from_file(upstream_of(offered), pipe)
