"""Upstream's own setup.py makes a wheel of a tree, in an environment of ours.

Facts, read from setup.py, CMakeLists.txt and cmake/utils.cmake of 0.19.1-0.33.0 and tried on 0.20.2-0.33.0:

* `VLLM_VERSION_OVERRIDE` is used verbatim by every release.
* The only extensions for XPU are `spinloop` (0.22.0-0.26.0) and `fs_io_C` (0.25.0-0.26.0). They use Python.h and libc;
  torch is asked for by CMake all the same, hence the stand-in; compiler and headers are ours too (``compiler.py``).
* Which data files are packed is decided by git (setuptools-scm lists what is tracked) and only partly by
  `package_data`: in a plain folder the chat templates, numa_wrapper.sh and others are silently left out. So the tree's
  own list of files is handed to setuptools as the manifest that a source distribution would carry.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchset import process
from patchset.environment import ensure, locked_pins
from patchset.errors import WheelError
from patchset.store import Entry
from patchset.verify.trees import blob_id
from patchset.wheel import compiler, toolchain
from patchset.wheel.compiler import Compiler
from patchset.wheel.inspect import NATIVE, RUST
from patchset.wheel.plan import steers
from patchset.wheel.record import Member, read_members

BUILD_REQUIREMENTS = Path(__file__).with_name("build-requirements.lock")
STANDIN = Path(__file__).with_name("standin")

_TIMEOUT = 3600
_ERROR_LINE = re.compile(r"\b(fatal )?error: |CMake Error|^FAILED: ")

#: What a tree made from git never has, and what a build would pack or trip over.
_LEFTOVERS = ("build", "dist", ".deps", ".git", "PKG-INFO", "vllm.egg-info", "vllm/_version.py", "vllm/vllm-rs")


@dataclass(frozen=True)
class BuildRequest:
    """What to build.

    ``source``: a fresh folder with the tree (modes 644 and 755) which the build may write in and the caller deletes.
    ``files``: what must be in it, by path. ``release``: the upstream release. ``version``: the wheel's.
    ``epoch``: SOURCE_DATE_EPOCH of the pin. ``rust``: build the Rust front end, or fail.
    """

    source: Path
    files: Mapping[str, Entry]
    release: str
    version: str
    epoch: int
    rust: bool = False


def build(
    request: BuildRequest, *, envs: Path, scratch: Path, log: Path, say: Callable[[str], None] = lambda text: None
) -> tuple[Member, ...]:
    """The members of the wheel that upstream's build makes of *request*.

    :param envs: where build environments are made and found again.
    :param scratch: where a temporary folder is made, and removed however the build ends.
    :param log: gets the build's output, and stays.
    :raises MissingTool: this machine or interpreter cannot build it; said before anything is made.
    :raises WheelError: the source is not the tree, or the build failed.
    """
    source = request.source.absolute()
    _check_source(source)
    toolchain.check_tools(source)
    _check_build_requirements(source)
    _check_files(source, request.files)
    for folder in (scratch, log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    python = ensure(envs, "build", BUILD_REQUIREMENTS, say=say)
    # Half a gigabyte and a minute, for the few releases that have something to compile.
    cxx = compiler.make_ready(envs, say) if toolchain.native_extensions(source) else None
    with tempfile.TemporaryDirectory(prefix="wheel-", dir=scratch) as temporary:
        room = Path(temporary).absolute()
        raw = _run_backend(request, python, cxx, source, room, log.absolute(), list(request.files))
        members = read_members(raw)
    _check_native(source, members, log)
    return members


def _check_source(source: Path) -> None:
    left = [name for name in _LEFTOVERS if (source / name).exists()]
    if left:
        raise WheelError(
            f"the folder to build in is not a fresh tree: {', '.join(left)}",
            where=str(source),
            next="delete the folder and run ./inv runtime again",
        )


def _check_build_requirements(source: Path) -> None:
    unmet = toolchain.unmet_requirements(source, locked_pins(BUILD_REQUIREMENTS))
    if unmet:
        raise WheelError(
            f"the locked build environment does not meet this release's build-system.requires: {'; '.join(unmet)}",
            where=str(source / "pyproject.toml"),
            next="change patchset/wheel/build-requirements.in and remake its lock (the command stands in it)",
        )


def _check_files(source: Path, files: Mapping[str, Entry]) -> None:
    """Is what steers the build the tree's? What the build copies is compared when it is in the wheel."""
    found = {path.relative_to(source).as_posix() for path in _below(source)}
    wanted = {path for path in files if steers(path)}
    wrong = [f"{path} should not be there" for path in sorted(found - wanted)]
    for path in sorted(wanted):
        if path not in found:
            wrong.append(f"{path} is not there")
        elif files[path].mode != "120000" and blob_id((source / path).read_bytes()) != files[path].blob:
            wrong.append(f"{path} is not {files[path].blob}")
    if wrong:
        raise WheelError(
            f"the folder to build in is not the patched tree: {wrong[0]}",
            where=str(source),
            next="delete the folder and run ./inv runtime again",
            detail="\n".join(wrong[:50]),
        )


def _below(source: Path) -> Iterator[Path]:
    """Every file that steers the build."""
    for entry in source.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            if steers(f"{entry.name}/x"):
                yield from (path for path in entry.rglob("*") if path.is_symlink() or path.is_file())
        elif steers(entry.name):
            yield entry


def _run_backend(
    request: BuildRequest, python: Path, cxx: Compiler | None, source: Path, room: Path, log: Path, files: list[str]
) -> Path:
    manifest = source / "vllm.egg-info" / "SOURCES.txt"
    manifest.parent.mkdir()
    manifest.write_text("".join(f"{name}\n" for name in files), "utf-8")
    toolchain.ask_stable_abi(source)
    argv: list[str | Path] = [
        # The umask decides modes in the tree that the backend copies from; the caller's must not.
        "/bin/sh", "-c", 'umask 022 && exec "$@"', "sh",
        python, "-I", "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check",
        # Stored: what it holds is compressed once, by us.
        "-C--build-option=--py-limited-api=cp38 --compression=stored", "--outdir", room / "dist", source,
    ]  # fmt: skip
    ended = process.run(argv, cwd=room, env=environment(request, python, cxx, room), timeout=_TIMEOUT, log=log)
    wheels = sorted((room / "dist").glob("*.whl"))
    if ended.returncode or len(wheels) != 1:
        if ended.timed_out:
            what = f"the build of vLLM {request.release} was stopped after {_TIMEOUT} s"
        elif ended.returncode:
            what = f"the build of vLLM {request.release} failed (status {ended.returncode})"
        else:
            what = f"the build of vLLM {request.release} ended well but left {len(wheels)} wheels, not one"
        raise WheelError(
            what,
            where=str(log),
            next=f"read the end of {log}, correct the cause and run ./inv runtime again",
            detail=_evidence(ended),
        )
    return wheels[0]


def _evidence(ended: process.Finished) -> str:
    """The end of the log, after its lines that name an error: a compiler's stand far above the backend's traceback."""
    lines = ended.stdout.decode("utf-8", "replace").splitlines()
    errors = [line.strip() for line in lines if _ERROR_LINE.search(line)][:10]
    return "\n".join([*errors, "…", ended.tail()] if errors else [ended.tail()])


def environment(request: BuildRequest, python: Path, cxx: Compiler | None, room: Path) -> dict[str, str]:
    """All that the build's processes see of this machine; *room* gets what they may write in."""
    home = room / "home"
    home.mkdir()
    (room / "tmp").mkdir()
    extra = {
        # pydistutils.cfg, CMake's package registry and git's configuration in the real home would all have a say.
        "HOME": str(home),
        "TMPDIR": str(room / "tmp"),
        # No cargo (the Rust front end is "optional": whether it is in the wheel would depend on the machine), no ccache, and
        # no git that could find a repository around the build and decide which files belong to the wheel.
        "PATH": str(python.parent),
        "PYTHONPATH": str(STANDIN),
        "PYTHONHASHSEED": "0",
        "VLLM_TARGET_DEVICE": "xpu",
        "VLLM_VERSION_OVERRIDE": request.version,
        "SETUPTOOLS_SCM_PRETEND_VERSION": request.version,
        "VLLM_REQUIRE_RUST_FRONTEND": "1" if request.rust else "0",
        "VLLM_DISABLE_SCCACHE": "1",
        # Any other build type puts the path of the build into the debug information.
        "CMAKE_BUILD_TYPE": "Release",
        "MAX_JOBS": str(len(os.sched_getaffinity(0))),
        "SOURCE_DATE_EPOCH": str(request.epoch),
    }
    if cxx:
        extra.update(cxx.environment(room))
    if request.rust:
        real_home = Path.home()
        extra["PATH"] = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
        extra["CARGO_HOME"] = os.environ.get("CARGO_HOME", str(real_home / ".cargo"))
        extra["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME", str(real_home / ".rustup"))
        # The tree asks for a channel by name; where it cannot be fetched, a person may name one that is there.
        extra.update({name: os.environ[name] for name in ("RUSTUP_TOOLCHAIN",) if name in os.environ})
        extra["GIT_CEILING_DIRECTORIES"] = str(request.source.absolute().parent)
    return process.clean_environment(extra)


def _check_native(source: Path, members: Iterable[Member], log: Path) -> None:
    wanted = set(toolchain.native_extensions(source))
    built = {
        Path(member.name).name.partition(".")[0]
        for member in members
        if NATIVE.search(member.name) and not RUST.match(member.name)
    }
    if wanted != built:
        raise WheelError(
            f"setup.py builds {sorted(wanted) or 'no extension'} for XPU, the wheel has {sorted(built) or 'none'}",
            where=str(log),
            next="read the log: an extension was left out, or one came from elsewhere",
        )
