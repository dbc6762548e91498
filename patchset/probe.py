"""Run a probe against a tree: does the defect show there, or not?"""

from __future__ import annotations

import enum
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

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


def probe(
    patch: Patch, tree: str, directory: Callable[[], Path], lab: Lab, cache: Path, *, fresh: bool = False
) -> Finding:
    """Run *patch*'s probe on *tree*. *directory* gives a folder that holds it; it is only called if the probe must run.

    A result other than ``unknown`` is kept under *cache*, by the hash of probe, tree and laboratory.
    Never raises for what the probe does: a crash, a timeout or nonsense is ``unknown``, with the reason.
    """
    key = sha256(json.dumps([sha256(patch.probe.read_bytes()).hexdigest(), tree, lab.identity]).encode()).hexdigest()
    kept = cache / "probes" / f"{key}.json"
    if not fresh and kept.is_file():
        try:
            return parse(kept.read_bytes(), patch.id, tree, cached=True)
        except ProbeError:
            kept.unlink()  # cut short by a full disk, or edited: as good as not there
    finding, raw = _run(patch, tree, directory(), lab)
    if finding.verdict is not Verdict.UNKNOWN:
        write_atomically(kept, raw)
    return finding


def _run(patch: Patch, tree: str, directory: Path, lab: Lab) -> tuple[Finding, bytes]:
    env = process.clean_environment(
        {
            "CUDA_VISIBLE_DEVICES": "",
            "VLLM_TARGET_DEVICE": "xpu",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "PYTHONHASHSEED": "0",
        }
    )
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="probe-") as empty:
        env["HOME"] = empty  # vLLM and transformers keep caches and configuration in the home directory
        ended = process.run(
            [lab.python, "-I", "-B", patch.probe.resolve(), directory.resolve()], cwd=empty, env=env, timeout=_TIMEOUT
        )
    last = ended.stdout.strip().splitlines()[-1:] or [b""]
    if ended.timed_out:
        return _unknown(patch, tree, f"no verdict after {_TIMEOUT:.0f} s"), b""
    if ended.returncode != 0:
        return _unknown(patch, tree, f"the probe ended with status {ended.returncode}: {ended.tail(3)}"), b""
    try:
        return parse(last[0], patch.id, tree, cached=False), last[0]
    except ProbeError as error:
        return _unknown(patch, tree, error.what), b""


def _unknown(patch: Patch, tree: str, reason: str) -> Finding:
    return Finding(patch.id, tree, Verdict.UNKNOWN, reason, (), False)


def parse(line: bytes, patch: str, tree: str, *, cached: bool) -> Finding:
    """The JSON object that a probe prints.

    :raises ProbeError: it is not one, is too large, or its checks do not add up to its verdict.
    """
    try:
        if len(line) > _OUTPUT_LIMIT:
            raise ValueError(f"more than {_OUTPUT_LIMIT} bytes")
        data = json.loads(line)
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


@dataclass(frozen=True)
class Decision:
    """Outcome and probe together. ``good`` is False where they disagree; ``text`` says it in one line."""

    good: bool
    text: str


#: (what the text says, what the probe says of the base, what it says of the patched tree) → is that consistent?
_AGREE: Mapping[Outcome, tuple[Verdict, Verdict, str]] = {
    Outcome.APPLIES: (Verdict.DEFECT, Verdict.SOUND, "needed; applied and proved"),
    Outcome.MERGES: (Verdict.DEFECT, Verdict.SOUND, "needed; merged and proved"),
    Outcome.UPSTREAM: (Verdict.SOUND, Verdict.SOUND, "not needed: fixed upstream, and proved there"),
    Outcome.ABSENT: (Verdict.ABSENT, Verdict.ABSENT, "not needed: the feature is not in this release"),
}


def decide(outcome: Outcome, base: Finding, patched: Finding) -> Decision:
    """Do the textual outcome and the probe's verdicts on base and patched tree agree?"""
    if outcome not in _AGREE:
        return Decision(False, f"{outcome.value}: not applied")
    wanted_base, wanted_patched, text = _AGREE[outcome]
    if base.verdict is not wanted_base:
        return Decision(
            False, f"the text says {outcome.value}, but on the base its probe says {base.verdict.value}: {base.reason}"
        )
    if patched.verdict is not wanted_patched:
        return Decision(
            False,
            f"the text says {outcome.value}, but on the patched tree its probe says {patched.verdict.value}: {patched.reason}",
        )
    return Decision(True, text)
