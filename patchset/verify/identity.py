"""Who it says it is, in every place that says so, and whether its chain of trees holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .claims import Record, Run, same_version, short_tree
from .model import Check, Finding, Kind, few

NAME = "vllm"


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


def check_chain(run: Run, path: str, again: str) -> Check:
    """Base, then each patch's tree, then the result: one that is applied changes the tree, one that is not keeps it."""
    findings = [Finding(Kind.CHAIN, path, what, again) for what in _chain_faults(run)]
    findings += _tree_fault(run, path, again)
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
