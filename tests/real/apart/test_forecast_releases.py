"""The forecast of the default recipe over every release is what the field notes say, by text and by probe; and the stack with it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from patchset import forecast, lab, stack
from patchset.console import Console
from patchset.resolve import Project
from patchset.store import Store
from patchset.workspace import Workspace

MAMBA, GEMMA, CACHED, MTP = "mamba-uint64-pointers", "gemma4-unified", "cached-tokens-zero", "mtp-boundary"
ORDER = (MAMBA, GEMMA, CACHED, MTP)

#: The field notes' first table, in the order above: N the defect is there and reachable, F upstream fixed it or has the
#: feature, n the feature is not there (the notes' "latent" of 0.22 for the boundary is that: the operator takes no groups yet).
FIELD = {
    "0.19.1": "NNNn", "0.20.0": "NNNn", "0.20.1": "NNNn", "0.20.2": "NNNn", "0.21.0": "NNNn", "0.22.0": "NNNn", "0.22.1": "NNNn",
    "0.23.0": "NFNN", "0.24.0": "NFFN", "0.25.0": "NFFN", "0.25.1": "NFFN", "0.26.0": "NFFN", "0.27.0": "NFFN", "0.27.1": "NFFN",
    "0.28.0": "NFFN", "0.29.0": "FFFN", "0.30.0": "FFFN", "0.31.0": "FFFF", "0.32.0": "FFFF", "0.33.0": "FFFF",
}  # fmt: skip
STATES = {"N": "needed", "F": "fixed", "n": "absent"}
OUTCOMES = {"N": "applies", "F": "upstream", "n": "absent"}

#: (torch, vllm-xpu-kernels), from the same table.
PINS = {
    "0.19.1": "2.10 0.1.4", "0.20.0": "2.11 0.1.5", "0.20.1": "2.11 0.1.5", "0.20.2": "2.11 0.1.5", "0.21.0": "2.11 0.1.7",
    "0.22.0": "2.11 0.1.8", "0.22.1": "2.11 0.1.8", "0.23.0": "2.11 0.1.9", "0.24.0": "2.12 0.1.10", "0.25.0": "2.12 0.1.10.1",
    "0.25.1": "2.12 0.1.10.1", "0.26.0": "2.12 0.1.11.1", "0.27.0": "2.13 0.1.12", "0.27.1": "2.13 0.1.12", "0.28.0": "2.13 0.1.13.2",
    "0.29.0": "2.13 0.1.14.1", "0.30.0": "2.13 0.1.14.1", "0.31.0": "2.14 0.1.15.4", "0.32.0": "2.14 0.1.15.4", "0.33.0": "2.14 0.1.15.4",
}  # fmt: skip


def edges(patch: str) -> tuple[str, ...]:
    """Both ends, and both sides of each change in the patch's column: its probe runs there (everywhere: ``./inv forecast --probes``)."""
    column = ORDER.index(patch)
    releases = list(FIELD)
    sides = {
        side
        for old, new in itertools.pairwise(releases)
        if FIELD[old][column] != FIELD[new][column]
        for side in (old, new)
    }
    return tuple(release for release in releases if release in {*sides, releases[0], releases[-1]})


@pytest.fixture(scope="module")
def document(project: Project, base_of: Callable[[str], str]) -> dict[str, Any]:
    """The forecast by text over every release."""
    for release in FIELD:
        base_of(release)
    return forecast.forecast(project, project.recipe("b70-0.23"), Console(as_json=True), ",".join(FIELD))


@pytest.fixture(scope="module")
def probed(project: Project, document: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells of the forecast with its probes, each patch at its edges."""
    recipe, console = project.recipe("b70-0.23"), Console(as_json=True)
    asked = [forecast.forecast(project, recipe, console, ",".join(edges(patch)), patch, probes=True) for patch in ORDER]
    assert [one["summary"]["stops"] for one in asked] == [0] * len(ORDER)
    return [cell for one in asked for cell in one["cells"]]


def test_document_is_what_the_schema_says(document: dict[str, Any]) -> None:
    schema = Draft202012Validator(json.loads(forecast.SCHEMA.read_bytes()))
    schema.validate(json.loads(json.dumps(document)))


def test_every_known_release_is_in_the_table(project: Project, document: dict[str, Any]) -> None:
    assert list(FIELD) == list(PINS) == list(project.upstreams["vllm"].releases)
    assert [release["release"] for release in document["releases"]] == list(FIELD)
    assert document["unavailable"] == []


def test_states_are_those_of_the_field_notes(probed: list[dict[str, Any]]) -> None:
    found = {(cell["release"], cell["patch"]): cell["state"] for cell in probed}
    assert found == {
        (release, patch): STATES[FIELD[release][ORDER.index(patch)]] for patch in ORDER for release in edges(patch)
    }


def test_the_edges_are_where_the_field_notes_change() -> None:
    assert edges(CACHED) == ("0.19.1", "0.23.0", "0.24.0", "0.33.0")
    assert edges(MTP) == ("0.19.1", "0.22.1", "0.23.0", "0.30.0", "0.31.0", "0.33.0")


def test_every_outcome_fits_its_state_and_every_variant_its_release(document: dict[str, Any]) -> None:
    found = {(cell["release"], cell["patch"]): (cell["outcome"], cell["covered"]) for cell in document["cells"]}
    assert found == {
        (release, patch): (OUTCOMES[letter], True)
        for release, letters in FIELD.items()
        for patch, letter in zip(ORDER, letters, strict=True)
    }
    assert all(cell["evidence"] for cell in document["cells"])


def test_text_and_probes_agree(probed: list[dict[str, Any]]) -> None:
    assert [(cell["release"], cell["patch"], cell["so"]) for cell in probed if cell["agree"] is not True] == []
    for cell in probed:
        assert (cell["probe"]["patched"] is not None) == (cell["outcome"] == "applies")


def test_pins_are_those_of_the_field_notes(document: dict[str, Any]) -> None:
    for release in document["releases"]:
        torch, kernels = PINS[release["release"]].split()
        assert release["stack"]["torch"] == f"=={torch}.0+xpu"
        assert release["stack"]["vllm-xpu-kernels"] == f"=={kernels}"


def test_changes_that_matter_to_the_series_are_told_where_they_happen(document: dict[str, Any]) -> None:
    told = {
        (release["release"], change["name"]): change["meaning"]
        for release in document["releases"]
        for change in release["changes"]
        if change["meaning"]
    }
    assert "contains the boundary fix" in told["0.31.0", "vllm-xpu-kernels"]
    assert "the pointer rule flips" in told["0.31.0", "torch"]
    assert "refuse any batch that mixes" in told["0.27.0", "vllm-xpu-kernels"]
    assert "own floor is now high enough" in told["0.29.0", "transformers"]
    assert "by layer" in told["0.28.0", "transformers"]


@pytest.mark.parametrize("name", ["b70-0.22", "b70-0.23", "b70-0.26", "b70-0.33"])
def test_stack_of_a_release_is_what_its_recipe_declares(
    name: str, project: Project, store: Store, base_of: Callable[[str], str]
) -> None:
    recipe = project.recipe(name)
    assert stack.of(store, base_of(recipe.pin.release), recipe.pin.release) == dict(recipe.stack)


def test_what_only_is_known_of_transformers_holds_in_the_trees(store: Store, base_of: Callable[[str], str]) -> None:
    """The last release that reads head_dim plainly is the last one that is kept below transformers 5.15."""
    path, plain = "vllm/model_executor/models/gemma4.py", b"head_dim = config.head_dim"
    for release in ("0.19.1", "0.27.1", "0.28.0"):
        below = "<5.15" in stack.of(store, base_of(release), release)["transformers"]
        assert (plain in (store.read(base_of(release), path) or b"")) == below == (release != "0.28.0")


def test_identity_of_the_laboratory_is_that_of_the_one_that_is_made(workspace: Workspace, lab_python: object) -> None:
    assert lab.identity() == lab.ensure(workspace.environments).identity
