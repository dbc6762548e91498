"""Operator schemas: what is one, what it says, and which calls do not fit it."""

from __future__ import annotations

import pytest

from patchset.kernels.schema import LONGEST, Argument, parse, refusal


def test_arguments_with_types_defaults_and_what_comes_by_name_only() -> None:
    schema = parse("add.out(Tensor self, Tensor[] xs, int? n=None, *, float a=1.5, Tensor(a!) out) -> Tensor(a!)")
    assert schema is not None and schema.name == "add.out"
    assert schema.arguments == (
        Argument("self", "Tensor", None, False),
        Argument("xs", "Tensor[]", None, False),
        Argument("n", "int?", "None", False),
        Argument("a", "float", "1.5", True),
        Argument("out", "Tensor(a!)", None, True),
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("get() -> str", 0),
        ("f(Tensor! out, Tensor!? res,\n      int[2] sizes) -> ()", 3),
        ("f(Tensor x, (int, int)? shape=None) -> (Tensor, Tensor)", 2),
        ("f(Tensor x,Tensor y, float lambda) -> (Tensor out, int[] n)", 3),
        ("ns::f(Tensor x, ScalarType? t, bool b=False) -> Tensor[]", 3),
        ("f(SymInt n=-1, str s='a, b') -> bool", 2),
    ],
)  # fmt: skip
def test_what_is_one(text: str, count: int) -> None:
    schema = parse(text)
    assert schema is not None and len(schema.arguments) == count and "\n" not in schema.text


@pytest.mark.parametrize(
    "text",
    ["desc()->c_desc.ndims", "f(x) -> y", "f(Tensor x)", "f(Tensor) -> ()", "f(Tensor x) -> void", "(Tensor x) -> ()",
     "f(Tensor x, *, *, int n) -> ()", "f(Tensor x -> ()", "std::vector<int> f(int n) -> int", "",
     "f(" + "Tensor x, " * LONGEST + "int n) -> ()"],
)  # fmt: skip
def test_what_is_none(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("positional", "keywords", "words"),
    [
        (2, set(), ""),
        (1, {"b"}, ""),
        (0, {"a", "b", "n", "k"}, ""),
        (3, {"k"}, ""),
        (4, set(), "4 positional arguments; it takes 3"),
        (1, set(), "b not given"),
        (2, {"b"}, "b given twice"),
        (2, {"z"}, "no argument named z"),
    ],
)
def test_calls_that_fit_and_calls_that_do_not(positional: int, keywords: set[str], words: str) -> None:
    schema = parse("f(Tensor a, Tensor b, int n=1, *, int k=2) -> Tensor")
    assert schema is not None and refusal(schema, positional, frozenset(keywords)) == words
