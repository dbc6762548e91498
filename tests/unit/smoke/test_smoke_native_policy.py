"""Which lanes are meant, and what it takes for a run of several to be good."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from patchset import lanes
from patchset.errors import DeclarationError, MissingTool, PatchsetError, SmokeError, SourceError
from patchset.recipe import LANES, Recipe
from patchset.resolve import Project
from patchset.smoke import catalogue
from patchset.smoke.lanes import LANES as MODULES

WHEEL = Path("a.whl")


@pytest.fixture
def recipe(project: Project) -> Recipe:
    return project.recipe("b70-0.23")


def result(lane: str, ok: bool = True) -> Mapping[str, Any]:
    status = "passed" if ok else "failed"
    kernels = [{"name": kernel.name, "status": status, "message": "why"} for kernel in catalogue.KERNELS]
    return {"lane": lane, "summary": {"ok": ok}, "kernels": kernels}


def absent(lane: str) -> dict[str, PatchsetError]:
    return {lane: SourceError(f"{lane} cannot be had", next="fetch it")}


def test_a_recipe_and_the_smoke_know_the_same_lanes() -> None:
    assert set(LANES) == set(MODULES)


@pytest.mark.parametrize(
    ("text", "named"),
    [("all", LANES), ("native", ("native",)), (" spirv, native,spirv ", ("spirv", "native"))],
)
def test_lanes_by_name(text: str, named: tuple[str, ...]) -> None:
    assert lanes.lanes_of(text) == named


@pytest.mark.parametrize("text", ["", ",", "warp", "native,warp", "native,all"])
def test_a_lane_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(DeclarationError, match="--require: no lane"):
        lanes.lanes_of(text, "--require")


def test_a_lane_that_was_not_run_counts_only_where_it_must_run(recipe: Recipe) -> None:
    ran = [result("interpret")]
    lanes.require_lanes(ran, absent("native"), ("interpret",), WHEEL, recipe)
    with pytest.raises(SourceError, match="native cannot be had"):
        lanes.require_lanes(ran, absent("native"), ("interpret", "native"), WHEEL, recipe)


def test_a_lane_that_ran_and_is_red_is_red_whether_it_had_to_run_or_not(recipe: Recipe) -> None:
    with pytest.raises(SmokeError, match="kernels of the wheel are wrong"):
        lanes.require_lanes([result("interpret"), result("native", ok=False)], {}, ("interpret",), WHEEL, recipe)


def test_no_lane_that_ran_is_not_good(recipe: Recipe) -> None:
    missing = {"device": MissingTool("no device", next="get one")}
    with pytest.raises(MissingTool, match="no device"):
        lanes.require_lanes([], missing, (), WHEEL, recipe)
