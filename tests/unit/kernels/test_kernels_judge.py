"""What facts mean: groups beside every kind of variant, versions, Pythons, operators, torch, runtimes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from patchset.errors import KernelsError
from patchset.kernels.beside import Torch
from patchset.kernels.calls import Wanted, wanted_by
from patchset.kernels.finding import Finding, Verdict, Wish, require
from patchset.kernels.have import Had
from patchset.kernels.judge import judge
from patchset.kernels.ops import Op
from patchset.kernels.read import Contents, Object
from patchset.kernels.schema import parse
from patchset.patch import Absent, Patch, Present, Variant

HAD = Had(Path("k.whl"), "0.1.15.4", ("cp38-abi3-manylinux_2_28_x86_64",), "0" * 64, 7, True)
OBJECT = Object("k/_xpu_C.abi3.so", 9, ("libsycl.so.9",), (), (("libc.so.6", "GLIBC_2.17"),), ("_t",), ("_x",), (), 0)


def op(namespace: str, text: str) -> Op:
    schema = parse(text)
    assert schema
    return Op(namespace, schema, "_xpu_C.abi3.so", "function")


CONTENTS = Contents(
    (OBJECT,),
    (op("_xpu_C", "f(Tensor x, int n=1) -> Tensor"), op("_C", "shared(Tensor x) -> Tensor")),
    (("_xpu_C", "unclear"),),
    (("k/_xpu_C.abi3.so", "<="),),
    (),
    {"vllm_xpu_kernels": ("top",), "vllm_xpu_kernels._C": ("*",), "vllm_xpu_kernels.m": ("a",)},
    (),
)
TORCH = Torch(Path("t"), "2.13.0+xpu", True, True, frozenset({"_t", "_x"}), ("libsycl.so.9",), {"libccl.so": ("/a",)})
STACK = {"python": ">=3.10,<3.14", "torch": "==2.13.0+xpu", "vllm-xpu-kernels": "==0.1.15.4"}
DIFF = Variant("d", SpecifierSet("==0.23.0"), Path("x.patch"), (), (), (), "")
GONE = Variant("a", SpecifierSet("==0.22.1"), None, (), (), (Absent("f", "s"),), "it passes no groups")
UPSTREAM = Variant("u", SpecifierSet("==0.33.0"), None, (), (Present("f", "l"),), (), "the pinned kernels take them")
PATCH = Patch(
    "mtp-boundary", "T", "w", "fix", datetime(2026, 1, 1, tzinfo=timezone.utc), "d", (), (), (GONE, DIFF, UPSTREAM),
    Path("p"), Path("f"),
)  # fmt: skip
WISH = Wish("r", "0.23.0", STACK, "==0.1.15.4", PATCH, False)


def found(about: str, **change: object) -> Finding:
    everything = {"had": HAD, "found": CONTENTS, "wanted": Wanted((), (), (), ()), "torch": TORCH, "wish": WISH}
    findings = judge(**{**everything, **change})  # type: ignore[arg-type]
    (one,) = [finding for finding in findings if finding.about == about]
    return one


def contents(**change: object) -> Contents:
    return replace(CONTENTS, **change)  # type: ignore[arg-type]


# -- groups ------------------------------------------------------------------------------------------------------------

EQUAL = contents(groups=(("k/_xpu_C.abi3.so", "=="),))


@pytest.mark.parametrize(
    ("facts", "release", "applied", "verdict", "words"),
    [
        (CONTENTS, "0.23.0", False, Verdict.GOOD, "mtp-boundary is not needed"),
        (CONTENTS, "0.23.0", True, Verdict.GOOD, "is applied, and these kernels do not need it"),
        (
            EQUAL,
            "0.23.0",
            False,
            Verdict.BAD,
            "your kernels refuse ragged groups (==), and the series lacks mtp-boundary",
        ),
        (EQUAL, "0.23.0", True, Verdict.GOOD, "mtp-boundary pads them"),
        (EQUAL, "0.22.1", False, Verdict.GOOD, "none reaches them: it passes no groups"),
        (EQUAL, "0.33.0", False, Verdict.BAD, "0.33.0 counts on kernels that take them"),
        (EQUAL, "0.34.0", False, Verdict.UNKNOWN, "nothing is declared of mtp-boundary for 0.34.0"),
        (contents(groups=()), "0.23.0", False, Verdict.UNKNOWN, "the check's text is in no object"),
        (contents(groups=(("a", "=="), ("b", "<="))), "0.23.0", True, Verdict.UNKNOWN, "<= and =="),
        (contents(groups=(("a", ">="),)), "0.23.0", False, Verdict.UNKNOWN, ">="),
    ],
)
def test_groups(facts: Contents, release: str, applied: bool, verdict: Verdict, words: str) -> None:
    one = found("speculative groups", found=facts, wish=replace(WISH, release=release, applied=applied))
    assert one.verdict is verdict and words in one.text


def test_the_advice_for_a_series_that_lacks_the_patch_and_for_kernels_that_are_too_old() -> None:
    assert "add mtp-boundary to [series]" in found("speculative groups", found=EQUAL).next
    wish = replace(WISH, release="0.33.0")
    assert found("speculative groups", found=EQUAL, wish=wish).next == "serve with vllm-xpu-kernels==0.1.15.4"
    assert found("speculative groups", found=EQUAL, wish=replace(WISH, patch=None)).verdict is Verdict.UNKNOWN


def test_mixed_batches() -> None:
    assert found("mixed batches").verdict is Verdict.GOOD
    assert found("mixed batches", found=contents(mixed=(("o", "refused"),))).verdict is Verdict.MIND
    assert found("mixed batches", found=contents(groups=())).verdict is Verdict.UNKNOWN


# -- the wheel ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("had", "wish", "verdict"),
    [
        (HAD, WISH, Verdict.GOOD),
        (replace(HAD, pinned=False), WISH, Verdict.MIND),
        (HAD, replace(WISH, required="==0.1.14.1"), Verdict.MIND),
        (HAD, replace(WISH, stack={**STACK, "vllm-xpu-kernels": "==0.1.9"}), Verdict.MIND),
        (HAD, replace(WISH, stack={}, required=""), Verdict.UNKNOWN),
    ],
)
def test_versions(had: Had, wish: Wish, verdict: Verdict) -> None:
    assert found("version", had=had, wish=wish).verdict is verdict


@pytest.mark.parametrize(
    ("tags", "python", "verdict"),
    [
        (("cp38-abi3-linux_x86_64",), ">=3.10,<3.14", Verdict.GOOD),
        (("py3-none-any",), ">=3.10,<3.14", Verdict.GOOD),
        (("cp311-cp311-linux_x86_64",), ">=3.10,<3.14", Verdict.MIND),
        (("cp311-cp311-linux_x86_64",), "==3.11.*", Verdict.GOOD),
        (("cp311-abi3-linux_x86_64",), "==3.12.*", Verdict.GOOD),
        (("cp312-abi3-linux_x86_64",), ">=3.10,<3.12", Verdict.BAD),
        (("pp310-pypy310_pp73-linux_x86_64",), ">=3.10,<3.12", Verdict.BAD),
        (("cp38-abi3-linux_x86_64",), "", Verdict.UNKNOWN),
    ],
)
def test_pythons(tags: tuple[str, ...], python: str, verdict: Verdict) -> None:
    one = found("Python", had=replace(HAD, tags=tags), wish=replace(WISH, stack={**STACK, "python": python}))
    assert one.verdict is verdict


@pytest.mark.parametrize(
    ("version", "verdict"), [("GLIBC_2.28", Verdict.GOOD), ("GLIBC_2.34", Verdict.MIND), ("GCC_3.0", Verdict.UNKNOWN)]
)
def test_glibc(version: str, verdict: Verdict) -> None:
    facts = contents(objects=(replace(OBJECT, versions=(("libc.so.6", version), ("libc.so.6", version))),))
    assert found("glibc", found=facts).verdict is verdict


# -- the tree ----------------------------------------------------------------------------------------------------------


def tree(source: str, path: str = "vllm/_xpu_ops.py") -> Wanted:
    made = wanted_by(source.encode(), path)
    assert made
    return made


@pytest.mark.parametrize(
    ("source", "path", "about", "verdict"),
    [
        ("torch.ops._xpu_C.f(x)", "vllm/a.py", "operators", Verdict.GOOD),
        ("torch.ops._xpu_C.gone(x)", "vllm/a.py", "operators", Verdict.BAD),
        ("torch.ops._C.gone(x)", "vllm/_xpu_ops.py", "operators", Verdict.BAD),
        ("torch.ops._C.gone(x)", "vllm/a.py", "operators of others", Verdict.GOOD),
        ("torch.ops._other_C.gone(x)", "vllm/_xpu_ops.py", "operators", Verdict.GOOD),
        ('if hasattr(torch.ops._xpu_C, "gone"):\n    torch.ops._xpu_C.gone()', "vllm/a.py", "operators asked for", Verdict.MIND),
        ("torch.ops._xpu_C.unclear(x)", "vllm/a.py", "operators not told", Verdict.UNKNOWN),
        ("getattr(torch.ops._xpu_C, name)", "vllm/a.py", "operators not told", Verdict.UNKNOWN),
        ("torch.ops._xpu_C.f(x, 1)", "vllm/a.py", "arguments", Verdict.GOOD),
        ("torch.ops._xpu_C.f(x, 1, 2)", "vllm/a.py", "arguments", Verdict.BAD),
        ("torch.ops._xpu_C.f(x, m=2)", "vllm/a.py", "arguments", Verdict.BAD),
        ("torch.ops._C.shared(x, 1)", "vllm/a.py", "arguments", Verdict.MIND),
        ("torch.ops._C.shared(x, 1)", "vllm/rocm/a.py", "arguments", Verdict.UNKNOWN),
        ("torch.ops._xpu_C.f(*x)", "vllm/a.py", "arguments", Verdict.UNKNOWN),
        ("from vllm_xpu_kernels.m import a\nimport vllm_xpu_kernels._C", "vllm/a.py", "imports", Verdict.GOOD),
        ("from vllm_xpu_kernels import m, top, _C", "vllm/a.py", "imports", Verdict.GOOD),
        ("from vllm_xpu_kernels._C import anything", "vllm/a.py", "imports", Verdict.GOOD),
        ("from vllm_xpu_kernels.m import b", "vllm/a.py", "imports", Verdict.BAD),
        ("from vllm_xpu_kernels import gone", "vllm/a.py", "imports", Verdict.BAD),
        ("import vllm_xpu_kernels.gone", "vllm/a.py", "imports", Verdict.BAD),
        ("try:\n    import vllm_xpu_kernels.gone\nexcept ImportError: pass", "vllm/a.py", "imports", Verdict.MIND),
    ],
)  # fmt: skip
def test_what_the_tree_wants(source: str, path: str, about: str, verdict: Verdict) -> None:
    assert found(about, wanted=tree(source, path)).verdict is verdict


def test_a_missing_operator_is_named_with_its_place() -> None:
    one = found("operators", wanted=tree("\ntorch.ops._xpu_C.gone(x)"))
    assert "_xpu_C.gone" in one.text and one.places == ("_xpu_C.gone vllm/_xpu_ops.py:2",)


def test_a_wheel_without_readable_schemas_still_lacks_what_only_it_could_have() -> None:
    bare = contents(ops=(), named=())
    assert found("operators", found=bare).verdict is Verdict.UNKNOWN
    assert found("operators", found=bare, wanted=tree("torch.ops._xpu_C.f(x)")).verdict is Verdict.BAD


# -- torch and runtimes ------------------------------------------------------------------------------------------------

LAB = replace(TORCH, version="2.13.0+cpu", given=False, xpu=False, exported=frozenset({"_t"}), sycl=())


@pytest.mark.parametrize(
    ("torch", "asked", "verdict"),
    [
        (TORCH, "==2.13.0+xpu", Verdict.GOOD),
        (replace(TORCH, exported=frozenset({"_t"})), "==2.13.0+xpu", Verdict.BAD),
        (replace(TORCH, exported=frozenset({"_x"})), "==2.14.0+xpu", Verdict.BAD),
        (LAB, "==2.13.0+xpu", Verdict.GOOD),
        (LAB, "==2.14.0+xpu", Verdict.UNKNOWN),
        (replace(LAB, exported=frozenset({"_z"})), "==2.13.0+xpu", Verdict.BAD),
        (replace(LAB, exported=frozenset({"_z"})), "==2.14.0+xpu", Verdict.MIND),
        (None, "==2.13.0+xpu", Verdict.UNKNOWN),
    ],
)
def test_symbols(torch: Torch | None, asked: str, verdict: Verdict) -> None:
    one = found("torch's symbols", torch=torch, wish=replace(WISH, stack={**STACK, "torch": asked}))
    assert one.verdict is verdict


def test_a_missing_symbol_is_named_with_its_object() -> None:
    one = found("torch's symbols", torch=replace(TORCH, exported=frozenset({"_t"})))
    assert one.places == ("k/_xpu_C.abi3.so: undefined symbol: _x",)


def test_the_symbols_of_the_xpu_build_are_not_run_where_there_is_none() -> None:
    assert found("torch's XPU symbols", torch=LAB).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("needed", "torch", "verdict"),
    [
        (("libsycl.so.9",), TORCH, Verdict.GOOD),
        (("libsycl.so.8",), TORCH, Verdict.BAD),
        (("libsycl.so.8", "libsycl.so.9"), None, Verdict.BAD),
        (("libsycl.so.9",), LAB, Verdict.UNKNOWN),
        (("libsycl.so.9",), None, Verdict.UNKNOWN),
        ((), TORCH, Verdict.UNKNOWN),
    ],
)
def test_sycl(needed: tuple[str, ...], torch: Torch | None, verdict: Verdict) -> None:
    assert found("SYCL", found=contents(objects=(replace(OBJECT, needed=needed),)), torch=torch).verdict is verdict


def test_runtimes() -> None:
    twice = replace(TORCH, copies={"libccl.so": ("/a", "/b")})
    assert found("runtimes").verdict is Verdict.GOOD
    assert found("runtimes", torch=twice).verdict is Verdict.MIND
    assert found("runtimes", torch=LAB).verdict is Verdict.UNKNOWN
    assert found("runtimes", found=contents(bundled=("k/libccl.so.1",))).verdict is Verdict.MIND


def test_what_will_fail_ends_in_an_error_with_each_of_them() -> None:
    good = judge(HAD, CONTENTS, Wanted((), (), (), ()), TORCH, WISH)
    require(good, HAD)
    bad = judge(HAD, EQUAL, tree("torch.ops._xpu_C.gone(x)"), TORCH, WISH)
    with pytest.raises(KernelsError) as error:
        require(bad, HAD)
    assert "speculative groups, operators" in error.value.what and "add mtp-boundary" in error.value.next
    assert error.value.exit_code == 17 and "_xpu_C.gone" in error.value.detail
