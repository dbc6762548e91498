"""Intel's offline compiler for GPUs (``ocloc``) with the libraries that it wants, out of Debian's packages.

Facts:

* ``intel-ocloc`` 26.27 is what upstream's image of vLLM 0.33.0 carries; older ones in Debian do not know the B70's chip.
* It wants a newer C library than most machines have, so it comes with its own and is started through its own ``ld-linux``.
* The six packages take 30 MB, unpacked 115 MB. What they depend on beyond that (gconv, gcc-base) is not needed to compile.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from patchset import process
from patchset.errors import SourceError
from patchset.toolchains.debian import Package, fetch, unpack

PACKAGES = (
    Package(
        "pool/main/i/intel-compute-runtime/intel-ocloc_26.27.39122.14-1_amd64.deb",
        "6157b864ac4ffa9ab7c9e099bd41713e4a9f051ec007262c11f8f95e328535f4",
    ),
    Package(
        "pool/main/i/intel-graphics-compiler2/libigc2_2.40.14-1_amd64.deb",
        "5ccd335c0427ece223409aafa83e7fbf0980663015dd31cf0bbd4268bb7b4831",
    ),
    Package(
        "pool/main/g/glibc/libc6_2.43-7_amd64.deb",
        "5c71715c51103beb4fbba9fe9f8dff604af6610dfa71c70bff342f54a7860803",
    ),
    Package(
        "pool/main/g/gcc-16/libgcc-s1_16.2.0-4_amd64.deb",
        "d251ea642c3795e8723ac2b9eeebe511467ca04590ba70f3d555a7616787d7e3",
    ),
    Package(
        "pool/main/g/gcc-16/libstdc++6_16.2.0-4_amd64.deb",
        "cef6654bba1daece0bc0dbe0e3f69fa5a26eb6ba139f3536e6f4806bd787f3e7",
    ),
    Package(
        "pool/main/z/zlib/zlib1g_1.3.dfsg+really1.3.2-4_amd64.deb",
        "8506ce550a81ac14b047608e0df121037d9cbb10c3cc28446f68cf8c1d9d31ce",
    ),
)

_MARKER = "complete.json"
_LIBRARIES = "usr/lib/x86_64-linux-gnu"


def identity() -> str:
    """Which it is, for the keys of cached results. Nothing is fetched to find out."""
    return f"{PACKAGES[0].name}, {PACKAGES[1].name}, packages {_key()}"


def make_ready(vendor: Path, say: Callable[[str], None] = lambda text: None) -> tuple[str, ...]:
    """The words that start it; fetched and unpacked below *vendor* when first asked for.

    It is unpacked beside its place, tried, and moved there last: a run that is killed leaves nothing that is taken for it.

    :raises MissingTool, SourceError: it cannot be had, or does not run on this machine.
    """
    home = (vendor / "toolchains" / f"ocloc-{_key()[:12]}").absolute()
    part = home.with_name(f"{home.name}.part")
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f"{home.name}.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        if not (home / _MARKER).is_file():
            say("unpacking Intel's offline compiler (once)")
            files = fetch(PACKAGES, vendor / "archives", say)
            shutil.rmtree(part, ignore_errors=True)
            try:
                unpack(files, part)
                version = _version(part)
                (part / _MARKER).write_text(
                    json.dumps({"ocloc": version, "packages": {p.file: p.sha256 for p in PACKAGES}}, indent=1) + "\n",
                    "utf-8",
                )
                shutil.rmtree(home, ignore_errors=True)
                os.rename(part, home)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return _words(home)


def _words(home: Path) -> tuple[str, ...]:
    libraries = home / _LIBRARIES
    programs = sorted((home / "usr" / "bin").glob("ocloc*"))
    loader = libraries / "ld-linux-x86-64.so.2"
    if len(programs) != 1 or not loader.is_file():
        raise SourceError("Debian's packages hold no ocloc", where=str(home), next=f"delete {home} and run again")
    return (str(loader), "--library-path", str(libraries), str(programs[0]))


def _version(home: Path) -> str:
    words = _words(home)
    ended = process.run([*words, "--version"], cwd=home, env=process.clean_environment(), timeout=120)
    known = process.run([*words, "ids", "bmg-g31"], cwd=home, env=process.clean_environment(), timeout=120)
    if ended.returncode or known.returncode:
        raise SourceError(
            f"ocloc does not run here (status {ended.returncode or known.returncode})",
            where=str(home),
            detail=f"{ended.tail()}\n{known.tail()}",
            next="it is for x86-64 Linux; on such a machine report this with the lines below",
        )
    lines = ended.stdout.decode("utf-8", "replace").strip().splitlines()
    return lines[0] if lines else ""


def _key() -> str:
    return hashlib.sha256("".join(package.sha256 for package in PACKAGES).encode()).hexdigest()
