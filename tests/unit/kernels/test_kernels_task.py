"""The whole of `inv kernels`: a project, a wheel and a torch made here, and what is shown and raised."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from made_kernels import EQUAL, FILE, LIBTORCH, MOST, REFUSAL, compile_object, libtorch, registering, write_wheel
from made_project import write_project

from patchset.console import Console
from patchset.errors import DeclarationError, KernelsError, SourceError
from patchset.kernels import beside
from patchset.kernels.show import SCHEMA
from patchset.kernels.task import kernels
from patchset.resolve import Project

VALIDATOR = Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
TREE = {"vllm/_xpu_ops.py": b"import vllm_xpu_kernels._xpu_C\ntorch.ops._xpu_C.f(x, 1)\n"}
DIFF = b"diff --git a/vllm/a.py b/vllm/a.py\n--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 3\n c = 4\n"
KERNELS = (
    '[vllm-xpu-kernels]\ndistribution = "vllm-xpu-kernels"\nrepository = "https://x/y.git"\ntag = "v{release}"\n\n'
)


@pytest.fixture(scope="module")
def torch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return libtorch(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def objects(torch: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """The check's text → an object that says it, linked with the torch above."""
    made = {}
    for text in (EQUAL, MOST, ""):
        folder = tmp_path_factory.mktemp("object")
        source = registering({"_xpu_C": ["f(Tensor x, int n) -> Tensor"]}, *[word for word in (text,) if word])
        options = (f"-L{torch / 'lib'}", "-ltorch_cpu")
        made[text] = compile_object(folder, "_xpu_C.abi3.so", source, *options).read_bytes()
    return made


def project_with(tmp_path: Path, *, patched: bool = True, tree: Mapping[str, bytes] = TREE) -> Project:
    """A project on a release that short groups reach; with the boundary patch in its series, or left out of it."""
    files = {**tree, "vllm/a.py": b"a = 1\nb = 2\nc = 4\n"}
    variants = '\n[[variant]]\nreleases = "==1.0"\ndiff = "1.patch"\n'
    made = write_project(
        tmp_path / "project",
        {"1.0": files},
        {"mtp-boundary": (variants, {"1.patch": DIFF})},
        ["mtp-boundary"] if patched else [],
    )
    file = made.workspace.upstreams
    file.write_text(KERNELS + file.read_text(), encoding="utf-8")
    recipe = made.workspace.recipes / "r.toml"
    text = recipe.read_text().replace(
        'torch = "==2.12.0+xpu"', 'torch = "==2.14.0+xpu"\npython = ">=3.10"\nvllm-xpu-kernels = "==0.1.13.2"'
    )
    if not patched:
        text = text.replace("patches = []", 'patches = []\n[[series.omit]]\npatch = "mtp-boundary"\nreason = "a test"')
    # the archive is here, and no host is asked
    recipe.write_text(text.replace('release = "1.0"', 'release = "1.0"\nsource = "archive"'), encoding="utf-8")
    return Project.read(made.workspace)


def ask(project: Project, **more: Any) -> dict[str, Any]:
    return kernels(project, project.recipe("r"), Console(), **more)


def verdicts(document: Mapping[str, Any]) -> dict[str, str]:
    return {finding["about"]: finding["verdict"] for finding in document["findings"]}


def test_all_goes_together(torch: Path, objects: Mapping[str, bytes], tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {"_xpu_C.abi3.so": objects[EQUAL]})
    document = ask(project_with(tmp_path), wheel=str(wheel), torch=str(torch))
    VALIDATOR.validate(document)
    assert document["rules"] == {"groups": "==", "mixed": "not refused"}
    assert [(op["namespace"], op["name"]) for op in document["ops"]] == [("_xpu_C", "f")]
    told = verdicts(document)
    assert told["speculative groups"] == told["operators"] == told["arguments"] == told["torch's symbols"] == "good"
    assert told["imports"] == "good" and told["version"] == "mind" and told["SYCL"] == "unknown"
    assert document["torch"]["version"] == "2.14.0+xpu" and document["torch"]["given"]
    assert [item["what"] for item in document["not_run"]] == [about for about, v in told.items() if v == "unknown"]


def test_refused_groups_and_no_patch_end_in_an_error_after_the_document(
    torch: Path, objects: Mapping[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = write_wheel(tmp_path, {"_xpu_C.abi3.so": objects[EQUAL]})
    project = project_with(tmp_path, patched=False)
    with pytest.raises(KernelsError, match="speculative groups") as error:
        kernels(project, project.recipe("r"), Console(as_json=True), wheel=str(wheel), torch=str(torch))
    assert "the series lacks mtp-boundary" in error.value.detail and "add mtp-boundary" in error.value.next
    document = json.loads(capsys.readouterr().out)
    VALIDATOR.validate(document)
    assert verdicts(document)["speculative groups"] == "bad"


@pytest.mark.parametrize(("text", "rule", "verdict"), [(MOST, "<=", "good"), ("", "unknown", "unknown")])
def test_no_patch_is_needed_or_nobody_knows(
    text: str, rule: str, verdict: str, torch: Path, objects: Mapping[str, bytes], tmp_path: Path
) -> None:
    wheel = write_wheel(tmp_path, {"_xpu_C.abi3.so": objects[text]})
    document = ask(project_with(tmp_path, patched=False), wheel=str(wheel), torch=str(torch))
    assert document["rules"]["groups"] == rule and verdicts(document)["speculative groups"] == verdict


def test_another_torch_lacks_what_the_object_was_linked_with(
    objects: Mapping[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The field's failure: a build of torch whose C++ interface of registration is another."""
    other = libtorch(tmp_path / "site", LIBTORCH.replace("const char *schema) &", "const char *schema, int) &").replace(
        "def(const char *) &", "def(const char *, int) &"
    ))  # fmt: skip
    wheel = write_wheel(tmp_path, {"_xpu_C.abi3.so": objects[MOST]})
    with pytest.raises(KernelsError, match="torch's symbols"):
        ask(project_with(tmp_path), wheel=str(wheel), torch=str(other))
    assert "undefined symbol: _ZNR5torch7Library3defEPKc" in capsys.readouterr().out


def test_called_and_not_registered(torch: Path, objects: Mapping[str, bytes], tmp_path: Path) -> None:
    tree = {"vllm/_xpu_ops.py": b"torch.ops._xpu_C.gone(x)\ntorch.ops._xpu_C.f(x)\n"}
    wheel = write_wheel(tmp_path, {"_xpu_C.abi3.so": objects[MOST]})
    with pytest.raises(KernelsError) as error:
        ask(project_with(tmp_path, tree=tree), wheel=str(wheel), torch=str(torch))
    assert "_xpu_C.gone" in error.value.detail and "n not given" in error.value.detail


def test_what_was_read_is_known_the_second_time(torch: Path, objects: Mapping[str, bytes], tmp_path: Path) -> None:
    wheel, project = write_wheel(tmp_path, {"_xpu_C.abi3.so": objects[MOST]}), project_with(tmp_path)
    first, again, fresh = (
        ask(project, wheel=str(wheel), torch=str(torch), fresh=fresh) for fresh in (False, False, True)
    )
    assert (first["reused"], again["reused"], fresh["reused"]) == (False, True, False)
    assert {**first, "reused": True} == again


def test_a_version_of_no_index_names_where_the_release_has_it_from(tmp_path: Path, torch: Path) -> None:
    url = b"https://host.invalid/vllm_xpu_kernels-0.1.13.2-cp38-abi3-linux_x86_64.whl"
    requirements = b"torch==2.13.0+xpu\ntriton==3.7.2+xpu\nvllm_xpu_kernels @ " + url + b"\n"
    project = project_with(tmp_path, tree={**TREE, "requirements/xpu.txt": requirements})
    with pytest.raises(SourceError) as error:
        ask(project, torch=str(torch))
    assert error.value.where == url.decode() and "--wheel FILE" in error.value.next


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"version": "1", "wheel": "x"}, "two wheels"),
        ({"add": True}, "--add adds a version"),
        ({"torch": "/nowhere"}, "no torch there"),
    ],
)
def test_what_cannot_be_asked(more: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=words):
        ask(project_with(tmp_path), **more)


def test_without_a_torch_it_is_said_and_not_counted_as_good(objects: Mapping[str, bytes], tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {"_xpu_C.abi3.so": objects[MOST]})
    document = ask(project_with(tmp_path), wheel=str(wheel))
    VALIDATOR.validate(document)
    assert document["torch"] is None and verdicts(document)["torch's symbols"] == "unknown"


def test_a_person_sees_the_rule_the_operators_and_what_was_not_run(
    objects: Mapping[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = write_wheel(tmp_path, {"_xpu_C.abi3.so": objects[MOST]})
    ask(project_with(tmp_path), wheel=str(wheel))
    out = capsys.readouterr().out
    assert FILE in out and "1 operators registered: _xpu_C 1" in out and "short groups are taken (<=)" in out
    assert "not run  torch's symbols" in out


# -- the torch beside --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["", "torch", "torch/lib"])
def test_torch_by_any_of_its_folders(part: str, torch: Path) -> None:
    found = beside.given(str(torch.parent / part))
    assert found.version == "2.14.0+xpu" and not found.xpu and found.sycl == ()
    assert any("5torch7Library3def" in name for name in found.exported)


def test_the_newest_laboratory_that_is_complete(torch: Path, tmp_path: Path) -> None:
    assert beside.laboratory(tmp_path) is None
    site = tmp_path / "lab-1-py3.11" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (site / "torch").symlink_to(torch)
    assert beside.laboratory(tmp_path) is None
    (tmp_path / "lab-1-py3.11" / "complete.json").write_text("{}")
    found = beside.laboratory(tmp_path)
    assert found is not None and not found.given and found.exported


def test_xpu_libraries_sycl_and_copies_of_a_host(tmp_path: Path) -> None:
    site = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    package = libtorch(site)
    compile_object(tmp_path / "sycl", "libsycl.so", 'extern "C" int s() { return 1; }', "-Wl,-soname,libsycl.so.8")
    source = 'extern "C" int s(); namespace c10 { namespace xpu { int device() { return s(); } } }'
    compile_object(package / "lib", "libc10_xpu.so", source, f"-L{tmp_path / 'sycl'}", "-lsycl")
    for folder in (site / "oneccl" / "lib", tmp_path / "env" / "lib"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "libccl.so.1").write_bytes(b"")
    found = beside.given(str(site))
    assert found.xpu and found.sycl == ("libsycl.so.8",) and "_ZN3c103xpu6deviceEv" in found.exported
    assert found.copies["libccl.so"] == tuple(sorted(map(str, [site / "oneccl" / "lib", tmp_path / "env" / "lib"])))


@pytest.mark.parametrize("data", [b"", b"text", b"\x7fELF\x02\x01" + b"\0" * 70])
def test_a_damaged_library_is_named(data: bytes, tmp_path: Path) -> None:
    package = libtorch(tmp_path)
    (package / "lib" / "libc10.so").write_bytes(data)
    with pytest.raises(DeclarationError) as error:
        beside.given(str(package))
    assert error.value.where.endswith("libc10.so")


def test_a_torch_without_libraries(tmp_path: Path) -> None:
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2'\n")
    with pytest.raises(DeclarationError, match="exports nothing"):
        beside.given(str(tmp_path))


def test_the_refusal_of_mixed_batches_reaches_the_document(torch: Path, tmp_path: Path) -> None:
    source = registering({"_xpu_C": ["f(Tensor x, int n) -> Tensor"]}, MOST, REFUSAL)
    made = compile_object(tmp_path / "o", "_xpu_C.abi3.so", source, f"-L{torch / 'lib'}", "-ltorch_cpu")
    wheel = write_wheel(tmp_path, {"_xpu_C.abi3.so": made.read_bytes()})
    document = ask(project_with(tmp_path), wheel=str(wheel), torch=str(torch))
    assert document["rules"]["mixed"] == "refused" and verdicts(document)["mixed batches"] == "mind"
