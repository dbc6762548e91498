"""Why a patch does not go in: where its files and lines went, and from which release on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from patchset.explain import Explainer, Moved, Why
from patchset.patch import Patch, read_patch
from patchset.store import Store
from patchset.upstream import Upstream

BODY = b"".join(b"def function_%d():\n    return %d\n" % (n, n) for n in range(20))
BROKEN = BODY.replace(b"return 7\n", b"return 0  # broken\n")
FIXED = BODY.replace(b"return 7\n", b"return 7  # whole\n")
#: The neighbourhood of the defect is another: the hunk goes nowhere.
REWRITTEN = (
    BROKEN.replace(b"function_6", b"other_6").replace(b"function_8", b"other_8").replace(b"return 6", b"return 60")
)


@pytest.fixture
def patch_of(
    bench: Store, make_tree: Callable[..., str], patch_folder: Callable[..., Path], upstream: Upstream
) -> Callable[..., Patch]:
    """A patch that mends the defect of pkg/a.py, for the releases that are named."""

    def make(releases: str, before: bytes = BROKEN, after: bytes = FIXED) -> Patch:
        diff = bench.diff(make_tree({"pkg/a.py": before}), make_tree({"pkg/a.py": after}))
        folder = patch_folder(f'[[variant]]\nreleases = "{releases}"\ndiff = "a.patch"\n', {"a.patch": diff})
        return read_patch(folder, upstream)

    return make


@pytest.fixture
def why(bench: Store, make_tree: Callable[..., str]) -> Callable[..., Why]:
    def ask(patch: Patch, release: str, trees: Mapping[str, Mapping[str, bytes]]) -> Why:
        ids = {name: make_tree({"other.txt": b"x\n", **files}) for name, files in trees.items()}
        return Explainer(bench, ids, lambda donor: b"").why(release, patch.variants[0])

    return ask


def test_file_that_moved_unchanged_is_found_with_its_lines(
    patch_of: Callable[..., Patch], why: Callable[..., Why]
) -> None:
    found = why(patch_of("==1.0"), "1.1", {"1.0": {"pkg/a.py": BROKEN}, "1.1": {"new/b.py": b"# head\n" + BROKEN}})
    assert found.moved == (Moved("pkg/a.py", "new/b.py", found.moved[0].similarity, True, (14,)),)
    assert 90 < found.moved[0].similarity < 100
    assert (found.first_broken, found.alone) == ("1.1", False)


def test_file_that_moved_and_changed_there_is_not_identical(
    patch_of: Callable[..., Patch], why: Callable[..., Why]
) -> None:
    found = why(patch_of("==1.0"), "1.1", {"1.0": {"pkg/a.py": BROKEN}, "1.1": {"new/b.py": REWRITTEN}})
    assert [(item.to, item.identical, item.lines) for item in found.moved] == [("new/b.py", False, ())]
    assert found.moved[0].similarity > 50


def test_file_that_is_gone_without_a_trace_is_not_called_anything_else(
    patch_of: Callable[..., Patch], why: Callable[..., Why]
) -> None:
    found = why(patch_of("==1.0"), "1.1", {"1.0": {"pkg/a.py": BROKEN}, "1.1": {}})
    assert found.moved == (Moved("pkg/a.py", None, 0, False, ()),)


def test_lines_that_moved_to_a_file_that_changed_are_found_there(
    patch_of: Callable[..., Patch], why: Callable[..., Why]
) -> None:
    piece = b"".join(BROKEN.splitlines(keepends=True)[10:22])
    trees = {
        "1.0": {"pkg/a.py": BROKEN, "pkg/util.py": b"import os\n", "pkg/same.py": b"x = 1\n"},
        "1.1": {
            "pkg/a.py": BROKEN.replace(piece, b""),
            "pkg/util.py": b"import os\n\n" + piece,
            "pkg/same.py": b"x = 1\n",
        },
    }
    found = why(patch_of("==1.0"), "1.1", trees)
    assert found.moved == (Moved("pkg/a.py", "pkg/util.py", 0, True, (5,)),)


def test_look_alike_that_was_always_there_is_no_move(patch_of: Callable[..., Patch], why: Callable[..., Why]) -> None:
    trees = {
        "1.0": {"pkg/a.py": BROKEN, "pkg/twin.py": BROKEN},
        "1.1": {"pkg/a.py": REWRITTEN, "pkg/twin.py": BROKEN},
    }
    assert why(patch_of("==1.0"), "1.1", trees).moved == ()


def test_first_broken_is_the_first_on_the_way_up(patch_of: Callable[..., Patch], why: Callable[..., Why]) -> None:
    good, bad = {"pkg/a.py": BROKEN}, {"pkg/a.py": REWRITTEN}
    trees = {"1.0": good, "1.1": {"pkg/a.py": b"# moved\n" + BROKEN}, "1.2": bad, "1.9": bad, "1.10": bad}
    patch = patch_of("==1.0")
    assert [why(patch, release, trees).first_broken for release in ("1.2", "1.9", "1.10")] == ["1.2", "1.2", "1.2"]


def test_first_broken_is_the_first_on_the_way_down(patch_of: Callable[..., Patch], why: Callable[..., Why]) -> None:
    good, bad = {"pkg/a.py": BROKEN}, {"pkg/a.py": REWRITTEN}
    trees = {"1.0": bad, "1.1": bad, "1.2": good, "1.9": good, "1.10": good}
    assert why(patch_of(">=1.9,<=1.10"), "1.0", trees).first_broken == "1.1"


def test_what_was_put_back_on_the_way_does_not_hide_where_it_broke(
    patch_of: Callable[..., Patch], why: Callable[..., Why]
) -> None:
    good, bad = {"pkg/a.py": BROKEN}, {"pkg/a.py": REWRITTEN}
    trees = {"1.0": good, "1.1": bad, "1.2": good, "1.9": good, "1.10": bad}
    assert why(patch_of("==1.0"), "1.10", trees).first_broken == "1.1"


def test_release_on_the_way_that_has_the_fix_is_not_broken(
    patch_of: Callable[..., Patch], why: Callable[..., Why]
) -> None:
    trees = {"1.0": {"pkg/a.py": BROKEN}, "1.1": {"pkg/a.py": FIXED}, "1.2": {"pkg/a.py": REWRITTEN}}
    assert why(patch_of("==1.0"), "1.2", trees).first_broken == "1.2"


def test_range_that_is_too_wide_is_told_from_where_it_works(
    patch_of: Callable[..., Patch], why: Callable[..., Why]
) -> None:
    good, bad = {"pkg/a.py": BROKEN}, {"pkg/a.py": REWRITTEN}
    trees = {"1.0": good, "1.1": good, "1.2": bad, "1.9": bad}
    assert why(patch_of(">=1.0,<=1.9"), "1.9", trees).first_broken == "1.2"


def test_variant_that_goes_in_nowhere_has_no_first(patch_of: Callable[..., Patch], why: Callable[..., Why]) -> None:
    trees = {"1.0": {"pkg/a.py": REWRITTEN}, "1.1": {"pkg/a.py": REWRITTEN}}
    found = why(patch_of(">=1.0,<=1.1"), "1.1", trees)
    assert (found.first_broken, found.moved) == (None, ())


def test_patch_that_goes_in_without_those_before_it_is_told_so(
    patch_of: Callable[..., Patch], why: Callable[..., Why]
) -> None:
    found = why(patch_of("==1.0"), "1.1", {"1.0": {"pkg/a.py": BROKEN}, "1.1": {"pkg/a.py": BROKEN}})
    assert (found.alone, found.first_broken) == (True, None)


def test_file_of_evidence_that_moved_is_found_with_the_line(
    patch_folder: Callable[..., Path], upstream: Upstream, why: Callable[..., Why]
) -> None:
    line = '[[variant]]\nreleases = "==1.0"\nupstream = [{ file = "pkg/a.py", line = "return 7  # whole" }]\n'
    patch = read_patch(patch_folder(line), upstream)
    found = why(patch, "1.1", {"1.0": {"pkg/a.py": FIXED}, "1.1": {"new/b.py": FIXED}})
    assert found.moved == (Moved("pkg/a.py", "new/b.py", 100, True, (16,)),)


def test_file_that_moved_early_and_changed_since_is_followed_from_release_to_release(
    patch_of: Callable[..., Patch], why: Callable[..., Why]
) -> None:
    rows = BROKEN.splitlines(keepends=True)
    other = b"".join(line if index in (14, 15) else b"# rewritten %d\n" % index for index, line in enumerate(rows))
    half = b"".join(line if index < 28 else b"# rewritten %d\n" % index for index, line in enumerate(rows))
    trees = {
        "1.0": {"pkg/a.py": BROKEN},
        "1.1": {"new/b.py": BROKEN},
        "1.2": {"new/b.py": half},
        "1.9": {"new/b.py": other},
    }
    assert [(item.path, item.to, item.similarity) for item in why(patch_of("==1.0"), "1.9", trees).moved] == [
        ("pkg/a.py", "new/b.py", 100)
    ]


def test_two_patches_with_evidence_for_the_same_range_are_told_apart(
    bench: Store, make_tree: Callable[..., str], patch_folder: Callable[..., Path], upstream: Upstream
) -> None:
    text = '[[variant]]\nreleases = "==1.0"\nupstream = [{{ file = "a.py", line = "{line}" }}]\n'
    there, gone = (
        read_patch(patch_folder(text.format(line=line), id=line), upstream).variants[0] for line in ("kept", "lost")
    )
    trees = {"1.0": make_tree({"a.py": b"kept\nlost\n"}), "1.1": make_tree({"a.py": b"kept\n"})}
    explainer = Explainer(bench, trees, lambda donor: b"")
    assert explainer.why("1.1", there).first_broken is None
    assert explainer.why("1.1", gone).first_broken == "1.1"
