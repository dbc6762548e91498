"""What the patched tree wants of the kernels: the operators that it calls or names, and what it imports. By AST, from a store.

Where a place is reached is read from its path, the functions and the platform tests around it; the rest is ``shared``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from patchset.store import Store

PACKAGE = "vllm_xpu_kernels"

#: The kernels' namespaces begin with an underscore; torch's and vLLM's own (aten, vllm) do not.
_MARK = re.compile(rb"\bops\._|vllm_xpu_kernels|_xpu_C")
_XPU_PATH = re.compile(r"(?:\A|[/_])xpu(?:[/_.]|mem)")
_OTHER_PATH = re.compile(
    r"(?:\A|[/_])(?:rocm|amd|nvidia|cuda|tpu|hip|aiter|rdna\d|cutlass|marlin|flashinfer|cpu|amx)[/_.]"
)
# An operator's class sends forward_xpu to forward_cuda where the kernels are the same: that name alone says nothing.
_XPU_FUNCTION = re.compile(r"(?:\A|_)xpu(?:_|\Z)")
_OTHER_FUNCTION = re.compile(r"\Aforward_(?:hip|cpu|tpu)\Z|(?:\A|_)(?:rocm|hip|aiter)(?:_|\Z)")
_OTHER_TESTS = frozenset({"is_cuda", "is_rocm", "is_cuda_alike", "is_cpu", "is_tpu"})
_REGISTERING = frozenset({"register_fake", "impl_abstract", "register_autograd", "register_kernel"})


class Reach(Enum):
    """Where a place of the tree is reached. ``SHARED``: on several platforms, or nothing says on which."""

    XPU = "xpu"
    OTHER = "other"
    SHARED = "shared"


@dataclass(frozen=True)
class Place:
    """A line of the tree. ``guarded``: the file asks first whether it is there, or catches that it is not."""

    file: str
    line: int
    reach: Reach
    guarded: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Use:
    """An operator that the tree names. ``called``: it is called there, with so many ``positional`` arguments (None: not to
    be told) and these ``keywords``; else it is only named."""

    namespace: str
    name: str
    place: Place
    called: bool = False
    positional: int | None = None
    keywords: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Imported:
    """``name`` of the kernels' ``module`` that the tree imports; empty: the module itself."""

    module: str
    name: str
    place: Place


@dataclass(frozen=True)
class Wanted:
    """All that a tree wants. ``dynamic``: where an operator's name is made at run time; ``unread``: files that are not Python."""

    uses: tuple[Use, ...]
    imports: tuple[Imported, ...]
    dynamic: tuple[Place, ...]
    unread: tuple[str, ...]


def wanted(store: Store, tree: str) -> Wanted:
    """What the Python files below ``vllm/`` of *tree* want, in the order of files and lines."""
    uses: list[Use] = []
    imports: list[Imported] = []
    dynamic: list[Place] = []
    unread: list[str] = []
    for path, entry in store.entries(tree).items():
        if not (path.startswith("vllm/") and path.endswith(".py") and entry.mode.startswith("100")):
            continue
        data = store.blob(entry.blob)
        if not _MARK.search(data):
            continue
        found = wanted_by(data, path)
        if found is None:
            unread.append(path)
            continue
        uses += found.uses
        imports += found.imports
        dynamic += found.dynamic
    return Wanted(tuple(uses), tuple(imports), tuple(dynamic), tuple(unread))


def wanted_by(source: bytes, path: str) -> Wanted | None:
    """What one file wants; None if it is no Python of this interpreter."""
    try:
        tree = ast.parse(source)
        reader = _Reader(path, _aliases(tree))
        reader.read(tree.body, _by_path(path))
    except (SyntaxError, ValueError, RecursionError):
        return None
    asked = {(use.namespace, use.name) for use in reader.asked}
    behind = {name for name, guarded in reader.mentions.items() if all(guarded)}
    uses = [
        replace(use, place=replace(use.place, guarded=True))
        if (use.namespace, use.name) in asked or function in behind
        else use
        for use, function in reader.uses
    ]
    return Wanted(tuple(uses), tuple(reader.imports), tuple(reader.dynamic), ())


class _Reader:
    """Walks one file, with what is known of the place at each node.

    ``uses`` have the function that they are in. ``mentions``: name → whether each place of the file that mentions it is
    guarded: a function that only guarded places hand out is as guarded as they are.
    """

    def __init__(self, path: str, aliases: dict[str, str]) -> None:
        self._path = path
        self._aliases = aliases
        self._function = ""
        self.uses: list[tuple[Use, str]] = []
        self.mentions: dict[str, list[bool]] = {}
        self.asked: list[Use] = []
        self.imports: list[Imported] = []
        self.dynamic: list[Place] = []

    def read(self, nodes: Iterable[ast.AST], reach: Reach, guarded: bool = False) -> None:
        for node in nodes:
            self._read(node, reach, guarded)

    def _read(self, node: ast.AST, reach: Reach, guarded: bool) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.read(node.decorator_list, reach, guarded)
            outer, self._function = self._function, self._function or node.name
            self.read([node.args, *node.body], _by_function(node.name, reach), guarded)
            self._function = outer
        elif isinstance(node, (ast.If, ast.IfExp)):
            self._branches(node, reach, guarded)
        elif isinstance(node, ast.Try):
            self.read(node.body, reach, guarded or _catches(node))
            self.read([*node.handlers, *node.orelse, *node.finalbody], reach, guarded)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._imports(node, Place(self._path, node.lineno, reach, guarded))
        elif isinstance(node, ast.Call) and self._call(node, Place(self._path, node.lineno, reach, guarded)):
            self.read([*node.args, *node.keywords], reach, guarded)
        elif isinstance(node, ast.Attribute) and self._operator(node):
            namespace, name = self._operator(node) or ("", "")
            self._note(Use(namespace, name, Place(self._path, node.lineno, reach, guarded)))
        else:
            if isinstance(node, ast.Name):
                self.mentions.setdefault(node.id, []).append(guarded)
            self.read(ast.iter_child_nodes(node), reach, guarded)

    def _branches(self, node: ast.If | ast.IfExp, reach: Reach, guarded: bool) -> None:
        self._read(node.test, reach, guarded)
        yes, no = _by_test(node.test)
        asks = self._asks(node.test)
        sides = [(node.body, yes, asks is True), (node.orelse, no, asks is False)]
        for side, told, asked in sides:
            self.read(side if isinstance(side, list) else [side], told or reach, guarded or asked)

    def _asks(self, test: ast.AST) -> bool | None:
        """True: the test holds only if some operator is there; False: only if one is not; None: it asks for none."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            asks = self._asks(test.operand)
            return None if asks is None else not asks
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return True if any(self._asks(value) for value in test.values) else None
        if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "hasattr" and test.args:
            return True if self._namespace(test.args[0]) else None
        return None

    def _note(self, use: Use) -> None:
        self.uses.append((use, self._function))

    def _call(self, node: ast.Call, place: Place) -> bool:
        """Note the call if it is of an operator, or asks for one. False: what it calls has still to be read."""
        operator = self._operator(node.func)
        if operator:
            stars = any(isinstance(argument, ast.Starred) for argument in node.args)
            names = [keyword.arg for keyword in node.keywords]
            told = not stars and None not in names
            keywords = frozenset(name for name in names if name) if told else frozenset()
            self._note(Use(*operator, place, True, len(node.args) if told else None, keywords))
            return True
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("hasattr", "getattr") and len(node.args) >= 2:
            namespace = self._namespace(node.args[0])
            if namespace:
                self._asked(namespace, node, called, place)
                return True
        if called in _REGISTERING and node.args and isinstance(node.args[0], ast.Constant):
            namespace, parted, name = str(node.args[0].value).partition("::")
            if parted:
                self._note(Use(namespace, name.partition(".")[0], place))
        return False

    def _asked(self, namespace: str, node: ast.Call, called: str, place: Place) -> None:
        literal = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
        if not isinstance(literal, str):
            self.dynamic.append(place)
        elif called == "hasattr" or len(node.args) > 2:
            self.asked.append(Use(namespace, literal, place))
            self._note(Use(namespace, literal, replace(place, guarded=True)))
        else:
            self._note(Use(namespace, literal, place))

    def _imports(self, node: ast.Import | ast.ImportFrom, place: Place) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == PACKAGE:
                    self.imports.append(Imported(alias.name, "", place))
        elif not node.level and (node.module or "").partition(".")[0] == PACKAGE:
            self.imports += [Imported(str(node.module), alias.name, place) for alias in node.names]

    def _operator(self, node: ast.AST) -> tuple[str, str] | None:
        """(namespace, name) of ``torch.ops.NAMESPACE.NAME``, with or without an overload behind it."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            namespace = self._namespace(node.value)
            if namespace:
                return namespace, node.attr
            names.append(node.attr)
            node = node.value
        return None

    def _namespace(self, node: ast.AST) -> str:
        if isinstance(node, ast.Name):
            return self._aliases.get(node.id, "")
        return _namespace(node)


def _namespace(node: ast.AST) -> str:
    """``NAMESPACE`` of ``torch.ops.NAMESPACE``; empty for anything else."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == "ops"):
        return ""
    return node.attr if isinstance(node.value.value, ast.Name) and node.value.value.id == "torch" else ""


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Name → namespace, of names that the file binds once, to ``torch.ops.NAMESPACE``."""
    found: dict[str, str] = {}
    bound: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.append(node.id)
        elif isinstance(node, ast.arg):
            bound.append(node.arg)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            namespace = _namespace(node.value)
            if namespace:
                found[node.targets[0].id] = namespace
    return {name: namespace for name, namespace in found.items() if bound.count(name) == 1}


def _catches(node: ast.Try) -> bool:
    caught = {name.id for handler in node.handlers for name in _names(handler.type)}
    everything = any(handler.type is None for handler in node.handlers)
    return everything or bool(caught & {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception"})


def _names(node: ast.AST | None) -> Iterator[ast.Name]:
    return (name for name in ast.walk(node) if isinstance(name, ast.Name)) if node else iter(())


def _by_path(path: str) -> Reach:
    if _XPU_PATH.search(path):
        return Reach.XPU
    return Reach.OTHER if _OTHER_PATH.search(path) else Reach.SHARED


def _by_function(name: str, reach: Reach) -> Reach:
    if _XPU_FUNCTION.search(name):
        return Reach.XPU
    return Reach.OTHER if _OTHER_FUNCTION.search(name) and reach is Reach.SHARED else reach


def _by_test(test: ast.AST) -> tuple[Reach | None, Reach | None]:
    """What a test of the platform says of its two branches; None: nothing."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yes, no = _by_test(test.operand)
        return no, yes
    if isinstance(test, ast.BoolOp):
        told = [_by_test(value) for value in test.values]
        if isinstance(test.op, ast.And):
            # all of them hold in the first branch; in the second nobody knows which does not
            return next((yes for yes, _ in told if yes), None), None
        sides = {yes for yes, _ in told}
        return (sides.pop() if len(sides) == 1 else None), None
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute):
        if test.func.attr == "is_xpu":
            return Reach.XPU, Reach.OTHER
        if test.func.attr in _OTHER_TESTS:
            return Reach.OTHER, None
    return None, None
