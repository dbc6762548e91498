"""A foreign diff of 300 hunks in 100 files, on real vLLM: imported as one patch, and file by file."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from patchset import importing, resolve
from patchset.importing import Imported
from patchset.resolve import Project
from patchset.store import Entry, Store
from patchset.workspace import VENDOR_VARIABLE, Workspace

RECIPE, RELEASE, LATER = "b70-0.23", "0.23.0", "0.26.0"
FILES, HUNKS = 100, 3


@dataclass(frozen=True)
class Made:
    """A foreign diff: its bytes, and what each file is with it."""

    data: bytes
    files: Mapping[str, bytes]


@pytest.fixture(scope="module")
def foreign(store: Store, base_of: Callable[[str], str], project: Project) -> Made:
    """Three comments in each of a hundred files that the series leaves alone, where the lines around stand only once."""
    base = base_of(RELEASE)
    ours = resolve.resolve(project, project.recipe(RECIPE), store, lambda text: None).applied.touched
    found: dict[str, Entry | None] = {}
    contents: dict[str, bytes] = {}
    for path, entry in store.entries(base).items():
        if not path.startswith("vllm/") or not path.endswith(".py") or path in ours:
            continue
        lines = store.blob(entry.blob).split(b"\n")
        places = _places(lines)
        if len(places) < HUNKS:
            continue
        for place in reversed(places):
            lines.insert(place, b"# a foreign line, the one at %d" % place)
        contents[path] = b"\n".join(lines)
        found[path] = Entry(entry.mode, store.write_blob(contents[path]))
        if len(found) == FILES:
            break
    return Made(store.diff(base, store.with_files(base, found)), contents)


def _places(lines: list[bytes]) -> list[int]:
    windows = [tuple(lines[at - 3 : at + 3]) for at in range(len(lines))]
    good = [at for at in range(10, len(lines) - 10) if not lines[at] and windows.count(windows[at]) == 1]
    chosen: list[int] = []
    for at in good:
        if len(chosen) < HUNKS and (not chosen or at - chosen[-1] > 20):
            chosen.append(at)
    return chosen


@pytest.fixture
def run(
    clone: Path, workspace: Workspace, tmp_path: Path, foreign: Made, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Imported]]:
    """Import it into the clone, which is held as a task holds it: another run would clear git's indices away."""
    monkeypatch.setenv(VENDOR_VARIABLE, str(workspace.vendor))

    def start(**more: object) -> Imported:
        file = tmp_path / "foreign.patch"
        file.write_bytes(foreign.data)
        now = Project.read(Workspace(clone))
        return importing.import_source(now, now.recipe(RECIPE), file, id="foreign", **more)  # type: ignore[arg-type]

    with Workspace(clone).only_run("test", wait=True, say=print):
        yield start


def applied_tree(clone: Path, store: Store) -> str:
    now = Project.read(Workspace(clone))
    return resolve.resolve(now, now.recipe(RECIPE), store, lambda text: None).applied.tree


def test_foreign_diff_is_carried_as_one_patch(
    run: Callable[..., Imported], foreign: Made, clone: Path, store: Store
) -> None:
    done = run(strict=True)
    (item,) = done.patches
    assert (item.outcome, item.files, item.hunks, item.failing) == ("applies", FILES, FILES * HUNKS, ())
    assert (clone / "recipes/patches/foreign" / f"{RELEASE}.patch").read_bytes() == foreign.data
    tree = applied_tree(clone, store)
    assert all(store.read(tree, path) == content for path, content in foreign.files.items())
    now = Project.read(Workspace(clone))
    for file in sorted((clone / "recipes").glob("*.toml")):
        recipe = now.recipe(file.stem)
        assert ("foreign" in recipe.series) == (recipe.name == RECIPE)
        assert ("foreign" in [left.patch for left in recipe.omitted]) == (recipe.name != RECIPE)


def test_foreign_diff_is_carried_file_by_file_to_the_same_tree(
    run: Callable[..., Imported], foreign: Made, clone: Path, store: Store
) -> None:
    done = run(split=True)
    assert len({item.id for item in done.patches}) == FILES
    assert [(item.outcome, item.files, item.hunks) for item in done.patches] == [("applies", 1, HUNKS)] * FILES
    parts = [(clone / "recipes/patches" / item.id / f"{RELEASE}.patch").read_bytes() for item in done.patches]
    assert b"".join(parts) == foreign.data
    tree = applied_tree(clone, store)
    assert all(store.read(tree, path) == content for path, content in foreign.files.items())


def test_hunks_that_go_nowhere_on_another_release_are_those_that_git_rejects(
    run: Callable[..., Imported], foreign: Made, store: Store, base_of: Callable[[str], str], tmp_path: Path
) -> None:
    (item,) = run(release=LATER).patches
    tree, rejected = base_of(LATER), {}
    for number, part in enumerate(re.split(rb"^(?=diff --git )", foreign.data, flags=re.MULTILINE)[1:]):
        path = part.split(b"\n", 1)[0].split(b" b/")[1].decode()
        folder, content = tmp_path / str(number), store.read(tree, path)
        if content is None:
            rejected[path] = HUNKS
            continue
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_bytes(content)
        subprocess.run(
            ["git", "apply", "--reject", "-"],
            cwd=folder, input=part, check=False, capture_output=True,
            env={"PATH": os.environ["PATH"], "HOME": os.devnull, "GIT_CEILING_DIRECTORIES": str(tmp_path)},
        )  # fmt: skip
        left = folder / f"{path}.rej"
        if left.exists():
            rejected[path] = left.read_bytes().count(b"\n@@ ")
    assert item.outcome == "conflicts" and 0 < len(rejected) < FILES
    assert {path: (lost, of) for path, lost, of in item.failing} == {path: (n, HUNKS) for path, n in rejected.items()}
