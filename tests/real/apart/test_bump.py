"""Recipes carried from one real release to another: what is there already, what has to be derived, and what clashes."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.version import Version

from patchset import bump, resolve, rewrite, series
from patchset.bump import Bumped, Stopped
from patchset.console import Console
from patchset.resolve import Project
from patchset.store import Store
from patchset.workspace import Workspace

MAMBA, GEMMA, TOKENS, MTP = "mamba-uint64-pointers", "gemma4-unified", "cached-tokens-zero", "mtp-boundary"


@pytest.fixture
def copy(workspace: Workspace, room: Path) -> Workspace:
    """The declarations of this clone in a place of their own; store, archives and laboratory are this clone's."""
    root = Path(tempfile.mkdtemp(prefix="bump-", dir=room))
    shutil.copytree(workspace.recipes, root / "recipes", ignore=shutil.ignore_patterns("__pycache__", "resolutions"))
    (root / "vendor").mkdir()
    shutil.copy2(workspace.upstreams, root / "vendor")
    return Workspace(root, workspace.vendor)


@pytest.fixture
def cut(copy: Workspace) -> Callable[[str], Project]:
    """The declarations as they were when that release was the last one: what came later has to be found or made."""

    def declarations(last: str) -> Project:
        for file in copy.patches.glob("*/patch.toml"):
            text = file.read_text("utf-8")
            for name in re.findall(r'^releases = "(.*)"$', text, re.MULTILINE):
                lowest = rewrite.lower_bound(name)
                if lowest > Version(last):
                    text = rewrite.remove_variant(text, name)
                elif rewrite.upper_bound(name) > Version(last):
                    text = rewrite.set_range(text, name, rewrite.closed_range(str(lowest), last))
            file.write_text(text, encoding="utf-8")
            for diff in file.parent.glob("*.patch"):
                if f'"{diff.name}"' not in text:
                    diff.unlink()
        for file in copy.recipes.glob("*.toml"):
            release = re.search(r'^release = "(.*)"$', file.read_text("utf-8"), re.MULTILINE)
            if release and Version(release[1]) > Version(last):
                file.unlink()
                file.with_suffix(".lock").unlink()
        return Project.read(copy)

    return declarations


def accepted(project: Project, name: str, store: Store) -> str:
    """The tree that the recipe *name* and its lock give, by a run of their own."""
    now = Project.read(project.workspace)
    resolved = resolve.resolve(now, now.recipe(name), store, lambda text: None)
    assert not resolve.require_locked(resolved)
    return resolved.applied.tree


def start(project: Project, recipe: str, to: str, name: str = "") -> Bumped | Stopped:
    return bump.start(project, project.recipe(recipe), to, name, Console())


@pytest.mark.parametrize(
    ("to", "name", "outcomes", "retired"),
    [
        ("0.21.0", "b70-0.21", "applies applies applies absent", []),
        ("0.28.0", "b70-0.28", "applies upstream upstream applies", [GEMMA, TOKENS]),
        ("0.30.0", "b70-0.30", "upstream upstream upstream applies", [MAMBA, GEMMA, TOKENS]),
        ("0.33.0", "carried", "upstream upstream upstream upstream", [MAMBA, GEMMA, TOKENS, MTP]),
    ],
)
def test_where_variants_are_there_nothing_but_recipe_and_lock_is_made(
    to: str, name: str, outcomes: str, retired: list[str], copy: Workspace, store: Store
) -> None:
    done = start(Project.read(copy), "b70-0.23", to, "" if name == f"b70-{to[:4]}" else name)
    assert isinstance(done, Bumped) and done.recipe == name
    assert [item.outcome.value for item in done.carried] == outcomes.split()
    assert [patch for patch, _ in done.retired] == retired
    assert sorted(path.name for path in done.written) == ["PATCHES.md", f"{name}.lock", f"{name}.toml"]
    assert all(item.decision.good for item in done.proofs)
    assert accepted(Project.read(copy), name, store) == done.tree
    recipe = Project.read(copy).recipe(name)
    assert recipe.series == (MAMBA, GEMMA, TOKENS, MTP)
    known = {item.patch: (item.upstream, item.first_release) for item in recipe.retired}
    if TOKENS in known:
        assert known[TOKENS] == ("https://github.com/vllm-project/vllm/pull/44383", "0.24.0")
    if MTP in known:
        assert known[MTP] == ("https://github.com/vllm-project/vllm-xpu-kernels/pull/600", "0.31.0")


def test_recipe_that_a_person_wrote_is_not_replaced(copy: Workspace) -> None:
    from patchset.errors import DeclarationError

    before = (copy.recipes / "b70-0.33.toml").read_bytes()
    with pytest.raises(DeclarationError, match="is there already") as error:
        start(Project.read(copy), "b70-0.23", "0.33.0")
    assert "--name" in error.value.next and "[[series.retired]]" in error.value.detail
    assert (copy.recipes / "b70-0.33.toml").read_bytes() == before


def test_forward_and_back_again_retires_and_needs_again(copy: Workspace, store: Store) -> None:
    there = start(Project.read(copy), "b70-0.23", "0.30.0")
    assert isinstance(there, Bumped) and len(there.retired) == 3
    back = start(Project.read(copy), "b70-0.30", "0.21.0")
    assert isinstance(back, Bumped) and back.retired == ()
    assert Project.read(copy).recipe("b70-0.21").retired == ()
    direct = start(Project.read(copy), "b70-0.23", "0.21.0", "direct")
    assert isinstance(direct, Bumped) and direct.tree == back.tree == accepted(Project.read(copy), "b70-0.21", store)


def test_evidence_and_probes_carry_three_patches_over_seven_releases(
    cut: Callable[[str], Project], store: Store
) -> None:
    done = start(cut("0.23.0"), "b70-0.23", "0.33.0")
    assert isinstance(done, Bumped) and len(done.retired) == 4
    patches = Project.read(cut("0.33.0").workspace).patches
    assert {v.name: v.proved for v in patches[MAMBA].variants if v.proved} == {"==0.33.0": "sound"}
    # the lines that prove it stand in every release up to there; of the other patches they do not
    assert patches[GEMMA].variants[-1].name == ">=0.23.0,<=0.33.0"
    accepted(cut("0.33.0"), "b70-0.33", store)


def test_variant_for_the_next_release_is_derived_by_a_merge(cut: Callable[[str], Project], store: Store) -> None:
    project = cut("0.29.0")
    done = start(project, "b70-0.26", "0.30.0")
    assert isinstance(done, Bumped)
    assert done.carried[-1].how == "three-way merge of variant ==0.29.0 from 0.29.0"
    made = Project.read(project.workspace).patches[MTP].variant_for("0.30.0")
    assert made.diff and made.diff.name == "0.30.0.patch" and made.name == "==0.30.0"
    assert accepted(project, "b70-0.30", store) == done.tree
    assert all(item.decision.good for item in done.proofs)


def test_clash_is_resolved_as_we_did_and_comes_out_as_ours(
    project: Project, cut: Callable[[str], Project], store: Store
) -> None:
    theirs = cut("0.23.0")
    before = {path: path.read_bytes() for path in theirs.workspace.recipes.rglob("*") if path.is_file()}
    stopped = start(theirs, "b70-0.23", "0.24.0")
    asked = []
    while isinstance(stopped, Stopped):
        asked.append((stopped.clash.patch, stopped.clash.merged.conflicts))
        _resolve_as_we_did(project, store, stopped)
        assert all(path.read_bytes() == data for path, data in before.items())
        stopped = bump.go_on(Project.read(theirs.workspace), Console())
    assert asked == [
        (MAMBA, ("vllm/v1/worker/mamba_utils.py",)),
        (MTP, ("vllm/v1/attention/backends/gdn_attn.py",)),
    ]
    assert accepted(theirs, "b70-0.24", store) == stopped.tree == _ours(project, store, "0.24.0")
    assert len(stopped.written) > 6 and not list(theirs.workspace.work.glob("bump-*"))


def test_resolution_is_offered_again_in_another_release_and_held_against_its_probe(
    cut: Callable[[str], Project], store: Store
) -> None:
    theirs = cut("0.23.0")
    stopped = start(theirs, "b70-0.23", "0.24.0")
    assert isinstance(stopped, Stopped) and stopped.clash.patch == MAMBA
    # upstream made the same buffers unsigned in its own words: its side is the resolution
    file = stopped.directory / "vllm/v1/worker/mamba_utils.py"
    text = file.read_text("utf-8")
    clash = re.compile(r"<<<<<<< [^\n]*\n(.*?)\|{7} .*?>>>>>>> [^\n]*\n", re.DOTALL)
    assert len(clash.findall(text)) == 1
    file.write_text(clash.sub(r"\1", text), encoding="utf-8")
    second = bump.go_on(Project.read(theirs.workspace), Console())
    assert isinstance(second, Stopped) and second.clash.patch == MTP
    bump.abort(Project.read(theirs.workspace), Console())
    third = start(Project.read(theirs.workspace), "b70-0.23", "0.26.0")
    assert isinstance(third, Stopped) and third.clash.patch == MTP
    assert third.carried[0].how == "three-way merge from 0.23.0, with 1 remembered resolution"
    (line,) = third.reused
    where = r"vllm/v1/worker/mamba_utils\.py:\d+"
    assert re.fullmatch(rf"resolution \w{{8}} reused at {where}, made \S+ for {MAMBA} at 0\.24\.0", line)
    done = bump.skip(Project.read(theirs.workspace), "needs a closer look", Console())
    assert isinstance(done, Bumped) and done.reused == third.reused
    assert [(item.patch, item.finding.verdict.value) for item in done.exposures] == [(MTP, "defect")]
    assert accepted(theirs, "b70-0.26", store) == done.tree
    assert len(list((theirs.workspace.recipes / "resolutions").glob("*.json"))) == 1


def _ours(project: Project, store: Store, release: str, last: str = MTP) -> str:
    """The tree of *release* with this project's own variants, up to the patch *last*."""
    bases = project.bases(store)
    tree = bases.tree(release)
    for name in (MAMBA, GEMMA, TOKENS, MTP):
        patch = project.patches[name]
        tree = series.apply_patch(store, tree, "", patch, patch.variant_for(release), bases.donor_file).tree
        if name == last:
            break
    return tree


def _resolve_as_we_did(project: Project, store: Store, stopped: Stopped) -> None:
    tree = _ours(project, store, stopped.state.to, stopped.clash.patch)
    for path in store.changed_paths(stopped.clash.ours, tree):
        (stopped.directory / path).write_bytes(store.read(tree, path) or b"")
