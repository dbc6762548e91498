"""No room, no right, or something else where a folder must be: said with its place and the next command, nothing half done."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from made_edit import LINES, changed, declared, fresh, opened, three

from patchset import bump, series_edit
from patchset.console import Console
from patchset.errors import DeclarationError, StoreError, WorktreeError
from patchset.resolve import Project
from patchset.store import Store
from patchset.workspace import make_folder, write_atomically
from patchset.worktree import write_checkout

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def own_vendor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATCHSET_VENDOR", raising=False)


@pytest.fixture
def project(tmp_path: Path, bench: Store, make_tree: Callable[..., str]) -> Project:
    """Three patches of a.py on 0.20.0, and a release 0.21.0."""

    def diff(old: bytes, new: bytes) -> bytes:
        return bench.diff(make_tree({"a.py": old}), make_tree({"a.py": new}))

    return three(tmp_path / "clone", diff, {"0.20.0": LINES, "0.21.0": changed(58)})


def a_file(place: Path) -> None:
    place.parent.mkdir(exist_ok=True)
    place.write_text("mine")


def a_link_to_nowhere(place: Path) -> None:
    place.parent.mkdir(exist_ok=True)
    place.symlink_to("/nowhere/at/all")


def drop(project: Project) -> object:
    return series_edit.drop(project, project.recipe("r"), "third", "why")


def move(project: Project) -> object:
    return series_edit.move(project, project.recipe("r"), "third", before="first")


def start(project: Project) -> object:
    return bump.start(project, project.recipe("r"), "0.21.0", "", Console())


def edit(project: Project) -> object:
    return opened(project)


@pytest.mark.parametrize("disturb", [a_file, a_link_to_nowhere], ids=lambda disturb: disturb.__name__)
@pytest.mark.parametrize(("place", "task"), [("work", t) for t in (drop, move, start, edit)] + [("work/state", drop), ("work/state", start)])  # fmt: skip
def test_what_lies_where_a_folder_must_be_is_named(
    place: str, task: Callable[[Project], object], disturb: Callable[[Path], None], project: Project
) -> None:
    there = project.workspace.root / place
    disturb(there)
    before = declared(project)
    with pytest.raises(WorktreeError, match=f"{there.name} is .* and a folder is needed there") as error:
        task(project)
    assert error.value.where == str(there) and error.value.next == f"mv {there} {there}.aside, then run again"
    assert declared(project) == before and not there.is_dir()
    there.rename(there.with_name("aside"))
    drop(fresh(project))


def test_nothing_is_under_way_where_nothing_can_be(project: Project) -> None:
    a_file(project.workspace.work)
    assert bump.status(project) is None
    with pytest.raises(DeclarationError, match="no bump is under way"):
        bump.abort(project, Console())


def test_folder_that_is_a_link_to_one_is_as_good(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    make_folder(tmp_path / "link" / "deeper")
    assert (tmp_path / "elsewhere" / "deeper").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(WorktreeError) as error:
        write_atomically(tmp_path / "file" / "deep" / "x", b"")
    assert error.value.where == str(tmp_path / "file")


def test_new_without_a_checkout_says_how_to_get_one(project: Project) -> None:
    directory = project.workspace.work / "edit-r"
    before = declared(project)
    with pytest.raises(DeclarationError, match="no checkout that a commit could be taken from") as error:
        series_edit.new(project, project.recipe("r"), "mine", revision="HEAD", directory=directory)
    assert error.value.where == str(directory)
    assert error.value.next.startswith(
        "./inv edit third -r r makes one: commit there, then ./inv new mine -r r; or --from"
    )
    assert declared(project) == before and not project.workspace.work.exists()


# -- no room ------------------------------------------------------------------------------------------------------------


@contextmanager
def no_room(limit: int) -> Iterator[None]:
    """No file may get larger than *limit*: a disk that is full, for files that are larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_file_that_finds_no_room_is_named(tmp_path: Path) -> None:
    with no_room(1000), pytest.raises(OSError) as error:
        write_atomically(tmp_path / "f", bytes(2000))
    assert error.value.filename == str(tmp_path / "f") and not list(tmp_path.iterdir())


_MOUNTED = """
import errno, os, sys
from pathlib import Path
from patchset.changes import Change, commit_changes
root = Path(sys.argv[1])
small, filler = root / "small", root / "small" / "filler"
(small / "a").write_bytes(b"old")
filler.write_bytes(bytes(os.statvfs(small).f_bavail * os.statvfs(small).f_frsize - 12288))
changes = [Change(small / name, bytes(9000)) for name in "abc"]
try:
    commit_changes(changes, root / "state" / "j")
except OSError as error:
    assert (error.errno, error.filename) == (errno.ENOSPC, str(small)), error
else:
    sys.exit("there was room")
assert (small / "a").read_bytes() == b"old" and sorted(os.listdir(small)) == ["a", "filler"]
assert not (root / "state").exists()
filler.unlink()
assert len(commit_changes(changes, root / "state" / "j")) == 3 and (small / "c").read_bytes() == bytes(9000)
"""


def test_disk_that_is_another_one_and_full_shows_before_the_journal_is_ready(tmp_path: Path) -> None:
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this machine lets nobody mount anything in a namespace of their own")
    (tmp_path / "small").mkdir()
    script = 'mount -t tmpfs -o size=64k none "$1/small" && exec "$2" -B -c "$3" "$1"'
    ended = subprocess.run(
        [*unshare, "sh", "-c", script, "sh", str(tmp_path), sys.executable, _MOUNTED],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_checkout_that_finds_no_room_is_said_and_nothing_is_left(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Store.make_checkout

    def cramped(store: Store, directory: Path, commit: str) -> None:
        with no_room(16):
            real(store, directory, commit)

    monkeypatch.setattr(Store, "make_checkout", cramped)
    monkeypatch.setattr("patchset.worktree._NEEDED", 2**60)  # a full disk would say so; this one has room
    with pytest.raises(WorktreeError, match="the checkout cannot be written there") as error:
        opened(project)
    assert error.value.where == str(project.workspace.work / "edit-r") and "MB are free" in error.value.next
    assert list(project.workspace.work.iterdir()) == []


def test_store_that_fails_is_no_full_disk(project: Project) -> None:
    store = Store.open(project.workspace.store)
    with pytest.raises(StoreError):
        write_checkout(store, "1" * 40, project.workspace.work / "co")
    assert list(project.workspace.work.iterdir()) == []


# -- no right -----------------------------------------------------------------------------------------------------------

_WITHOUT = """
import ctypes, sys
for capability in (1, 2, 3):  # to write, to read, and to act as the owner, whatever the rights
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
import os
os.execv(sys.executable, [sys.executable, "-B", "-c", sys.argv[1], *sys.argv[2:]])
"""
_EDIT = """
import sys
from pathlib import Path
from patchset import edit
from patchset.errors import WorktreeError
from patchset.resolve import Project
from patchset.workspace import Workspace
project = Project.read(Workspace(Path(sys.argv[1])))
try:
    edit.open_patch(project, project.recipe("r"), "first", "")
except WorktreeError as error:
    print(error.what, error.where, error.next, sep="\\n")
"""


def test_folder_without_rights_is_named_and_not_the_name_of_something_hidden(project: Project) -> None:
    work = project.workspace.work
    work.mkdir()
    work.chmod(0o555)
    words = [sys.executable, "-B", "-c", _WITHOUT, _EDIT, str(project.workspace.root)]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    work.chmod(0o755)
    what, where, following = ended.stdout.splitlines()
    assert what == f"the checkout cannot be written there: {os.strerror(errno.EACCES)}"
    assert where == str(work / "edit-r") and "rights there" in following
    assert not list(work.iterdir())
