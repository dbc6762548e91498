"""Small real wheels, written by hand here: what is under test does not make its own evidence."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from wheel_samples import FILES, INFO, METADATA, VERSION, record_line


@pytest.fixture
def make_wheel(tmp_path: Path) -> Callable[..., Path]:
    """Write a wheel: *change* maps members to bytes (None takes one away) before RECORD is made, *later* after."""

    def make(
        change: Mapping[str, bytes | None] | None = None,
        later: Mapping[str, bytes | None] | None = None,
        filename: str = f"vllm-{VERSION}-py3-none-any.whl",
    ) -> Path:
        members: dict[str, bytes | None] = {
            **FILES,
            "vllm/_version.py": f"__version__ = '{VERSION}'\n".encode(),
            f"{INFO}/METADATA": METADATA.encode(),
            f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{INFO}/entry_points.txt": b"[console_scripts]\nvllm = vllm.entrypoints.cli.main:main\n",
            **(change or {}),
        }
        kept = {name: data for name, data in members.items() if data is not None}
        record = "".join(record_line(name, data) for name, data in kept.items()) + f"{INFO}/RECORD,,\n"
        members = {**kept, f"{INFO}/RECORD": record.encode(), **(later or {})}
        path = tmp_path / filename
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                if data is not None:
                    archive.writestr(name, data)
        return path

    return make
