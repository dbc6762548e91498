from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from patchset.errors import DeclarationError, LockError, SourceError
from patchset.sources import Pin, base_from_archive, base_from_checkout, resolve
from patchset.sources.base import default_filename, drop_generated

SILENT = "http://127.0.0.1:9/up.git"


@pytest.fixture
def indexed(site, pip, sdist):
    """The small project on an index; returns its hash."""
    site.put("/files/demo-1.0.tar.gz", sdist)
    sha256 = hashlib.sha256(sdist).hexdigest()
    pip(
        index_url=site.index(
            "demo", [{"filename": "demo-1.0.tar.gz", "url": "/files/demo-1.0.tar.gz", "hashes": {"sha256": sha256}}]
        )
    )
    return sha256


@pytest.fixture
def rooms(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "scratch").mkdir()
    return {"cache": tmp_path / "cache", "scratch": tmp_path / "scratch"}


def test_archive_and_checkout_give_one_tree(indexed, rooms, store, upstream, git):
    first = base_from_archive(store, Pin("demo", "1.0"), **rooms)
    second = base_from_checkout(store, str(upstream), "v1.0")
    assert first.tree == second.tree == git("rev-parse", "v1.0^{tree}", cwd=upstream)
    assert (first.source, first.archive.sha256, first.commit) == ("archive", indexed, None)
    assert (second.source, second.archive, second.commit) == (
        "checkout",
        None,
        git("rev-parse", "v1.0^{commit}", cwd=upstream),
    )
    assert os.listdir(rooms["scratch"]) == []


def test_a_refused_archive_leaves_no_scratch(site, pip, rooms, store, make_tar):
    site.put("/demo-1.0.tar.gz", make_tar({"demo-1.0/a": b"", "other/b": b""}))
    pip(index_url=site.index("demo", [{"filename": "demo-1.0.tar.gz", "url": "/demo-1.0.tar.gz", "hashes": {}}]))
    with pytest.raises(SourceError, match="more than one top-level"):
        base_from_archive(store, Pin("demo", "1.0"), **rooms)
    assert os.listdir(rooms["scratch"]) == []


def test_auto_takes_the_git_host_that_answers(site, indexed, rooms, store, upstream):
    base = resolve(Pin("demo", "1.0", url=str(upstream), ref="v1.0"), store, **rooms)
    assert (base.source, base.note, site.asked) == ("checkout", "", [])


def test_auto_takes_the_archive_when_the_host_is_silent_and_says_so(indexed, rooms, store):
    base = resolve(Pin("demo", "1.0", url=SILENT, ref="v1.0"), store, **rooms)
    assert base.source == "archive" and "took the archive" in base.note and "127.0.0.1:9" in base.note


def test_auto_with_neither_names_both(pip, rooms, store):
    with pytest.raises(SourceError) as raised:
        resolve(Pin("demo", "1.0", url=SILENT, ref="v1.0"), store, **rooms)
    assert "cannot reach the git repository" in raised.value.what and "no source archive" in raised.value.what


def test_auto_prefers_the_archive_that_is_here(site, indexed, rooms, store, upstream):
    pin = Pin("demo", "1.0", sha256=indexed)
    resolve(replace(pin, source="archive"), store, **rooms)
    before = len(site.asked)
    base = resolve(replace(pin, url=str(upstream), ref="v1.0"), store, **rooms)
    assert (base.source, base.note) == ("archive", "auto: the archive is here") and len(site.asked) == before


@pytest.mark.parametrize("source", ["auto", "archive", "checkout"])
def test_nothing_is_fetched_for_a_locked_tree_in_the_store(site, indexed, rooms, store, upstream, source):
    got = base_from_checkout(store, str(upstream), "v1.0")
    upstream.rename(upstream.with_name("gone.git"))
    pin = Pin("demo", "1.0", source, sha256=indexed, size=7, url=SILENT, ref="v1.0", commit=got.commit, tree=got.tree)
    base = resolve(pin, store, **rooms)
    assert base.tree == got.tree and "in the store" in base.note and site.asked == []
    assert base.source == ("checkout" if source == "checkout" else "archive")
    assert (base.archive is None, base.commit) == ((True, got.commit) if source == "checkout" else (False, None))


def test_the_locked_tree_or_none(indexed, rooms, store, upstream, git):
    other = git("rev-parse", "main^{tree}", cwd=upstream)
    with pytest.raises(LockError, match=other):
        resolve(Pin("demo", "1.0", "archive", sha256=indexed, tree=other), store, **rooms)
    with pytest.raises(LockError, match=other):
        resolve(Pin("demo", "1.0", "checkout", url=str(upstream), ref="v1.0", tree=other), store, **rooms)


def test_auto_with_a_tag_that_moved(indexed, rooms, store, upstream, git):
    tree = git("rev-parse", "v1.0^{tree}", cwd=upstream)
    git("update-ref", "refs/tags/v1.0", "main", cwd=upstream)
    base = resolve(Pin("demo", "1.0", sha256=indexed, url=str(upstream), ref="v1.0", tree=tree), store, **rooms)
    assert (base.source, base.tree) == ("archive", tree) and "not the locked one" in base.note


def test_pins_that_contradict_themselves(rooms, store):
    for pin in (Pin("demo", "1.0", "ftp"), Pin("demo", "1.0", "checkout")):
        with pytest.raises(DeclarationError):
            resolve(pin, store, **rooms)


def test_default_filename():
    assert default_filename(Pin("vllm-XPU.kernels", "0.1")) == "vllm_xpu_kernels-0.1.tar.gz"


def test_only_what_is_generated_is_dropped(tmp_path):
    for name in ("pkg", "other", "x.egg-info", "pkg/deep.egg-info"):
        (tmp_path / name).mkdir()
    files = {
        "PKG-INFO": "",
        "x.egg-info/y": "",
        "pkg/deep.egg-info/z": "",
        "other/_version.py": "__version__ = '1'\n",
        "pkg/_version.py": "# file generated by setuptools-scm\n# don't change, don't track in version control\n",
        "pkg/PKG-INFO": "",
        "setup.cfg": "[egg_info]\ntag_build =\ntag_date = 0\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert drop_generated(tmp_path) == ("PKG-INFO", "pkg/_version.py", "setup.cfg", "x.egg-info")
    assert (tmp_path / "other/_version.py").exists() and (tmp_path / "pkg/deep.egg-info/z").exists()
    for text in (
        "[egg_info]\ntag_date = 0\n[flake8]\nx = 1\n",
        "[egg_info]\ntag_svn = 1\n",
        "no section",
        "[metadata]\nname = x\n",
    ):
        (tmp_path / "setup.cfg").write_text(text)
        assert drop_generated(tmp_path) == ()
