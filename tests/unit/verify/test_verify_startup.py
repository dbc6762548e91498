"""Installations in which RECORD fits and Python would run something else: what comes with start, owners, compiled files."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path

import made_verify as mv
import pytest
from made_verify import kinds, state, told

from patchset.verify import Report, verify
from patchset.verify.bytecode import source_of
from patchset.verify.shadow import check_shadow

MADE = mv.make()
PTH = ".pth files and editable installs"
CUSTOM = "sitecustomize and usercustomize"


def not_run(report: Report, what: str) -> str:
    return next(check.not_run for check in report.checks if check.what == what)


# -- files below vllm/ -------------------------------------------------------------------------------------------------


def test_a_file_that_another_distribution_owns_alone(site: Path, start: Path) -> None:
    mv.other(site, "evil", "1.0", {"vllm/b.abi3.so": b"\x7fELF", "vllm/more.py": b"", "evil.py": b""})
    report = verify(site, start=start)
    assert (told(report), report.exit_code) == ({("owners", "vllm/b.abi3.so"), ("shadow", "vllm/b.abi3.so")}, 32)
    what = next(finding.what for finding in report.findings if finding.kind.label == "owners")
    assert "evil 1.0 (evil-1.0.dist-info)" in what and "1 more below vllm/" in what


@pytest.mark.parametrize(
    "path", ["vllm/plugin.py", "./vllm//plugin.py", "vllm/b.py", "vllm/__pycache__/b.cpython-311.pyc"]
)
def test_a_source_that_another_distribution_owns(site: Path, start: Path, path: str) -> None:
    sound = MADE.members.get(path, b"1\n")
    mv.other(site, "evil", "1.0", {path: sound})
    report = verify(site, start=start)
    assert ("owners", os.path.normpath(path)) in told(report)
    assert report.exit_code == 23


def test_an_installed_extension_that_python_takes_before_a_source(site: Path, start: Path) -> None:
    mv.put(site / "vllm" / "__init__.abi3.so", b"\x7fELF")
    report = verify(site, start=start)
    assert told(report) == {("shadow", "vllm/__init__.abi3.so"), ("unclaimed", "vllm/__init__.abi3.so")}
    assert report.exit_code == 32


def test_an_installed_version_file_that_does_more(tmp_path: Path, start: Path) -> None:
    data = MADE.members["vllm/_version.py"] + b"import os\n"

    def claim(record: dict) -> None:
        record["wheel"]["generated"]["vllm/_version.py"] = mv.sha256(data)

    made = MADE.with_member("vllm/_version.py", data).with_record(claim)
    report = verify(mv.install(made, tmp_path / "env"), start=start)
    assert (told(report), report.exit_code) == ({("changed", "vllm/_version.py")}, 25)


# -- compiled files ----------------------------------------------------------------------------------------------------


def compiled(site: Path, name: str, mode: py_compile.PycInvalidationMode) -> Path:
    source = site / "vllm" / f"{name}.py"
    place = py_compile.compile(str(source), doraise=True, invalidation_mode=mode)
    assert place
    return Path(place)


def test_a_compiled_file_that_python_never_compares(site: Path, start: Path) -> None:
    sound = (site / "vllm" / "b.py").read_bytes()
    (site / "vllm" / "b.py").write_bytes(b"raise SystemExit('it was run')\n")
    place = compiled(site, "b", py_compile.PycInvalidationMode.UNCHECKED_HASH)
    (site / "vllm" / "b.py").write_bytes(sound)
    program = f"import sys; sys.path.insert(0, {str(site / 'vllm')!r}); import b"
    ran = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    assert ran.stderr == "it was run\n", "Python runs it"
    report = verify(site, start=start)
    assert (told(report), report.exit_code) == ({("changed", place.relative_to(site).as_posix())}, 25)


@pytest.mark.parametrize(
    "mode", [py_compile.PycInvalidationMode.TIMESTAMP, py_compile.PycInvalidationMode.CHECKED_HASH]
)
def test_other_compiled_files_are_counted(site: Path, start: Path, mode: py_compile.PycInvalidationMode) -> None:
    compiled(site, "b", mode)
    report = verify(site, start=start)
    assert report.exit_code == 0
    assert not_run(report, "compiled files") == "2 compiled files not judged; delete __pycache__ to be sure"


def test_compiled_files_without_a_source(site: Path, start: Path) -> None:
    for name in ("__pycache__/evil.cpython-311.pyc", "a/__pycache__/b.cpython-311.pyc", "evil.pyc"):
        mv.put(site / "vllm" / name, bytes(16))
    report = verify(site, start=start)
    assert (kinds(report), report.exit_code) == ({"unclaimed"}, 22)
    assert {path for _, path in told(report)} == {
        "vllm/__pycache__/evil.cpython-311.pyc",
        "vllm/a/__pycache__/b.cpython-311.pyc",
        "vllm/evil.pyc",
    }


def test_the_source_of_a_compiled_file() -> None:
    for name in ("b", "odd.name", "__init__"):
        for level in ("", "1", "2"):
            found = importlib.util.cache_from_source(f"vllm/x/{name}.py", optimization=level)
            assert source_of(found) == f"vllm/x/{name}.py"


# -- what runs at each start -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["sitecustomize", "usercustomize"])
@pytest.mark.parametrize(
    "code",
    [
        b"import sys\nsys.path.insert(0, '/evil')\n",
        b"from sys import path\n",
        b"import sys as s\ns.meta_path.append(1)\n",
        b"import vllm\n",
    ],
)
def test_a_start_module_that_names_vllm_or_the_path(site: Path, start: Path, module: str, code: bytes) -> None:
    for name in (f"{module}.py", f"{module}/__init__.py", f"{module}.abi3.so", f"{module}.pyc"):
        mv.put(site / name, code)
        report = verify(site, start=start)
        assert (told(report), report.exit_code) == ({("shadow", str(site / name.partition("/")[0]))}, 32)
        (site / name).unlink()


def test_a_start_module_is_code_that_is_not_judged(site: Path, start: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert state(verify(site, start=start), CUSTOM) == "ok"
    mv.put(site / "sitecustomize.py", b"import vllm_xpu_kernels\n")
    mv.put(start / "tools" / "usercustomize.py", b"print(1)\n")
    mv.put(start / "sitecustomize.py", b"it is not on the path yet\n")
    monkeypatch.setenv("PYTHONPATH", "tools")
    report = verify(site, start=start)
    assert (report.exit_code, state(report, CUSTOM)) == (0, "not run")
    told_of = not_run(report, CUSTOM)
    assert told_of.startswith("code that Python runs at each start, not judged: ")
    assert str(site / "sitecustomize.py") in told_of and str(start / "tools" / "usercustomize.py") in told_of
    (site / "sitecustomize.py").unlink()
    (site / "sitecustomize.py").symlink_to(site / "sitecustomize.py")
    assert "it cannot be read" in not_run(verify(site, start=start), CUSTOM)


@pytest.mark.parametrize(
    "line",
    [
        "import sys; p=sys.path; p[:0]=['/evil']",
        "import sys; p=sys.path; p[0:0] = ['/evil']",
        "import sys; n=0; sys.path[n:n]=['/evil']",
        "import sys; sys.path[0]='/evil'",
        "import sys; sys.path = ['/evil']",
        "import sys; sys.path.insert(0, '/evil')",
        "import sys; getattr(sys, 'path').insert(0, '/evil')",
        "import sys, x; sys.path_hooks.append(x)",
        "import sys, x; sys.meta_path.append(x)",
        "\ufeffimport sys; sys.path.insert(0, '/evil')",
        "import sys\x0c; sys.path.insert(0, '/evil')",
        "import sys\u2028; sys.path.insert(0, '/evil')",
    ],
)
def test_a_pth_file_whose_code_puts_something_first(site: Path, start: Path, line: str) -> None:
    mv.put(site / "x.pth", f"{line}\n".encode())
    report = verify(site, start=start)
    assert (told(report), report.exit_code) == ({("shadow", str(site / "x.pth"))}, 32)


@pytest.mark.parametrize(
    "text",
    [
        "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local') == 'local'; "
        "enabled and __import__('_distutils_hack').add_shim();\n",
        "import sys; sys.__plen = len(sys.path)\n./other.egg\nimport sys; new=sys.path[sys.__plen:]; "
        "del sys.path[sys.__plen:]; p=getattr(sys,'__egginsert',0); sys.path[p:p]=new; sys.__egginsert = p+len(new)\n",
        "import _virtualenv\n",
    ],
)
def test_code_of_known_pth_files_is_counted(site: Path, start: Path, text: str) -> None:
    mv.put(site / "x.pth", text.encode())
    report = verify(site, start=start)
    assert (report.exit_code, state(report, PTH)) == (0, "partly")
    assert "lines of code in them are not judged" in not_run(report, PTH)


def test_a_path_line_needs_no_code(site: Path, start: Path) -> None:
    mv.put(site / "x.pth", b"# note\n\n/nowhere\n")
    assert state(verify(site, start=start), PTH) == "ok"


# -- zip files on the path ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "entry", "code"),
    [
        ("vllm/__init__.py", "x.zip", 32),
        ("vllm/__init__.pyc", "x.zip", 32),
        ("vllm.py", "x.zip", 32),
        ("lib/vllm/__init__.py", "x.zip/lib", 32),
        ("lib/vllm/__init__.py", "x.zip", 0),
        ("vllm/__init__.py", "x.zip/lib", 0),
        ("vllm/a.py", "x.zip", 0),
        ("vllm_xpu_kernels/__init__.py", "x.zip", 0),
    ],
)
def test_a_zip_file_on_the_path(
    site: Path, start: Path, monkeypatch: pytest.MonkeyPatch, member: str, entry: str, code: int
) -> None:
    mv.write_zip(start / "x.zip", {member: b"evil = 1\n" if member.endswith(".py") else b""})
    monkeypatch.setenv("PYTHONPATH", str(start / entry))
    report = verify(site, start=start)
    assert (report.exit_code, state(report, "PYTHONPATH")) == (code, "failed" if code else "ok")
    if member.endswith(".py") and "xpu" not in member and member != "vllm/a.py":
        program = "import vllm; print(vllm.evil)"
        env = {**os.environ, "PYTHONPATH": str(start / entry)}
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, cwd=site.parent, env=env)
        assert (ran.stdout == b"1\n") == bool(code), "as Python finds it"


def test_a_file_on_the_path_that_is_not_looked_into(site: Path, start: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "x.zip")
    end = b"PK\5\6" + bytes(8) + (5 * 1024**2).to_bytes(4, "little") + bytes(6)
    for data in (b"", b"no zip", bytes(1000) + end, b"PK\1\2" * 20 + b"PK\5\6" + b"\1" * 18):
        (start / "x.zip").write_bytes(data)
        report = verify(site, start=start)
        assert (report.exit_code, state(report, "PYTHONPATH")) == (0, "partly")
        assert "not looked into: " in not_run(report, "PYTHONPATH")
    mv.write_zip(start / "x.zip", {"sitecustomize.py": b""})
    assert "has sitecustomize" in not_run(verify(site, start=start), "PYTHONPATH")
    with zipfile.ZipFile(start / "x.zip", "w") as archive:
        archive.comment = b"c" * 60_000
        archive.writestr("vllm/__init__.py", "")
    assert kinds(verify(site, start=start)) == {"shadow"}


def test_a_vllm_in_the_standard_library_comes_first(tmp_path: Path) -> None:
    base, site = tmp_path / "base", tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    (site / "vllm").mkdir(parents=True)
    (site / "vllm" / "__init__.py").write_bytes(b"")
    (tmp_path / "env" / "pyvenv.cfg").write_text(f"home = {base / 'bin'}\nversion = 3.11.7\n")
    library = base / "lib" / "python3.11"
    library.mkdir(parents=True)

    def told(place: Path) -> list[tuple[str, str]]:
        checks = check_shadow(place, tmp_path, {})
        return [(f.kind.name, f.path) for check in checks for f in check.findings if check.what == "standard library"]

    assert told(site) == []
    (library / "vllm.py").write_bytes(b"")
    assert told(site) == [("SHADOW", str(library / "vllm.py"))]
    plain = library / "site-packages"
    (plain / "vllm").mkdir(parents=True)
    (plain / "vllm" / "__init__.py").write_bytes(b"")
    assert told(plain) == [("SHADOW", str(library / "vllm.py"))]
    (tmp_path / "env" / "pyvenv.cfg").write_bytes(b"")
    assert [c.not_run for c in check_shadow(site, tmp_path, {}) if c.what == "standard library"] != [""]
