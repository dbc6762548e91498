"""What becomes of patches on trees: all eight outcomes, and what a series makes of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from patchset.errors import SeriesError
from patchset.outcome import Outcome, apply_diff
from patchset.patch import Donor, Patch, read_patch
from patchset.series import Applied, apply_series, check_compiles, require
from patchset.store import Store
from patchset.upstream import Upstream

MakeTree = Callable[..., str]
GitDiff = Callable[..., bytes]
MakePatch = Callable[..., Patch]

OLD = b"".join(b"line %d\n" % number for number in range(1, 31))
NEW = OLD.replace(b"line 15\n", b"LINE 15\n")
#: Two hunks.
NEW_TWO = OLD.replace(b"line 5\n", b"LINE 5\n").replace(b"line 25\n", b"LINE 25\n")


def no_donor(donor: Donor) -> bytes:
    raise AssertionError(f"nobody asked for {donor.path}")


@pytest.fixture
def become(
    bench: Store, make_tree: MakeTree, git_diff: GitDiff, tmp_path: Path
) -> Callable[..., tuple[Outcome, tuple[str, ...], str, str]]:
    """(old files, new files, files of the tree it is tried on) → outcome, evidence, tree before, tree after."""

    def run(
        old: dict[str, object],
        new: dict[str, object],
        on: dict[str, object],
        edit: Callable[[bytes], bytes] = lambda data: data,
    ) -> tuple[Outcome, tuple[str, ...], str, str]:
        file = tmp_path / "x.patch"
        file.write_bytes(edit(git_diff(make_tree(old), make_tree(new), "--binary", "--find-renames")))
        tree = make_tree(on)
        became = apply_diff(bench, tree, file)
        assert apply_diff(bench, tree, file, verify=False) == became, "git and this tool differ"
        return became.outcome, became.evidence, tree, became.tree

    return run


def without_ids(data: bytes) -> bytes:
    """The diff as one would get it by mail: nothing in the store goes by these ids."""
    return b"\n".join(
        b"index 1111111..2222222 100644" if line.startswith(b"index ") else line for line in data.split(b"\n")
    )


# -- outcomes of a diff -------------------------------------------------------------------------------------------------


def test_applies_at_its_lines(become: Callable[..., object], make_tree: MakeTree) -> None:
    assert become({"f": OLD}, {"f": NEW}, {"f": OLD, "g": b"x\n"}) == (
        Outcome.APPLIES,
        ("at the lines it names",),
        make_tree({"f": OLD, "g": b"x\n"}),
        make_tree({"f": NEW, "g": b"x\n"}),
    )


@pytest.mark.parametrize(("before", "offset"), [(b"x\n" * 3, "+3"), (b"", "+0")])
def test_applies_with_its_offset_told(
    before: bytes, offset: str, become: Callable[..., tuple[object, ...]], make_tree: MakeTree
) -> None:
    outcome, evidence, _, after = become({"f": OLD}, {"f": NEW}, {"f": before + OLD})
    assert (outcome, after) == (Outcome.APPLIES, make_tree({"f": before + NEW}))
    assert evidence == ((f"f, hunk 1 (line 12): offset {offset}",) if before else ("at the lines it names",))


def test_merges_where_the_context_changed_and_the_old_file_is_known(
    become: Callable[..., tuple[object, ...]], make_tree: MakeTree
) -> None:
    """No fuzz: without the old file's id the same change is a conflict."""
    on = {"f": OLD.replace(b"line 13\n", b"other 13\n")}
    outcome, evidence, _, after = become({"f": OLD}, {"f": NEW}, on)
    assert (outcome, after) == (Outcome.MERGES, make_tree({"f": on["f"].replace(b"line 15\n", b"LINE 15\n")}))
    assert evidence == ("f, hunk 1 (line 12): its old lines are not there",)
    outcome, _, tree, after = become({"f": OLD}, {"f": NEW}, on, without_ids)
    assert (outcome, after) == (Outcome.CONFLICTS, tree)


def test_renamed_file_is_a_conflict_and_not_guessed_at(become: Callable[..., tuple[object, ...]]) -> None:
    outcome, evidence, tree, after = become({"f": OLD}, {"f": NEW}, {"g": OLD})
    assert (outcome, after) == (Outcome.CONFLICTS, tree)
    assert "f, hunk 1 (line 12): the file is not there" in evidence


def test_conflicts_names_files_and_hunks(become: Callable[..., tuple[object, ...]]) -> None:
    outcome, evidence, tree, after = become({"f": OLD}, {"f": NEW_TWO}, {"f": OLD.replace(b"line 25\n", b"other\n")})
    assert (outcome, after) == (Outcome.CONFLICTS, tree)
    assert evidence == ("three-way merge: f conflicts", "f, hunk 2 (line 22): its old lines are not there")


def test_file_that_is_not_there_is_a_conflict_and_never_upstream(become: Callable[..., tuple[object, ...]]) -> None:
    outcome, evidence, tree, after = become({"f": OLD}, {"f": NEW}, {"g": b"x\n"}, without_ids)
    assert (outcome, after, evidence) == (Outcome.CONFLICTS, tree, ("f, hunk 1 (line 12): the file is not there",))


def test_upstream_is_proved_by_its_lines(become: Callable[..., tuple[object, ...]]) -> None:
    outcome, evidence, tree, after = become({"f": OLD}, {"f": NEW_TWO}, {"f": b"x\n" + NEW_TWO})
    assert (outcome, after) == (Outcome.UPSTREAM, tree)
    assert evidence == ("f, hunk 1 (line 2) is in at line 3", "f, hunk 2 (line 22) is in at line 23")


def test_upstream_for_a_mode_that_is_set_already(become: Callable[..., tuple[object, ...]]) -> None:
    """git applies a change of mode to a file that has the new mode, with status 0 and no change."""
    outcome, _, tree, after = become({"f": OLD}, {"f": ("100755", OLD)}, {"f": ("100755", OLD)})
    assert (outcome, after) == (Outcome.UPSTREAM, tree)


def test_partial_lists_which_hunks_are_in(become: Callable[..., tuple[object, ...]]) -> None:
    outcome, evidence, tree, after = become({"f": OLD}, {"f": NEW_TWO}, {"f": OLD.replace(b"line 5\n", b"LINE 5\n")})
    assert (outcome, after) == (Outcome.PARTIAL, tree)
    assert evidence == ("f, hunk 1 (line 2): in at line 2", "f, hunk 2 (line 22): not in")


def test_partial_where_a_new_file_is_still_missing(become: Callable[..., tuple[object, ...]]) -> None:
    outcome, evidence, tree, after = become({"f": OLD}, {"f": NEW, "g": b"x\n"}, {"f": NEW})
    assert (outcome, after) == (Outcome.PARTIAL, tree)
    assert evidence == ("f, hunk 1 (line 12): in at line 12", "g, hunk 1 (line 0): not in")


def test_ambiguous_where_a_hunk_fits_twice_names_the_lines(become: Callable[..., tuple[object, ...]]) -> None:
    block = b"a\nb\nc\nd\ne\nf\ng\n"
    outcome, evidence, tree, after = become(
        {"f": b"0\n" + block + b"1\n"},
        {"f": b"0\n" + block.replace(b"d", b"D") + b"1\n"},
        {"f": b"0\n" + block + block + b"1\n"},
    )
    assert (outcome, after, evidence) == (Outcome.AMBIGUOUS, tree, ("f, hunk 1 (line 2) fits at lines 2, 9",))


def test_ambiguous_hunk_is_seen_in_a_file_with_a_latin1_name(become: Callable[..., tuple[object, ...]]) -> None:
    block, name = b"a\nb\nc\nd\ne\nf\ng\n", "\udcfc"
    outcome, *_ = become(
        {name: b"0\n" + block + b"1\n"},
        {name: b"0\n" + block.replace(b"d", b"D") + b"1\n"},
        {name: b"0\n" + block * 2 + b"1\n"},
    )
    assert outcome is Outcome.AMBIGUOUS


def test_ambiguous_where_it_applies_forward_and_backward(become: Callable[..., tuple[object, ...]]) -> None:
    old, new = b"0\n0\na\nb\nc\nx\ny\nz\n1\n", b"0\n0\na\nb\nc\nNEW\nx\ny\nz\n1\n"
    outcome, evidence, tree, after = become({"f": old}, {"f": new}, {"f": new + old})
    assert (outcome, after) == (Outcome.AMBIGUOUS, tree)
    assert "both forward and backward" in evidence[0]


def test_whitespace_is_never_ignored(become: Callable[..., tuple[object, ...]]) -> None:
    """A tolerant tool moves Python code into another block this way."""
    outcome, _, tree, after = become({"f": OLD}, {"f": NEW}, {"f": OLD.replace(b"line", b"  line")}, without_ids)
    assert (outcome, after) == (Outcome.CONFLICTS, tree)


# -- patches with variants ----------------------------------------------------------------------------------------------


@pytest.fixture
def make_patch(patch_folder: Callable[..., Path], upstream: Upstream) -> MakePatch:
    def make(variant: str, files: dict[str, bytes] | None = None, id: str = "p") -> Patch:
        return read_patch(patch_folder(f'[[variant]]\nreleases = "==1.0"\n{variant}', files, id=id), upstream)

    return make


@pytest.fixture
def series(bench: Store) -> Callable[..., Applied]:
    def run(tree: str, *patches: Patch, donor_file: Callable[[Donor], bytes] = no_donor) -> Applied:
        base = bench.commit(tree, (), "base", datetime(2026, 1, 1, tzinfo=timezone.utc))
        return apply_series(bench, tree, "1.0", patches, base, donor_file)

    return run


@pytest.fixture
def diff_of(make_tree: MakeTree, git_diff: GitDiff) -> Callable[..., bytes]:
    return lambda old, new: git_diff(make_tree(old), make_tree(new))


def test_upstream_variant_shows_the_line_of_its_evidence(
    make_patch: MakePatch, make_tree: MakeTree, series: Callable[..., Applied]
) -> None:
    patch = make_patch('upstream = [{ file = "f", line = "LINE 15" }]\nnote = "n"\n')
    (step,) = series(make_tree({"f": b"\t" + NEW.replace(b"LINE 15", b"   LINE 15 \t")}), patch).steps
    assert (step.outcome, step.evidence, step.touched) == (Outcome.UPSTREAM, ("n", "f:15: LINE 15"), ())


def test_upstream_evidence_that_is_not_there_is_a_conflict(
    make_patch: MakePatch, make_tree: MakeTree, series: Callable[..., Applied]
) -> None:
    """Part of a line is not the line, and a missing file is not a fix."""
    patch = make_patch('upstream = [{ file = "f", line = "LINE 1" }, { file = "g", line = "x" }]\n')
    (step,) = series(make_tree({"f": NEW}), patch).steps
    assert step.outcome is Outcome.CONFLICTS
    assert [line.split(" has no line ")[0] for line in step.evidence] == ["f", "g"]


@pytest.mark.parametrize(
    ("absent", "outcome", "words"),
    [
        ('{ file = "g" }', Outcome.ABSENT, "no g"),
        ('{ file = "f", symbol = "zzz" }', Outcome.ABSENT, "no `zzz` in f"),
        ('{ file = "g", symbol = "zzz" }', Outcome.ABSENT, "no g, so no `zzz` there"),
        ('{ file = "f" }', Outcome.CONFLICTS, "f is there"),
        ('{ file = "f", symbol = "line 7" }', Outcome.CONFLICTS, "f:7 has `line 7`"),
    ],
)
def test_absent_variant_must_be_true_of_the_tree(
    absent: str,
    outcome: Outcome,
    words: str,
    make_patch: MakePatch,
    make_tree: MakeTree,
    series: Callable[..., Applied],
) -> None:
    (step,) = series(make_tree({"f": OLD}), make_patch(f"absent = [{absent}]\n")).steps
    assert step.outcome is outcome
    assert words in step.evidence[0]


def test_donor_file_is_put_in_place_before_the_diff(
    make_patch: MakePatch, make_tree: MakeTree, series: Callable[..., Applied], diff_of: Callable[..., bytes]
) -> None:
    patch = make_patch(
        'diff = "a.patch"\ndonors = [{ release = "1.1", path = "d/x", to = "e/x", sha256 = "%s" }]\n' % ("ab" * 32),
        {"a.patch": diff_of({"f": OLD, "e/x": OLD}, {"f": NEW, "e/x": NEW})},
    )
    applied = series(make_tree({"f": OLD}), patch, donor_file=lambda donor: OLD)
    assert applied.tree == make_tree({"f": NEW, "e/x": NEW})
    assert applied.steps[0].evidence[0] == "e/x from 1.1, sha256 abababababab…"


def test_donor_that_would_replace_a_file_is_a_conflict(
    make_patch: MakePatch, make_tree: MakeTree, series: Callable[..., Applied]
) -> None:
    patch = make_patch('donors = [{ release = "1.1", path = "f", sha256 = "%s" }]\n' % ("ab" * 32))
    (step,) = series(make_tree({"f": OLD}), patch, donor_file=lambda donor: b"x").steps
    assert (step.outcome, step.touched) == (Outcome.CONFLICTS, ())


def test_donor_is_not_left_over_when_its_diff_conflicts(
    make_patch: MakePatch, make_tree: MakeTree, series: Callable[..., Applied], diff_of: Callable[..., bytes]
) -> None:
    patch = make_patch(
        'diff = "a.patch"\ndonors = [{ release = "1.1", path = "x", sha256 = "%s" }]\n' % ("ab" * 32),
        {"a.patch": without_ids(diff_of({"f": OLD}, {"f": NEW}))},
    )
    tree = make_tree({"f": b"other\n"})
    applied = series(tree, patch, donor_file=lambda donor: b"x")
    assert (applied.steps[0].outcome, applied.tree) == (Outcome.CONFLICTS, tree)


def test_patches_build_on_each_other_one_commit_each(
    make_patch: MakePatch,
    make_tree: MakeTree,
    series: Callable[..., Applied],
    diff_of: Callable[..., bytes],
    bench: Store,
) -> None:
    last = NEW.replace(b"line 16", b"LINE 16")
    one = make_patch('diff = "a.patch"\n', {"a.patch": diff_of({"f": OLD}, {"f": NEW})}, id="one")
    two = make_patch('diff = "a.patch"\n', {"a.patch": diff_of({"f": NEW}, {"f": last, "g": b"x\n"})}, id="two")
    applied = series(make_tree({"f": OLD}), one, two)
    assert (applied.tree, applied.touched) == (make_tree({"f": last, "g": b"x\n"}), ("f", "g"))
    assert bench.run("rev-list", "--count", applied.commit) == b"3\n"
    assert b"\n\nPatch: two\n" in bench.run("cat-file", "commit", applied.commit)
    assert b"committer patchset <patchset@localhost> 1795996800 +0000" in bench.run(
        "cat-file", "commit", applied.commit
    )


def test_patch_that_fails_leaves_the_tree_and_the_next_is_tried(
    make_patch: MakePatch, make_tree: MakeTree, series: Callable[..., Applied], diff_of: Callable[..., bytes]
) -> None:
    good = diff_of({"f": OLD}, {"f": NEW})
    refused = make_patch('diff = "a.patch"\n', {"a.patch": good[:-1]}, id="refused")
    broken = make_patch(
        'diff = "a.patch"\n', {"a.patch": without_ids(diff_of({"f": b"0\n" + NEW}, {"f": b"1\n" + NEW}))}, id="broken"
    )
    fine = make_patch('diff = "a.patch"\n', {"a.patch": good}, id="fine")
    applied = series(make_tree({"f": OLD}), refused, broken, fine)
    assert [step.outcome for step in applied.steps] == [Outcome.REFUSED, Outcome.CONFLICTS, Outcome.APPLIES]
    assert applied.tree == make_tree({"f": NEW})
    assert applied.steps[0].commit == applied.steps[1].commit == applied.base_commit
    with pytest.raises(SeriesError, match=r"refused \(refused\), broken \(conflicts\): not applied") as error:
        require(applied)
    assert "refused/a.patch:" in error.value.detail


def test_series_where_nothing_stops_is_good(
    make_patch: MakePatch, make_tree: MakeTree, series: Callable[..., Applied], diff_of: Callable[..., bytes]
) -> None:
    applied = series(
        make_tree({"f": OLD}),
        make_patch('diff = "a.patch"\n', {"a.patch": diff_of({"f": OLD}, {"f": NEW})}, id="a"),
        make_patch('absent = [{ file = "z" }]\n', id="b"),
    )
    require(applied)
    assert [step.outcome.changes_tree for step in applied.steps] == [True, False]


def test_outcomes_that_stop_are_all_but_four() -> None:
    assert {outcome.value for outcome in Outcome if not outcome.stops} == {"applies", "merges", "upstream", "absent"}


@pytest.mark.parametrize(
    "source",
    [b"def f(:\n", b"return 1\n", b"for x in y:\n    pass\nbreak\n", b"def f(a, a): pass\n", b"x = '\xff'\n", b"x\0\n"],
    ids=["syntax", "return outside", "break outside", "argument twice", "not UTF-8", "NUL"],
)
def test_touched_python_file_that_does_not_compile_is_named(source: bytes, make_tree: MakeTree, bench: Store) -> None:
    tree = make_tree({"d/good.py": b"x = 1\n", "d/bad.py": source, "d/bad.txt": source})
    check_compiles(bench, tree, ("d/good.py", "d/bad.txt", "d/gone.py"))
    with pytest.raises(SeriesError, match=r"d/bad\.py does not compile") as error:
        check_compiles(bench, tree, ("d/good.py", "d/bad.py"))
    assert error.value.where.startswith("d/bad.py:")
