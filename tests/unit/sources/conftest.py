"""A package index on this machine, and a pip configuration that knows no other."""

from __future__ import annotations

import base64
import io
import json
import os
import ssl
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from patchset.store import Store

#: Port 9 (discard) of this machine: nothing listens, and a connection is refused at once.
NOBODY = "http://127.0.0.1:9"


@dataclass
class Answer:
    body: bytes = b""
    status: int = 200
    content_type: str = "application/octet-stream"
    #: What Content-Length says; -1: the truth; None: not sent.
    length: int | None = -1
    #: Set when the body may be sent.
    gate: threading.Event | None = None
    location: str = ""


@dataclass
class Site:
    url: str
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    #: user:password that every request must carry, if set.
    login: str = ""

    def put(self, path: str, body: bytes, **more: object) -> str:
        self.answers[path] = Answer(body, **more)  # type: ignore[arg-type]
        return self.url + path

    def index(self, distribution: str, files: list[dict[str, object]]) -> str:
        """A PEP 691 page; returns the index URL."""
        page = json.dumps({"meta": {"api-version": "1.0"}, "name": distribution, "files": files}).encode()
        self.put(f"/simple/{distribution}/", page, content_type="application/vnd.pypi.simple.v1+json")
        return self.url + "/simple"


def start_site(context: ssl.SSLContext | None = None) -> tuple[Site, ThreadingHTTPServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            # A proxy is asked with the whole URL.
            path = "/" + self.path.split("/", 3)[3] if "://" in self.path else self.path
            answer = site.answers.get(path, Answer(status=404))
            login = "Basic " + base64.b64encode(site.login.encode()).decode()
            if site.login and self.headers.get("Authorization") != login:
                answer = Answer(status=401)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            if answer.location:
                self.send_header("Location", answer.location)
            if answer.length is not None:
                self.send_header("Content-Length", str(len(answer.body) if answer.length < 0 else answer.length))
            self.end_headers()
            if answer.gate:
                answer.gate.wait(30)
            try:
                self.wfile.write(answer.body)
            except OSError:
                pass  # the one who asked has hung up, as some of the tests mean to

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    site = Site(f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    return site, server


@pytest.fixture
def site() -> Iterator[Site]:
    made, server = start_site()
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def other_site() -> Iterator[Site]:
    made, server = start_site()
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def tls_site() -> Iterator[Site]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).with_name("localhost.pem"))
    made, server = start_site(context)
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """Configure pip: ``pip(index_url=…, find_links=…)``. Nothing of this machine's configuration is left."""
    for name in list(os.environ):
        if (
            name.startswith("PIP_")
            or name.lower().endswith("_proxy")
            or name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)

    def configure(**options: str) -> None:
        for name, value in options.items():
            monkeypatch.setenv(f"PIP_{name.upper()}", value)

    configure(index_url=NOBODY + "/simple")
    return configure


def tar_gz(files: dict[str, bytes], *, executable: tuple[str, ...] = ()) -> bytes:
    """A plain .tar.gz of *files*."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mode = 0o775 if name in executable else 0o664
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture
def make_tar() -> Callable[..., bytes]:
    return tar_gz


@pytest.fixture
def sdist() -> bytes:
    """A small source archive with all that packaging adds."""
    return tar_gz(
        {
            "demo-1.0/PKG-INFO": b"Metadata-Version: 2.1\n",
            "demo-1.0/setup.cfg": b"[egg_info]\ntag_build = \ntag_date = 0\n\n",
            "demo-1.0/demo.egg-info/PKG-INFO": b"Metadata-Version: 2.1\n",
            "demo-1.0/demo.egg-info/SOURCES.txt": b"setup.py\n",
            "demo-1.0/demo/_version.py": b"# file generated by vcs-versioning\n"
            b"# don't change, don't track in version control\n",
            "demo-1.0/demo/__init__.py": b"x = 1\n",
            "demo-1.0/run.sh": b"#!/bin/sh\n",
            "demo-1.0/.gitignore": b"*.md\n",
            "demo-1.0/README.md": b"ignored, and tracked all the same\n",
        },
        executable=("demo-1.0/run.sh",),
    )


#: The same without them, as git tracks it.
TRACKED = {
    "demo/__init__.py": b"x = 1\n",
    "run.sh": b"#!/bin/sh\n",
    ".gitignore": b"*.md\n",
    "README.md": b"ignored, and tracked all the same\n",
}


@pytest.fixture
def tracked() -> dict[str, bytes]:
    return dict(TRACKED)


def run_git(*words: str, cwd: Path) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    return subprocess.run(
        ["git", *words], cwd=cwd, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A bare repository: tag v1.0 (annotated) on the small project, and a later commit on main."""
    work = tmp_path / "work"
    work.mkdir()
    run_git("init", "-q", "-b", "main", cwd=work)
    for name, data in TRACKED.items():
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_bytes(data)
    (work / "run.sh").chmod(0o755)
    run_git("add", "-A", "-f", cwd=work)
    run_git("commit", "-q", "-m", "one", cwd=work)
    run_git("tag", "-a", "-m", "release", "v1.0", cwd=work)
    (work / "later").write_text("x")
    run_git("add", "-A", cwd=work)
    run_git("commit", "-q", "-m", "two", cwd=work)
    run_git("clone", "-q", "--bare", str(work), str(tmp_path / "up.git"), cwd=tmp_path)
    return tmp_path / "up.git"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


@pytest.fixture
def git() -> Callable[..., str]:
    """Run the real git: ``git("rev-parse", "HEAD", cwd=…)`` returns what it prints."""
    return run_git
