"""vLLM as it lies on the serving host: as it was installed, or not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import made_verify as mv
import pytest
from made_verify import kinds, state, told

from patchset.verify import Unusable, verify
from patchset.verify.shadow import check_shadow

MADE = mv.make()
INFO = MADE.folder


def test_as_it_is_installed(site: Path, start: Path) -> None:
    report = verify(site, start=start)
    assert (report.findings, report.exit_code) == ((), 0)
    assert state(report, "tree") == "ok"
    bytecode = next(check for check in report.checks if check.what == "compiled files")
    assert (bytecode.state, bytecode.not_run.split(" ")[0]) == ("not run", "1")


def test_named_by_its_environment_or_its_folder(site: Path, start: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for target in (site.parents[2], site / "vllm"):
        assert (verify(target, start=start).exit_code, verify(target, start=start).target) == (0, str(site))
    monkeypatch.chdir(site / "vllm")
    assert verify(".", start=start).target == str(site)


def test_modes_do_not_count(site: Path, start: Path) -> None:
    for path in (site / "vllm").rglob("*"):
        path.chmod(0o755)
    assert verify(site, start=start).exit_code == 0


@pytest.mark.parametrize("folder", [False, True])
def test_a_real_installer(tmp_path: Path, start: Path, folder: bool) -> None:
    """pip, into an environment and into a folder (there it writes wrong paths for scripts)."""
    made = MADE.write(tmp_path)
    wheel = made.rename(made.with_name(made.name.replace("cp38-abi3-linux_x86_64", "py3-none-any")))
    target = tmp_path / "target"
    if folder:
        place = ["--target", target]
    else:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", target], check=True)
        place = []
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--quiet",
        *([] if folder else ["--python", target / "bin" / "python"]),
        "install",
    ]
    options = ["--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*pip, *options, *place, wheel], check=True, capture_output=True)
    report = verify(target, start=start)
    assert (report.findings, state(report, "tree")) == ((), "ok")
    assert [path.name for path in (target / "bin").glob("vllm")] == ["vllm"]


def test_an_edited_file(site: Path, start: Path) -> None:
    (site / "vllm" / "a" / "deep" / "er.py").write_bytes(b"deep = 2\n")
    report = verify(site, start=start)
    assert (("changed", "vllm/a/deep/er.py") in told(report), report.exit_code) == (True, 25)
    assert state(report, "tree") == "not run"


def test_the_base_in_place_of_a_patch(site: Path, start: Path) -> None:
    (site / "vllm" / "b.py").write_bytes(mv.BASE["vllm/b.py"][1])
    report = verify(site, start=start)
    assert (told(report), report.exit_code) == ({("changed", "vllm/b.py"), ("not-applied", "vllm/b.py")}, 31)


def test_a_removed_file(site: Path, start: Path) -> None:
    (site / "vllm" / "run.sh").unlink()
    assert told(verify(site, start=start)) == {("missing", "vllm/run.sh")}


def test_files_that_no_record_lists(site: Path, start: Path) -> None:
    for name in ("vllm/evil.py", "vllm/a/evil.so", "vllm/evil.pyc", "vllm/__pycache__/note.txt"):
        mv.put(site / name, b"evil")
    mv.put(site / "vllm" / "__pycache__" / "b.cpython-313.pyc", b"code")
    (site / "vllm" / "elsewhere").symlink_to(start)
    report = verify(site, start=start)
    assert {path for _, path in told(report)} == {
        "vllm/evil.py",
        "vllm/a/evil.so",
        "vllm/evil.pyc",
        "vllm/__pycache__/note.txt",
        "vllm/elsewhere",
    }
    assert (kinds(report), report.exit_code, state(report, "tree")) == ({"unclaimed"}, 22, "ok")
    mv.other(site, "plugin", "1", {"vllm/evil.py": b"evil"})
    report = verify(site, start=start)
    assert [kind for kind, path in told(report) if path == "vllm/evil.py"] == ["owners"]


def test_a_linked_package(site: Path, start: Path, tmp_path: Path) -> None:
    (site / "vllm").rename(tmp_path / "elsewhere")
    (site / "vllm").symlink_to(tmp_path / "elsewhere")
    assert told(verify(site, start=start)) == {("unclaimed", "vllm")}


def test_linked_files_are_what_they_point_to(site: Path, start: Path, tmp_path: Path) -> None:
    """As `uv pip install --link-mode symlink` leaves them."""
    (site / "vllm" / "a.py").rename(tmp_path / "cached")
    (site / "vllm" / "a.py").symlink_to(tmp_path / "cached")
    assert verify(site, start=start).exit_code == 0


def test_hostile_files(site: Path, start: Path) -> None:
    for name in ("a.py", "b.py", "__init__.py"):
        (site / "vllm" / name).unlink()
    os.mkfifo(site / "vllm" / "a.py")
    (site / "vllm" / "b.py").symlink_to(site / "vllm" / "b.py")
    (site / "vllm" / "__init__.py").mkdir()
    os.mkfifo(site / "vllm" / "pipe")
    os.mkfifo(site / "evil.pth")
    (site / "loop").symlink_to(site / "loop")
    (site / "vllm" / "loop").symlink_to(site / "vllm")
    report = verify(site, start=start)
    assert told(report) == {
        ("changed", "vllm/a.py"),
        ("unread", "vllm/b.py"),
        ("changed", "vllm/__init__.py"),
        ("unclaimed", "vllm/pipe"),
        ("unclaimed", "vllm/loop"),
    }
    assert "evil.pth" in next(check.not_run for check in report.checks if check.what.startswith(".pth"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read(site: Path, start: Path) -> None:
    (site / "vllm" / "a.py").chmod(0)
    assert told(verify(site, start=start)) == {("unread", "vllm/a.py")}


def test_a_folder_deeper_than_a_path_can_be(site: Path, start: Path) -> None:
    here = os.getcwd()
    try:
        os.chdir(site / "vllm")
        for _ in range(100):
            os.mkdir("d" * 100)
            os.chdir("d" * 100)
        report = verify(site, start=start)
    finally:
        os.chdir(here)
        subprocess.run(["rm", "-rf", site / "vllm"], check=True)
    assert kinds(report) == {"unread"}


def test_an_edited_record(site: Path, start: Path) -> None:
    record = site / INFO / "RECORD"
    sound = record.read_text()
    for line, expected in [
        ("/etc/passwd,,\n", {("record", "/etc/passwd")}),
        ("../../../../../../etc/passwd,,\n", {("record", "../../../../../../etc/passwd")}),
        ("vllm/none.py,sha256=x,1\n", {("missing", "vllm/none.py")}),
        ("x\n", {("record", f"{INFO}/RECORD")}),
    ]:
        record.write_text(sound + line)
        assert told(verify(site, start=start)) == expected
    record.write_text("".join(line for line in sound.splitlines(True) if not line.startswith("vllm/b.py")))
    report = verify(site, start=start)
    assert (told(report), state(report, "tree")) == ({("unclaimed", "vllm/b.py")}, "ok")
    record.unlink()
    assert ("record", f"{INFO}/RECORD") in told(verify(site, start=start))


def test_a_file_of_dist_info(site: Path, start: Path) -> None:
    mv.put(site / INFO / "evil.py", b"")
    assert told(verify(site, start=start)) == {("unclaimed", f"{INFO}/evil.py")}
    (site / INFO / "evil.py").unlink()
    (site / INFO / "METADATA").write_text("Name: vllm\nVersion: 0.24.0\n")
    report = verify(site, start=start)
    assert (told(report), report.exit_code) == ({("changed", f"{INFO}/METADATA"), ("identity", "")}, 27)


def test_two_installations(site: Path, start: Path) -> None:
    mv.other(site, "vllm", "0.22.1", {"vllm/old.py": b""}, written=False)
    report = verify(site, start=start)
    assert (kinds(report), report.exit_code) == ({"owners"}, 23)
    shutil.rmtree(site / "vllm-0.22.1.dist-info")
    (site / "vllm-0.22.1-py3.11.egg-info").mkdir()
    assert kinds(verify(site, start=start)) == {"owners"}


def test_with_a_receipt(site: Path, start: Path, tmp_path: Path) -> None:
    document = mv.receipt_of(MADE, MADE.write(tmp_path))
    receipt = mv.write_receipt(tmp_path, document)
    report = verify(site, start=start, receipt=receipt)
    assert (report.exit_code, state(report, "record and receipt"), state(report, "lane device")) == (0, "ok", "not run")
    document["series"][0]["title"] = "another"
    report = verify(site, start=start, receipt=mv.write_receipt(tmp_path, document))
    assert (kinds(report), report.exit_code) == ({"chain"}, 28)


# -- owners ------------------------------------------------------------------------------------------------------------

TRITON = {"triton/__init__.py": b"cuda\n", "triton/jit.py": b"jit\n", "triton/_C/libtriton.so": b"cuda"}
TRITON_XPU = {"triton/__init__.py": b"xpu\n", "triton/jit.py": b"jit\n", "triton/_C/libtriton.so": b"xpu!"}


def test_two_owners(site: Path, start: Path) -> None:
    mv.other(site, "triton", "3.6.0", TRITON)
    mv.other(site, "triton_xpu", "3.7.0", TRITON_XPU)
    (site / "triton" / "__init__.py").write_bytes(TRITON["triton/__init__.py"])
    report = verify(site, start=start)
    assert (told(report), report.exit_code) == ({("owners", "triton/")}, 23)
    what = report.findings[0].what
    for words in ("2 files", "triton 3.6.0", "triton-xpu 3.7.0", "1 are of triton 3.6.0", "1 are of triton-xpu 3.7.0"):
        assert words in what
    (site / "triton" / "_C" / "libtriton.so").write_bytes(b"other")
    assert "1 of none of them" in verify(site, start=start).findings[0].what


def test_two_owners_of_the_same(site: Path, start: Path) -> None:
    mv.other(site, "one", "1", {"nvidia/__init__.py": b""})
    mv.other(site, "two", "1", {"nvidia/__init__.py": b""})
    assert verify(site, start=start).exit_code == 0
    mv.other(site, "three", "1", {"nvidia/__init__.py": b"x"}, written=False)
    assert told(verify(site, start=start)) == {("owners", "nvidia/__init__.py")}


def test_the_only_owner_of_triton(site: Path, start: Path) -> None:
    mv.other(site, "triton_xpu", "3.7.0", TRITON_XPU)
    assert verify(site, start=start).exit_code == 0
    (site / "triton" / "jit.py").unlink()
    (site / "triton" / "__init__.py").write_bytes(b"cuda\n")
    assert told(verify(site, start=start)) == {("missing", "triton/jit.py"), ("changed", "triton/__init__.py")}


# -- another copy ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["vllm/__init__.py", "vllm/__init__.abi3.so", "vllm.py", "vllm.cpython-311-x86_64-linux-gnu.so"]
)
def test_a_copy_where_python_is_started(site: Path, start: Path, name: str) -> None:
    mv.put(start / name, b"raise SystemExit('it was imported')\n")
    report = verify(site, start=start)
    assert (kinds(report), report.exit_code) == ({"shadow"}, 32)
    assert report.findings[0].path == str(start / name.partition("/")[0])


def test_what_does_not_come_first(site: Path, start: Path) -> None:
    mv.put(start / "vllm" / "vllm" / "__init__.py", b"")  # a clone: a folder without __init__ gives way
    mv.put(start / "vllm_xpu_kernels" / "__init__.py", b"")
    mv.put(start / "vllm.txt", b"")
    assert verify(site, start=start).exit_code == 0
    assert verify(site, start=site).exit_code == 0


def test_pythonpath(site: Path, start: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mv.put(start / "deep" / "vllm" / "__init__.py", b"")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), "deep", "/nowhere\x1b[2J"]))
    assert told(verify(site, start=start)) == {("shadow", str(start / "deep" / "vllm"))}


def test_pth_files_and_editable_installs(site: Path, start: Path, tmp_path: Path) -> None:
    mv.put(tmp_path / "src" / "vllm" / "__init__.py", b"")
    ran = tmp_path / "ran"
    name = ".pth files and editable installs"
    mv.put(site / "plain.pth", f"# a note\n{tmp_path / 'src'}\n".encode())
    mv.put(site / "harmless.pth", f"import os; open({str(ran)!r}, 'w')\n".encode())
    mv.put(site / "kernels.pth", b"import __editable___vllm_xpu_kernels_0_1_finder\n")
    report = verify(site, start=start)
    check = next(check for check in report.checks if check.what == name)
    assert report.exit_code == 0, "it comes after site-packages"
    assert "2 lines of code" in check.not_run and str(tmp_path / "src" / "vllm") in check.note
    assert check.state == "partly"
    mv.put(
        site / "plain.pth",
        f"import sys; sys.__plen = len(sys.path)\n{tmp_path / 'src'}\nimport sys; p=sys.path[:]\n".encode(),
    )
    assert told(verify(site, start=start)) == {("shadow", str(site / "plain.pth"))}
    (site / "plain.pth").unlink()
    mv.put(
        site / "__editable__.vllm-0.24.0.pth",
        b"import __editable___vllm_0_24_0_finder; __editable___vllm_0_24_0_finder.install()",
    )
    mv.put(site / "__editable___vllm_0_24_0_finder.py", b"MAPPING: dict[str, str] = {'vllm': '/workspace/vllm/vllm'}\n")
    report = verify(site, start=start)
    assert (kinds(report), report.exit_code) == ({"shadow"}, 32)
    assert "/workspace/vllm/vllm" in report.findings[0].what
    (site / "__editable__.vllm-0.24.0.pth").unlink()
    mv.put(site / "vllm.egg-link", b"/workspace/vllm\n.")
    assert told(verify(site, start=start)) == {("shadow", str(site / "vllm.egg-link"))}
    assert not ran.exists()


def test_the_users_own_site_packages(tmp_path: Path, start: Path) -> None:
    site = mv.install(MADE, tmp_path / "usr")
    mv.put(tmp_path / "home" / "lib" / "python3.11" / "site-packages" / "vllm" / "__init__.py", b"")
    environment = {"PYTHONUSERBASE": str(tmp_path / "home")}

    def shadowed(**more: str) -> bool:
        return any(check.findings for check in check_shadow(site, start, {**environment, **more}))

    assert not shadowed(), "an environment does not look there"
    (tmp_path / "usr" / "pyvenv.cfg").unlink()
    assert shadowed()
    assert not shadowed(PYTHONNOUSERSITE="1")


# -- what cannot be verified -------------------------------------------------------------------------------------------


def test_no_installation(tmp_path: Path, start: Path, site: Path) -> None:
    with pytest.raises(Unusable, match="no vllm is installed there"):
        verify(start, start=start)
    (tmp_path / "empty").mkdir()
    mv.put(tmp_path / "empty" / "pyvenv.cfg", b"")
    with pytest.raises(Unusable, match="0 site-packages"):
        verify(tmp_path / "empty", start=start)
    with pytest.raises(Unusable, match="cannot be looked at"):
        verify(site, start=start / "none")
    mv.install(MADE, tmp_path / "env2")
    shutil.copytree(tmp_path / "env2" / "lib" / "python3.11", tmp_path / "env" / "lib" / "python3.12")
    with pytest.raises(Unusable, match="2 site-packages"):
        verify(tmp_path / "env", start=start)
