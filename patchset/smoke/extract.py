"""A kernel cut out of vLLM's source by its syntax tree, with what it calls: no vLLM is imported.

The result is the text of a small module that needs triton (and whatever else the kernel itself names) and nothing of
vLLM. Names are followed through ``from vllm.x import y``; a name that leads nowhere is an error, never left out.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Protocol

#: What ``vllm.triton_utils`` re-exports, and the statement that gives the same thing without vLLM.
TRITON_NAMES = {
    "triton": "import triton",
    "tl": "import triton.language as tl",
    "libdevice": "from triton.language.extra import libdevice",
    "tldevice": "from triton.language.extra import libdevice as tldevice",
}


#: Takes where an import is from and what it names (None: the module), gives the statement to have instead, or None.
StandIn = Callable[[str, "str | None"], "str | None"]


class ExtractError(Exception):
    """The kernel is there and cannot be cut out. The text says why."""


class Readable(Protocol):
    """Where files are read from; :class:`patchset.smoke.sources.Source` is one."""

    def read(self, file: str) -> str | None:
        """The text of a file, or None."""
        ...


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    constexpr: bool
    has_default: bool


@dataclass(frozen=True)
class Cut:
    """A kernel, cut out.

    :param text: the module to import.
    :param kernel_text: the kernel alone, with its decorators, as it stands in the file.
    :param helpers: the other functions and constants that came along.
    """

    name: str
    file: str
    line: int
    parameters: tuple[Parameter, ...]
    kernel_text: str
    text: str
    helpers: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """Of the kernel's own source text."""
        return hashlib.sha256(self.kernel_text.encode()).hexdigest()


def cut(source: Readable, file: str, name: str, stand_in: StandIn = lambda origin, member: None) -> Cut | None:
    """The kernel *name* out of *file*; None if the file, or the kernel in it, is not there.

    :param name: of one in a class, ``Class.function``: it comes in a class of that name, alone.
    :param stand_in: what imports are replaced, before anything is followed.
    :raises ExtractError: a syntax error, a function that is no Triton kernel, or a name that cannot be followed.
    """
    module = _load(source, file)
    if module is None or name not in module.definitions:
        return None
    node = module.definitions[name]
    if not isinstance(node, ast.FunctionDef) or not _is_jit(node):
        raise ExtractError(f"{name} in {file} is not a triton.jit function")
    collected = _Collected(stand_in)
    _collect(source, module, name, collected, {file: module})
    head = ["from __future__ import annotations"] if module.future_annotations else []
    text = _assembled([*head, *collected.imports], file, collected)
    helpers = tuple(other for other in collected.parts if other != name)
    return Cut(name, file, _first_line(node), _parameters(node), module.segment(node), text, helpers)


@dataclass
class _Module:
    file: str
    lines: list[str]
    definitions: dict[str, ast.stmt]
    imports: dict[str, tuple[str, str | None, str]]
    future_annotations: bool

    def segment(self, node: ast.stmt) -> str:
        return "\n".join(self.lines[_first_line(node) - 1 : node.end_lineno])


@dataclass
class _Collected:
    stand_in: StandIn
    parts: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    imports: list[str] = field(default_factory=list)


def _load(source: Readable, file: str) -> _Module | None:
    text = source.read(file)
    if text is None:
        return None
    try:
        tree = ast.parse(text, file)
    except SyntaxError as error:
        raise ExtractError(f"{file}:{error.lineno}: {error.msg}") from error
    definitions: dict[str, ast.stmt] = {}
    imports: dict[str, tuple[str, str | None, str]] = {}
    future = False
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            definitions[node.name] = node
            if isinstance(node, ast.ClassDef):
                definitions.update(_methods(node))
        elif isinstance(node, ast.Assign):
            definitions.update({target.id: node for target in node.targets if isinstance(target, ast.Name)})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            definitions[node.target.id] = node
        elif isinstance(node, ast.If):
            definitions.update(dict.fromkeys(_bound(node), node))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                written = alias.name + (f" as {alias.asname}" if alias.asname else "")
                imports[bound] = (alias.name, None, f"import {written}")
        elif isinstance(node, ast.ImportFrom):
            origin = _absolute(file, node)
            future = future or (origin == "__future__" and any(a.name == "annotations" for a in node.names))
            for alias in node.names:
                written = alias.name + (f" as {alias.asname}" if alias.asname else "")
                imports[alias.asname or alias.name] = (origin, alias.name, f"from {origin} import {written}")
    return _Module(file, text.splitlines(), definitions, imports, future)


def _bound(node: ast.If) -> list[str]:
    """The names that a condition at the top of a file gives a value or a function, in whichever branch."""
    names = [part.name for part in [*node.body, *node.orelse] if isinstance(part, ast.FunctionDef)]
    for part in [*node.body, *node.orelse]:
        if isinstance(part, ast.Assign):
            names += [target.id for target in part.targets if isinstance(target, ast.Name)]
        elif isinstance(part, ast.If):
            names += _bound(part)
    return names


def _methods(node: ast.ClassDef) -> dict[str, ast.stmt]:
    functions = (part for part in node.body if isinstance(part, ast.FunctionDef))
    return {f"{node.name}.{part.name}": part for part in functions if _is_jit(part)}


def _absolute(file: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = PurePosixPath(file).parent.parts
    kept = package[: len(package) - (node.level - 1)]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _collect(source: Readable, module: _Module, name: str, into: _Collected, loaded: dict[str, _Module]) -> None:
    if name in into.origin:
        if into.origin[name] != module.file:
            raise ExtractError(f"{name} comes from both {into.origin[name]} and {module.file}")
        return
    into.origin[name] = module.file
    node = module.definitions[name]
    for used in _free_names(node):
        if used in module.definitions:
            _collect(source, module, used, into, loaded)
        elif used in module.imports:
            _follow(source, module, used, into, loaded)
        elif not hasattr(builtins, used):
            raise ExtractError(f"{module.file}:{node.lineno}: {name} uses {used}, which is defined nowhere in the file")
    # A method stays in a class, at its own line: what Triton makes its key of is then what vLLM has.
    header = [f"class {name.partition('.')[0]}:"] if "." in name else []
    into.parts[name] = "\n".join([*header, module.segment(node)])
    into.lines[name] = _first_line(node) - len(header)


def _assembled(head: list[str], file: str, collected: _Collected) -> str:
    """The module's text: what comes from *file* stands at its own lines, the rest above it, as long as there is room.

    Triton's key of a compiled kernel has the line that it starts at: so what is compiled here is found by vLLM too, and
    a traceback names the line of vLLM's file.
    """
    own = {(collected.lines[name], part) for name, part in collected.parts.items() if collected.origin[name] == file}
    lines = list(head)
    for name, part in collected.parts.items():
        if collected.origin[name] != file:
            lines += ["", "", *part.splitlines()]
    for first, part in sorted(own):
        lines += [""] * (first - 1 - len(lines)) + part.splitlines()
    return "\n".join(lines) + "\n"


def _follow(source: Readable, module: _Module, used: str, into: _Collected, loaded: dict[str, _Module]) -> None:
    origin, member, statement = module.imports[used]
    instead = into.stand_in(origin, member)
    if instead is not None and used == (member or origin):
        statement = instead
    elif origin == "vllm.triton_utils" and member in TRITON_NAMES and used == member:
        statement = TRITON_NAMES[member]
    elif origin.split(".")[0] == "vllm":
        found = _find(source, origin, loaded)
        if member is None or member != used or found is None or member not in found.definitions:
            raise ExtractError(f"{module.file}: {used} comes from {origin}, and cannot be followed there")
        _collect(source, found, member, into, loaded)
        return
    if statement not in into.imports:
        into.imports.append(statement)


def _find(source: Readable, dotted: str, loaded: dict[str, _Module]) -> _Module | None:
    base = dotted.replace(".", "/")
    for file in (f"{base}.py", f"{base}/__init__.py"):
        if file not in loaded:
            module = _load(source, file)
            if module is None:
                continue
            loaded[file] = module
        return loaded[file]
    return None


def _free_names(node: ast.AST) -> list[str]:
    names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    bound = (
        {part.id for part in names if isinstance(part.ctx, ast.Store)} if isinstance(node, ast.FunctionDef) else set()
    )
    bound |= {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    own = getattr(node, "name", None)
    used = dict.fromkeys(part.id for part in names if isinstance(part.ctx, ast.Load))
    return [name for name in used if name not in bound and name != own]


def _is_jit(node: ast.FunctionDef) -> bool:
    texts = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(text == "triton.jit" or text.startswith("triton.jit(") for text in texts)


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _parameters(node: ast.FunctionDef) -> tuple[Parameter, ...]:
    positional = [*node.args.posonlyargs, *node.args.args]
    defaults = len(positional) - len(node.args.defaults)
    found = [(arg, index >= defaults) for index, arg in enumerate(positional)]
    found += [
        (arg, default is not None) for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    ]
    return tuple(
        Parameter(arg.arg, arg.annotation is not None and "constexpr" in ast.unparse(arg.annotation), has_default)
        for arg, has_default in found
    )
