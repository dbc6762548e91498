"""Another vllm that Python would import in place of the installed one. Nothing is imported or run to find out.

Facts, of Python 3.10 to 3.13: ``sys.path`` begins with the folder Python is started in (``-m``, ``-c``, interactive) or the
script's, then PYTHONPATH, the standard library, the user's site-packages (not in an environment) and site-packages; path
lines of ``.pth`` files come last, their ``import`` lines are run; a package needs ``__init__`` to be taken before a later
one (:mod:`site`, :mod:`importlib.machinery`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .bounded import Unread, read
from .identity import NAME
from .model import Check, Finding, Kind, few
from .site import listed

_MOST_PTH = 1024**2
_MODULE = re.compile(rf"{NAME}(\.[A-Za-z0-9_-]+)*\.(so|pyd)|{NAME}\.pyc?")
_INIT = re.compile(r"__init__(\.[A-Za-z0-9_-]+)*\.(so|pyd)|__init__\.pyc?")
#: vllm by name in code, but not vllm_xpu_kernels, vllm_ascend and the like.
_NAMED = re.compile(rf"(?<![A-Za-z0-9]){NAME}(?![A-Za-z0-9])(?![-_.][A-Za-z])|{NAME}_editable|editable_impl_{NAME}\b")
_FRONT = re.compile(r"sys\.path\[|sys\.path\.insert|__egginsert")


def check_shadow(site: Path, start: Path, environment: Mapping[str, str] = os.environ) -> tuple[Check, ...]:
    """What is found before ``site/vllm`` when Python is started in *start* with *environment*."""
    found = [_start(site, start), _pythonpath(site, start, environment), *_site_files(site)]
    user = _user_site(site, environment)
    return (*found, user) if user else tuple(found)


def copy_in(folder: Path) -> Path | None:
    """The package or module vllm that Python would take from *folder* on its path, if there is one."""
    inside = folder / NAME
    if any(_INIT.fullmatch(name) for name in listed(inside)):
        return inside
    return next((folder / name for name in listed(folder) if _MODULE.fullmatch(name)), None)


def _start(site: Path, start: Path) -> Check:
    what = "folder that Python is started in"
    copy = _other(site, start)
    if copy is None:
        return Check(what, str(start))
    told = f"`python -m` and `python -c` started in {start} import this, not the installed vllm"
    finding = Finding(Kind.SHADOW, str(copy), told, "start Python in another folder, or with -P (3.11 and later) or -I")
    return Check(what, str(start), (finding,))


def _pythonpath(site: Path, start: Path, environment: Mapping[str, str]) -> Check:
    what = "PYTHONPATH"
    value = environment.get("PYTHONPATH", "")
    if not value:
        return Check(what, "not set here")
    findings, archives = [], []
    for entry in value.split(os.pathsep):
        place = start / entry if entry else start
        copy = _other(site, place)
        if copy is not None:
            told = f"PYTHONPATH has {place}, which comes before site-packages"
            findings.append(Finding(Kind.SHADOW, str(copy), told, "unset PYTHONPATH where the server is started"))
        elif os.path.isfile(place):
            archives.append(str(place))
    why = f"not looked into: {', '.join(archives)}" if archives else ""
    return Check(what, f"{value.count(os.pathsep) + 1} entries", few(findings), why)


def _user_site(site: Path, environment: Mapping[str, str]) -> Check | None:
    """The user's own site-packages, which come first where there is no environment."""
    version = next((part for part in site.parts if re.fullmatch(r"python3\.\d+", part)), "")
    if (
        not version
        or any(os.path.isfile(parent / "pyvenv.cfg") for parent in site.parents)
        or "PYTHONNOUSERSITE" in environment
    ):
        return None
    base = environment.get("PYTHONUSERBASE") or os.path.join(environment.get("HOME", ""), ".local")
    place = Path(base, "lib", version, "site-packages")
    copy = _other(site, place) if place.is_absolute() else None
    if copy is None:
        return Check("user's site-packages", str(place))
    told = f"{place} comes before {site}"
    finding = Finding(
        Kind.SHADOW, str(copy), told, "python -m pip uninstall vllm as that user, or set PYTHONNOUSERSITE=1"
    )
    return Check("user's site-packages", str(place), (finding,))


def _site_files(site: Path) -> Iterable[Check]:
    """``.pth`` files, finders of editable installs and ``.egg-link`` files in site-packages."""
    names = listed(site)
    findings: list[Finding] = []
    later, unread, code = [], [], 0
    for name in names:
        if name.endswith((".pth", ".egg-link")):
            try:
                text = read(site / name, _MOST_PTH).decode("utf-8", "replace")
            except Unread as error:
                unread.append(f"{name} ({error})")
                continue
            if name.endswith(".pth"):
                code += sum(_is_code(line) for line in text.splitlines())
                found, after = _pth(site, name, text, names)
                findings += found
                later += after
            elif name == f"{NAME}.egg-link":
                told = f"vllm is installed for development from {text.splitlines()[0][:200] if text else 'nowhere'}"
                findings.append(_shadow(site, name, told))
    notes = [f"{code} lines of code in them are not judged"] if code else []
    notes += [f"also {copy}, which comes later" for copy in later[:5]]
    why = f"cannot be read: {', '.join(unread[:10])}" if unread else ""
    yield Check(".pth files and editable installs", "; ".join(notes) or "none that names vllm", few(findings), why)


def _pth(site: Path, name: str, text: str, names: Sequence[str]) -> tuple[list[Finding], list[str]]:
    """Findings of one ``.pth`` file, and copies of vllm that it adds at the end of the path."""
    findings, later = [], []
    lines = [line.strip() for line in text.splitlines()]
    front = any(_is_code(line) and _FRONT.search(line) for line in lines)
    for line in lines:
        if not line or line.startswith("#"):
            continue
        if _is_code(line):
            if _NAMED.search(line):
                mapped = _mapping(site, names)
                told = f"code that Python runs at each start hands out vllm{f' from {mapped}' if mapped else ''}"
                findings.append(_shadow(site, name, told))
            continue
        copy = _other(site, site / line) if "\0" not in line else None
        if copy is not None and front:
            findings.append(_shadow(site, name, f"it puts {copy} before site-packages"))
        elif copy is not None:
            later.append(str(copy))
    return findings, later


def _is_code(line: str) -> bool:
    return line.startswith(("import ", "import\t"))


def _mapping(site: Path, names: Sequence[str]) -> str:
    """Where a finder of setuptools says that vllm lies."""
    for name in names:
        if re.fullmatch(rf"__editable___{NAME}_[0-9].*_finder\.py", name):
            try:
                text = read(site / name, _MOST_PTH).decode("utf-8", "replace")
            except Unread:
                continue
            found = re.search(rf"""['"]{NAME}['"]\s*:\s*['"]([^'"\n]{{1,500}})['"]""", text)
            if found:
                return found[1]
    return ""


def _shadow(site: Path, name: str, told: str) -> Finding:
    return Finding(
        Kind.SHADOW, str(site / name), told, "python -m pip uninstall vllm until there is none, then install the wheel"
    )


def _other(site: Path, folder: Path) -> Path | None:
    copy = copy_in(folder)
    same = copy is not None and os.path.realpath(copy) == os.path.realpath(site / NAME)
    return None if same else copy
