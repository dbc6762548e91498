"""What a tree needs of this machine before it can be built: interpreter, machine, build requirements; and what it builds."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from patchset.errors import MissingTool, WheelError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The first Python whose stable ABI has Py_buffer, which vLLM's `spinloop` and `fs_io_C` ask for (USE_SABI 3.11). They
#: are compiled for it whatever Python builds the wheel: with 3.10 they would else be missing in 0.24.0-0.26.0.
STABLE_ABI = (3, 11)

_OTHER_PYTHON = "install Python 3.11, 3.12 or 3.13, delete .venv and run ./inv again"

_Conditions = tuple[tuple[ast.expr, bool], ...]


def check_tools(release_tree: Path) -> None:
    """Raise before anything is made if *release_tree* cannot be built here.

    :raises MissingTool: naming what is missing, or an interpreter or a machine that it cannot be built with.
    """
    check_python(release_tree)
    if importlib.util.find_spec("ensurepip") is None:
        raise MissingTool(
            "the wheel cannot be built here; missing: Python's venv with pip (ensurepip)",
            next="apt install python3-venv (or your system's counterpart)",
        )
    native = native_extensions(release_tree)
    machine = f"{platform.system()} on {platform.machine()}"
    if native and machine != "Linux on x86_64":
        raise MissingTool(
            f"{', '.join(native)} of this vLLM is compiled for Linux on x86_64, as torch for XPU is, and this is {machine}",
            where="setup.py of the release",
            next="build it on such a machine, or take a release without native parts (0.27.0 or later)",
        )


def check_python(release_tree: Path, version: str | None = None) -> None:
    """
    :param version: an interpreter's version; this one's if not given.
    :raises MissingTool: the release's `requires-python` does not admit it.
    """
    version = version or platform.python_version()
    wanted = _table(release_tree, "project").get("requires-python", "")
    if not isinstance(wanted, str) or not SpecifierSet(wanted).contains(version, prereleases=True):
        raise MissingTool(
            f"this vLLM requires Python {wanted}, and this is Python {version}",
            where="pyproject.toml of the release",
            next=_OTHER_PYTHON,
        )


def unmet_requirements(release_tree: Path, pins: Mapping[str, str]) -> tuple[str, ...]:
    """The build requirements of *release_tree* that *pins* (canonical name → version) do not meet; torch aside."""
    wanted = _table(release_tree, "build-system").get("requires", [])
    if not isinstance(wanted, list):
        raise WheelError(
            "build-system.requires is not a list",
            where=str(release_tree / "pyproject.toml"),
            next="check the pin: this is no pyproject.toml of a vLLM release",
        )
    unmet = []
    for text in wanted:
        requirement = Requirement(str(text))
        name = canonicalize_name(requirement.name)
        if name == "torch" or (requirement.marker and not requirement.marker.evaluate()):
            continue
        if name not in pins or not requirement.specifier.contains(pins[name], prereleases=True):
            unmet.append(f"{text} (locked: {pins.get(name, 'nothing')})")
    return tuple(unmet)


def native_extensions(release_tree: Path, python: tuple[int, int] = STABLE_ABI) -> tuple[str, ...]:
    """The CMake extensions that `setup.py` builds for XPU with the Python version *python*, read without running it.

    A condition that cannot be decided by reading counts as true: better a compiler too many than a build that fails
    late.

    :raises WheelError: there is no readable setup.py.
    """
    names = [
        name
        for name, conditions in _extensions(_setup(release_tree)[1].body, ())
        if all(_decide(test, python) in (wanted, None) for test, wanted in conditions)
    ]
    return tuple(name.removeprefix("vllm.") for name in names)


def ask_stable_abi(release_tree: Path) -> None:
    """Make `setup.py` decide about its extensions by :data:`STABLE_ABI`, not by the Python that happens to run it.

    Upstream asks because it compiles with that Python's headers, which play no part here. Only those conditions are
    changed, in a tree that is there to be built and thrown away; `setup.py` itself is in no wheel.

    :raises WheelError: there is no readable setup.py.
    """
    text, module = _setup(release_tree)
    starts = [0, *itertools.accumulate(len(line) for line in text.splitlines(keepends=True))]
    asked = [
        node
        for _, conditions in _extensions(module.body, ())
        for test, _ in conditions
        for node in ast.walk(test)
        if isinstance(node, ast.Compare) and _decide(node, STABLE_ABI) is not None
    ]
    places = {
        (starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset): node
        for node in asked
        if node.end_lineno is not None and node.end_col_offset is not None
    }
    for (start, end), node in sorted(places.items(), reverse=True):
        text = text[:start] + repr(_decide(node, STABLE_ABI)).encode() + text[end:]
    if places:
        (release_tree / "setup.py").write_bytes(text)


def _setup(release_tree: Path) -> tuple[bytes, ast.Module]:
    path = release_tree / "setup.py"
    try:
        text = path.read_bytes()
        return text, ast.parse(text)
    except (OSError, SyntaxError, ValueError) as error:
        raise WheelError(
            f"setup.py cannot be read: {error}", where=str(path), next="check the pin: is this vLLM?"
        ) from error


def _extensions(body: list[ast.stmt], conditions: _Conditions) -> Iterator[tuple[str, _Conditions]]:
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _extensions(statement.body, (*conditions, (statement.test, True)))
            yield from _extensions(statement.orelse, (*conditions, (statement.test, False)))
        elif not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "CMakeExtension":
                    yield _name_argument(node), conditions


def _name_argument(call: ast.Call) -> str:
    values = [keyword.value for keyword in call.keywords if keyword.arg == "name"] + call.args[:1]
    return str(values[0].value) if values and isinstance(values[0], ast.Constant) else "an extension"


def _decide(test: ast.expr, python: tuple[int, int]) -> bool | None:
    """The value of one of setup.py's conditions on XPU; None if reading cannot tell."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _decide(test.operand, python)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        deciding = isinstance(test.op, ast.Or)
        values = [_decide(value, python) for value in test.values]
        return deciding if deciding in values else None if None in values else not deciding
    if isinstance(test, ast.Call) and re.fullmatch(
        r"_is_\w+|_build_custom_ops|_no_device", getattr(test.func, "id", "")
    ):
        return getattr(test.func, "id", "") == "_is_xpu"
    if isinstance(test, ast.Compare) and ast.unparse(test.left) == "sys.version_info" and len(test.ops) == 1:
        try:
            bound = ast.literal_eval(test.comparators[0])
        except ValueError:
            return None
        orders = {ast.GtE: python >= bound, ast.Lt: python < bound}
        return orders.get(type(test.ops[0]))
    return None


def _table(release_tree: Path, name: str) -> Mapping[str, object]:
    path = release_tree / "pyproject.toml"
    try:
        table = tomllib.loads(path.read_text("utf-8")).get(name, {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WheelError(f"pyproject.toml cannot be read: {error}", where=str(path), next="check the pin") from error
    return table if isinstance(table, dict) else {}
