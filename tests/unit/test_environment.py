"""Environments from a hash-checked lock: a real one, filled with a wheel made here, with no index to ask."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
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


def test_environment_that_was_killed_half_way_or_lost_its_python_is_made_anew(
    wheels: Path, tmp_path: Path, made: list[Path]
) -> None:
    ensure = ensuring(wheels, tmp_path)
    env = ensure()
    (env / "complete.json").unlink()
    ensure()
    for damaged in (b"{", b"[]", b"{}", b'{"environment": 1, "base": ""}'):
        (env / "complete.json").write_bytes(damaged)
        ensure()
    (env / "bin" / "python").unlink()
    ensure()
    assert made == [env] * 7


# -- one folder with several names, and several that were one ------------------------------------------------------------


def ensuring(wheels: Path, tmp_path: Path, said: list[str] | None = None) -> Callable[..., Path]:
    """Name of a folder of environments → the environment there, made if need be."""
    requirements = lock(wheels, tmp_path / "requirements.lock")
    say = [].append if said is None else said.append
    return lambda envs="envs": environment.ensure(tmp_path / envs, "a", requirements, say=say).parent.parent


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


@pytest.mark.parametrize("first", ["envs", "link"])
def test_folder_reached_by_a_link_is_the_same_folder(
    first: str, wheels: Path, tmp_path: Path, made: list[Path]
) -> None:
    ensure = ensuring(wheels, tmp_path)
    (tmp_path / "envs").mkdir()
    (tmp_path / "link").symlink_to("envs")
    env = ensure(first)
    assert ensure("envs") == ensure("link") == env == tmp_path / "envs" / env.name
    assert made == [env]


def test_link_to_one_environment_of_another_clone_is_that_environment(
    wheels: Path, tmp_path: Path, made: list[Path]
) -> None:
    ensure = ensuring(wheels, tmp_path)
    env = ensure("theirs")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / env.name).symlink_to(env)
    assert ensure("ours") == env and made == [env]
    # it is mended where it is, and the link stays
    (env / "complete.json").unlink()
    assert ensure("ours") == env and made == [env, env] and (tmp_path / "ours" / env.name).is_symlink()


_MOUNTED = """
import sys
from pathlib import Path
from patchset import environment
def make(env, lock, log, before):
    sys.exit(f"{env} would be made")
environment._make = make
print(environment.ensure(Path(sys.argv[1]), "a", Path(sys.argv[2])).parent.parent)
"""


def mounted(tmp_path: Path, source: str, target: str, hide: str = "") -> subprocess.CompletedProcess[str]:
    """Ask for the environment in the folder *target*, where *source* is mounted; *hide* is covered by an empty folder."""
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this machine lets nobody mount anything in a namespace of their own")
    script = 'mount --bind "$1" "$2" && { [ -z "$3" ] || mount -t tmpfs none "$3"; } && exec "$4" -c "$5" "$2" "$6"'
    words = [*(str(tmp_path / name) for name in (source, target)), str(tmp_path / hide) if hide else "", sys.executable]
    return subprocess.run(
        [*unshare, "sh", "-c", script, "sh", *words, _MOUNTED, str(tmp_path / "requirements.lock")],
        env={**os.environ, "PYTHONPATH": str(Path(environment.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )


def test_folder_that_is_mounted_elsewhere_too_is_used_under_its_own_name(
    wheels: Path, tmp_path: Path, made: list[Path]
) -> None:
    env = ensuring(wheels, tmp_path)()
    before = content(env)
    (tmp_path / "second").mkdir()
    ran = mounted(tmp_path, "envs", "second")
    assert (ran.stdout, ran.returncode) == (f"{env}\n", 0), ran.stderr
    assert content(env) == before


def test_folder_whose_own_name_cannot_be_seen_is_left_as_it_is(wheels: Path, tmp_path: Path, made: list[Path]) -> None:
    """As in a container: what is made there goes into a folder of its own."""
    env = ensuring(wheels, tmp_path)("host/envs")
    before = content(env)
    (tmp_path / "second").mkdir()
    ran = mounted(tmp_path, "host/envs", "second", hide="host")
    assert ran.returncode == 1 and f"{tmp_path}/second/at-" in ran.stderr and f"/{env.name} would be made" in ran.stderr
    assert content(env) == before
    assert ensuring(wheels, tmp_path)("host/envs") == env and made == [env]


def test_folder_that_was_moved_is_left_and_made_anew_beside(wheels: Path, tmp_path: Path, made: list[Path]) -> None:
    said: list[str] = []
    ensure = ensuring(wheels, tmp_path, said)
    env = ensure()
    before = content(env)
    (tmp_path / "envs").rename(tmp_path / "elsewhere")
    again = ensure("elsewhere")
    assert (again.name, again.parent.parent) == (env.name, tmp_path / "elsewhere")
    assert ensure("elsewhere") == again and made == [env, again]
    assert content(tmp_path / "elsewhere" / env.name) == before
    assert said[-1].endswith(
        f"beside {tmp_path}/elsewhere/{env.name}, which is another's: delete that if nothing uses it"
    )


def test_folder_that_was_copied_is_made_anew_and_the_original_stays(
    wheels: Path, tmp_path: Path, made: list[Path]
) -> None:
    ensure = ensuring(wheels, tmp_path)
    env = ensure()
    before = content(env)
    shutil.copytree(tmp_path / "envs", tmp_path / "copy", symlinks=True)
    assert ensure("copy") == tmp_path / "copy" / env.name == made[-1]
    assert ensure() == env and content(env) == before and len(made) == 2


def test_environment_of_another_python_that_is_still_there_is_left(
    wheels: Path, tmp_path: Path, made: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure = ensuring(wheels, tmp_path)
    env = ensure()
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    ours = ensure()
    assert ours.parent != env.parent and ensure() == ours and made == [env, ours]
    monkeypatch.undo()
    assert environment.is_complete(env, tmp_path / "requirements.lock")


def test_environment_of_a_python_that_is_gone_is_made_anew(wheels: Path, tmp_path: Path, made: list[Path]) -> None:
    ensure = ensuring(wheels, tmp_path)
    env = ensure()
    file = env / "complete.json"
    file.write_text(file.read_text().replace(sys.base_prefix, str(tmp_path / "gone")))
    assert ensure() == env and made == [env, env]


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
