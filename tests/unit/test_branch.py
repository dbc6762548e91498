"""Which commits of a branch are which patch's: as a person's git writes them, whatever it is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_edit import IDS, LINES, changed, checkout, final, git, run, three, write

from patchset.branch import by_patch
from patchset.errors import SeriesError
from patchset.resolve import Project
from patchset.store import Commit, Store

Make = Callable[..., Project]


@pytest.fixture
def make(bench: Store, make_tree: Callable[..., str], tmp_path: Path) -> Make:
    """A project of three patches with the titles given (default: "the first" …)."""

    def diff(old: bytes, new: bytes) -> bytes:
        return bench.diff(make_tree({"a.py": old}), make_tree({"a.py": new}))

    return lambda *titles: three(tmp_path / "clone", diff, {"0.20.0": LINES}, titles=titles)


def exported(project: Project, directory: Path) -> list[str]:
    return [item.patch for item in run(project, directory).exported]


MESSAGES = {
    "subject": ("fixup! the second", "second"),
    "squash": ("squash! the second\n\nmore words", "second"),
    "fixup of a fixup": ("fixup! fixup! squash! the second", "second"),
    "beginning of a subject": ("fixup! the sec", "second"),
    "amend, with the line of the patch": ("amend! x\n\nother title\n\nPatch: first\nVariant: ==0.20.0", "first"),
    "only the line of the patch": ("whatever\n\nPatch: first", "first"),
    "cherry-picked": ("the second\n\nPatch: second\nVariant: ==0.20.0\n(cherry picked from commit 0123)", "second"),
    "the line twice": ("x\n\nPatch: first\n\nand so\n\nPatch: first", "first"),
}


def commits(*messages: str) -> list[Commit]:
    return [Commit(f"{n:040x}", "t" * 40, ("p" * 40,), message) for n, message in enumerate(messages, 0xABC00)]


def series(*titles: str) -> list[str]:
    return [f"{title}\n\nPatch: {patch}\nVariant: ==0.20.0" for patch, title in zip(IDS, titles, strict=True)]


@pytest.mark.parametrize("message", MESSAGES)
def test_commit_belongs_to_the_patch_it_names(message: str) -> None:
    text, patch = MESSAGES[message]
    found = by_patch(commits(*series("the first", "the second", "the third"), text), IDS, Path("d"), "again")
    assert {id: [c.message for c in of] for id, of in found.commits.items()}[patch][1:] == [text]
    assert list(found.commits) == list(IDS)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("fixup! same", "may be of second or third: they are called so too"),
        ("x\n\nPatch: first\nPatch: second", "may be of first or second: it names them all"),
        ("fixup! nothing", "belongs to no patch"),
        ("fixup! ", "belongs to no patch"),
        ("fixup! abc", "belongs to no patch"),
        ("fixup", "belongs to no patch"),
        ("x\n\nPatch: other", "names 'other'"),
        ("x\n\n  Patch: first", "belongs to no patch"),
    ],
)
def test_commit_that_nobody_can_place_is_refused_and_never_guessed(message: str, words: str) -> None:
    with pytest.raises(SeriesError, match=words) as error:
        by_patch(commits(*series("one", "same", "same"), message), IDS, Path("d"), "./inv again")
    assert "git -C d rebase -i, then ./inv again" in error.value.next.replace(")", "")


def test_fixup_names_a_commit_by_its_id(make: Make, tmp_path: Path) -> None:
    project = make()
    directory = checkout(project, tmp_path / "whole")
    write(directory, changed(10, 20, 30, 50))
    git(directory, "commit", "-qam", "fixup! " + git(directory, "rev-parse", "--short", "HEAD~1").strip())
    assert exported(project, directory) == ["second"]


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "UTF-8", "no-such-encoding"])
@pytest.mark.parametrize("words", [("--fixup", "HEAD~1"), ("-m", "fixup! größer")], ids=["by git", "typed"])
def test_fixup_of_a_title_in_the_encoding_of_the_persons_git(
    words: tuple[str, str], encoding: str, make: Make, tmp_path: Path
) -> None:
    project = make("groß", "größer", "am größten")
    directory = checkout(project, tmp_path / "whole")
    git(directory, "config", "i18n.commitEncoding", encoding)
    write(directory, changed(10, 20, 30, 50))
    git(directory, "commit", "-qa", *words)
    assert exported(project, directory) == ["second"]


def test_signed_commit_is_a_commit(make: Make, tmp_path: Path) -> None:
    """A signature is a header of many lines, and some of them look like others."""
    project = make()
    directory = checkout(project, tmp_path / "whole")
    gpg = tmp_path / "gpg"
    gpg.write_text(
        "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED D' >&2\n"
        "printf 'tree 0\\nparent 1\\n\\nPatch: third\\n-----END\\n'\n"
    )
    gpg.chmod(0o755)
    git(directory, "config", "gpg.program", str(gpg))
    write(directory, changed(10, 20, 30, 50))
    git(directory, "commit", "-qaS", "-m", "fixup! the first")
    assert "gpgsig" in git(directory, "cat-file", "commit", "HEAD")
    assert exported(project, directory) == ["first"]


def test_merge_is_refused(make: Make, tmp_path: Path) -> None:
    project = make()
    directory = checkout(project, tmp_path / "whole")
    git(directory, "switch", "-qc", "side", "HEAD~1")
    write(directory, b"x\n", "new")
    git(directory, "add", "new")
    git(directory, "commit", "-qm", "x\n\nPatch: second")
    git(directory, "switch", "-q", "patchset")
    git(directory, "merge", "-q", "--no-edit", "side")
    with pytest.raises(SeriesError, match="is a merge") as error:
        run(project, directory)
    onto = error.value.next.split("rebase ")[1].split(" ")[0]
    git(directory, "rebase", "-q", onto)
    assert exported(project, directory) == ["second"]


def test_commit_made_behind_that_does_not_go_in_where_its_patch_is(make: Make, tmp_path: Path) -> None:
    project = make()
    directory = checkout(project, tmp_path / "whole")
    write(directory, changed(10, 50).replace(b"line_30 = 30", b"thirty = 30"))
    git(directory, "commit", "-qam", "fixup! the first")
    with pytest.raises(SeriesError, match=r"does not go in where patch first is: a\.py") as error:
        run(project, directory)
    assert "--autosquash" in error.value.next


@pytest.mark.parametrize("more", [(), (20,)])
def test_fixup_that_would_vanish_where_its_patch_is_is_told(more: tuple[int, ...], make: Make, tmp_path: Path) -> None:
    """It takes out what the third patch adds, in the name of the first: there is nothing to take out there."""
    project = make()
    directory = checkout(project, tmp_path / "whole")
    write(directory, changed(10, *more, 30))
    git(directory, "commit", "-qam", "fixup! the first")
    with pytest.raises(SeriesError, match=r"makes other files than HEAD has: a\.py") as error:
        run(project, directory)
    assert "--autosquash" in error.value.next
    assert final(project) == changed(10, 30, 50)
    git(directory, "-c", "sequence.editor=true", "rebase", "-q", "-i", "--autosquash", "--root")
    assert exported(project, directory) == (["first"] if more else [])
    assert final(project) == (directory / "a.py").read_bytes()
