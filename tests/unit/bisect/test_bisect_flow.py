"""One release, series that differ: the culprit, the pair, the flaky test, ends that are none, and what says nothing."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from made_bisect import (
    Coin,
    Lab,
    adding,
    again,
    answer,
    document,
    ids,
    numbered,
    replacing,
    write,
    write_recipe,
)

from patchset.bisect import flow, task
from patchset.bisect.record import Question
from patchset.console import Console
from patchset.errors import BisectError, DeclarationError, LockError
from patchset.receipt import write_receipt
from patchset.resolve import Project, relock

# -- one culprit -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sixty_four(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """p01 to p64, each with a file of its own."""
    return numbered(tmp_path_factory.mktemp("sixty-four") / "clone", 64)


def test_one_of_64_patches_is_found_in_six_tests_after_the_ends(sixty_four: Project) -> None:
    for culprit in random.Random(4).sample(range(1, 65), 20):
        made = document(sixty_four, test=f"test ! -e f{culprit:02}.py")
        found = made["answer"]
        assert (found["kind"], found["axis"], ids(found["patches"])) == ("change", "patches", [f"p{culprit:02}"])
        assert found["tests"] <= found["bound"] == 6
        assert found["changes"] == 64
        assert [step["role"] for step in made["steps"]] == ["good end", "bad end", *["patches"] * found["tests"]]
        assert not any(step["known"] for step in made["steps"])
        assert found["patches"][0]["files"] == [{"path": f"f{culprit:02}.py", "added": "1", "removed": "0"}]
        assert len(found["good"]["patches"]) == culprit - 1
        assert len(found["bad"]["patches"]) == culprit


def test_two_jobs_find_the_same(sixty_four: Project) -> None:
    for culprit in (1, 23, 64):
        found = answer(sixty_four, test=f"sleep 0.01; test ! -e f{culprit:02}.py", jobs=2)
        assert (found["kind"], ids(found["patches"])) == ("change", [f"p{culprit:02}"])


def test_what_was_run_is_known_and_not_run_again(sixty_four: Project, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    test = f"echo $PATCHSET_TREE >> {ran}; test ! -e f40.py"
    first = document(sixty_four, test=test)
    before = ran.read_text().splitlines()
    second = document(sixty_four, test=test)
    assert ran.read_text().splitlines() == before
    assert len(before) == len(set(before)) == 8
    assert second["answer"]["patches"] == first["answer"]["patches"]
    assert all(step["known"] for step in second["steps"])
    document(sixty_four, test=test, fresh=True)
    assert ran.read_text().splitlines() == before * 2


def test_another_script_is_another_test(sixty_four: Project, tmp_path: Path) -> None:
    """The command is the same; what it names is not."""
    script = tmp_path / "test.sh"
    for culprit in (9, 31):
        script.write_text(f"test ! -e f{culprit:02}.py\n")
        assert ids(answer(sixty_four, test=f"sh {script}")["patches"]) == [f"p{culprit:02}"]


def test_command_sees_tree_and_step_in_a_worktree_that_holds_only_the_tree(sixty_four: Project, tmp_path: Path) -> None:
    out = tmp_path / "out"
    test = (
        f'echo "$PATCHSET_STEP $PATCHSET_RECIPE $PATCHSET_RELEASE $PATCHSET_TREE $PATCHSET_PATCHES" >> {out}; '
        f"ls f*.py 2>/dev/null | wc -l >> {out}; touch left.py f99.py; mkdir -p deep; git init -q deep; test ! -e f03.py"
    )
    made = document(sixty_four, bad="4", test=test)
    lines = out.read_text().splitlines()
    for step, said, files in zip(made["steps"], lines[::2], lines[1::2], strict=True):
        words = said.split(" ")
        assert words == [str(step["number"]), "r", "1.0", step["tree"], ",".join(step["patches"])]
        assert int(files) == len(step["patches"])


def test_ends_can_be_positions_patches_and_lists(sixty_four: Project) -> None:
    for good, bad in (("base", "r"), ("0", "64"), ("p09", "p11"), ("r:9", "r:p12"), ("r:p01,p02", "r:p01,p10,p11")):
        assert ids(answer(sixty_four, good, bad, test="test ! -e f10.py")["patches"]) == ["p10"]


def test_end_that_names_nothing_is_an_error_that_lists_what_could_be_named(sixty_four: Project) -> None:
    for ref in ("65", "nothing", "r:nothing", "r:p01,nothing", "0.9"):
        with pytest.raises(DeclarationError) as caught:
            answer(sixty_four, "base", ref, test="true")
        assert "p64" in caught.value.what


def test_step_can_be_run_again_by_what_the_answer_says(sixty_four: Project) -> None:
    made = document(sixty_four, test="test ! -e f05.py; echo over; test ! -e f05.py")
    for name, verdict in (("good", "good"), ("bad", "bad")):
        words = made["answer"][name]["again"].split()
        at = words[words.index("--at") + 1]
        single = task.run(
            sixty_four,
            Question("r", "", "", at=at, test="test ! -e f05.py; echo over; test ! -e f05.py"),
            task.Wish(fresh=True),
            Console(),
        )
        assert single is not None
        assert single["answer"]["kind"] == "step"
        assert single["answer"]["step"]["verdict"] == verdict
        assert single["answer"]["step"]["tree"] == made["answer"][name]["tree"]
        assert Path(single["answer"]["step"]["log"]).read_text() == "over\n"


# -- sets --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """p01 to p12, each with a file of its own."""
    return numbered(tmp_path_factory.mktemp("twelve") / "clone", 12)


@pytest.mark.parametrize("pair", [(1, 2), (3, 11), (6, 7), (1, 12)])
def test_two_that_fail_only_together_are_named_and_no_other(twelve: Project, pair: tuple[int, int]) -> None:
    test = " || ".join(f"test ! -e f{number:02}.py" for number in pair)
    found = answer(twelve, test=test, minimize=True)
    assert (found["kind"], ids(found["patches"])) == ("set", [f"p{number:02}" for number in pair])
    assert found["cured"] == []
    assert [item["verdict"] for item in found["without"]] == ["good", "good"]
    assert found["bad"]["verdict"] == "bad"
    assert found["bad"]["patches"] == ids(found["patches"])


def test_without_minimize_the_second_of_the_pair_is_where_it_turns(twelve: Project) -> None:
    assert ids(answer(twelve, test="test ! -e f03.py || test ! -e f08.py")["patches"]) == ["p08"]


def test_one_that_fails_only_without_another_is_named_with_what_cures_it(twelve: Project) -> None:
    bad = "r:" + ",".join(f"p{number:02}" for number in range(1, 13) if number != 4)
    found = answer(twelve, "r", bad, test="test ! -e f09.py || test -e f04.py", minimize=True)
    assert (found["kind"], ids(found["patches"]), ids(found["cured"])) == ("set", ["p09"], ["p04"])


def test_patch_that_goes_in_only_on_another_is_named_with_it(tmp_path: Path) -> None:
    """c changes what b made: without b it cannot be applied, which is no reason to leave b out."""
    diffs = {"a": adding("a1.py", "x = 1"), "b": adding("b1.py", "x = 1"), "c": replacing("b1.py", "x = 1", "x = 2")}
    project = write(tmp_path / "clone", {**diffs, "d": adding("d1.py", "x = 1")})
    made = document(project, test="! grep -q 'x = 2' b1.py", minimize=True)
    assert ids(made["answer"]["patches"]) == ["b", "c"]
    without = {item["patch"]: item["verdict"] for item in made["answer"]["without"]}
    assert without == {"b": "cannot-apply", "c": "good"}
    assert "cannot-apply" in {step["verdict"] for step in made["steps"]}


def test_fault_of_the_release_itself_needs_no_patch(tmp_path: Path) -> None:
    """The good end has the patch that mends it; the bad end, others."""
    project = write(tmp_path / "clone", {"mend": replacing("a.py", "a = 1", "a = 2"), "b": adding("b1.py", "x = 1")})
    with pytest.raises(BisectError, match="without any patch"):
        answer(project, "mend", "r:b,b", test="grep -q 'a = 2' a.py", minimize=True)


def test_drop_one_names_each_that_makes_it_go_away(twelve: Project) -> None:
    found = answer(twelve, "", "r", test="test ! -e f03.py || test ! -e f08.py", drop_one=True)
    assert (found["kind"], found["cure"]) == ("dropped", ["p03", "p08"])
    assert [item["patch"] for item in found["without"]] == [f"p{number:02}" for number in range(1, 13)]
    none = answer(twelve, "", "r", test="test ! -e f03.py && test ! -e f08.py", drop_one=True)
    assert none["cure"] == []


def test_drop_one_of_a_good_end_is_an_error(twelve: Project) -> None:
    with pytest.raises(BisectError, match="not bad"):
        answer(twelve, "", "r", test="true", drop_one=True)


# -- flaky tests -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab(sixty_four: Project, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Sessions on the 64 patches, for tests that are no processes."""
    return Lab(sixty_four, tmp_path_factory.mktemp("lab"))


def named(found: flow.Found) -> list[str]:
    """The suspects."""
    return [edit.id for edit in found.edits[found.good + 1 : found.bad + 1] if edit]


def flaky(lab: Lab, coin: Coin, jobs: int = 1) -> flow.Found | None:
    """Where it turns, with five runs a tree; None where that ended as an error."""
    session = lab.session(coin, repeat=5, jobs=jobs)
    good, bad = lab.point("base"), lab.point("r")
    try:
        flow.verify(session, good.state(), bad.state())
        return flow.over_patches(session, good, bad)
    except BisectError:
        return None


@pytest.mark.parametrize(("bad", "good"), [(1 / 3, 0.0), (1.0, 1 / 3)], ids=["on the bad side only", "on both sides"])
def test_flaky_test_names_the_right_patch_or_none(lab: Lab, bad: float, good: float) -> None:
    ends = []
    for seed in range(40):
        culprit = f"p{random.Random(seed).randrange(1, 65):02}"
        found = flaky(lab, Coin(seed, [culprit], bad, good))
        assert found is None or found.kind == "flaky" or (found.kind, named(found)) == ("change", [culprit])
        ends.append(found is not None and found.kind == "change")
    assert sum(ends) >= 30  # it is no answer to give up


def test_flaky_test_that_often_says_nothing_leaves_a_span_with_the_culprit_in_it(lab: Lab) -> None:
    spans = 0
    for seed in range(30):
        chance = random.Random(seed)
        culprit = f"p{chance.randrange(1, 65):02}"
        silent = [position for position in range(1, 64) if chance.random() < 0.4]
        found = flaky(lab, Coin(seed, [culprit], 1 / 3, 0.0, silent))
        assert found is None or found.kind == "flaky" or culprit in named(found)
        spans += found is not None and found.kind == "span"
    assert spans > 5


def test_flaky_test_side_by_side_names_the_right_patch_or_none(lab: Lab) -> None:
    for seed in range(8):
        culprit = f"p{random.Random(seed).randrange(1, 65):02}"
        found = flaky(lab, Coin(seed, [culprit], 1 / 3), jobs=2)
        assert found is None or found.kind == "flaky" or (found.kind, named(found)) == ("change", [culprit])


def test_test_that_fails_as_often_at_both_ends_is_flaky_and_names_nothing(lab: Lab) -> None:
    for seed in range(10):
        assert flaky(lab, Coin(seed, ["p20"], 0.5, 0.5)) is None


def test_flaky_test_is_run_until_a_set_is_sure_or_says_that_it_is_not(twelve: Project, tmp_path: Path) -> None:
    lab, right = Lab(twelve, tmp_path), 0
    for seed in range(6):
        good, bad = lab.point("base"), lab.point("r")
        session = lab.session(Coin(seed, ["p03", "p08"], 1 / 3), repeat=5)
        try:
            flow.verify(session, good.state(), bad.state())
            least = [element.id for element in flow.minimize(session, good, bad, bad.elements).patches]
        except BisectError:
            continue
        assert least == ["p03", "p08"]
        right += 1
    assert right > 2


def test_flaky_test_drops_none_that_is_not_needed(twelve: Project, tmp_path: Path) -> None:
    lab = Lab(twelve, tmp_path)
    for seed in range(6):
        session = lab.session(Coin(seed, ["p03"], 1 / 3), repeat=5)
        if session.judge(lab.point("r").state(), "bad end").failed:
            good = [
                item.element.id
                for item in flow.drop_one(session, lab.point("r"))
                if not session.tally(item.state).failed
            ]
            assert good == ["p03"]


_THIRD = "n=$(cat {count} 2>/dev/null || echo 0); echo $((n + 1)) > {count}; third=$(((n * 7 + 1) % 3)); "


@pytest.mark.parametrize(
    "test",
    ["test ! -e f05.py || test $third -ne 0", "test ! -e f05.py && test $third -ne 0"],
    ids=["on the bad side only", "on both sides"],
)
def test_flaky_command_names_the_right_patch(twelve: Project, tmp_path: Path, test: str) -> None:
    """A real command, which fails each third time that it is called."""
    made = document(twelve, test=_THIRD.format(count=tmp_path / "count") + test, repeat=5)
    assert (made["answer"]["kind"], ids(made["answer"]["patches"])) == ("change", ["p05"])
    assert "flaky" in {step["verdict"] for step in made["steps"]}
    assert "confirm" in {step["role"] for step in made["steps"]}


# -- ends that are none ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("test", "said"), [("false", "the good end is bad"), ("true", "the bad end is good")])
def test_end_that_is_not_what_it_is_called_ends_it_after_two_runs(
    twelve: Project, tmp_path: Path, test: str, said: str
) -> None:
    ran = tmp_path / "ran"
    with pytest.raises(BisectError, match=said):
        answer(twelve, test=f"echo run >> {ran}; {test}")
    assert ran.read_text() == "run\n" * 2


def test_ends_the_wrong_way_round_are_told(twelve: Project) -> None:
    with pytest.raises(BisectError, match="the good end is bad"):
        answer(twelve, "r", "base", test="test ! -e f03.py")


def test_end_of_which_nothing_can_be_said_ends_it(twelve: Project) -> None:
    for test, name in (("exit 125", "good end"), ("test ! -e f01.py || exit 125", "bad end")):
        with pytest.raises(BisectError, match=f"nothing can be said of the {name}: skipped, status 125"):
            answer(twelve, test=test)


def test_both_ends_one_tree_is_no_question(twelve: Project, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for good, bad in (("r", "12"), ("base", "0"), ("p03", "r:1,2,3".replace("1,2,3", "p01,p02,p03"))):
        with pytest.raises(DeclarationError, match="one tree"):
            answer(twelve, good, bad, test=f"echo run >> {ran}")
    assert not ran.exists()


def test_after_an_end_that_was_none_a_new_question_can_be_asked(twelve: Project) -> None:
    with pytest.raises(BisectError):
        answer(twelve, test="false")
    assert ids(answer(twelve, test="test ! -e f02.py")["patches"]) == ["p02"]


# -- what says nothing -------------------------------------------------------------------------------------------------


def silenced(project: Project, how: str, first: int, last: int, culprit: int, **flags: Any) -> dict[str, Any]:
    """*how* is what a test does where the last patch is one from *first* to *last*; else p*culprit* is the fault."""
    test = f"if test -e f{first:02}.py && ! test -e f{last + 1:02}.py; then {how}; fi; test ! -e f{culprit:02}.py"
    return document(project, test=test, **flags)


_SILENT = [
    ("exit 125", "status 125: skip"),
    ("kill -9 $$", "ended by SIGKILL"),
    ("kill -TERM $$", "ended by SIGTERM"),
    ("sh -c 'kill -SEGV $$'; exit $?", "ended by SIGSEGV"),
    ("sleep 60", "no end after 0.3 s"),
]


@pytest.mark.parametrize(("how", "said"), _SILENT, ids=[how for how, _ in _SILENT])
def test_transition_among_steps_that_say_nothing_is_a_span_that_names_all_of_them(
    twelve: Project, how: str, said: str
) -> None:
    made = silenced(twelve, how, 5, 7, 6, timeout=0.3 if how.startswith("sleep") else 60.0)
    found = made["answer"]
    assert found["kind"] == "span"
    assert ids(found["patches"]) == ["p05", "p06", "p07", "p08"]
    assert [item["label"] for item in found["between"]] == ["with p05 added", "with p06 added", "with p07 added"]
    assert all(said in item["why"] for item in found["between"])
    assert (found["good"]["patches"][-1], found["bad"]["patches"][-1]) == ("p04", "p08")
    silent = [step for step in made["steps"] if step["label"] in [item["label"] for item in found["between"]]]
    assert [step["verdict"] for step in silent] == ["skipped"] * 3
    assert all(said in step["reason"] for step in silent)


def test_steps_that_say_nothing_elsewhere_are_passed_by(twelve: Project) -> None:
    for culprit in (2, 4, 9, 12):
        found = silenced(twelve, "exit 125", 5, 7, culprit)["answer"]
        assert (found["kind"], ids(found["patches"])) == ("change", [f"p{culprit:02}"])


def test_hanging_test_is_killed_with_all_that_it_started(twelve: Project, tmp_path: Path) -> None:
    """What it started would go on for two seconds more, and write."""
    late = tmp_path / "late"
    began = time.monotonic()
    silenced(twelve, f"(sleep 2; echo late > {late}) & sleep 60", 5, 5, 9, timeout=0.3)
    time.sleep(max(0.0, 2.5 - (time.monotonic() - began)))
    assert not late.exists()


def test_patches_in_the_middle_that_clash_are_reported_and_leave_a_span(tmp_path: Path) -> None:
    """On the way from x to y, both stand side by side once, and both change one line."""
    diffs = {"k": adding("k.py", "x = 1"), "m": adding("m.py", "x = 1")}
    diffs |= {"x": replacing("a.py", "a = 1", "a = 2"), "y": replacing("a.py", "a = 1", "a = 3")}
    project = write(tmp_path / "clone", {**diffs, "b": adding("b1.py", "x = 1")})
    project = write_recipe(write_recipe(project, "good", ["k", "m", "x"]), "bad", ["k", "y", "m", "b"])
    made = document(project, "good", "bad", test="! grep -q 'a = 3' a.py")
    found = made["answer"]
    assert (found["kind"], found["changes"]) == ("span", 3)
    assert [(patch["edit"], patch["id"]) for patch in found["patches"]] == [("added", "y"), ("removed", "x")]
    assert [item["label"] for item in found["between"]] == ["with y added"]
    assert "a.py" in found["between"][0]["why"]
    assert [step["verdict"] for step in made["steps"] if step["label"] == "with y added"] == ["cannot-apply"]
    elsewhere = answer(project, "good", "bad", test="test ! -e b1.py")
    assert (elsewhere["kind"], ids(elsewhere["patches"])) == ("change", ["b"])


# -- edits between two series ------------------------------------------------------------------------------------------


def test_patch_that_is_not_there_any_more_is_named(twelve: Project) -> None:
    project = write_recipe(twelve, "fewer", [f"p{number:02}" for number in range(1, 13) if number not in (3, 8)])
    found = answer(project, "r", "fewer", test="test -e f08.py")
    assert [(patch["edit"], patch["id"]) for patch in found["patches"]] == [("removed", "p08")]
    assert found["changes"] == 2


def test_another_order_that_makes_the_same_tree_is_no_question(tmp_path: Path) -> None:
    project = write(tmp_path / "clone", {"p": adding("p.py", "x = 1"), "q": adding("q.py", "x = 1")})
    project = write_recipe(project, "other", ["q", "p"])
    with pytest.raises(DeclarationError, match="one tree"):
        answer(project, "r", "other", test="true")


def test_patches_that_change_nothing_here_are_no_steps(tmp_path: Path) -> None:
    """The release has what they do already."""
    empty = '\n[[variant]]\nreleases = "==1.0"\n[[variant.absent]]\nfile = "not/there.py"\n'
    project = write(tmp_path / "clone", {"p": adding("p.py", "x = 1"), "q": adding("q.py", "x = 1")})
    for name in ("n1", "n2", "n3"):
        shutil.copytree(project.workspace.patches / "p", project.workspace.patches / name)
        text = (project.workspace.patches / name / "patch.toml").read_text()
        (project.workspace.patches / name / "patch.toml").write_text(text.partition("\n[[variant]]")[0] + empty)
        (project.workspace.patches / name / "it.patch").unlink()
    project = write_recipe(again(project), "more", ["n1", "p", "n2", "q", "n3"])
    project = write_recipe(project, "r", ["p", "q"])
    found = answer(project, "base", "more", test="test ! -e q.py")
    assert (found["changes"], found["tests"], ids(found["patches"])) == (2, 1, ["q"])


# -- what a lock or a receipt remembers --------------------------------------------------------------------------------


@pytest.fixture
def aged(tmp_path: Path) -> Callable[[], tuple[Project, Path, Path]]:
    """A project whose patch b was changed after its lock and a receipt were written: (project, old lock, receipt)."""

    def make() -> tuple[Project, Path, Path]:
        diffs = {"a": adding("a1.py", "x = 1"), "b": adding("b1.py", "x = 1"), "c": adding("c1.py", "x = 1")}
        project = write(tmp_path / "clone", diffs)
        lock, _ = relock(project, project.recipe("r"), lambda text: None)
        old = tmp_path / "old" / "r.lock"
        old.parent.mkdir()
        shutil.copyfile(lock, old)
        receipt = write_receipt(
            tmp_path / "dist", {"finished": "2026-01-01T00:00:00Z", "lock": {"text": old.read_text("utf-8")}}
        )
        (project.workspace.patches / "b" / "it.patch").write_bytes(adding("b1.py", "x = 2"))
        return again(project), old, receipt

    return make


def test_patch_that_was_changed_since_the_lock_is_named(aged: Callable[[], tuple[Project, Path, Path]]) -> None:
    project, lock, receipt = aged()
    for ref in (lock, receipt):
        found = answer(project, str(ref), "r", test="! grep -q 'x = 2' b1.py")
        assert [(patch["edit"], patch["id"]) for patch in found["patches"]] == [("changed", "b")]
        assert found["patches"][0]["files"] == [{"path": "b1.py", "added": "1", "removed": "1"}]
        assert found["changes"] == 1
        back = answer(project, "r", str(ref), test="! grep -q 'x = 1' b1.py")
        assert [(patch["edit"], patch["id"]) for patch in back["patches"]] == [("changed", "b")]


def test_lock_has_positions_and_patches_too(aged: Callable[[], tuple[Project, Path, Path]]) -> None:
    project, lock, receipt = aged()
    found = answer(project, f"{lock}:base", str(lock), test="! grep -q 'x = 1' b1.py")
    assert ids(found["patches"]) == ["b"]
    assert ids(answer(project, f"{receipt}:1", f"{receipt}:b", test="test ! -e b1.py")["patches"]) == ["b"]
    alone = answer(project, f"{lock}:base", f"{lock}:b,c", test="test ! -e b1.py")
    assert ids(alone["patches"]) == ["b"]


def test_lock_of_a_patch_that_has_no_variant_here_any_more(aged: Callable[[], tuple[Project, Path, Path]]) -> None:
    project, lock, _ = aged()
    file = project.workspace.patches / "b" / "patch.toml"
    file.write_text(file.read_text().replace("==1.0", "==0.9"))
    upstreams = project.workspace.upstreams
    upstreams.write_text(upstreams.read_text() + _OLDER)
    write_recipe(project, "fewer", ["a", "c"])
    (project.workspace.recipes / "r.toml").unlink()
    (project.workspace.recipes / "fewer.toml").rename(project.workspace.recipes / "r.toml")
    found = answer(again(project), "r", str(lock), test="test ! -e b1.py")
    assert [(patch["edit"], patch["id"]) for patch in found["patches"]] == [("added", "b")]


_OLDER = f'\n[[vllm.release]]\nversion = "0.9"\ndate = 2026-05-01T00:00:00Z\nsha256 = "{"0" * 64}"\nsize = 1\n'


def test_lock_whose_trees_are_gone_is_told_with_what_to_do(
    aged: Callable[[], tuple[Project, Path, Path]], tmp_path: Path
) -> None:
    project, lock, _ = aged()
    shutil.rmtree(project.workspace.store)
    with pytest.raises(LockError) as caught:
        answer(project, str(lock), "r", test="true")
    assert "patch b is not what it was" in caught.value.what
    assert "git log" in caught.value.next


@pytest.mark.parametrize(
    "content", ["", "[]", '{"lock": 1}', '{"lock": {"text": 1}}', "[" * 100000, '{"lock": {"text": "x"}}']
)
def test_receipt_that_is_none(twelve: Project, tmp_path: Path, content: str) -> None:
    file = tmp_path / "receipt.json"
    file.write_text(content)
    with pytest.raises(DeclarationError) as caught:
        answer(twelve, "base", str(file), test="true")
    assert str(file) in str(caught.value)


# -- what is asked -----------------------------------------------------------------------------------------------------

_WRONG: Sequence[tuple[dict[str, Any], str]] = [
    ({"good": ""}, "two ends"),
    ({"stage": "host"}, "stage host"),
    ({"stage": "oven"}, "no stage"),
    ({"over": "time"}, "no axis"),
    ({"over": "releases"}, "nothing of upstream is between them"),
    ({"over": "both"}, "nothing of upstream is between them"),
    ({"repeat": 0}, "--repeat 0"),
    ({"jobs": 0}, "--jobs 0"),
    ({"timeout": 0.0}, "--timeout 0"),
    ({"timeout": float("nan")}, "--timeout nan"),
    ({"minimize": True, "drop_one": True}, "two questions"),
    ({"test": " "}, "the test is empty"),
    ({"series": "nothing"}, "no patch 'nothing'"),
]


@pytest.mark.parametrize(("flags", "said"), _WRONG, ids=[said for _, said in _WRONG])
def test_question_that_makes_no_sense(twelve: Project, flags: dict[str, Any], said: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        answer(twelve, **{"good": "base", "bad": "r", "test": "test ! -e f01.py", **flags})
    assert said in str(caught.value)
    assert (
        not task.folder(twelve.workspace).joinpath("state.json").exists()
        or json.loads(task.folder(twelve.workspace).joinpath("state.json").read_bytes())["answer"]
    )
