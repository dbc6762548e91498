"""What a shared object needs from others, read from the file itself: it is never loaded, and no binutils are asked."""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

# The tables of the ELF-64 object file format that are read: section kinds, dynamic tags, symbol bindings.
_SYMTAB, _DYNAMIC, _NO_BITS, _DYNSYM, _VERNEED = 2, 6, 8, 11, 0x6FFFFFFE
_NEEDED, _RPATH, _RUNPATH = 1, 15, 29
_LOCAL, _WEAK = 0, 2
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
        return (*libraries, *(name for name in self.undefined if is_of_torch(name)))


@dataclass(frozen=True)
class Section:
    """One section: its name, its kind (``sh_type``), its address once loaded, and where it is in the file."""

    name: str
    kind: int
    address: int
    offset: int
    size: int
    link: int
    entry: int


@dataclass(frozen=True)
class Symbol:
    """One symbol. ``weak``: it may stay undefined. ``address`` and ``size`` of what it names; 0 where undefined."""

    name: str
    defined: bool
    weak: bool
    address: int
    size: int


def read(data: bytes) -> SharedObject:
    """Parse *data*.

    :raises NotElf: see there; a truncated or hostile file never raises anything else.
    """
    image = Image(data)
    undefined = tuple(symbol.name for symbol in image.dynamic_symbols() if not symbol.defined)
    return SharedObject(image.needed(), undefined)


def is_of_torch(symbol: str) -> bool:
    """Does the mangled name *symbol* belong to, or mention, something of torch's?"""
    return bool(_TORCH_SYMBOL.search(symbol))


class Image:
    """An ELF file whose tables are read when they are asked for: of a memory map, nothing else is touched.

    :raises NotElf: here and from every method; a truncated or hostile file never raises anything else.
    """

    def __init__(self, data: bytes | mmap.mmap) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise NotElf("not a little-endian 64-bit ELF file")
        self._data = data

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """Every section, in order. One whose name cannot be read has none, since only names depend on names."""
        with _strictly():
            (start,) = struct.unpack_from("<Q", self._data, 40)
            size, count, names = struct.unpack_from("<HHH", self._data, 58)
            if size < 64 or count == 0:
                raise ValueError("no section headers")
            rows = [struct.unpack_from("<IIQQQQIIQQ", self._data, start + number * size) for number in range(count)]
            table = b""
            if names < count and rows[names][1] != _NO_BITS:
                table = self._data[rows[names][4] : rows[names][4] + rows[names][5]]
            return tuple(
                Section(table[name:].split(b"\0", 1)[0].decode("utf-8", "replace"), kind, *where, link, entry)
                for name, kind, _, *where, link, _, _, entry in rows
            )

    def bytes_of(self, section: Section) -> bytes:
        """The bytes of *section*; empty where it has none in the file."""
        if section.kind == _NO_BITS:
            return b""
        if section.offset + section.size > len(self._data):
            raise NotElf("a table of the ELF file points outside it: a section")
        return self._data[section.offset : section.offset + section.size]

    def needed(self) -> tuple[str, ...]:
        """The libraries it needs (DT_NEEDED), in order."""
        return tuple(self._dynamic(_NEEDED))

    def search_path(self) -> tuple[str, ...]:
        """Where its libraries are looked for first: DT_RUNPATH and the older DT_RPATH, part by part."""
        return tuple(part for tag in (_RUNPATH, _RPATH) for text in self._dynamic(tag) for part in text.split(":"))

    def dynamic_symbols(self) -> Iterator[Symbol]:
        """The symbols by which it is linked when it is loaded."""
        return self._symbols(_DYNSYM)

    def all_symbols(self) -> Iterator[Symbol]:
        """The symbols of the linker's own table: none where the object was stripped."""
        return self._symbols(_SYMTAB)

    def versions_needed(self) -> tuple[tuple[str, str], ...]:
        """(library, version) of every symbol version it asks for, such as ``libc.so.6`` and ``GLIBC_2.28``."""
        with _strictly():
            chosen = [section for section in self.sections if section.kind == _VERNEED]
            return tuple(pair for section in chosen for pair in self._versions(section))

    def _versions(self, section: Section) -> Iterator[tuple[str, str]]:
        table, names = self.bytes_of(section), self._names(section)
        at, left = 0, len(table) // 16  # entries of both chains have 16 bytes; a chain that turns back ends here
        while left > 0:
            _, count, library, entry, following = struct.unpack_from("<HHIII", table, at)
            left -= 1 + count
            entry += at
            for _ in range(count if left >= 0 else 0):
                _, _, _, name, further = struct.unpack_from("<IHHII", table, entry)
                yield _text(names, library), _text(names, name)
                entry += further
            if not following:
                return
            at += following

    def _dynamic(self, wanted: int) -> Iterator[str]:
        with _strictly():
            for section in self.sections:
                if section.kind == _DYNAMIC:
                    names = self._names(section)
                    for tag, value in struct.iter_unpack("<qQ", self._table(section, 16)):
                        if tag == wanted:
                            yield _text(names, value)

    def _symbols(self, kind: int) -> Iterator[Symbol]:
        with _strictly():
            for section in self.sections:
                if section.kind != kind:
                    continue
                names = self._names(section)
                for name, info, _, home, address, size in struct.iter_unpack("<IBBHQQ", self._table(section, 24)):
                    if name and (home == _UNDEFINED or kind == _SYMTAB or info >> 4 != _LOCAL):
                        yield Symbol(_text(names, name), home != _UNDEFINED, info >> 4 == _WEAK, address, size)

    def _names(self, section: Section) -> bytes:
        return self.bytes_of(self.sections[section.link])

    def _table(self, section: Section, entry: int) -> bytes:
        if section.entry != entry:
            raise ValueError("a table of an unexpected shape")
        return self.bytes_of(section)


@contextmanager
def _strictly() -> Iterator[None]:
    try:
        yield
    except NotElf:
        raise
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise NotElf(f"a table of the ELF file points outside it: {error}") from error


def _text(names: bytes, at: int) -> str:
    if at >= len(names):
        raise ValueError("a name outside its table")
    return names[at : names.index(b"\0", at)].decode("utf-8", "replace")
