"""The C++ compiler of the wheel's native parts: by hash from the package index, aimed at one target, with our Python.h.

Facts:

* `zig c++` is Clang with everything that it links against, for any glibc: neither the machine's compiler, binutils,
  headers nor libraries are asked. So neither they nor the Python decide about a byte (0.22.1, 0.23.0 and 0.26.0 compared:
  Python 3.10-3.13, other folders, umask, cores, and a machine with neither /usr/include nor a program but sh).
* vLLM's CI builds on PyTorch's manylinux_2_28 image (`.buildkite/image_build/image_build_torch_nightly.sh` of 0.28.0), and
  torch's own wheels say manylinux_2_28: a host that runs them has that glibc. Asked for in the end is 2.17.
* The processor is plain x86_64: without `-mcpu` a compiler may use what the machine has that it runs on.
* Optimisation and stripping are words of the compiler, not of the build: zig compiles a C++ library for each
  combination, and CMake's own trials would ask for another one.
* That library takes a minute of processor time at the first link, and 55 MB; every later link takes 0.05 s. A copy of the
  cache at another place serves as well. The compiler itself takes 400 MB.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from patchset import process
from patchset.environment import ensure, locked_pins
from patchset.errors import WheelError
from patchset.workspace import sources_digest, write_atomically

COMPILER_REQUIREMENTS = Path(__file__).with_name("compiler-requirements.lock")
TARGET = "x86_64-linux-gnu.2.28"

_NATIVE = Path(__file__).with_name("standin") / "native"
_WORDS = ("c++", "-target", TARGET, "-mcpu=x86_64", "-O2", "-g0", "-s", "-fno-sanitize=undefined")
_TIMEOUT = 3600

#: Needs the whole of the C++ library; what a build compiles must find it in the cache.
_FIRST = '#include <vector>\nextern "C" int first(int n) { return std::vector<int>(n).size(); }\n'


@dataclass(frozen=True)
class Compiler:
    """``words``: the program and what it must be told, always. ``cache``: its C++ library, compiled; only ever read."""

    words: tuple[str, ...]
    cache: Path

    def environment(self, room: Path) -> dict[str, str]:
        """What makes CMake use it, in a build that may write in *room*: a copy of the cache is put there."""
        cache = room / "compiler-cache"
        shutil.copytree(self.cache, cache)
        return {
            "PATCHSET_CXX": ";".join(self.words),
            "CMAKE_TOOLCHAIN_FILE": str(_NATIVE / "toolchain.cmake"),
            **_caches(cache),
        }


def version() -> str:
    """The compiler and its target, for the record of a wheel."""
    return f"zig c++ {locked_pins(COMPILER_REQUIREMENTS)['ziglang']} for {TARGET}"


def make_ready(envs: Path, say: Callable[[str], None] = lambda text: None) -> Compiler:
    """The compiler, installed and with its C++ library compiled: once for each environment.

    :raises MissingTool, SourceError: as :func:`~patchset.environment.ensure` does.
    :raises WheelError: the compiler does not run here.
    """
    env = ensure(envs, "compiler", COMPILER_REQUIREMENTS, say=say).parent.parent
    programs = list(env.glob("lib/*/site-packages/ziglang/zig"))
    if len(programs) != 1:
        raise WheelError(
            "the compiler's environment holds no compiler", where=str(env), next=f"delete {env} and run again"
        )
    compiler = Compiler((str(programs[0]), *_WORDS), env / "cache")
    fill_cache(compiler, say)
    return compiler


def fill_cache(compiler: Compiler, say: Callable[[str], None] = lambda text: None) -> None:
    """Compile the C++ library, unless that was done before and it still is what it was.

    It is made beside its place and moved there last, so a run that is killed leaves no cache that lacks something.

    :raises WheelError: the compiler does not run here; there is no cache then.
    """
    part = compiler.cache.with_name("cache.part")
    with compiler.cache.with_name("cache.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        known = compiler.cache.with_name("cache.sha256")
        if compiler.cache.is_dir() and known.is_file() and known.read_text("utf-8") == sources_digest(compiler.cache):
            return
        say("compiling the compiler's C++ library (once, a minute or two)")
        for left in (part, compiler.cache):
            shutil.rmtree(left, ignore_errors=True)
        part.mkdir()
        source, made = part / "first.cpp", part / "first.so"
        source.write_text(_FIRST, "utf-8")
        argv = [*compiler.words, "-shared", "-fPIC", "-std=gnu++20", "-o", str(made), str(source)]
        ended = process.run(argv, cwd=part, env=process.clean_environment(_caches(part)), timeout=_TIMEOUT)
        if ended.returncode or not made.is_file():
            raise WheelError(
                f"the compiler could not make its C++ library (status {ended.returncode})",
                where=str(part),
                next="read the words of the compiler below, mend that (is there room on the disk?) and run again",
                detail=ended.tail(),
            )
        source.unlink()
        made.unlink()
        os.rename(part, compiler.cache)
        write_atomically(known, sources_digest(compiler.cache).encode())


def _caches(folder: Path) -> dict[str, str]:
    return {"ZIG_GLOBAL_CACHE_DIR": str(folder), "ZIG_LOCAL_CACHE_DIR": str(folder)}
