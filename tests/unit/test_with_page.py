"""recipes/PATCHES.md changes together with what it tells of: after each task that changes a declaration it is up to date."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from made_edit import LINES, amend, changed, checkout, declared, fresh, git, opened, run, three, write
from made_project import page_in, page_of

from patchset import importing, lint, patches_page, series_edit
from patchset.changes import Change, commit_changes
from patchset.errors import DeclarationError
from patchset.patches_page import with_page
from patchset.resolve import Project
from patchset.rewrite import omit
from patchset.store import Store

ENDS = changed(10, 30, 50)


@pytest.fixture
def diff(bench: Store, make_tree: Callable[..., str]) -> Callable[[bytes, bytes], bytes]:
    return lambda old, new: bench.diff(make_tree({"a.py": old}), make_tree({"a.py": new}))


@pytest.fixture
def project(tmp_path: Path, diff: Callable[[bytes, bytes], bytes]) -> Project:
    """Three patches of a.py on 0.20.0, and a recipe on 0.21.0 that has none of them; the page is up to date."""
    made = three(tmp_path / "clone", diff, {"0.20.0": LINES, "0.21.0": LINES})
    text = (made.workspace.recipes / "r.toml").read_text("utf-8").replace("0.20.0", "0.21.0")
    for id in made.patches:
        text = omit(text, id, "not there")
    (made.workspace.recipes / "other.toml").write_text(text, encoding="utf-8")
    patches_page.file_of(made.workspace.recipes).write_text(page_of(made), "utf-8")
    git(tmp_path / "clone", "init", "-q")
    git(tmp_path / "clone", "add", "recipes")
    git(tmp_path / "clone", "commit", "-qm", "as it was")
    return fresh(made)


def by_new(project: Project, place: Path) -> None:
    directory = checkout(project, place / "co")
    write(directory, changed(5, base=ENDS))
    git(directory, "commit", "-qam", "Mend five")
    series_edit.new(project, project.recipe("r"), "mine", revision="HEAD", directory=directory)


def by_backport(project: Project, place: Path) -> None:
    directory = checkout(project, place / "co")
    write(directory, changed(5, base=ENDS))
    git(directory, "commit", "-qam", "Mend five")
    series_edit.backport(project, project.recipe("r"), "mine", revision="HEAD", directory=directory)


def by_import(project: Project, place: Path) -> None:
    directory = checkout(project, place / "co")
    write(directory, changed(5, base=ENDS))
    (place / "given.patch").write_text(git(directory, "diff", "--full-index"))
    importing.import_source(project, project.recipe("r"), place / "given.patch")


def by_drop(project: Project, place: Path) -> None:
    series_edit.drop(project, project.recipe("r"), "second", "not | wanted")


def by_drop_everywhere(project: Project, place: Path) -> None:
    series_edit.drop(project, project.recipe("r"), "second", "not wanted", everywhere=True)


def by_move(project: Project, place: Path) -> None:
    series_edit.move(project, project.recipe("r"), "third", before="first")


def by_export(project: Project, place: Path) -> None:
    directory = opened(project, "first")
    write(directory, b"new = 1\n", "n.py")
    git(directory, "add", "n.py")
    amend(directory, changed(10))
    run(project, directory)


@pytest.mark.parametrize(
    "task",
    [by_new, by_backport, by_import, by_drop, by_drop_everywhere, by_move, by_export],
    ids=lambda task: task.__name__,
)
def test_page_is_up_to_date_after_each_task(
    task: Callable[[Project, Path], None], project: Project, tmp_path: Path
) -> None:
    before = page_in(project)
    task(project, tmp_path)
    assert page_in(project) == page_of(project) != before
    findings = [(item.rule, item.where) for item in lint.lint(project.workspace).findings]
    assert "page" not in [rule for rule, _ in findings]


def test_page_that_is_as_it_must_be_is_not_written(project: Project) -> None:
    """An edit of lines alone is none that the page tells of."""
    directory = opened(project, "first")
    amend(directory, changed(10, 12))
    before = declared(project)
    run(project, directory)
    now = declared(project)
    assert {name for name in now if now[name] != before[name]} == {"recipes/patches/first/a.patch"}


def test_nothing_changed_leaves_a_page_of_a_person_alone(project: Project) -> None:
    file = patches_page.file_of(project.workspace.recipes)
    file.write_text("mine\n")
    there = project.recipe("r").file
    assert with_page(project, [Change(there, there.read_bytes())]) == [Change(there, there.read_bytes())]
    assert with_page(project, []) == []


@pytest.mark.parametrize("reached", ["by a link to the clone", "by a link to its patches"])
def test_folder_with_a_second_name_is_the_same_folder(reached: str, project: Project, tmp_path: Path) -> None:
    recipes = project.workspace.recipes
    if reached == "by a link to the clone":
        (tmp_path / "link").symlink_to(project.workspace.root)
        file = tmp_path / "link" / "recipes" / "r.toml"
        changes = [Change(file, omit(file.read_text(), "second", "why").encode())]
    else:
        shutil.move(recipes / "patches", tmp_path / "elsewhere")
        (recipes / "patches").symlink_to(tmp_path / "elsewhere")
        file = recipes / "patches" / "second" / "patch.toml"
        changes = [Change(file, file.read_bytes().replace(b"the second", b"the other"))]
    before = page_in(project)
    commit_changes(with_page(fresh(project), changes), project.workspace.journal)
    assert page_in(project) == page_of(project) != before


def test_recipe_that_cannot_be_read_is_named_and_nothing_is_changed(project: Project) -> None:
    other = project.workspace.recipes / "other.toml"
    other.write_text(other.read_text() + "\n[nonsense]\n")
    before = declared(project)
    with pytest.raises(DeclarationError) as error:
        series_edit.drop(project, project.recipe("r"), "second", "why")
    assert error.value.where.startswith(str(other)) and declared(project) == before


def test_patch_whose_diff_cannot_be_read_can_be_dropped_and_lint_says_what_was_not_looked_at(project: Project) -> None:
    (project.patches["second"].folder / "a.patch").write_bytes(b"@@ nonsense\n")
    series_edit.drop(fresh(project), fresh(project).recipe("r"), "second", "cannot be read")
    assert fresh(project).recipe("r").series == ("first", "third")
    assert "page" in [item.rule for item in lint.lint(project.workspace).not_checked]
