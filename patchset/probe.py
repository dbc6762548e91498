"""Run a probe against a tree: does the defect show there, or not?"""

from __future__ import annotations

import enum
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from patchset import process
from patchset.errors import ProbeError
from patchset.lab import Lab
from patchset.patch import Patch
from patchset.series import Outcome
from patchset.workspace import write_atomically

#: Seconds after which a probe is given up; they take 2 to 20.
_TIMEOUT = 240.0
_OUTPUT_LIMIT = 256 * 1024


class Verdict(str, enum.Enum):
    """What a probe says of a tree."""

    DEFECT = "defect"
    SOUND = "sound"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Check:
    """One thing that a probe looked at."""

    name: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Finding:
    """What the probe of *patch* says of *tree*. ``cached``: it said so earlier, on the same tree, in the same laboratory."""

    patch: str
    tree: str
    verdict: Verdict
    reason: str
    checks: tuple[Check, ...]
    cached: bool

    def as_dict(self) -> dict[str, object]:
        """For receipts and ``--json``."""
        return {
            **asdict(self),
            "verdict": self.verdict.value,
            "checks": [{**asdict(check), "verdict": check.verdict.value} for check in self.checks],
        }


def key(patch: Patch, tree: str, identity: str) -> str:
    """What a verdict is kept under: a hash of the probe's bytes, the *tree*, and the laboratory's *identity*."""
    program = sha256(patch.probe.read_bytes()).hexdigest()
    return sha256(json.dumps([program, tree, identity]).encode()).hexdigest()


def known(patch: Patch, tree: str, identity: str, cache: Path) -> Finding | None:
    """The verdict of *patch*'s probe on *tree* that is kept under *cache*, or None. Nothing is run or installed for it."""
    kept = _kept(patch, tree, identity, cache)
    try:
        return parse(kept.read_bytes(), patch.id, tree, cached=True)
    except FileNotFoundError:
        return None
    except ProbeError:
        kept.unlink(missing_ok=True)  # cut short by a full disk, or edited: as good as not there
        return None


def probe(
    patch: Patch,
    tree: str,
    directory: Callable[[], Path],
    lab: Lab,
    cache: Path,
    *,
    fresh: bool = False,
    only: bool = False,
) -> Finding:
    """Run *patch*'s probe on *tree*. *directory* gives a folder that holds it; it is only called if the probe must run.

    :param only: that folder never holds another tree, so what Python compiles of it may stay there: what it compiled of a
        file that was written over in the same second with the same size would be taken for the new one's.

    A result other than ``unknown`` is kept under *cache*, by the hash of probe, tree and laboratory.
    Never raises for what the probe does: a crash, a timeout or nonsense is ``unknown``, with the reason.
    """
    found = None if fresh else known(patch, tree, lab.identity, cache)
    if found:
        return found
    finding, raw = _run(patch, tree, directory(), lab, only and lab.ours)
    if finding.verdict is not Verdict.UNKNOWN:
        write_atomically(_kept(patch, tree, lab.identity, cache), raw)
    return finding


def _kept(patch: Patch, tree: str, identity: str, cache: Path) -> Path:
    return cache / "probes" / f"{key(patch, tree, identity)}.json"


def _run(patch: Patch, tree: str, directory: Path, lab: Lab, keep: bool) -> tuple[Finding, bytes]:
    try:
        line = last_line(patch.probe, [directory], lab, keep=keep)
        return parse(line, patch.id, tree, cached=False), line
    except ProbeError as error:
        return _unknown(patch, tree, error.what), b""


def last_line(program: Path, trees: Sequence[Path], lab: Lab, *, keep: bool = False) -> bytes:
    """What *program* printed last, run alone in the laboratory with the folders of *trees*.

    :param keep: Python may write what it compiled beside all that is imported, in the laboratory and in *trees*.
    :raises ProbeError: it did not end in time, or not well.
    """
    env = process.clean_environment(
        {
            "CUDA_VISIBLE_DEVICES": "",
            "VLLM_TARGET_DEVICE": "xpu",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "PYTHONHASHSEED": "0",
        }
    )
    argv = [lab.python, "-I", *([] if keep else ["-B"]), program.resolve(), *(tree.resolve() for tree in trees)]
    with tempfile.TemporaryDirectory(dir=trees[0].parent, prefix="probe-") as empty:
        env["HOME"] = empty  # vLLM and transformers keep caches and configuration in the home directory
        ended = process.run(argv, cwd=empty, env=env, timeout=_TIMEOUT)
    where, again = str(program), f"./inv {program.stem} --patch {program.parent.name}"
    if ended.timed_out:
        raise ProbeError(f"no verdict after {_TIMEOUT:.0f} s", where=where, next=again)
    if ended.returncode != 0:
        what = f"the {program.stem} ended with status {ended.returncode}: {ended.tail(3)}"
        raise ProbeError(what, where=where, next=again)
    return (ended.stdout.strip().splitlines()[-1:] or [b""])[0]


def loaded(line: bytes) -> Any:
    """The JSON value that is in *line*.

    :raises ValueError: there is none, or it is too large. :raises RecursionError: it is too deep.
    """
    if len(line) > _OUTPUT_LIMIT:
        raise ValueError(f"more than {_OUTPUT_LIMIT} bytes")
    return json.loads(line)


def _unknown(patch: Patch, tree: str, reason: str) -> Finding:
    return Finding(patch.id, tree, Verdict.UNKNOWN, reason, (), False)


def parse(line: bytes, patch: str, tree: str, *, cached: bool) -> Finding:
    """The JSON object that a probe prints.

    :raises ProbeError: it is not one, is too large, or its checks do not add up to its verdict.
    """
    try:
        data = loaded(line)
        checks = tuple(
            Check(str(item["name"]), Verdict(item["verdict"]), str(item["reason"])) for item in data["checks"]
        )
        finding = Finding(patch, tree, Verdict(data["verdict"]), str(data["reason"]), checks, cached)
        if checks and overall(check.verdict for check in checks) is not finding.verdict:
            raise ValueError("its checks do not add up to its verdict")
        return finding
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProbeError(
            f"the probe did not print a verdict: {type(error).__name__}: {error}",
            where=patch,
            next=f"./inv probe --patch {patch} --fresh",
        ) from error


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """One defect is a defect; else one unknown is unknown; all absent is absent; else sound."""
    found = set(verdicts)
    for verdict in (Verdict.DEFECT, Verdict.UNKNOWN):
        if verdict in found:
            return verdict
    return Verdict.ABSENT if found == {Verdict.ABSENT} else Verdict.SOUND


class State(str, enum.Enum):
    """What the probe says of the base, in words for a person."""

    NEEDED = "needed"
    FIXED = "fixed"
    ABSENT = "absent"
    UNKNOWN = "unknown"


_STATES = {
    Verdict.DEFECT: State.NEEDED,
    Verdict.SOUND: State.FIXED,
    Verdict.ABSENT: State.ABSENT,
    Verdict.UNKNOWN: State.UNKNOWN,
}


@dataclass(frozen=True)
class Decision:
    """Outcome and probe together; ``text`` says it in one line.

    ``good``: a runtime can be made of it. ``state`` is what the probe says of the base, None where it did not run.
    ``agree``: False where outcome and probe contradict each other or the probe cannot tell, None where a verdict that
    could contradict is missing.
    """

    good: bool
    text: str
    state: State | None = None
    agree: bool | None = None


#: What the text says → (what the probe must say of the base, and of the patched tree, and what that is).
_AGREE: Mapping[Outcome, tuple[Verdict, Verdict, str]] = {
    Outcome.APPLIES: (Verdict.DEFECT, Verdict.SOUND, "needed; applied and proved"),
    Outcome.MERGES: (Verdict.DEFECT, Verdict.SOUND, "needed; merged and proved"),
    Outcome.UPSTREAM: (Verdict.SOUND, Verdict.SOUND, "not needed: fixed upstream, and proved there"),
    Outcome.ABSENT: (Verdict.ABSENT, Verdict.ABSENT, "not needed: the feature is not in this release"),
}

#: The same, with nothing run: what the text alone says, which is never "fixed".
_UNPROVED = {
    Outcome.APPLIES: "applies",
    Outcome.MERGES: "merges",
    Outcome.UPSTREAM: "patch.toml and the text say fixed upstream",
    Outcome.ABSENT: "patch.toml and the text say that the feature is not there",
}


def decide(outcome: Outcome, base: Finding | None, patched: Finding | None, nearest: str = "") -> Decision:
    """Do the textual outcome and the probe's verdicts on base and patched tree agree, and what follows?

    :param base: None where the probe was not run on the base.
    :param patched: None where it was not run on the patched tree, or the patch does not change it.
    :param nearest: the name of the variant that was tried, where none covers the release.
    """
    state = _STATES[base.verdict] if base else None
    if outcome.stops:
        return _stopped(outcome, base, state, nearest)
    wanted_base, wanted_patched, text = _AGREE[outcome]
    for finding, wanted, where in ((base, wanted_base, "base"), (patched, wanted_patched, "patched tree")):
        if finding and finding.verdict is not wanted:
            said = f"on the {where} its probe says {finding.verdict.value}: {finding.reason}"
            return Decision(False, f"the text says {outcome.value}, but {said}", state, agree=False)
    if base is None:
        text = f"{_UNPROVED[outcome]}; the probe was not run on the base"
    elif patched is None and outcome.changes_tree:
        text = f"needed; {outcome.value}; the probe was not run on the patched tree"
    if nearest:
        text = f"{_uncovered(outcome, base, patched, nearest)}" if outcome.changes_tree else f"{text}{_GAP}"
    ran = base is not None and not (patched is None and outcome.changes_tree)
    return Decision(ran and not nearest, text, state, agree=True if ran else None)


_GAP = "; no variant covers this release yet"


def _uncovered(outcome: Outcome, base: Finding | None, patched: Finding | None, nearest: str) -> str:
    """A patch that changes the tree by a variant of other releases."""
    needed = "needed, and no" if base else "no"
    proved = "applies and is proved" if base and patched else "applies"
    proved = proved.replace("applies", "merges") if outcome is Outcome.MERGES else proved
    missing = "" if base else "; the probe was not run on the base"
    return f"{needed} variant covers this release, though the nearest ({nearest}) {proved}{missing}"


def _stopped(outcome: Outcome, base: Finding | None, state: State | None, nearest: str) -> Decision:
    """A patch that does not go in: the text claims nothing about the need, so the probe alone tells it."""
    what = f"the nearest variant ({nearest}): {outcome.value}" if nearest else outcome.value
    if base is None:
        return Decision(False, f"not applied: {what}; whether it is needed was not probed", state, agree=None)
    if base.verdict is Verdict.DEFECT:
        gap = "no variant covers this release; " if nearest else ""
        return Decision(False, f"needed, and not applied: {gap}{what}", state, agree=True)
    if base.verdict is Verdict.UNKNOWN:
        return Decision(False, f"not applied: {what}; its probe cannot tell: {base.reason}", state, agree=False)
    why = "not needed by the probe; retire it" if base.verdict is Verdict.SOUND else "not needed: the feature is absent"
    # A variant that covers the release vouches that it is needed there, and the probe denies it.
    return Decision(False, f"{why} (the text: {what}; the probe: {base.reason})", state, agree=bool(nearest))
