"""Intel's OpenCL for CPUs, through ctypes: a SPIR-V module is compiled for this processor and run on this process's memory.

Facts (intel-opencl-rt 2026.2):

* Its loader needs three libraries of ``intel-cmplr-lib-rt`` and looks for them nowhere: they are loaded before it.
* The loader reads which drivers there are from ``.icd`` files; one of our own names this driver and no other, so a driver
  of the system is not asked.
* The device shares all memory with the host ("fine grain system"), so an address of this process is an address to a kernel.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Words for the OpenCL compiler, for a second try at what it cannot compile otherwise.
OPTIONS = "PATCHSET_SMOKE_OPENCL_OPTIONS"

_FIRST = ("libintlc.so.5", "libimf.so", "libsvml.so", "libirng.so")
_LOADER, _DRIVER = "libOpenCL.so.1", "libintelocl.so"

_ALL_DEVICES = 0xFFFFFFFF
_DEVICE_SVM, _FINE_GRAIN_SYSTEM = 0x1053, 8
_DEVICE_VERSION, _DRIVER_VERSION, _BUILD_LOG = 0x102F, 0x102D, 0x1183

#: Triton's name of a scalar's type → how C has it.
SCALARS: dict[str, type[Any]] = {
    "i1": ctypes.c_uint8,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u1": ctypes.c_uint8,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "fp32": ctypes.c_float,
    "fp64": ctypes.c_double,
}


class OpenCLError(RuntimeError):
    """A call that OpenCL refused."""


class Device:
    """The CPU as an OpenCL device, with a queue.

    :raises ImportError: the driver is not in this interpreter's environment.
    :raises OpenCLError: it gives no device that shares this process's memory.
    """

    def __init__(self) -> None:
        self._library = _load(Path(sys.prefix) / "lib")
        platform, self._device = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("clGetPlatformIDs", 1, ctypes.byref(platform), None)
        self._call("clGetDeviceIDs", platform, ctypes.c_ulong(_ALL_DEVICES), 1, ctypes.byref(self._device), None)
        shares = int.from_bytes(self._about(_DEVICE_SVM)[:8], "little")
        if not shares & _FINE_GRAIN_SYSTEM:
            raise OpenCLError(f"this OpenCL device does not share the process's memory (it says {shares})")
        self._context = self._made("clCreateContext", None, 1, ctypes.byref(self._device), None, None)
        self._queue = self._made("clCreateCommandQueueWithProperties", self._context, self._device, None)

    @property
    def version(self) -> str:
        """Of the driver."""
        return self._about(_DRIVER_VERSION).split(b"\0")[0].decode("utf-8", "replace")

    def kernel(self, module: bytes, name: str, options: str = "") -> ctypes.c_void_p:
        """The kernel *name* of a SPIR-V *module*, compiled for this processor.

        :raises OpenCLError: it does not compile; the text has the compiler's log.
        """
        program = self._made("clCreateProgramWithIL", self._context, module, ctypes.c_size_t(len(module)))
        build = self._library.clBuildProgram
        status = build(program, 1, ctypes.byref(self._device), options.encode(), None, None)
        if status:
            raise OpenCLError(f"clBuildProgram gave {status}: {self._log(program)}")
        return self._made("clCreateKernel", program, name.encode())

    def run(
        self,
        kernel: ctypes.c_void_p,
        arguments: Sequence[tuple[str, Any]],
        shared: int,
        local: int,
        grid: Sequence[int],
    ) -> None:
        """Run *kernel* to its end over *grid* programs of *local* work items.

        :param arguments: (Triton's type, value); addresses for pointers.
        :raises OpenCLError: an argument or the launch was refused.
        """
        for at, (kind, value) in enumerate(arguments):
            if kind.startswith("*"):
                self._call("clSetKernelArgSVMPointer", kernel, at, ctypes.c_void_p(value))
            else:
                held = SCALARS[kind](value)
                self._call("clSetKernelArg", kernel, at, ctypes.c_size_t(ctypes.sizeof(held)), ctypes.byref(held))
        if shared:
            self._call("clSetKernelArg", kernel, len(arguments), ctypes.c_size_t(shared), None)
        sizes = [*grid, 1, 1][:3]
        everything = (ctypes.c_size_t * 3)(sizes[0] * local, sizes[1], sizes[2])
        group = (ctypes.c_size_t * 3)(local, 1, 1)
        self._call("clEnqueueNDRangeKernel", self._queue, kernel, 3, None, everything, group, 0, None, None)
        self._call("clFinish", self._queue)

    def _call(self, name: str, *words: Any) -> None:
        status = getattr(self._library, name)(*words)
        if status:
            raise OpenCLError(f"{name} gave {status}")

    def _made(self, name: str, *words: Any) -> ctypes.c_void_p:
        function = getattr(self._library, name)
        function.restype = ctypes.c_void_p
        status = ctypes.c_int()
        made = function(*words, ctypes.byref(status))
        if status.value or not made:
            raise OpenCLError(f"{name} gave {status.value}")
        return ctypes.c_void_p(made)

    def _about(self, what: int) -> bytes:
        text = ctypes.create_string_buffer(4096)
        self._call("clGetDeviceInfo", self._device, what, ctypes.c_size_t(len(text)), text, None)
        return text.raw

    def _log(self, program: ctypes.c_void_p) -> str:
        text = ctypes.create_string_buffer(65536)
        self._library.clGetProgramBuildInfo(program, self._device, _BUILD_LOG, ctypes.c_size_t(len(text)), text, None)
        return text.value.decode("utf-8", "replace").strip()


def _load(libraries: Path) -> ctypes.CDLL:
    driver = libraries / _DRIVER
    if not driver.is_file():
        raise ImportError(f"Intel's OpenCL for CPUs is not in {libraries}: intel-opencl-rt is wanted")
    with tempfile.TemporaryDirectory(prefix="patchset-icd-") as vendors:
        (Path(vendors) / "cpu.icd").write_text(f"{driver}\n", "utf-8")
        os.environ["OCL_ICD_VENDORS"] = vendors
        os.environ.pop("OCL_ICD_FILENAMES", None)
        try:
            for name in _FIRST:
                ctypes.CDLL(str(libraries / name), mode=ctypes.RTLD_GLOBAL)
            library = ctypes.CDLL(str(libraries / _LOADER))
        except OSError as error:
            raise ImportError(f"{error}: intel-cmplr-lib-rt is wanted") from error
        # The loader reads the files at its first call.
        library.clGetPlatformIDs(0, None, ctypes.byref(ctypes.c_uint()))
    return library
