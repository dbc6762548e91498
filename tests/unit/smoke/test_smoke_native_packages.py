"""Debian's packages by hash: fetched by apt's own helper from a mirror that is a folder, unpacked by dpkg-deb."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from patchset.errors import MissingTool, SourceError
from patchset.toolchains import debian, ocloc
from patchset.toolchains.debian import MIRROR, Package, fetch, unpack

needs_apt = pytest.mark.skipif(
    not (Path("/usr/lib/apt/apt-helper").is_file() and shutil.which("dpkg-deb")), reason="apt and dpkg are Debian's"
)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is a mirror, which the variable names."""
    monkeypatch.setenv(MIRROR, f"file://{tmp_path}/mirror/")
    return tmp_path / "mirror"


def package(mirror: Path, name: str, file: str, content: str) -> Package:
    """A real package of one file in *mirror*."""
    tree = mirror.parent / f"tree-{name}"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(
        f"Package: {name}\nVersion: 1.0-1\nArchitecture: amd64\nMaintainer: n <n@example.org>\nDescription: n\n",
        "utf-8",
    )
    # It must never be run.
    (tree / "DEBIAN" / "postinst").write_text(f"#!/bin/sh\ntouch {mirror.parent}/ran\n", "utf-8")
    (tree / "DEBIAN" / "postinst").chmod(0o755)
    (tree / file).parent.mkdir(parents=True)
    (tree / file).write_text(content, "utf-8")
    deb = mirror / "pool" / f"{name}_1.0-1_amd64.deb"
    deb.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, deb], check=True, capture_output=True)
    return Package(f"pool/{deb.name}", hashlib.sha256(deb.read_bytes()).hexdigest())


@needs_apt
def test_packages_are_fetched_once_and_unpacked_together(mirror: Path, tmp_path: Path) -> None:
    wanted = [package(mirror, "one", "usr/bin/one", "1"), package(mirror, "two", "usr/lib/two", "2")]
    said: list[str] = []
    files = fetch(wanted, tmp_path / "archives", said.append)
    assert said == ["fetching one 1.0-1", "fetching two 1.0-1"]
    shutil.rmtree(mirror)
    assert fetch(wanted, tmp_path / "archives", said.append) == files and len(said) == 2
    unpack(files, tmp_path / "home")
    assert (tmp_path / "home/usr/bin/one").read_text() + (tmp_path / "home/usr/lib/two").read_text() == "12"
    assert not (tmp_path / "ran").exists()


@needs_apt
def test_another_file_under_the_name_is_refused_and_nothing_stays(mirror: Path, tmp_path: Path) -> None:
    true = package(mirror, "one", "usr/bin/one", "1")
    with pytest.raises(SourceError, match="could not be had"):
        fetch([Package(true.path, "0" * 64)], tmp_path / "archives")
    assert list((tmp_path / "archives").iterdir()) == []


@needs_apt
def test_a_damaged_archive_is_fetched_anew(mirror: Path, tmp_path: Path) -> None:
    wanted = [package(mirror, "one", "usr/bin/one", "1")]
    (file,) = fetch(wanted, tmp_path / "archives")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert fetch(wanted, tmp_path / "archives") == [file] and file.read_bytes() == whole


@needs_apt
def test_a_file_that_is_no_package_is_told(tmp_path: Path) -> None:
    (tmp_path / "one_1.0-1_amd64.deb").write_bytes(b"!<arch>\n")
    with pytest.raises(SourceError, match="could not be unpacked"):
        unpack([tmp_path / "one_1.0-1_amd64.deb"], tmp_path / "home")


def test_without_apt_the_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MIRROR, raising=False)
    monkeypatch.setattr(debian, "_HELPER", str(tmp_path / "none"))
    with pytest.raises(MissingTool) as caught:
        fetch(ocloc.PACKAGES, tmp_path / "archives")
    assert all(package.file in caught.value.next for package in ocloc.PACKAGES)


@needs_apt
def test_a_toolchain_that_does_not_run_leaves_nothing(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ocloc, "PACKAGES", (package(mirror, "intel-ocloc", "usr/bin/ocloc-1", "no program"),) * 2)
    with pytest.raises(SourceError, match="no ocloc"):
        ocloc.make_ready(tmp_path / "vendor")
    assert [path.name for path in (tmp_path / "vendor/toolchains").iterdir() if path.suffix != ".lock"] == []
