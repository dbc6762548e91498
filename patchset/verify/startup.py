"""What Python runs or reads from site-packages each time it starts, before anything is imported.

Facts, of Python 3.10 to 3.13 (:mod:`site`): path lines of ``.pth`` files are added at the end of the path, lines that begin with
``import`` are run; then ``sitecustomize`` and ``usercustomize`` are imported, from wherever on the path they are. Lines end as
:meth:`str.splitlines` or as a text file has them, by version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from .bounded import Unread, read
from .copies import copy_in, other_copy
from .identity import NAME
from .model import Check, Finding, Kind, few
from .site import listed

CUSTOM = ("sitecustomize", "usercustomize")

_MOST_TEXT = 1024**2
#: vllm by name in code, but not vllm_xpu_kernels, vllm_ascend and the like.
_NAMED = re.compile(rf"(?<![A-Za-z0-9]){NAME}(?![A-Za-z0-9])(?![-_.][A-Za-z])|{NAME}_editable|editable_impl_{NAME}\b")
#: Code that easy-install writes behind its path lines to put them first (setuptools before 80).
_EASY_INSTALL = (
    "import sys; new=sys.path[sys.__plen:]; del sys.path[sys.__plen:]; p=getattr(sys,'__egginsert',0); "
    "sys.path[p:p]=new; sys.__egginsert = p+len(new)"
)
_MOVES = re.compile(r"sys\.path\[|__egginsert")
#: Code that puts something first, or before the path is asked at all.
_FIRST = re.compile(
    r"\[[^][=]*:[^][=]*\]\s*=(?!=)|\[\s*0\s*\]\s*=(?!=)|\bsys\.path\s*=(?!=)"
    r"|\binsert\b|\bpath_hooks\b|\bmeta_path\b|\bpath_importer_cache\b"
)
_PATH = re.compile(r"\bsys\s*\.\s*path\b|\bsys\s+import\b[^\n]*\bpath\b|\bmeta_path\b|\bpath_hooks\b|\baddsitedir\b")
_UNINSTALL = "python -m pip uninstall vllm until there is none, then install the wheel"


def check_startup(site: Path, folders: Iterable[Path]) -> tuple[Check, ...]:
    """``.pth`` files, finders of editable installs and ``.egg-link`` files in *site*; start modules in *folders*."""
    return _site_files(site), _customs(folders)


# -- .pth files --------------------------------------------------------------------------------------------------------


def _site_files(site: Path) -> Check:
    names = listed(site)
    findings: list[Finding] = []
    later, unread, code = [], [], 0
    for name in names:
        if name.endswith((".pth", ".egg-link")):
            try:
                text = read(site / name, _MOST_TEXT).decode("utf-8-sig", "replace")
            except Unread as error:
                unread.append(f"{name} ({error})")
                continue
            if name.endswith(".pth"):
                code += sum(_is_code(line) for line in _lines(text))
                found, after = _pth(site, name, text, names)
                findings += found
                later += after
            elif name == f"{NAME}.egg-link":
                told = f"vllm is installed for development from {text.splitlines()[0][:200] if text else 'nowhere'}"
                findings.append(_shadow(site / name, told))
    notes = [f"also {copy}, which comes later" for copy in later[:5]]
    why = [f"{code} lines of code in them are not judged"] if code else []
    why += [f"cannot be read: {', '.join(unread[:10])}"] if unread else []
    note = "; ".join(notes) or "none that names vllm"
    return Check(".pth files and editable installs", note, few(findings), "; ".join(why))


def _pth(site: Path, name: str, text: str, names: Sequence[str]) -> tuple[list[Finding], list[str]]:
    """Findings of one ``.pth`` file, and copies of vllm that it adds at the end of the path."""
    findings, later = [], []
    lines = _lines(text)
    moves = any(_is_code(line) and (_MOVES.search(line) or _FIRST.search(line)) for line in lines)
    for line in lines:
        if _is_code(line):
            if _NAMED.search(line):
                mapped = _mapping(site, names)
                told = f"code that Python runs at each start hands out vllm{f' from {mapped}' if mapped else ''}"
                findings.append(_shadow(site / name, told))
            elif _FIRST.search(line) and line != _EASY_INSTALL:
                told = "code that Python runs at each start puts something before site-packages"
                findings.append(
                    _shadow(site / name, told, f"read {name}; take it away if nothing that you need wrote it")
                )
            continue
        copy = other_copy(site, site / line) if "\0" not in line else None
        if copy is not None and moves:
            findings.append(_shadow(site / name, f"it puts {copy} before site-packages"))
        elif copy is not None:
            later.append(str(copy))
    return findings, later


def _lines(text: str) -> list[str]:
    """The lines of a ``.pth`` file, however Python splits them, but blank ones and notes; each once."""
    split = dict.fromkeys([*re.split(r"\r\n|\r|\n", text), *text.splitlines()])
    return [line.strip() for line in split if line.strip() and not line.strip().startswith("#")]


def _is_code(line: str) -> bool:
    return line.startswith(("import ", "import\t"))


def _mapping(site: Path, names: Sequence[str]) -> str:
    """Where a finder of setuptools says that vllm lies."""
    for name in names:
        if re.fullmatch(rf"__editable___{NAME}_[0-9].*_finder\.py", name):
            try:
                text = read(site / name, _MOST_TEXT).decode("utf-8", "replace")
            except Unread:
                continue
            found = re.search(rf"""['"]{NAME}['"]\s*:\s*['"]([^'"\n]{{1,500}})['"]""", text)
            if found:
                return found[1]
    return ""


# -- sitecustomize and usercustomize -----------------------------------------------------------------------------------


def _customs(folders: Iterable[Path]) -> Check:
    findings, unjudged = [], []
    for place in dict.fromkeys(found for folder in folders for name in CUSTOM if (found := copy_in(folder, name))):
        code = _code(place)
        if code is None:
            unjudged.append(f"{place} (it cannot be read)")
        elif _NAMED.search(code) or _PATH.search(code):
            told = "code that Python runs at each start names vllm or Python's path"
            findings.append(_shadow(place, told, f"read {place}; take it away if nothing that you need wrote it"))
        else:
            unjudged.append(str(place))
    why = f"code that Python runs at each start, not judged: {', '.join(unjudged[:10])}" if unjudged else ""
    return Check(" and ".join(CUSTOM), "" if unjudged else "none", few(findings), why)


def _code(place: Path) -> str | None:
    """What stands in a module, or in all files directly in a package; None if one cannot be read, as text or at all."""
    files = [place / name for name in listed(place) if os.path.isfile(place / name)] if place.is_dir() else [place]
    try:
        return "\n".join(read(file, _MOST_TEXT).decode("utf-8", "replace") for file in files[:100])
    except Unread:
        return None


def _shadow(place: Path, told: str, step: str = _UNINSTALL) -> Finding:
    return Finding(Kind.SHADOW, str(place), told, step)
