"""What a tree wants of the kernels: operators called, named and asked for; where; and what is imported."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from patchset.kernels.calls import Reach, Use, Wanted, wanted, wanted_by
from patchset.store import Store


def read(source: str, path: str = "vllm/a.py") -> Wanted:
    found = wanted_by(source.encode(), path)
    assert found is not None
    return found


def only(source: str, path: str = "vllm/a.py") -> Use:
    (use,) = read(source, path).uses
    return use


@pytest.mark.parametrize(
    ("source", "positional", "keywords"),
    [
        ("torch.ops._xpu_C.f(x, 1, n=2)", 2, {"n"}),
        ("torch.ops._xpu_C.f.default(x)", 1, set()),
        ("y = g(torch.ops._xpu_C.f())", 0, set()),
        ("torch.ops._xpu_C.f(*xs)", None, set()),
        ("torch.ops._xpu_C.f(x, **more)", None, set()),
        ("ops = torch.ops._xpu_C\nops.f(x)", 1, set()),
    ],
)
def test_calls(source: str, positional: int | None, keywords: set[str]) -> None:
    use = only(source)
    assert (use.namespace, use.name, use.called) == ("_xpu_C", "f", True)
    assert (use.positional, use.keywords) == (positional, frozenset(keywords))


@pytest.mark.parametrize(
    "source",
    ["h = torch.ops._xpu_C.f", "h = torch.ops._xpu_C.f.default", 'h = getattr(torch.ops._xpu_C, "f")',
     '@register_fake("_xpu_C::f")\ndef fake(): ...', 'torch.library.register_fake("_xpu_C::f.out")'],
)  # fmt: skip
def test_named_and_not_called(source: str) -> None:
    use = only(source)
    assert (use.namespace, use.name, use.called, use.place.guarded) == ("_xpu_C", "f", False, False)


@pytest.mark.parametrize(
    "source",
    ["ops.f(x)", "torch.opts._xpu_C.f(x)", 'print("_xpu_C::f")', "def g(ops):\n    ops.f()\nops = torch.ops._xpu_C",
     "ops = torch.ops._xpu_C\nops = other\nops.f()"],
)  # fmt: skip
def test_what_is_none_of_it(source: str) -> None:
    assert read(source).uses == ()


@pytest.mark.parametrize(
    "source",
    [
        'if hasattr(torch.ops._xpu_C, "f"):\n    torch.ops._xpu_C.f()',
        'if not hasattr(torch.ops._xpu_C, "f"):\n    raise E\ntorch.ops._xpu_C.f()',
        'if not hasattr(torch.ops._xpu_C, "g"):\n    pass\nelse:\n    torch.ops._xpu_C.f()',
        'h = getattr(torch.ops._xpu_C, "f", None)\ntorch.ops._xpu_C.f()',
        "try:\n    torch.ops._xpu_C.f()\nexcept AttributeError:\n    pass",
        'def impl():\n    torch.ops._xpu_C.f()\nif hasattr(torch.ops._xpu_C, "g") and ready:\n    register(impl)',
    ],
)
def test_guarded(source: str) -> None:
    uses = [use for use in read(source).uses if use.name == "f"]
    assert uses and all(use.place.guarded for use in uses)


@pytest.mark.parametrize(
    "source",
    [
        'if hasattr(torch.ops._xpu_C, "g"):\n    pass\nelse:\n    torch.ops._xpu_C.f()',
        'if hasattr(torch.ops._C, "g"):\n    pass\ntorch.ops._xpu_C.f()',
        "try:\n    torch.ops._xpu_C.f()\nexcept ValueError:\n    pass",
        'def impl():\n    torch.ops._xpu_C.f()\nif hasattr(torch.ops._xpu_C, "g"):\n    register(impl)\nimpl()',
    ],
)
def test_not_guarded(source: str) -> None:
    uses = [use for use in read(source).uses if use.name == "f"]
    assert uses and not any(use.place.guarded for use in uses)


CALL = "torch.ops._C.f()"


@pytest.mark.parametrize(
    ("source", "path", "reach"),
    [
        (CALL, "vllm/_xpu_ops.py", Reach.XPU),
        (CALL, "vllm/a/xpu.py", Reach.XPU),
        (CALL, "vllm/lora/ops/xpu_ops/lora.py", Reach.XPU),
        (CALL, "vllm/device_allocator/xpumem.py", Reach.XPU),
        (CALL, "vllm/models/m/nvidia/x.py", Reach.OTHER),
        (CALL, "vllm/v1/attention/rocm_aiter_fa.py", Reach.OTHER),
        (CALL, "vllm/layers/expulsion.py", Reach.SHARED),
        (f"def forward_xpu(self):\n    {CALL}", "vllm/a.py", Reach.XPU),
        (f"def forward_hip(self):\n    {CALL}", "vllm/a.py", Reach.OTHER),
        (f"def forward_cuda(self):\n    {CALL}", "vllm/a.py", Reach.SHARED),
        (f"if current_platform.is_xpu():\n    {CALL}", "vllm/a.py", Reach.XPU),
        (f"if not current_platform.is_xpu():\n    {CALL}", "vllm/a.py", Reach.OTHER),
        (f"if p.is_xpu():\n    pass\nelse:\n    {CALL}", "vllm/a.py", Reach.OTHER),
        (f"if p.is_xpu() and x:\n    {CALL}", "vllm/a.py", Reach.XPU),
        (f"if p.is_xpu() or p.is_cuda():\n    {CALL}", "vllm/a.py", Reach.SHARED),
        (f"if p.is_cuda() or p.is_rocm():\n    {CALL}", "vllm/a.py", Reach.OTHER),
        (f"if p.is_cuda():\n    pass\nelse:\n    {CALL}", "vllm/a.py", Reach.SHARED),
        (f"if p.is_cuda():\n    pass\nelif p.is_xpu():\n    {CALL}", "vllm/a.py", Reach.XPU),
        (f"y = {CALL} if p.is_xpu() else None", "vllm/a.py", Reach.XPU),
        (f"if p.is_xpu():\n    {CALL}", "vllm/v1/kv_offload/cpu/register.py", Reach.XPU),
        (CALL, "vllm/a.py", Reach.SHARED),
    ],
)
def test_where_it_is_reached(source: str, path: str, reach: Reach) -> None:
    assert only(source, path).place.reach is reach


def test_imports_and_those_that_may_fail() -> None:
    found = read(
        "import vllm_xpu_kernels._C\nfrom vllm_xpu_kernels.rotary import a, b as c\nfrom . import vllm_xpu_kernels\n"
        "try:\n    from vllm_xpu_kernels import mem\nexcept ImportError:\n    mem = None\nimport vllm_xpu_kernels_other\n"
    )
    assert [(item.module, item.name, item.place.line, item.place.guarded) for item in found.imports] == [
        ("vllm_xpu_kernels._C", "", 1, False),
        ("vllm_xpu_kernels.rotary", "a", 2, False),
        ("vllm_xpu_kernels.rotary", "b", 2, False),
        ("vllm_xpu_kernels", "mem", 5, True),
    ]


def test_a_name_made_at_run_time_is_said() -> None:
    found = read("getattr(torch.ops._C, name)()")
    assert found.uses == () and [str(place) for place in found.dynamic] == ["vllm/a.py:1"]


def test_what_is_no_python() -> None:
    assert wanted_by(b"def (", "vllm/a.py") is None
    assert wanted_by(b"x = " + b"(" * 5000, "vllm/a.py") is None


def test_a_tree_in_order_without_what_is_no_module_of_it(
    bench: Store, make_tree: Callable[[dict[str, bytes]], str]
) -> None:
    call = b"torch.ops._xpu_C.f()\n"
    tree = make_tree(
        {
            "vllm/b.py": b"\n" + call,
            "vllm/a/x.py": call,
            "tests/t.py": call,
            "vllm/c.pyi": call,
            "vllm/d.py": b"_xpu_C =",
        }
    )
    found = wanted(bench, tree)
    assert [str(use.place) for use in found.uses] == ["vllm/a/x.py:1", "vllm/b.py:2"]
    assert found.unread == ("vllm/d.py",)
