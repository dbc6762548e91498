"""Where two wheels differ is said member by member; and a strange place is left as it was found."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from patchset.errors import WheelError
from patchset.wheel import packing
from patchset.wheel.packing import pack
from patchset.wheel.record import Member
from patchset.wheel.reproduce import PLACES, differences, surroundings

MEMBERS = {"vllm/a.py": b"one\ntwo\nthree\n", "vllm/b.so": b"\x7fELF\0\0\0", "vllm/c.txt": b"c"}


def wheel(folder: Path, name: str, members: dict[str, bytes], epoch: int = 1_780_000_000, run: str = "") -> Path:
    path = folder / name
    packing.write([pack(Member(key, data, key == run)) for key, data in members.items()], path, epoch=epoch)
    return path


@pytest.mark.parametrize(
    ("members", "lines"),
    [
        (MEMBERS, ()),
        ({**MEMBERS, "vllm/a.py": b"one\nTWO\nthree\n"}, ("another content, 14 against 14 bytes, first at line 2",)),
        ({**MEMBERS, "vllm/a.py": b"one\ntwo\n"}, ("another content, 14 against 8 bytes, first at line 3",)),
        ({**MEMBERS, "vllm/b.so": b"\x7fELF\0\1\0"}, ("first at byte 5",)),
        ({**MEMBERS, "vllm/d.py": b""}, ("vllm/d.py: there in addition",)),
        ({name: data for name, data in MEMBERS.items() if name != "vllm/c.txt"}, ("vllm/c.txt: not there",)),
        (dict(reversed(MEMBERS.items())), ("the members stand in another order",)),
    ],
)
def test_what_differs(tmp_path: Path, members: dict[str, bytes], lines: tuple[str, ...]) -> None:
    found = differences(wheel(tmp_path, "one.whl", MEMBERS), wheel(tmp_path, "other.whl", members))
    assert len(found) == len(lines) and all(line in told for line, told in zip(lines, found, strict=True))


def test_times_modes_and_what_is_outside_members(tmp_path: Path) -> None:
    one = wheel(tmp_path, "one.whl", MEMBERS)
    later = differences(one, wheel(tmp_path, "later.whl", MEMBERS, epoch=1_780_000_010))
    assert later == ("vllm/a.py and 2 more: time 2026-05-28 20:26:40 against 2026-05-28 20:26:50",)
    assert differences(one, wheel(tmp_path, "run.whl", MEMBERS, run="vllm/a.py")) == (
        "vllm/a.py: mode 100644 against 100755",
    )
    longer = tmp_path / "longer.whl"
    longer.write_bytes(b"#!" + one.read_bytes())
    assert differences(one, longer) == ("the archives differ outside their members",)


def test_no_wheel(tmp_path: Path) -> None:
    other = tmp_path / "other.whl"
    other.write_bytes(b"no zip")
    with pytest.raises(WheelError, match="cannot be read"):
        differences(wheel(tmp_path, "one.whl", MEMBERS), other)


def test_a_strange_place_is_left_as_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    before = dict(os.environ), os.sched_getaffinity(0)
    with pytest.raises(RuntimeError, match="planted"), surroundings(PLACES[-1]):
        umask = os.umask(0)
        os.umask(umask)
        assert (umask, os.environ["TZ"], time.timezone) == (0o077, "Asia/Kathmandu", -20700)
        assert len(os.sched_getaffinity(0)) == 1
        raise RuntimeError("planted")
    assert (dict(os.environ), os.sched_getaffinity(0)) == before and time.timezone == 0
