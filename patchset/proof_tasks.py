"""The task about proofs of patches, thin as those in tasks.py."""

from __future__ import annotations

from invoke import Context, task

from patchset.cli import DEFAULT, help_for, job


@task(
    help=help_for(
        "recipe",
        "json",
        "wait",
        patch="a patch's id (default: every patch that has a proof.py)",
        engine="also on a real engine: vLLM's CPU build, which is installed when first asked for",
    )
)
def proof(
    _: Context, patch: str = "", recipe: str = DEFAULT, engine: bool = False, json: bool = False, wait: bool = True
) -> None:
    """Show that the patches are right: approaches against scenarios, unpatched beside patched."""
    with job(f"proof -r {recipe}", json, wait) as (console, project):
        from patchset import patch_proof, patch_proof_show

        tables = patch_proof.prove_recipe(project, project.recipe(recipe), console, only=patch)
        if engine:
            from patchset.engine import prove

            document = prove.table(project, console)
            tables += (patch_proof.read(document, "engine", f"./inv proof -r {recipe} --engine"),)
        patch_proof_show.show(console, recipe, tables)
        patch_proof.require(tables)
