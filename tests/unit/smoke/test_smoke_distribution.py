"""The distribution cases judge samplers rightly: the theorem's passes with any draws, and each wrong one is told apart."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.unit.smoke.support import alone

#: Runs where NumPy is. Each sampler is a loop over requests, written from the theorem, on the very arrays of the cases.
PROGRAM = """
import math
import numpy as np
from patchset.smoke import cases_distribution as cases

for value, freedom, share in ((3.841459, 1, 0.05), (5.991465, 2, 0.05), (7.814728, 3, 0.05), (18.467, 4, 0.001)):
    assert math.isclose(cases.tail(value, freedom), share, rel_tol=1e-3), (value, freedom)
assert cases.tail(0.0, 3) == 1.0 and cases.tail(300.0, 3) < 1e-60


def kept(case, factor=1.0, replaced=True):
    start = {name: array.start for name, array in case.arrays.items()}
    output = start["output_token_ids_ptr"].copy()
    places = output.shape[1] - 1
    for row in range(len(output)):
        for place in range(places):
            at = row * places + place
            token = start["draft_token_ids_ptr"][at]
            q = start["draft_probs_ptr"][at, token] if "draft_probs_ptr" in start else 1.0
            if start["target_probs_ptr"][at, token] / q >= start["uniform_probs_ptr"][at] * factor:
                output[row, place] = token
                continue
            output[row, place] = start["recovered_token_ids_ptr"][at] if replaced else token
            break
    return case.arrays["output_token_ids_ptr"].accept(output)


def drawn(case, clip=True, noisy=True, without=True):
    start = {name: array.start for name, array in case.arrays.items()}
    left = start["target_probs_ptr"].astype(float)
    if "draft_probs_ptr" in start:
        left = left - start["draft_probs_ptr"]
        left = np.clip(left, 0, None) if clip else np.abs(left)
    elif without:
        left[np.arange(len(left)), start["draft_token_ids_ptr"]] = 0.0
    noise = start["inv_q_ptr"] if noisy else 1.0
    return case.arrays["output_token_ids_ptr"].accept((left * noise).argmax(axis=1).astype(np.int32))


for seed in range(40):
    cases.SEED = seed
    for case in cases.accepted_and_replaced():
        assert kept(case) is None, (seed, case.name)
    for case in cases.replacements():
        assert drawn(case) is None, (seed, case.name)
cases.SEED = 2211_17192
drafted, bare = cases.accepted_and_replaced()
assert all(kept(case) is None for case in (drafted, bare))
wrong = {
    "a fifth more is accepted": kept(drafted, factor=0.8),
    "all is accepted": kept(drafted, factor=0.0),
    "all is accepted without probabilities": kept(bare, factor=0.0),
    "a rejected draft stays": kept(drafted, replaced=False),
}
drafted, bare = cases.replacements()
wrong |= {
    "the residual is not cut at zero": drawn(drafted, clip=False),
    "the likeliest always wins": drawn(drafted, noisy=False),
    "the draft's own token is in": drawn(bare, without=False),
}
assert all(wrong.values()), [name for name, told in wrong.items() if not told]
poison = drafted.arrays["output_token_ids_ptr"]
assert "outside the vocabulary" in poison.accept(poison.start)
print("\\n".join(wrong.values()))
"""


def test_the_theorems_sampler_passes_and_every_wrong_one_is_told(lab_python: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [lab_python, "-B", "-c", PROGRAM],
        env={"PYTHONPATH": str(alone(tmp_path)), "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 7 and "not the target's distribution, chi-square" in ran.stdout
