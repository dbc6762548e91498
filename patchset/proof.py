"""Probes on base and patched tree, and whether they agree with the outcomes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from patchset.errors import ProbeError
from patchset.lab import Lab
from patchset.patch import Patch
from patchset.probe import Decision, Finding, Verdict, decide, probe
from patchset.resolve import Resolved
from patchset.series import Step
from patchset.store import Store

#: Probes run side by side: most of their time is one interpreter importing vLLM.
_PROBES_AT_ONCE = 2


@dataclass(frozen=True)
class Proof:
    """One patch of the series: its step, what its probe says of both trees, and the decision."""

    step: Step
    base: Finding
    patched: Finding
    decision: Decision


@dataclass(frozen=True)
class Exposure:
    """A patch that was left out on purpose, and what its probe says of the tree without it."""

    patch: str
    reason: str
    finding: Finding


def prove(
    resolved: Resolved,
    patches: Sequence[Patch],
    omitted: Sequence[tuple[Patch, str]],
    store: Store,
    lab: Lab,
    *,
    cache: Path,
    scratch: Path,
    fresh: bool = False,
) -> tuple[tuple[Proof, ...], tuple[Exposure, ...]]:
    """Run every probe on the base and on the patched tree; those of patches left out on the patched tree only.

    :param scratch: an existing directory; trees are written there only if some probe has to run.
    :param fresh: run them even where the result is known.
    """
    trees = _Trees(store, scratch)

    def look(patch: Patch, tree: str) -> Finding:
        return probe(patch, tree, lambda: trees.directory(tree), lab, cache, fresh=fresh)

    base, after = resolved.applied.base_tree, resolved.applied.tree
    wanted = [(patch, tree) for patch in patches for tree in dict.fromkeys((base, after))]
    wanted += [(patch, after) for patch, _ in omitted]
    with ThreadPoolExecutor(_PROBES_AT_ONCE) as pool:
        found = dict(
            zip([(patch.id, tree) for patch, tree in wanted], pool.map(lambda pair: look(*pair), wanted), strict=True)
        )
    proofs = tuple(
        Proof(
            step,
            found[step.patch, base],
            found[step.patch, after],
            decide(step.outcome, found[step.patch, base], found[step.patch, after]),
        )
        for step in resolved.applied.steps
        if (step.patch, base) in found
    )
    return proofs, tuple(Exposure(patch.id, reason, found[patch.id, after]) for patch, reason in omitted)


def require(proofs: Sequence[Proof], recipe: str) -> None:
    """Outcomes and probes agree; *recipe* is the name to show in the next command.

    :raises ProbeError: they do not; every patch where they do not is named.
    """
    bad = [proof for proof in proofs if not proof.decision.good]
    if bad:
        detail = "\n".join(f"{proof.step.patch}: {proof.decision.text}" for proof in bad)
        unknown = any(Verdict.UNKNOWN in (proof.base.verdict, proof.patched.verdict) for proof in bad)
        raise ProbeError(
            f"outcome and probe disagree for {', '.join(proof.step.patch for proof in bad)}",
            detail=detail,
            where=f"variant {bad[0].step.variant}",
            next=f"./inv probe -r {recipe} --patch {bad[0].step.patch}"
            + (" --fresh" if unknown else "")
            + f", then mend its variant or probe under recipes/patches/{bad[0].step.patch}",
        )


class _Trees:
    """Trees written to disk once, when first asked for, for probes that may run side by side."""

    def __init__(self, store: Store, scratch: Path) -> None:
        self._store = store
        self._scratch = scratch
        self._lock = threading.Lock()
        self._written: set[str] = set()

    def directory(self, tree: str) -> Path:
        directory = self._scratch / f"tree-{tree[:12]}"
        with self._lock:
            if tree not in self._written:
                self._store.export(tree, directory)
                self._written.add(tree)
        return directory
