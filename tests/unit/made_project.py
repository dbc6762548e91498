"""A clone of its own: releases as real source archives, patches, and a recipe. Nothing of it needs a network."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from patchset import newpatch, patches_page
from patchset.resolve import Project
from patchset.workspace import Workspace

#: Release → path → bytes.
Releases = Mapping[str, Mapping[str, bytes]]

PATCH_HEAD = 'title = "T"\nkind = "fix"\ndate = 2026-11-30T00:00:00Z\nwhy = "w"\ndrop-when = "d"\n'
PROBE = """\
import json, pathlib, sys
text = "".join(path.read_text() for path in pathlib.Path(sys.argv[1]).rglob("*.py"))
verdict = "defect" if "broken" in text else "sound" if "whole" in text else "absent"
print(json.dumps({"verdict": verdict, "reason": f"{len(text)} characters", "checks": []}))
"""
#: What a release's own files say of the stack, in the way of 0.28.0 and later.
STACK = {
    "requirements/xpu.txt": b"torch==2.13.0+xpu\ntriton==3.7.2+xpu\nvllm_xpu_kernels==0.1.13.2\n",
    "requirements/common.txt": b"transformers >= 5.16.1, < 5.21.0\n",
    "pyproject.toml": b'[project]\nname = "vllm"\nrequires-python = ">=3.10,<3.15"\n',
}


def write_project(
    root: Path,
    releases: Releases,
    patches: Mapping[str, tuple[str, Mapping[str, bytes]]],
    series: Sequence[str],
    *,
    without: Sequence[str] = (),
) -> Project:
    """A project below *root*.

    :param patches: id → (its variants as TOML, its diffs by name); ``probe.py`` among these overrides :data:`PROBE`.
    :param without: releases that are known but whose archives are not there.
    """
    workspace = Workspace(root)
    workspace.archives.mkdir(parents=True)
    workspace.patches.mkdir(parents=True)
    upstreams = '[vllm]\ndistribution = "vllm"\nrepository = "https://host.invalid/vllm.git"\ntag = "v{release}"\n'
    for release, files in releases.items():
        data = sdist(release, {**STACK, **files})
        upstreams += (
            f'\n[[vllm.release]]\nversion = "{release}"\ndate = 2026-06-01T00:00:00Z\n'
            f'sha256 = "{hashlib.sha256(data).hexdigest()}"\nsize = {len(data)}\n'
        )
        if release not in without:
            (workspace.archives / f"vllm-{release}.tar.gz").write_bytes(data)
    workspace.upstreams.write_text(upstreams, encoding="utf-8")
    for name, (variants, files) in patches.items():
        folder = workspace.patches / name
        folder.mkdir(parents=True)
        (folder / "patch.toml").write_text(PATCH_HEAD + variants, encoding="utf-8")
        for file, data in {"probe.py": PROBE.encode(), **files}.items():
            (folder / file).write_bytes(data)
    names = ", ".join(f'"{name}"' for name in series)
    (workspace.recipes / "r.toml").write_text(
        f'[pin]\nupstream = "vllm"\nrelease = "{next(iter(releases))}"\n\n[series]\npatches = [{names}]\n\n'
        '[stack]\ntorch = "==2.12.0+xpu"\n\n[wheel]\nlabel = "b70"\n',
        encoding="utf-8",
    )
    return Project.read(workspace)


def page_of(project: Project) -> str:
    """What recipes/PATCHES.md must say of what is declared now."""
    now = Project.read(project.workspace)
    recipes = newpatch.other_recipes(now, None)
    return patches_page.page(list(now.patches.values()), recipes, tuple(now.upstreams["vllm"].releases))


def page_in(project: Project) -> str:
    """What recipes/PATCHES.md says."""
    return patches_page.file_of(project.workspace.recipes).read_text("utf-8")


def sdist(release: str, files: Mapping[str, bytes]) -> bytes:
    """The bytes of a source archive, the same each time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in {"PKG-INFO": b"Metadata-Version: 2.4\n", **files}.items():
            info = tarfile.TarInfo(f"vllm-{release}/{name}")
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    # gzip writes the time into its header
    return out.getvalue()[:4] + b"\0\0\0\0" + out.getvalue()[8:]
