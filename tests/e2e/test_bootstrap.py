"""`./inv` itself: what it says when something is missing, and that help is a menu."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.e2e.conftest import ROOT, Inv


def bootstrap(root: Path, path: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(root / "inv"), "--list"],
        env={"PATH": path, "HOME": str(root), **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def linked(folder: Path, *names: str) -> str:
    """A PATH with only these programs."""
    folder.mkdir()
    for name in names:
        found = subprocess.run(
            ["/bin/sh", "-c", f"command -v {name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        (folder / name).symlink_to(found)
    return str(folder)


def test_the_list_names_every_task(inv: Inv) -> None:
    ended = inv("--list")
    assert ended.status == 0
    for task in ("runtime", "apply", "probe", "smoke", "lock", "test"):
        assert f"  {task} " in ended.out


def test_no_git_is_said_with_the_command(clone: Path, tmp_path: Path) -> None:
    ended = bootstrap(clone, linked(tmp_path / "bin", "dirname", "python3", "cmp"))
    assert ended.returncode == 12
    assert "apt install git" in ended.stderr


def test_no_python_is_said_with_the_command(clone: Path, tmp_path: Path) -> None:
    (clone / ".venv").unlink(missing_ok=True)
    ended = bootstrap(clone, linked(tmp_path / "bin", "dirname", "git", "cmp"))
    assert ended.returncode == 12
    assert "python3-venv" in ended.stderr
    assert not list(clone.glob(".venv*"))


def test_the_python_that_a_person_names_is_the_one(clone: Path, tmp_path: Path) -> None:
    (clone / ".venv").unlink(missing_ok=True)
    path = linked(tmp_path / "bin", "dirname", "git", "cmp")
    named, first = tmp_path / "mine", tmp_path / "bin" / "python3"
    # Both can do everything but make environments; which one is asked to shows in the error.
    for fake in (named, first):
        fake.write_text('#!/bin/sh\ncase "$*" in *ensurepip*) exit 1;; *"(3, 11)"*) exit 1;; esac\nexit 0\n')
        fake.chmod(0o755)
    ended = bootstrap(clone, path, PYTHON=str(named))
    assert ended.returncode == 12 and f"{named} cannot make virtual environments" in ended.stderr
    named.write_text("#!/bin/sh\nexit 1\n")
    ended = bootstrap(clone, path, PYTHON=str(named))
    assert ended.returncode == 12 and f"PYTHON={named} is no Python 3.10 to 3.13" in ended.stderr
    assert not list(clone.glob(".venv*"))


def test_a_python_without_venv_is_said_with_the_command(clone: Path, tmp_path: Path) -> None:
    (clone / ".venv").unlink(missing_ok=True)
    path = linked(tmp_path / "bin", "dirname", "git", "cmp")
    fake = tmp_path / "bin" / "python3"
    fake.write_text('#!/bin/sh\ncase "$*" in *ensurepip*) exit 1;; esac\nexit 0\n')
    fake.chmod(0o755)
    ended = bootstrap(clone, path)
    assert ended.returncode == 12
    assert "python3-venv" in ended.stderr


def test_works_from_another_folder(clone: Path, tmp_path: Path) -> None:
    ended = subprocess.run(
        [str(clone / "inv"), "--list"], cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "runtime" in ended.stdout


def test_readme_s_exit_codes_are_the_engine_s() -> None:
    from patchset.errors import exit_codes

    readme = (ROOT / "README.md").read_text()
    for kind, code in exit_codes().items():
        assert f"| {code} | {kind} |" in readme
