"""The data of a `GIT binary patch`: where a line of it is damaged, git passes over the rest with status 0. Pure."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

from patchset.diff_rules import Refuse

#: What one part may unpack to; git asks for all of that memory at once.
BINARY_LIMIT = 256 * 1024 * 1024

#: How much of it is unpacked at a time: it is counted, and not kept.
_CHUNK = 1024 * 1024

#: The first letter of a line says how many bytes it holds: A-Z are 1 to 26, a-z are 27 to 52.
_LENGTHS = {letter: number for number, letter in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 1)}


def check_part(lines: Sequence[bytes], size: bytes, at: int, refuse: Refuse) -> None:
    """A part whose header says *size* (digits), with *lines* from line *at* (from 0) on, unpacks to just that.

    :param refuse: makes the error for a rule at a ``line`` (from 0).
    :raises DiffRefused: it does not.
    """
    if len(size) > len(str(BINARY_LIMIT)) or int(size) > BINARY_LIMIT:
        raise refuse(f"a binary file of more than {BINARY_LIMIT} bytes", line=at - 1)
    packed = []
    for number, line in enumerate(lines, at):
        length = _LENGTHS.get(line[0], 0)
        if not length or len(line) - 1 != -(-length // 4) * 5:
            raise refuse("a line of a binary patch that is none", line=number)
        try:
            packed.append(base64.b85decode(line[1:])[:length])
        except ValueError as error:
            raise refuse("a line of a binary patch that is none", line=number) from error
    unpacking, rest, found = zlib.decompressobj(), b"".join(packed), 0
    try:
        while found <= int(size) and not unpacking.eof:
            chunk = unpacking.decompress(rest, _CHUNK)
            rest, found = unpacking.unconsumed_tail, found + len(chunk)
            if not chunk and not rest:
                break
    except zlib.error as error:
        raise refuse("a binary patch whose data is damaged", line=at - 1) from error
    if found != int(size) or not unpacking.eof or unpacking.unused_data:
        raise refuse(f"a binary patch whose data is not the {int(size)} bytes that it says", line=at - 1)
