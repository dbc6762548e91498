"""Where a result is kept: written once, whole or not at all, and never over another one."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from pathlib import Path

from patchset.errors import GateError
from patchset.workspace import make_folder


def place(out: str, folder: Path, kind: str) -> Path:
    """The file for a result: *out*, or one in it if it is a folder (or ends in ``/``), or, if it is empty, one in *folder*.

    A name that is not given has the kind and the moment in it. The folder is made and tried: a run takes minutes.

    :raises GateError: there is something of that name already.
    :raises WorktreeError, OSError: no folder can be there, or nothing can be written in it.
    """
    name = f"{kind}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    path = Path(out).absolute() if out else folder / name
    if out and (out.endswith("/") or path.is_dir()):
        path = path / name
    if os.path.lexists(path):
        raise _there(path)
    make_folder(path.parent)
    with tempfile.TemporaryFile(dir=path.parent):
        return path


def write_once(path: Path, data: bytes) -> None:
    """Put *data* at *path*, where nothing is yet: written beside it, synced, linked.

    :raises GateError: something came to be there meanwhile.
    :raises WorktreeError, OSError: no folder can be there, or no room or no right.
    """
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        _link(name, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        Path(name).unlink(missing_ok=True)


def _link(name: str, path: Path) -> None:
    # A rename would replace what another run put there; a link fails.
    try:
        os.link(name, path)
    except FileExistsError as error:
        raise _there(path) from error
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        if os.path.lexists(path):  # a file system without links
            raise _there(path) from error
        os.replace(name, path)


def _there(path: Path) -> GateError:
    return GateError(
        "a result is written once, and there is something of that name",
        where=str(path),
        next="name another file: --out FILE",
    )
