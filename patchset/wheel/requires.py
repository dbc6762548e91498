"""Would a plain `pip install` of a wheel leave the recipe's stack as it is? And is its METADATA one that installers take?

Nothing is asked of an index: what its files say is in :data:`PULLED` and :data:`FOR_CUDA`, with what was looked at. A wheel
cannot change its requirements (they are upstream's), so a finding says what to type in place of a plain `pip install`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.metadata import ExceptionGroup, Metadata
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from patchset.outcome import Outcome
from patchset.series import Step
from patchset.wheel.inspect import XPU_STACK, inspect_wheel, requirement_faults
from patchset.wheel.record import read_members

CONFLICT, NOTE = "conflict", "note"

#: Both own the folder ``triton/``: whichever is installed last replaces the other's files, and its metadata stays.
TRITON_OWNERS = ("triton", "triton-xpu")

#: What a requirement pulls in on Linux x86_64, from the metadata of xgrammar 0.2.0, 0.2.1, 0.2.8 and 0.2.9. In whole
#: resolutions of the wheels of 0.22.1, 0.23.0, 0.26.0 and 0.33.0 nothing else asked for `triton` but torch's CUDA build.
PULLED: Mapping[str, tuple[str, ...]] = {"xgrammar": ("triton",)}

#: Their extensions link libtorch_cuda and libcudart, which torch+xpu does not have: read from the files that the general
#: index has (torchvision 0.26.0 and 0.29.1, torchaudio 2.11.1, torchcodec 0.17.0).
FOR_CUDA = ("torchaudio", "torchcodec", "torchvision")

#: The patch whose models need the stack's transformers, and what became of it where they are in the wheel.
GEMMA4 = "gemma4-unified"
_IN_THE_WHEEL = (Outcome.APPLIES, Outcome.MERGES, Outcome.UPSTREAM)

_XPU_INDEX = "PyTorch's XPU index"
_PYTHONS = tuple(f"3.{minor}" for minor in range(8, 30))


@dataclass(frozen=True)
class Finding:
    """One thing that a plain `pip install` would get wrong (``conflict``), or that is good to know before it (``note``).

    ``where``: the file that says it. ``requirement``: the line of it. ``pin``: the recipe's stack on this; empty if it says
    nothing. ``next``: what to type or change.
    """

    severity: str
    where: str
    requirement: str
    pin: str
    why: str
    next: str

    def as_dict(self) -> dict[str, str]:
        """For receipts and ``--json``."""
        return asdict(self)


def check_wheel_requires(wheel: Path, stack: Mapping[str, str], steps: Iterable[Step]) -> tuple[Finding, ...]:
    """Everything found about the wheel *wheel*, conflicts first.

    :param stack: the recipe's: distribution (or ``python``) → specifier.
    :param steps: what became of the series: decides how much the version of transformers matters.
    :raises WheelError: it cannot be read as a wheel.
    """
    facts = inspect_wheel(wheel)
    metadata = next(m.data for m in read_members(wheel) if m.name == f"{facts.dist_info}/METADATA")
    where = f"{facts.dist_info}/METADATA"
    members = {name.removeprefix(f"{facts.dist_info}/") for name in facts.members}
    found = (
        *metadata_findings(metadata, members, stack.get("python", ""), where),
        *requirement_findings(facts.requires, stack, gemma4=has_gemma4(steps), where=where),
    )
    return tuple(sorted(found, key=lambda finding: finding.severity))


def has_gemma4(steps: Iterable[Step]) -> bool:
    """Are Gemma 4 unified models in the wheel, by our patch or by upstream?"""
    return any(step.patch == GEMMA4 and step.outcome in _IN_THE_WHEEL for step in steps)


# -- requirements ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """A requirement that holds on Linux x86_64 with some of the stack's Pythons, and its canonical name."""

    text: str
    name: str
    requirement: Requirement
    pythons: tuple[str, ...]


#: (severity, why, what to do)
_Said = tuple[str, str, str]


def requirement_findings(
    requires: Iterable[str], stack: Mapping[str, str], *, gemma4: bool = False, where: str = "METADATA"
) -> tuple[Finding, ...]:
    """What installing all of *requires* (lines as in Requires-Dist) would do to *stack*, on Linux x86_64, with no extra.

    :param gemma4: the wheel has models that need the stack's transformers.
    :param where: the file that *requires* stand in.
    """
    found: list[Finding] = []
    pythons = [
        minor
        for minor in _PYTHONS
        if not _disjoint(SpecifierSet(f"=={minor}.*"), SpecifierSet(stack.get("python", "")))
    ]
    pins = {canonicalize_name(name): specifier for name, specifier in stack.items() if name != "python"}
    lines = []
    for text in requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            found.append(
                _finding(CONFLICT, where, text, "", f"cannot be read: {error}", "mend the base's requirements")
            )
            continue
        holding = tuple(minor for minor in pythons if _holds(requirement, minor))
        if holding:
            lines.append(_Line(text, canonicalize_name(requirement.name), requirement, holding))
    for line in lines:
        if requirement_faults([line.text, *XPU_STACK]):
            advice = "take it out of the base's requirements/xpu.txt or common.txt with a patch"
            found.append(_finding(CONFLICT, where, line.text, "", "belongs to the CUDA stack", advice))
        elif line.name in pins:
            said = _against_pin(line, pins[line.name], gemma4)
            found += [_finding(said[0], where, line.text, f"{line.name}{pins[line.name]}", *said[1:])] if said else []
        elif line.name in FOR_CUDA:
            found.append(_for_cuda(line, pins, where))
    return (*found, *_triton(lines, pins, where), *_among_themselves(lines, where))


def _holds(requirement: Requirement, python: str) -> bool:
    if requirement.marker is None:
        return True
    environment = {
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_version": f"{python}.0",
        "platform_release": "",
        "platform_version": "",
        "extra": "",
    }
    return requirement.marker.evaluate(environment)


def _against_pin(line: _Line, pin: str, gemma4: bool) -> _Said | None:
    """A requirement and the stack's pin on the same distribution; None: it asks for nothing but that."""
    first = f"pip install '{line.name}{pin}'"
    if line.requirement.url:
        return _against_url(line.requirement.url, pin, first)
    asked, pinned = line.requirement.specifier, SpecifierSet(pin)
    try:
        apart, inside = asked.is_disjoint(pinned), asked.is_subset(pinned)
    except ValueError:  # `===` compares text
        return NOTE, "cannot be compared with the stack's pin", first
    if apart:
        return CONFLICT, "no version is both", "correct the recipe's [stack], or pip install --no-deps the wheel"
    local = any("+" in part.version for part in pinned)
    if inside and not local:
        return None
    if inside:
        why = f"only {_XPU_INDEX} has that version: where it is not installed, pip finds none on another"
        return NOTE, why, f"install it first: {first}, from {_XPU_INDEX}"
    if local:
        why = (
            "an installed +xpu build satisfies it; where none is installed, pip takes the general index's, which is "
            "for CUDA and brings nvidia-* and triton"
        )
        return NOTE, why, f"install it first: {first}, from {_XPU_INDEX}"
    why = " and ".join(_outside(asked, pinned))
    if line.name == "transformers" and gemma4:
        return CONFLICT, f"{why}; Gemma 4 unified is in the wheel and needs the stack's", f"after it: {first}"
    return NOTE, why, f"after it: {first}"


def _outside(asked: SpecifierSet, pinned: SpecifierSet) -> list[str]:
    """Where *asked* goes beyond *pinned*, in words."""
    lower = [f">={part.version}" for part in pinned if part.operator in (">=", ">", "==", "~=")]
    upper = [str(part) for part in pinned if part.operator in ("<", "<=")]
    upper += [f"<={part.version}" for part in pinned if part.operator == "=="]
    sides = [
        (lower, "an installed version below the stack's satisfies it and stays"),
        (upper, "pip takes the newest version, above the stack's"),
    ]
    beyond = [text for bounds, text in sides if bounds and not asked.is_subset(SpecifierSet(",".join(bounds)))]
    return beyond or ["a version that the stack leaves out satisfies it"]


def _against_url(url: str, pin: str, first: str) -> _Said:
    try:
        version = parse_wheel_filename(url.rsplit("/", 1)[-1])[1]
    except InvalidWheelFilename:
        return NOTE, "the file it names does not say its version", f"{first}, then pip install --no-deps the wheel"
    if not SpecifierSet(pin).contains(version, prereleases=True):
        return CONFLICT, f"that file is version {version}", "correct the recipe's [stack]"
    why = "a direct reference: pip fetches that very file, even where the same version is installed"
    return NOTE, why, f"without that host: {first}, then pip install --no-deps the wheel"


def _for_cuda(line: _Line, pins: Mapping[str, str], where: str) -> Finding:
    why = f"the general index's builds link libtorch_cuda, which torch{pins.get('torch', '')} does not have"
    return _finding(
        CONFLICT, where, line.text, "", why, f"install it first: pip install {line.name}, from {_XPU_INDEX}"
    )


def _triton(lines: Iterable[_Line], pins: Mapping[str, str], where: str) -> list[Finding]:
    """More than one owner of ``triton/``: of the stack's, what is asked for, and what that pulls in."""
    ours = [name for name in TRITON_OWNERS if name in pins]
    if not ours:
        return []
    mine = ours[0]
    again = f"after it: pip uninstall -y triton, then pip install --force-reinstall --no-deps '{mine}{pins[mine]}'"
    found = []
    for line in lines:
        others = {line.name, *PULLED.get(line.name, ())} & set(TRITON_OWNERS) - set(ours)
        for other in sorted(others):
            pulls = f"pulls in {other}" if line.name != other else f"installs {other}"
            why = f"{pulls} beside {mine}, and both own the folder triton/: a version check passes on the wrong files"
            found.append(_finding(CONFLICT, where, line.text, f"{mine}{pins[mine]}", why, again))
    return found


def _among_themselves(lines: Iterable[_Line], where: str) -> list[Finding]:
    """Two lines about one distribution that no version satisfies."""
    found, seen = [], []
    for line in lines:
        for other in seen:
            one = other.requirement.specifier
            if (
                other.name == line.name
                and set(other.pythons) & set(line.pythons)
                and _disjoint(one, line.requirement.specifier)
            ):
                why = f"no version is also what `{other.text}` asks for"
                found.append(_finding(CONFLICT, where, line.text, "", why, "mend the base's requirements with a patch"))
        seen.append(line)
    return found


def _disjoint(one: SpecifierSet, other: SpecifierSet) -> bool:
    try:
        return one.is_disjoint(other)
    except ValueError:  # `===` compares text
        return False


# -- METADATA ----------------------------------------------------------------------------------------------------------


def metadata_findings(
    metadata: bytes, members: Collection[str], python: str = "", where: str = "METADATA"
) -> tuple[Finding, ...]:
    """What installers and indexes would refuse in *metadata*, the bytes of a METADATA file.

    Read and validated by `packaging` (versions, names, licence expressions, which field came with which Metadata-Version).

    :param members: the names of the files in its ``.dist-info``, for the licence files it names.
    :param python: the Pythons of the recipe's stack.
    """
    advice = "mend the base's pyproject.toml or setup.py with a patch"
    try:
        read = Metadata.from_email(metadata, validate=True)
    except ExceptionGroup as errors:
        return tuple(
            _finding(CONFLICT, where, getattr(error, "field", "") or "METADATA", "", str(error), advice)
            for error in errors.exceptions
        )
    found = [
        (f"License-File: {name}", "is not in the wheel")
        for name in read.license_files or ()
        if f"licenses/{name}" not in members
    ]
    if read.requires_python and not SpecifierSet(python).is_subset(read.requires_python):
        found.append(
            (f"Requires-Python: {read.requires_python}", f"leaves out a Python of the recipe's stack ({python})")
        )
    twice = [name for name, times in Counter(read.classifiers or ()).items() if times > 1]
    found += [(f"Classifier: {name}", "is there twice") for name in twice]
    if read.license_expression:
        found += [
            (f"Classifier: {name}", "a licence classifier may not stand beside License-Expression")
            for name in read.classifiers or ()
            if name.startswith("License ::")
        ]
    if not (read.description or "").strip():
        found.append(("Description", "is empty"))
    elif read.description_content_type is None:
        found.append(("Description-Content-Type", "is not given, so the description is read as reStructuredText"))
    return tuple(_finding(CONFLICT, where, field, "", why, advice) for field, why in found)


def _finding(severity: str, where: str, requirement: str, pin: str, why: str, advice: str) -> Finding:
    return Finding(severity, where, requirement, pin, why, advice)
