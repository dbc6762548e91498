"""SPIR-V bytes: what a kernel may say that only a GPU understands, taken out."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_MAGIC = 0x07230203
_HEADER = 5
_EXTENSION, _EXECUTION_MODE, _CAPABILITY = 10, 16, 17

#: KernelAttributesINTEL, its extension, and the mode MaxWorkgroupDimINTEL, as the SPIR-V registry numbers them.
GPU_CAPABILITY = 5892
GPU_EXTENSION = b"SPV_INTEL_kernel_attributes"
GPU_MODE = 5893


class Malformed(ValueError):
    """Bytes that are no SPIR-V module."""


def for_cpu(module: bytes) -> bytes:
    """*module* without the hints that Intel's OpenCL for CPUs refuses: none of them changes what is computed.

    :raises Malformed: these are not the words of a module.
    """
    words = _words(module)
    kept = list(words[:_HEADER])
    for opcode, instruction in _instructions(words):
        if not _is_gpu_hint(opcode, instruction):
            kept.extend(instruction)
    return struct.pack(f"<{len(kept)}I", *kept)


def _is_gpu_hint(opcode: int, instruction: tuple[int, ...]) -> bool:
    operands = instruction[1:]
    if opcode == _CAPABILITY:
        return operands[:1] == (GPU_CAPABILITY,)
    if opcode == _EXTENSION:
        return struct.pack(f"<{len(operands)}I", *operands).split(b"\0")[0] == GPU_EXTENSION
    return opcode == _EXECUTION_MODE and operands[1:2] == (GPU_MODE,)


def _words(module: bytes) -> tuple[int, ...]:
    if len(module) % 4 or len(module) < 4 * _HEADER:
        raise Malformed(f"{len(module)} bytes are no SPIR-V module")
    words = struct.unpack(f"<{len(module) // 4}I", module)
    if words[0] != _MAGIC:
        raise Malformed(f"a SPIR-V module does not start with {words[0]:#x}")
    return words


def _instructions(words: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    at = _HEADER
    while at < len(words):
        length, opcode = words[at] >> 16, words[at] & 0xFFFF
        if not length or at + length > len(words):
            raise Malformed(f"the SPIR-V instruction at word {at} is {length} words long")
        yield opcode, words[at : at + length]
        at += length
