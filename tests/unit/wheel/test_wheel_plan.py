"""Which changes ask for a whole build."""

from __future__ import annotations

import pytest

from patchset.store import Entry
from patchset.wheel.plan import Change, why_whole

A, B = Entry("100644", "a" * 40), Entry("100644", "b" * 40)
FILES = {
    path: A
    for path in (
        "setup.py", "pyproject.toml", "README.md", "vllm/__init__.py", "vllm/envs.py", "vllm/config.py",
        "vllm/utils/numa_wrapper.sh", "vllm/third_party/tool.py", "tests/test_x.py", "csrc/spinloop.cpp",
    )
}  # fmt: skip
TEXTS = {
    "setup.py": b"import os\nload(os.path.join(ROOT, 'vllm', 'envs.py'))\n",
    "pyproject.toml": b'[tool.x]\nfiles = ["vllm/third_party/tool.py"]\n',
}


def reason(*changes: Change) -> str:
    return why_whole(changes, FILES, TEXTS.get)


@pytest.mark.parametrize(
    "change",
    [
        Change("vllm/config.py", A, B),
        Change("vllm/config.py", A, None),
        Change("vllm/new.py", None, B),
        Change("vllm/utils/numa_wrapper.sh", A, B),
        Change("tests/test_x.py", A, None),
        Change("tests/new/folder/x.txt", None, B),
        Change("docs/index.md", None, B),
        Change(".github/workflows/x.yml", None, B),
        Change("vllm/__init__.py", A, B),
    ],
)
def test_what_the_build_copies_or_never_reads(change: Change) -> None:
    assert reason(change) == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change("setup.py", A, B), "setup.py, which could steer"),
        (Change("pyproject.toml", A, None), "could steer"),
        (Change("README.md", A, B), "README.md, which could steer"),
        (Change("requirements/xpu.txt", None, B), "could steer"),
        (Change("csrc/spinloop.cpp", A, B), "could steer"),
        (Change("cmake/utils.cmake", None, B), "could steer"),
        (Change("rust/src/lib.rs", None, B), "could steer"),
        (Change("tools/build_rust.py", None, B), "could steer"),
        (Change("vllm", None, B), "could steer"),
        (Change("vllm/envs.py", A, B), "which the build reads"),
        (Change("vllm/third_party/tool.py", A, B), "which the build reads"),
        (Change("vllm/config.py", A, Entry("120000", "c" * 40)), "link"),
        (Change("vllm/config.py", A, Entry("100755", "a" * 40)), "mode"),
        (Change("vllm/run.py", None, Entry("100755", "a" * 40)), "mode"),
        (Change("vllm/new.json", None, B), "first file of its kind"),
        (Change("vllm/fresh/new.py", None, B), "first file of its kind"),
        (Change("vllm/utils/__init__.py", None, B), "first file of its kind"),
        (Change("vllm/__init__.py", A, None), "package"),
    ],
)
def test_what_could_steer_it(change: Change, words: str) -> None:
    assert words in reason(change)
    assert reason(Change("vllm/config.py", A, B), change) == reason(change)


def test_a_setup_py_that_cannot_be_parsed_is_read_by_words() -> None:
    texts = {"setup.py": b"print 'vllm/config.py'\n"}
    assert "which the build reads" in why_whole((Change("vllm/config.py", A, B),), FILES, texts.get)
