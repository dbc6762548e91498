"""Where a source archive is: the package indexes of the user's own pip configuration, and nothing else.

pip's option parser reads the configuration (files, ``PIP_*``, its own defaults), so whatever makes ``pip install`` work
on a machine makes this work too. ``unearth`` reads the index pages (PEP 503, PEP 691, ``file:`` and find-links). pip
itself is not asked to download: ``pip download`` runs the ``setup.py`` of a source archive.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patchset.errors import MissingTool, SourceError
from patchset.sources.redact import hide

if TYPE_CHECKING:
    import ssl

    from packaging.version import Version

#: One index page; the biggest known are some 30 MB.
PAGE_LIMIT = 64 * 1024 * 1024

#: Seconds to wait for an index when pip's configuration does not say (pip's own default).
DEFAULT_TIMEOUT = 15.0

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_ADVICE = "check the network and the index settings: pip config list, pip config debug"


@dataclass(frozen=True)
class PipSettings:
    """What of pip's configuration decides where a file comes from. URLs may hold credentials: never printed."""

    index_urls: tuple[str, ...] = field(default=(), repr=False)
    find_links: tuple[str, ...] = field(default=(), repr=False)
    trusted_hosts: tuple[str, ...] = ()
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = field(default=None, repr=False)
    timeout: float = DEFAULT_TIMEOUT


@dataclass(frozen=True)
class Found:
    """A source archive on an index: its file name, its hash if the index states one, and where it is.

    ``url`` may hold credentials; ``place`` is the same for people.
    """

    url: str = field(repr=False)
    filename: str
    sha256: str | None
    place: str


@dataclass(frozen=True)
class Download:
    """An open download: its bytes as they come, and how many there should be if the server says so."""

    chunks: Iterator[bytes]
    length: int | None


def read_pip_settings() -> PipSettings:
    """The index settings that pip in this environment would use.

    Format restrictions (``only-binary``) are left aside: they say what may be installed, and nothing is installed here.

    :raises SourceError: pip's configuration cannot be read.
    :raises MissingTool: this environment's pip has no option parser where every pip from 19.3 on has had it.
    """
    said = io.StringIO()
    try:
        from pip._internal.commands import create_command

        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            options = create_command("download").parse_args([])[0]
        index_url, extra, no_index = options.index_url, options.extra_index_urls, options.no_index
        find_links = options.find_links
    except (ImportError, AttributeError, TypeError) as error:
        raise MissingTool(
            f"the pip of this environment does not show its settings ({type(error).__name__}: {error})",
            next="remove .venv and run ./inv again, so that the locked pip is installed",
        ) from error
    except SystemExit as error:
        raise SourceError(
            "pip cannot read its configuration",
            detail=hide(said.getvalue().strip()),
            next="pip config debug shows the files it reads; correct the one it names",
        ) from error
    return PipSettings(
        index_urls=() if no_index else tuple(url for url in [index_url, *(extra or ())] if url),
        find_links=tuple(os.path.expanduser(place) for place in find_links or ()),
        trusted_hosts=tuple(getattr(options, "trusted_hosts", None) or ()),
        cert=getattr(options, "cert", None) or None,
        client_cert=getattr(options, "client_cert", None) or None,
        proxy=getattr(options, "proxy", None) or None,
        timeout=float(getattr(options, "timeout", None) or DEFAULT_TIMEOUT),
    )


def find_archive(
    distribution: str, release: str, *, sha256: str | None = None, settings: PipSettings | None = None
) -> Found:
    """The ``.tar.gz`` source archive of one release.

    :param sha256: the hash it must have, if known: of several indexes, the one which lists that file is taken.
    :param settings: default: :func:`read_pip_settings`.
    :raises SourceError: no index has it, none could be asked, or they list different files under one release.
    """
    from packaging.version import InvalidVersion, Version

    try:
        wanted = Version(release)
    except InvalidVersion as error:
        raise SourceError(f"{release!r} is no release number", next="write one like 0.23.0") from error
    found, complaints = offers(distribution, settings or read_pip_settings())
    same_release = [offer for version, offer, _ in found if version == wanted]
    if not same_release:
        others = f", which has {len(found)} others" if found else ""
        raise SourceError(
            f"no source archive of {distribution} {release} on the configured package index{others}",
            detail="\n".join(complaints),
            next=_ADVICE,
        )
    stated = {offer.sha256 for offer in same_release if offer.sha256}
    if sha256:
        fitting = [offer for offer in same_release if offer.sha256 in (sha256, None)]
        if not fitting:
            raise SourceError(
                f"the index lists {same_release[0].filename} with sha256 {', '.join(sorted(stated))}; "
                f"expected {sha256}",
                where=same_release[0].place,
                next="do not use that file; find out which of the two is the release, then lock again",
            )
    elif len(stated) > 1:
        raise SourceError(
            f"the configured indexes list different files as {distribution} {release}",
            detail="\n".join(f"{offer.sha256} {offer.place}" for offer in same_release),
            next="leave one of the indexes out (pip config list), or give the sha256 in the lock",
        )
    else:
        fitting = same_release
    return next((offer for offer in fitting if offer.sha256), fitting[0])


def available_releases(distribution: str, *, settings: PipSettings | None = None) -> tuple[Version, ...]:
    """Every release that has a source archive on the configured indexes and is not yanked, oldest first.

    :raises SourceError: there is none, or no index could be asked.
    """
    found, complaints = offers(distribution, settings or read_pip_settings())
    releases = {version for version, _, yanked in found if not yanked}
    if not releases:
        raise SourceError(
            f"no source archive of {distribution} on the configured index", detail="\n".join(complaints), next=_ADVICE
        )
    return tuple(sorted(releases))


@contextlib.contextmanager
def open_download(url: str, *, settings: PipSettings | None = None) -> Iterator[Download]:
    """The bytes of *url* (http, https or file), with the user's proxy, certificates and credentials.

    :raises SourceError: the server refuses, cannot be reached, or breaks off; also while the chunks are read.
    """
    import httpx2

    with _client(settings or read_pip_settings()) as client:
        try:
            # identity: a server that compresses once more would deliver other bytes than were hashed.
            with client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response:
                if response.status_code != 200:
                    raise SourceError(
                        f"the server answered {response.status_code} {response.reason_phrase}",
                        where=hide(url),
                        next=_ADVICE,
                    )
                length = response.headers.get("Content-Length", "")
                yield Download(response.iter_raw(256 * 1024), int(length) if length.isdigit() else None)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise SourceError(
                f"the download failed or broke off: {_reason(error)}", where=hide(url), next=_ADVICE
            ) from error


def offers(
    distribution: str, settings: PipSettings, *, wheels: bool = False
) -> tuple[list[tuple[Version, Found, bool]], list[str]]:
    """(version, file, is yanked) of every source archive, or wheel, in the order of the sources, and what went wrong where.

    Each source is asked by a finder of its own: in one finder, an index that cannot be reached hides all the others.
    """
    import httpx2
    from packaging.version import Version
    from unearth import PackageFinder

    sources: list[dict[str, Any]] = [{"find_links": [place]} for place in settings.find_links]
    sources += [{"index_urls": [url]} for url in settings.index_urls]
    if not sources:
        # unearth would fall back on a host of its own choice; the user has chosen none.
        return [], ["pip is configured with no-index and without find-links"]
    suffix = ".whl" if wheels else ".tar.gz"
    found: list[tuple[Version, Found, bool]] = []
    with _client(settings) as client, _unearth_complaints() as complaints:
        for source in sources:
            source["only_binary" if wheels else "no_binary"] = [distribution]
            finder = PackageFinder(client, ignore_compatibility=True, **source)
            try:
                packages = list(finder.find_all_packages(distribution, allow_yanked=True))
            except (httpx2.HTTPError, httpx2.InvalidURL, SourceError, ValueError, OSError) as error:
                place = next(iter(source.values()))[0]
                complaints.append(hide(f"{place}: {_reason(error)}"))
                continue
            for package in packages:
                link = package.link
                # A page from the network has no business naming a file of this machine.
                strayed = link.is_file and str(link.comes_from).startswith("http")
                if package.version and not link.is_vcs and not strayed and link.filename.endswith(suffix):
                    digest = str((link.hash_option or {}).get("sha256", [""])[0]).lower()
                    offer = Found(
                        link.url_without_fragment,
                        link.filename,
                        digest if _SHA256.match(digest) else None,
                        hide(link.url_without_fragment),
                    )
                    found.append((Version(package.version), offer, link.is_yanked))
    return found, complaints


def _client(settings: PipSettings) -> Any:
    """An unearth client that goes the way pip would: certificates, proxy, trusted hosts, credentials, no questions."""
    import httpx2
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import PyPIClient

    class Client(PyPIClient):
        def get(self, url: str, **kwargs: Any) -> httpx2.Response:  # type: ignore[override]
            """As the parent's, but a page is read only up to :data:`PAGE_LIMIT`."""
            with self.stream("GET", url, **kwargs) as response:
                body = _bounded(response.iter_bytes(), hide(url))
                headers = [
                    (name, value)
                    for name, value in response.headers.items()
                    if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
                ]
                return httpx2.Response(response.status_code, headers=headers, content=body, request=response.request)

    try:
        checked, unchecked = _tls(settings, verify=True), _tls(settings, verify=False)
    except OSError as error:
        raise SourceError(
            f"the certificates that pip is configured with cannot be read: {error}",
            where=settings.cert or settings.client_cert or "",
            next="pip config list; correct cert",
        ) from error
    mounts = {
        # unearth's own transport for trusted hosts goes past the proxy; behind one, such an index is out of reach.
        f"{scheme}://{host}": httpx2.HTTPTransport(
            verify=unchecked, trust_env=False, proxy=settings.proxy or _environment_proxy(scheme, host)
        )
        for host in settings.trusted_hosts
        for scheme in ("http", "https")
    }
    try:
        client = Client(
            trusted_hosts=settings.trusted_hosts,
            verify=checked,
            timeout=settings.timeout,
            proxy=settings.proxy,
            mounts=mounts,
            follow_redirects=True,
        )
    except (ValueError, ImportError, httpx2.InvalidURL) as error:
        raise SourceError(
            f"the configured proxy cannot be used: {hide(str(error))}",
            next="pip config list; correct proxy, or the *_proxy variables",
        ) from error
    client.auth = MultiDomainBasicAuth(prompting=False, index_urls=[*settings.index_urls, *settings.find_links])
    return client


def _tls(settings: PipSettings, *, verify: bool) -> ssl.SSLContext:
    import ssl

    import httpx2

    # The order of pip's own HTTP library: the option first, then the two variables. Without any, the system's store.
    bundle = settings.cert or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    if not verify:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif bundle:
        folder = os.path.isdir(bundle)
        context = ssl.create_default_context(cafile=None if folder else bundle, capath=bundle if folder else None)
    else:
        context = httpx2.create_ssl_context()
    if settings.client_cert:
        context.load_cert_chain(settings.client_cert)
    return context


def _environment_proxy(scheme: str, host: str) -> str | None:
    proxies = urllib.request.getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _bounded(chunks: Iterator[bytes], place: str) -> bytes:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > PAGE_LIMIT:
            raise SourceError(f"the index page is bigger than {PAGE_LIMIT} bytes", where=place, next=_ADVICE)
    return bytes(body)


@contextlib.contextmanager
def _unearth_complaints() -> Iterator[list[str]]:
    """What unearth only logs (an index that answers 404, a host not trusted), collected for an error's detail."""
    complaints: list[str] = []
    handler = _Collector(complaints.append)
    logger = logging.getLogger("unearth")
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False  # else Python prints them, past the console
    try:
        yield complaints
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


class _Collector(logging.Handler):
    def __init__(self, sink: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        self._sink(hide(record.getMessage()))


def _reason(error: BaseException) -> str:
    return hide(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
