"""One change as diffs for a range of releases: exact on its own, tried on the others, and never worse than before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from made_edit import (
    LINES,
    amend,
    bring,
    changed,
    checkout,
    declared,
    final,
    fresh,
    git,
    make_project,
    opened,
    run,
    variant,
    write,
)

from patchset import series_show
from patchset.console import Console
from patchset.errors import SeriesError
from patchset.outcome import Outcome
from patchset.resolve import Project
from patchset.series import apply_series
from patchset.store import Store
from patchset.variants import exact_diff

RANGE = ">=0.20.0,<=0.23.0"
Diff = Callable[..., bytes]


def outcomes(project: Project, release: str) -> tuple[list[str], bytes]:
    """What becomes of the series on another release, and a.py after it."""
    now, store = fresh(project), Store.open(project.workspace.store)
    bases = now.bases(store)
    patches = now.series_of(now.recipe("r"))
    applied = apply_series(store, bases.tree(release), release, patches, None, bases.donor_file)
    return [step.outcome.value for step in applied.steps], store.read(applied.tree, "a.py") or b""


# -- the diff itself ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alike", [4, 15, 70, 300])
def test_diff_has_as_much_context_as_its_place_needs(alike: int, bench: Store, make_tree: Callable[..., str]) -> None:
    """A change among lines that are all the same fits in many places with three lines of context."""
    block = b"x = 1\n" * alike
    old = b"head = 0\n" + block + b"mark = 0\n" + block + b"mark = 0\n" + block
    new = b"head = 0\n" + block + b"mark = 2\n" + block + b"mark = 0\n" + block
    before, after = make_tree({"a.py": old}), make_tree({"a.py": new})
    data = exact_diff(bench, before, after, "p")
    assert bench.apply(before, data)[0] == after
    assert data.count(b"\n x = 1") > 6
    plain = make_tree({"a.py": LINES})
    assert exact_diff(bench, plain, make_tree({"a.py": changed(5)}), "p").count(b"\n line_") == 6


def test_edit_among_repeated_lines_is_exported_so_that_it_applies(diff: Diff, tmp_path: Path) -> None:
    old = LINES + b"x = 1\n" * 40
    project = make_project(
        tmp_path / "clone", {"0.20.0": {"a.py": old}}, {"first": (variant(), {"a.patch": diff(LINES, changed(10))})}
    )
    directory = opened(project)
    new = changed(10) + b"x = 1\n" * 20 + b"y = 1\n" + b"x = 1\n" * 20
    amend(directory, new)
    run(project, directory)
    assert final(project) == new


# -- the other releases of the range ------------------------------------------------------------------------------------

#: The edit goes in; it has to be merged; it clashes.
LATER = {"0.21.0": b"# head\n" + LINES, "0.22.0": LINES.replace(b"line_14 = 14", b"fourteen = 14"),
         "0.23.0": LINES.replace(b"line_12 = 12", b"twelve = 12")}  # fmt: skip


def ranged(tmp_path: Path, diff: Diff, later: dict[str, bytes], *numbers: int) -> Project:
    """Patches of LINES at *numbers*, each for the whole range; bases of all releases are there."""
    patches = {
        f"p{number}": (variant(RANGE, more='note = "n"\n'), {"a.patch": diff(LINES, changed(number))})
        for number in numbers
    }
    releases = {"0.20.0": LINES, **later}
    project = make_project(tmp_path / "clone", {r: {"a.py": c} for r, c in releases.items()}, patches)
    bring(project, list(releases))
    return project


def test_other_releases_are_tried_carried_or_keep_the_old_diff(
    diff: Diff, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = ranged(tmp_path, diff, LATER, 10)
    text = (project.workspace.recipes / "r.toml").read_text()
    for name, release in (("other", "0.22.0"), ("far", "0.23.0")):
        (project.workspace.recipes / f"{name}.toml").write_text(text.replace('"0.20.0"', f'"{release}"'))
    directory = opened(project, "p10")
    amend(directory, changed(10, 12))
    done = run(project, directory)
    (item,) = done.exported
    assert item.groups == (
        (">=0.20.0,<=0.21.0", "the new diff"),
        ("==0.22.0", "carried by a three-way merge"),
        ("==0.23.0", "keeps the old diff: the edit does not go in there"),
    )
    now = fresh(project).patches["p10"]
    assert {v.name: (v.diff.name if v.diff else None, v.note) for v in now.variants} == {
        ">=0.20.0,<=0.21.0": ("0.20.0-0.21.0.patch", "n"),
        "==0.22.0": ("0.22.0.patch", "n"),
        "==0.23.0": ("a.patch", "n"),
    }
    assert done.recipes == ("r", "other")
    series_show.show_export(Console(), done, (now.folder / "a.patch",), "r", project.workspace.root, check=False)
    said = capsys.readouterr().out
    assert "NOT EDITED on ==0.23.0" in said and "./inv lock -r other" in said and "-r far" not in said
    made = {release: outcomes(project, release) for release in ("0.20.0", *LATER)}
    assert [b"LINE_12 = 0" in content for _, content in made.values()] == [True, True, True, False]
    assert [steps for steps, _ in made.values()] == [["applies"]] * 3 + [["merges"]]  # as 0.23.0 did before
    assert all(b"LINE_10 = 0" in content for _, content in made.values())


def test_release_that_is_not_here_is_said_to_be_not_tried(diff: Diff, tmp_path: Path) -> None:
    patches = {"p10": (variant(RANGE), {"a.patch": diff(LINES, changed(10))})}
    releases = {r: {"a.py": c} for r, c in {"0.20.0": LINES, **LATER}.items()}
    project = make_project(tmp_path / "clone", releases, patches)
    directory = opened(project, "p10")
    amend(directory, changed(10, 12))
    (item,) = run(project, directory).exported
    assert (item.not_tried, item.groups) == (tuple(LATER), ((RANGE, "the new diff"),))


def test_later_patch_is_tried_elsewhere_behind_the_earlier_one_as_edited(diff: Diff, tmp_path: Path) -> None:
    """The edit of p30 builds on that of p10: on the other releases, too, it must find it there."""
    project = ranged(tmp_path, diff, {"0.21.0": b"# head\n" + LINES}, 10, 30)
    directory = checkout(project, tmp_path / "whole")
    write(directory, changed(10, 20, 30))
    git(directory, "commit", "-qam", "fixup! the p10")
    write(directory, changed(10, 20, 30).replace(b"LINE_20 = 0\n", b"LINE_20 = 1\n"))
    git(directory, "commit", "-qam", "fixup! the p30")
    done = run(project, directory)
    assert [(item.patch, item.groups) for item in done.exported] == [
        ("p10", ((RANGE, "the new diff"),)),
        ("p30", ((RANGE, "the new diff"),)),
    ]
    for release in ("0.20.0", "0.21.0"):
        steps, content = outcomes(project, release)
        assert steps == ["applies", "applies"] and b"LINE_20 = 1" in content and b"LINE_30 = 0" in content


def test_release_that_the_edit_would_break_keeps_the_old_diff(diff: Diff, tmp_path: Path) -> None:
    """The edit goes in there as text, but b is no name of that function on 0.21.0, and what comes out does not compile."""
    body = b"".join(b"    " + line for line in LINES.splitlines(True))
    base, other = b"def f():\n    b = 0\n" + body, b"def f():\n    global b\n" + body
    patched = base.replace(b"    line_10 = 10\n", b"    LINE_10 = 0\n")
    project = make_project(
        tmp_path / "clone",
        {"0.20.0": {"a.py": base}, "0.21.0": {"a.py": other}},
        {"p": (variant(RANGE), {"a.patch": diff(base, patched)})},
    )
    bring(project, ["0.21.0"])
    inner = b"    def g():\n        nonlocal b\n        b = 1\n"
    directory = opened(project, "p")
    amend(directory, patched.replace(b"    line_12 = 12\n", inner + b"    line_12 = 12\n"))
    (item,) = run(project, directory).exported
    assert [how.partition(":")[0] for _, how in item.groups] == ["the new diff", "keeps the old diff"]
    assert "a.py:" in item.groups[1][1] and "does not compile there" in item.groups[1][1]
    assert outcomes(project, "0.20.0")[0] == outcomes(project, "0.21.0")[0] == ["applies"]


def test_later_patch_that_stops_on_another_release_is_told(diff: Diff, tmp_path: Path) -> None:
    """0.21.0 has an own variant of p30, and what p10 does now is in its way there only."""
    special = LINES.replace(b"line_33 = 33\n", b"")
    patches = {
        "p10": (variant(RANGE), {"a.patch": diff(LINES, changed(10))}),
        "p30": (
            variant() + variant("==0.21.0", "b.patch"),
            {"a.patch": diff(LINES, changed(30)), "b.patch": diff(special, changed(30, 35, base=special))},
        ),
    }
    project = make_project(tmp_path / "clone", {"0.20.0": {"a.py": LINES}, "0.21.0": {"a.py": special}}, patches)
    bring(project, ["0.21.0"])
    assert outcomes(project, "0.21.0")[0] == ["applies", "applies"]
    directory = opened(project, "p10")
    amend(directory, changed(10).replace(b"line_35 = 35", b"other_35 = 7"))
    done = run(project, directory)
    assert outcomes(project, "0.21.0")[0] == ["applies", "conflicts"]
    assert any(note.startswith("0.21.0: p30 no longer goes in") for note in done.notes), done


def test_diff_shared_by_two_variants_stays_for_the_other(diff: Diff, tmp_path: Path) -> None:
    data = diff(LINES, changed(10))
    project = make_project(
        tmp_path / "clone",
        {r: {"a.py": LINES} for r in ("0.20.0", "0.21.0")},
        {"p": (variant("==0.20.0") + variant("==0.21.0"), {"a.patch": data})},
    )
    directory = opened(project, "p")
    amend(directory, changed(10, 12))
    run(project, directory)
    now = fresh(project).patches["p"]
    assert {v.name: v.diff.name for v in now.variants if v.diff} == {"==0.20.0": "0.20.0.patch", "==0.21.0": "a.patch"}
    assert (now.folder / "a.patch").read_bytes() == data


# -- donor files --------------------------------------------------------------------------------------------------------

DONATED = b"donor_1 = 1\ndonor_2 = 2\ndonor_3 = 3\n"


def with_donor(tmp_path: Path, diff: Diff, *, adapted: bool) -> Project:
    """A patch that takes new.py of 0.21.0, and (*adapted*) changes a.py."""
    sha = hashlib.sha256(DONATED).hexdigest()
    more = f'donors = [{{ release = "0.21.0", path = "src.py", to = "new.py", sha256 = "{sha}" }}]\n'
    files = {"a.patch": diff(LINES, changed(10))} if adapted else {}
    return make_project(
        tmp_path / "clone",
        {"0.20.0": {"a.py": LINES}, "0.21.0": {"a.py": LINES, "src.py": DONATED}},
        {"p": (variant(diff="a.patch" if adapted else "", more=more), files)},
    )


@pytest.mark.parametrize("adapted", [True, False], ids=["with a diff", "donor files only"])
def test_edited_donor_file_becomes_part_of_the_diff(adapted: bool, diff: Diff, tmp_path: Path) -> None:
    project = with_donor(tmp_path, diff, adapted=adapted)
    directory = opened(project, "p")
    assert (directory / "new.py").read_bytes() == DONATED
    before = declared(project)
    assert run(project, directory).exported == ()
    assert declared(project) == before
    write(directory, DONATED.replace(b"donor_2 = 2", b"DONOR_2 = 0"), "new.py")
    git(directory, "commit", "-qa", "--amend", "--no-edit")
    run(project, directory)
    (now,) = fresh(project).patches["p"].variants
    assert now.diff is not None and len(now.donors) == 1
    data = now.diff.read_bytes()
    assert b"-donor_2 = 2\n+DONOR_2 = 0\n" in data and b"new file" not in data
    assert final(project, "new.py") == DONATED.replace(b"donor_2 = 2", b"DONOR_2 = 0")
    assert final(project) == (changed(10) if adapted else LINES)
    assert run(project, directory).exported == ()


def test_donor_files_without_their_diff_are_refused_with_what_to_do(diff: Diff, tmp_path: Path) -> None:
    project = with_donor(tmp_path, diff, adapted=True)
    directory = opened(project, "p")
    amend(directory, LINES)
    with pytest.raises(SeriesError, match="nothing is left of the diff of p but its donor files") as error:
        run(project, directory)
    assert "take diff out" in error.value.next


def test_no_outcome_but_applies_is_ever_written(diff: Diff, tmp_path: Path) -> None:
    """Whatever is edited: the declarations afterwards make the tree that was edited, and every step applies."""
    project = ranged(tmp_path, diff, {}, 10, 30)
    directory = checkout(project, tmp_path / "whole")
    for content in (changed(10, 13, 30), changed(10, 13, 26, 27, 28, 30), changed(10, 30, 33)):
        write(directory, content)
        git(directory, "commit", "-qam", "fixup! the p30")
        run(project, directory)
        steps, made = outcomes(project, "0.20.0")
        assert (set(steps), made) == ({Outcome.APPLIES.value}, content)
