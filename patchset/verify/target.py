"""What a person named, and which verification that is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .installed import verify_installed
from .model import Report, Unusable
from .receipt import verify_receipt, verify_wheel_with
from .wheel import verify_wheel

_NEXT = "name a wheel (.whl), a receipt (.json), a site-packages folder, a virtual environment or its vllm folder"


def verify(target: str | Path, *, receipt: str | Path | None = None, start: str | Path | None = None) -> Report:
    """Verify *target*: a wheel, a receipt, or the folder of an installation.

    :param receipt: for a wheel or an installation: a receipt that it must agree with.
    :param start: for an installation: the folder that Python would be started in, the current one unless told.
    :raises Unusable: the target is none of these or cannot be read, or an argument does not go with it.
    """
    path = _absolute(target)
    given = _absolute(receipt) if receipt else None
    if _is_folder(path):
        return verify_installed(path, _start(start), given)
    if start is not None:
        raise Unusable("a start folder goes with an installation only", where=str(path), next="leave --from out")
    if path.suffix == ".whl":
        return verify_wheel_with(path, given) if given else verify_wheel(path)
    if path.suffix == ".json":
        if given:
            raise Unusable("the target is a receipt already", where=str(path), next="leave --receipt out")
        return verify_receipt(path)
    raise Unusable("this is neither a wheel, a receipt nor an installation", where=str(path), next=_NEXT)


def _start(start: str | Path | None) -> Path:
    try:
        place = _absolute(start if start is not None else os.getcwd())
    except FileNotFoundError as error:  # the current folder was deleted
        raise Unusable("there is no current folder", next="give one with --from DIR") from error
    if not _is_folder(place):
        raise Unusable("there is no such folder to start in", where=str(place), next="give one with --from DIR")
    return place


def _absolute(path: str | Path) -> Path:
    # Not resolved: a link may be how the server sees it.
    return Path(os.path.abspath(path))


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unusable(f"it cannot be looked at: {reason}", where=str(path), next=_NEXT) from error
