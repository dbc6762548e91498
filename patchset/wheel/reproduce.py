"""Is it the same wheel elsewhere? Made again in other surroundings, and compared member by member."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchset.errors import WheelError
from patchset.verify.archive import DAMAGE
from patchset.wheel.make import BuiltWheel, Rooms, WheelRequest, make_wheel

#: What a wheel must not depend on, all of it other than a build finds on most machines.
_STRANGE = {
    "TZ": "Asia/Kathmandu",
    "LC_ALL": "tr_TR.UTF-8",
    "LANG": "tr_TR.UTF-8",
    "SOURCE_DATE_EPOCH": "1",
    "CFLAGS": "-O0 -g",
    "CXXFLAGS": "-O0 -g",
    "PYTHONHASHSEED": "7",
    "VLLM_TARGET_DEVICE": "cpu",
}


@dataclass(frozen=True)
class Surroundings:
    """How a wheel is made: ``folder`` is the name of the room it is made in, ``one_core`` leaves the build one processor."""

    name: str
    folder: str
    umask: int
    variables: Mapping[str, str] = field(default_factory=dict)
    one_core: bool = False
    whole: bool = True


#: The first is how a runtime makes it.
PLACES = (
    Surroundings("as a runtime makes it", "plain", 0o022, whole=False),
    Surroundings("built whole, umask 022, UTC, every core", "built", 0o022, {"TZ": "UTC"}),
    Surroundings(
        "built whole on disk, umask 077, other zone, locale and flags, one core",
        "another folder with a much longer name",
        0o077,
        _STRANGE,
        True,
    ),
)


@dataclass(frozen=True)
class Made:
    """What came out in one place. ``differences``: to the first one, a line each; none means the same bytes."""

    place: str
    made: str
    sha256: str
    differences: tuple[str, ...]


def make_again(
    request: WheelRequest, rooms: Rooms, disk: Path, out: Path, say: Callable[[str], None]
) -> tuple[Made, ...]:
    """Make the wheel in each of :data:`PLACES` and compare them.

    :param disk: where scratch is on a disk; file systems list files in other orders, and the last place is made there.
    :param out: gets a folder a place, with the wheel.
    :raises WheelError: it cannot be made.
    """
    found: list[Made] = []
    first: BuiltWheel | None = None
    for number, place in enumerate(PLACES):
        say(f"  {place.name}")
        scratch = (disk if place.one_core else rooms.scratch) / place.folder
        log = rooms.log.with_name(f"{rooms.log.stem}-{number}.log")
        with surroundings(place):
            built = make_wheel(
                request, replace(rooms, scratch=scratch, log=log), out=out / place.folder, whole=place.whole
            )
        first = first or built
        found.append(Made(place.name, built.made, built.sha256, differences(first.path, built.path)))
    return tuple(found)


@contextmanager
def surroundings(place: Surroundings) -> Iterator[None]:
    """Put this process, and so what it starts, into *place*."""
    variables, cores = dict(os.environ), os.sched_getaffinity(0)
    umask = os.umask(place.umask)
    os.environ.update(place.variables)
    if place.one_core:
        os.sched_setaffinity(0, {min(cores)})
    time.tzset()
    try:
        yield
    finally:
        os.umask(umask)
        os.environ.clear()
        os.environ.update(variables)
        os.sched_setaffinity(0, cores)
        time.tzset()


def differences(one: Path, other: Path) -> tuple[str, ...]:
    """How the wheel *other* differs from *one*, a line a member, content first; empty for the same bytes.

    :raises WheelError: one of them is no wheel.
    """
    if one.read_bytes() == other.read_bytes():
        return ()
    try:
        with zipfile.ZipFile(one) as left, zipfile.ZipFile(other) as right:
            before = {info.filename: info for info in left.infolist()}
            after = {info.filename: info for info in right.infolist()}
            both = [name for name in before if name in after]
            lines = [f"{name}: not there" for name in before if name not in after]
            lines += [f"{name}: there in addition" for name in after if name not in before]
            changed = [(name, left.read(name), right.read(name)) for name in both]
            lines += [_content(name, old, new) for name, old, new in changed if old != new]
            lines += [line for name in both for line in _header(name, before[name], after[name])]
            lines += _times([(name, before[name].date_time, after[name].date_time) for name in both])
    except DAMAGE as error:
        raise WheelError(f"a wheel cannot be read: {error}", where=str(other), next="build it again") from error
    if not lines and list(before) != list(after):
        lines = ["the members stand in another order"]
    return tuple(lines or ["the archives differ outside their members"])


def _content(name: str, one: bytes, other: bytes) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    line = one.count(b"\n", 0, at) + 1
    where = f"line {line}" if b"\0" not in one[:8192] else f"byte {at}"
    return f"{name}: another content, {len(one)} against {len(other)} bytes, first at {where}"


def _header(name: str, one: zipfile.ZipInfo, other: zipfile.ZipInfo) -> list[str]:
    lines = []
    if one.external_attr != other.external_attr:
        lines.append(f"{name}: mode {one.external_attr >> 16:o} against {other.external_attr >> 16:o}")
    if one.CRC == other.CRC and one.compress_size != other.compress_size:
        lines.append(f"{name}: compressed to {one.compress_size} against {other.compress_size} bytes")
    return lines


def _times(members: Sequence[tuple[str, tuple[int, ...], tuple[int, ...]]]) -> list[str]:
    other = [item for item in members if item[1] != item[2]]
    if not other:
        return []
    name, one, two = other[0]
    more = f" and {len(other) - 1} more" if len(other) > 1 else ""
    return [f"{name}{more}: time {_moment(one)} against {_moment(two)}"]


def _moment(time: tuple[int, ...]) -> str:
    return "{}-{:02}-{:02} {:02}:{:02}:{:02}".format(*time)
