"""A patch edited as a commit and written back: only what changed, and for every release of its range that can be told."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from made_project import write_project

from patchset import edit, export
from patchset.errors import DeclarationError, SeriesError, WorktreeError
from patchset.resolve import Project, resolve
from patchset.store import Store

LINES = b"".join(b"line_%d = %d\n" % (n, n) for n in range(60))


def changed(*numbers: int, base: bytes = LINES, word: bytes = b"LINE") -> bytes:
    for n in numbers:
        base = base.replace(b"line_%d = %d\n" % (n, n), b"%s_%d = 0\n" % (word, n))
    return base


@pytest.fixture
def make(bench: Store, make_tree: Callable[..., str], tmp_path: Path) -> Callable[..., Project]:
    """Releases → a project of three patches of one file, at lines 10, 30 and 50; ``variants`` is the range of the first."""

    def project(releases: Mapping[str, bytes], ranges: str = "==0.20.0") -> Project:
        def diff(number: int) -> bytes:
            return bench.diff(make_tree({"a.py": LINES}), make_tree({"a.py": changed(number)}))

        def variant(name: str) -> str:
            return f'\n[[variant]]\nreleases = "{name}"\ndiff = "a.patch"\nnote = "n"\n'

        patches = {
            "first": (variant(ranges), {"a.patch": diff(10)}),
            "second": (variant("==0.20.0"), {"a.patch": diff(30)}),
            "third": (variant("==0.20.0"), {"a.patch": diff(50)}),
        }
        return write_project(tmp_path / "clone", {r: {"a.py": c} for r, c in releases.items()}, patches, list(patches))

    return project


@pytest.fixture(autouse=True)
def own_vendor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATCHSET_VENDOR", raising=False)


def fresh(project: Project) -> Project:
    return Project.read(project.workspace)


def opened(project: Project, patch: str = "first") -> Path:
    return edit.open_patch(project, project.recipe("r"), patch, "").directory


def run(project: Project, directory: Path, *, write: bool = True) -> export.Export:
    return export.export(fresh(project), fresh(project).recipe("r"), directory, write=write)[0]


def git(directory: Path, *words: str) -> str:
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@host"]
    return subprocess.run(["git", *who, *words], cwd=directory, check=True, capture_output=True, text=True).stdout


def write(directory: Path, content: bytes) -> None:
    (directory / "a.py").write_bytes(content)


def declared(project: Project) -> dict[str, tuple[bytes, int]]:
    files = (path for path in project.workspace.recipes.rglob("*") if path.is_file())
    return {str(p.relative_to(project.workspace.root)): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}


def final(project: Project) -> bytes | None:
    store, now = Store.open(project.workspace.store), fresh(project)
    return store.read(resolve(now, now.recipe("r"), store, lambda text: None).applied.tree, "a.py")


@pytest.mark.parametrize("patch", ["first", "second", "third"])
def test_untouched_checkout_is_a_no_op(patch: str, make: Callable[..., Project]) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project, patch)
    before = declared(project)
    assert run(project, directory).exported == ()
    assert declared(project) == before


@pytest.mark.parametrize(("more", "exported"), [(15, ["first"]), (32, ["first", "second"])])
def test_edit_of_the_first_patch_carries_the_later_ones(
    more: int, exported: list[str], make: Callable[..., Project]
) -> None:
    """Line 32 is context of the second patch: that is written anew too, so that it applies and need not be merged."""
    project = make({"0.20.0": LINES})
    directory = opened(project)
    write(directory, changed(10, more))
    git(directory, "commit", "-qa", "--amend", "--no-edit")
    before = declared(project)
    assert [item.patch for item in run(project, directory, write=False).exported] == exported
    assert declared(project) == before
    run(project, directory)
    written = {name for name, content in declared(project).items() if before.get(name) != content}
    assert written == {f"recipes/patches/{patch}/a.patch" for patch in exported}
    assert final(project) == changed(10, 30, more, 50)
    assert run(project, directory).exported == ()


def test_exported_diff_is_that_of_the_store_whatever_git_is_told(make: Callable[..., Project], bench: Store) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project)
    for key, value in (("diff.noprefix", "true"), ("diff.context", "0"), ("core.abbrev", "4"), ("color.ui", "always")):
        git(directory, "config", key, value)
    write(directory, changed(10, 12))
    git(directory, "commit", "-qa", "--amend", "--no-edit")
    run(project, directory)
    data = (project.patches["first"].folder / "a.patch").read_bytes()
    assert data.startswith(b"diff --git a/a.py b/a.py\nindex ") and len(data.split(b"\n")[1]) == len("index ") + 82 + 7
    assert b"\x1b" not in data and data.count(b"\n line_") >= 6


def test_whole_series_is_edited_with_fixup_commits(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project, "third")
    write(directory, changed(10, 30, 50, 8))
    git(directory, "commit", "-qam", "fixup! T")  # every patch here has the title T: the last of that name is meant
    done = run(project, directory)
    assert [item.patch for item in done.exported] == ["third"]
    assert final(project) == changed(8, 10, 30, 50)


@pytest.mark.parametrize(
    ("disturb", "words"),
    [
        (lambda d: write(d, b"not committed\n"), "not committed"),
        (lambda d: (write(d, changed(10, 1)), git(d, "commit", "-qam", "new work")), "belongs to no patch"),
        (lambda d: (write(d, changed(10, 1)), git(d, "commit", "-qam", "x\n\nPatch: other")), "names 'other'"),
        (lambda d: git(d, "reset", "-q", "--hard", "HEAD~2"), None),
    ],
    ids=["uncommitted", "no patch", "another patch", "fewer is a prefix"],
)
def test_what_is_no_series_is_refused_with_the_next_command(
    disturb: Callable[[Path], object], words: str | None, make: Callable[..., Project]
) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project, "third")
    before = declared(project)
    disturb(directory)
    if words is None:
        assert run(project, directory).exported == ()
    else:
        with pytest.raises((WorktreeError, SeriesError), match=words) as error:
            run(project, directory)
        assert error.value.next
    assert declared(project) == before


def test_dropped_and_reordered_commits_are_named(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project, "third")
    commits = git(directory, "rev-list", "--reverse", "HEAD").split()[1:]
    git(directory, "reset", "-q", "--hard", commits[0])
    git(directory, "cherry-pick", commits[2])
    with pytest.raises(SeriesError, match="second is missing there"):
        run(project, directory)
    git(directory, "cherry-pick", commits[1])
    with pytest.raises(SeriesError, match="it has first, third, second"):
        run(project, directory)


def test_directory_that_is_no_checkout_or_of_another_base_is_refused(
    make: Callable[..., Project], tmp_path: Path
) -> None:
    project = make({"0.20.0": LINES})
    with pytest.raises(WorktreeError, match="no checkout there"):
        run(project, tmp_path / "nowhere")
    git(tmp_path, "init", "-q", "other")
    (tmp_path / "other" / "f").write_text("x")
    git(tmp_path / "other", "add", "f")
    git(tmp_path / "other", "commit", "-qm", "x")
    with pytest.raises(WorktreeError, match=r"not based on vLLM 0\.20\.0"):
        run(project, tmp_path / "other")


def test_later_patch_that_no_longer_goes_in_is_named(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project)
    write(directory, changed(10, 30, word=b"OTHER"))
    git(directory, "commit", "-qa", "--amend", "--no-edit")
    before = declared(project)
    with pytest.raises(SeriesError, match=r"patch second does not go in any more: a\.py"):
        run(project, directory)
    assert declared(project) == before


def test_edit_that_does_not_compile_or_undoes_the_patch_is_refused(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project)
    write(directory, changed(10) + b"def f(:\n")
    git(directory, "commit", "-qa", "--amend", "--no-edit")
    with pytest.raises(SeriesError, match="does not compile"):
        run(project, directory)
    write(directory, LINES)
    git(directory, "commit", "-qa", "--amend", "--no-edit", "--allow-empty")
    with pytest.raises(SeriesError, match="changes nothing any more"):
        run(project, directory)


# -- the other releases of the range ------------------------------------------------------------------------------------

#: The edit goes in; it has to be merged; it clashes.
LATER = {"0.21.0": b"# head\n" + LINES, "0.22.0": LINES.replace(b"line_14 = 14", b"fourteen = 14"),
         "0.23.0": LINES.replace(b"line_12 = 12", b"twelve = 12")}  # fmt: skip


def edited_over_the_range(make: Callable[..., Project], *, bring: bool) -> tuple[Project, export.Export]:
    project = make({"0.20.0": LINES, **LATER}, ">=0.20.0,<=0.23.0")
    if bring:
        bases = project.bases(Store.open(project.workspace.store))
        for release in LATER:
            bases.tree(release)
    directory = opened(project)
    write(directory, changed(10, 12))
    git(directory, "commit", "-qa", "--amend", "--no-edit")
    return project, run(project, directory)


def test_other_releases_of_the_range_are_tried_carried_or_keep_the_old_diff(make: Callable[..., Project]) -> None:
    project, done = edited_over_the_range(make, bring=True)
    (item,) = done.exported
    assert item.groups == (
        (">=0.20.0,<=0.21.0", "the new diff"),
        ("==0.22.0", "carried by a three-way merge"),
        ("==0.23.0", "keeps the old diff: the edit does not go in there"),
    )
    now = fresh(project).patches["first"]
    assert {v.name: (v.diff.name if v.diff else None, v.note) for v in now.variants} == {
        ">=0.20.0,<=0.21.0": ("0.20.0-0.21.0.patch", "n"),
        "==0.22.0": ("0.22.0.patch", "n"),
        "==0.23.0": ("a.patch", "n"),
    }
    store = Store.open(project.workspace.store)
    bases = project.bases(store)
    made = {release: store.read(_patched(store, now, release, bases), "a.py") or b"" for release in ("0.20.0", *LATER)}
    assert [b"LINE_12 = 0" in made[release] for release in made] == [True, True, True, False]
    assert all(b"LINE_10 = 0" in content for content in made.values())


def _patched(store: Store, patch: object, release: str, bases: object) -> str:
    from patchset.series import apply_patch

    step = apply_patch(store, bases.tree(release), "", patch, patch.variant_for(release), bases.donor_file)  # type: ignore[attr-defined, arg-type]
    assert step.outcome.changes_tree
    return step.tree


def test_release_that_is_not_here_is_said_to_be_not_tried(make: Callable[..., Project]) -> None:
    _, done = edited_over_the_range(make, bring=False)
    (item,) = done.exported
    assert item.not_tried == tuple(LATER)


# -- opening ------------------------------------------------------------------------------------------------------------


def test_patch_that_is_not_there_or_changes_nothing_cannot_be_edited(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": LINES})
    with pytest.raises(DeclarationError, match=r"no patch 'x' .*first, second, third"):
        opened(project, "x")
    toml = project.patches["second"].folder / "patch.toml"
    toml.write_text(toml.read_text().replace('diff = "a.patch"', 'absent = [{ file = "b.py" }]'))
    (project.patches["second"].folder / "a.patch").unlink()
    with pytest.raises(DeclarationError, match=r"second changes nothing at 0\.20\.0 \(absent\)"):
        opened(fresh(project), "second")


def test_checkout_with_changes_is_not_replaced(make: Callable[..., Project]) -> None:
    project = make({"0.20.0": LINES})
    directory = opened(project)
    write(directory, b"mine\n")
    with pytest.raises(WorktreeError, match="have changes"):
        opened(project, "second")
    assert (directory / "a.py").read_bytes() == b"mine\n"
