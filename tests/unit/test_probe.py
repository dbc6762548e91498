"""Running probes: whatever a probe does, the answer is a verdict, and only a real one is remembered."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from patchset import probe as module
from patchset.errors import ProbeError
from patchset.lab import Lab
from patchset.patch import Patch, read_patch
from patchset.probe import Finding, Verdict, decide, overall, parse, probe
from patchset.series import Outcome
from patchset.upstream import Upstream

LAB = Lab(Path(sys.executable), "this python")


def answer(verdict: str = "sound", **more: object) -> str:
    return f"import json; print(json.dumps({ {'verdict': verdict, 'reason': 'r', 'checks': [], **more}!r}))\n"


@pytest.fixture
def patch_with(patch_folder: Callable[..., Path], upstream: Upstream) -> Callable[[str], Patch]:
    def make(program: str) -> Patch:
        folder = patch_folder(
            '[[variant]]\nreleases = "==1.0"\nabsent = [{ file = "x" }]\n',
            {"probe.py": program.encode()},
            id=f"p{next(numbers)}",
        )
        return read_patch(folder, upstream)

    numbers = itertools.count()
    return make


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "trees" / "tree"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def ask(patch_with: Callable[[str], Patch], tree: Path, tmp_path: Path) -> Callable[..., Finding]:
    return lambda program: probe(patch_with(program), "t" * 40, lambda: tree, LAB, tmp_path / "cache")


@pytest.mark.parametrize("verdict", ["defect", "sound", "absent", "unknown"])
def test_verdict_comes_from_the_last_line(verdict: str, ask: Callable[..., Finding]) -> None:
    finding = ask("print('noise')\n" + answer(verdict))
    assert (finding.verdict.value, finding.reason, finding.cached) == (verdict, "r", False)


def test_checks_are_kept(ask: Callable[..., Finding]) -> None:
    checks = [{"name": "a", "verdict": "sound", "reason": "x"}, {"name": "b", "verdict": "defect", "reason": "y"}]
    assert ask(answer("defect", checks=checks)).as_dict()["checks"] == checks


BAD = {
    "crash": "raise SystemExit('boom')",
    "exception": "1 / 0",
    "signal": "import os; os.kill(os.getpid(), 9)",
    "nothing": "",
    "no JSON": "print('fine')",
    "verdict, then noise": answer() + "print('bye')",
    "verdict, then a crash": answer() + "1 / 0",
    "unknown word": answer("ok"),
    "verdict is a list": answer([]),  # type: ignore[arg-type]
    "no reason": 'print(\'{"verdict": "sound", "checks": []}\')',
    "no checks": 'print(\'{"verdict": "sound", "reason": "r"}\')',
    "list": "print('[]')",
    "number": "print('1')",
    "checks that say otherwise": answer(checks=[{"name": "a", "verdict": "defect", "reason": "x"}]),
    "checks that are no list": answer(checks="abc"),
    "not UTF-8": "import sys; sys.stdout.buffer.write(b'\\xff{}\\n')",
    "brackets without end": "print('[' * 100000)",
    "too large": "print('[' + '1,' * 200000 + '1]')",
}


@pytest.mark.parametrize("program", BAD)
def test_whatever_else_a_probe_does_is_unknown_with_a_reason_and_not_kept(
    program: str, ask: Callable[..., Finding], tmp_path: Path
) -> None:
    finding = ask(BAD[program])
    assert finding.verdict is Verdict.UNKNOWN
    assert finding.reason
    assert not (tmp_path / "cache").exists()


def test_probe_that_does_not_end_is_unknown(ask: Callable[..., Finding], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT", 1.0)
    assert "no verdict after" in ask("import time; time.sleep(600)").reason


def test_probe_sees_the_tree_an_empty_home_and_no_settings_of_ours(
    ask: Callable[..., Finding], tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/hostile")
    monkeypatch.setenv("VLLM_USE_V1", "0")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    finding = ask(
        "import json, os, sys\n"
        "seen = [sys.argv[1:], os.listdir('.'), os.environ['HOME'] == os.getcwd(), '/hostile' in sys.path, os.environ.get('VLLM_USE_V1'),\n"
        "        [os.environ[n] for n in ('CUDA_VISIBLE_DEVICES', 'VLLM_TARGET_DEVICE', 'PYTHONHASHSEED', 'HF_HUB_OFFLINE', 'TZ')]]\n"
        "print(json.dumps({'verdict': 'sound', 'reason': json.dumps(seen), 'checks': []}))\n"
    )
    assert json.loads(finding.reason) == [[str(tree)], [], True, False, None, ["", "xpu", "0", "1", "UTC"]]
    assert [path.name for path in tree.parent.iterdir()] == ["tree"]


def test_verdict_is_remembered_by_probe_tree_and_laboratory(
    patch_with: Callable[[str], Patch], tree: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    program = f"open({str(log)!r}, 'a').write('x')\n" + answer("defect")
    patch, cache = patch_with(program), tmp_path / "cache"

    def ran(patch: Patch = patch, tree_id: str = "1", lab: Lab = LAB, **more: bool) -> tuple[int, bool]:
        before = len(log.read_bytes()) if log.exists() else 0
        finding = probe(patch, tree_id, lambda: tree, lab, cache, **more)
        assert finding.verdict is Verdict.DEFECT
        return len(log.read_bytes()) - before, finding.cached

    assert [ran(), ran(), ran(fresh=True)] == [(1, False), (0, True), (1, False)]
    assert ran(tree_id="2") == (1, False)
    assert ran(lab=Lab(LAB.python, "another")) == (1, False)
    assert ran(patch_with(program + "# changed\n")) == (1, False)
    for file in (cache / "probes").iterdir():
        file.write_bytes(file.read_bytes()[:20])
    assert ran() == (1, False)


def test_tree_is_not_written_when_the_verdict_is_known(
    patch_with: Callable[[str], Patch], tree: Path, tmp_path: Path
) -> None:
    patch = patch_with(answer())
    probe(patch, "1", lambda: tree, LAB, tmp_path / "cache")

    def never() -> Path:
        raise AssertionError("the tree was asked for")

    assert probe(patch, "1", never, LAB, tmp_path / "cache").cached


@pytest.mark.parametrize(
    ("verdicts", "together"),
    [
        ("sound defect unknown absent", "defect"),
        ("sound unknown absent", "unknown"),
        ("sound absent", "sound"),
        ("absent absent", "absent"),
        ("sound", "sound"),
    ],
)
def test_checks_add_up(verdicts: str, together: str) -> None:
    assert overall(Verdict(verdict) for verdict in verdicts.split()) is Verdict(together)


def test_answer_over_the_bound_is_refused() -> None:
    line = json.dumps({"verdict": "sound", "reason": "x" * 300_000, "checks": []}).encode()
    with pytest.raises(ProbeError, match="more than"):
        parse(line, "p", "t", cached=False)


def test_only_these_combinations_of_outcome_and_verdicts_are_good() -> None:
    """All 8 x 4 x 4 of them: a disagreement is never let through."""

    def finding(verdict: Verdict) -> Finding:
        return Finding("p", "t", verdict, "r", (), False)

    good = {
        (outcome.value, base.value, patched.value)
        for outcome, base, patched in itertools.product(Outcome, Verdict, Verdict)
        if decide(outcome, finding(base), finding(patched)).good
    }
    assert good == {
        ("applies", "defect", "sound"),
        ("merges", "defect", "sound"),
        ("upstream", "sound", "sound"),
        ("absent", "absent", "absent"),
    }


def said(verdict: str | None) -> Finding | None:
    return Finding("p", "t", Verdict(verdict), "because", (), False) if verdict else None


#: (outcome, what the probe says of the base, of the patched tree, the nearest variant if none covers) → (state, agree, the sentence)
DECISIONS = {
    ("applies", "defect", "sound", ""): ("needed", True, "needed; applied and proved"),
    ("merges", "defect", "sound", ""): ("needed", True, "needed; merged and proved"),
    ("upstream", "sound", None, ""): ("fixed", True, "not needed: fixed upstream, and proved there"),
    ("absent", "absent", None, ""): ("absent", True, "not needed: the feature is not in this release"),
    ("conflicts", "defect", None, ""): ("needed", True, "needed, and not applied: conflicts"),
    ("partial", "defect", None, ""): ("needed", True, "needed, and not applied: partial"),
    ("ambiguous", "defect", None, ""): ("needed", True, "needed, and not applied: ambiguous"),
    ("refused", "defect", None, ""): ("needed", True, "needed, and not applied: refused"),
    # none of the variants is for this release
    ("applies", "defect", "sound", "==1.0"): ("needed", True, "needed, and no variant covers this release, though the nearest (==1.0) applies and is proved"),
    ("merges", "defect", "sound", "==1.0"): ("needed", True, "needed, and no variant covers this release, though the nearest (==1.0) merges and is proved"),
    ("applies", "defect", None, "==1.0"): ("needed", None, "needed, and no variant covers this release, though the nearest (==1.0) applies"),
    ("applies", None, None, "==1.0"): (None, None, "no variant covers this release, though the nearest (==1.0) applies; the probe was not run on the base"),
    ("conflicts", "defect", None, "==1.0"): ("needed", True, "needed, and not applied: no variant covers this release; the nearest variant (==1.0): conflicts"),
    ("upstream", "sound", None, "==1.0"): ("fixed", True, "not needed: fixed upstream, and proved there; no variant covers this release yet"),
    ("conflicts", "sound", None, "==1.0"): ("fixed", True, "not needed by the probe; retire it (the text: the nearest variant (==1.0): conflicts; the probe: because)"),
    # disagreement
    ("applies", "sound", "sound", ""): ("fixed", False, "the text says applies, but on the base its probe says sound: because"),
    ("applies", "sound", None, "==1.0"): ("fixed", False, "the text says applies, but on the base its probe says sound: because"),
    ("applies", "defect", "defect", ""): ("needed", False, "the text says applies, but on the patched tree its probe says defect: because"),
    ("upstream", "defect", None, ""): ("needed", False, "the text says upstream, but on the base its probe says defect: because"),
    ("upstream", "absent", None, ""): ("absent", False, "the text says upstream, but on the base its probe says absent: because"),
    ("absent", "sound", None, ""): ("fixed", False, "the text says absent, but on the base its probe says sound: because"),
    ("conflicts", "sound", None, ""): ("fixed", False, "not needed by the probe; retire it (the text: conflicts; the probe: because)"),
    ("conflicts", "absent", None, ""): ("absent", False, "not needed: the feature is absent (the text: conflicts; the probe: because)"),
    ("applies", "unknown", None, ""): ("unknown", False, "the text says applies, but on the base its probe says unknown: because"),
    ("conflicts", "unknown", None, ""): ("unknown", False, "not applied: conflicts; its probe cannot tell: because"),
    # what was not run is said to be not run, and counts for nothing
    ("applies", "defect", None, ""): ("needed", None, "needed; applies; the probe was not run on the patched tree"),
    ("applies", None, None, ""): (None, None, "applies; the probe was not run on the base"),
    ("upstream", None, None, ""): (None, None, "patch.toml and the text say fixed upstream; the probe was not run on the base"),
    ("absent", None, None, ""): (None, None, "patch.toml and the text say that the feature is not there; the probe was not run on the base"),
    ("conflicts", None, None, ""): (None, None, "not applied: conflicts; whether it is needed was not probed"),
}  # fmt: skip


@pytest.mark.parametrize("case", DECISIONS, ids=lambda case: " ".join(word or "-" for word in case))
def test_outcome_and_verdicts_together_make_a_sentence(case: tuple[str, str | None, str | None, str]) -> None:
    outcome, base, patched, nearest = case
    decision = decide(Outcome(outcome), said(base), said(patched), nearest)
    assert (decision.state, decision.agree, decision.text) == DECISIONS[case]


def test_nothing_is_good_that_is_not_proved_on_every_tree_by_a_variant_for_the_release() -> None:
    verdicts = [None, *(verdict.value for verdict in Verdict)]
    good = {
        (outcome.value, base, patched, nearest)
        for outcome, base, patched, nearest in itertools.product(Outcome, verdicts, verdicts, ("", "==1.0"))
        if decide(outcome, said(base), said(patched), nearest).good
    }
    assert good == {
        ("applies", "defect", "sound", ""),
        ("merges", "defect", "sound", ""),
        ("upstream", "sound", "sound", ""),
        ("upstream", "sound", None, ""),
        ("absent", "absent", "absent", ""),
        ("absent", "absent", None, ""),
    }


def test_fixed_is_only_said_where_a_probe_says_so() -> None:
    """A text that finds nothing to do never makes a defect fixed."""
    for outcome, nearest in itertools.product(Outcome, ("", "==1.0")):
        decision = decide(outcome, None, None, nearest)
        assert decision.state is None and decision.agree is None and not decision.good
        assert "not run" in decision.text or "not probed" in decision.text


@pytest.mark.parametrize(("ours", "only", "kept"), [(True, True, True), (True, False, False), (False, True, False)])
def test_what_is_compiled_stays_only_where_it_can_mislead_nobody(
    ours: bool, only: bool, kept: bool, patch_with: Callable[[str], Patch], tree: Path, tmp_path: Path
) -> None:
    """Not in an interpreter that is another's, and not in a folder that will hold another tree."""
    (tree / "there.py").write_text("", "utf-8")
    program = "import sys; sys.path.insert(0, sys.argv[1]); import there\n" + answer()
    lab = Lab(LAB.python, LAB.identity, ours=ours)
    assert (
        probe(patch_with(program), "t" * 40, lambda: tree, lab, tmp_path / "cache", only=only).verdict is Verdict.SOUND
    )
    assert (tree / "__pycache__").exists() == kept
