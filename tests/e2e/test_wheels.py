"""`./inv wheel`, `./inv verify` and `./inv kernels` as a person types them, on the wheels of the four recipes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest

from patchset.wheel import provenance, single_file
from tests.e2e.conftest import ROOT, Inv, Typed, type_in

RuntimeOf = Callable[[str], Typed]
RECIPES = ("b70-0.22", "b70-0.23", "b70-0.26", "b70-0.33")
each_recipe = pytest.mark.parametrize("recipe", RECIPES)


def verify(*words: object) -> Typed:
    return type_in(ROOT, "verify", *map(str, words))


@each_recipe
def test_what_a_runtime_delivers_is_verified(recipe: str, runtime_of: RuntimeOf) -> None:
    document = runtime_of(recipe).json
    told = verify(document["paths"]["receipt"], "--json")
    assert told.status == 0, told.out
    checks = {item["what"]: item["state"] for item in told.json["checks"]}
    assert "ok" in {state for what, state in checks.items() if what.startswith("tree")}
    folder = Path(document["paths"]["wheel"]).parent
    assert (folder / single_file.NAME).read_bytes() == single_file.single_file()
    assert (folder / single_file.SMOKE).read_bytes() == single_file.smoke_file()


@each_recipe
def test_the_statement_is_of_the_schema_and_names_wheel_and_receipt(recipe: str, runtime_of: RuntimeOf) -> None:
    document = runtime_of(recipe).json
    statement = json.loads(Path(document["paths"]["statement"]).read_bytes())
    jsonschema.Draft202012Validator(json.loads(provenance.SCHEMA.read_bytes())).validate(statement)
    assert statement["subject"] == [
        {"name": document["wheel"]["name"], "digest": {"sha256": document["wheel"]["sha256"]}}
    ]
    assert document["base"]["sha256"] in json.dumps(statement["predicate"]["buildDefinition"])


@each_recipe
def test_the_bill_of_materials_has_the_applied_patches_and_no_other(recipe: str, runtime_of: RuntimeOf) -> None:
    document = runtime_of(recipe).json
    with zipfile.ZipFile(document["paths"]["wheel"]) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/sboms/patchset.cdx.json")]
        bill = json.loads(archive.read(name))
    applied = [item for item in document["series"] if item["applied"]]
    pedigree = bill["metadata"]["component"]["pedigree"]
    assert len(pedigree.get("patches", [])) == len(applied)
    assert pedigree["ancestors"][0]["hashes"][0]["content"] == document["base"]["sha256"]


def test_the_same_bytes_in_other_surroundings(runtime_of: RuntimeOf) -> None:
    first = runtime_of("b70-0.23").json
    told = type_in(ROOT, "wheel", "--check", "--json")
    assert told.status == 0, told.err
    again = told.json["again"]
    assert {item["sha256"] for item in again} == {first["wheel"]["sha256"]}
    assert [item["made"].partition(":")[0] for item in again] == [
        "assembled from the wheel of the base",
        "built whole",
        "built whole",
    ]


@pytest.mark.parametrize("recipe", ["b70-0.22", "b70-0.26", "b70-0.33"])
def test_assembled_is_a_whole_build_byte_for_byte(recipe: str, runtime_of: RuntimeOf) -> None:
    first = runtime_of(recipe).json["wheel"]
    told = type_in(ROOT, "wheel", "-r", recipe, "--whole", "--json")
    assert told.status == 0, told.err
    assert first["made"] == "assembled from the wheel of the base"
    assert told.json["wheel"]["made"] == "built whole: asked for"
    assert told.json["wheel"]["sha256"] == first["sha256"]


def test_another_wheel_is_told_member_by_member(runtime_of: RuntimeOf) -> None:
    other = runtime_of("b70-0.22").json["paths"]["wheel"]
    told = type_in(ROOT, "wheel", "--against", other)
    assert told.status == 9
    assert "vllm/entrypoints/generate/factories.py: not there" in told.out and "more (all of them: --json)" in told.out


@pytest.fixture(scope="module")
def host(runtime_of: RuntimeOf, lab_python: Path, room: Path) -> Iterator[Path]:
    """A virtual environment with the wheel of 0.23.0, beside the laboratory's torch."""
    env = room / "host"
    venv.create(env, with_pip=False)
    wheel = runtime_of("b70-0.23").json["paths"]["wheel"]
    python = env / "bin" / "python"
    pip = [sys.executable, "-I", "-m", "pip", "--python", str(python), "--no-input", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", wheel], check=True, capture_output=True)
    (site,) = env.glob("lib/python*/site-packages")
    (lab_site,) = lab_python.parents[1].glob("lib/python*/site-packages")
    (site / "laboratory.pth").write_text(f"{lab_site}\n")
    yield env
    shutil.rmtree(env)


def run_pyz(host: Path, runtime_of: RuntimeOf, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    pyz = Path(runtime_of("b70-0.23").json["paths"]["wheel"]).with_name(single_file.NAME)
    argv = [str(host / "bin" / "python"), "-I", str(pyz), str(host), *words]
    return subprocess.run(argv, capture_output=True, text=True, cwd=cwd, check=False)


def test_an_installation_is_verified_then_edited_and_found_out(
    host: Path, runtime_of: RuntimeOf, tmp_path: Path
) -> None:
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    program = "import torch, vllm; print(vllm.__file__)"
    asked = subprocess.run(
        [host / "bin" / "python", "-B", "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**env, "CUDA_VISIBLE_DEVICES": "", "HOME": str(tmp_path)},
        check=True,
    )
    assert asked.stdout.strip().startswith(str(host))
    receipt = runtime_of("b70-0.23").json["paths"]["receipt"]
    good = run_pyz(host, runtime_of, "--receipt", receipt, cwd=tmp_path)
    assert good.returncode == 0, good.stdout + good.stderr

    (patched,) = host.glob("lib/python*/site-packages/vllm/v1/worker/mamba_utils.py")
    sound = patched.read_bytes()
    patched.write_bytes(sound + b"# by hand\n")
    edited = run_pyz(host, runtime_of, cwd=tmp_path)
    assert edited.returncode in (25, 30) and "vllm/v1/worker/mamba_utils.py" in edited.stdout
    patched.write_bytes(sound)

    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_bytes(b"")
    shadowed = run_pyz(host, runtime_of, cwd=tmp_path)
    assert shadowed.returncode == 32 and str(tmp_path / "vllm") in shadowed.stdout
    elsewhere = run_pyz(host, runtime_of, "--from", str(host), cwd=tmp_path)
    assert elsewhere.returncode == 0, elsewhere.stdout


def test_a_wheel_that_was_altered_has_its_own_code(runtime_of: RuntimeOf, tmp_path: Path) -> None:
    wheel = Path(runtime_of("b70-0.23").json["paths"]["wheel"])
    older = tmp_path / wheel.name.replace("949a55ee", "949a55ef")
    shutil.copy(wheel, older)
    told = verify(older)
    assert told.status == 27 and "next:" in told.out
    shutil.copy(wheel, tmp_path)
    (tmp_path / f"{wheel.name}.sha256").write_text(f"{hashlib.sha256(b'').hexdigest()}  {wheel.name}\n")
    assert verify(tmp_path / wheel.name).status == 28


def test_kernels_that_refuse_ragged_groups_need_mtp_boundary(inv: Inv, clone: Path) -> None:
    recipe = clone / "recipes" / "b70-0.23.toml"
    text = recipe.read_text().replace('    "mtp-boundary",\n', "")
    omit = '\n[[series.omit]]\npatch = "mtp-boundary"\nreason = "to see what the kernels say"\n\n[stack]'
    recipe.write_text(text.replace("\n[stack]", omit, 1))
    told = inv("kernels", "--version", "0.1.12.3")
    assert told.status == 17
    assert "mtp-boundary" in told.err and "ragged" in told.out + told.err
    pinned = inv("kernels")
    assert pinned.status == 4 and "--wheel" in pinned.err
