"""Another vllm that Python would import in place of the installed one. Nothing is imported or run to find out.

Facts, of Python 3.10 to 3.13: ``sys.path`` begins with the folder Python is started in (``-m``, ``-c``, interactive) or the
script's, then PYTHONPATH, the standard library, the user's site-packages (not in an environment) and site-packages
(:mod:`site`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from .bounded import Unread, read
from .copies import archive_of, modules_in, other_copy
from .identity import NAME
from .model import Check, Finding, Kind, few
from .startup import CUSTOM, check_startup

_MOST_CONFIGURATION = 64 * 1024
_UNSET = "unset PYTHONPATH where the server is started"


def check_shadow(site: Path, start: Path, environment: Mapping[str, str] = os.environ) -> tuple[Check, ...]:
    """What is found before ``site/vllm`` when Python is started in *start* with *environment*."""
    places = _pythonpath(start, environment)
    user = _user_site(site, environment)
    startup = check_startup(site, [*places, *([user] if user else ()), site])
    found = (_check_start(site, start), _check_pythonpath(site, places), _check_library(site), *startup)
    return (*found, _check_user_site(site, user)) if user else found


def _check_start(site: Path, start: Path) -> Check:
    what = "folder that Python is started in"
    copy = other_copy(site, start)
    if copy is None:
        return Check(what, str(start))
    told = f"`python -m` and `python -c` started in {start} import this, not the installed vllm"
    finding = Finding(Kind.SHADOW, str(copy), told, "start Python in another folder, or with -P (3.11 and later) or -I")
    return Check(what, str(start), (finding,))


def _pythonpath(start: Path, environment: Mapping[str, str]) -> list[Path]:
    value = environment.get("PYTHONPATH", "")
    return [start / entry if entry else start for entry in value.split(os.pathsep)] if value else []


def _check_pythonpath(site: Path, places: list[Path]) -> Check:
    what = "PYTHONPATH"
    if not places:
        return Check(what, "not set here")
    findings, left = [], []
    for place in places:
        copy = other_copy(site, place)
        archive = archive_of(place)
        if copy is not None:
            told = f"PYTHONPATH has {place}, which comes before site-packages"
            findings.append(Finding(Kind.SHADOW, str(copy), told, _UNSET))
        elif archive is not None:
            try:
                found = modules_in(archive, place)
            except Unread as error:
                left.append(f"not looked into: {place} ({error})")
                continue
            if NAME in found:
                told = "PYTHONPATH has this zip file with a vllm in it, which comes before site-packages"
                findings.append(Finding(Kind.SHADOW, str(place), told, _UNSET))
            left += [f"{place} has {name}, code that Python runs at each start" for name in CUSTOM if name in found]
    return Check(what, f"{len(places)} entries", few(findings), "; ".join(left[:10]))


def _check_library(site: Path) -> Check:
    """The standard library comes before site-packages; in an environment it is that of the Python that made it."""
    what = "standard library"
    places = _libraries(site)
    for place in places:
        copy = other_copy(site, place)
        if copy is not None:
            told = f"{place} comes before site-packages, and no vllm belongs there"
            step = f"rm -r {copy}, after a look at who put it there"
            return Check(what, str(place), (Finding(Kind.SHADOW, str(copy), told, step),))
    told = "it is not to be seen which Python this belongs to"
    return Check(what, ", ".join(map(str, places)), not_run="" if places else told)


def _libraries(site: Path) -> list[Path]:
    version = next((part for part in site.parts if re.fullmatch(r"python3\.\d+", part)), "")
    made = next((parent for parent in site.parents if os.path.isfile(parent / "pyvenv.cfg")), None)
    if not version:
        return []
    if made is None:
        return [parent for parent in site.parents if parent.name == version][:1]
    try:
        lines = read(made / "pyvenv.cfg", _MOST_CONFIGURATION).decode("utf-8", "replace").splitlines()
    except Unread:
        return []
    homes = [line.partition("=")[2].strip() for line in lines if line.partition("=")[0].strip().lower() == "home"]
    return [Path(home).parent / folder / version for home in homes[:1] if home for folder in ("lib", "lib64")]


def _user_site(site: Path, environment: Mapping[str, str]) -> Path | None:
    """The user's own site-packages, which come first where there is no environment; None if Python does not look there."""
    version = next((part for part in site.parts if re.fullmatch(r"python3\.\d+", part)), "")
    if (
        not version
        or any(os.path.isfile(parent / "pyvenv.cfg") for parent in site.parents)
        or "PYTHONNOUSERSITE" in environment
    ):
        return None
    base = environment.get("PYTHONUSERBASE") or os.path.join(environment.get("HOME", ""), ".local")
    return Path(base, "lib", version, "site-packages")


def _check_user_site(site: Path, place: Path) -> Check:
    what = "user's site-packages"
    copy = other_copy(site, place) if place.is_absolute() else None
    if copy is None:
        return Check(what, str(place))
    told = f"{place} comes before {site}"
    step = "python -m pip uninstall vllm as that user, or set PYTHONNOUSERSITE=1"
    return Check(what, str(place), (Finding(Kind.SHADOW, str(copy), told, step),))
