"""What a person made of a conflict, by accident too: what is noticed, what is told, and that nothing else is held up."""

from __future__ import annotations

import pytest
from made_bump import BROKEN, CLASH, WHOLE, Make, conflicted, declared, finish, fresh, git, in_tree, settle, start

from patchset import bump
from patchset.bump import Stopped
from patchset.console import Console
from patchset.errors import WorktreeError
from patchset.resolve import Project

HEADING = b"Install\n=======\n\nsome words\nmore\nand more\nand still more\nlast\n"


@pytest.fixture
def project(make: Make) -> Project:
    """A project that waits for a person: a.py and README.rst clash, a.py is resolved."""
    sides = [HEADING.replace(b"some words", words) for words in (b"some words", b"our words", b"their words")]
    files = ({"a.py": BROKEN, "README.rst": sides[0]}, {"a.py": WHOLE, "README.rst": sides[2]})
    project = make({"0.20.0": files[0], "0.21.0": {"a.py": CLASH, "README.rst": sides[1]}}, diff_a=files)
    stopped = start(project, "0.21.0")
    assert isinstance(stopped, Stopped) and stopped.clash.merged.conflicts == ("README.rst", "a.py")
    settle(conflicted(project))
    return project


@pytest.fixture
def waiting(project: Project) -> Project:
    """The same with README.rst resolved too: ready to go on."""
    settle(conflicted(project).with_name("README.rst"), b"both our words\n")
    return project


def refused(project: Project, match: str) -> WorktreeError:
    """The refusal of `--continue`, after which all is as it was."""
    before = declared(project)
    with pytest.raises(WorktreeError, match=match) as error:
        bump.go_on(fresh(project), Console())
    assert declared(project) == before and bump.status(project)
    assert not list((project.workspace.state / "resolutions").glob("*"))
    return error.value


# -- markers ------------------------------------------------------------------------------------------------------------


def test_what_is_resolved_goes_on(waiting: Project) -> None:
    done = finish(waiting)
    assert in_tree(waiting, done.tree, "README.rst") == HEADING.replace(b"some words", b"both our words")


@pytest.mark.parametrize("name", ["b.py", "notes.txt", "deep/new.txt"])
def test_markers_in_another_file_are_named(name: str, waiting: Project) -> None:
    file = conflicted(waiting).parent / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes((BROKEN if name == "b.py" else b"") + b"<<<<<<< mine\na = 1\n=======\na = 2\n>>>>>>> yours\n")
    git(conflicted(waiting).parent, "add", name)
    error = refused(waiting, rf"2 conflict markers are left in mend-a, the first is at {name}:")
    assert error.where.startswith(str(file))


def test_file_that_was_moved_with_its_markers_is_noticed(project: Project) -> None:
    directory = conflicted(project).parent
    (directory / "README.rst").rename(directory / "INSTALL.rst")
    git(directory, "rm", "--quiet", "README.rst")
    git(directory, "add", "INSTALL.rst")
    refused(project, r"3 conflict markers are left in mend-a, the first is at INSTALL\.rst:4")


@pytest.mark.parametrize(
    ("kept", "place"),
    [(b"=======", 6), (b"|||||||", 5), (b"<<<<<<<", 4), (b">>>>>>>", 7)],
)
def test_one_marker_that_stayed_is_noticed(kept: bytes, place: int, project: Project) -> None:
    file = conflicted(project).with_name("README.rst")
    head, *clash = file.read_bytes().partition(b"<<<<<<<")
    markers = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")
    lines = b"".join(clash).splitlines(keepends=True)
    file.write_bytes(head + b"".join(line for line in lines if line.startswith(kept) or line[:7] not in markers))
    refused(project, rf"1 conflict markers are left in mend-a, the first is at README\.rst:{place}")


def test_heading_underlined_like_a_marker_is_none(project: Project) -> None:
    file = conflicted(project).with_name("README.rst")
    file.write_bytes(HEADING.replace(b"some words", b"both").replace(b"Install\n", b"Include\n"))
    assert in_tree(project, finish(project).tree, "README.rst") == file_of(b"Include\n", b"both")


def file_of(title: bytes, words: bytes) -> bytes:
    return HEADING.replace(b"Install\n", title).replace(b"some words", words)


def test_example_of_a_conflict_in_the_release_is_none(make: Make) -> None:
    example = b'"""\n<<<<<<< ours\na\n||||||| base\nb\n=======\nc\n>>>>>>> theirs\n"""\n'
    project = make(
        {"0.20.0": example + BROKEN, "0.21.0": example + CLASH},
        diff_a=({"a.py": example + BROKEN}, {"a.py": example + WHOLE}),
    )
    assert isinstance(start(project, "0.21.0"), Stopped)
    file = conflicted(project)
    file.write_bytes(example + CLASH.replace(b"'broken'", b"'whole'"))
    assert in_tree(project, finish(project).tree) == example + CLASH.replace(b"'broken'", b"'whole'")


# -- files that an editor turned into something else --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.py", "README.rst", "b.py"])
def test_file_turned_to_crlf_is_noticed_and_the_advice_mends_it(name: str, waiting: Project) -> None:
    file = conflicted(waiting).with_name(name)
    good = file.read_bytes()
    file.write_bytes(good.replace(b"\n", b"\r\n"))
    error = refused(waiting, rf"{re_escaped(name)} has \d+ lines that end in CRLF, the release's end in LF")
    follow(error, waiting)
    assert file.read_bytes() == good
    finish(waiting)


def test_file_turned_from_crlf_is_noticed_and_the_advice_mends_it(make: Make) -> None:
    broken, clash, whole = (text.replace(b"\n", b"\r\n") for text in (BROKEN, CLASH, WHOLE))
    project = make({"0.20.0": broken, "0.21.0": clash}, diff_a=({"a.py": broken}, {"a.py": whole}))
    start(project, "0.21.0")
    good = clash.replace(b"'broken'", b"'whole'")
    conflicted(project).write_bytes(good.replace(b"\r\n", b"\n"))
    follow(refused(project, r"a\.py has 40 lines that end in LF, the release's end in CRLF"), project)
    assert conflicted(project).read_bytes() == good
    assert in_tree(project, finish(project).tree) == good


def test_byte_order_mark_is_noticed_and_the_advice_mends_it(waiting: Project) -> None:
    file = conflicted(waiting)
    good = file.read_bytes()
    file.write_bytes(b"\xef\xbb\xbf" + good)
    follow(refused(waiting, r"a\.py begins with a byte order mark"), waiting)
    assert file.read_bytes() == good
    finish(waiting)


def follow(error: WorktreeError, project: Project) -> None:
    """Type what *error* advises."""
    import subprocess

    place, _, command = error.next.removesuffix("; then ./inv bump --continue").partition(": ")
    assert place == f"in {conflicted(project).parent}"
    subprocess.run(command, shell=True, cwd=conflicted(project).parent, check=True)


def re_escaped(name: str) -> str:
    return name.replace(".", r"\.")


def test_changed_mode_is_told_and_taken(waiting: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicted(waiting).chmod(0o755)
    finish(waiting)
    assert "mend-a: a.py has mode 100755 now; the merge left it at 100644" in capsys.readouterr().err


# -- files that are gone ------------------------------------------------------------------------------------------------


def test_deleted_file_that_no_side_deletes_is_asked_about(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    file = conflicted(project).with_name("README.rst")
    before = file.read_bytes()
    file.unlink()
    error = refused(project, r"README\.rst is gone: .* neither deletes it")
    assert error.where == str(file)
    # both ways out that it names
    git(file.parent, "checkout", "--conflict=diff3", "README.rst")
    assert file.read_bytes().count(b"words\n") == before.count(b"words\n") == 3
    git(file.parent, "rm", "--quiet", "--force", "README.rst")
    done = finish(project)
    assert in_tree(project, done.tree, "README.rst") is None
    assert "mend-a: README.rst is deleted; neither the release nor the patch deletes it" in capsys.readouterr().err


def test_deleted_file_beside_the_conflict_is_told(waiting: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflicted(waiting).with_name("pyproject.toml").unlink()
    finish(waiting)
    assert "mend-a: pyproject.toml is deleted" in capsys.readouterr().err


def test_deletion_that_is_a_side_needs_no_word(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    files = ({"a.py": BROKEN, "c.py": BROKEN}, {"a.py": WHOLE, "c.py": BROKEN + b"more = 1\n"})
    project = make({"0.20.0": files[0], "0.21.0": {"a.py": CLASH}}, diff_a=files)
    start(project, "0.21.0")
    settle(conflicted(project))
    conflicted(project).with_name("c.py").unlink()
    finish(project)
    assert "is deleted" not in capsys.readouterr().err
