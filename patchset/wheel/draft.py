"""A wheel before it testifies: what upstream's build made of a tree, or what is assembled from such a wheel of the base.

That assembling gives the very bytes of a whole build is not assumed: `inv wheel --check` and tests/real compare them.
Facts, compared for 0.19.1-0.33.0: below ``vllm/`` a wheel holds every file of the tree and, beside those, only what
:data:`~patchset.wheel.inspect.GENERATED` names; modules are not executable there whatever their mode in the tree, other
files keep it; the version stands in METADATA, ``_version.py`` and the name of ``.dist-info``, and nowhere else.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import compat32

from packaging.version import Version

from patchset.errors import WheelError
from patchset.store import Entry
from patchset.verify.generated import VERSION_FILE
from patchset.verify.records import spell_hash
from patchset.verify.trees import blob_id
from patchset.wheel.inspect import GENERATED, NATIVE, RUST
from patchset.wheel.packing import Packed, pack
from patchset.wheel.record import Member

PACKAGE = "vllm/"


@dataclass(frozen=True)
class Draft:
    """``members``: everything but RECORD, in no order. ``dist_info``: the folder's name. ``version``: as METADATA says it."""

    members: tuple[Packed, ...]
    dist_info: str
    version: str

    @property
    def native(self) -> dict[str, str]:
        """Name → sha256 of each shared object."""
        return {member.name: member.sha256 for member in self.members if NATIVE.search(member.name)}

    @property
    def generated(self) -> dict[str, str]:
        """Name → sha256 of each member outside ``.dist-info`` that the build makes and no tree has."""
        return {member.name: member.sha256 for member in self.members if GENERATED.match(member.name)}

    @property
    def rust(self) -> bool:
        """Is the Rust front end in?"""
        return any(RUST.match(member.name) for member in self.members)

    def finished(self, extra: Mapping[str, bytes]) -> tuple[Packed, ...]:
        """Everything in the order of writing, with the files *extra* in ``.dist-info``, which stands last, and RECORD at its end."""
        folder = f"{self.dist_info}/"
        members = [*self.members, *(pack(Member(folder + name, data)) for name, data in extra.items())]
        members.sort(key=lambda member: (member.name.startswith(folder), member.name))
        return (*members, pack(Member(f"{folder}RECORD", _record_of(members, f"{folder}RECORD"))))


def draft_of(members: Sequence[Member]) -> Draft:
    """The draft of what a build made.

    :raises WheelError: it has no ``.dist-info`` with a METADATA that says its version.
    """
    folders = {name.partition("/")[0] for name in (m.name for m in members) if ".dist-info/" in name}
    metadata = [m.data for m in members if re.fullmatch(r"[^/]+\.dist-info/METADATA", m.name)]
    version = BytesParser(policy=compat32).parsebytes(metadata[0], headersonly=True)["Version"] if metadata else None
    if len(folders) != 1 or len(metadata) != 1 or not version:
        raise WheelError(
            f"the build made a wheel with {len(folders)} .dist-info folders and {len(metadata)} METADATA files",
            next="read the log of the build",
        )
    (dist_info,) = folders
    kept = [pack(member) for member in members if member.name != f"{dist_info}/RECORD"]
    return Draft(tuple(kept), dist_info, version)


def why_not_base(members: Iterable[Member], files: Mapping[str, Entry], version: str) -> str:
    """Why no wheel can be assembled from what the build made of a tree with *files*; empty if one can.

    :param version: what the build was told, which stands nowhere by chance.
    """
    wanted = {path: entry.blob for path, entry in files.items() if path.startswith(PACKAGE)}
    found = {}
    marks = {}
    for member in members:
        if member.name.startswith(PACKAGE) and not GENERATED.match(member.name):
            found[member.name] = blob_id(member.data)
        count = member.data.count(_local(version).encode())
        if count and not member.name.endswith(".dist-info/RECORD"):
            marks[member.name.rpartition("/")[2]] = count
    differing = sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path))
    if differing:
        return f"the build of the base does not copy {differing[0]} as it is ({len(differing)} files differ)"
    if marks != {"METADATA": 1, "_version.py": 2}:
        return f"the version stands where it is not expected: {', '.join(sorted(marks)) or 'nowhere'}"
    return ""


def assemble(base: Draft, version: str, changed: Mapping[str, bytes | None]) -> Draft:
    """The wheel that a whole build would make, from that of the base.

    :param version: the new wheel's. ``changed``: path → its content in the patched tree, or None for one that goes.
    """
    # Modules lose their mode in a build and other files keep it, so one that stays has the base's.
    executable = {member.name for member in base.members if member.executable}
    dist_info = f"vllm-{Version(version)}.dist-info"
    members = []
    for member in base.members:
        folder, _, rest = member.name.partition("/")
        if folder == base.dist_info:
            renamed = member.named(f"{dist_info}/{rest}")
            members.append(_with_version(renamed, base.version, version) if rest == "METADATA" else renamed)
        elif member.name == VERSION_FILE:
            members.append(_with_version(member, base.version, version))
        elif member.name not in changed:
            members.append(member)
    added = [Member(path, data, path in executable) for path, data in changed.items() if data is not None]
    members += map(pack, added)
    return Draft(tuple(members), dist_info, str(Version(version)))


def _with_version(member: Packed, old: str, new: str) -> Packed:
    # The tuple in _version.py holds the local part alone.
    release, local = (str(Version(new)).partition("+")[index] for index in (0, 2))
    data = member.content()
    for before, after in ((old, f"{release}+{local}"), (f"'{_local(old)}'", f"'{local}'")):
        data = data.replace(before.encode(), after.encode())
    return pack(Member(member.name, data, member.executable))


def _local(version: str) -> str:
    return version.partition("+")[2]


def _record_of(members: Sequence[Packed], record_name: str) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for member in members:
        writer.writerow((member.name, spell_hash(bytes.fromhex(member.sha256)), member.size))
    writer.writerow((record_name, "", ""))
    return text.getvalue().encode()
