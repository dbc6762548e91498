"""A bump that something comes in the way of: words that mean nothing, files edited under it, no room, and no right."""

from __future__ import annotations

import ctypes
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from made_bump import (
    BROKEN,
    CLASH,
    ROOT,
    WHOLE,
    Make,
    accepted,
    conflicted,
    declared,
    finish,
    fresh,
    go_on,
    in_tree,
    settle,
    start,
)

from patchset import bump
from patchset.bump import Bumped, Stopped, flow, task
from patchset.console import Console
from patchset.errors import DeclarationError, WorktreeError
from patchset.resolve import Project
from patchset.store import Store

# -- what was asked for -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["latest", "", " ", "0.21.*", "../x", "--all", "HEAD", ">=0.21"])
def test_text_that_is_no_version_is_told_so(text: str, make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN})
    with pytest.raises(DeclarationError, match=r"is no version of vllm, such as 0\.21\.0") as error:
        start(project, text)
    assert error.value.next.startswith("./inv releases ")
    assert bump.status(project) is None


@pytest.mark.parametrize("text", ["0.21", "v0.21.0", " 0.21.0 ", "0.21.0.0"])
def test_release_is_known_by_any_spelling_of_its_version(text: str, make: Make) -> None:
    done = start(make({"0.20.0": BROKEN, "0.21.0": BROKEN}), text)
    assert isinstance(done, Bumped) and (done.release, done.recipe) == ("0.21.0", "r-0.21")


def test_version_that_is_not_known_can_be_made_known(make: Make) -> None:
    with pytest.raises(DeclarationError, match=r"release 0\.99 of vllm is not known") as error:
        start(make({"0.20.0": BROKEN}), "v0.99")
    assert error.value.next == "./inv releases --add 0.99"


def test_release_that_the_recipe_is_on_already_is_told_so(make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN})
    before = declared(project)
    with pytest.raises(DeclarationError, match=r"r-0\.20\.toml is on 0\.20\.0 already") as error:
        start(project, "0.20.0")
    assert "move that recipe" not in error.value.next and "./inv releases" in error.value.next
    assert declared(project) == before and bump.status(project) is None


@pytest.mark.parametrize("name", ["r-0.20", "other"])
def test_name_of_a_recipe_that_is_there_is_refused(name: str, make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN})
    recipe = project.workspace.recipes / "r-0.20.toml"
    (project.workspace.recipes / "other.toml").write_bytes(recipe.read_bytes())
    before = declared(project)
    with pytest.raises(DeclarationError, match=f"{name}.toml is ") as error:
        start(fresh(project), "0.21.0", name)
    assert "--name ANOTHER-NAME" in error.value.next
    assert ("move that recipe" in error.value.next) == (name == "other")
    assert declared(project) == before and bump.status(project) is None


def wish(**more: object) -> task.Wish:
    flags = {"go_on": False, "restart": False, "abort": False, "status": False}
    return task.Wish(**{"to": "", "recipe": "r-0.20", "name": "", "skip": "", **flags, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("flags", "what", "next"),
    [
        ({}, "nothing was asked for", "./inv bump --status"),
        ({"go_on": True, "abort": True}, "--continue and --abort were asked for at once", "./inv bump --status"),
        ({"to": "0.21.0", "skip": "why", "restart": True}, "--to, --skip and --restart were asked for", "one of them"),
        ({"skip": "  "}, "--skip wants a reason", './inv bump --skip "REASON"'),
        ({"name": "x", "go_on": True}, "--name goes with --to", "./inv bump --to RELEASE --name x"),
        ({"name": "x"}, "--name goes with --to", "./inv bump --to RELEASE --name x"),
    ],
)
def test_what_cannot_be_done_is_said_in_words_of_its_own(
    flags: dict[str, object], what: str, next: str, make: Make
) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN})
    with pytest.raises(DeclarationError, match=what) as error:
        task.run(project, wish(**flags), Console())
    assert next in error.value.next


# -- files edited meanwhile ---------------------------------------------------------------------------------------------


@pytest.fixture
def resolved(make: Make) -> Project:
    """A project that waits for a person, who is done."""
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    assert isinstance(start(project, "0.21.0"), Stopped)
    settle(conflicted(project))
    return project


def test_words_of_a_patch_edited_in_between_are_kept(resolved: Project) -> None:
    toml = resolved.patches["mend-a"].folder / "patch.toml"
    toml.write_text("# mine\n" + toml.read_text().replace('why = "w"', 'why = "my words"'))
    finish(resolved)
    assert "# mine\n" in toml.read_text() and 'why = "my words"' in toml.read_text()
    assert "==0.21.0" in toml.read_text()
    accepted(resolved, "r-0.21")


def test_change_of_a_patch_edited_in_between_is_asked_about_anew(
    resolved: Project, bench: Store, make_tree: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What was resolved is of the old diff: to take it would drop the edit without a word."""
    edit(resolved, bench, make_tree)
    again = go_on(resolved)
    assert isinstance(again, Stopped) and "mend-a is looked at anew" in capsys.readouterr().err
    assert b"more = 1\n" in conflicted(resolved).read_bytes()
    (kept,) = resolved.workspace.work.glob("bump-r-0.21.aborted-*")
    assert b"# both" in (kept / "a.py").read_bytes()


def test_change_of_a_patch_resolved_before_and_edited_since_is_asked_about_anew(
    make: Make, bench: Store, make_tree: Callable[..., str]
) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": {"a.py": CLASH, "b.py": CLASH.replace(b"# other", b"# another")}})
    start(project, "0.21.0")
    settle(conflicted(project))
    second = go_on(project)
    assert isinstance(second, Stopped) and second.clash.patch == "mend-b"
    settle(conflicted(project).with_name("b.py"))
    edit(project, bench, make_tree)
    again = go_on(project)
    assert isinstance(again, Stopped) and again.clash.patch == "mend-a"


def edit(project: Project, bench: Store, make_tree: Callable[..., str]) -> None:
    """The patch mend-a does one thing more now."""
    more = make_tree({"a.py": WHOLE.replace(b"state = 'whole'\n", b"state = 'whole'\nmore = 1\n")})
    (project.patches["mend-a"].folder / "0.20.patch").write_bytes(bench.diff(make_tree({"a.py": BROKEN}), more))


@pytest.mark.parametrize("name", ["patches/mend-a/patch.toml", "patches/mend-b/probe.py", "r-0.20.toml", "r-0.21.toml"])
def test_file_edited_while_it_runs_is_noticed_and_not_overwritten(
    name: str, resolved: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, real = resolved.workspace.recipes / name, flow.run_probes

    def person_is_faster(*words: object) -> object:
        file.write_text((file if file.exists() else file.with_name("r-0.20.toml")).read_text() + "# mine\n")
        return real(*words)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(flow, "run_probes", person_is_faster)
        with pytest.raises(DeclarationError, match=r"was changed while this bump ran; nothing was written") as error:
            go_on(resolved)
    assert error.value.where == str(file) and file.read_text().endswith("# mine\n")
    assert not (resolved.workspace.recipes / "r-0.21.lock").exists()
    assert not (resolved.patches["mend-a"].folder / "0.21.0.patch").exists()
    if name == "r-0.21.toml":
        file.unlink()
    finish(resolved)
    assert name == "r-0.21.toml" or file.read_text().count("# mine\n") == 1
    accepted(resolved, "r-0.21")


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


#: Larger in a checkout than the room there is, and small where it is packed.
LARGE = {"large.py": b"x = 1\n" * 200_000}


@pytest.fixture
def large(make: Make) -> Project:
    return make({"0.20.0": {"a.py": BROKEN} | LARGE, "0.21.0": {"a.py": CLASH} | LARGE})


def test_checkout_that_finds_no_room_is_said_and_nothing_is_left(
    large: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = declared(large), flow.laid_out

    @contextmanager
    def cramped(*words: Any) -> Iterator[str]:
        with no_room(500_000), real(*words) as written:
            yield written

    with monkeypatch.context() as patched, pytest.raises(WorktreeError, match="mend-a cannot be laid out") as error:
        patched.setattr(flow, "laid_out", cramped)
        start(large, "0.21.0")
    assert error.value.where == str(conflicted(large).parent) and "MB are free" in error.value.next
    assert declared(large) == before and bump.status(large) is None
    assert [path.name for path in large.workspace.work.iterdir()] == ["state"]
    assert isinstance(start(large, "0.21.0"), Stopped)


def test_going_on_without_room_loses_nothing(large: Project) -> None:
    start(large, "0.21.0")
    settle(conflicted(large))
    file = conflicted(large).with_name("large.py")
    file.write_bytes(file.read_bytes() + bytes(range(256)) * 4)
    made = conflicted(large).read_bytes()
    with no_room(300), pytest.raises((WorktreeError, OSError)) as error:
        go_on(large)
    assert isinstance(error.value, OSError) or "make room" in error.value.next
    assert bump.status(large) and conflicted(large).read_bytes() == made
    file.write_bytes(LARGE["large.py"])
    assert b"# both" in (in_tree(large, finish(large).tree) or b"")


# -- no right -----------------------------------------------------------------------------------------------------------

BUMP = """
import sys
from pathlib import Path
from patchset import bump, lab
from patchset.console import Console
from patchset.lab import Lab
from patchset.resolve import Project
from patchset.workspace import Workspace
lab.ensure = lambda envs, say=None: Lab(Path(sys.executable), "this interpreter")
project = Project.read(Workspace(Path(sys.argv[1])))
try:
    if sys.argv[2]:
        bump.start(project, project.recipe("r-0.20"), sys.argv[2], "", Console())
    else:
        bump.go_on(project, Console())
except PermissionError as error:
    print(error.filename)
"""


def without_rights(project: Project, to: str) -> str:
    """Start a bump, or go on (no *to*), as somebody to whom rights matter, which they do not to root: the path refused."""

    def drop() -> None:
        for capability in (1, 2, 3):  # to write, to read, and to act as the owner, whatever the rights
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)

    words = [sys.executable, "-B", "-c", BUMP, str(project.workspace.root), to]
    ended = subprocess.run(words, preexec_fn=drop, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@contextmanager
def read_only(*folders: Path) -> Iterator[None]:
    for folder in folders:
        folder.chmod(0o555)
    try:
        yield
    finally:
        for folder in folders:
            folder.chmod(0o755)


@pytest.mark.parametrize("release", [BROKEN, CLASH])
@pytest.mark.parametrize("place", ["", "patches/mend-a"])
def test_folder_that_cannot_be_written_is_named_before_anybody_is_asked(place: str, release: bytes, make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": release})
    folder, before = project.workspace.recipes / place, declared(project)
    with read_only(folder):
        assert without_rights(project, "0.21.0") == str(folder)
    assert declared(project) == before and bump.status(project) is None
    assert not project.workspace.journal.exists() and not list(project.workspace.work.glob("*bump-*"))
    assert without_rights(project, "0.21.0") == ""


def test_right_that_is_taken_away_in_between_costs_nothing(resolved: Project) -> None:
    folder = resolved.patches["mend-a"].folder
    with read_only(folder):
        assert without_rights(resolved, "") == str(folder)
    assert bump.status(resolved) and not resolved.workspace.journal.exists()
    finish(resolved)


def test_read_only_files_are_no_hindrance_where_their_folder_is_not(resolved: Project) -> None:
    files = [path for path in resolved.workspace.recipes.rglob("*") if path.is_file()]
    with read_only(*files):
        assert without_rights(resolved, "") == ""
    accepted(resolved, "r-0.21")
