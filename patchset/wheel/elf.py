"""What a shared object needs from others, read from the file itself: it is never loaded, and no binutils are asked."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

_DYNAMIC, _DYNSYM = 6, 11
_NEEDED = 1
_UNDEFINED = 0

#: libtorch's C++ namespaces as the Itanium ABI mangles them (`N2at6Tensor`; `std::string::at` is `…2atEm`), its C shims
#: and libtorch_python's prefix.
_TORCH_SYMBOL = re.compile(r"N[rVK]*[RO]?(?:2at|3c10|5torch)\d|^(?:aoti_)?torch_|^c10_|^_?THP")
_TORCH_LIBRARY = re.compile(r"^lib(?:torch|c10|aoti)")


class NotElf(ValueError):
    """Not a little-endian 64-bit ELF file, or one whose tables point outside it."""


@dataclass(frozen=True)
class SharedObject:
    """``needed``: its DT_NEEDED entries, in order. ``undefined``: the dynamic symbols it expects others to define."""

    needed: tuple[str, ...]
    undefined: tuple[str, ...]

    def torch_use(self) -> tuple[str, ...]:
        """Whatever ties it to one build of torch; empty if it loads beside any."""
        libraries = [name for name in self.needed if _TORCH_LIBRARY.search(name)]
        return (*libraries, *(name for name in self.undefined if _TORCH_SYMBOL.search(name)))


@dataclass(frozen=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int
    entry: int


def read(data: bytes) -> SharedObject:
    """Parse *data*.

    :raises NotElf: see there; a truncated or hostile file never raises anything else.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotElf("not a little-endian 64-bit ELF file")
    try:
        sections = _sections(data)
        needed = [name for section in sections if section.kind == _DYNAMIC for name in _needed(data, section, sections)]
        undefined = [
            name for section in sections if section.kind == _DYNSYM for name in _undefined(data, section, sections)
        ]
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise NotElf(f"a table of the ELF file points outside it: {error}") from error
    return SharedObject(tuple(needed), tuple(undefined))


def _sections(data: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    if size < 64 or count == 0:
        raise ValueError("no section headers")
    found = []
    for number in range(count):
        _, kind, _, _, offset, length, link, _, _, entry = struct.unpack_from(
            "<IIQQQQIIQQ", data, start + number * size
        )
        found.append(_Section(kind, offset, length, link, entry))
    return found


def _needed(data: bytes, section: _Section, sections: list[_Section]) -> list[str]:
    names = sections[section.link]
    entries = struct.iter_unpack("<qQ", _body(data, section, 16))
    return [_text(data, names, value) for tag, value in entries if tag == _NEEDED]


def _undefined(data: bytes, section: _Section, sections: list[_Section]) -> list[str]:
    names = sections[section.link]
    entries = struct.iter_unpack("<IBBHQQ", _body(data, section, 24))
    return [_text(data, names, name) for name, _, _, home, _, _ in entries if home == _UNDEFINED and name]


def _body(data: bytes, section: _Section, entry: int) -> bytes:
    if section.entry != entry or section.offset + section.size > len(data):
        raise ValueError("a table of an unexpected shape")
    return data[section.offset : section.offset + section.size]


def _text(data: bytes, names: _Section, at: int) -> str:
    if at >= names.size:
        raise ValueError("a name outside its table")
    start = names.offset + at
    return data[start : data.index(b"\0", start)].decode("utf-8", "replace")
