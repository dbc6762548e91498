"""Running ``python -m patchset.smoke`` as a serving host would: another interpreter, only this package on its path."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jsonschema

import patchset
import patchset.smoke

#: Far more than a run takes; only a hang reaches it.
LIMIT = 600


@dataclass(frozen=True)
class Ran:
    """One run of the program."""

    status: int
    output: str
    errors: str
    data: dict[str, Any]

    def kernel(self, name: str) -> dict[str, Any]:
        """The result of one kernel."""
        return next(kernel for kernel in self.data["kernels"] if kernel["name"] == name)

    def statuses(self) -> dict[str, str]:
        """Kernel → status."""
        return {kernel["name"]: kernel["status"] for kernel in self.data["kernels"]}


def alone(folder: Path) -> Path:
    """A directory that holds ``patchset/smoke`` and ``patchset/__init__.py`` and nothing else of the project."""
    target = folder / "alone" / "patchset"
    if not target.is_dir():
        origin = Path(patchset.smoke.__file__).parent
        shutil.copytree(origin, target / "smoke", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copyfile(Path(patchset.__file__), target / "__init__.py")
    return target.parent


def smoke(
    python: Path, folder: Path, *arguments: str | Path, variables: Mapping[str, str] = MappingProxyType({})
) -> Ran:
    """Run the program, with *variables* in its environment; its JSON is validated against the schema that is shipped with it."""
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(alone(folder)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(folder),
        **variables,
    }
    argv = [str(python), "-m", "patchset.smoke", "--json", str(result), *map(str, arguments)]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    data = json.loads(result.read_text("utf-8")) if result.is_file() else {}
    if data:
        validator().validate(data)
    return Ran(done.returncode, done.stdout, done.stderr, data)


def validator() -> jsonschema.Draft202012Validator:
    """For the schema in the package."""
    text = (Path(patchset.smoke.__file__).parent / "result.schema.json").read_text("utf-8")
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)
