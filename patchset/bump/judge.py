"""Is a tree that a patch was carried to what the patch wants? Its files compile, and its probe finds it sound."""

from __future__ import annotations

from dataclasses import dataclass

from patchset import proof
from patchset.errors import SeriesError
from patchset.lab import Lab
from patchset.patch import Patch
from patchset.probe import Verdict
from patchset.series import check_compiles
from patchset.store import Store
from patchset.workspace import Workspace


@dataclass(frozen=True)
class Judge:
    """Looks at what was made for a patch before anybody relies on it: a change that merges cleanly can still be wrong."""

    workspace: Workspace
    store: Store
    laboratory: Lab

    def complaint(self, patch: Patch, before: str, after: str) -> str:
        """What is wrong with *after*, the tree *before* with *patch* in it; empty if nothing is."""
        try:
            check_compiles(self.store, after, self.store.changed_paths(before, after))
        except SeriesError as error:
            return error.what
        with self.workspace.scratch() as scratch:
            cache = self.workspace.cache
            found = proof.ask([(patch, after)], self.store, self.laboratory, cache=cache, scratch=scratch)
        finding = found[patch.id, after]
        if finding.verdict is Verdict.SOUND:
            return ""
        return f"its probe says {finding.verdict.value} of the result: {finding.reason}"
