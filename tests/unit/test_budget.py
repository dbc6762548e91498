"""The machine code of a run beside that of an earlier one: what is told, and what is not blamed on the series."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from patchset import budget, receipt
from patchset.errors import DeclarationError
from patchset.smoke import limits
from tests.smoke_documents import codes, kernel, native, result

K64, K16 = 65536, 16384
OLD = native(kernel("recovered", resources=codes(K16, 9000)), kernel("gone_kernel", resources=codes(0)))
NEW = native(kernel("recovered", text="2" * 64, resources=codes(K64, 9000)), kernel("new_kernel", resources=codes(0)))


def _compare(before: dict[str, Any], after: dict[str, Any]) -> budget.Comparison:
    compared = budget.compare({"smoke": [before]}, {"lanes": [after]}, "receipt-1.json")
    assert compared
    return compared


def _changes(compared: budget.Comparison) -> list[tuple[Any, ...]]:
    return [(one.kernel, one.mode, one.what, one.before, one.after) for one in compared.changes]


def test_what_changed_is_told_for_each_mode_with_what_is_new_and_gone() -> None:
    compared = _compare(OLD, NEW)
    assert _changes(compared) == [
        ("recovered", "default", "scratch", K16, K64),
        ("recovered", "256", "scratch", K16 // 2, K64 // 2),
    ]
    assert (compared.new, compared.gone, compared.compared) == (("new_kernel",), ("gone_kernel",), 1)
    assert budget.lines(compared) == [
        "this series took recovered from 16 KiB to 64 KiB of scratch, in the default mode, 25\u00a0% of what the card allows",
        "this series took recovered from 8 KiB to 32 KiB of scratch, with 256 registers, 12\u00a0% of what the card allows",
        "new: new_kernel",
        "gone: gone_kernel",
    ]
    assert all(one.grew for one in compared.changes)
    assert not any(one.grew for one in _compare(NEW, OLD).changes)


@pytest.mark.parametrize(
    ("name", "version"), [("triton", "3.7.0"), ("ocloc", "26.18"), ("target", "bmg-g21")], ids=lambda one: one
)
def test_other_compilers_are_named_and_nothing_is_blamed_on_the_series(name: str, version: str) -> None:
    told = budget.lines(_compare(OLD, {**NEW, "environment": {**NEW["environment"], name: version}}))
    assert told[0].startswith(f"compilers differ ({name} {OLD['environment'][name]} → {version})")
    assert "recovered went from 16 KiB to 64 KiB of scratch" in told[1]
    assert "this series" not in "".join(told)


def test_another_release_and_a_kernel_whose_text_is_the_same_are_not_the_series_either() -> None:
    assert budget.lines(_compare(OLD, {**NEW, "release": "0.26.0"}))[0].startswith("releases differ (0.23.0 → 0.26.0)")
    same = _compare(OLD, native(kernel("recovered", resources=codes(K64, 9000))))
    assert budget.lines(same)[0].endswith("though its own text is the same")
    assert "this series" not in "".join(budget.lines(same))


def test_equal_runs_say_so() -> None:
    compared = _compare(OLD, OLD)
    assert compared.changes == () and budget.lines(compared) == [
        "the 2 kernels that both runs compiled take what they took"
    ]


def test_the_most_of_all_specialisations_counts_and_a_missing_number_is_none() -> None:
    two = (*codes(K16), *codes(0, 200, 64))
    numbers = budget.most(native(kernel(resources=two))["kernels"][0])
    assert numbers["default"] == {
        "scratch": K16, "spill": 200, "private": 0, "shared": 64, "registers": 128, "unfit": 0, "specialisations": 1
    }  # fmt: skip
    refused = native(kernel("recovered", resources=codes(K16, 9000)))
    for one in refused["kernels"][0]["resources"]:
        if one["mode"] == "default":
            del one["scratch"], one["registers"], one["spill"], one["private"]
            one["faults"] = ["it does not compile"]
    changes = _compare(OLD, refused).changes
    assert ("recovered", "default", "unfit", 0, 1) in _changes(_compare(OLD, refused))
    assert [one.after for one in changes if one.what == "scratch"] == [None] and all(one.grew for one in changes)
    assert "from 16 KiB to no number of scratch" in "".join(budget.lines(_compare(OLD, refused)))


def test_without_machine_code_on_either_side_there_is_nothing_to_say() -> None:
    plain = {"smoke": [result("interpret", kernel())]}
    assert budget.compare(plain, {"lanes": [NEW]}, "") is None
    assert budget.compare({"smoke": [OLD]}, plain, "") is None
    assert budget.native_of(OLD) is OLD


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (1000, "1000 B"), (1024, "1 KiB"), (65536, "64 KiB")])
def test_sizes(value: int, text: str) -> None:
    assert budget.size(value) == text


def test_the_lane_judges_by_the_limits_that_are_shown() -> None:
    """The lane cannot be imported here: it wants NumPy."""
    source = Path(limits.__file__).with_name("lanes") / "native.py"
    told = {
        node.targets[0].id: ast.unparse(node.value)
        for node in ast.parse(source.read_text("utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert (told["SCRATCH_LIMIT"], told["SHARED_LIMIT"]) == ("limits.SCRATCH", "limits.SHARED")


# -- the receipt to compare with ---------------------------------------------------------------------------------------


def _put(dist: Path, stamp: str, document: dict[str, Any] | str, version: str = "0.23.0+xpu.b70.00000000") -> Path:
    path = dist / version / f"receipt-{stamp}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
    return path


def _receipt(smoke: dict[str, Any], recipe: str = "b70-0.23", **more: Any) -> dict[str, Any]:
    about = {
        "format": receipt.FORMAT,
        "recipe": recipe,
        "runtime": "0.23.0+xpu.b70.1",
        "finished": "2026-12-01T00:00:00Z",
    }
    return {**about, "smoke": [smoke], **more}


def test_the_newest_other_receipt_of_the_recipe_with_machine_code_is_taken(tmp_path: Path) -> None:
    assert receipt.earlier(tmp_path, "b70-0.23") is None
    _put(tmp_path, "20261201T000000Z", _receipt(OLD))
    wanted = _put(tmp_path, "20261202T000000Z", _receipt(OLD), "0.23.0+xpu.b70.11111111")
    later = _put(tmp_path, "20261202T000000Z-10", _receipt(OLD), "0.23.0+xpu.b70.11111111")
    _put(tmp_path, "20261203T000000Z", _receipt(OLD, "b70-0.26"))
    _put(tmp_path, "20261204T000000Z", _receipt(result("interpret", kernel())))
    _put(tmp_path, "20261205T000000Z", "{")
    found = receipt.earlier(tmp_path, "b70-0.23", but=later)
    assert found and found.path == wanted
    _put(tmp_path, "20261202T000000Z-2", _receipt(OLD), "0.23.0+xpu.b70.11111111")
    newest = receipt.earlier(tmp_path, "b70-0.23")
    assert newest and newest.path == later
    compared = newest.compare({"lanes": [NEW]})
    assert compared and compared.against == f"{later.name} of 0.23.0+xpu.b70.1"


def _spoiled(key: str, value: Any) -> dict[str, Any]:
    smoke = json.loads(json.dumps(OLD))
    smoke["kernels"][0]["resources"][0][key] = value
    return _receipt(smoke)


@pytest.mark.parametrize(
    ("document", "what"),
    [
        ("[", "not a receipt"),
        ("[1]", "not a receipt"),
        ({"format": 9}, "it has no 'recipe'"),
        (_receipt(OLD, format=9), "not of format"),
        (_receipt(OLD, runtime=7), "not of format"),
        ({**_receipt(OLD), "smoke": "x"}, "not a receipt"),
        (_receipt(result("interpret", kernel())), "holds no machine code"),
        (_spoiled("scratch", "much"), "are no numbers"),
        (_spoiled("spill", -1), "are no numbers"),
        (_spoiled("mode", 5), "is no text"),
        (_spoiled("nonesuch", 5), "not a receipt"),
    ],
)
def test_a_named_receipt_that_cannot_be_compared_with_is_refused(tmp_path: Path, document: Any, what: str) -> None:
    path = _put(tmp_path, "20261201T000000Z", document)
    with pytest.raises(DeclarationError, match=what) as caught:
        receipt.earlier(tmp_path, "b70-0.23", str(path))
    assert caught.value.where == str(path) and caught.value.next
    assert receipt.earlier(tmp_path, "b70-0.23") is None


def test_a_named_receipt_may_be_of_another_recipe_and_must_be_there(tmp_path: Path) -> None:
    path = _put(tmp_path, "20261201T000000Z", _receipt(OLD, "b70-0.26"))
    found = receipt.earlier(tmp_path, "b70-0.23", str(path))
    assert found and found.path == path
    with pytest.raises(DeclarationError, match="no such file"):
        receipt.earlier(tmp_path, "b70-0.23", str(tmp_path / "nonesuch.json"))


def test_lanes_without_machine_code_look_for_nothing_and_refuse_a_name(tmp_path: Path) -> None:
    path = _put(tmp_path, "20261201T000000Z", _receipt(OLD))
    assert receipt.earlier(tmp_path, "b70-0.23", lanes=("interpret", "spirv")) is None
    with pytest.raises(DeclarationError, match="is not run"):
        receipt.earlier(tmp_path, "b70-0.23", str(path), ("interpret",))


def test_of_many_that_are_new_some_are_named_and_the_rest_counted() -> None:
    many = native(*(kernel(f"k{at:02}", resources=codes(0)) for at in range(30)))
    told = budget.lines(_compare(many, OLD))
    assert told[-1] == f"gone: {', '.join(f'k{at:02}' for at in range(8))} and 22 more"
