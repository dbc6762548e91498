"""Packages of Debian's, by hash, unpacked into a folder: nothing is installed, and no list of packages is read or changed.

Facts:

* apt's own helper fetches one file by address and hash. It needs no root, takes apt's proxy and certificates, and asks
  nothing of the lists. Which mirror to ask stands in apt's sources, which ``apt-get indextargets`` reads out.
* A mirror keeps all suites in one pool, so a machine on stable reaches the files of unstable. It drops a file when a newer
  version of the package has come: a file that was fetched once is kept in ``vendor/archives``.
* ``dpkg-deb -x`` runs none of a package's scripts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from patchset import process
from patchset.errors import MissingTool, SourceError
from patchset.sources.archive import hash_file

#: A mirror of Debian to use instead of those in apt's sources.
MIRROR = "PATCHSET_DEBIAN_MIRROR"

_HELPER = "/usr/lib/apt/apt-helper"
_TIMEOUT = 1800
_MIRRORS_TRIED = 3


@dataclass(frozen=True)
class Package:
    """One file of Debian's: where it lies below a mirror, and which it is."""

    path: str
    sha256: str

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.path.rsplit("/", 1)[1]

    @property
    def name(self) -> str:
        """The package and its version."""
        name, version, _ = self.file.split("_")
        return f"{name} {version}"


def fetch(packages: Sequence[Package], archives: Path, say: Callable[[str], None] = lambda text: None) -> list[Path]:
    """The files of *packages* in *archives*; those that are not there, or are not whole, are fetched.

    :raises MissingTool: one is missing, and there is no apt to fetch it.
    :raises SourceError: no mirror gives a file with that hash.
    """
    archives = archives.absolute()
    archives.mkdir(parents=True, exist_ok=True)
    missing = [package for package in packages if _sha256(archives / package.file) != package.sha256]
    if missing:
        mirrors = _mirrors(archives, missing)
        for package in missing:
            say(f"fetching {package.name}")
            _fetch(package, mirrors, archives)
    return [archives / package.file for package in packages]


def unpack(files: Sequence[Path], folder: Path) -> None:
    """The content of all *files* in *folder*.

    :raises MissingTool: there is no dpkg-deb.
    :raises SourceError: one cannot be unpacked.
    """
    folder.mkdir(parents=True)
    for file in files:
        ended = process.run(
            ["dpkg-deb", "-x", file, folder], cwd=folder, env=process.clean_environment(), timeout=_TIMEOUT
        )
        if ended.returncode:
            raise SourceError(
                f"{file.name} could not be unpacked (status {ended.returncode})",
                where=str(file),
                detail=ended.tail(),
                next="is there room on the disk? then run again",
            )


def _mirrors(cwd: Path, missing: Sequence[Package]) -> list[str]:
    """Where to ask, best first."""
    given = os.environ.get(MIRROR)
    if given:
        return [given.rstrip("/")]
    by_hand = f"put {', '.join(package.file for package in missing)} into {cwd}, or set {MIRROR}"
    if not Path(_HELPER).is_file():
        raise MissingTool("a package of Debian's is wanted, and there is no apt here", next=by_hand)
    asked = process.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(SITE)", "Identifier: Packages"],
        cwd=cwd,
        env=process.clean_environment(),
        timeout=60,
    )
    lines = asked.stdout.decode("utf-8", "replace").splitlines()
    # With lists that were never read apt does not know whose a source is; then each may be Debian's.
    sites = [site for origin, _, site in (line.partition(" ") for line in lines) if origin in ("Debian", "") and site]
    found = list(dict.fromkeys(site.rstrip("/") for site in sites if not site.endswith("-security")))
    if asked.returncode or not found:
        raise SourceError("apt's sources name no mirror of Debian", detail=asked.tail(), next=by_hand)
    return found[:_MIRRORS_TRIED]


def _fetch(package: Package, mirrors: Sequence[str], archives: Path) -> None:
    told = []
    # apt leaves a file of its own beside one that it refused.
    with TemporaryDirectory(prefix=".fetch-", dir=archives) as folder:
        part = Path(folder) / package.file
        for mirror in mirrors:
            # apt only points at what it finds by file:, and copies what it finds by copy:.
            address = f"{re.sub('^file:', 'copy:', mirror)}/{package.path}"
            ended = process.run(
                # As who runs this: apt's own user may not write here.
                [_HELPER, "-o", "APT::Sandbox::User=root", "download-file", address, part, f"SHA256:{package.sha256}"],
                cwd=folder,
                env=process.clean_environment(),
                timeout=_TIMEOUT,
            )
            if ended.returncode == 0 and _sha256(part) == package.sha256:
                os.replace(part, archives / package.file)
                return
            told.append(ended.tail(5))
    raise SourceError(
        f"{package.name} could not be had from a mirror of Debian",
        where=package.file,
        detail="\n".join(told),
        next=f"a mirror drops a file when a newer one has come: put it into {archives}, or set {MIRROR} to a mirror that has it",
    )


def _sha256(file: Path) -> str:
    """Of a file's content; of none the empty text."""
    return hash_file(file)[0] if file.is_file() else ""
