"""The wheel of a tree, and an interpreter that has it: what a test of stage ``wheel`` runs against."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchset import process
from patchset.bases import Bases
from patchset.errors import MissingTool, WheelError
from patchset.lab import Lab
from patchset.store import Store
from patchset.upstream import Upstream
from patchset.wheel import Rooms, WheelRequest, environments, make_wheel
from patchset.workspace import UNREADABLE, Workspace, digest, sources_digest, write_atomically

if TYPE_CHECKING:
    from patchset.bisect.trial import Subject

_SECONDS_TO_IMPORT = 300


@dataclass(frozen=True)
class Installed:
    """A wheel in a virtual environment of its own: what a command sees of it, and an empty directory to run in.

    ``refused`` is what Python said when vLLM could not be imported; empty if it could.
    """

    environment: Mapping[str, str]
    empty: Path
    refused: str


@dataclass(frozen=True)
class Installer:
    """Builds the wheels of trees, each once, and installs them beside what the laboratory has (torch for the CPU, Triton)."""

    workspace: Workspace
    store: Store
    upstream: Upstream
    lab: Lab

    @property
    def identity(self) -> str:
        """What a wheel depends on beside its tree, and what it is installed beside."""
        own = sources_digest(Path(__file__).parents[1] / "wheel")
        return digest(["wheel", own, environments(), self.lab.identity])

    def wheel(self, subject: Subject, folder: Path) -> Path:
        """The wheel of the subject's tree, built in *folder* if it is not kept from before.

        :raises WheelError: it cannot be built.
        """
        kept = self.workspace.cache / "wheels" / digest(["bisect", subject.tree, subject.release, self.identity])
        found = _kept(kept)
        if found:
            return found
        release = self.upstream.release(subject.release)
        version = f"{subject.release}+xpu.bisect.t{subject.tree[:8]}"
        request = WheelRequest(
            store=self.store,
            # Of a release that is not here nothing is known that the tree could be compared with: it is built whole.
            base=Bases(self.workspace, self.upstream, self.store).here().get(subject.release, subject.tree),
            tree=subject.tree,
            release=subject.release,
            version=version,
            epoch=int(release.date.timestamp()),
            record={"format": 2, "runtime": version, "tree": subject.tree, "patches": list(subject.patches)},
        )
        rooms = Rooms(
            self.workspace.cache / "bases",
            self.workspace.environments,
            folder,
            self.workspace.logs / f"wheel-{version}.log",
        )
        built = make_wheel(request, rooms, out=kept)
        write_atomically(kept / "built.json", json.dumps({**asdict(built), "path": built.path.name}).encode())
        return built.path

    def install(self, subject: Subject, folder: Path) -> Installed:
        """The wheel of the subject's tree in a new virtual environment below *folder*; the one before it goes.

        :raises WheelError: the wheel cannot be built or installed.
        """
        wheel = self.wheel(subject, folder)
        env, empty = folder / "installed", folder / "empty"
        for path in (env, empty):
            shutil.rmtree(path, ignore_errors=True)
        empty.mkdir()
        clean = process.clean_environment({"CUDA_VISIBLE_DEVICES": ""})
        words = [self.lab.python, "-I", "-m", "venv", "--without-pip", env]
        made = process.run(words, cwd=folder, env=clean, timeout=300)
        if made.returncode:
            raise MissingTool(
                "Python could not make a virtual environment", detail=made.tail(), next="sudo apt install python3-venv"
            )
        python = env / "bin" / "python"
        # What the laboratory has stands behind the wheel on the path, so vLLM is the wheel's.
        site, lab_site = (_site(interpreter, folder) for interpreter in (python, self.lab.python))
        (site / "laboratory.pth").write_text(f"{lab_site}\n", encoding="utf-8")
        pip = [sys.executable, "-I", "-m", "pip", "--python", python, "--no-input", "--disable-pip-version-check"]
        done = process.run(
            [*pip, "install", "--no-deps", "--no-index", "--no-compile", "--no-user", wheel],
            cwd=folder,
            env=process.clean_environment({"PIP_CONFIG_FILE": os.devnull}),
            timeout=600,
        )
        if done.returncode:
            raise WheelError(
                "the wheel cannot be installed", where=str(wheel), detail=done.tail(), next=f"pip install {wheel}"
            )
        asked = process.run(
            [python, "-B", "-c", "import vllm; print(vllm.__file__)"],
            cwd=empty,
            env={**clean, "HOME": str(empty)},
            timeout=_SECONDS_TO_IMPORT,
        )
        ours = asked.returncode == 0 and str(site.resolve()) in asked.stdout.decode("utf-8", "replace")
        shutil.rmtree(empty)
        empty.mkdir()
        seen = {
            "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "VIRTUAL_ENV": str(env),
            "PATCHSET_WHEEL": str(wheel),
            "PATCHSET_PYTHON": str(python),
        }
        return Installed(seen, empty, "" if ours else asked.tail() or f"it ended with status {asked.returncode}")


def _site(python: Path, cwd: Path) -> Path:
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    asked = process.run([python, "-I", "-c", program], cwd=cwd, env=process.clean_environment(), timeout=60)
    return Path(asked.stdout.decode("utf-8", "replace").strip())


def _kept(folder: Path) -> Path | None:
    """The wheel kept in *folder*, if it is still the bytes that were built."""
    try:
        data = json.loads((folder / "built.json").read_bytes())
        path = folder / data["path"]
        return path if hashlib.sha256(path.read_bytes()).hexdigest() == data["sha256"] else None
    except UNREADABLE:
        return None
