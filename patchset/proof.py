"""Probes on many trees, side by side; and whether what they say agrees with the outcomes."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patchset.errors import ProbeError
from patchset.lab import Lab
from patchset.patch import Patch
from patchset.probe import Decision, Finding, Verdict, decide, known, probe
from patchset.resolve import Resolved
from patchset.series import Step
from patchset.store import Store

#: Probes run side by side: most of their time is one interpreter importing vLLM.
_PROBES_AT_ONCE = 2

#: A patch and the id of a tree: what does its probe say of it?
Question = tuple[Patch, str]
#: (patch id, tree id) → finding.
Findings = dict[tuple[str, str], Finding]


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
    base, after = resolved.applied.base_tree, resolved.applied.tree
    wanted = [(patch, tree) for patch in patches for tree in (base, after)]
    wanted += [(patch, after) for patch, _ in omitted]
    found = ask(wanted, store, lab, cache=cache, scratch=scratch, fresh=fresh)
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


def ask(
    questions: Iterable[Question],
    store: Store,
    lab: Lab,
    *,
    cache: Path,
    scratch: Path,
    fresh: bool = False,
    heard: Callable[[Finding], None] = lambda finding: None,
) -> Findings:
    """What the probes say of the trees, two at a time, one tree after the other.

    A tree is 150 MB: it is written when the first probe has to run on it, and removed with the last question about it.

    :param scratch: an existing directory for the trees.
    :param fresh: run them even where the result is known.
    :param heard: called with each finding as it comes, from the thread that found it.
    """
    wanted = {(patch.id, tree): patch for patch, tree in questions}
    left = Counter(tree for _, tree in wanted)
    places = {tree: place for place, tree in enumerate(left)}
    ordered = sorted(wanted, key=lambda pair: places[pair[1]])
    trees = _Trees(store, scratch, left)

    def look(pair: tuple[str, str]) -> Finding:
        with trees.asked(pair[1]) as directory:
            finding = probe(wanted[pair], pair[1], directory, lab, cache, fresh=fresh, only=True)
        heard(finding)
        return finding

    with ThreadPoolExecutor(_PROBES_AT_ONCE) as pool:
        running = [pool.submit(look, pair) for pair in ordered]
        try:
            return {pair: future.result() for pair, future in zip(ordered, running, strict=True)}
        except BaseException:
            # Ctrl-C, or no room for a tree: what was found is kept, and nothing more is begun.
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def recall(questions: Iterable[Question], identity: str, cache: Path) -> Findings:
    """The verdicts that are known already, in the laboratory of *identity*. Nothing is run."""
    found = {(patch.id, tree): known(patch, tree, identity, cache) for patch, tree in questions}
    return {pair: finding for pair, finding in found.items() if finding}


class _Trees:
    """Trees on disk for probes that may run side by side: each written once, when first asked for, and removed after the
    last question about it. ``left`` is how many questions there will be: tree → number.
    """

    def __init__(self, store: Store, scratch: Path, left: Counter[str]) -> None:
        self._store = store
        self._scratch = scratch
        self._left = left
        self._locks = {tree: threading.Lock() for tree in left}

    @contextmanager
    def asked(self, tree: str) -> Iterator[Callable[[], Path]]:
        """One question about *tree*: gives a function that writes the tree if need be, and says where it is."""
        directory = self._scratch / f"tree-{tree[:12]}"

        def written() -> Path:
            with self._locks[tree]:
                if not directory.exists():
                    part = directory.with_suffix(".part")
                    self._store.export(tree, part)
                    part.rename(directory)
            return directory

        try:
            yield written
        finally:
            with self._locks[tree]:
                self._left[tree] -= 1
                if not self._left[tree]:
                    shutil.rmtree(directory, ignore_errors=True)
