"""A wheel's members as they lie in the archive: compressed once, copied as they are into the next wheel.

Facts: PKWARE's APPNOTE 6.3.10, sections 4.3.7 (local header), 4.3.12 (central directory) and 4.3.16 (end record); member
names beyond ASCII are UTF-8 with bit 11 set (4.4.4). Compression is libdeflate's, from the locked requirements: zlib's
bytes differ from those of zlib-ng, which some distributions ship under its name.
"""

from __future__ import annotations

import hashlib
import struct
import time
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import deflate

from patchset.errors import WheelError
from patchset.wheel.record import Member

#: The level at which libdeflate needs half of zlib's time and gives a little less (0.34 s and 6.8 MB for 0.23.0).
_LEVEL = 6
_DEFLATED = 8
_VERSION = 20
_UNIX = 3
_UTF8 = 0x800
_ZIP_EPOCH = 315532800

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")


@dataclass(frozen=True)
class Packed:
    """One member, compressed. ``sha256`` is that of its content, in hex; ``size`` and ``crc`` are the content's too."""

    name: str
    compressed: bytes
    size: int
    crc: int
    sha256: str
    executable: bool = False

    def content(self) -> bytes:
        """What is in it."""
        return zlib.decompress(self.compressed, -zlib.MAX_WBITS, max(self.size, 1))

    def named(self, name: str) -> Packed:
        """The same under another name."""
        return replace(self, name=name)


def pack(member: Member) -> Packed:
    """*member*, compressed: equal content gives equal bytes on every machine."""
    return Packed(
        member.name,
        bytes(deflate.deflate_compress(member.data, _LEVEL)),
        len(member.data),
        zlib.crc32(member.data),
        hashlib.sha256(member.data).hexdigest(),
        member.executable,
    )


def write(members: Sequence[Packed], target: Path, *, epoch: int) -> None:
    """Write *members*, in this order, as the archive *target*: times from *epoch*, modes 644 or 755, nothing of this machine.

    :raises WheelError: it would need the 64-bit format, which no vLLM wheel for XPU does.
    """
    year, month, day, hour, minute, second = time.gmtime(max(epoch, _ZIP_EPOCH))[:6]
    moment = (hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day)
    directory = []
    offset = 0
    with target.open("wb") as stream:
        for member in members:
            name = member.name.encode("utf-8")
            same = (0 if name.isascii() else _UTF8, _DEFLATED, *moment, member.crc, len(member.compressed), member.size)
            mode = 0o100755 if member.executable else 0o100644
            directory.append(
                _CENTRAL.pack(
                    b"PK\1\2", _UNIX << 8 | _VERSION, _VERSION, *same, len(name), 0, 0, 0, 0, mode << 16, offset
                )
                + name
            )
            offset += stream.write(_LOCAL.pack(b"PK\3\4", _VERSION, *same, len(name), 0) + name)
            offset += stream.write(member.compressed)
            if offset >= 2**32:
                raise WheelError("the wheel is 4 GiB or more", where=str(target), next="look at what the series adds")
        size = sum(map(stream.write, directory))
        if len(members) >= 2**16 or offset + size >= 2**32:
            raise WheelError(
                f"the wheel has {len(members)} members and {offset + size} bytes, more than a plain zip archive can say",
                where=str(target),
                next="look at what the series adds",
            )
        stream.write(_END.pack(b"PK\5\6", 0, 0, len(members), len(members), size, offset, 0))


def read(path: Path, hashes: Iterable[tuple[str, str]]) -> tuple[Packed, ...]:
    """The members of an archive that :func:`write` made, still compressed.

    :param hashes: (name, sha256 of the content) of each member, from where they were kept; they are not computed again.
    :raises WheelError: the archive is not one of ours, or is damaged where that shows without unpacking.
    """
    known = dict(hashes)
    data = path.read_bytes()
    found = []
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                fields = _LOCAL.unpack_from(data, info.header_offset)
                start = info.header_offset + _LOCAL.size + fields[-2] + fields[-1]
                compressed = data[start : start + info.compress_size]
                if info.compress_type != _DEFLATED or len(compressed) != info.compress_size:
                    raise ValueError(f"member {info.filename} is cut short or not deflated")
                executable = bool(info.external_attr >> 16 & 0o111)
                found.append(
                    Packed(info.filename, compressed, info.file_size, info.CRC, known[info.filename], executable)
                )
    except (zipfile.BadZipFile, struct.error, KeyError, ValueError, OSError) as error:
        raise WheelError(
            f"a kept wheel cannot be read: {error}", where=str(path), next=f"delete {path} and run again"
        ) from error
    return tuple(found)
