"""The patched tree becomes an XPU wheel: upstream's own setup.py, in an environment of ours, checked before it is kept.

Facts, read from setup.py, CMakeLists.txt and cmake/utils.cmake of 0.19.1-0.33.0 and tried on 0.20.2-0.33.0:

* `VLLM_VERSION_OVERRIDE` is used verbatim by every release.
* The only extensions for XPU are `spinloop` (0.22.0-0.26.0) and `fs_io_C` (0.25.0-0.26.0). They use Python.h and libc;
  torch is asked for by CMake all the same, hence the stand-in.
* Which data files are packed is decided by git (setuptools-scm lists what is tracked) and only partly by
  `package_data`: in a plain folder the chat templates, numa_wrapper.sh and others are silently left out. So the tree's
  own list of files is handed to setuptools as the manifest that a source distribution would carry.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchset import process
from patchset.environment import ensure, lock_hash, locked_pins
from patchset.errors import MissingTool, WheelError
from patchset.wheel import toolchain
from patchset.wheel.inspect import DELETED, RECORD_FILE, Content, WheelFacts, check_wheel, content_of, inspect_wheel
from patchset.wheel.record import Member, publish, read_members, with_dist_info, write_wheel

BUILD_REQUIREMENTS = Path(__file__).with_name("build-requirements.lock")
STANDIN = Path(__file__).with_name("standin")
TORCH = "stand-in: no torch code is compiled or linked"

_TIMEOUT = 3600
_ERROR_LINE = re.compile(r"\b(fatal )?error: |CMake Error|^FAILED: ")
_BACKEND = ("setuptools", "setuptools-rust", "setuptools-scm", "wheel")

#: What a tree made from git never has, and what a build would pack or trip over.
_LEFTOVERS = ("build", "dist", ".deps", ".git", "PKG-INFO", "vllm.egg-info", "vllm/_version.py", "vllm/vllm-rs")


@dataclass(frozen=True)
class WheelRequest:
    """What to build.

    ``source``: a fresh folder with the patched tree (modes 644 and 755) which the build may write in and the caller
    deletes.
    ``release``: the upstream release. ``version``: the wheel's, `0.23.0+xpu.b70.1a2b3c4d`. ``tree_id``: the patched
    tree's.
    ``epoch``: SOURCE_DATE_EPOCH of the pin. ``record``: what the caller has to say (base, series, outcomes), JSON-able.
    ``patched``: path → git blob id of each file that the series touched (:data:`~patchset.wheel.inspect.DELETED` for
    one it removed). ``rust``: build the Rust front end, or fail.
    """

    source: Path
    release: str
    version: str
    tree_id: str
    epoch: int
    record: Mapping[str, object]
    rust: bool = False
    patched: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BuiltWheel:
    """A wheel, built, checked and in its place. ``native``: its shared objects. ``torch``: what it was built with."""

    path: Path
    sha256: str
    size: int
    tags: tuple[str, ...]
    native: tuple[str, ...]
    rust: bool
    rust_reason: str
    requires: tuple[str, ...]
    torch: str


def build_wheel(request: WheelRequest, *, out: Path, envs: Path, scratch: Path, log: Path) -> BuiltWheel:
    """Build the wheel of *request* into *out*.

    :param envs: where build environments are made and found again.
    :param scratch: where a temporary folder is made, and removed however the build ends.
    :param log: gets the build's output, and stays.
    :raises MissingTool: this machine or interpreter cannot build it; said before anything is made.
    :raises WheelError: the source is not the patched tree, the build failed, or the wheel is not what the tree says.
    """
    source = request.source.absolute()
    _check_source(source)
    toolchain.check_tools(source)
    _check_build_requirements(source)
    rust_reason = _rust_reason(request)
    tree = tree_contents(source)
    _check_patched(request, tree)
    for folder in (scratch, log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    python = ensure(envs, "build", BUILD_REQUIREMENTS)
    with tempfile.TemporaryDirectory(prefix="wheel-", dir=scratch) as temporary:
        room = Path(temporary).absolute()
        raw = _run_backend(request, python, source, room, log.absolute(), list(tree))
        _check_native(source, raw, log)
        finished = room / "checked" / raw.name
        finished.parent.mkdir()
        _add_record(request, raw, finished, tree, rust_reason)
        facts = check_wheel(
            finished,
            version=request.version,
            patched=request.patched,
            tree={path: content.sha256 for path, content in tree.items()},
        )
        path = publish(finished, out)
    return _built(facts, path, rust_reason)


def tree_contents(source: Path) -> dict[str, Content]:
    """Path → hashes of every file under *source*, sorted. Links count as what they point to, as they do in a wheel."""
    found = {}
    for folder, _, names in os.walk(source):
        for name in names:
            path = Path(folder, name)
            if path.is_file():
                relative = path.relative_to(source).as_posix()
                found[relative] = content_of(Member(relative, path.read_bytes(), os.access(path, os.X_OK)))
    return dict(sorted(found.items()))


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


def _rust_reason(request: WheelRequest) -> str:
    available = toolchain.has_rust(request.source)
    if not request.rust:
        return "not asked for (wheel.rust = false), so not attempted" if available else "this release has none"
    if not available:
        raise WheelError(
            f"wheel.rust = true, but vLLM {request.release} has no Rust front end",
            next="set wheel.rust = false in the recipe",
        )
    missing = [name for name in ("cargo", "rustc") if not toolchain.find(name)]
    if missing:
        raise MissingTool(
            f"wheel.rust = true needs {' and '.join(missing)}",
            next="install a Rust toolchain, or set wheel.rust = false in the recipe",
        )
    return "asked for (wheel.rust = true) and required"


def _check_patched(request: WheelRequest, tree: Mapping[str, Content]) -> None:
    wrong = []
    for path, digest in request.patched.items():
        found = tree.get(path)
        if (digest == DELETED) != (found is None) or (found and digest not in (found.blob, found.sha256)):
            wrong.append(f"{path} should be {digest} and is {found.blob if found else 'not there'}")
    if wrong:
        raise WheelError(
            f"the folder to build in is not the patched tree: {wrong[0]}",
            where=str(request.source),
            next="delete the folder and run ./inv runtime again",
            detail="\n".join(wrong),
        )


def _run_backend(request: WheelRequest, python: Path, source: Path, room: Path, log: Path, files: list[str]) -> Path:
    manifest = source / "vllm.egg-info" / "SOURCES.txt"
    manifest.parent.mkdir()
    manifest.write_text("".join(f"{name}\n" for name in files), "utf-8")
    argv: list[str | Path] = [
        # The umask decides modes in the tree that the backend copies from; the caller's must not.
        "/bin/sh", "-c", 'umask 022 && exec "$@"', "sh",
        python, "-I", "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check",
        "-C--build-option=--py-limited-api=cp38", "--outdir", room / "dist", source,
    ]  # fmt: skip
    ended = process.run(argv, cwd=room, env=_environment(request, python, room), timeout=_TIMEOUT, log=log)
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


def _environment(request: WheelRequest, python: Path, room: Path) -> dict[str, str]:
    home = room / "home"
    home.mkdir()
    (room / "tmp").mkdir()
    extra = {
        # pydistutils.cfg, CMake's package registry and git's configuration in the real home would all have a say.
        "HOME": str(home),
        "TMPDIR": str(room / "tmp"),
        "PATH": os.pathsep.join([str(python.parent), str(toolchain.link_programs(room / "bin"))]),
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
    compiler = toolchain.compiler()
    if compiler:
        extra["CXX"] = compiler
    if request.rust:
        real_home = Path.home()
        extra["PATH"] = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
        extra["CARGO_HOME"] = os.environ.get("CARGO_HOME", str(real_home / ".cargo"))
        extra["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME", str(real_home / ".rustup"))
        extra["GIT_CEILING_DIRECTORIES"] = str(request.source.absolute().parent)
    return process.clean_environment(extra)


def _check_native(source: Path, raw: Path, log: Path) -> None:
    wanted = set(toolchain.native_extensions(source, sys.version_info[:2]))
    built = {Path(name).name.partition(".")[0] for name in inspect_wheel(raw).native if "/_rust_" not in name}
    if wanted != built:
        raise WheelError(
            f"setup.py builds {sorted(wanted) or 'no extension'} for XPU, the wheel has {sorted(built) or 'none'}",
            where=str(log),
            next="read the log: an extension was left out, or one came from elsewhere",
        )


def _add_record(request: WheelRequest, raw: Path, target: Path, tree: Mapping[str, Content], rust_reason: str) -> None:
    members = read_members(raw)
    facts = inspect_wheel(raw)
    pins = locked_pins(BUILD_REQUIREMENTS)
    wheel = {
        "release": request.release,
        "version": request.version,
        "tree": request.tree_id,
        "source_date_epoch": request.epoch,
        "device": "xpu",
        "torch": TORCH,
        "native": {name: facts.members[name].sha256 for name in facts.native},
        "compiler": _compiler_version(raw.parent) if facts.native else None,
        "rust": {"included": facts.rust, "reason": rust_reason},
        "build_requirements": {
            "lock_sha256": lock_hash(BUILD_REQUIREMENTS),
            "backend": {name: pins[name] for name in _BACKEND},
        },
        "files": {path: tree[path].sha256 if path in tree else None for path in sorted(request.patched)},
    }
    if "wheel" in request.record:
        raise WheelError(
            "the record handed to the build has a key `wheel`, which the build adds", next="rename that key"
        )
    text = json.dumps({**request.record, "wheel": wheel}, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    write_wheel(with_dist_info(members, facts.dist_info, {RECORD_FILE: text.encode()}), target, epoch=request.epoch)


def _compiler_version(folder: Path) -> str:
    ended = process.run(
        [toolchain.compiler() or "c++", "--version"], cwd=folder, env=process.clean_environment(), timeout=60
    )
    return ended.stdout.decode("utf-8", "replace").partition("\n")[0].strip()


def _built(facts: WheelFacts, path: Path, rust_reason: str) -> BuiltWheel:
    return BuiltWheel(
        path=path,
        sha256=facts.sha256,
        size=facts.size,
        tags=facts.tags,
        native=facts.native,
        rust=facts.rust,
        rust_reason=rust_reason,
        requires=facts.requires,
        torch=TORCH,
    )
