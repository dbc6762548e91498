"""What the tasks show at their end: for a person as tables, for a program as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from patchset import receipt, smoke_show, wheel_show
from patchset.budget import Comparison
from patchset.console import Console, relative
from patchset.proof import Exposure, Proof
from patchset.releases import Listed
from patchset.resolve import Resolved
from patchset.runtime import Runtime, Smoked
from patchset.upstream import Release


def show_runtime(console: Console, made: Runtime, root: Path) -> None:
    """The end of ``inv runtime``: patches, wheel, smoke, what was not run, receipt."""
    document = made.document
    console.json(
        {
            **document,
            "paths": {"wheel": str(made.wheel), "receipt": str(made.receipt), "statement": str(made.statement)},
        }
    )
    console.line()
    console.line(
        f"Runtime {document['runtime']}  (recipe {document['recipe']}, vLLM {document['base']['release']}, "
        f"tree {document['tree'][:12]})"
    )
    _series_table(console, document["series"], document["omitted"])
    for item in document["series"]:
        if not item["applied"]:
            console.line(f"  {item['patch']} is not applied: {item['decision']}")
            for line in item["evidence"]:
                console.line(f"      {line}")
    wheel_show.show_wheel(console, made.wheel, document["wheel"], root)
    wheel_show.show_beware(console, document["requirements"], document["recipe"])
    for result in document["smoke"]:
        console.line(f"smoke    {smoke_show.line(result)}")
    smoke_show.show_budget(console, _compared(root / "dist", made))
    for item in document["not_run"]:
        console.line(f"not run  {item['what']}: {item['why']}")
    if document["reused"]:
        console.line(f"reused   {', '.join(document['reused'])} (--fresh makes them anew)")
    console.line(f"receipt  {relative(made.receipt, root)}")


def _compared(dist: Path, made: Runtime) -> Comparison | None:
    """The machine code of *made* beside that in the newest other receipt of its recipe."""
    earlier = receipt.earlier(dist, made.document["recipe"], but=made.receipt)
    return earlier.compare(made.document) if earlier else None


def show_applied(console: Console, resolved: Resolved, checkout: Path | None, what: str) -> None:
    """The end of ``inv apply``: each patch, and where the tree was written."""
    steps = [
        {
            "patch": step.patch,
            "variant": step.variant,
            "outcome": step.outcome.value,
            "evidence": list(step.evidence),
            "tree": step.tree,
            "commit": step.commit,
            "touched": list(step.touched),
        }
        for step in resolved.applied.steps
    ]
    console.json(
        {
            "recipe": resolved.recipe.name,
            "base": receipt.describe_base(resolved),
            "series": steps,
            "tree": resolved.applied.tree,
            "commit": resolved.applied.commit,
            "version": resolved.version,
            "checkout": str(checkout) if checkout else None,
        }
    )
    console.line(f"vLLM {resolved.release.version}, base tree {resolved.applied.base_tree}")
    console.table(
        ["patch", "outcome", "evidence", "tree after"],
        [[step.patch, step.outcome.value, "\n".join(step.evidence), step.tree[:12]] for step in resolved.applied.steps],
    )
    console.line(f"patched tree {resolved.applied.tree}, commit {resolved.applied.commit}")
    if checkout:
        console.line(f"checkout {what}: {checkout}")


def show_lock(console: Console, file: Path, changed: Sequence[str]) -> None:
    """The end of ``inv lock``: the lines that changed."""
    console.json({"lock": str(file), "changed": list(changed)})
    for line in changed:
        console.line(f"  {line}")
    console.line(f"{file.name}: {'written' if changed else 'already up to date'}")


def show_proofs(console: Console, recipe: str, proofs: Sequence[Proof], omitted: Sequence[Exposure]) -> None:
    """The end of ``inv probe``: both verdicts of each patch, check by check."""
    console.json(
        {
            "recipe": recipe,
            "omitted": receipt.describe_omitted(omitted),
            "probes": [
                {
                    "patch": proof.step.patch,
                    "outcome": proof.step.outcome.value,
                    "good": proof.decision.good,
                    "decision": proof.decision.text,
                    "base": proof.base.as_dict(),
                    "patched": proof.patched.as_dict(),
                }
                for proof in proofs
            ],
        }
    )
    _series_table(console, receipt.describe_series(proofs), receipt.describe_omitted(omitted))
    for proof in proofs:
        console.line(f"{proof.step.patch}: {proof.decision.text}")
        for side, finding in (("base", proof.base), ("patched", proof.patched)):
            for check in finding.checks:
                console.line(f"  {side:<8}{check.verdict.value:<8}{check.name}: {check.reason}")
            if not finding.checks:
                console.line(f"  {side:<8}{finding.verdict.value:<8}{finding.reason}")


def show_releases(console: Console, listed: Listed) -> None:
    """The end of ``inv releases``."""
    console.json({**asdict(listed)})
    console.line(f"known of {listed.upstream}: {', '.join(listed.known)}")
    if listed.why:
        console.line(f"not asked: the package index: {listed.why}")
    elif not listed.new:
        console.line("the package index has no later one")
    for release in listed.new:
        console.line(f"new      {release}: ./inv releases --add {release}, then ./inv forecast --releases {release}")


def show_added(console: Console, release: Release) -> None:
    """The end of ``inv releases --add``."""
    moment = release.date.strftime("%Y-%m-%dT%H:%M:%SZ")
    console.json({"release": release.version, "date": moment, "sha256": release.sha256, "size": release.size})
    console.line(f"{release.version} of {moment} is known now; its hash stands in vendor/upstreams.toml")
    console.line(f"next: ./inv forecast --probes --releases {release.version}, then ./inv bump --to {release.version}")


def show_smoke(console: Console, smoked: Smoked, compared: Comparison | None = None, *, one: bool) -> None:
    """The end of ``inv smoke``: each kernel in each lane, the counts, and what was not run.

    :param one: one lane was asked for; then its result alone is the JSON document.
    """
    not_run = {lane: error.what for lane, error in smoked.not_run.items()}
    smoke_show.show(console, smoked.wheel, smoked.results, not_run, compared, one=one)


def _series_table(console: Console, series: Sequence[Mapping[str, Any]], omitted: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        [item["patch"], item["outcome"], item["probe"]["base"], item["probe"]["patched"], item["decision"]]
        for item in series
    ]
    rows += [[item["patch"], "omitted", "", item["probe"], f"left out: {item['reason']}"] for item in omitted]
    console.table(["patch", "outcome", "on base", "patched", "so"], rows)
