"""Environments from a hash-checked lock: a real one, filled with a wheel made here, with no index to ask."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchset import environment
from patchset.errors import SourceError


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with one small wheel, which pip is told to take as its only source."""
    folder = tmp_path_factory.mktemp("wheels")
    with zipfile.ZipFile(folder / "tinything-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tinything.py", "VALUE = 42\n")
        wheel.writestr("tinything-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n")
        wheel.writestr(
            "tinything-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(
            "tinything-1.0.dist-info/RECORD",
            "tinything.py,,\ntinything-1.0.dist-info/METADATA,,\ntinything-1.0.dist-info/WHEEL,,\n"
            "tinything-1.0.dist-info/RECORD,,\n",
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder))
        yield folder


def lock(wheels: Path, file: Path, sha256: str = "") -> Path:
    digest = sha256 or hashlib.sha256((wheels / "tinything-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    file.write_text(f"tinything==1.0 --hash=sha256:{digest}\n", encoding="ascii")
    return file


def value(python: Path) -> str:
    return subprocess.run(
        [python, "-I", "-c", "import tinything; print(tinything.VALUE)"], capture_output=True, text=True, check=True
    ).stdout


def test_environment_is_filled_from_its_lock_and_used_again(wheels: Path, tmp_path: Path) -> None:
    said: list[str] = []
    requirements = lock(wheels, tmp_path / "requirements.lock")
    python = environment.ensure(tmp_path / "envs", "demo", requirements, say=said.append)
    assert value(python) == "42\n"
    mark = python.parent.parent / "mine"
    mark.write_bytes(b"")
    assert environment.ensure(tmp_path / "envs", "demo", requirements, say=said.append) == python
    assert (len(said), mark.exists()) == (1, True)
    assert sorted(path.name for path in (tmp_path / "envs").iterdir()) == [
        python.parent.parent.name,
        f"{python.parent.parent.name}.lock",
    ]


def test_wheel_with_another_hash_is_refused_and_only_the_log_stays(wheels: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as error:
        environment.ensure(tmp_path / "envs", "demo", lock(wheels, tmp_path / "requirements.lock", "ab" * 32))
    assert "hash" in error.value.detail.lower()
    assert Path(error.value.where).is_file()
    assert [path.name for path in (tmp_path / "envs").iterdir() if path.is_dir()] == []


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The environments that were made; only their interpreter is, since a whole one takes seconds."""
    paths: list[Path] = []

    def make(env: Path, lock: Path, log: Path, before: object) -> None:
        paths.append(env)
        (env / "bin").mkdir(parents=True, exist_ok=True)
        (env / "bin" / "python").unlink(missing_ok=True)
        (env / "bin" / "python").symlink_to(sys.executable)

    monkeypatch.setattr(environment, "_make", make)
    return paths


def test_another_lock_rule_or_purpose_is_another_environment(wheels: Path, tmp_path: Path, made: list[Path]) -> None:
    one, two = lock(wheels, tmp_path / "one.lock"), lock(wheels, tmp_path / "two.lock", "cd" * 32)
    for _ in range(2):
        for purpose, file, rule in (("a", one, ""), ("a", two, ""), ("b", one, ""), ("a", one, "torch 1")):
            environment.ensure(tmp_path / "envs", purpose, file, rule=rule)
    assert len(made) == len(set(made)) == 4


def test_environment_that_was_killed_half_way_moved_or_lost_its_python_is_made_anew(
    wheels: Path, tmp_path: Path, made: list[Path]
) -> None:
    requirements = lock(wheels, tmp_path / "requirements.lock")

    def ensure(envs: str = "envs") -> Path:
        return environment.ensure(tmp_path / envs, "a", requirements).parent.parent

    env = ensure()
    (env / "complete.json").unlink()
    ensure()
    (env / "complete.json").write_bytes(b"{")
    ensure()
    (env / "bin" / "python").unlink()
    ensure()
    assert made == [env] * 4
    (tmp_path / "envs").rename(tmp_path / "elsewhere")
    assert ensure("elsewhere") == made[-1] == tmp_path / "elsewhere" / env.name
    assert len(made) == 5


@pytest.mark.parametrize("option", ["TARGET", "PREFIX", "ROOT", "USER", "DRY_RUN", "REQUIRE_VIRTUALENV"])
def test_pip_configuration_does_not_send_it_elsewhere(
    wheels: Path, tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setenv(f"PIP_{option}", str(elsewhere) if option in ("TARGET", "PREFIX", "ROOT") else "1")
    python = environment.ensure(tmp_path / "envs", "demo", lock(wheels, tmp_path / "requirements.lock"))
    assert value(python) == "42\n"
    assert not elsewhere.exists()


def test_what_a_lock_names_and_an_environment_lacks_is_found(wheels: Path, tmp_path: Path) -> None:
    """pip can end with status 0 and have installed nothing; a marker that does not apply is no lack."""
    requirements = lock(wheels, tmp_path / "requirements.lock")
    absent = "absent==1.0 ; python_version < '3' \\\n    --hash=sha256:" + "0" * 64 + "\n"
    requirements.write_text(requirements.read_text() + absent)
    python = environment.ensure(tmp_path / "envs", "demo", requirements)
    for path in python.parent.parent.glob("lib/*/site-packages/tinything-1.0.dist-info"):
        path.rename(path.with_name("tinything-2.0.dist-info"))
    assert environment.missing(python.parent.parent, requirements) == ["tinything==1.0"]
