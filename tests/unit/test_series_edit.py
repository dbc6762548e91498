"""A series changed: commits become patches, patches are dropped and moved, changes are brought back; tried on trees first."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from made_edit import (
    LINES,
    amend,
    changed,
    checkout,
    declared,
    final,
    fresh,
    git,
    make_project,
    opened,
    run,
    three,
    variant,
    write,
)

from patchset import importing, series_edit, series_show
from patchset.console import Console
from patchset.errors import DeclarationError, DiffRefused, SeriesError, WorktreeError
from patchset.resolve import Project, resolve
from patchset.rewrite import omit, retire
from patchset.series_edit import Changed
from patchset.store import Store
from patchset.store.elsewhere import read_commit

Diff = Callable[[bytes, bytes], bytes]

ENDS = changed(10, 30, 50)
BROKEN = LINES.replace(b"line_5 = 5\n", b"def f(:\n")


@pytest.fixture
def project(tmp_path: Path, diff: Diff) -> Project:
    """Patches first, second and third of a.py (lines 10, 30, 50) on 0.20.0; a recipe on 0.21.0 that has none of them."""
    made = three(tmp_path / "clone", diff, {"0.20.0": LINES, "0.21.0": changed(58)})
    text = (made.workspace.recipes / "r.toml").read_text("utf-8").replace("0.20.0", "0.21.0")
    for id in ("first", "second", "third"):
        text = omit(text, id, "not there")
    (made.workspace.recipes / "other.toml").write_text(text, encoding="utf-8")
    return fresh(made)


def commit(directory: Path, content: bytes, message: str = "Mend it\n\nBecause.", name: str = "a.py") -> str:
    write(directory, content, name)
    git(directory, "add", "--all")
    git(directory, "commit", "-qm", message)
    return git(directory, "rev-parse", "HEAD").strip()


def new(project: Project, directory: Path, **more: str) -> Changed:
    now = fresh(project)
    words = {"revision": "HEAD", **more}
    return series_edit.new(now, now.recipe("r"), "mine", directory=directory, **words)  # type: ignore[arg-type]


# -- new ----------------------------------------------------------------------------------------------------------------


def test_commit_on_the_series_becomes_its_last_patch(project: Project, tmp_path: Path) -> None:
    directory = checkout(project, tmp_path / "co")
    oid = commit(directory, changed(5, base=ENDS), "Mend ü\n\nBecause of five.\nAnd so.")
    done = new(project, directory)
    assert "the very tree" in done.what and oid[:12] in done.what
    now = fresh(project)
    assert now.recipe("r").series == ("first", "second", "third", "mine")
    assert [item.patch for item in now.recipe("other").omitted][-1] == "mine"
    patch = now.patches["mine"]
    assert (patch.title, patch.why) == ("Mend ü", "Because of five.\nAnd so.\n")
    assert final(project) == changed(5, base=ENDS)
    assert resolved_tree(project) == git(directory, "rev-parse", "HEAD^{tree}").strip()
    assert "no probe written yet" in patch.probe.read_text("utf-8")
    made = {"patch.toml", "probe.py", "0.20.0.patch", "r.toml", "other.toml", "PATCHES.md"}
    assert {path.name for path in done.written} == made


def resolved_tree(project: Project) -> str:
    now = fresh(project)
    return resolve(now, now.recipe("r"), Store.open(project.workspace.store), lambda text: None).applied.tree


def test_commit_on_an_earlier_patch_goes_to_the_end_or_where_it_was(project: Project) -> None:
    directory = opened(project, "first")
    commit(directory, changed(5, 10))
    done = new(project, directory, after="first", title="T", why="W")
    assert fresh(project).recipe("r").series == ("first", "mine", "second", "third")
    assert done.evidence == ("second: applies", "third: applies") and "the very tree" in done.what
    assert (fresh(project).patches["mine"].title, fresh(project).patches["mine"].why) == ("T", "W")
    assert final(project) == changed(5, base=ENDS)


def test_commit_beside_other_changes_is_merged_in(project: Project) -> None:
    directory = opened(project, "first")
    commit(directory, changed(10, 12), "another change of theirs")
    commit(directory, changed(10, 12, 14))
    assert "by a three-way merge" in new(project, directory).what
    assert final(project) == changed(14, base=ENDS)


def test_commit_that_later_patches_do_not_bear_is_refused(project: Project) -> None:
    directory, before = opened(project, "first"), declared(project)
    commit(directory, changed(10).replace(b"line_30 = 30\n", b"gone = 0\n"))
    with pytest.raises(SeriesError, match=r"second would not go in any more \(conflicts\)"):
        new(project, directory, after="first")
    with pytest.raises(SeriesError, match=r"conflicts in a\.py"):
        new(project, directory)
    assert declared(project) == before


@pytest.mark.parametrize(("content", "words"), [(ENDS, "changes nothing"), (BROKEN, "does not compile")])
def test_commit_that_is_no_good_change_is_refused(content: bytes, words: str, project: Project, tmp_path: Path) -> None:
    directory, before = checkout(project, tmp_path / "co"), declared(project)
    write(directory, content)
    git(directory, "commit", "-qam", "m", "--allow-empty")
    with pytest.raises(SeriesError, match=words):
        new(project, directory)
    assert declared(project) == before


def test_change_whose_context_stands_elsewhere_too_is_refused_with_the_way_out(
    project: Project, tmp_path: Path
) -> None:
    directory, same = checkout(project, tmp_path / "co"), b"x = 1\n" * 40
    commit(directory, same, "same lines", "same.py")
    new(project, directory)
    commit(directory, same[:120] + b"y = 1\n" + same[120:], "one among them", "same.py")
    now, before = fresh(project), declared(project)
    with pytest.raises(SeriesError, match="more than one place") as error:
        series_edit.new(now, now.recipe("r"), "next", revision="HEAD", directory=directory)
    assert "./inv import" in error.value.next and declared(project) == before


def test_commit_that_is_no_patch_is_refused(project: Project, tmp_path: Path) -> None:
    directory = checkout(project, tmp_path / "co")
    git(directory, "switch", "-qc", "side", "HEAD~1")
    commit(directory, b"s = 1\n", "side", "s.py")
    git(directory, "switch", "-q", "patchset")
    git(directory, "merge", "-q", "--no-edit", "side")
    before = declared(project)
    for words, match in (
        ({"revision": "HEAD"}, "2 parents"),
        ({"revision": "HEAD~4"}, "0 parents"),
        ({"revision": "nowhere"}, "no commit 'nowhere'"),
        ({"revision": "--help"}, "no commit"),
        ({"after": "zeroth"}, "no patch 'zeroth'"),
    ):
        with pytest.raises((SeriesError, DeclarationError), match=match):
            new(project, directory, **words)
    with pytest.raises(DeclarationError, match="already"):
        series_edit.new(project, project.recipe("r"), "first", revision="HEAD", directory=directory)
    with pytest.raises(DeclarationError, match="no checkout that a commit could be taken from"):
        new(project, tmp_path / "nowhere")
    assert declared(project) == before


def test_patch_made_of_a_commit_is_exported_unchanged(project: Project, tmp_path: Path) -> None:
    commit(checkout(project, tmp_path / "co"), changed(5, base=ENDS))
    new(project, tmp_path / "co")
    assert run(project, checkout(project, tmp_path / "again")).exported == ()


# -- drop ---------------------------------------------------------------------------------------------------------------


def drop(project: Project, id: str, reason: str = "not needed", **more: bool) -> Changed:
    now = fresh(project)
    return series_edit.drop(now, now.recipe("r"), id, reason, **more)


def test_dropped_patch_is_left_out_by_name_and_stays_in_its_folder(project: Project) -> None:
    resolved_tree(project)
    done = drop(project, "second", "bisecting\nit")
    assert done.evidence == ("every other patch becomes what it was",)
    recipe = fresh(project).recipe("r")
    assert recipe.series == ("first", "third")
    assert [(item.patch, item.reason) for item in recipe.omitted] == [("second", "bisecting it")]
    assert final(project) == changed(10, 50)
    assert [path.name for path in done.written] == ["r.toml", "PATCHES.md"]
    drop(project, "second", "another reason")
    assert [item.reason for item in fresh(project).recipe("r").omitted] == ["another reason"]


def test_what_becomes_of_the_others_without_it_is_told(tmp_path: Path, diff: Diff) -> None:
    patches = {
        "one": (variant(), {"a.patch": diff(LINES, changed(10))}),
        "two": (variant(), {"a.patch": diff(changed(10), changed(10, 12))}),
    }
    project = make_project(tmp_path / "clone", {"0.20.0": {"a.py": LINES}}, patches)
    assert "not tried without it: 0.20.0 is not here" in drop(project, "one").evidence[0]
    file = project.workspace.recipes / "r.toml"
    file.write_text(file.read_text("utf-8").partition("[[series.omit]]")[0].replace('"two"', '"one", "two"')
                    + '[stack]\ntorch = "==2.12.0+xpu"\n[wheel]\nlabel = "b70"\n', encoding="utf-8")  # fmt: skip
    resolved_tree(project)
    assert drop(project, "one").evidence[0].startswith("two: merges (was: applies)")


def test_patch_that_another_requires_is_not_dropped(project: Project) -> None:
    file = project.patches["third"].folder / "patch.toml"
    file.write_text('requires = ["first"]\n' + file.read_text("utf-8"), encoding="utf-8")
    before = declared(project)
    with pytest.raises(DeclarationError, match="third requires first"):
        drop(project, "first")
    assert declared(project) == before
    drop(project, "third")
    with pytest.raises(DeclarationError, match="third requires first"):
        drop(project, "first", everywhere=True)
    drop(project, "first")
    assert fresh(project).recipe("r").series == ("second",)


@pytest.mark.parametrize(("id", "reason", "words"), [("zeroth", "r", "no patch zeroth"), ("first", " \n", "reason")])
def test_drop_needs_a_patch_and_a_reason(id: str, reason: str, words: str, project: Project) -> None:
    with pytest.raises(DeclarationError, match=words):
        drop(project, id, reason)


def test_patch_is_deleted_only_where_git_has_it(project: Project) -> None:
    root, before = project.workspace.root, declared(project)
    with pytest.raises(WorktreeError, match="git does not have it"):
        drop(project, "second", everywhere=True)
    git(root, "init", "-q")
    git(root, "add", "recipes")
    with pytest.raises(WorktreeError, match="git does not have it"):
        drop(project, "second", everywhere=True)
    assert declared(project) == before
    git(root, "commit", "-qm", "all")
    head = git(root, "rev-parse", "HEAD").strip()
    (project.patches["second"].folder / "mine.txt").write_text("not committed", encoding="utf-8")
    with pytest.raises(WorktreeError):
        drop(project, "second", everywhere=True)
    (project.patches["second"].folder / "mine.txt").unlink()
    done = drop(project, "second", "never again", everywhere=True)
    assert f"git checkout {head[:12]} -- recipes/patches/second" in done.what
    assert not (project.workspace.patches / "second").exists()
    now = fresh(project)
    assert now.recipe("r").series == ("first", "third") and now.recipe("r").omitted == ()
    assert "second" not in [item.patch for item in now.recipe("other").omitted]
    git(root, "checkout", head, "--", "recipes/patches/second")
    assert (project.patches["second"].folder / "a.patch").is_file()


def test_patch_of_another_recipe_is_not_deleted(project: Project) -> None:
    other = project.workspace.recipes / "other.toml"
    text = other.read_text("utf-8").replace("patches = []", 'patches = ["second"]')
    text = text.replace('[[series.omit]]\npatch = "second"\nreason = "not there"\n', "")
    other.write_text(text, encoding="utf-8")
    assert fresh(project).recipe("other").series == ("second",)
    with pytest.raises(DeclarationError, match="other still has second"):
        drop(project, "second", everywhere=True)


def test_retired_patch_is_dropped_with_its_record(project: Project) -> None:
    file = project.workspace.recipes / "r.toml"
    file.write_text(retire(file.read_text("utf-8"), "second", "fixed upstream"), encoding="utf-8")
    drop(project, "second", "not \x1b[31m needed\n")
    recipe = fresh(project).recipe("r")
    assert recipe.retired == () and recipe.series == ("first", "third")
    assert [(item.patch, item.reason) for item in recipe.omitted] == [("second", "not �[31m needed")]


def test_retired_patch_is_deleted_with_its_record(project: Project) -> None:
    file = project.workspace.recipes / "r.toml"
    file.write_text(retire(file.read_text("utf-8"), "second", "fixed upstream"), encoding="utf-8")
    root = project.workspace.root
    for words in (("init", "-q"), ("add", "recipes"), ("commit", "-qm", "all")):
        git(root, *words)
    drop(project, "second", everywhere=True)
    assert fresh(project).recipe("r").retired == () and "second" not in file.read_text("utf-8")


@pytest.mark.parametrize("what", ["file", "folder", "nowhere", "itself"])
def test_patch_that_is_or_holds_a_link_is_not_deleted(what: str, project: Project, tmp_path: Path) -> None:
    folder, root = project.patches["second"].folder, project.workspace.root
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_bytes(b"theirs")
    if what == "itself":
        folder.rename(root / "real")
        folder.symlink_to(root / "real")
    else:
        target = {"file": "theirs/file", "folder": "theirs", "nowhere": "gone"}[what]
        (folder / "link").symlink_to(tmp_path / target)
    for words in (("init", "-q"), ("add", "--all"), ("commit", "-qm", "all")):
        git(root, *words)
    before = declared(project)
    with pytest.raises(WorktreeError, match="is or holds a link") as error:
        drop(project, "second", everywhere=True)
    assert error.value.where == str(folder if what == "itself" else folder / "link") and error.value.next
    assert declared(project) == before and (tmp_path / "theirs" / "file").read_bytes() == b"theirs"


# -- move ---------------------------------------------------------------------------------------------------------------


def move(project: Project, id: str, **place: str) -> Changed:
    now = fresh(project)
    return series_edit.move(now, now.recipe("r"), id, **place)


@pytest.mark.parametrize(
    ("id", "place", "order"),
    [
        ("third", {"before": "first"}, ("third", "first", "second")),
        ("first", {"after": "third"}, ("second", "third", "first")),
        ("first", {"after": "second"}, ("second", "first", "third")),
    ],
)
def test_moved_patch_leaves_the_same_tree(
    id: str, place: dict[str, str], order: tuple[str, ...], project: Project
) -> None:
    done = move(project, id, **place)
    assert fresh(project).recipe("r").series == order
    assert done.what.endswith("the tree at the end is the same")
    assert [line.partition(":")[0] for line in done.evidence] == list(order)
    assert final(project) == ENDS


@pytest.fixture
def chain(tmp_path: Path, diff: Diff) -> Callable[[bool], Project]:
    """Two patches, the second of a line that the first makes; *known*: its old file's id is in the store."""

    def make(known: bool) -> Project:
        patches = {
            "one": (variant(), {"a.patch": diff(LINES, changed(10))}),
            "two": (variant(), {"a.patch": diff(changed(10), changed(10).replace(b"LINE_10", b"TWICE_10"))}),
        }
        return make_project(tmp_path / "clone", {"0.20.0": {"a.py": LINES}}, patches)

    return make


def test_order_in_which_a_patch_does_not_go_in_is_refused(chain: Callable[[bool], Project]) -> None:
    project = chain(True)
    before = declared(project)
    with pytest.raises(SeriesError, match=r"two \(conflicts\).* would not go in any more") as error:
        move(project, "two", before="one")
    assert "./inv graph" in error.value.next and declared(project) == before


def test_order_that_stops_can_be_mended(chain: Callable[[bool], Project]) -> None:
    project = chain(True)
    file = project.workspace.recipes / "r.toml"
    file.write_text(file.read_text("utf-8").replace('["one", "two"]', '["two", "one"]'), encoding="utf-8")
    with pytest.raises(SeriesError):
        resolved_tree(project)
    done = move(project, "two", after="one")
    assert any("two: applies (was: conflicts)" in line for line in done.evidence)
    assert final(project) == changed(10).replace(b"LINE_10", b"TWICE_10")


def test_move_respects_requires_and_needs_one_place(project: Project) -> None:
    file = project.patches["third"].folder / "patch.toml"
    file.write_text('requires = ["first"]\n' + file.read_text("utf-8"), encoding="utf-8")
    for id, place, words in (
        ("third", {"before": "first"}, "third requires first"),
        ("first", {"after": "third"}, "third requires first"),
        ("first", {}, "one place"),
        ("first", {"before": "second", "after": "third"}, "one place"),
        ("first", {"before": "first"}, "one place"),
        ("zeroth", {"before": "first"}, "no patch 'zeroth'"),
        ("first", {"before": "zeroth"}, "no patch 'zeroth'"),
    ):
        with pytest.raises(DeclarationError, match=words):
            move(project, id, **place)


# -- backport -----------------------------------------------------------------------------------------------------------

UPSTREAM = {
    "0.20.0": {"a.py": LINES, "d/b.py": LINES},
    "0.21.0": {"a.py": LINES, "d/b.py": changed(7), "d/new.py": b"n = 1\n"},
}


@pytest.fixture
def upstreams(tmp_path: Path, diff: Diff) -> Project:
    """One patch of a.py on 0.20.0; in 0.21.0 d/b.py is another, and d/new.py is new."""
    return make_project(tmp_path / "clone", UPSTREAM, {"first": (variant(), {"a.patch": diff(LINES, changed(10))})})


def backport(project: Project, **more: object) -> Changed:
    now = fresh(project)
    return series_edit.backport(now, now.recipe("r"), "back", **more)  # type: ignore[arg-type]


def test_files_come_as_donors_where_they_are_new_and_as_diffs_where_not(upstreams: Project) -> None:
    done = backport(upstreams, release="0.21.0", paths=["d/new.py", "d/b.py", "d/new.py"])
    digest = sha256(b"n = 1\n").hexdigest()
    assert done.evidence[0] == f"d/new.py: as a donor, sha256 {digest}" and done.evidence[1].startswith(
        "d/b.py: a diff"
    )
    patch = fresh(upstreams).patches["back"]
    (made,) = patch.variants
    assert made.name == "==0.20.0" and made.diff is not None and b"new.py" not in made.diff.read_bytes()
    assert [(d.release, d.path, d.sha256, d.to) for d in made.donors] == [("0.21.0", "d/new.py", digest, "d/new.py")]
    assert (patch.kind, final(upstreams, "d/new.py"), final(upstreams, "d/b.py")) == (
        "backport",
        b"n = 1\n",
        changed(7),
    )
    assert digest in patch.why


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"release": "0.21.0", "paths": ["a.py", "d/none.py"]}, "has no file d/none.py"),
        ({"release": "0.21.0", "paths": ["d"]}, "has no file d"),
        ({"release": "0.21.0", "paths": ["../a.py"]}, "has no file"),
        ({"release": "0.20.0", "paths": ["d/b.py"]}, "the same here"),
        ({"release": "9.9.9", "paths": ["a.py"]}, "not known"),
        ({"release": "0.21.0"}, "name files"),
        ({"paths": ["a.py"]}, "name files"),
        ({"revision": "HEAD"}, "name files"),
        ({"revision": "HEAD", "directory": Path(), "release": "0.21.0", "paths": ["a.py"]}, "name files"),
    ],
)
def test_backport_of_nothing_is_refused(more: dict[str, object], words: str, upstreams: Project) -> None:
    before = declared(upstreams)
    with pytest.raises((DeclarationError, SeriesError), match=words):
        backport(upstreams, **more)
    assert declared(upstreams) == before


@pytest.fixture
def odd(tmp_path: Path, diff: Diff) -> Project:
    """0.20.0 has a folder and a file; 0.21.0 has a file and a folder in their places, a script, and a link."""
    releases = {
        "0.20.0": {"a.py": LINES, "d/x": b"x\n", "f": b"f\n"},
        "0.21.0": {"d": b"d\n", "f/x.py": b"x = 1\n", "free/run.sh": b"#!/bin/sh\n", "link": b"d"},
    }
    project = make_project(tmp_path / "clone", releases, {"first": (variant(), {"a.patch": diff(LINES, changed(10))})})
    archive, new = project.workspace.archives / "vllm-0.21.0.tar.gz", io.BytesIO()
    old = archive.read_bytes()
    with tarfile.open(archive) as read, tarfile.open(fileobj=new, mode="w:gz") as out:
        for member in read.getmembers():
            content = read.extractfile(member)
            if member.name.endswith("run.sh"):
                member.mode = 0o755
            if member.name.endswith("link"):
                member.type, member.linkname, member.size = tarfile.SYMTYPE, "d", 0
            out.addfile(member, content if member.isreg() else None)
    archive.write_bytes(new.getvalue())
    text = project.workspace.upstreams.read_text("utf-8").replace(
        f"size = {len(old)}\n", f"size = {len(new.getvalue())}\n"
    )
    text = text.replace(sha256(old).hexdigest(), sha256(new.getvalue()).hexdigest())
    project.workspace.upstreams.write_text(text, encoding="utf-8")
    return fresh(project)


def test_script_comes_as_a_donor_and_stays_executable(odd: Project) -> None:
    done = backport(odd, release="0.21.0", paths=["free/run.sh"])
    assert "made executable" in done.evidence[0]
    (made,) = fresh(odd).patches["back"].variants
    assert made.diff is not None and made.diff.read_bytes() == (
        b"diff --git a/free/run.sh b/free/run.sh\nold mode 100644\nnew mode 100755\n"
    )
    store = Store.open(odd.workspace.store)
    found = store.entry(resolved_tree(odd), "free/run.sh")
    assert found and (found.mode, store.blob(found.blob)) == ("100755", b"#!/bin/sh\n")
    assert run(odd, checkout(odd, odd.workspace.root / "co")).exported == ()


@pytest.mark.parametrize(
    ("path", "words"),
    [("d", "cannot be put here"), ("f/x.py", "cannot be put here"), ("link", "is a link to d in vllm 0.21.0")],
)
def test_file_whose_place_is_not_free_is_refused(path: str, words: str, odd: Project) -> None:
    before = declared(odd)
    with pytest.raises((SeriesError, DeclarationError), match=words) as error:
        backport(odd, release="0.21.0", paths=["free/run.sh", path])
    assert error.value.where == path and error.value.next and declared(odd) == before


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A repository of somebody's with a.py in a later state, and one commit that changes it."""
    directory = tmp_path / "theirs"
    directory.mkdir()
    git(directory, "init", "-q")
    commit(directory, changed(14), "before")
    commit(directory, changed(14, 16), "Mend sixteen (#7)\n\nAs upstream has it.")
    return directory


def snapshot(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_commit_is_merged_back_and_its_repository_only_read(upstreams: Project, theirs: Path) -> None:
    before = snapshot(theirs)
    done = backport(upstreams, revision="HEAD", directory=theirs)
    assert snapshot(theirs) == before
    assert "by a three-way merge" in done.what
    patch = fresh(upstreams).patches["back"]
    oid = git(theirs, "rev-parse", "HEAD").strip()
    assert patch.title == "Mend sixteen (#7)" and patch.why.startswith("As upstream has it.") is False
    assert all(text in patch.why for text in (oid, "Author: somebody <somebody@host>", "Subject: Mend sixteen (#7)"))
    assert final(upstreams) == changed(10, 16)


def test_commit_of_a_bare_or_linked_repository_is_read(upstreams: Project, theirs: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(theirs), "bare.git")
    git(theirs, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    store = Store.open(upstreams.workspace.store)
    found = [read_commit(store, directory, "HEAD") for directory in (tmp_path / "bare.git", tmp_path / "linked")]
    assert found[0] == found[1] and found[0].subject == "Mend sixteen (#7)"
    assert store.read(found[0].parents[0], "a.py") == changed(14)


def test_no_history_is_copied_and_no_hook_runs(upstreams: Project, theirs: Path, tmp_path: Path) -> None:
    for name in ("reference-transaction", "post-checkout", "pre-auto-gc"):
        hook = theirs / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", encoding="utf-8")
        hook.chmod(0o755)
    old = git(theirs, "rev-parse", "HEAD~1").strip()
    backport(upstreams, revision="HEAD", directory=theirs)
    assert not (tmp_path / "ran").exists()
    assert not Store.open(upstreams.workspace.store).has_object(old)


def test_folder_inside_another_repository_is_not_taken_for_it(upstreams: Project, theirs: Path) -> None:
    (theirs / "plain").mkdir()
    with pytest.raises(DeclarationError, match="not a git repository"):
        backport(upstreams, revision="HEAD", directory=theirs / "plain")


def test_commit_whose_parent_is_cut_off_says_how_to_get_it(upstreams: Project, theirs: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{theirs}", "shallow")
    with pytest.raises((DeclarationError, SeriesError), match="parent") as error:
        backport(upstreams, revision="HEAD", directory=tmp_path / "shallow")
    assert "deepen" in error.value.next


def test_commit_of_a_repository_with_other_ids_is_refused_with_the_way_in(upstreams: Project, tmp_path: Path) -> None:
    directory, before = tmp_path / "sha256", declared(upstreams)
    directory.mkdir()
    git(directory, "init", "-q", "--object-format=sha256")
    commit(directory, LINES, "one")
    commit(directory, changed(14), "two")
    with pytest.raises(DeclarationError, match="SHA-256") as error:
        backport(upstreams, revision="HEAD", directory=directory)
    assert (
        "format-patch -1" in error.value.next and "./inv import" in error.value.next and declared(upstreams) == before
    )


@pytest.mark.parametrize(("mode", "words"), [("160000", "160000"), ("120000", "absolute")])
def test_commit_with_what_no_patch_may_hold_is_refused(mode: str, words: str, upstreams: Project, theirs: Path) -> None:
    before = declared(upstreams)
    if mode == "120000":
        (theirs / "l").symlink_to("/etc/passwd")
        git(theirs, "add", "l")
    else:
        git(theirs, "update-index", "--add", "--cacheinfo", f"{mode},{'1' * 40},sub")
    git(theirs, "commit", "-qm", "odd")
    with pytest.raises(DiffRefused, match=words):
        backport(upstreams, revision="HEAD", directory=theirs)
    assert declared(upstreams) == before


def test_commit_that_is_in_already_or_conflicts_is_refused(upstreams: Project, theirs: Path) -> None:
    before = declared(upstreams)
    commit(theirs, changed(14, 16).replace(b"line_10 = 10\n", b"ten = 0\n"), "conflicts")
    with pytest.raises(SeriesError, match=r"conflicts in a\.py") as error:
        backport(upstreams, revision="HEAD", directory=theirs)
    assert "./inv new" in error.value.next
    commit(theirs, LINES, "back")
    commit(theirs, changed(10), "the very patch")
    with pytest.raises(SeriesError, match="is in already"):
        backport(upstreams, revision="HEAD", directory=theirs)
    git(theirs, "commit", "-q", "--allow-empty", "-m", "nothing")
    with pytest.raises(SeriesError, match="changes nothing"):
        backport(upstreams, revision="HEAD", directory=theirs)
    assert declared(upstreams) == before


def test_last_words_name_the_files_and_the_next_command(
    upstreams: Project, theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = backport(upstreams, revision="HEAD", directory=theirs)
    series_show.show_changed(Console(), done, upstreams.workspace.root)
    said = capsys.readouterr().out
    assert f"wrote  {os.path.join('recipes', 'patches', 'back', 'probe.py')}" in said
    assert "says unknown until you write it" in said and "next: ./inv lock -r r" in said


# -- the commit that a patch was made of ---------------------------------------------------------------------------------


@pytest.mark.parametrize("title", ["", "Another title"])
def test_commit_that_became_a_patch_is_known_as_that_patch(title: str, project: Project, tmp_path: Path) -> None:
    """It has no line `Patch: ID`, and is told from others by what it does, or by what it is called."""
    directory = checkout(project, tmp_path / "co")
    commit(directory, changed(5, base=ENDS))
    new(project, directory, title=title)
    assert run(project, directory).exported == ()
    # and it may be moved on from there
    assert opened(project, "mine", str(directory)) == directory
    assert git(directory, "log", "-1", "--format=%B").splitlines()[2] == "Patch: mine"


def test_commit_that_became_a_patch_is_amended_and_written_back(project: Project, tmp_path: Path) -> None:
    directory = checkout(project, tmp_path / "co")
    commit(directory, changed(5, base=ENDS))
    new(project, directory)
    amend(directory, changed(5, 6, base=ENDS))
    assert [item.patch for item in run(project, directory).exported] == ["mine"]
    assert final(project) == changed(5, 6, base=ENDS)
    # what was exported is what the next export begins with, and a fixup finds it
    write(directory, changed(5, 6, 7, base=ENDS))
    git(directory, "commit", "-qam", "fixup! Mend it")
    assert [item.patch for item in run(project, directory).exported] == ["mine"]
    assert final(project) == changed(5, 6, 7, base=ENDS)


def test_commit_that_became_a_patch_elsewhere_in_the_series_is_told_where(project: Project) -> None:
    directory = opened(project, "first")
    commit(directory, changed(5, 10))
    new(project, directory)
    with pytest.raises(SeriesError, match="second, third is missing there") as error:
        run(project, directory)
    assert "./inv edit mine --into DIR makes a checkout of the series as it is" in error.value.next


@pytest.mark.parametrize("titles", [("the second", "the second"), ("other", "titles")])
def test_commit_of_no_patch_is_still_refused(titles: tuple[str, str], project: Project, tmp_path: Path) -> None:
    """Called as two patches that are not on the branch, or as none."""
    directory = opened(project, "first")
    for id, title in zip(("second", "third"), titles, strict=True):
        file = project.patches[id].folder / "patch.toml"
        file.write_text(file.read_text().replace(f"the {id}", title))
    commit(directory, changed(7, 10), "the second")
    with pytest.raises(SeriesError, match=r"may be of second or third|belongs to no patch of the series"):
        run(project, directory)


def test_imported_patch_is_laid_out_with_its_line(project: Project, tmp_path: Path) -> None:
    (tmp_path / "given.patch").write_bytes(b"Subject: Mend it\n\nPatch: first\n---\n" + given(project))
    done = importing.import_source(fresh(project), fresh(project).recipe("r"), tmp_path / "given.patch")
    directory = opened(project, done.patches[0].id, str(tmp_path / "co"))
    assert git(directory, "log", "-1", "--format=%B").split("\n")[-3:] == [f"Patch: {done.patches[0].id}", "", ""]
    assert run(project, directory).exported == ()


def given(project: Project) -> bytes:
    """A diff on the series as it is."""
    directory = checkout(project, project.workspace.root.parent / "given")
    write(directory, changed(5, base=ENDS))
    return git(directory, "diff", "--full-index").encode()
