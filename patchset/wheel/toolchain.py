"""What a tree needs of this machine before it can be built: interpreter, C++ compiler, headers, build requirements."""

from __future__ import annotations

import ast
import importlib.util
import os
import platform
import re
import shutil
import sys
import sysconfig
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

COMPILERS = ("g++", "c++", "clang++")

#: All that a build without Rust may start beside what is in the build environment.
_PROGRAMS = (
    *COMPILERS,
    "gcc",
    "cc",
    "clang",
    "as",
    "ld",
    "ld.bfd",
    "ld.gold",
    "ld.lld",
    "ar",
    "ranlib",
    "nm",
    "objcopy",
    "objdump",
    "strip",
    "readelf",
    "sh",
    "env",
    "uname",
)

#: The first Python whose limited API has Py_buffer, which vLLM's `spinloop` and `fs_io_C` ask for (USE_SABI 3.11). Its
#: headers are needed: with 3.10's the extensions do not compile.
NATIVE_PYTHON = (3, 11)

_OTHER_PYTHON = "install Python 3.11, 3.12 or 3.13, delete .venv and run ./inv again"

_Conditions = tuple[tuple[ast.expr, bool], ...]


def missing_tools(release_tree: Path) -> tuple[str, ...]:
    """What building *release_tree* with this interpreter needs and this machine lacks, a phrase each."""
    missing = []
    if importlib.util.find_spec("ensurepip") is None:
        missing.append("Python's venv with pip (ensurepip)")
    # Asked for a Python that can: 0.24.0-0.26.0 leave their extensions out under 3.10 without a word, and what is in a
    # wheel must not depend on who built it.
    native = native_extensions(release_tree, max(sys.version_info[:2], NATIVE_PYTHON))
    if native:
        parts = ", ".join(native)
        if sys.version_info[:2] < NATIVE_PYTHON:
            missing.append(f"Python 3.11 or later (this is {platform.python_version()}), to compile {parts}")
        if compiler() is None:
            missing.append(f"a C++ compiler ({', '.join(COMPILERS)}), to compile {parts}")
        if not python_header().is_file():
            missing.append(f"Python.h of this interpreter ({python_header()}), to compile {parts}")
    return tuple(missing)


def check_tools(release_tree: Path) -> None:
    """Raise before anything is made if *release_tree* cannot be built here.

    :raises MissingTool: naming everything of :func:`missing_tools`, or an interpreter that the release does not
        support.
    """
    check_python(release_tree)
    missing = missing_tools(release_tree)
    if missing:
        python = any(text.startswith("Python 3.11") for text in missing)
        raise MissingTool(
            f"the wheel cannot be built here; missing: {'; '.join(missing)}",
            where="setup.py of the release",
            next=_OTHER_PYTHON
            if python
            else "apt install g++ python3-dev python3-venv (or your system's counterparts)",
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


def compiler() -> str | None:
    """The C++ compiler that a build uses, as an absolute path."""
    return next((found for found in map(shutil.which, COMPILERS) if found), None)


def find(program: str) -> str | None:
    """The absolute path of *program*, or None."""
    return shutil.which(program)


def python_header() -> Path:
    """Where Python.h of this interpreter must be."""
    return Path(sysconfig.get_path("include"), "Python.h")


def has_rust(release_tree: Path) -> bool:
    """Whether the release has a Rust front end to build at all (from 0.22.0)."""
    return (release_tree / "rust" / "src" / "cmd" / "Cargo.toml").is_file()


def native_extensions(release_tree: Path, python: tuple[int, int]) -> tuple[str, ...]:
    """The CMake extensions that `setup.py` builds for XPU with the Python version *python*, read without running it.

    A condition that cannot be decided by reading counts as true: better a compiler too many than a build that fails
    late.

    :raises WheelError: there is no readable setup.py.
    """
    path = release_tree / "setup.py"
    try:
        module = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise WheelError(
            f"setup.py cannot be read: {error}", where=str(path), next="check the pin: is this vLLM?"
        ) from error
    names = [
        name
        for name, conditions in _extensions(module.body, ())
        if all(_decide(test, python) in (wanted, None) for test, wanted in conditions)
    ]
    return tuple(name.removeprefix("vllm.") for name in names)


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


def link_programs(folder: Path) -> Path:
    """Fill *folder* with links to the few programs a build may start, and return it, to be all of its PATH but the env.

    So no cargo (the Rust front end is "optional": whether it is in the wheel would depend on the machine), no ccache,
    and no git that could find a repository around the build and decide which files belong to the wheel.
    """
    folder.mkdir(parents=True)
    for name in _PROGRAMS:
        found = shutil.which(name)
        if found:
            os.symlink(found, folder / name)
    return folder
