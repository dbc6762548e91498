"""This clone's own patches and recipes break no rule, and its page about them is up to date."""

from __future__ import annotations

from collections.abc import Callable

from markdown_it import MarkdownIt

from patchset import compare, graph, lint, patches_page
from patchset.resolve import Project
from patchset.store import Store
from patchset.workspace import Workspace


def test_own_recipes_are_clean_on_every_release(
    workspace: Workspace, project: Project, base_of: Callable[[str], str]
) -> None:
    """Nothing is left unchecked once the bases are here."""
    for release in project.upstreams["vllm"].releases:
        base_of(release)
    report = lint.lint(workspace)
    assert (report.findings, report.not_checked) == ((), ())


def test_page_is_filled_and_shows_every_patch(workspace: Workspace, project: Project) -> None:
    """That it is up to date is one of lint's own rules; here: what its Markdown says."""
    text = patches_page.file_of(workspace.recipes).read_text("utf-8")
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 120
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    headings = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings == ["Patches", *project.patches]
    children = [child for token in tokens for child in token.children or []]
    assert not [child for child in children if child.type in ("html_inline", "em_open", "image")]
    links = [str(dict(child.attrs)["href"]) for child in children if child.type == "link_open"]
    for link in links:
        assert link.startswith(("https://", "#")) or (workspace.recipes / link).is_file(), link


def test_no_patch_of_the_series_needs_another(project: Project) -> None:
    found = graph.of_recipe(project, project.recipe("b70-0.23"))
    assert list(found.outcomes) == list(project.recipe("b70-0.23").series)
    assert (set(found.needs.values()), found.order_matters, dict(found.stopped_by)) == ({()}, (), {})


def test_one_variant_is_one_change_on_two_releases(project: Project, store: Store) -> None:
    """0.22.1 and 0.23.0 share a variant of mamba-uint64-pointers; the lines around it moved, the places did not."""
    found = compare.compare(project, project.recipe("b70-0.22"), project.recipe("b70-0.23"))
    patches = {item.patch: item for item in found.patches}
    same = [pair.kind for pair in patches["mamba-uint64-pointers"].pairs]
    assert same and set(same) == {"same"}
    assert {pair.kind for pair in patches["gemma4-unified"].pairs} == {"gone"}
    assert {pair.kind for pair in patches["mtp-boundary"].pairs} == {"new"}
    assert [name for name, _, _ in found.stack] == ["vllm-xpu-kernels"]
