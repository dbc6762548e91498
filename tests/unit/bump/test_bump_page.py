"""recipes/PATCHES.md comes with the new recipe, and what it could not be made of shows before anybody is asked."""

from __future__ import annotations

import pytest
from made_bump import BROKEN, CLASH, FIXED, Make, conflicted, declared, finish, fresh, go_on, settle, start
from made_project import page_in, page_of

from patchset import bump
from patchset.bump import Bumped
from patchset.errors import DeclarationError


def test_page_tells_of_the_new_recipe(make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": FIXED})
    done = start(project, "0.21.0")
    assert isinstance(done, Bumped) and page_in(project) == page_of(project)
    assert "`r-0.21` (vLLM 0.21.0), patch 1 of 2, retired" in page_in(project)
    assert isinstance(again := start(fresh(project), "0.21.0"), Bumped) and again.written == ()


def test_recipe_that_cannot_be_read_shows_before_anybody_is_asked(make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    broken = project.workspace.recipes / "another.toml"
    broken.write_text("[pin]\n")
    before = declared(project)
    with pytest.raises(DeclarationError) as error:
        start(project, "0.21.0")
    assert error.value.where.startswith(str(broken))
    assert declared(project) == before and bump.status(project) is None


def test_recipe_broken_meanwhile_is_named_and_what_was_resolved_stays(make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": CLASH})
    start(project, "0.21.0")
    settle(conflicted(project))
    broken = project.workspace.recipes / "another.toml"
    broken.write_text("[pin]\n")
    before = declared(project)
    with pytest.raises(DeclarationError):
        go_on(project)
    assert declared(project) == before and b"'whole'  # both" in conflicted(project).read_bytes()
    broken.unlink()
    finish(project)
    assert page_in(project) == page_of(project)
