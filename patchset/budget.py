"""What the kernels take as machine code, and how that differs from an earlier run. Two documents go in, nothing is read here.

A kernel's number in a register mode is the most that one of its specialisations takes, so two of them may be of two.
That it grew is told, and is nothing red: a limit that is passed is for the lane ``native`` itself to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchset.smoke import limits
from patchset.smoke.report import from_json

LANE = "native"
MODES = ("default", "256")
#: What is compared, the gravest first.
NUMBERS = ("unfit", "scratch", "spill", "private", "shared", "registers", "specialisations")
#: What does not depend on the registers that a thread may have: told once.
_ALIKE = ("shared", "specialisations")
#: What decides which machine code comes out, beside the kernel.
_COMPILERS = ("triton", "ocloc", "target")
#: Number → (its unit in a sentence, the most that the card allows).
_WORDS: Mapping[str, tuple[str, int | None]] = {
    "scratch": ("of scratch", limits.SCRATCH),
    "spill": ("of spill", None),
    "private": ("of private memory", None),
    "shared": ("of shared memory", limits.SHARED),
    "registers": ("registers", None),
    "specialisations": ("specialisations", None),
    "unfit": ("unfit specialisations", None),
}
#: Kernels that are new or gone, and named to a person; another set of kernels has a hundred.
_NAMED = 8
_BYTES = ("scratch", "spill", "private", "shared")


@dataclass(frozen=True)
class Change:
    """One number of one kernel that is not what it was.

    :param what: one of :data:`NUMBERS`.
    :param before: None, as *after*: the compiler gave none.
    :param same_text: the kernel's own text did not change (functions that it calls may have).
    """

    kernel: str
    mode: str
    what: str
    before: int | None
    after: int | None
    same_text: bool

    @property
    def grew(self) -> bool:
        """Is it more than before, or is there no number any more?"""
        return self.after is None or (self.before is not None and self.after > self.before)


@dataclass(frozen=True)
class Comparison:
    """What became of the kernels' resources since another run.

    :param against: what that run is called.
    :param differ: compilers and releases that are not the same in both, in words; then a change says nothing of a series.
    :param compared: kernels that both have as machine code.
    :param new: kernels that only this run has, *gone*: only the other.
    """

    against: str
    differ: tuple[str, ...]
    compared: int
    changes: tuple[Change, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]


def native_of(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The lane's result in a receipt, in the JSON of ``inv smoke``, or the result itself; None: it has none."""
    results = document.get("smoke", document.get("lanes", (document,)))
    return next((one for one in results if one.get("lane") == LANE and _compiled(one)), None)


def check(result: Mapping[str, Any]) -> None:
    """*result*, the lane's in a file that anyone may have written, can be compared.

    :raises ValueError, TypeError, KeyError: it cannot.
    """
    from_json(result)
    texts = [result["release"], *result["environment"].values()]
    for kernel in result["kernels"]:
        texts += [kernel["name"], kernel["sha256"] or ""]
        for one in kernel.get("resources", ()):
            texts += [one["module"], one["mode"]]
            numbers = [one[what] for what in (*_BYTES, "registers") if one.get(what) is not None]
            if not all(isinstance(number, int) and number >= 0 for number in numbers):
                raise ValueError(f"resources of {kernel['name']} are no numbers")
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a name or version in it is no text")


def most(kernel: Mapping[str, Any]) -> dict[str, dict[str, int | None]]:
    """Register mode → number → the most that a specialisation of *kernel* takes; a mode that was not compiled is left out."""
    found: dict[str, dict[str, int | None]] = {}
    for mode in MODES:
        codes = [one for one in kernel.get("resources", ()) if one["mode"] == mode]
        if not codes:
            continue
        numbers: dict[str, int | None] = {
            what: max((one[what] for one in codes if one.get(what) is not None), default=None)
            for what in (*_BYTES, "registers")
        }
        numbers["unfit"] = sum(bool(one["faults"]) for one in codes)
        numbers["specialisations"] = len({one["module"] for one in codes})
        found[mode] = numbers
    return found


def compare(before: Mapping[str, Any], after: Mapping[str, Any], against: str) -> Comparison | None:
    """What changed from the document *before*, called *against*, to *after*; None: one of them has no machine code.

    Of a *before* that comes from a file, :func:`check` is asked first.
    """
    old, new = native_of(before), native_of(after)
    if old is None or new is None:
        return None
    was, now = _compiled(old), _compiled(new)
    both = [name for name in now if name in was]
    return Comparison(
        against,
        _differ(old, new),
        len(both),
        tuple(change for name in both for change in _changes(name, was[name], now[name])),
        tuple(name for name in now if name not in was),
        tuple(name for name in was if name not in now),
    )


def _compiled(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {kernel["name"]: kernel for kernel in result["kernels"] if kernel.get("resources")}


def _differ(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    pairs = [(name, old["environment"].get(name, "?"), new["environment"].get(name, "?")) for name in _COMPILERS]
    pairs.append(("release", old["release"], new["release"]))
    return tuple(f"{name} {left} → {right}" for name, left, right in pairs if left != right)


def _changes(name: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    same, left, right = was["sha256"] == now["sha256"], most(was), most(now)
    return [
        Change(name, mode, what, left[mode][what], right[mode][what], same)
        for what in NUMBERS
        for mode in MODES
        if mode in left and mode in right and not (what in _ALIKE and mode != MODES[0])
        if left[mode][what] != right[mode][what]
    ]


def lines(comparison: Comparison) -> list[str]:
    """*comparison* for a person, the heading first."""
    told = []
    if comparison.differ:
        told.append(f"{heading(comparison)}: what differs need not be the series' doing")
    changed = [sentence(change, comparison) for change in comparison.changes]
    told += changed or [f"the {comparison.compared} kernels that both runs compiled take what they took"]
    for word, names in (("new", comparison.new), ("gone", comparison.gone)):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        told += [f"{word}: {', '.join(names[:_NAMED])}{more}"] if names else []
    return told


def heading(comparison: Comparison) -> str:
    """Why the two runs are not alike, or nothing."""
    compilers = [text for text in comparison.differ if not text.startswith("release ")]
    words = [f"compilers differ ({', '.join(compilers)})"] if compilers else []
    return " and ".join(words + [f"releases differ ({t[8:]})" for t in comparison.differ if t.startswith("release ")])


def sentence(change: Change, comparison: Comparison) -> str:
    """``this series took a_kernel from 16 KiB to 64 KiB of scratch``, in the words that the comparison allows."""
    unit, limit = _WORDS[change.what]
    mine = not comparison.differ and not change.same_text
    told = [
        f"{f'this series took {change.kernel}' if mine else f'{change.kernel} went'} "
        f"from {amount(change.before, change.what)} to {amount(change.after, change.what)} {unit}"
    ]
    told += [] if change.what in _ALIKE else [mode_word(change.mode)]
    told += [f"{percent(change.after, limit)} of what the card allows"] if limit and change.after else []
    told += ["though its own text is the same"] if change.same_text and not comparison.differ else []
    return ", ".join(told)


def mode_word(mode: str) -> str:
    """A register mode in words."""
    return "in the default mode" if mode == MODES[0] else f"with {mode} registers"


def amount(value: int | None, what: str) -> str:
    """A number as a person reads it."""
    if value is None:
        return "no number"
    return size(value) if what in _BYTES else str(value)


def size(value: int) -> str:
    """Bytes, in KiB where that is a whole number."""
    return f"{value // 1024} KiB" if value and value % 1024 == 0 else f"{value} B"


def percent(value: int, limit: int) -> str:
    """*value* in per cent of *limit*; what is not nothing is not shown as nothing."""
    part = 100 * value / limit
    return "<1\u00a0%" if 0 < part < 1 else f"{part:.0f}\u00a0%"
