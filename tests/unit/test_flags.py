"""One-letter flags mean the same with every task: Invoke gives them out in the order of a task's parameters."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from invoke import Collection

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import tasks as module

_TASKS = Collection.from_module(module).tasks


@pytest.mark.parametrize("name", sorted(_TASKS))
def test_r_is_the_recipe_wherever_there_is_one(name: str) -> None:
    flags = {argument.name: argument.names for argument in _TASKS[name].get_arguments()}
    assert "r" in flags.get("recipe", ("r",))
    assert not [other for other, names in flags.items() if other != "recipe" and "r" in names]
