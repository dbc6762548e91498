"""A project for a bump: real archives, real git, and probes that really run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from made_bump import BROKEN, PROBE, WHOLE
from made_project import write_project

from patchset import lab
from patchset.lab import Lab
from patchset.resolve import Project
from patchset.store import Store
from patchset.workspace import Workspace


@pytest.fixture(autouse=True)
def this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes here need no torch."""
    monkeypatch.setattr(lab, "ensure", lambda envs, say=None: Lab(Path(sys.executable), "this interpreter"))
    monkeypatch.delenv("PATCHSET_VENDOR", raising=False)


@pytest.fixture
def make(bench: Store, make_tree: Callable[..., str], tmp_path: Path) -> Callable[..., Project]:
    """Release → content of a.py (or path → content) → a project with a patch of a.py and one of b.py for 0.20.0.

    ``more`` are further files of the patch folder mend-a, ``head`` stands before its variants.
    """

    def project(
        releases: Mapping[str, bytes | Mapping[str, bytes]],
        variants: str = "",
        *,
        without: Sequence[str] = (),
        more: Mapping[str, bytes] | None = None,
        head: Mapping[str, str] | None = None,
        diff_a: tuple[Mapping[str, bytes], Mapping[str, bytes]] = ({"a.py": BROKEN}, {"a.py": WHOLE}),
    ) -> Project:
        files = {r: dict(c) if isinstance(c, Mapping) else {"a.py": c} for r, c in releases.items()}
        for content in files.values():
            content.setdefault("b.py", BROKEN)
        one = '\n[[variant]]\nreleases = "==0.20.0"\ndiff = "0.20.patch"\n'
        heads = {"mend-a": "", "mend-b": "", **(head or {})}
        of_a = bench.diff(make_tree(diff_a[0]), make_tree(diff_a[1]))
        of_b = bench.diff(make_tree({"b.py": BROKEN}), make_tree({"b.py": WHOLE}))
        patches = {
            "mend-a": (
                heads["mend-a"] + one + variants,
                {"0.20.patch": of_a, "probe.py": PROBE % b"a", **(more or {})},
            ),
            "mend-b": (heads["mend-b"] + one, {"0.20.patch": of_b, "probe.py": PROBE % b"b"}),
        }
        write_project(tmp_path / "clone", files, patches, ["mend-a", "mend-b"], without=without)
        recipe = tmp_path / "clone" / "recipes" / "r.toml"
        recipe.rename(recipe.with_name("r-0.20.toml"))
        return Project.read(Workspace(tmp_path / "clone"))

    return project
