"""The operators that a shared object registers with torch, and the rules that it states, read from its bytes.

How an operator gets its namespace: torch's macro makes one function a namespace (``TORCH_LIBRARY_init_<namespace>``).
Where the linker's symbol table still has it, the schemas are those whose text the machine code of that function points
to. Where the compiler folded it into the initialiser of its source file, or where the table is gone, the object says it:
the one namespace that its symbols name, else the one of its file name.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from patchset.kernels.schema import LONGEST, Schema, parse
from patchset.wheel import elf

_LIBRARY = "5torch7Library"
_INIT = re.compile(r"_ZL\d+TORCH_LIBRARY_(?:init_(\w+)|FRAGMENT_init_(\w+)_\d+)RN5torch7LibraryE\Z")
_STATIC = re.compile(r"_ZL\d+TORCH_LIBRARY_(?:static_init_(\w+)|FRAGMENT_static_init_(\w+)_\d+)\Z")
_FOLDED = "_GLOBAL__sub_I_"

# `lea reg, [rip + displacement]`: how x86-64 code that may be loaded anywhere gets the address of a text.
_LEA = re.compile(rb"(?=[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](.{4}))", re.DOTALL)
_TEXT = re.compile(rb"(?:\A|(?<=\0))[A-Za-z_][\w:.]{0,200}\([^\0]{0,7500}\)\s*->[^\0]{1,300}(?=\0)")
_NAME = re.compile(r"[A-Za-z_]\w*\Z")

# The check at the head of the operator (kernels #600 made == into <=); TORCH_CHECK keeps its condition as text.
_GROUP = re.compile(rb"Expected spec_token (\S{1,4}) num_spec_decodes \* \(num_speculative_tokens \+ 1\)")
_MIXED = re.compile(rb"causal_conv1d does not support spec-decode and non-spec[^\0]{0,200}")


@dataclass(frozen=True)
class Op:
    """A registered operator. ``told_by``: ``function`` or ``object``, by which its namespace is known (see above)."""

    namespace: str
    schema: Schema
    object: str
    told_by: str

    @property
    def name(self) -> str:
        """``namespace.name``, without an overload."""
        return f"{self.namespace}.{self.schema.name.partition('.')[0]}"


@dataclass(frozen=True)
class Registered:
    """``ops`` in the order of their names; ``named``: (namespace, name) that the code names and no schema text explains."""

    ops: tuple[Op, ...]
    named: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Rules:
    """What the object's checks say. ``groups``: the comparisons found; ``mixed``: the refusal of mixed batches."""

    groups: tuple[str, ...]
    mixed: tuple[str, ...]


def registers(image: elf.Image) -> bool:
    """Does the object call torch's registration at all?"""
    return any(_LIBRARY in symbol.name for symbol in image.dynamic_symbols() if not symbol.defined)


def registered(image: elf.Image, name: str) -> Registered:
    """What the object called *name* (a file name) registers.

    :raises elf.NotElf: a table of it points outside it.
    """
    functions, spaces = _functions(image)
    rodata = [(section, image.bytes_of(section)) for section in _read_only(image)]
    home = spaces[0] if len(spaces) == 1 else name.partition(".")[0]
    found: dict[tuple[str, str], Op] = {}
    seen: set[str] = set()
    named: set[tuple[str, str]] = set()
    for space, symbol in functions:
        for text in _texts_of(image, symbol, rodata):
            schema = parse(text)
            if schema:
                seen.add(schema.text)
                op = Op(space or home, schema, name, "function" if space else "object")
                found.setdefault((op.namespace, schema.name), op)
            elif _NAME.match(text) and text not in spaces:
                named.add((space or home, text))
    for text in _schema_texts(rodata):
        schema = parse(text)
        if schema and schema.text not in seen:
            found.setdefault((home, schema.name), Op(home, schema, name, "object"))
    known = {(space, full.partition(".")[0]) for space, full in found}
    return Registered(tuple(found[key] for key in sorted(found)), tuple(sorted(named - known)))


def rules(image: elf.Image) -> Rules:
    """What the checks of the object say about speculative groups.

    :raises elf.NotElf: a table of it points outside it.
    """
    groups: set[str] = set()
    mixed: set[str] = set()
    for section in _read_only(image):
        data = image.bytes_of(section)
        groups |= {found.decode("ascii", "replace") for found in _GROUP.findall(data)}
        mixed |= {found.decode("ascii", "replace") for found in _MIXED.findall(data)}
    return Rules(tuple(sorted(groups)), tuple(sorted(mixed)))


def _functions(image: elf.Image) -> tuple[list[tuple[str, elf.Symbol]], list[str]]:
    """(namespace or empty, function) of every function that may register, and every namespace that the symbols name."""
    functions: list[tuple[str, elf.Symbol]] = []
    spaces: set[str] = set()
    for symbol in image.all_symbols():
        if "TORCH_LIBRARY_" in symbol.name:
            init, static = _INIT.match(symbol.name), _STATIC.match(symbol.name)
            spaces |= {match[1] or match[2] for match in (init, static) if match}
            if init and symbol.size:
                functions.append((init[1] or init[2], symbol))
        elif symbol.name.startswith(_FOLDED) and symbol.size:
            functions.append(("", symbol))
    return functions, sorted(spaces)


def _read_only(image: elf.Image) -> Iterator[elf.Section]:
    return (section for section in image.sections if section.name.startswith((".rodata", ".lrodata")))


def _texts_of(image: elf.Image, symbol: elf.Symbol, rodata: list[tuple[elf.Section, bytes]]) -> Iterator[str]:
    """The texts that the machine code of a function points to. By address: a linker lets a text end in another's tail."""
    for section in image.sections:
        start = symbol.address - section.address
        if section.name.startswith(".text") and 0 <= start <= section.size - symbol.size:
            code = image.bytes_of(section)[start : start + symbol.size]
            for match in _LEA.finditer(code):
                target = symbol.address + match.start() + 7 + struct.unpack("<i", match[1])[0]
                yield from _text_at(target, rodata)


def _text_at(address: int, rodata: list[tuple[elf.Section, bytes]]) -> Iterator[str]:
    for section, data in rodata:
        at = address - section.address
        if 0 <= at < len(data):
            raw = data[at : at + LONGEST].split(b"\0", 1)[0]
            if raw.isascii():
                yield raw.decode("ascii")


def _schema_texts(rodata: list[tuple[elf.Section, bytes]]) -> Iterator[str]:
    for _, data in rodata:
        for match in _TEXT.finditer(data):
            if match[0].isascii():
                yield match[0].decode("ascii")
