"""From two trees to a wheel that says what is in it: assembled from the base's where that gives the same bytes, else built.

The base's wheel is built once a pin and kept. A series that touches only files which the build copies as they are then
costs what those files cost.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset.environment import lock_hash, locked_pins
from patchset.errors import MissingTool, WheelError
from patchset.store import Entry, Store
from patchset.verify.bounded import is_plain_path
from patchset.wheel import compiler, packing
from patchset.wheel.build import BUILD_REQUIREMENTS, BuildRequest, build
from patchset.wheel.draft import PACKAGE, Draft, assemble, draft_of, why_not_base
from patchset.wheel.inspect import DELETED, GENERATED, RECORD_FILE, WheelFacts, check_wheel
from patchset.wheel.plan import Change, why_whole
from patchset.wheel.record import Member, publish
from patchset.wheel.tree_proof import tree_proof
from patchset.workspace import UNREADABLE, digest, sources_digest, write_atomically

TORCH = "stand-in: no torch code is compiled or linked"
ASSEMBLED = "assembled from the wheel of the base"
SBOM_FILE = "sboms/patchset.cdx.json"

_BACKEND = ("setuptools", "setuptools-rust", "setuptools-scm", "wheel")
_RUST_CRATE = "rust/src/cmd/Cargo.toml"
#: The local version of a base's wheel. It stands nowhere else, so it can be found and replaced.
_BASE_LABEL = "xpu.base"


@dataclass(frozen=True)
class WheelRequest:
    """What to make a wheel of.

    ``base``, ``tree``: ids of the unpatched and of the patched tree in ``store``. ``release``: the upstream release.
    ``version``: the wheel's, `0.23.0+xpu.b70.1a2b3c4d`. ``epoch``: SOURCE_DATE_EPOCH of the pin. ``record``: what the
    caller has to say (base, series, outcomes), JSON-able. ``rust``: build the Rust front end, or fail.
    ``sbom``: native members (name → sha256) → the bill of materials that goes into the wheel.
    """

    store: Store
    base: str
    tree: str
    release: str
    version: str
    epoch: int
    record: Mapping[str, object]
    rust: bool = False
    sbom: Callable[[Mapping[str, str]], bytes] | None = None


@dataclass(frozen=True)
class Rooms:
    """Where a wheel is made. ``bases``: kept wheels of bases. ``envs``: build environments. ``scratch``: throwaway trees.

    ``log`` gets the output of a build, if there is one, and stays. ``say`` is told what takes long and is done once.
    """

    bases: Path
    envs: Path
    scratch: Path
    log: Path
    say: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class BuiltWheel:
    """A wheel, made, checked and in its place. ``made``: how. ``native``: its shared objects. ``torch``: what it was built with."""

    path: Path
    sha256: str
    size: int
    tags: tuple[str, ...]
    native: tuple[str, ...]
    rust: bool
    rust_reason: str
    requires: tuple[str, ...]
    torch: str
    made: str


@dataclass(frozen=True)
class _Base:
    """The kept wheel of a base. ``unfit``: why nothing can be assembled from it."""

    draft: Draft
    unfit: str = ""


@dataclass(frozen=True)
class _Trees:
    base: Mapping[str, Entry]
    patched: Mapping[str, Entry]
    changes: tuple[Change, ...]


def make_wheel(request: WheelRequest, rooms: Rooms, *, out: Path, whole: bool = False) -> BuiltWheel:
    """Make the wheel of *request* into *out*.

    :param whole: build it whole even if it could be assembled.
    :raises MissingTool: this machine or interpreter cannot build it; said before anything is made.
    :raises WheelError: the build failed, or the wheel is not what the tree says.
    """
    if "wheel" in request.record:
        raise WheelError(
            "the record handed to the build has a key `wheel`, which is added here", next="rename that key"
        )
    trees = _trees(request)
    _require_names(trees)
    rust_reason = _rust_reason(request, trees)
    draft, made = _draft(request, rooms, trees, whole)
    record = _record(request, trees, draft, rust_reason)
    extra = {RECORD_FILE: (json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()}
    if request.sbom:
        extra[SBOM_FILE] = request.sbom(draft.native)
    rooms.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wheel-", dir=rooms.scratch) as temporary:
        finished = Path(temporary) / _file_name(draft)
        packing.write(draft.finished(extra), finished, epoch=request.epoch)
        facts = _checked(finished, request, trees)
        path = publish(finished, out)
    return _built(facts, path, rust_reason, made)


def _checked(wheel: Path, request: WheelRequest, trees: _Trees) -> WheelFacts:
    try:
        return check_wheel(
            wheel,
            version=request.version,
            patched={change.path: change.after.blob if change.after else DELETED for change in trees.changes},
            tree={path: entry.blob for path, entry in trees.patched.items()},
        )
    except WheelError as error:
        # Where it lies is gone when this is read; what is wrong with it came with the tree, or with this tool.
        raise WheelError(
            error.what,
            where=f"the wheel of tree {request.tree[:12]}, which was not kept",
            next="if a patch brings the file that is named, rename it there or take it out; else report this",
            detail=error.detail,
        ) from error


def _require_names(trees: _Trees) -> None:
    for path in trees.patched:
        try:
            path.encode("utf-8")
        except UnicodeEncodeError as error:
            raise WheelError(
                f"the name of {os.fsencode(path)!r} is not UTF-8, and a wheel and its record can hold no other",
                where="the patched tree",
                next="rename the file in the patch that brings it",
            ) from error
    for change in trees.changes:
        if change.after and change.path.startswith(PACKAGE) and not is_plain_path(change.path):
            raise WheelError(
                f"{change.path!r} is no name for a member of a wheel",
                where="the patched tree",
                next="rename the file in the patch that brings it",
            )
        if change.after and GENERATED.match(change.path):
            raise WheelError(
                f"a patch brings {change.path}, which the build makes",
                where="the patched tree",
                next="rename the file in the patch that brings it",
            )


def _trees(request: WheelRequest) -> _Trees:
    base, patched = (request.store.entries(tree) for tree in (request.base, request.tree))
    paths = request.store.changed_paths(request.base, request.tree)
    return _Trees(base, patched, tuple(Change(path, base.get(path), patched.get(path)) for path in paths))


def _rust_reason(request: WheelRequest, trees: _Trees) -> str:
    available = _RUST_CRATE in trees.patched
    if not request.rust:
        return "not asked for (wheel.rust = false), so not attempted" if available else "this release has none"
    if not available:
        raise WheelError(
            f"wheel.rust = true, but vLLM {request.release} has no Rust front end",
            next="set wheel.rust = false in the recipe",
        )
    missing = [name for name in ("cargo", "rustc") if not shutil.which(name)]
    if missing:
        raise MissingTool(
            f"wheel.rust = true needs {' and '.join(missing)}",
            next="install a Rust toolchain, or set wheel.rust = false in the recipe",
        )
    return "asked for (wheel.rust = true) and required"


def _draft(request: WheelRequest, rooms: Rooms, trees: _Trees, whole: bool) -> tuple[Draft, str]:
    """(the draft, how it was made)."""
    store = request.store
    reason = "asked for" if whole else "the Rust front end is compiled into it" if request.rust else ""
    reason = reason or why_whole(trees.changes, trees.base, lambda path: store.read(request.base, path))
    if not reason:
        base = _base(request, rooms, trees)
        reason = base.unfit
        if not reason:
            changed = {
                change.path: store.blob(change.after.blob) if change.after else None
                for change in trees.changes
                if change.path.startswith(PACKAGE)
            }
            return assemble(base.draft, request.version, changed), ASSEMBLED
    members = _build(request, rooms, request.tree, trees.patched, request.version)
    return draft_of(members), f"built whole: {reason}"


def _build(
    request: WheelRequest, rooms: Rooms, tree: str, files: Mapping[str, Entry], version: str
) -> tuple[Member, ...]:
    rooms.scratch.mkdir(parents=True, exist_ok=True)
    source = Path(tempfile.mkdtemp(prefix="source-", dir=rooms.scratch))
    try:
        source.chmod(0o755)
        request.store.export(tree, source)
        wanted = BuildRequest(source, files, request.release, version, request.epoch, request.rust)
        return build(wanted, envs=rooms.envs, scratch=rooms.scratch, log=rooms.log, say=rooms.say)
    finally:
        shutil.rmtree(source, ignore_errors=True)


# -- the base's wheel --------------------------------------------------------------------------------------------------


def _base(request: WheelRequest, rooms: Rooms, trees: _Trees) -> _Base:
    """The wheel of the base: the kept one, or built and kept."""
    key = digest(
        [
            request.base,
            request.release,
            request.epoch,
            sources_digest(Path(__file__).parent),
            lock_hash(BUILD_REQUIREMENTS),
            lock_hash(compiler.COMPILER_REQUIREMENTS),
            platform.machine(),
        ]
    )
    kept = rooms.bases / key
    found = _kept(kept)
    if found:
        return found
    version = f"{request.release}+{_BASE_LABEL}"
    members = _build(request, rooms, request.base, trees.base, version)
    draft = draft_of(members)
    base = _Base(draft, why_not_base(members, trees.base, version))
    _keep(base, kept, request.epoch)
    return base


def _keep(base: _Base, kept: Path, epoch: int) -> None:
    part = kept / f"base.{_file_name(base.draft)}.part"
    kept.mkdir(parents=True, exist_ok=True)
    packing.write(base.draft.members, part, epoch=epoch)
    part.replace(kept / "base.whl")
    document = {
        "archive_sha256": hashlib.sha256((kept / "base.whl").read_bytes()).hexdigest(),
        "unfit": base.unfit,
        "dist_info": base.draft.dist_info,
        "version": base.draft.version,
        "sha256": {member.name: member.sha256 for member in base.draft.members},
    }
    write_atomically(
        kept / "base.json", json.dumps({"digest": digest(document), **document}, indent=1, sort_keys=True).encode()
    )


def _kept(kept: Path) -> _Base | None:
    """What :func:`_keep` kept, if it is still the same bytes."""
    try:
        document = json.loads((kept / "base.json").read_bytes())
        if document.pop("digest") != digest(document):
            return None
        if hashlib.sha256((kept / "base.whl").read_bytes()).hexdigest() != document["archive_sha256"]:
            return None
        members = packing.read(kept / "base.whl", document["sha256"].items())
        draft = Draft(members, document["dist_info"], document["version"])
        return _Base(draft, document["unfit"])
    except (*UNREADABLE, WheelError):
        return None


# -- the record --------------------------------------------------------------------------------------------------------


def _record(request: WheelRequest, trees: _Trees, draft: Draft, rust_reason: str) -> dict[str, object]:
    pins = locked_pins(BUILD_REQUIREMENTS)
    by_name = {member.name: member.sha256 for member in draft.members}
    wheel = {
        "release": request.release,
        "version": request.version,
        "tree": request.tree,
        "source_date_epoch": request.epoch,
        "device": "xpu",
        "torch": TORCH,
        "native": draft.native,
        "compiler": compiler.version() if draft.native else None,
        "rust": {"included": draft.rust, "reason": rust_reason},
        "build_requirements": {
            "lock_sha256": lock_hash(BUILD_REQUIREMENTS),
            "backend": {name: pins[name] for name in _BACKEND},
        },
        "generated": draft.generated,
        "files": {change.path: _file(request, change, by_name) for change in trees.changes},
        "proof": tree_proof(trees.patched, by_name, request.tree),
    }
    return {**request.record, "wheel": wheel}


def _file(request: WheelRequest, change: Change, by_name: Mapping[str, str]) -> dict[str, object]:
    series = request.record.get("series")
    steps = [step for step in series if isinstance(step, Mapping)] if isinstance(series, Sequence) else []
    touching = [str(step["patch"]) for step in steps if step.get("applied") and change.path in step.get("touched", ())]
    sha256 = by_name.get(change.path)
    if change.after and not sha256:
        sha256 = hashlib.sha256(request.store.blob(change.after.blob)).hexdigest()
    return {"sha256": sha256, "base": change.before.blob if change.before else None, "patches": touching}


def _file_name(draft: Draft) -> str:
    """As the specification "Binary distribution format" has it, with the one tag that WHEEL states."""
    wheel = next(member for member in draft.members if member.name == f"{draft.dist_info}/WHEEL").content().decode()
    tags = [line.partition(":")[2].strip() for line in wheel.splitlines() if line.startswith("Tag:")]
    if len(tags) != 1:
        raise WheelError(f"the build made a wheel with {len(tags)} tags, not one", next="read the log of the build")
    return f"{draft.dist_info.removesuffix('.dist-info')}-{tags[0]}.whl"


def _built(facts: WheelFacts, path: Path, rust_reason: str, made: str) -> BuiltWheel:
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
        made=made,
    )
