"""Planted faults are exactly the change that they say."""

from __future__ import annotations

import ast

import pytest

from patchset.smoke.mutate import Mutant, MutationError, apply, mutants

TEXT = """# kept
A = 1 + 1


@jit
def f(x, n):
    if x >= n and not x:
        return x + n - 1
    return x >= n


def g(x, n):
    return x >= n
"""


def test_one_expression_changes_and_the_rest_of_the_file_stays() -> None:
    changed = apply(TEXT, Mutant("f", "x >= n", "x > n", 1))
    assert changed.startswith("# kept\nA = 1 + 1\n\n\n@jit\ndef f(x, n):\n    if x >= n and (not x):\n")
    assert changed.endswith("    return x > n\n\n\ndef g(x, n):\n    return x >= n\n")


def test_every_operator_has_a_mutant_and_every_mutant_changes_the_tree() -> None:
    found = list(mutants(TEXT))
    assert {mutant.new for mutant in found if mutant.function == "f"} == {
        "x >= n or not x",
        "x > n",
        "x",
        "x + n + 1",
        "x - n",
    }
    assert [mutant.occurrence for mutant in found if mutant.old == "x >= n"] == [0, 1, 0]
    for mutant in found:
        assert ast.dump(ast.parse(apply(TEXT, mutant))) != ast.dump(ast.parse(TEXT)), str(mutant)


@pytest.mark.parametrize("mutant", [Mutant("h", "x", "y"), Mutant("f", "x < n", "y"), Mutant("g", "x >= n", "y", 1)])
def test_a_mutant_that_does_not_fit_is_an_error(mutant: Mutant) -> None:
    with pytest.raises(MutationError):
        apply(TEXT, mutant)
