"""What a release must run beside, read from its tree in the ways that releases say it, and what a change means."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from patchset.errors import SourceError
from patchset.stack import KNOWLEDGE, MEANINGS, NAMES, changes, meaning, of, stated_in, together
from patchset.store import Store

URL = "https://github.com/vllm-project/vllm-xpu-kernels/releases/download/v0.1.9/vllm_xpu_kernels-0.1.9-cp38-abi3-manylinux_2_28_x86_64.whl"
EARLY: Mapping[str, bytes] = {
    "requirements/xpu.txt": b"# Common\n-r common.txt\nray>=2.9\nnumba == 0.61.2 # Required\n"
    b"--extra-index-url=https://download.pytorch.org/whl/xpu\ntorch==2.11.0\ntorchaudio\n"
    + f"vllm_xpu_kernels @ {URL}\n".encode(),
    "requirements/common.txt": b"transformers >= 4.56.0, != 5.0.*, != 5.1.*, != 5.5.0\n",
    "pyproject.toml": b'[project]\nrequires-python = ">=3.10,<3.15"\n',
    "docker/Dockerfile.xpu": b"RUN uv pip uninstall triton triton-xpu && \\\n    uv pip install triton-xpu==3.7.0\n",
}
LATE: Mapping[str, bytes] = {
    "requirements/xpu.txt": b"triton==3.8.0+xpu\ntorch==2.14.0+xpu\nvllm_xpu_kernels==0.1.15.4\n",
    "requirements/common.txt": b"transformers >= 5.16.1, < 5.21.0  # why\n",
    "pyproject.toml": b'[project]\nrequires-python = ">=3.11,<3.15"\n',
}


@pytest.fixture
def read(bench: Store, make_tree: Callable[..., str]) -> Callable[..., dict[str, str]]:
    return lambda files, release: of(bench, make_tree(files), release)


def test_early_release_says_it_by_url_dockerfile_and_index(read: Callable[..., dict[str, str]]) -> None:
    found = read(EARLY, "0.23.0")
    assert found == {
        "python": ">=3.10,<3.14",
        "torch": "==2.11.0+xpu",
        "triton-xpu": "==3.7.0",
        "vllm-xpu-kernels": "==0.1.9",
        "transformers": ">=5.10,<5.15",
    }
    assert list(found) == [name for name in NAMES if name != "triton"]


def test_late_release_says_it_in_its_requirements(read: Callable[..., dict[str, str]]) -> None:
    assert read(LATE, "0.33.0") == {
        "python": ">=3.11,<3.14",
        "torch": "==2.14.0+xpu",
        "triton": "==3.8.0+xpu",
        "vllm-xpu-kernels": "==0.1.15.4",
        "transformers": ">=5.16.1,<5.21",
    }


def test_what_the_tree_states_is_apart_from_what_is_known(bench: Store, make_tree: Callable[..., str]) -> None:
    stated = stated_in(bench, make_tree(EARLY))
    assert stated["python"] == ">=3.10,<3.15"
    assert ">=4.56.0" in stated["transformers"] and "5.15" not in stated["transformers"]


def test_build_of_torch_is_only_added_where_the_index_says_it(bench: Store, make_tree: Callable[..., str]) -> None:
    plain = {**LATE, "requirements/xpu.txt": LATE["requirements/xpu.txt"].replace(b"2.14.0+xpu", b"2.14.0")}
    assert stated_in(bench, make_tree(plain))["torch"] == "==2.14.0"


@pytest.mark.parametrize(
    ("file", "data", "name"),
    [
        ("requirements/xpu.txt", b"", "torch"),
        ("requirements/xpu.txt", b"\xff\xfe not a requirement ===\n", "torch"),
        ("requirements/xpu.txt", LATE["requirements/xpu.txt"].replace(b"vllm_xpu_kernels==0.1.15.4", b"vllm_xpu_kernels @ https://h/x.zip"), "vllm-xpu-kernels"),
        ("requirements/xpu.txt", LATE["requirements/xpu.txt"].replace(b"triton==3.8.0+xpu\n", b""), "triton-xpu"),
        ("requirements/common.txt", b"", "transformers"),
        ("pyproject.toml", b"[project", "python"),
        ("pyproject.toml", b"[project]\nname = 'x'\n", "python"),
    ],
)  # fmt: skip
def test_tree_that_does_not_say_it_is_an_error_that_names_the_files(
    file: str, data: bytes, name: str, read: Callable[..., dict[str, str]]
) -> None:
    with pytest.raises(SourceError, match=f"does not say which {name} it needs") as caught:
        read({**LATE, file: data}, "0.33.0")
    assert "requirements/xpu.txt" in caught.value.where and caught.value.next


@pytest.mark.parametrize(
    ("texts", "one"),
    [
        ([">=3.10,<3.15", "<3.14"], ">=3.10,<3.14"),
        ([">=4.56.0,!=5.0.*,!=5.5.0", ">=5.10", "<5.15"], ">=5.10,<5.15"),
        ([">=5.5.3", ">=5.10"], ">=5.10"),
        ([">=5.10.4", ">=5.10"], ">=5.10.4"),
        ([">=4.56.0,!=5.0.*,!=4.60.1,!=9.0"], ">=4.56,!=4.60.1,!=5.0.*,!=9.0"),
        ([">=5.0.1,!=5.0.*"], ">=5.0.1,!=5.0.*"),
        ([">=1.0,<2.0,!=2.0"], ">=1.0,<2.0"),
        (["==2.11.0+xpu"], "==2.11.0+xpu"),
        (["~=1.4.2"], "~=1.4.2"),
    ],
)
def test_specifiers_together_say_everything_once(texts: list[str], one: str) -> None:
    assert together(texts) == one


def test_everything_known_beside_the_trees_has_a_reason_and_a_source() -> None:
    assert {(item.name, item.specifier) for item in KNOWLEDGE} == {
        ("python", "<3.14"),
        ("transformers", ">=5.10"),
        ("transformers", "<5.15"),
    }
    assert all(item.why and item.source for item in KNOWLEDGE)


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        ("vllm-xpu-kernels", "==0.1.14.1", "==0.1.15.4", "contains the boundary fix"),
        ("vllm-xpu-kernels", "==0.1.15.1", "==0.1.15.3", "contains the boundary fix"),
        ("vllm-xpu-kernels", "==0.1.15.4", "==0.1.14.1", "does not contain the boundary fix"),
        ("vllm-xpu-kernels", "==0.1.11.1", "==0.1.12", "refuse any batch that mixes"),
        ("torch", "==2.13.0+xpu", "==2.14.0+xpu", "the pointer rule flips (pytorch#191458)"),
        ("torch", "==2.14.0+xpu", "==2.12.0+xpu", "the pointer rule flips back"),
        ("transformers", ">=5.10", ">=5.10.4", "own floor is now high enough"),
        ("transformers", ">=5.10,<5.15", ">=5.10", "by layer"),
        ("transformers", ">=5.10", ">=5.10,<5.15", "which 5.15 and later refuse"),
        ("python", ">=3.10,<3.14", ">=3.11,<3.14", "Python 3.10 is not enough"),
        ("triton", "", "==3.7.2+xpu", "shim"),
        ("triton", "==3.7.2+xpu", "", "no shim"),
    ],
)
def test_change_that_matters_is_said(name: str, before: str, after: str, said: str) -> None:
    assert said in meaning(name, before, after)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("vllm-xpu-kernels", "==0.1.15.3", "==0.1.15.4"),
        ("vllm-xpu-kernels", "==0.1.8", "==0.1.9"),
        ("torch", "==2.11.0+xpu", "==2.12.0+xpu"),
        ("torch", "==2.14.0+xpu", "==2.14.1+xpu"),
        ("transformers", ">=5.16.1,<5.20", ">=5.16.1,<5.21"),
        ("numba", "==1", "==2"),
    ],
)
def test_change_that_means_nothing_is_not_talked_up(name: str, before: str, after: str) -> None:
    assert meaning(name, before, after) == ""


def test_meanings_say_something_both_ways() -> None:
    assert all(item.text and item.back and item.text != item.back for item in MEANINGS)


def test_changes_are_those_names_that_differ_in_the_order_of_a_recipe() -> None:
    before = {"torch": "==1", "triton-xpu": "==2", "python": ">=3.10", "odd": "==1"}
    after = {"torch": "==1", "triton": "==3", "python": ">=3.11"}
    found = [(item.name, item.before, item.after) for item in changes(before, after)]
    assert found == [
        ("python", ">=3.10", ">=3.11"),
        ("triton-xpu", "==2", ""),
        ("triton", "", "==3"),
        ("odd", "==1", ""),
    ]
    assert changes(after, after) == ()
