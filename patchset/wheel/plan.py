"""Which changes of a tree end in its wheel as they are, and which could steer the build and so ask for a whole one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from patchset.store import Entry

#: Read by a build of any release (0.19.1-0.33.0): setup.py's own strings are searched for names of files, and so are these.
STEERING = ("setup.py", "pyproject.toml", "MANIFEST.in", "CMakeLists.txt")

#: Folders and hidden files at the root that no build of a wheel reads. What is in neither list asks for a whole build.
_INERT = frozenset({"benchmarks", "docker", "docs", "examples", "tests"})
_REGULAR = ("100644", "100755")


@dataclass(frozen=True)
class Change:
    """One path that two trees differ in; None on the side that does not have it."""

    path: str
    before: Entry | None
    after: Entry | None


def steers(path: str) -> bool:
    """Could the file at *path* steer a build by what it says? Those below ``vllm/`` are copied, whatever else they do."""
    top, _, rest = path.partition("/")
    return not (top in _INERT or top.startswith(".") or (top == "vllm" and rest))


def why_whole(changes: tuple[Change, ...], files: Mapping[str, Entry], read: Callable[[str], bytes | None]) -> str:
    """The first reason why a tree with *changes* must be built whole; empty if its wheel can be assembled.

    :param files: every file of the base. :param read: the content of one of them.
    """
    shapes = {_shape(path) for path in files}
    steered = "\n".join((read(path) or b"").decode("utf-8", "replace") for path in STEERING[1:])
    literals = _literals((read(STEERING[0]) or b"").decode("utf-8", "replace"))
    for change in changes:
        reason = _reason(change, shapes, literals, steered)
        if reason:
            return reason
    return ""


def _reason(change: Change, shapes: set[tuple[str, str]], literals: set[str], steered: str) -> str:
    path = change.path
    top = path.partition("/")[0]
    name = path.rpartition("/")[2]
    if steers(path):
        return f"the series changes {path}, which could steer the build"
    if top != "vllm":
        return ""
    if any(side and side.mode not in _REGULAR for side in (change.before, change.after)):
        return f"{path} is or was a link"
    if change.after and change.after.mode != (change.before.mode if change.before else _REGULAR[0]):
        return f"the series changes the mode of {path}"
    if name in literals or path in literals or path in steered:
        return f"the series changes {path}, which the build reads"
    if not change.before and _shape(path) not in shapes:
        return f"the series adds {path}, the first file of its kind in its folder"
    if name == "__init__.py" and not (change.before and change.after):
        return f"the series makes a package or ends one: {path}"
    return ""


def _shape(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name.rpartition(".")[2] if "." in name else name


def _literals(program: str) -> set[str]:
    """Every string in *program*; all its words if it cannot be parsed."""
    try:
        nodes = list(ast.walk(ast.parse(program)))
    except (SyntaxError, ValueError):
        return set(program.replace('"', " ").replace("'", " ").split())
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
