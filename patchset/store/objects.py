"""Single objects, read through one long-running git and written without a process each."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from functools import lru_cache
from typing import IO, Any

from patchset.errors import StoreError
from patchset.store.git import GitRepository

#: How many parsed trees to remember: a vLLM release has some 700, and neighbours share most of them.
_TREES_KEPT = 20_000
#: What git calls an object. Any other answer means that questions and answers are out of step, and none is to be believed.
_KINDS = ("blob", "tree", "commit", "tag")


class Objects(GitRepository):
    """What a store does with single objects. A process of its own for each would cost 3 ms; this costs 0.1."""

    def _reader(self) -> _Reader:
        reader = self.__dict__.get("_reader_of_objects")
        if reader is None or not reader.alive:
            reader = _Reader(self.converse("cat-file", "--batch-command", extra={"GIT_NO_LAZY_FETCH": "1"}))
            self.__dict__["_reader_of_objects"] = reader
        return reader

    def has_object(self, oid: str) -> bool:
        """Is *oid* in the store, with nothing fetched to find out?"""
        with self.lock:
            return self._reader().ask("info", oid) is not None

    def object(self, oid: str) -> tuple[str, bytes]:
        """(kind, content) of the object *oid*.

        :raises StoreError: it is not here.
        """
        with self.lock:
            found = self._reader().ask("contents", oid)
        if found is None:
            raise StoreError(
                f"object {oid} is not in the store",
                where=str(self.path),
                next=f"move {self.path} away and run again: it is made anew from the archives",
            )
        return found

    def write_object(self, kind: str, data: bytes) -> str:
        """Put an object in the store, if it is not there yet, and return its id."""
        oid = hashlib.sha1(b"%s %d\0" % (kind.encode("ascii"), len(data)) + data, usedforsecurity=False).hexdigest()
        if not self.has_object(oid):
            from gitdb import IStream, LooseObjectDB  # GitPython's own object database

            with self.lock:
                LooseObjectDB(str(self.path / "objects")).store(
                    IStream(kind.encode("ascii"), len(data), io.BytesIO(data))
                )
        return oid

    def tree_object(self, oid: str) -> dict[bytes, tuple[str, str]]:
        """One level of a tree: name → (mode, id), in git's order. The caller must not change it.

        :raises StoreError: *oid* is no tree.
        """
        return self._parsed(oid)

    @property
    def _parsed(self) -> Callable[[str], dict[bytes, tuple[str, str]]]:
        kept = self.__dict__.get("_parsed_trees")
        if kept is None:
            kept = self.__dict__["_parsed_trees"] = lru_cache(_TREES_KEPT)(self._parse_tree)
        return kept

    def _parse_tree(self, oid: str) -> dict[bytes, tuple[str, str]]:
        kind, data = self.object(oid)
        if kind != "tree":
            raise StoreError(f"{oid} is a {kind}, not a tree", where=str(self.path), next="name a tree")
        found, at = {}, 0
        while at < len(data):
            space, nul = data.index(b" ", at), data.index(b"\0", at)
            found[data[space + 1 : nul]] = (data[at:space].decode("ascii").zfill(6), data[nul + 1 : nul + 21].hex())
            at = nul + 21
        return found

    def write_tree_object(self, entries: dict[bytes, tuple[str, str]]) -> str:
        """One level of a tree as an object: name → (mode, id) in any order."""
        ordered = sorted(entries.items(), key=lambda item: item[0] + (b"/" if item[1][0] == "040000" else b""))
        return self.write_object(
            "tree",
            b"".join(
                mode.lstrip("0").encode("ascii") + b" " + name + b"\0" + bytes.fromhex(oid)
                for name, (mode, oid) in ordered
            ),
        )


class _Reader:
    """`git cat-file --batch-command`, asked one object at a time."""

    def __init__(self, process: Any) -> None:
        self._process = process  # GitPython's handle ends the process when it is dropped
        self._to: IO[bytes] = process.proc.stdin
        self._from: IO[bytes] = process.proc.stdout

    @property
    def alive(self) -> bool:
        return self._process.proc.poll() is None

    def ask(self, command: str, oid: str) -> tuple[str, bytes] | None:
        """``info`` or ``contents`` of *oid*; None if it is not there. The content of ``info`` is empty."""
        if not (len(oid) == 40 and oid.isalnum()):
            raise StoreError(f"{oid!r} is no object id", next="name an object by its 40 hexadecimal digits")
        try:
            self._to.write(f"{command} {oid}\n".encode("ascii"))
            self._to.flush()
            head = self._from.readline().split()
            if len(head) == 2 and head[1] == b"missing":
                return None
            if len(head) != 3 or head[1].decode("ascii") not in _KINDS:
                raise OSError(f"unexpected answer {b' '.join(head)[:80]!r}")
            data = b""
            if command == "contents":
                size = int(head[2])
                data = self._from.read(size + 1)[:-1]
                if len(data) != size:
                    raise OSError("the answer was cut short")
            return head[1].decode("ascii"), data
        except (OSError, ValueError) as error:
            self._process.proc.kill()
            raise StoreError(
                f"git cat-file ended in the middle: {error}",
                where=oid,
                next="run again; if it stays, git fsck on the store shows what is damaged",
            ) from error
