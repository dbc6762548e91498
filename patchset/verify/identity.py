"""Who it says it is, in every place that says so, and whether its chain of trees holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product

from .claims import Record, Run, same_version, short_tree
from .model import Check, Finding, Kind, few

NAME = "vllm"
_MOST_TAGS = 1000


def check_identity(
    record: Record | None, metadata: bytes | None, places: Sequence[tuple[str, str]], again: str
) -> Check:
    """All versions are one, and its last part is the tree's.

    :param places: (where it stands, version) beside METADATA and the record.
    """
    findings = []
    said = list(places)
    if metadata is None:
        findings.append(Finding(Kind.MISSING, "METADATA", "it is not there", again))
    else:
        for field in ("Name", "Version"):
            values = headers(metadata, field)
            if len(values) != 1:
                what = f"it has {len(values)} fields {field}, not one"
                findings.append(Finding(Kind.IDENTITY, "METADATA", what, again))
            elif field == "Version":
                said.append(("METADATA", values[0]))
            elif values[0].lower() != NAME:
                findings.append(Finding(Kind.IDENTITY, "METADATA", f"it is of {values[0]}, not {NAME}", again))
    if record:
        said = [("the record", record.run.version), ("the record's wheel", record.wheel_version), *said]
        if record.wheel_tree != record.run.tree:
            what = f"the record says the tree {record.run.tree}, and of the wheel {record.wheel_tree}"
            findings.append(Finding(Kind.IDENTITY, "patchset.json", what, again))
    first = said[0] if said else ("", "")
    for place, version in said[1:]:
        if not same_version(version, first[1]):
            what = f"{first[0]} says version {first[1]}, {place} says {version}"
            findings.append(Finding(Kind.IDENTITY, "", what, again))
    return Check("version", first[1], few(findings))


def check_tags(wheel: bytes | None, filename: str, again: str) -> Check:
    """The tags in WHEEL are those of the file name. (How a name holds several: "Platform compatibility tags".)

    :param wheel: the content of the file WHEEL; None if it is not there.
    """
    if wheel is None:
        return Check("tags", findings=(Finding(Kind.MISSING, "WHEEL", "it is not there", again),))
    parts = filename.removesuffix(".whl").split("-")
    if len(parts) not in (5, 6):
        return Check("tags", not_run="the file name is not a wheel's")
    called, said = "-".join(parts[-3:]), headers(wheel, "Tag")
    findings = []
    if _single_tags([called]) != _single_tags(said):
        what = f"it says the tags {', '.join(said)[:200] or 'none'}, and the file is called {called}"
        findings.append(Finding(Kind.IDENTITY, "WHEEL", what, again))
    return Check("tags", called, few(findings))


def check_chain(run: Run, path: str, again: str) -> Check:
    """Base, then each patch's tree, then the result: one that is applied changes the tree, one that is not keeps it."""
    findings = [Finding(Kind.CHAIN, path, what, again) for what in _chain_faults(run)]
    findings += _tree_fault(run, path, again)
    release, base = run.version.partition("+")[0], run.base_release
    if not same_version(release, base):
        what = f"its base is release {base[:100]}, and its version {run.version} is of {release}"
        findings.append(Finding(Kind.CHAIN, path, what, again))
    applied = sum(step.applied for step in run.series)
    return Check(f"chain of trees in {path}", f"{applied} of {len(run.series)} patches applied", few(findings))


def headers(metadata: bytes, field: str) -> list[str]:
    """The values of *field* in the head of a METADATA or WHEEL file."""
    found = []
    for line in metadata.decode("utf-8", "replace").splitlines():
        if not line.strip():
            break
        name, colon, value = line.partition(":")
        if colon and name.lower() == field.lower():
            found.append(value.strip())
    return found


def _single_tags(tags: Iterable[str]) -> set[tuple[str, ...]]:
    """Each tag by itself: ``py2.py3-none-any`` is two. Of a tag that names too many at once, only the whole."""
    found: set[tuple[str, ...]] = set()
    for tag in tags:
        parts = [part.split(".") for part in tag.split("-")]
        few_enough = math.prod(map(len, parts)) <= _MOST_TAGS
        found |= set(product(*parts)) if few_enough else {(tag,)}
    return found


def _chain_faults(run: Run) -> Iterable[str]:
    tree, commit, name = run.base_tree, run.base_commit, "the base"
    for step in run.series:
        same = (step.tree == tree, step.commit == commit)
        if step.applied and any(same):
            yield f"patch {step.patch} is applied ({step.outcome}), and its tree or commit is that of {name}"
        if not step.applied and not all(same):
            yield f"patch {step.patch} is not applied ({step.outcome}), and its tree or commit is not that of {name}"
        if step.applied != bool(step.touched):
            yield f"patch {step.patch} is {'' if step.applied else 'not '}applied, and touches {len(step.touched)} files"
        tree, commit, name = step.tree, step.commit, f"patch {step.patch}"
    if (tree, commit) != (run.tree, run.commit):
        yield f"the tree or commit after {name} is not the result {run.tree}"


def _tree_fault(run: Run, path: str, again: str) -> Iterable[Finding]:
    digits, part = run.tree[:8], short_tree(run.version)
    if part != digits and not (digits.isdigit() and part == (digits.lstrip("0") or "0")):
        what = f"version {run.version} does not end in the first eight digits of the tree {run.tree}"
        yield Finding(Kind.IDENTITY, path, what, again)
