"""The question that a person is asked: the same in each command, whatever else is in the store, and never one by chance."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from made_bump import BROKEN, CLASH, WHOLE, Make, conflicted, declared, finish, fresh, go_on, in_tree, settle, start
from made_project import STACK, sdist

from patchset import bump
from patchset.bump import Stopped
from patchset.console import Console
from patchset.errors import StoreError
from patchset.resolve import Project
from patchset.store import Store

#: From this many objects in packs on, git writes ids with 8 digits where it wrote 7.
_MANY = 2**14
#: Clashes with the patch, and not in the way that a.py does: what was learnt there says nothing of it.
OF_B = BROKEN.replace(b"state = 'broken'\n", b"state = 'broken'  # of b\n")


def store_git(project: Project, *words: str, stdin: bytes = b"") -> bytes:
    command = ["git", "--git-dir", str(project.workspace.store), *words]
    return subprocess.run(command, input=stdin, check=True, capture_output=True).stdout


def grow(project: Project) -> None:
    """Put many objects into the store, as the releases and checkouts of other runs do."""
    numbers = (str(number).encode() for number in range(_MANY))
    store_git(project, "fast-import", "--quiet", stdin=b"".join(b"blob\ndata %d\n%s\n" % (len(n), n) for n in numbers))


def lose(project: Project, content: bytes) -> None:
    """Take the file with *content* out of the store."""
    folder = project.workspace.store / "objects"
    (folder / "pack").rename(folder / "aside")
    (folder / "pack").mkdir()
    for pack in (folder / "aside").glob("*.pack"):
        store_git(project, "unpack-objects", "-q", stdin=pack.read_bytes())
    name = store_git(project, "hash-object", "--stdin", stdin=content).decode().strip()
    (folder / name[:2] / name[2:]).unlink()


def test_question_is_not_asked_again_because_the_store_grew(make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": {"a.py": CLASH, "b.py": OF_B}})
    first = start(project, "0.21.0")
    settle(conflicted(project))
    second = go_on(project)
    assert isinstance(first, Stopped) and isinstance(second, Stopped) and second.clash.patch == "mend-b"
    for file in (project.workspace.state / "resolutions").glob("*"):
        file.unlink()  # else the first question would be answered by what was learnt
    grow(project)
    settle(conflicted(project).with_name("b.py"))
    done = finish(project)
    assert [item.how for item in done.carried] == ["resolved by hand, from 0.20.0"] * 2
    assert in_tree(project, done.tree) == CLASH.replace(b"'broken'  # other", b"'whole'  # both")


def test_store_that_fails_ends_the_bump_and_leads_to_no_other_source(make: Make) -> None:
    source = BROKEN.replace(b"line_1 = 1\n", b"only = 'here'\n")
    project = make({"0.20.0": source, "0.21.0": CLASH})
    assert isinstance(start(project, "0.21.0"), Stopped)
    bump.abort(project, Console())
    before = declared(project)
    lose(project, source)
    with pytest.raises(StoreError, match="is not in the store"):
        start(fresh(project), "0.21.0")
    assert bump.status(project) is None and declared(project) == before
    assert not list(project.workspace.work.glob("bump-*"))


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No index gives anything."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())


@pytest.mark.usefixtures("offline")
def test_source_that_comes_later_does_not_change_the_question(
    make: Make, bench: Store, make_tree: Callable[..., str]
) -> None:
    data = bench.diff(make_tree({"a.py": BROKEN}), make_tree({"a.py": WHOLE}))
    older = '\n[[variant]]\nreleases = "==0.19.0"\ndiff = "0.19.patch"\n'
    files = {"0.19.0": BROKEN, "0.20.0": BROKEN, "0.21.0": CLASH}
    project = make(files, older, more={"0.19.patch": data}, without=["0.20.0"])
    stopped = start(project, "0.21.0")
    assert isinstance(stopped, Stopped) and stopped.clash.source == "0.19.0"
    archive = sdist("0.20.0", {**STACK, "a.py": BROKEN, "b.py": BROKEN})
    (project.workspace.archives / "vllm-0.20.0.tar.gz").write_bytes(archive)
    settle(stopped.directory / "a.py")
    assert finish(project).carried[0].how == "resolved by hand, from 0.19.0"
