"""Triton's Intel backend without a device: a launch becomes the SPIR-V that the backend would give the driver.

Facts (triton-xpu 3.3.0b1):

* The backend asks a SYCL program which architecture the device has. There is no device and no SYCL here, so it is told.
* ``specialisation`` is Triton's own: which arguments become constants (1, None, ``constexpr``), which are known to be
  divisible by 16. It decides how many modules a kernel has.
* It refuses ``a and b and c``; later ones take it. Nested as ``(a and b) and c`` it is the same to Python.
* A kernel's arguments are those that are no constants, in order, then one block of local memory if ``shared`` > 0.
"""

from __future__ import annotations

import os
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchset.smoke.case import Case
from patchset.smoke.lanes import memory
from patchset.smoke.toolchains import CACHE
from patchset.smoke.toolchains.syntax import PairsOnly

#: What the B70 says of itself, as far as the backend asks. Its chip is bmg-g31.
ARCHITECTURE = "bmg"
PROPERTIES: dict[str, Any] = {
    "name": "Intel(R) Arc(TM) Pro B70 Graphics",
    "architecture": 0,
    "max_work_group_size": 1024,
    "max_num_sub_groups": 64,
    "sub_group_sizes": [16, 32],
    "has_fp64": True,
    "has_subgroup_matrix_multiply_accumulate": True,
    "has_subgroup_matrix_multiply_accumulate_tensor_float32": True,
    "has_subgroup_2d_block_io": True,
    "has_bfloat16_conversions": True,
}
_WARP = 32
#: The triton-xpu that this was proved with.
PROVED = "3.3.0b1"


@dataclass(frozen=True)
class Pointer:
    """An array as an argument: Triton asks for its type and for its address, to see whether that is a multiple of 16."""

    dtype: str
    address: int

    def data_ptr(self) -> int:
        """The address, under the name that Triton knows."""
        return self.address


@dataclass(frozen=True)
class Compiled:
    """One specialisation of a kernel.

    :param arguments: (Triton's type, value) of what the kernel is given, in order.
    :param local: work items of a program.
    :param shared: bytes of local memory; 0: the kernel takes none.
    """

    name: str
    spirv: bytes
    arguments: tuple[tuple[str, Any], ...]
    local: int
    shared: int


def prepare() -> None:
    """Import Triton as a compiler for the B70; before this nothing may have imported it.

    The backend is told which device it compiles for, and is taught chains of ``and`` and ``or``.

    :raises ImportError: this interpreter's Triton has no Intel backend, or another one than this module knows.
    """
    os.environ["TRITON_INTERPRET"] = "0"
    # Else a module holds the path of the file that the kernel was cut into, and is another one each time.
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    if os.environ.get(CACHE):
        os.environ.update(TRITON_CACHE_DIR=os.path.join(os.environ[CACHE], "triton-xpu"), TRITON_STORE_BINARY_ONLY="1")

    from triton.backends import backends
    from triton.runtime.jit import JITFunction

    if "intel" not in backends:
        raise ImportError("this Triton has no Intel backend: triton-xpu is wanted")
    backend = backends["intel"].compiler
    names = backend.__init__.__globals__
    if "compile_module_from_src" not in names or not hasattr(backend, "device_props"):
        raise ImportError(f"this Triton's Intel backend is not the one of {PROVED}")
    parser = types.SimpleNamespace(parse_device_arch=lambda number: ARCHITECTURE)
    names["compile_module_from_src"] = lambda *words, **more: parser
    # With an entry there it does not ask an ocloc that may be on the PATH.
    backend.device_props[ARCHITECTURE] = {}
    if not hasattr(JITFunction, "_patchset_parse"):
        JITFunction._patchset_parse = JITFunction.parse
        JITFunction.parse = lambda function: PairsOnly().visit(function._patchset_parse())


def given(parameters: Sequence[tuple[str, bool]], case: Case, plan: memory.Layout, base: int) -> dict[str, Any]:
    """The launch's arguments; arrays are where *plan* has them if its block starts at *base*."""

    def pointer(name: str) -> Pointer:
        place = plan.places[name]
        kind = "bool" if place.array.boolean else place.array.start.dtype.name
        return Pointer(kind, base + place.start)

    return memory.arguments(parameters, case, pointer)


def compile_launch(function: Any, given: Mapping[str, Any], without: Sequence[str] = ()) -> Compiled:
    """The module for a launch of *function* with *given* arguments (:class:`Pointer` for arrays), as Triton would have it.

    :param without: of :data:`PROPERTIES`, what the backend is told that the device has not.

    :raises TypeError: a decorator other than ``triton.jit`` is on it.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend
    from triton.runtime.jit import JITFunction, create_function_from_signature

    if not isinstance(function, JITFunction):
        raise TypeError(f"{type(function).__name__} is not a plain triton.jit function")
    target = GPUTarget("xpu", {**PROPERTIES, **dict.fromkeys(without, False)}, _WARP)
    backend = make_backend(target)
    bound, specialised, options = create_function_from_signature(function.signature, function.params, backend)(**given)
    kinds = [kind for kind, _ in specialised]
    values = list(bound.values())
    constants = {(at,): values[at] for at, kind in enumerate(kinds) if kind == "constexpr"}
    attributes = {(at,): backend.parse_attr(key) for at, (_, key) in enumerate(specialised) if isinstance(key, str)}
    signature = {parameter.name: kind for parameter, kind in zip(function.params, kinds, strict=True)}
    source = ASTSource(function, signature, constants, {at: found for at, found in attributes.items() if found})
    kernel = triton.compile(source, target=target, options=backend.parse_options(options).__dict__)
    arguments = tuple((kind, value) for kind, value in zip(kinds, values, strict=True) if kind != "constexpr")
    about = kernel.metadata
    return Compiled(about.name, kernel.asm["spv"], arguments, about.num_warps * about.threads_per_warp, about.shared)
