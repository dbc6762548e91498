"""One patch carried to another release: which variant it becomes, and when a person must be asked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from made_bump import (
    BROKEN,
    CLASH,
    FIXED,
    LINES,
    NEAR,
    WHOLE,
    accepted,
    conflicted,
    declared,
    fresh,
    git,
    in_tree,
    settle,
    start,
    variants,
)

from patchset import bump, rewrite
from patchset.bump import Bumped, Stopped
from patchset.console import Console
from patchset.resolve import Project
from patchset.store import Store

Make = Callable[..., Project]
SHIFTED = b"# head\n" + BROKEN


@pytest.fixture
def mending(bench: Store, make_tree: Callable[..., str]) -> bytes:
    """The diff that mends a.py."""
    return bench.diff(make_tree({"a.py": BROKEN}), make_tree({"a.py": WHOLE}))


def test_range_reaches_over_releases_on_which_it_holds_too(make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": SHIFTED, "0.22.0": BROKEN})
    done = start(project, "0.22.0")
    assert isinstance(done, Bumped)
    assert variants(project) == {">=0.20.0,<=0.22.0": "0.20.patch"}
    assert done.carried[0].how.endswith("; so it is, by its text, in 0.21.0")
    accepted(project, "r-0.22")


def test_release_in_between_that_is_not_here_is_not_claimed(make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN, "0.22.0": BROKEN}, without=["0.21.0"])
    start(project, "0.22.0")
    assert variants(project) == {"==0.20.0": "0.20.patch", "==0.22.0": "0.20.patch"}


def test_release_in_between_with_a_variant_of_its_own_is_not_reached_over(make: Make) -> None:
    own = '\n[[variant]]\nreleases = "==0.21.0"\nproved = "sound"\nnote = "n"\n'
    project = make({"0.20.0": BROKEN, "0.21.0": BROKEN, "0.22.0": SHIFTED}, own)
    start(project, "0.22.0")
    assert variants(project) == {"==0.20.0": "0.20.patch", "==0.21.0": None, "==0.22.0": "0.20.patch"}


def test_backward_the_range_reaches_down(make: Make) -> None:
    project = make({"0.18.0": BROKEN, "0.19.0": BROKEN, "0.20.0": BROKEN})
    recipe = project.workspace.recipes / "r-0.20.toml"
    recipe.write_text(recipe.read_text().replace('release = "0.18.0"', 'release = "0.20.0"'))
    done = start(fresh(project), "0.18.0")
    assert isinstance(done, Bumped) and done.recipe == "r-0.18"
    assert variants(project) == {">=0.18.0,<=0.20.0": "0.20.patch"}


def test_derived_variant_says_where_it_is_from(make: Make) -> None:
    project = make({"0.20.0": BROKEN, "0.21.0": NEAR})
    start(project, "0.21.0")
    variant = fresh(project).patches["mend-a"].variants[-1]
    assert variant.note == "Three-way merge of variant ==0.20.0 from 0.20.0."


def test_derived_diff_has_as_much_context_as_makes_its_place_the_only_one(make: Make) -> None:
    block = b"alike\n" * 8
    before = b"start\n" + block + b"state = 'broken'\n" + block + b"middle\n" + block + b"other\n" + block + b"end\n"
    after = before.replace(b"'broken'", b"'whole'", 1)
    # at the target the line stands twice between the same neighbours, so three lines of context would fit both
    target = before.replace(b"start\n", b"begin\n").replace(b"other\n", b"state = 'broken'\n")
    probe = (
        b"import json, pathlib, sys\n"
        b'lines = (pathlib.Path(sys.argv[1]) / "a.py").read_text().split("middle")[0]\n'
        b'verdict = "defect" if "\'broken\'" in lines else "sound"\n'
        b'print(json.dumps({"verdict": verdict, "reason": "r", "checks": []}))\n'
    )
    before, after, target = (b'"""\n' + text + b'"""\n' for text in (before, after, target))
    project = make(
        {"0.20.0": before, "0.21.0": target}, more={"probe.py": probe}, diff_a=({"a.py": before}, {"a.py": after})
    )
    done = start(project, "0.21.0")
    assert isinstance(done, Bumped)
    result = in_tree(project, accepted(project, "r-0.21")) or b""
    assert result == target.replace(b"'broken'", b"'whole'", 1)


def test_change_that_merges_cleanly_and_does_not_help_is_for_a_person(make: Make) -> None:
    # the release says it in two places now; the diff fits one of them
    target = BROKEN + b"".join(b"more_%d = 1\n" % n for n in range(20)) + b"again = 'broken'\n"
    project = make({"0.20.0": BROKEN, "0.21.0": target})
    before = declared(project)
    stopped = start(project, "0.21.0")
    assert isinstance(stopped, Stopped) and stopped.clash.merged.conflicts == ()
    assert "merges cleanly from 0.20.0, but its probe says defect of the result" in stopped.clash.why
    file = conflicted(project)
    assert file.read_bytes() == target.replace(b"state = 'broken'", b"state = 'whole'")
    assert declared(project) == before
    file.write_bytes(file.read_bytes().replace(b"again = 'broken'", b"again = 'whole'"))
    done = bump.go_on(project, Console())
    assert isinstance(done, Bumped)
    assert in_tree(project, accepted(project, "r-0.21")) == target.replace(b"'broken'", b"'whole'")


def test_change_that_does_not_compile_there_is_for_a_person(make: Make) -> None:
    target = LINES.replace(b"line_20 = 20\n", b"if 1:\n  state = 'broken'\n")
    merged = ({"a.py": BROKEN}, {"a.py": BROKEN.replace(b"line_30 = 30\n", b"    state = 'whole'\n")})
    project = make({"0.20.0": BROKEN, "0.21.0": target}, diff_a=merged)
    stopped = start(project, "0.21.0")
    assert isinstance(stopped, Stopped) and "does not compile" in stopped.clash.why


def test_merge_has_the_patches_before_it_on_both_sides(make: Make, bench: Store, make_tree: Callable[..., str]) -> None:
    """The second patch changes what the first one wrote."""
    first = BROKEN.replace(b"line_10 = 10\n", b"ten = 'first'\n")
    second = first.replace(b"ten = 'first'\n", b"ten = 'first and second'\n")
    probe = (
        b"import json, pathlib, sys\n"
        b'text = (pathlib.Path(sys.argv[1]) / "a.py").read_text()\n'
        b'verdict = "sound" if "%s" in text else "defect"\n'
        b'print(json.dumps({"verdict": verdict, "reason": "r", "checks": []}))\n'
    )
    target = b"# moved\n" + BROKEN.replace(b"line_12 = 12\n", b"twelve = 12\n")
    project = make(
        {"0.20.0": BROKEN, "0.21.0": target},
        more={"probe.py": probe % b"first"},
        diff_a=({"a.py": BROKEN}, {"a.py": first}),
    )
    folder = project.patches["mend-b"].folder
    (folder / "0.20.patch").write_bytes(bench.diff(make_tree({"a.py": first}), make_tree({"a.py": second})))
    (folder / "probe.py").write_bytes(probe % b"and second")
    done = start(fresh(project), "0.21.0")
    assert isinstance(done, Bumped) and [item.how.split(" of")[0] for item in done.carried] == ["three-way merge"] * 2
    assert b"ten = 'first and second'\n" in (in_tree(project, accepted(project, "r-0.21")) or b"")


def test_variant_that_covers_the_release_gives_way_to_what_the_probe_finds(make: Make, mending: bytes) -> None:
    wide = '\n[[variant]]\nreleases = ">=0.21.0,<=0.23.0"\ndiff = "wide.patch"\n'
    releases = {"0.20.0": BROKEN, "0.21.0": BROKEN, "0.22.0": FIXED, "0.23.0": BROKEN}
    project = make(releases, wide, more={"wide.patch": mending})
    done = start(project, "0.22.0")
    assert isinstance(done, Bumped) and [name for name, _ in done.retired] == ["mend-a"]
    assert variants(project) == {
        "==0.20.0": "0.20.patch",
        "==0.21.0": "wide.patch",
        "==0.22.0": None,
        "==0.23.0": "wide.patch",
    }


def test_donor_files_go_along(make: Make, mending: bytes) -> None:
    donor = b"donated = 1\n"
    variant = (
        '\n[[variant]]\nreleases = "==0.19.0"\ndiff = "0.19.patch"\n'
        'donors = [{ release = "0.22.0", path = "new.py", '
        f'sha256 = "{hashlib.sha256(donor).hexdigest()}" }}]\n'
    )
    releases = {"0.19.0": BROKEN, "0.20.0": BROKEN, "0.21.0": CLASH, "0.22.0": {"a.py": LINES, "new.py": donor}}
    project = make(releases, variant, more={"0.19.patch": mending})
    folder = project.patches["mend-a"].folder
    text = rewrite.remove_variant((folder / "patch.toml").read_text(), "==0.20.0")
    (folder / "patch.toml").write_text(text)
    (folder / "0.20.patch").unlink()
    stopped = start(fresh(project), "0.21.0", "r-0.21")
    assert isinstance(stopped, Stopped) and stopped.clash.variant.donors
    assert conflicted(project).with_name("new.py").read_bytes() == donor
    assert "?? " not in git(conflicted(project).parent, "status", "--porcelain")
    settle(conflicted(project))
    done = bump.go_on(fresh(project), Console())
    assert isinstance(done, Bumped)
    made = fresh(project).patches["mend-a"].variant_for("0.21.0")
    assert [item.path for item in made.donors] == ["new.py"]
    assert made.diff and b"new.py" not in made.diff.read_bytes()
    tree = accepted(project, "r-0.21")
    assert in_tree(project, tree, "new.py") == donor and b"# both" in (in_tree(project, tree) or b"")
