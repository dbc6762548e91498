"""What Intel's compiler says of the machine code that it made: the ``.ze_info`` of its ELF file, and its symbols.

Facts (ocloc 26.27):

* ``execution_env`` of a kernel leaves out what is zero. ``spill_size`` is for a hardware thread; scratch is allotted in
  powers of two.
* Status 0 says little: a call to a function that nothing defines gives an ``undefined`` symbol and a warning of a stack call,
  and the driver refuses the file later.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: More than any kernel's; a file that is larger is not read.
BINARY_LIMIT = 64 * 1024 * 1024
INFO_LIMIT = 4 * 1024 * 1024

#: What the driver itself fills in when it loads a kernel.
FILLED_IN = frozenset({"__INTEL_PATCH_CROSS_THREAD_OFFSET_OFF_R0"})


class Unreadable(ValueError):
    """A file that is not what the compiler makes."""


@dataclass(frozen=True)
class MachineCode:
    """One kernel as machine code.

    :param registers: for a thread.
    :param spill: bytes that did not fit into them, for a thread.
    :param scratch: bytes of memory that a thread is allotted for its spills.
    :param private: bytes of memory for a thread's own arrays and calls.
    :param undefined: symbols that nothing defines.
    """

    simd: int
    registers: int
    spill: int
    scratch: int
    private: int
    barriers: int
    stack_calls: bool
    undefined: tuple[str, ...]


def read(binary: bytes, kernel: str) -> MachineCode:
    """What *binary*, an ELF file of the compiler, says of *kernel*.

    :raises Unreadable: it is none, or has no such kernel.
    """
    import yaml

    info, undefined = _sections(binary)
    try:
        document = yaml.safe_load(info)
        found = [item for item in document["kernels"] if item["name"] == kernel]
        if len(found) != 1:
            raise Unreadable(f"{len(found)} kernels are called {kernel} in it, not one")
        about = found[0]["execution_env"]
        buffers = found[0].get("per_thread_memory_buffers", [])
        spill = _number(about, "spill_size")
        allotted = [_number(buffer, "size") for buffer in buffers if buffer["type"] == "scratch"]
        return MachineCode(
            _number(about, "simd_size"),
            _number(about, "grf_count"),
            spill,
            max([_power_of_two(spill), *map(_power_of_two, allotted)]),
            _number(about, "private_size"),
            _number(about, "barrier_count"),
            about.get("has_stack_calls") is True,
            undefined,
        )
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"its .ze_info cannot be read: {type(error).__name__}: {error}") from error


def _sections(binary: bytes) -> tuple[str, tuple[str, ...]]:
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    if len(binary) > BINARY_LIMIT:
        raise Unreadable(f"it has {len(binary)} bytes; the limit is {BINARY_LIMIT}")
    try:
        file = ELFFile(io.BytesIO(binary))
        info, symbols = file.get_section_by_name(".ze_info"), file.get_section_by_name(".symtab")
        if info is None or info["sh_size"] > INFO_LIMIT:
            raise Unreadable("it has no .ze_info, or one that is too large")
        wanted = [symbol for symbol in symbols.iter_symbols()] if symbols else []
        undefined = {symbol.name for symbol in wanted if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name}
        return info.data().decode("utf-8"), tuple(sorted(undefined - FILLED_IN))
    except (ELFError, UnicodeDecodeError, AttributeError) as error:
        raise Unreadable(f"it is no ELF file of this compiler: {type(error).__name__}: {error}") from error


def _number(table: Mapping[str, Any], key: str) -> int:
    value = table.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Unreadable(f"{key} is {value!r}")
    return value


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length() if size else 0
