"""The four recipes as checkouts: untouched they export to nothing, edited they come back as exactly what was edited."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patchset import edit, export, worktree
from patchset.resolve import Project, Resolved, resolve
from patchset.store import Store
from patchset.workspace import Workspace

RECIPES = ("b70-0.22", "b70-0.23", "b70-0.26", "b70-0.33")
MAMBA = "vllm/v1/worker/mamba_utils.py"


@pytest.fixture
def own(clone: Path, workspace: Workspace) -> Project:
    """The declarations in a copy that a test may change; the store is this clone's."""
    return Project.read(Workspace(clone, workspace.vendor))


@pytest.fixture
def place(room: Path, tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A name → a path for a whole tree."""
    yield lambda name: room / tmp_path.name / name


def resolved(project: Project, recipe: str, store: Store) -> Resolved:
    now = Project.read(project.workspace)
    return resolve(now, now.recipe(recipe), store, lambda text: None)


def run(project: Project, recipe: str, directory: Path) -> export.Export:
    now = Project.read(project.workspace)
    return export.export(now, now.recipe(recipe), directory, write=True)[0]


def git(directory: Path, *words: str) -> str:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": os.devnull,
        **{f"GIT_{who}_{what}": "p" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    return subprocess.run(["git", *words], cwd=directory, env=env, check=True, capture_output=True, text=True).stdout


def declared(project: Project) -> dict[Path, tuple[bytes, int]]:
    files = (path for path in project.workspace.recipes.rglob("*") if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def replace(directory: Path, path: str, old: str, new: str) -> None:
    file = directory / path
    text = file.read_text("utf-8")
    assert text.count(old) == 1, text.count(old)
    file.write_text(text.replace(old, new), "utf-8")


@pytest.mark.parametrize("recipe", RECIPES)
def test_untouched_checkout_exports_to_nothing(
    recipe: str, own: Project, store: Store, place: Callable[[str], Path]
) -> None:
    """The whole series, and each patch as `inv edit` opens it."""
    before = declared(own)
    now = resolved(own, recipe, store)
    assert export.check_untouched(own, now, store) == ()
    directory = place("checkout")
    for step in now.applied.steps:
        if step.outcome.changes_tree:
            edit.open_patch(own, own.recipe(recipe), step.patch, str(directory))
            assert run(own, recipe, directory).exported == ()
    worktree.write_checkout(store, now.applied.commit, directory)
    done = run(own, recipe, directory)
    assert (done.exported, done.tree) == ((), now.applied.tree)
    assert declared(own) == before


def test_one_line_of_the_last_patch_edited(own: Project, store: Store, place: Callable[[str], Path]) -> None:
    before = declared(own)
    directory = edit.open_patch(own, own.recipe("b70-0.23"), "mtp-boundary", str(place("c"))).directory
    file = "vllm/v1/attention/backends/gdn_attn.py"
    added = [
        line[1:] for line in git(directory, "show", "-U0", "--format=", "--", file).splitlines() if line[:1] == "+"
    ]
    line = next(line for line in added if "#" in line and (directory / file).read_text().count(line) == 1)
    replace(directory, file, line, line + " (edited)")
    git(directory, "commit", "-qa", "--amend", "--no-edit")
    wanted = git(directory, "rev-parse", "HEAD^{tree}").strip()
    done = run(own, "b70-0.23", directory)
    assert [item.patch for item in done.exported] == ["mtp-boundary"]
    assert resolved(own, "b70-0.23", store).applied.tree == wanted == done.tree
    written = [path.name for path, content in declared(own).items() if before.get(path) != content]
    assert written == ["0.23.patch"]
    file_now = own.patches["mtp-boundary"].folder / "0.23.patch"
    lines = file_now.read_bytes().split(b"\n")
    old = before[file_now][0].split(b"\n")
    other = [(a, b) for a, b in zip(old, lines, strict=True) if a != b]
    assert [a[:6] for a, _ in other if a.startswith(b"index ")] == [b"index "] and len(other) == 2, other


def test_edit_of_the_first_patch_carries_the_later_three_and_its_other_releases(
    own: Project, store: Store, place: Callable[[str], Path], base_of: Callable[[str], str]
) -> None:
    """mamba-uint64-pointers has one variant for 0.22.0 to 0.23.0: the edit made on 0.23.0 is tried on the others."""
    for release in ("0.22.0", "0.22.1"):
        base_of(release)
    old = {recipe: resolved(own, recipe, store).applied for recipe in RECIPES}
    opened = edit.open_patch(own, own.recipe("b70-0.23"), "mamba-uint64-pointers", str(place("c")))
    assert opened.later == ("cached-tokens-zero", "mtp-boundary")
    file = opened.directory / MAMBA
    file.write_text("# edited\n" + file.read_text("utf-8"), "utf-8")
    git(opened.directory, "commit", "-qa", "--amend", "--no-edit")
    done = run(own, "b70-0.23", opened.directory)
    assert [(item.patch, item.groups) for item in done.exported] == [
        ("mamba-uint64-pointers", ((">=0.22.0,<=0.23.0", "the new diff"),))
    ]
    assert (done.notes, sorted(done.recipes)) == ((), ["b70-0.22", "b70-0.23"])
    for recipe in RECIPES:
        now = resolved(own, recipe, store).applied
        changed = store.changed_paths(old[recipe].tree, now.tree)
        assert changed == ((MAMBA,) if recipe in ("b70-0.22", "b70-0.23") else ())
        assert [step.outcome for step in now.steps] == [step.outcome for step in old[recipe].steps]
    whole = place("whole")
    worktree.write_checkout(store, resolved(own, "b70-0.23", store).applied.commit, whole)
    assert run(own, "b70-0.23", whole).exported == ()


def test_edited_donor_file_of_a_real_patch(own: Project, store: Store, place: Callable[[str], Path]) -> None:
    """gemma4-unified takes a file of 0.23.0; an edit of it is a diff, and the donor stays what it is."""
    opened = edit.open_patch(own, own.recipe("b70-0.22"), "gemma4-unified", str(place("c")))
    path = "vllm/model_executor/models/gemma4_unified.py"
    replace(opened.directory, path, "class Gemma4UnifiedForConditionalGeneration(", "# edited\nclass Gemma4UnifiedForConditionalGeneration(")  # fmt: skip
    git(opened.directory, "commit", "-qa", "--amend", "--no-edit")
    (item,) = run(own, "b70-0.22", opened.directory).exported
    assert item.patch == "gemma4-unified"
    now = Project.read(own.workspace).patches["gemma4-unified"].variant_for("0.22.1")
    assert now.diff is not None and [donor.to for donor in now.donors] == [path]
    assert b"+# edited\n" in now.diff.read_bytes() and now.diff.stat().st_size < 10_000
    data = store.read(resolved(own, "b70-0.22", store).applied.tree, path)
    assert data is not None and data.count(b"# edited\n") == 1


def test_series_edited_with_fixups_and_rebased(own: Project, store: Store, place: Callable[[str], Path]) -> None:
    """As a person does it: a fixup for one patch, another one behind, squashed; all of it comes back."""
    directory = place("whole")
    worktree.write_checkout(store, resolved(own, "b70-0.23", store).applied.commit, directory)
    titles = {patch.title: patch.id for patch in own.patches.values()}
    for path, title in ((MAMBA, own.patches["mamba-uint64-pointers"].title),
                        ("vllm/entrypoints/openai/completion/serving.py", own.patches["cached-tokens-zero"].title)):  # fmt: skip
        file = directory / path
        file.write_text("# edited\n" + file.read_text("utf-8"), "utf-8")
        git(directory, "commit", "-qam", f"fixup! {title}")
    unsquashed = export.plan(own, own.recipe("b70-0.23"), directory, store)
    git(directory, "-c", "sequence.editor=true", "rebase", "-q", "-i", "--autosquash", "HEAD~5")
    assert [titles[line] for line in git(directory, "log", "--format=%s", "-3").splitlines()] == [
        "mtp-boundary",
        "cached-tokens-zero",
        "mamba-uint64-pointers",
    ]
    done = run(own, "b70-0.23", directory)
    assert (done.tree, [c.data for c in done.changes]) == (unsquashed.tree, [c.data for c in unsquashed.changes])
    assert resolved(own, "b70-0.23", store).applied.tree == git(directory, "rev-parse", "HEAD^{tree}").strip()
