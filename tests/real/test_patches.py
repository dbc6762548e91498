"""The four patches on every release, computed twice: the outcome of each is what upstream's history says.

That the probes agree everywhere is in test_forecast_releases.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from patchset import series
from patchset.patch import Donor, covered
from patchset.resolve import Project
from patchset.store import Store

MAMBA, GEMMA, CACHED, MTP = "mamba-uint64-pointers", "gemma4-unified", "cached-tokens-zero", "mtp-boundary"
ORDER = (MAMBA, GEMMA, CACHED, MTP)

#: Outcomes by release, from upstream's history: A applies, U upstream, N the feature is not there. In the order above.
HISTORY = {
    "0.19.1": "AAAN", "0.20.0": "AAAN", "0.20.1": "AAAN",
    "0.20.2": "AAAN", "0.21.0": "AAAN", "0.22.0": "AAAN", "0.22.1": "AAAN", "0.23.0": "AUAA", "0.24.0": "AUUA", "0.25.0": "AUUA",
    "0.25.1": "AUUA", "0.26.0": "AUUA", "0.27.0": "AUUA", "0.27.1": "AUUA", "0.28.0": "AUUA", "0.29.0": "UUUA", "0.30.0": "UUUA",
    "0.31.0": "UUUU", "0.32.0": "UUUU", "0.33.0": "UUUU",
}  # fmt: skip
LETTERS = {"A": "applies", "U": "upstream", "N": "absent"}


@pytest.fixture(scope="session")
def applied(project: Project, store: Store, base_of: Callable[[str], str]) -> Callable[[str], series.Applied]:
    """release → the series on its base."""

    def donor(wanted: Donor) -> bytes:
        data = store.read(base_of(wanted.release), wanted.path)
        assert data is not None
        return data

    def run(release: str) -> series.Applied:
        date = project.upstreams["vllm"].release(release).date
        base = base_of(release)
        commit = store.commit(base, (), release, date)
        return series.apply_series(store, base, release, [project.patches[name] for name in ORDER], commit, donor)

    return run


def test_history_names_every_known_release(project: Project) -> None:
    assert list(HISTORY) == list(project.upstreams["vllm"].releases)
    assert len(HISTORY) == 20


@pytest.mark.parametrize("patch", ORDER)
def test_every_patch_covers_every_release(patch: str, project: Project) -> None:
    assert set(HISTORY) <= set(covered(project.patches[patch], project.upstreams["vllm"].releases))


@pytest.mark.parametrize("release", HISTORY)
def test_outcomes(release: str, applied: Callable[[str], series.Applied], store: Store) -> None:
    result = applied(release)
    assert [step.outcome.value for step in result.steps] == [LETTERS[letter] for letter in HISTORY[release]], [
        step.evidence for step in result.steps
    ]
    assert all(step.evidence for step in result.steps)
    series.check_compiles(store, result.tree, result.touched)
