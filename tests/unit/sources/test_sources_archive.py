from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from patchset.errors import SourceError
from patchset.sources import archive, index

NAME = "demo-1.0.tar.gz"
BODY = os.urandom(300_000)
HASH = hashlib.sha256(BODY).hexdigest()
ROOT = Path(__file__).parents[3]

CHILD = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from patchset.sources import archive, index
url, sha256, cache = sys.argv[1:4]
found = index.Found(url, "{NAME}", None, url)
print(archive.fetch("{NAME}", sha256, cache=Path(cache), locate=lambda: found).sha256)
"""


def at(url: str, sha256: str | None = None):
    return lambda: index.Found(url, NAME, sha256, url)


def nowhere():
    raise AssertionError("asked the index")


def start(url: str, cache: Path, **more: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, url, HASH, str(cache)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )  # type: ignore[call-overload]


def test_brought_once_then_offline(site, pip, tmp_path):
    url, steps = site.put("/" + NAME, BODY), []
    got = archive.fetch(
        NAME, HASH, cache=tmp_path / "a", locate=at(url, HASH), progress=lambda done, total: steps.append((done, total))
    )
    assert (got.sha256, got.size, got.note) == (HASH, len(BODY), "")
    assert got.path.read_bytes() == BODY and got.path.stat().st_mode & 0o777 == 0o644
    assert steps[-1] == (len(BODY), len(BODY))
    assert os.listdir(tmp_path / "a") == [NAME]
    again = archive.fetch(NAME, HASH, cache=tmp_path / "a", locate=nowhere)
    assert again == got and len(site.asked) == 1


def test_without_a_lock_the_index_hash_counts(site, pip, tmp_path):
    url = site.put("/" + NAME, BODY)
    assert archive.fetch(NAME, None, cache=tmp_path, locate=at(url, HASH)).sha256 == HASH
    # The index is asked, the file is not brought a second time.
    assert archive.fetch(NAME, None, cache=tmp_path, locate=at(url, HASH)).sha256 == HASH
    assert site.asked == ["/" + NAME]


FAULTS = {
    "truncated": ({"body": BODY[:1000], "length": len(BODY)}, "broke off"),
    "truncated, length unknown": ({"body": BODY[:1000], "length": None}, "arrived with sha256"),
    "wrong hash": ({"body": BODY + b"x"}, "arrived with sha256"),
    "not there": ({"body": b"", "status": 404}, "answered 404"),
    "server error": ({"body": BODY, "status": 503}, "answered 503"),
    "too big, as stated": ({"body": b"", "length": 10_000_000}, "bigger than 1000000"),
    "too big, not stated": ({"body": bytes(1_100_000), "length": None}, "bigger than 1000000"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("known_by", ["lock", "index"])
def test_faults_keep_nothing(site, pip, tmp_path, fault, known_by):
    answer, said = FAULTS[fault]
    url = site.put("/" + NAME, **answer)
    with pytest.raises(SourceError, match=said) as raised:
        archive.fetch(
            NAME,
            HASH if known_by == "lock" else None,
            cache=tmp_path / "a",
            locate=at(url, HASH if known_by == "index" else None),
            size_limit=1_000_000,
        )
    assert os.listdir(tmp_path / "a") == []
    assert raised.value.where and raised.value.next


def test_no_network_and_a_cold_cache(pip, tmp_path):
    with pytest.raises(SourceError, match="failed or broke off"):
        archive.fetch(NAME, HASH, cache=tmp_path, locate=at("http://127.0.0.1:9/x"))
    assert os.listdir(tmp_path) == []
    with pytest.raises(SourceError, match="no source archive of demo"):
        archive.fetch(NAME, HASH, cache=tmp_path, locate=lambda: index.find_archive("demo", "1.0"))


def test_lock_and_index_disagree(site, pip, tmp_path):
    url = site.put("/" + NAME, BODY)
    with pytest.raises(SourceError, match="the lock says " + HASH):
        archive.fetch(NAME, HASH, cache=tmp_path, locate=at(url, "0" * 64))
    assert site.asked == [] and os.listdir(tmp_path) == []


def test_changed_cached_file(site, pip, tmp_path):
    (tmp_path / NAME).write_bytes(BODY[:-1] + bytes([BODY[-1] ^ 1]))
    changed = hashlib.sha256(BODY[:-1] + bytes([BODY[-1] ^ 1])).hexdigest()
    with pytest.raises(SourceError) as raised:
        archive.fetch(NAME, HASH, cache=tmp_path, locate=at("http://127.0.0.1:9/x"))
    assert changed in raised.value.detail and (tmp_path / NAME).read_bytes() != BODY  # a failure changes nothing

    got = archive.fetch(NAME, HASH, cache=tmp_path, locate=at(site.put("/" + NAME, BODY)))
    assert got.path.read_bytes() == BODY and changed in got.note
    assert sorted(os.listdir(tmp_path)) == [NAME, f"{NAME}.changed-{changed[:8]}"]


@pytest.mark.parametrize(
    "name", ["../demo-1.0.tar.gz", "a/b.tar.gz", ".x.tar.gz", "demo-1.0.zip", "-x.tar.gz", "a\n.tar.gz", ""]
)
def test_unsafe_names(tmp_path, name):
    with pytest.raises(SourceError, match="no name for a source archive"):
        archive.fetch(name, HASH, cache=tmp_path, locate=nowhere)


def test_folder_that_cannot_be_written(site, pip, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SourceError, match=r"cannot (read|write)"):
        archive.fetch(NAME, HASH, cache=tmp_path / "file", locate=at(site.put("/" + NAME, BODY)))


def test_no_room(site, pip, tmp_path):
    # A bound on the size of a file fails a write just as a full disk does, and needs no rights.
    script = CHILD.replace(
        "url, sha256", "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\nurl, sha256"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, site.put("/" + NAME, BODY), HASH, str(tmp_path / "a")],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1 and f"SourceError: {tmp_path / 'a'}: cannot write {NAME}" in ended.stderr
    assert os.listdir(tmp_path / "a") == []


def test_two_at_once_bring_it_once(site, pip, tmp_path):
    gate = threading.Event()
    url = site.put("/" + NAME, BODY, gate=gate)
    first = start(url, tmp_path)
    second = start(url, tmp_path)
    while not site.asked:
        assert first.poll() is None or second.poll() is None
    gate.set()
    for child in (first, second):
        out, err = child.communicate(timeout=60)
        assert (child.returncode, out.strip()) == (0, HASH), err
    assert site.asked == ["/" + NAME] and os.listdir(tmp_path) == [NAME]


def test_killed_while_downloading(site, pip, tmp_path):
    gate = threading.Event()
    url = site.put("/" + NAME, BODY, gate=gate)
    child = start(url, tmp_path)
    while not any(name.endswith(".part") for name in os.listdir(tmp_path)):
        assert child.poll() is None, child.communicate()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    gate.set()
    assert [name.endswith(".part") for name in os.listdir(tmp_path)] == [True]
    assert archive.fetch(NAME, HASH, cache=tmp_path, locate=at(url)).path.read_bytes() == BODY
    assert os.listdir(tmp_path) == [NAME]
