"""Kernels wheels of a few kilobytes: real shared objects, compiled and linked here against a libtorch of our own."""

from __future__ import annotations

import platform
import shutil
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

#: The way by which a namespace is known is read from x86-64 machine code; elsewhere the object says it.
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="reads machine code of x86-64")

FILE = "vllm_xpu_kernels-0.1.15.4-cp38-abi3-manylinux_2_28_x86_64.whl"
EQUAL = "Expected spec_token == num_spec_decodes * (num_speculative_tokens + 1) to be true, but got false."
MOST = EQUAL.replace("==", "<=")
REFUSAL = "causal_conv1d does not support spec-decode and non-spec (prefill + decode) tokens in the same invocation"

#: What torch's registration looks like to a compiler, without a line of torch.
TORCH = """
namespace torch {
class Library { public: Library &def(const char *schema) &; Library &impl(const char *name, void (*f)()) &; };
namespace detail { struct TorchLibraryInit { TorchLibraryInit(void (*f)(Library &), const char *name); }; }
}
"""
#: And what defines it: the libtorch_cpu.so that the kernels are linked with.
LIBTORCH = (
    TORCH
    + """
namespace torch {
Library &Library::def(const char *) & { return *this; }
Library &Library::impl(const char *, void (*)()) & { return *this; }
namespace detail { TorchLibraryInit::TorchLibraryInit(void (*f)(Library &), const char *) { Library m; f(m); } }
}
"""
)


def compile_object(folder: Path, name: str, source: str, *options: str) -> Path:
    """A shared object *name* in *folder*, from C++ *source*."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    assert compiler, "these tests need a C++ compiler, as building the wheel does"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.cpp").write_text(source, encoding="utf-8")
    argv = [compiler, "-shared", "-fPIC", "-Os", "-o", name, f"{name}.cpp", *options]
    subprocess.run(argv, cwd=folder, check=True)
    return folder / name


def libtorch(folder: Path, source: str = LIBTORCH) -> Path:
    """An installed torch of version 2.14.0+xpu in *folder*: ``torch/version.py`` and ``torch/lib/libtorch_cpu.so``."""
    package = folder / "torch"
    compile_object(package / "lib", "libtorch_cpu.so", source, "-Wl,-soname,libtorch_cpu.so")
    (package / "version.py").write_text("__version__ = '2.14.0+xpu'\n", encoding="utf-8")
    return package


def registering(spaces: Mapping[str, Sequence[str]], *texts: str, more: str = "", folded: bool = False) -> str:
    """C++ that registers the schemas of each namespace, and whose checks say *texts*.

    :param more: further C++.
    :param folded: as a compiler does that makes the registering function part of its caller.
    """
    lines = [TORCH, more]
    for space, schemas in spaces.items():
        body = "".join(f'm.def("{schema}");' for schema in schemas)
        lines.append(
            f"static {'__attribute__((always_inline)) inline' if folded else '__attribute__((noinline))'} "
            f"void TORCH_LIBRARY_init_{space}(torch::Library &m) {{ {body} }}"
        )
        if folded:
            lines.append(
                f"struct Folded_{space} {{ volatile int kept; Folded_{space}() : kept(1) "
                f"{{ torch::Library m; TORCH_LIBRARY_init_{space}(m); }} }};"
                f"static Folded_{space} TORCH_LIBRARY_static_init_{space};"
            )
        else:
            lines.append(
                f"static torch::detail::TorchLibraryInit TORCH_LIBRARY_static_init_{space}"
                f'(&TORCH_LIBRARY_init_{space}, "{space}");'
            )
    lines += [f'extern "C" const char *check_{number}() {{ return "{text}"; }}' for number, text in enumerate(texts)]
    return "\n".join(lines)


def write_wheel(folder: Path, members: Mapping[str, bytes], name: str = FILE) -> Path:
    """A wheel of *members* below ``vllm_xpu_kernels/``."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in members.items():
            archive.writestr(f"vllm_xpu_kernels/{path}", data)
        archive.writestr("vllm_xpu_kernels-0.1.15.4.dist-info/METADATA", "Metadata-Version: 2.1\n")
    return folder / name
