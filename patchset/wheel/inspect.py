"""What a wheel says it is and what it holds, and whether that is what the patched tree says it should be."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import compat32
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from patchset.errors import WheelError
from patchset.verify.trees import blob_id
from patchset.wheel import elf
from patchset.wheel.record import Member, read_members, record_faults

#: The file of ``.dist-info`` that carries the record of base, series, outcomes and file hashes.
RECORD_FILE = "patchset.json"

#: In `patched`: a path that the series deletes (git's null object id).
DELETED = "0" * 40

#: Without these a vLLM wheel is not one for XPU (read from requirements/xpu.txt of 0.19.1-0.33.0).
XPU_STACK = ("torch", "vllm-xpu-kernels")

#: Distributions that belong to the CUDA stack: those of requirements/cuda.txt (0.19.1-0.33.0) that are not in xpu.txt
#: and need CUDA, and the families that other packages pull in.
_CUDA_NAME = re.compile(
    r"^(nvidia-|cuda-|cupy|flashinfer|xformers|flash-attn|vllm-flash-attn|deep-gemm|cutlass|quack-kernels"
    r"|humming-kernels|tokenspeed-mla|tilelang|nvtx$|pynvvideocodec|apache-tvm-ffi$|triton-kernels|tensorrt|pynvml|cuda$)"
)
_CUDA_SPELLING = re.compile(r"\+cu\d|/cu\d{2,3}(/|$)|%2Bcu\d", re.IGNORECASE)
_CUDA_EXTRA = re.compile(r"^(cu\d+|cuda.*)$")

#: What the build makes that is in no tree: setuptools-scm's version file, the CPU extensions, the Rust front end.
GENERATED = re.compile(r"^vllm/(_version\.py|(spinloop|fs_io_C)\.abi3\.so|vllm-rs|_rust_[^/]+\.so)$")
RUST = re.compile(r"^vllm/(vllm-rs|_rust_[^/]+\.so)$")
NATIVE = re.compile(r"\.so(\.\d+)*$")
_DIST_INFO = re.compile(
    r"^(METADATA|WHEEL|RECORD|entry_points\.txt|top_level\.txt|patchset\.json|licenses/[^/]+|sboms/[^/]+\.json)$"
)
_LEFTOVER_FOLDERS = frozenset({"__pycache__", ".git", ".deps", "tests", "build", "CMakeFiles"})
_LEFTOVER_FILE = re.compile(r"(\.py[co]|\.o|\.a|\.orig|\.rej|\.swp|\.bak|~|\.egg-info|\.log)$")


@dataclass(frozen=True)
class Content:
    """A member without its bytes: both hashes a tree can be compared with (sha256, and git's blob id)."""

    size: int
    sha256: str
    blob: str
    executable: bool


@dataclass(frozen=True)
class WheelFacts:
    """A wheel, read. ``record`` is its :data:`RECORD_FILE`, or None if it carries none."""

    path: Path
    sha256: str
    size: int
    name: str
    version: str
    tags: tuple[str, ...]
    requires: tuple[str, ...]
    native: tuple[str, ...]
    torch_use: tuple[str, ...]
    rust: bool
    members: Mapping[str, Content]
    record: Mapping[str, object] | None
    record_faults: tuple[str, ...]
    dist_info: str


def content_of(member: Member) -> Content:
    """Both hashes of one member."""
    sha256 = hashlib.sha256(member.data).hexdigest()
    return Content(len(member.data), sha256, blob_id(member.data), member.executable)


def inspect_wheel(path: Path) -> WheelFacts:
    """Read the wheel *path*; nothing of it is installed or run.

    :raises WheelError: it cannot be read, or it has no usable ``.dist-info`` (METADATA, WHEEL) or file name.
    """
    members = read_members(path)
    by_name = {member.name: member for member in members}
    dist_info = _dist_info(path, by_name)
    metadata = _headers(by_name, f"{dist_info}/METADATA", path)
    wheel = _headers(by_name, f"{dist_info}/WHEEL", path)
    native = tuple(sorted(name for name in by_name if NATIVE.search(name)))
    raw = path.read_bytes()
    return WheelFacts(
        path=path,
        sha256=hashlib.sha256(raw).hexdigest(),
        size=len(raw),
        name=_one(metadata, "Name", path),
        version=_one(metadata, "Version", path),
        tags=tuple(value.strip() for value in wheel.get("Tag", [])),
        requires=tuple(" ".join(value.split()) for value in metadata.get("Requires-Dist", [])),
        native=native,
        torch_use=tuple(f"{name}: {use}" for name in native for use in _torch_use(by_name[name])),
        rust=any(RUST.match(name) for name in by_name),
        members={member.name: content_of(member) for member in members},
        record=_record(by_name.get(f"{dist_info}/{RECORD_FILE}"), path),
        record_faults=tuple(record_faults(members, f"{dist_info}/RECORD")),
        dist_info=dist_info,
    )


def check_wheel(
    path: Path, *, version: str, patched: Mapping[str, str], tree: Mapping[str, str] | None = None
) -> WheelFacts:
    """Say that the wheel *path* is what the patched tree makes, and return what was read.

    :param version: what METADATA, the file name and ``.dist-info`` must say.
    :param patched: path in the tree → git blob id (40 digits) or sha256 (64) of each file the series touched;
        :data:`DELETED` for one it removed. Paths outside ``vllm/`` are not part of a wheel and are passed over.
    :param tree: the same for every file of the patched tree; when given, each member under ``vllm/`` must equal its
        file.
    :raises WheelError: with every fault found, one a line, in ``detail``.
    """
    facts = inspect_wheel(path)
    faults = [
        *_identity_faults(facts, version),
        *requirement_faults(facts.requires),
        *content_faults(facts.members, patched, whole=False),
        *(content_faults(facts.members, tree, whole=True) if tree is not None else ()),
        *stray_faults(facts),
        *(f"{use} (a torch symbol or library)" for use in facts.torch_use),
        *facts.record_faults,
    ]
    if faults:
        shown = list(dict.fromkeys(faults))
        more = f" and {len(shown) - 1} more" if len(shown) > 1 else ""
        raise WheelError(
            f"the wheel is not what the tree says: {shown[0]}{more}",
            where=str(path),
            next=f"delete {path} and run ./inv runtime again",
            detail="\n".join(shown),
        )
    return facts


def _identity_faults(facts: WheelFacts, version: str) -> list[str]:
    faults = []
    try:
        name, from_name, _, tags = parse_wheel_filename(facts.path.name)
    except InvalidWheelFilename as error:
        return [f"the file name is not a wheel's: {error}"]
    if facts.name != "vllm" or name != "vllm":
        faults.append(f"METADATA Name is {facts.name} and the file is named {name}, not vllm")
    for place, found in [
        ("METADATA Version", facts.version),
        ("the version of the file name", str(from_name)),
        (".dist-info's version", facts.dist_info.removesuffix(".dist-info").partition("-")[2]),
    ]:
        if not _same_version(found, version):
            faults.append(f"{place} is {found}, not {version}")
    if {str(tag) for tag in tags} != {single for tag in facts.tags for single in _expanded(tag)}:
        faults.append(f"WHEEL says the tags {', '.join(facts.tags)}, the file name others")
    return faults


def requirement_faults(requires: Iterable[str]) -> list[str]:
    """What is wrong with the unconditional requirements of an XPU wheel. Those of an extra are the user's choice."""
    faults = []
    names = set()
    for text in requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            faults.append(f"Requires-Dist {text!r} cannot be read: {error}")
            continue
        if requirement.marker is not None and "extra" in str(requirement.marker):
            continue
        name = canonicalize_name(requirement.name)
        names.add(name)
        spelled = f"{requirement.specifier} {requirement.url or ''}"
        if _CUDA_NAME.search(name) or _CUDA_SPELLING.search(spelled) or any(map(_CUDA_EXTRA.match, requirement.extras)):
            faults.append(f"Requires-Dist {text!r} is of the CUDA stack")
    faults += [f"Requires-Dist has no {name}: not an XPU wheel" for name in XPU_STACK if name not in names]
    return faults


def content_faults(members: Mapping[str, Content], wanted: Mapping[str, str], *, whole: bool) -> list[str]:
    """Where *members* and the files *wanted* (path → hash) disagree.

    :param whole: *wanted* is the whole tree, so a member under ``vllm/`` that is not in it is a fault too.
    """
    faults = []
    for path, digest in wanted.items():
        if not path.startswith("vllm/"):
            continue
        found = members.get(path)
        if digest == DELETED:
            faults += [f"{path} is in the wheel, but the series deletes it"] if found else []
        elif found is None:
            faults.append(f"{path} is not in the wheel")
        elif digest not in (found.sha256, found.blob):
            faults.append(f"{path} is not the tree's: {found.blob} ({found.sha256[:16]}…), not {digest}")
    if whole:
        faults += [
            f"{name} is in the wheel and not in the tree"
            for name in members
            if name.startswith("vllm/") and name not in wanted and not GENERATED.match(name)
        ]
    return faults


def stray_faults(facts: WheelFacts) -> list[str]:
    """Members that no build of a clean tree makes."""
    faults = []
    for name in facts.members:
        top, _, rest = name.partition("/")
        if top == facts.dist_info and _DIST_INFO.match(rest):
            continue
        if top != "vllm" or not rest:
            faults.append(f"{name} is stray: neither under vllm/ nor a known file of {facts.dist_info}")
        elif _LEFTOVER_FOLDERS & set(name.split("/")) or _LEFTOVER_FILE.search(name):
            faults.append(f"{name} is a build leftover")
        elif NATIVE.search(name) and not GENERATED.match(name):
            faults.append(f"{name} is a library that no XPU build makes")
    return faults


def _same_version(found: str, wanted: str) -> bool:
    # A local segment of digits only is normalised by the build (`+xpu.b70.01234567` becomes `…1234567`), so text would
    # lie.
    try:
        return Version(found) == Version(wanted)
    except InvalidVersion:
        return False


def _expanded(tag: str) -> list[str]:
    python, abi, platform = tag.split("-", 2) if tag.count("-") >= 2 else (tag, "", "")
    return [f"{p}-{a}-{f}" for p in python.split(".") for a in abi.split(".") for f in platform.split(".")]


def _torch_use(member: Member) -> tuple[str, ...]:
    try:
        return elf.read(member.data).torch_use()
    except elf.NotElf as error:
        return (f"cannot be read ({error})",)


def _dist_info(path: Path, names: Iterable[str]) -> str:
    found = {name.partition("/")[0] for name in names if name.partition("/")[0].endswith(".dist-info")}
    if len(found) != 1:
        raise WheelError(
            f"the wheel has {len(found)} .dist-info folders, not one", where=str(path), next="build the wheel again"
        )
    return found.pop()


def _headers(members: Mapping[str, Member], name: str, path: Path) -> dict[str, list[str]]:
    if name not in members:
        raise WheelError(f"the wheel has no {name}", where=str(path), next="build the wheel again")
    message = BytesParser(policy=compat32).parsebytes(members[name].data, headersonly=True)
    headers: dict[str, list[str]] = {}
    for key, value in message.items():
        headers.setdefault(key, []).append(str(value))
    return headers


def _one(headers: Mapping[str, list[str]], key: str, path: Path) -> str:
    values = headers.get(key, [])
    if len(values) != 1:
        raise WheelError(
            f"METADATA has {len(values)} fields {key}, not one", where=str(path), next="build the wheel again"
        )
    return values[0].strip()


def _record(member: Member | None, path: Path) -> Mapping[str, object] | None:
    if member is None:
        return None
    try:
        value = json.loads(member.data)
    except ValueError as error:
        raise WheelError(
            f"{member.name} is not JSON: {error}", where=str(path), next="build the wheel again"
        ) from error
    if not isinstance(value, dict):
        raise WheelError(f"{member.name} is not a JSON object", where=str(path), next="build the wheel again")
    return value
