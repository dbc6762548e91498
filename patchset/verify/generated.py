"""Files that a build makes and no tree has: which they are, and that they are no more than that.

Facts: the extensions and the Rust front end of vLLM 0.19 to 0.33 for XPU (``patchset/wheel/inspect.py``); ``_version.py`` as
setuptools-scm and vcs-versioning write it; Python looks in a folder for an extension module before it looks for a source
(:class:`importlib.machinery.FileFinder`, Python 3.10 to 3.13).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from .claims import same_version
from .model import Check, Finding, Kind, few

VERSION_FILE = "vllm/_version.py"
#: The largest version file that is read; a real one has some 750 bytes.
MOST_VERSION = 4096

#: All that a build makes: the version file, the two extensions, the Rust front end.
MADE = re.compile(r"vllm/(_version\.py|(spinloop|fs_io_C)\.abi3\.so|vllm-rs|_rust_\w+(\.[\w-]+)*\.so)", re.ASCII)

_EXTENSION = re.compile(r"(?:.*/)?([^/.]+)(?:\.[^/]+)?\.(?:so|pyd)")
_SOURCE = re.compile(r"(?:.*/)?([^/.]+)\.pyc?")
_VERSIONS = frozenset({"version", "__version__"})
_TUPLES = frozenset({"version_tuple", "__version_tuple__"})
_FLAG = "TYPE_CHECKING"
_TYPES = frozenset({"VERSION_TUPLE", "COMMIT_ID"})
_TARGETS = _VERSIONS | _TUPLES | _TYPES | {_FLAG, "__all__", "commit_id", "__commit_id__"}
_IN_TYPES = _TYPES | {"str", "int", "tuple", "object"}
_CODING = re.compile(r"coding[:=]")
_PLAIN = re.compile(r"[\t\n -~]*")


def check_modules(paths: Iterable[str], again: str) -> Check:
    """No extension module among *paths* has the name of a source module or a package in its folder: Python would take it first."""
    every = sorted(set(paths))
    sources: dict[tuple[str, str], str] = {}
    for path in every:
        folder, _, _ = path.rpartition("/")
        while folder:
            above, _, name = folder.rpartition("/")
            if (above, name) in sources:
                break
            sources[above, name] = f"{folder}/"
            folder = above
    for path in every:
        found = _SOURCE.fullmatch(path)
        if found and "/__pycache__/" not in path:
            sources[path.rpartition("/")[0], found[1]] = path
    findings = []
    extensions = [(path, found[1]) for path in every if (found := _EXTENSION.fullmatch(path))]
    for path, name in extensions:
        source = sources.get((path.rpartition("/")[0], name))
        if source:
            what = f"an extension module of the same name as {source}, which Python would import in its place"
            findings.append(Finding(Kind.SHADOW, path, what, again))
    return Check("extension modules", f"{len(extensions)}, none in place of a source", few(findings))


def check_version_file(data: bytes | None, version: str, again: str) -> Check:
    """``vllm/_version.py`` says *version* and does nothing else.

    :param data: its bytes, or its first if it has over :data:`MOST_VERSION`; None if there is none that could be read.
    """
    if data is None:
        return Check(VERSION_FILE, not_run="it is not there, or could not be read")
    tree = _parsed(data)
    if tree is None:
        what = "it cannot be read as the few lines of Python that a build writes"
        return Check(VERSION_FILE, findings=(Finding(Kind.CHANGED, VERSION_FILE, what, again),))
    state: dict[str, object] = {}
    line = _odd_line(tree.body, state)
    if line:
        what = f"line {line} does more than to say a version, and no build writes that"
        return Check(VERSION_FILE, findings=(Finding(Kind.CHANGED, VERSION_FILE, what, again),))
    said = {name: _spelled(state[name]) for name in sorted(_VERSIONS | _TUPLES) if name in state}
    findings = [
        Finding(Kind.IDENTITY, VERSION_FILE, f"its {name} is {text[:100]}, not {version}", again)
        for name, text in said.items()
        if not same_version(text, version)
    ]
    if not _VERSIONS & said.keys():
        findings.append(Finding(Kind.IDENTITY, VERSION_FILE, "it has no version", again))
    return Check(VERSION_FILE, "says the version and does nothing else", few(findings))


def _parsed(data: bytes) -> ast.Module | None:
    text = data.decode("ascii", "replace")
    # What Python makes of another encoding, or of a form feed, need not be what is read here.
    if len(data) > MOST_VERSION or not _PLAIN.fullmatch(text) or _CODING.search(text):
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _odd_line(body: Sequence[ast.stmt], state: dict[str, object]) -> int:
    """The line of the first statement that is none of a version file's, or 0; *state* gets the literals by name."""
    for statement in body:
        if isinstance(statement, ast.If):
            # What stands under `if TYPE_CHECKING` never runs, as that is False here and nowhere else set.
            test = statement.test
            if not (isinstance(test, ast.Name) and test.id == _FLAG and state.get(_FLAG) is False):
                return statement.lineno
            odd = _odd_line(statement.orelse, state)
            if odd:
                return odd
        elif not (_is_idle(statement) or _is_assignment(statement, state)):
            return statement.lineno
    return 0


def _is_idle(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__" and not statement.level
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_assignment(statement: ast.stmt, state: dict[str, object]) -> bool:
    if isinstance(statement, ast.Assign):
        targets, value = statement.targets, statement.value
    elif isinstance(statement, ast.AnnAssign) and _is_type(statement.annotation):
        targets, value = [statement.target], statement.value
    else:
        return False
    names = [target.id for target in targets if isinstance(target, ast.Name) and target.id in _TARGETS]
    if len(names) != len(targets):
        return False
    if value is None:
        return True
    if isinstance(value, ast.Name):
        return value.id == "object" and _TYPES.issuperset(names)
    found = _literal(value)
    if found is ... or (_FLAG in names and found is not False):
        return False
    # One of them twice: which of the two counts is not for a version file to ask.
    twice = state.keys() & names
    state.update(dict.fromkeys(names, found))
    return not twice


def _literal(node: ast.expr) -> object:
    """The value of a literal; ``...`` for anything else."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return ...


def _is_type(node: ast.expr) -> bool:
    """A type as annotations of a version file have it: it is evaluated without ``from __future__ import annotations``."""
    harmless = (ast.Name, ast.Constant, ast.Subscript, ast.Tuple, ast.BinOp, ast.BitOr, ast.Load)
    inner = list(ast.walk(node))
    return all(isinstance(one, harmless) for one in inner) and all(
        one.id in _IN_TYPES for one in inner if isinstance(one, ast.Name)
    )


def _spelled(value: object) -> str:
    parts = value if isinstance(value, tuple) else (value,)
    return ".".join(str(part) if type(part) in (int, str) else repr(part) for part in parts)
