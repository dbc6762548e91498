"""The lock: the same bytes for the same facts, and no difference that goes unnoticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchset.errors import DeclarationError, LockError
from patchset.lock import Lock, LockedPatch, LockedPin, differences, read_lock, require_same
from patchset.patch import Donor
from patchset.series import Outcome

SHA, OID = "ab" * 32, "cd" * 20
LOCK = Lock(
    recipe="r",
    pin=LockedPin("u", "1.0", "u-1.0.tar.gz", SHA, 7, None, OID, OID, "auto", "https://example.org/u.git", "v1.0"),
    donors=(Donor("1.1", "d/f.py", SHA, "e/f.py"),),
    patches=(
        LockedPatch("a", SHA, Outcome.APPLIES, OID, OID),
        LockedPatch("b", SHA, Outcome.ABSENT, OID, OID),
    ),
    tree=OID,
    commit=OID,
    version="1.0+xpu.b70.cdcdcdcd",
    declared=SHA,
    environments=(("build", SHA), ("lab", SHA)),
)


def written(tmp_path: Path, text: str, name: str = "r.lock") -> Path:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    assert read_lock(written(tmp_path, LOCK.text())) == LOCK


def test_recorded_commit_is_read_back(tmp_path: Path) -> None:
    lock = replace(LOCK, pin=replace(LOCK.pin, commit="ef" * 20))
    assert read_lock(written(tmp_path, lock.text())) == lock


def test_no_lock_yet_is_none(tmp_path: Path) -> None:
    assert read_lock(tmp_path / "r.lock") is None


@pytest.mark.parametrize(
    "change",
    [
        lambda lock: replace(lock, tree="ee" * 20),
        lambda lock: replace(lock, version="1.0+xpu.b70.eeeeeeee"),
        lambda lock: replace(lock, pin=replace(lock.pin, sha256="ee" * 32)),
        lambda lock: replace(lock, donors=()),
        lambda lock: replace(lock, patches=lock.patches[::-1]),
        lambda lock: replace(lock, patches=(replace(lock.patches[0], outcome=Outcome.MERGES), lock.patches[1])),
        lambda lock: replace(lock, patches=(replace(lock.patches[0], digest="ee" * 32), lock.patches[1])),
        lambda lock: replace(lock, environments=(("build", SHA), ("lab", "ee" * 32))),
    ],
)
def test_each_changed_fact_is_a_difference_that_stops_and_is_shown(change: object) -> None:
    new = change(LOCK)  # type: ignore[operator]
    with pytest.raises(LockError) as error:
        require_same(Path("r.lock"), LOCK, new)
    assert any(
        line.startswith(("-", "+")) and not line.startswith(("---", "+++")) for line in error.value.detail.splitlines()
    )


def test_same_facts_pass_and_a_commit_only_one_side_knows_is_none() -> None:
    with_commit = replace(LOCK, pin=replace(LOCK.pin, commit="ef" * 20))
    require_same(Path("r.lock"), LOCK, LOCK)
    assert differences(LOCK, with_commit) == differences(with_commit, LOCK) == ()


def test_two_commits_that_differ_are_a_difference() -> None:
    one, two = (replace(LOCK, pin=replace(LOCK.pin, commit=digit * 40)) for digit in "12")
    assert f'+commit = "{"2" * 40}"' in differences(one, two)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("format = 3", "format = 2", "reads format 3"),
        (f'tree = "{OID}"', 'tree = "abc"', "object id"),
        ('outcome = "applies"', 'outcome = "fine"', "none of"),
        ("size = 7", 'size = "7"', "whole number"),
        ("[result]", '[result]\nextra = "x"', "unknown key"),
        ('recipe = "r"', 'recipe = "s"', "the lock of s"),
    ],
)
def test_what_is_wrong_in_a_lock_is_refused(old: str, new: str, words: str, tmp_path: Path) -> None:
    text = LOCK.text()
    assert old in text
    file = written(tmp_path, text.replace(old, new, 1))
    with pytest.raises(DeclarationError) as error:
        read_lock(file)
    assert words in error.value.what
    line = 1 + text[: text.index(old)].count("\n") + new.count("\n")
    assert error.value.where == (str(file) if "the lock of" in words else f"{file}:{line}")
