"""A release that is new on an index is listed, and made known by the hash of the bytes that came."""

from __future__ import annotations

import hashlib
import io
import tarfile

import pytest
from made_project import write_project

from patchset import releases
from patchset.errors import DeclarationError, SourceError
from patchset.resolve import Project


def sdist(release, pkg_info=True):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name in ["a.py", *(["PKG-INFO"] if pkg_info else [])]:
            info = tarfile.TarInfo(f"vllm-{release}/{name}")
            info.mtime = 1_790_000_000
            tar.addfile(info, io.BytesIO(b""))
    return out.getvalue()[:4] + b"\0\0\0\0" + out.getvalue()[8:]  # gzip writes the time there


@pytest.fixture
def project(tmp_path, site, pip, monkeypatch):
    monkeypatch.delenv("PATCHSET_VENDOR", raising=False)
    made = write_project(tmp_path / "clone", {"0.20.0": {"a.py": b"x\n"}, "0.22.0": {"a.py": b"y\n"}}, {}, [])
    files = []
    for release in ("0.19.0", "0.22.0", "0.23.0", "0.24.0rc1", "0.9.0", "0.21.0", "0.25.0"):
        data = sdist(release, pkg_info=release != "0.25.0")
        name = f"vllm-{release}.tar.gz"
        url = site.put(f"/{name}", data)
        files.append({"filename": name, "url": url, "hashes": {"sha256": hashlib.sha256(data).hexdigest()}})
    pip(index_url=site.index("vllm", files))
    return made


def test_later_releases_of_the_index_are_new(project):
    listed = releases.listed(project)
    assert (listed.known, listed.new, listed.why) == (("0.20.0", "0.22.0"), ("0.23.0", "0.25.0"), "")


def test_index_that_cannot_be_asked_is_said(project, pip):
    pip(index_url="http://127.0.0.1:9/simple")
    listed = releases.listed(project)
    assert listed.new == () and "no source archive of vllm" in listed.why


@pytest.mark.parametrize(("release", "place"), [("0.23.0", 2), ("0.21.0", 1)])
def test_release_is_made_known_by_its_hash_in_its_place(project, release, place):
    before = project.workspace.upstreams.read_text()
    added = releases.add(project, release, lambda text: None)
    now = Project.read(project.workspace).upstreams["vllm"].releases
    assert list(now).index(release) == place and now[release] == added
    assert (added.sha256, added.size) == (hashlib.sha256(sdist(release)).hexdigest(), len(sdist(release)))
    assert added.date.timestamp() == 1_790_000_000
    text = project.workspace.upstreams.read_text()
    assert [line for line in before.splitlines() if line not in text.splitlines()] == []
    assert text.index('"0.20.0"') < text.index(f'"{release}"')
    with pytest.raises(DeclarationError, match="known already"):
        releases.add(Project.read(project.workspace), release, lambda text: None)


@pytest.mark.parametrize(
    ("release", "error", "words"),
    [
        ("0.99.0", SourceError, "no source archive"),
        ("x", DeclarationError, "normal form"),
        ("0.22", DeclarationError, r"0\.22\.0 is known already"),
        ("0.25.0", SourceError, "no PKG-INFO"),
    ],
)
def test_release_that_cannot_be_had_changes_nothing(project, release, error, words):
    before = project.workspace.upstreams.read_bytes()
    with pytest.raises(error, match=words):
        releases.add(project, release, lambda text: None)
    assert project.workspace.upstreams.read_bytes() == before
