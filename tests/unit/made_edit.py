"""A clone with patches of one file, checkouts of it, and a person who edits them with git."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from made_project import PATCH_HEAD, Releases, page_of, write_project

from patchset import edit, export, patches_page, worktree
from patchset.resolve import Project, resolve
from patchset.store import Store

#: Each line of it stands there once.
LINES = b"".join(b"line_%d = %d\n" % (n, n) for n in range(60))

IDS = ("first", "second", "third")


def changed(*numbers: int, base: bytes = LINES, word: bytes = b"LINE") -> bytes:
    """*base* with those lines changed."""
    for n in numbers:
        base = base.replace(b"line_%d = %d\n" % (n, n), b"%s_%d = 0\n" % (word, n))
    return base


def variant(releases: str = "==0.20.0", diff: str = "a.patch", more: str = "") -> str:
    """One ``[[variant]]``."""
    return f'\n[[variant]]\nreleases = "{releases}"\n' + (f'diff = "{diff}"\n' if diff else "") + more


def make_project(
    root: Path, releases: Releases, patches: Mapping[str, tuple[str, Mapping[str, bytes]]], titles: Sequence[str] = ()
) -> Project:
    """As :func:`made_project.write_project`, with a title for each patch (default: its id)."""
    project = write_project(root, releases, patches, list(patches))
    for index, patch in enumerate(patches):
        file = project.patches[patch].folder / "patch.toml"
        title = titles[index] if titles else f"the {patch}"
        file.write_text(file.read_text("utf-8").replace(PATCH_HEAD.splitlines()[0], f'title = "{title}"'), "utf-8")
    patches_page.file_of(project.workspace.recipes).write_text(page_of(project), "utf-8")
    return Project.read(project.workspace)


def three(
    root: Path,
    diff: Callable[[bytes, bytes], bytes],
    releases: Mapping[str, bytes],
    first: str = "==0.20.0",
    titles: Sequence[str] = (),
) -> Project:
    """Three patches of the file a.py, at lines 10, 30 and 50; *first* is the range of the first, the others' that too."""
    patches = {
        id: (variant(first), {"a.patch": diff(LINES, changed(number))})
        for id, number in zip(IDS, (10, 30, 50), strict=True)
    }
    return make_project(root, {r: {"a.py": c} for r, c in releases.items()}, patches, titles)


def fresh(project: Project) -> Project:
    """What the clone declares now."""
    return Project.read(project.workspace)


def opened(project: Project, patch: str = "first", into: str = "") -> Path:
    """`inv edit`: the checkout."""
    now = fresh(project)
    return edit.open_patch(now, now.recipe("r"), patch, into).directory


def checkout(project: Project, directory: Path) -> Path:
    """`inv apply --checkout`: the whole series."""
    now, store = fresh(project), Store.open(project.workspace.store)
    worktree.write_checkout(store, resolve(now, now.recipe("r"), store, lambda text: None).applied.commit, directory)
    return directory


def run(project: Project, directory: Path, *, write: bool = True) -> export.Export:
    """`inv export`."""
    now = fresh(project)
    return export.export(now, now.recipe("r"), directory, write=write)[0]


def git(directory: Path, *words: str) -> str:
    """git as somebody runs it there."""
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@host"]
    return subprocess.run(["git", *who, *words], cwd=directory, check=True, capture_output=True, text=True).stdout


def write(directory: Path, content: bytes, name: str = "a.py") -> None:
    """Put *content* into a file there."""
    (directory / name).write_bytes(content)


def amend(directory: Path, content: bytes) -> None:
    """Make the last commit there one that ends with *content*."""
    write(directory, content)
    git(directory, "commit", "-qa", "--amend", "--no-edit")


def declared(project: Project) -> dict[str, tuple[bytes, int]]:
    """Every file of recipes/: path → bytes and time of change."""
    files = (path for path in project.workspace.recipes.rglob("*") if path.is_file())
    return {str(p.relative_to(project.workspace.root)): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}


def final(project: Project, name: str = "a.py") -> bytes | None:
    """A file of the patched tree, as the declarations are now."""
    store, now = Store.open(project.workspace.store), fresh(project)
    return store.read(resolve(now, now.recipe("r"), store, lambda text: None).applied.tree, name)


def bring(project: Project, releases: Sequence[str]) -> None:
    """Put bases of other releases into the store."""
    bases = project.bases(Store.open(project.workspace.store))
    for release in releases:
        bases.tree(release)
