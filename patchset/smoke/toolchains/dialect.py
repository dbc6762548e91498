"""What newer Triton has and triton-xpu 3.3.0b1 has not, where a kernel only names it.

Triton resolves every name of a kernel before it compiles, also those of branches that a constant turns off. So names that
it lacks get a value that refuses to be compiled: what is turned off compiles, what is not is told by name.
"""

from __future__ import annotations

import ast
import inspect
import operator
import types
from typing import Any

#: (place below ``triton``, name) that kernels of vLLM 0.19.1 to 0.33.0 name.
NEWER = (
    ("language", "make_tensor_descriptor"),
    ("language.extra.cuda", "gdc_wait"),
    ("language.extra.cuda", "gdc_launch_dependents"),
)


def teach() -> None:
    """Give Triton the names of :data:`NEWER`, as far as it lacks them, and an autotuner that can be made without a device."""
    import triton
    from triton.language import core
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    # An autotuner wants to know, when it is made, how its configurations will be timed.
    driver.set_active(types.SimpleNamespace(get_benchmarker=lambda: None))

    for where, name in NEWER:
        # By attribute, as kernels do: ``language.extra`` has modules of its own, that an import would load once more.
        place = operator.attrgetter(where)(triton)
        if not hasattr(place, name):
            setattr(place, name, _absent(core, name))

    earlier = JITFunction.parse
    JITFunction.parse = lambda function: _NoUnions().visit(earlier(function))


class _NoUnions(ast.NodeTransformer):
    """Takes annotations like ``int | None`` off parameters: newer Triton does not read them, this one chokes on them."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        if isinstance(node.annotation, ast.BinOp):
            node.annotation = None
        return node


def _absent(core: Any, name: str) -> Any:
    def refuse(*words: Any, _builder: Any = None, **more: Any) -> Any:
        raise NotImplementedError(f"this Triton has no {name}")

    refuse.__name__ = name
    refuse.__module__ = "triton.language"
    return core.builtin(refuse)


def plain_annotations(function: Any) -> None:
    """Take annotations like ``int | None`` off a kernel's signature, where this Triton looks for types too."""
    for parameter in function.params:
        written = parameter._param.annotation
        if isinstance(written, types.UnionType) or (isinstance(written, str) and "|" in written):
            parameter._param = parameter._param.replace(annotation=inspect.Parameter.empty)
            for known in ("annotation", "annotation_type", "is_constexpr"):
                parameter.__dict__.pop(known, None)
