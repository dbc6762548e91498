"""A foreign diff of 300 hunks in 100 files, on real vLLM: imported as one patch, and file by file; and its forecast."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from patchset import forecast, importing, resolve
from patchset.console import Console
from patchset.importing import Imported
from patchset.resolve import Project
from patchset.store import Entry, Store
from patchset.workspace import VENDOR_VARIABLE, Workspace

RECIPE, RELEASE, LATER = "b70-0.23", "0.23.0", "0.26.0"
FORECAST = ("0.22.1", "0.23.0", "0.24.0")
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


def rejected(foreign: Made, store: Store, tree: str, folder: Path) -> dict[str, set[int]]:
    """What git says, a file at a time: path → the numbers of the hunks that it rejects on *tree* (all of a file that is not there)."""
    found = {}
    for number, part in enumerate(re.split(rb"^(?=diff --git )", foreign.data, flags=re.MULTILINE)[1:]):
        path = part.split(b"\n", 1)[0].split(b" b/")[1].decode()
        room, content = folder / str(number), store.read(tree, path)
        heads = re.findall(rb"^@@ .*", part, flags=re.MULTILINE)
        if content is None:
            found[path] = set(range(1, len(heads) + 1))
            continue
        (room / path).parent.mkdir(parents=True)
        (room / path).write_bytes(content)
        subprocess.run(
            ["git", "apply", "--reject", "-"],
            cwd=room, input=part, check=False, capture_output=True,
            env={"PATH": os.environ["PATH"], "HOME": os.devnull, "GIT_CEILING_DIRECTORIES": str(folder)},
        )  # fmt: skip
        left = room / f"{path}.rej"
        if left.exists():
            lost = re.findall(rb"^@@ .*", left.read_bytes(), flags=re.MULTILINE)
            found[path] = {heads.index(head) + 1 for head in lost}
    return found


def test_hunks_that_go_nowhere_on_another_release_are_those_that_git_rejects(
    run: Callable[..., Imported], foreign: Made, store: Store, base_of: Callable[[str], str], tmp_path: Path
) -> None:
    (item,) = run(release=LATER).patches
    lost = rejected(foreign, store, base_of(LATER), tmp_path)
    assert item.outcome == "conflicts" and 0 < len(lost) < FILES
    assert {path: (n, of) for path, n, of in item.failing} == {path: (len(n), HUNKS) for path, n in lost.items()}


@pytest.mark.parametrize("split", [False, True], ids=["one patch", "a patch a file"])
def test_forecast_tells_on_each_release_the_hunks_that_git_rejects_there(
    split: bool,
    run: Callable[..., Imported],
    foreign: Made,
    store: Store,
    base_of: Callable[[str], str],
    clone: Path,
    tmp_path: Path,
) -> None:
    trees = {release: base_of(release) for release in FORECAST}
    ids = {item.id for item in run(split=split).patches}
    now = Project.read(Workspace(clone))
    document = forecast.forecast(now, now.recipe(RECIPE), Console(as_json=True), ",".join(FORECAST))
    cells = [cell for cell in document["cells"] if cell["patch"] in ids]
    assert len(cells) == len(FORECAST) * (FILES if split else 1)
    counts = {}
    for release, tree in trees.items():
        hunks = [hunk for cell in cells if cell["release"] == release for hunk in cell["hunks"]]
        told = {(hunk["path"], hunk["number"]) for hunk in hunks if hunk["state"] in ("lost", "missing")}
        lost = rejected(foreign, store, tree, tmp_path / release)
        assert told == {(path, number) for path, numbers in lost.items() for number in numbers}, release
        assert len(hunks) == FILES * HUNKS
        missing = {hunk["path"] for hunk in hunks if hunk["state"] == "missing"}
        assert missing == {path for path in foreign.files if store.read(tree, path) is None}
        counts[release] = len(told)
    assert counts[RELEASE] == 0 and all(0 < n < FILES * HUNKS for release, n in counts.items() if release != RELEASE)
    own = [cell for cell in cells if cell["release"] == RELEASE]
    assert all(cell["covered"] and cell["outcome"] == "applies" for cell in own)
    assert not any(cell["covered"] for cell in cells if cell not in own)
