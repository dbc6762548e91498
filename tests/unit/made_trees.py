"""Trees of a store out of plain dictionaries, and plain dictionaries out of folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from patchset.store import Store

#: path → bytes of a plain file, or (git mode, bytes).
Files = Mapping[str, "bytes | tuple[str, bytes]"]


def tree_in(store: Store, files: Files) -> str:
    """The id of a tree in *store* that holds *files*."""
    here, below = [], {}
    for path, content in files.items():
        mode, data = ("100644", content) if isinstance(content, bytes) else content
        folder, slash, rest = path.partition("/")
        if slash:
            below.setdefault(folder, {})[rest] = content
        else:
            here.append((mode, "blob", store.write_blob(data), path))
    here += [("040000", "tree", tree_in(store, part), folder) for folder, part in below.items()]
    records = [f"{mode} {kind} {oid}\t".encode() + os.fsencode(name) + b"\0" for mode, kind, oid, name in here]
    return store.run("mktree", "-z", stdin=b"".join(records)).decode().strip()


def on_disk(root: Path) -> dict[str, tuple[str, bytes]]:
    """What lies below *root*: path → (git mode, bytes); modes other than 644 and 755 show as they are."""
    found = {}
    for folder, folders, names in os.walk(root):
        for name in [*names, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]:
            path = Path(folder, name)
            mode = "120000" if path.is_symlink() else f"100{path.stat().st_mode & 0o777:o}"
            data = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
            found[str(path.relative_to(root))] = (mode, data)
    return found
