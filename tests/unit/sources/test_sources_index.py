from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from packaging.version import Version

from patchset.errors import SourceError
from patchset.sources import index

HASH = "ab" * 32
OTHER = "cd" * 32
HERE = Path(__file__).parent


def listed(name: str, sha256: str = HASH, **more: object) -> dict[str, object]:
    return {"filename": name, "url": f"/files/{name}", "hashes": {"sha256": sha256} if sha256 else {}, **more}


def test_json_index(site, pip):
    pip(
        index_url=site.index(
            "demo",
            [
                listed("demo-1.0.tar.gz"),
                listed("demo-1.0-py3-none-any.whl"),
                listed("demo-0.9.tar.gz", OTHER),
                listed("demo-1.1.tar.gz", yanked="broken"),
                listed("demo-1.10.tar.gz", **{"requires-python": "<3"}),
                listed("demo-1.2.zip"),
                listed("demon-9.0.tar.gz"),
            ],
        )
    )
    found = index.find_archive("demo", "1.0")
    assert (found.filename, found.sha256, found.url) == ("demo-1.0.tar.gz", HASH, site.url + "/files/demo-1.0.tar.gz")
    # No wheel, no zip, no neighbour by name; the yanked one only by its exact number; requires-python is not asked.
    assert index.available_releases("demo") == (Version("0.9"), Version("1.0"), Version("1.10"))
    assert index.find_archive("demo", "1.1").filename == "demo-1.1.tar.gz"
    with pytest.raises(SourceError, match=r"no source archive of demo 1\.2"):
        index.find_archive("demo", "1.2")


def test_html_index(site, pip):
    page = f'<a href="../../files/demo-1.0.tar.gz#sha256={HASH}">demo-1.0.tar.gz</a>'
    site.put("/simple/demo/", page.encode(), content_type="text/html")
    pip(index_url=site.url + "/simple")
    found = index.find_archive("demo", "1.0")
    assert (found.sha256, found.url) == (HASH, site.url + "/files/demo-1.0.tar.gz")


def test_find_links_and_file_index(tmp_path, pip):
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "demo-1.0.tar.gz").write_bytes(b"one")
    page = tmp_path / "simple" / "demo"
    page.mkdir(parents=True)
    (page / "index.html").write_text(f'<a href="demo-2.0.tar.gz#sha256={HASH}">x</a>')
    (page / "demo-2.0.tar.gz").write_bytes(b"two")
    pip(no_index="1", find_links=str(folder))
    found = index.find_archive("demo", "1.0")
    assert found.sha256 is None
    with index.open_download(found.url) as download:
        assert b"".join(download.chunks) == b"one"
    pip(no_index="0", index_url=(tmp_path / "simple").as_uri())
    found = index.find_archive("demo", "2.0")
    assert found.sha256 == HASH
    with index.open_download(found.url) as download:
        assert b"".join(download.chunks) == b"two" and download.length == 3


def test_no_index_asks_nobody(site, pip):
    pip(index_url=site.index("demo", [listed("demo-1.0.tar.gz")]), no_index="1")
    with pytest.raises(SourceError) as raised:
        index.find_archive("demo", "1.0")
    assert "no-index" in raised.value.detail and site.asked == []


def test_one_dead_index_does_not_hide_the_other(site, pip):
    # NOBODY, the fixture's index-url, refuses connections.
    pip(extra_index_url=site.index("demo", [listed("demo-1.0.tar.gz")]))
    assert index.find_archive("demo", "1.0").sha256 == HASH


def test_all_dead_names_each(site, pip):
    pip(extra_index_url=site.url + "/empty")
    with pytest.raises(SourceError) as raised:
        index.find_archive("demo", "1.0")
    assert "127.0.0.1:9" in raised.value.detail and "404" in raised.value.detail and raised.value.next


def test_indexes_that_disagree(site, other_site, pip):
    pip(
        index_url=site.index("demo", [listed("demo-1.0.tar.gz", HASH)]),
        extra_index_url=other_site.index("demo", [listed("demo-1.0.tar.gz", OTHER)]),
    )
    with pytest.raises(SourceError, match="different files"):
        index.find_archive("demo", "1.0")
    assert index.find_archive("demo", "1.0", sha256=OTHER).url.startswith(other_site.url)
    with pytest.raises(SourceError, match="expected " + "ef" * 32):
        index.find_archive("demo", "1.0", sha256="ef" * 32)


def test_credentials_work_and_stay_hidden(site, pip):
    site.login = "me:s3cr@t"
    site.index("demo", [listed("demo-1.0.tar.gz")])
    site.put("/files/demo-1.0.tar.gz", b"content")
    pip(index_url=site.url.replace("://", "://me:s3cr%40t@") + "/simple")
    found = index.find_archive("demo", "1.0")
    with index.open_download(found.url) as download:
        assert b"".join(download.chunks) == b"content"
    assert "s3cr" not in repr(found) + repr(index.read_pip_settings())
    site.login = "me:changed"
    with pytest.raises(SourceError) as raised:
        index.find_archive("demo", "1.0")
    assert "401" in raised.value.detail and "s3cr" not in f"{raised.value}{raised.value.as_dict()}"


@pytest.mark.parametrize("by", ["option", "environment"])
def test_proxy_also_for_a_trusted_host(site, pip, monkeypatch, by):
    site.index("demo", [{**listed("demo-1.0.tar.gz"), "url": "http://index.invalid/files/demo-1.0.tar.gz"}])
    site.put("/files/demo-1.0.tar.gz", b"content")
    pip(index_url="http://index.invalid/simple", trusted_host="index.invalid")
    if by == "option":
        pip(proxy=site.url)
    else:
        monkeypatch.setenv("http_proxy", site.url)
    found = index.find_archive("demo", "1.0")
    with index.open_download(found.url) as download:
        assert b"".join(download.chunks) == b"content"
    assert site.asked == ["http://index.invalid/simple/demo/", "http://index.invalid/files/demo-1.0.tar.gz"]


def test_untrusted_http_host_is_not_asked(site, pip):
    site.index("demo", [listed("demo-1.0.tar.gz")])
    pip(index_url="http://index.invalid/simple", proxy=site.url)
    with pytest.raises(SourceError) as raised:
        index.find_archive("demo", "1.0")
    assert "trusted" in raised.value.detail and site.asked == []


def test_certificates(tls_site, pip):
    pip(index_url=tls_site.index("demo", [listed("demo-1.0.tar.gz")]))
    with pytest.raises(SourceError) as raised:
        index.find_archive("demo", "1.0")
    assert "CERTIFICATE_VERIFY_FAILED" in raised.value.detail
    pip(trusted_host="127.0.0.1")
    assert index.find_archive("demo", "1.0").sha256 == HASH
    pip(trusted_host="", cert=str(HERE / "localhost.pem"))
    assert index.find_archive("demo", "1.0").sha256 == HASH


def test_missing_certificate_file_is_named(site, pip, tmp_path):
    pip(index_url=site.url + "/simple", cert=str(tmp_path / "none.pem"))
    with pytest.raises(SourceError) as raised:
        index.find_archive("demo", "1.0")
    assert "none.pem" in raised.value.where


def test_page_is_bounded(site, pip, monkeypatch):
    pip(index_url=site.index("demo", [listed(f"demo-1.{n}.tar.gz") for n in range(100)]))
    assert len(index.available_releases("demo")) == 100
    monkeypatch.setattr(index, "PAGE_LIMIT", 1000)
    with pytest.raises(SourceError) as raised:
        index.available_releases("demo")
    assert "bigger than 1000 bytes" in raised.value.detail


def test_a_network_page_cannot_name_a_local_file(site, pip, tmp_path):
    (tmp_path / "demo-1.0.tar.gz").write_bytes(b"x")
    pip(index_url=site.index("demo", [{**listed("demo-1.0.tar.gz"), "url": (tmp_path / "demo-1.0.tar.gz").as_uri()}]))
    with pytest.raises(SourceError, match="no source archive"):
        index.find_archive("demo", "1.0")


def test_redirects_are_followed(site, pip):
    site.put("/a.tar.gz", b"", status=302, location="/b.tar.gz")
    site.put("/b.tar.gz", b"content")
    pip()
    with index.open_download(site.url + "/a.tar.gz") as download:
        assert hashlib.sha256(b"".join(download.chunks)).hexdigest() == hashlib.sha256(b"content").hexdigest()


def test_broken_pip_configuration(pip, tmp_path):
    (tmp_path / "pip.conf").write_text("[global\nindex-url = x\n")
    pip(config_file=str(tmp_path / "pip.conf"))
    with pytest.raises(SourceError, match="cannot read its configuration") as raised:
        index.read_pip_settings()
    assert "pip.conf" in raised.value.detail


def test_configuration_file_is_read(pip, tmp_path):
    (tmp_path / "pip.conf").write_text(
        "[global]\nextra-index-url =\n  http://a.invalid/simple\n  http://b.invalid/simple\ntimeout = 7\n"
        "[download]\ntrusted-host = a.invalid\n"
    )
    pip(config_file=str(tmp_path / "pip.conf"), index_url="http://c.invalid/simple")
    settings = index.read_pip_settings()
    assert settings.index_urls == ("http://c.invalid/simple", "http://a.invalid/simple", "http://b.invalid/simple")
    assert settings.timeout == 7 and settings.trusted_hosts == ("a.invalid",)
