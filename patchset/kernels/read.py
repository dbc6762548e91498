"""What a kernels wheel holds: its shared objects, what they need, what they register, and its Python modules.

Each object is written to scratch, mapped, read and removed: the biggest has 300 MB, of which some 30 are looked at.
"""

from __future__ import annotations

import ast
import errno
import json
import mmap
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from patchset.errors import KernelsError
from patchset.kernels import ops
from patchset.kernels.have import Had
from patchset.kernels.schema import parse
from patchset.wheel import elf
from patchset.workspace import UNREADABLE, digest, sources_digest, write_atomically

#: The biggest known objects have 310 MB, the biggest known wheel 780 MB unpacked.
OBJECT_LIMIT = 1536 * 1024 * 1024
TOTAL_LIMIT = 4 * 1024 * 1024 * 1024
_MEMBERS_LIMIT = 10_000
_SOURCE_LIMIT = 4 * 1024 * 1024

#: What stands in PyTorch's XPU build only.
_XPU = re.compile(r"N[rVK]*[RO]?(?:3c10|2at)3xpu|N[rVK]*[RO]?2at\d+XPU|XPUGenerator|XPUStream|XPUFunctions")
_SYCL = re.compile(r"_ZT?[VISTC]?N[rVK]*[RO]?4sycl3_V|^__sycl_|^_ZNK?4sycl")
#: Runtime libraries that a process must hold one copy of.
_RUNTIME = re.compile(
    r"lib(sycl|ccl|mpi|dnnl|mkl\w*|ze_loader|ur_loader|OpenCL|iomp5|c10\w*|torch\w*)\b[^/]*\.so[.\d]*\Z"
)


@dataclass(frozen=True)
class Object:
    """One shared object.

    ``torch``, ``xpu``, ``sycl``: the symbols it cannot do without and that no object of the wheel defines: torch's that
    every build has, torch's of the XPU build, SYCL's. ``others`` counts the rest.
    """

    file: str
    size: int
    needed: tuple[str, ...]
    search_path: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    torch: tuple[str, ...]
    xpu: tuple[str, ...]
    sycl: tuple[str, ...]
    others: int


@dataclass(frozen=True)
class Contents:
    """A wheel's contents. ``groups`` and ``mixed``: (object, text) of the rules found; ``modules``: dotted name → the names
    that its top level defines (``*`` where that cannot be told)."""

    objects: tuple[Object, ...]
    ops: tuple[ops.Op, ...]
    named: tuple[tuple[str, str], ...]
    groups: tuple[tuple[str, str], ...]
    mixed: tuple[tuple[str, str], ...]
    modules: Mapping[str, tuple[str, ...]]
    bundled: tuple[str, ...]


def contents(had: Had, *, cache: Path, scratch: Callable[[], Any], fresh: bool = False) -> tuple[Contents, bool]:
    """The contents of the wheel, and whether they were known: by its hash, and by that of the code that reads it.

    :param scratch: a context manager that gives an empty directory; entered only if the wheel has to be read.
    :raises KernelsError: it is no sound wheel.
    """
    file = cache / "kernels" / f"{digest([had.sha256, _code()])[:40]}.json"
    if not fresh:
        try:
            return _from_json(json.loads(file.read_bytes())), True
        except UNREADABLE:
            pass
    with scratch() as folder:
        found = read(had.path, folder)
    write_atomically(file, json.dumps(_as_json(found), sort_keys=True).encode())
    return found, False


def read(wheel: Path, scratch: Path) -> Contents:
    """Read *wheel*, one object after the other.

    :param scratch: an existing directory with room for its biggest object.
    :raises KernelsError: it is no zip archive, a member is damaged or no ELF file, or it is too big.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = _members(archive, wheel)
            native = [info for info in members if re.search(r"\.so(\.\d+)*\Z", info.filename)]
            seen = [_read_object(archive, info, wheel, scratch) for info in native]
            modules = dict(_modules(archive, members))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise  # no room, no rights: not the wheel's fault, while seeking to a place that cannot be is
        raise KernelsError(
            f"the wheel cannot be read: {error}",
            where=str(wheel),
            next="fetch it again: ./inv kernels --version VERSION",
        ) from error
    defined = {name for item in seen for name in item.defined}
    everything = sorted((op for item in seen for op in item.ops), key=lambda op: (op.namespace, op.schema.name))
    return Contents(
        tuple(_object(item, defined) for item in seen),
        tuple(everything),
        tuple(sorted({pair for item in seen for pair in item.named})),
        tuple((item.info.filename, rule) for item in seen for rule in item.rules.groups),
        tuple((item.info.filename, rule) for item in seen for rule in item.rules.mixed),
        modules,
        tuple(info.filename for info in native if _RUNTIME.search(info.filename.rpartition("/")[2])),
    )


# -- objects -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Seen:
    info: zipfile.ZipInfo
    needed: tuple[str, ...]
    search_path: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    undefined: tuple[str, ...]
    defined: frozenset[str]
    ops: tuple[ops.Op, ...]
    named: tuple[tuple[str, str], ...]
    rules: ops.Rules


def _read_object(archive: zipfile.ZipFile, info: zipfile.ZipInfo, wheel: Path, scratch: Path) -> _Seen:
    try:
        with _mapped(archive, info, scratch) as data:
            image = elf.Image(data)
            symbols = tuple(image.dynamic_symbols())
            name = info.filename.rpartition("/")[2]
            found = ops.registered(image, name) if ops.registers(image) else ops.Registered((), ())
            return _Seen(
                info,
                image.needed(),
                image.search_path(),
                image.versions_needed(),
                tuple(sorted({s.name for s in symbols if not s.defined and not s.weak})),
                frozenset(s.name for s in symbols if s.defined),
                found.ops,
                found.named,
                ops.rules(image),
            )
    except elf.NotElf as error:
        raise KernelsError(
            f"{info.filename} is no shared object that can be read: {error}",
            where=str(wheel),
            next="fetch the wheel again; if it stays, it is damaged where it comes from",
        ) from error


@contextmanager
def _mapped(archive: zipfile.ZipFile, info: zipfile.ZipInfo, scratch: Path) -> Iterator[bytes | mmap.mmap]:
    with tempfile.TemporaryFile(dir=scratch) as file:
        with archive.open(info) as stream:
            shutil.copyfileobj(stream, file, 1024 * 1024)
        file.flush()
        if info.file_size == 0:
            yield b""  # what is empty cannot be mapped
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def _object(seen: _Seen, defined: set[str]) -> Object:
    families: dict[str, list[str]] = {"torch": [], "xpu": [], "sycl": [], "others": []}
    for name in seen.undefined:
        if name not in defined:
            families[_family(name)].append(name)
    return Object(
        seen.info.filename,
        seen.info.file_size,
        seen.needed,
        seen.search_path,
        seen.versions,
        tuple(families["torch"]),
        tuple(families["xpu"]),
        tuple(families["sycl"]),
        len(families["others"]),
    )


def _family(symbol: str) -> str:
    if _SYCL.search(symbol):
        return "sycl"
    if elf.is_of_torch(symbol):
        return "xpu" if _XPU.search(symbol) else "torch"
    return "others"


# -- members and modules -----------------------------------------------------------------------------------------------


def _members(archive: zipfile.ZipFile, wheel: Path) -> list[zipfile.ZipInfo]:
    members = [info for info in archive.infolist() if not info.is_dir()]
    if any(info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for info in members):
        raise NotImplementedError("a member is compressed in a way that the wheel format does not know")
    biggest = max(members, key=lambda info: info.file_size, default=None)
    total = sum(info.file_size for info in members)
    if biggest and (biggest.file_size > OBJECT_LIMIT or total > TOTAL_LIMIT or len(members) > _MEMBERS_LIMIT):
        raise KernelsError(
            f"{len(members)} members with {total} bytes, the biggest {biggest.file_size}: no kernels wheel is that big",
            where=str(wheel),
            next="check where this file comes from",
        )
    return members


def _modules(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for info in members:
        path, dot, ending = info.filename.rpartition("/")[2].partition(".")
        dotted = ".".join([*info.filename.split("/")[:-1], path])
        if ".dist-info/" in info.filename or not dot:
            continue
        if ending == "py":
            name = dotted.removesuffix(".__init__")
            source = archive.read(info) if info.file_size <= _SOURCE_LIMIT else b"\0"
            yield name, _top_level(source)
        elif ending.endswith("so"):
            yield dotted, ("*",)


def _top_level(source: bytes) -> tuple[str, ...]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ("*",)
    found: set[str] = set()
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        else:
            todo += ast.iter_child_nodes(node)
    return tuple(sorted(found))


# -- kept --------------------------------------------------------------------------------------------------------------


def _code() -> str:
    return digest([sources_digest(Path(__file__).parent), Path(elf.__file__).read_text("utf-8")])


def _as_json(found: Contents) -> dict[str, Any]:
    return {
        "objects": [asdict(item) for item in found.objects],
        "ops": [[op.namespace, op.schema.text, op.object, op.told_by] for op in found.ops],
        "named": found.named,
        "groups": found.groups,
        "mixed": found.mixed,
        "modules": dict(found.modules),
        "bundled": found.bundled,
    }


def _from_json(data: dict[str, Any]) -> Contents:
    return Contents(
        tuple(Object(**{key: _frozen(value) for key, value in item.items()}) for item in data["objects"]),
        tuple(_op(*row) for row in data["ops"]),
        _frozen(data["named"]),
        _frozen(data["groups"]),
        _frozen(data["mixed"]),
        {name: tuple(names) for name, names in data["modules"].items()},
        tuple(data["bundled"]),
    )


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _op(namespace: str, text: str, object: str, told_by: str) -> ops.Op:
    schema = parse(text)
    if schema is None:
        raise ValueError("a schema that is none")
    return ops.Op(namespace, schema, object, told_by)
