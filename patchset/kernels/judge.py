"""What the contents of a kernels wheel mean for a recipe. Pure: facts in, findings out."""

from __future__ import annotations

from patchset.kernels.beside import Torch
from patchset.kernels.calls import Wanted
from patchset.kernels.finding import Finding, Wish
from patchset.kernels.have import Had
from patchset.kernels.judge_host import ccl, sycl, torch_symbols
from patchset.kernels.judge_tree import arguments, imports, operators
from patchset.kernels.judge_wheel import glibc, group_rule, mixed, python, version
from patchset.kernels.read import Contents


def judge(had: Had, found: Contents, wanted: Wanted, torch: Torch | None, wish: Wish) -> tuple[Finding, ...]:
    """Every finding, in the order in which a person would want them."""
    return (
        version(had, wish),
        python(had, wish),
        glibc(had, found),
        group_rule(found, wish),
        mixed(found),
        *operators(found, wanted),
        arguments(found, wanted),
        imports(found, wanted),
        *torch_symbols(found, torch, wish),
        sycl(found, torch),
        ccl(found, torch),
    )
