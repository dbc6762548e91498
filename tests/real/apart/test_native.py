"""The native parts of vLLM 0.26.0, built in two surroundings by the compiler from the index, and used by a real Python."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patchset.store import Store
from patchset.wheel import compiler, elf
from patchset.wheel.build import BuildRequest, build
from patchset.wheel.record import Member
from patchset.workspace import Workspace

RELEASE = "0.26.0"
NATIVE = ["vllm/fs_io_C.abi3.so", "vllm/spinloop.abi3.so"]
HEADERS = Path(compiler.__file__).with_name("standin") / "native"

#: What both extensions do, by way of what each takes and gives back.
USE = """
import sys, threading, time
sys.path.insert(0, sys.argv[1])
import fs_io_C, spinloop

flag = bytearray(8)
assert spinloop.spinloop(flag, lambda: flag[0] == 1, 0.2) is False
threading.Thread(target=lambda: (time.sleep(0.1), flag.__setitem__(0, 1))).start()
assert spinloop.spinloop(flag, lambda: flag[0] == 1) is True
flag.append(1)  # refused if the buffer were still held
for words in ((flag,), (flag, 1), (1, print)):
    try:
        spinloop.spinloop(*words)
    except TypeError:
        continue
    raise AssertionError(words)
try:
    spinloop.spinloop(flag, lambda: 1 / 0)
except ZeroDivisionError:
    pass
missing = sys.argv[1] + "/not there"
assert fs_io_C.batch_lookup([sys.argv[1], missing]) == [True, False] and fs_io_C.batch_lookup([]) == []
held = [sys.getrefcount(value) for value in (flag, missing)]
for _ in range(1000):
    spinloop.spinloop(flag, lambda: True)
    fs_io_C.batch_lookup([missing])
assert [sys.getrefcount(value) for value in (flag, missing)] == held
print("used")
"""


@pytest.fixture(scope="module")
def shop(room: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix="native-", dir=room))


@pytest.fixture(scope="module")
def make(
    shop: Path, workspace: Workspace, store: Store, base_of: Callable[[str], str]
) -> Callable[[str], dict[str, Member]]:
    """Build the release in a folder of that name; the members of the wheel by name."""

    def made(name: str) -> dict[str, Member]:
        tree, source = base_of(RELEASE), shop / name / "source"
        store.export(tree, source)
        source.chmod(0o755)
        wanted = BuildRequest(source, store.entries(tree), RELEASE, f"{RELEASE}+xpu.test", 1_780_000_000)
        scratch = shop / name / "scratch"
        members = build(wanted, envs=workspace.environments, scratch=scratch, log=shop / name / "build.log")
        assert list(scratch.iterdir()) == []
        return {member.name: member for member in members}

    return made


@pytest.fixture(scope="module")
def built(make: Callable[[str], dict[str, Member]], shop: Path) -> dict[str, Member]:
    members = make("first")
    (shop / "vllm").mkdir()
    for name in NATIVE:
        (shop / name).write_bytes(members[name].data)
    return members


@contextlib.contextmanager
def elsewhere(folder: Path) -> Iterator[None]:
    """One core, another umask and zone, hostile flags, a home that may not be written, and no program of this machine."""
    folder.mkdir()
    cores, umask, environment = os.sched_getaffinity(0), os.umask(0o077), dict(os.environ)
    os.sched_setaffinity(0, {min(cores)})
    os.environ.update(
        {"PATH": str(folder), "HOME": str(folder), "TZ": "Asia/Kathmandu", "CXX": "false", "CXXFLAGS": "-O0 -g"}
    )
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        os.umask(umask)
        os.environ.clear()
        os.environ.update(environment)


def test_other_surroundings_give_the_same_bytes(
    built: dict[str, Member], make: Callable[[str], dict[str, Member]], shop: Path
) -> None:
    with elsewhere(shop / "home"):
        again = make("second, with a longer name")
    assert sorted(name for name in built if name.endswith(".so")) == NATIVE
    for name in NATIVE:
        assert again[name].data == built[name].data, f"{name} depends on where it is built"
    assert list((shop / "home").iterdir()) == []


def test_they_do_what_vllm_uses_them_for(built: dict[str, Member], shop: Path) -> None:
    argv = [sys.executable, "-I", "-B", "-c", USE, str(shop / "vllm")]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert ended.stdout == "used\n", ended.stderr


@pytest.mark.parametrize("name", NATIVE)
def test_they_need_no_newer_glibc_and_show_nothing_but_their_entry(
    built: dict[str, Member], name: str, shop: Path
) -> None:
    image = elf.Image(built[name].data)
    versions = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version) for _, version in image.versions_needed()]
    assert versions and all(found and (int(found[1]), int(found[2])) <= (2, 28) for found in versions)
    shown = [symbol.name for symbol in image.dynamic_symbols() if symbol.defined]
    assert shown == [f"PyInit_{Path(name).name.partition('.')[0]}"]
    libraries = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}
    assert set(image.needed()) <= libraries and not image.search_path()
    assert str(shop).encode() not in built[name].data and b"ziglang" not in built[name].data


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("PyObject *f() { return PyDict_New(); }", "PyDict_New"),
        ("#define PY_SSIZE_T_CLEAN", "PY_SSIZE_T_CLEAN"),
        ("#undef Py_LIMITED_API\n#define Py_LIMITED_API 0x030C0000", "stable ABI of Python 3.11 only"),
        ("#undef Py_LIMITED_API", "stable ABI of Python 3.11 only"),
    ],
)
def test_what_the_headers_do_not_know_does_not_compile(
    built: dict[str, Member], workspace: Workspace, tmp_path: Path, line: str, word: str
) -> None:
    """Before the header or after it, as the line belongs; each compiles without it."""
    made = compiler.make_ready(workspace.environments)
    environment = {**os.environ, **made.environment(tmp_path)}
    for text, works in (("", True), (line, False)):
        before, after = ("", text) if text.startswith("PyObject") else (text, "")
        (tmp_path / "x.cpp").write_text(f"{before}\n#include <Python.h>\n{after}\n")
        argv = [*made.words, "-DPy_LIMITED_API=0x030B0000", "-I", str(HEADERS), "-c", "x.cpp", "-o", "x.o"]
        ended = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
        assert (ended.returncode == 0) == works, ended.stderr
        assert works or word in ended.stderr
