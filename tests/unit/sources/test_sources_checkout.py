from __future__ import annotations

import pytest

from patchset.errors import DeclarationError, SourceError
from patchset.sources import checkout


@pytest.mark.parametrize(
    "url",
    [
        "https://host.invalid/a/b.git",
        "http://host.invalid:8080/b",
        "ssh://git@host.invalid:22/b.git",
        "git://host.invalid/b",
        "git@host.invalid:a/b.git",
        "host.invalid:b.git",
        "https://me:pw@host.invalid/b",
        "https://[::1]:80/b",
    ],
)
def test_urls_that_pass(url):
    assert checkout.check_git_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        " https://host.invalid/b",
        "--upload-pack=touch x",
        "-oProxyCommand=x",
        "ext::sh -c touch% x",
        "EXT::x",
        "fd::17",
        "x::y",
        "ftp://host.invalid/b",
        "ext://x/y",
        "ssh://-oProxyCommand=touch/b",
        "ssh://-oX@host.invalid/b",
        "ssh://host.invalid/-b",
        "https://host.invalid",
        "https:///b",
        "-host:b",
        "me@-host:b",
        "host:-b",
        "https://a b/c",
        "https://host.invalid/b\n",
        "nothing-here",
    ],
)
def test_urls_that_do_not(url):
    with pytest.raises(DeclarationError) as raised:
        checkout.check_git_url(url)
    assert raised.value.next


def test_a_password_in_a_bad_url_stays_hidden():
    with pytest.raises(DeclarationError) as raised:
        checkout.check_git_url("ftp://me:s3cret@host.invalid/b")
    assert "s3cret" not in str(raised.value)


def test_a_path_that_is_gone(tmp_path):
    for url in (str(tmp_path / "gone.git"), f"file://{tmp_path}/gone.git"):
        with pytest.raises(SourceError, match="no git repository or bundle"):
            checkout.check_git_url(url)


@pytest.mark.parametrize("ref", ["", "-x", "a..b", "a b", "a:b", "+a", "a\n", "x.lock", "a@{1}", "^a", "a/", "~"])
def test_refs_that_do_not_pass(ref):
    with pytest.raises(DeclarationError):
        checkout.check_ref(ref)


def test_tag_becomes_a_commit_with_all_its_files(store, upstream, tracked, git):
    got = checkout.check_out(store, str(upstream), "v1.0", None)
    assert got.commit == git("rev-parse", "v1.0^{commit}", cwd=upstream)
    assert got.tree == git("rev-parse", "v1.0^{tree}", cwd=upstream)
    upstream.rename(upstream.with_name("gone.git"))
    assert {name: store.read(got.tree, name) for name in tracked} == tracked
    assert store.entry(got.tree, "run.sh").mode == "100755"
    # Nothing more is asked of a repository for a commit that is here.
    with pytest.raises(SourceError):
        checkout.check_out(store, str(upstream), "v1.0", None)
    here = checkout.commit_here(store, got.commit)
    assert here and here.tree == got.tree


def test_a_host_that_gives_files_on_demand(store, upstream, tracked, git):
    git("config", "uploadpack.allowFilter", "true", cwd=upstream)
    git("config", "uploadpack.allowAnySHA1InWant", "true", cwd=upstream)
    got = checkout.check_out(store, f"file://{upstream}", "v1.0", None)
    upstream.rename(upstream.with_name("gone.git"))
    # The base must stand without the host: its files are fetched in one go, not when somebody happens to read them.
    assert store.has_tree(got.tree) and {name: store.read(got.tree, name) for name in tracked} == tracked


def test_commit_that_no_ref_names_any_more(store, upstream, git):
    commit = git("rev-parse", "v1.0^{commit}", cwd=upstream)
    git("tag", "-d", "v1.0", cwd=upstream)
    assert checkout.check_out(store, f"file://{upstream}", None, commit).commit == commit


def test_bundle(store, upstream, tmp_path, git):
    git("bundle", "create", str(tmp_path / "one.bundle"), "v1.0", cwd=upstream)
    got = checkout.check_out(store, str(tmp_path / "one.bundle"), "v1.0", None)
    assert got.tree == git("rev-parse", "v1.0^{tree}", cwd=upstream)
    assert checkout.commit_here(store, got.commit) is not None


def test_what_cannot_be_had(store, upstream, tmp_path):
    for ref, commit in (("v9.9", None), (None, "0" * 40), ("v1.0", "0" * 40)):
        with pytest.raises(SourceError) as raised:
            checkout.check_out(store, str(upstream), ref, commit)
        assert raised.value.where == str(upstream) and raised.value.next
    with pytest.raises(SourceError) as raised:
        checkout.check_out(store, "http://me:s3cret@127.0.0.1:9/up.git", "v1.0", None)
    assert "s3cret" not in f"{raised.value.as_dict()}"
    (tmp_path / "no.bundle").write_bytes(b"# v2 git bundle\n")
    with pytest.raises(SourceError):
        checkout.check_out(store, str(tmp_path / "no.bundle"), "v1.0", None)


def test_what_is_not_asked_properly(store, upstream):
    for ref, commit in ((None, None), ("v1.0", "abc"), ("--x", None)):
        with pytest.raises(DeclarationError):
            checkout.check_out(store, str(upstream), ref, commit)
