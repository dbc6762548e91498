"""Probe of the patch gemma4-unified: can this vLLM tree load and drive Gemma 4 unified?

Run as `python -I -B probe.py TREE`. The last line of standard output is one JSON object with `verdict`, `reason` and
`checks`; the exit code is 0. Nothing is downloaded: the processor and the configuration are the real ones of
transformers (5.10 or later), built in memory around a nine-word tokenizer.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

ARCHITECTURE = "Gemma4UnifiedForConditionalGeneration"
TOWER_ARCHITECTURE = "Gemma4ForConditionalGeneration"
MODEL_MODULE = "gemma4_unified"
MODELS = "vllm/model_executor/models"
CONFIGS = f"{MODELS}/config.py"
CONVERTORS = "vllm/transformers_utils/model_arch_config_convertor.py"
# The drafters' common code; up to 0.19.1 it is in the second.
PROPOSERS = ("vllm/v1/spec_decode/llm_base_proposer.py", "vllm/v1/spec_decode/eagle.py")
SPECULATIVE = "vllm/config/speculative.py"

TEXT = "hello <|image|>"
IMAGE_TOKENS = {"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>"}
AUDIO_TOKENS = {"audio_token": "<|audio|>", "boa_token": "<|audio>", "eoa_token": "<audio|>"}
# One second at 16 kHz, 640 samples a token: a whole number of tokens in every release's arithmetic.
AUDIO_SAMPLES, SOFT_TOKENS = 16_000, 25

Outcome = tuple[str, str]
KEPT_ALIVE: list[object] = []


class Unknown(Exception):
    """The question could not be asked; the text says why."""


def main(tree: Path) -> dict[str, Any]:
    """Run every check on the tree and fold the outcomes into one verdict."""
    prepare(tree)
    convertor_table = "MODEL_ARCH_CONFIG_CONVERTORS"
    checks = [
        run("registry-entry", check_registry_entry, tree),
        run("model-class", check_model_class, tree),
        run("soft-token-names", check_soft_token_names),
        run("config-map", check_table, tree, CONFIGS, "MODELS_CONFIG_MAP", ARCHITECTURE, TOWER_ARCHITECTURE),
        run("convertor", check_table, tree, CONVERTORS, convertor_table, "gemma4_unified", "gemma4"),
        run("convertor-text", check_table, tree, CONVERTORS, convertor_table, "gemma4_unified_text", "gemma4_text"),
        run("text-only-bypass", check_text_only),
        run("embedder", check_embedder),
        run("end-of-audio-token", check_end_of_audio),
        run("suppress-tokens", check_suppress_tokens),
        run("draft-assistant", check_draft_assistant, tree),
        run("draft-image-token", check_draft_image_token, tree),
    ]
    return {**summary(checks), "checks": checks}


def run(name: str, check: Callable[..., Outcome], *arguments: object) -> dict[str, str]:
    """Run one check; an exception it did not foresee is never a pass."""
    try:
        verdict, reason = check(*arguments)
    except Exception as error:
        verdict, reason = "unknown", describe(error)
    return {"name": name, "verdict": verdict, "reason": reason}


def summary(checks: list[dict[str, str]]) -> dict[str, str]:
    """Fold the checks: defect beats unknown beats sound; absent only when nothing else was said."""
    found = {check["verdict"] for check in checks}
    verdict = next(kind for kind in ("defect", "unknown", "sound", "absent") if kind in found)
    hits = [check for check in checks if check["verdict"] == verdict]
    if verdict == "sound":
        return {"verdict": verdict, "reason": f"{ARCHITECTURE} resolves, imports and passes {len(hits)} checks"}
    return {"verdict": verdict, "reason": f"{hits[0]['name']}: {hits[0]['reason']}"}


def describe(error: BaseException) -> str:
    """One line: the exception, what caused it, and the innermost line of a vLLM tree it passed through."""
    text = f"{type(error).__name__}: {error}"
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    if root is not error:
        text = f"{text[:80]}… caused by {type(root).__name__}: {root}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/vllm/" in frame.filename]
    place = f" at vllm/{frames[-1].filename.rsplit('/vllm/', 1)[1]}:{frames[-1].lineno}" if frames else ""
    return " ".join(text.split())[:320] + place


def prepare(tree: Path) -> None:
    """Put the tree first on the path, make up what a build generates, and make sure it is what gets imported."""
    if not (tree / "vllm/__init__.py").is_file():
        raise Unknown(f"{tree} holds no vllm package")
    allow_cpu_torchvision()
    require_unified_transformers()
    if not (tree / "vllm/_version.py").exists():
        version = types.ModuleType("vllm._version")
        version.__dict__.update(__version__="0.0.0", __version_tuple__=(0, 0, 0))
        sys.modules["vllm._version"] = version
    sys.path.insert(0, str(tree))
    origin = Path(str(importlib.import_module("vllm").__file__)).resolve()
    if origin.parent.parent != tree:
        raise Unknown(f"vllm was imported from {origin}, not from the tree")


def allow_cpu_torchvision() -> None:
    """Let a torchvision built for CUDA be imported beside CPU torch.

    Its shared object does not load there, and importing stops at two operators that it would have declared. Only
    their schemas are needed: no check runs them.
    """
    import torch

    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        KEPT_ALIVE.append(library)
        importlib.import_module("torchvision")


def require_unified_transformers() -> None:
    """Tell a transformers too old for the model apart from a defect of the tree."""
    try:
        importlib.import_module("transformers.models.gemma4_unified.processing_gemma4_unified")
    except ImportError as error:
        raise Unknown(f"transformers has no usable Gemma 4 unified (5.10 or later needed): {error}") from error


def check_registry_entry(tree: Path) -> Outcome:
    """The key stands exactly once among the multimodal models, and in no other table of the registry."""
    path = f"{MODELS}/registry.py"
    places = [(table, line) for table, key, line in dict_keys(tree / path) if key == ARCHITECTURE]
    if not places:
        return "defect", f"{ARCHITECTURE} is not a key of any table in {path}"
    if [table for table, _ in places] != ["_MULTIMODAL_MODELS"]:
        return "defect", f"{ARCHITECTURE} must be a key of _MULTIMODAL_MODELS once, {path} has it at {places}"
    return "sound", f"{path}:{places[0][1]}"


def check_model_class(tree: Path) -> Outcome:
    """vLLM's own registry resolves the architecture, and the class it names is imported for real."""
    registry = importlib.import_module("vllm.model_executor.models.registry")
    entry = registry.ModelRegistry.models.get(ARCHITECTURE)
    if entry is None:
        return "defect", f"vLLM's ModelRegistry does not know {ARCHITECTURE}"
    expected = f"vllm.model_executor.models.{MODEL_MODULE}"
    if (entry.module_name, entry.class_name) != (expected, ARCHITECTURE):
        return "defect", f"the registry resolves to {entry.module_name}.{entry.class_name}, not to {expected}"
    try:
        model = entry.load_model_cls()
    except (ImportError, AttributeError) as error:
        # What a library of this interpreter lacks says nothing about the tree; what vLLM's own modules lack does.
        missing_from = str(error.name) if isinstance(error, ImportError) else str(error)
        if not missing_from.startswith(("vllm", "module 'vllm")):
            raise
        return "defect", describe(error)
    source = Path(sys.modules[model.__module__].__file__ or "").resolve()
    if source != tree / MODELS / f"{MODEL_MODULE}.py":
        return "defect", f"{ARCHITECTURE} comes from {source}"
    if not getattr(model, "supports_multimodal", False):
        return "defect", f"{ARCHITECTURE} is no multimodal model"
    return "sound", f"{model.__module__}.{model.__name__} imported"


def check_soft_token_names() -> Outcome:
    """The two names that the model file takes from gemma4_mm, with the meaning it relies on."""
    module = importlib.import_module("vllm.model_executor.models.gemma4_mm")
    for name in ("_SUPPORTED_SOFT_TOKENS", "_get_max_soft_tokens"):
        if not hasattr(module, name):
            return "defect", f"{MODELS}/gemma4_mm.py has no {name} at module level"
    if 280 not in module._SUPPORTED_SOFT_TOKENS:
        return "defect", f"_SUPPORTED_SOFT_TOKENS is {module._SUPPORTED_SOFT_TOKENS}, without the default 280"
    cases = ({"max_soft_tokens": 560}, {"images_kwargs": {"max_soft_tokens": 70}}, {})
    found = [module._get_max_soft_tokens(case) for case in cases]
    if found != [(560, True), (70, False), (None, False)]:
        return "defect", f"_get_max_soft_tokens gives {found} for {cases}"
    return "sound", "both names stand at module level and read both places of the budget"


def check_table(tree: Path, path: str, table: str, key: str, like: str) -> Outcome:
    """The key stands exactly once in the table and gives the very class that the tower-based Gemma 4 gets."""
    lines = [line for name, found, line in dict_keys(tree / path) if (name, found) == (table, key)]
    classes = getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), table)
    if key not in classes:
        return "defect", f"{table} in {path} has no {key!r}"
    if len(lines) != 1:
        return "defect", f"{key!r} is a key of {table} {len(lines)} times in {path}"
    if classes[key] is not classes[like]:
        return "defect", f"{table} gives {classes[key].__name__} for {key!r}, not the class of {like!r}"
    return "sound", f"{path}:{lines[0]} gives {classes[key].__name__}"


def check_text_only() -> Outcome:
    """A prompt whose image is processed apart from it (cached, or limited to 0) must still be tokenized."""
    gemma4_mm = importlib.import_module("vllm.model_executor.models.gemma4_mm")
    processing = importlib.import_module("vllm.multimodal.processing.processor")
    no_items = importlib.import_module("vllm.multimodal.parse").MultiModalDataItems({})
    processor = object.__new__(gemma4_mm.Gemma4MultiModalProcessor)
    processor.info = unified_info()
    processor.dummy_inputs = gemma4_mm.Gemma4DummyInputsBuilder(processor.info)
    if not hasattr(processing.BaseMultiModalProcessor, "_apply_hf_processor_text_only"):
        found = dict(processor._apply_hf_processor_main(no_items, {}))
        if found:
            return "defect", f"without any item the processor still makes {sorted(found)}"
        return "sound", "text never reaches the HF processor in this release: _apply_hf_processor_main takes items only"
    expected = unified_processor().tokenizer(TEXT)["input_ids"]
    try:
        found = processor._apply_hf_processor_text_only(TEXT, {"truncation": False})
    except ValueError as error:
        if "no images were passed" not in describe(error):
            raise
        return "defect", describe(error)
    if found != expected:
        return "defect", f"{TEXT!r} became {found}, not {expected}"
    return "sound", f"{TEXT!r} without an image becomes {found}"


def check_embedder() -> Outcome:
    """Soft tokens are normalized and then projected into the language model, as in transformers, and not the reverse."""
    import torch

    torch.manual_seed(0)
    soft, weight = torch.randn(3, 8), torch.randn(8, 4)
    part = types.SimpleNamespace(embedding_projection=lambda tokens: (tokens @ weight, None))
    part.embedding_pre_projection_norm = part.embedding_post_projection_norm = lambda tokens: tokens / tokens.norm()
    embedder = importlib.import_module("vllm.model_executor.models.gemma4_mm").Gemma4MultimodalEmbedder
    if not torch.allclose(embedder.forward(part, soft), soft / soft.norm() @ weight):
        return "defect", f"{MODELS}/gemma4_mm.py: {embedder.__name__} does not normalize before it projects"
    return "sound", "soft tokens are normalized, then projected"


def check_end_of_audio() -> Outcome:
    """An audio item is closed with the unified configuration's own end token."""
    config = unified_config()
    try:
        found = list(unified_info().get_audio_repl(audio_len=AUDIO_SAMPLES, processor=unified_processor()).full)
    except AttributeError as error:
        if "eoa_token_id" not in str(error):
            raise
        return "defect", describe(error)
    soft = [unified_processor().audio_token_id] * SOFT_TOKENS
    expected = [config.boa_token_id, *soft, config.eoa_token_index]
    if found != expected:
        return "defect", f"one second of audio became {len(found)} tokens {found[:2]}…{found[-2:]}, not {expected[-2:]}"
    return "sound", f"one second of audio is {SOFT_TOKENS} tokens closed by {found[-1]}"


def check_suppress_tokens() -> Outcome:
    """compute_logits makes the suppressed tokens impossible, and both classes read them from the generation config."""
    import torch

    # vLLM takes this machine for one with the card; without one nothing can be pinned.
    torch_utils = importlib.import_module("vllm.utils.torch_utils")
    torch_utils.PIN_MEMORY, torch_utils.is_pin_memory_available = False, lambda: False
    model = unified_class() or tower_class()
    scores = torch.arange(12, dtype=torch.float32).reshape(2, 6)
    hidden = torch.zeros(2, 4)
    found = model.compute_logits(stand_in([1, 4], scores.clone()), hidden)
    expected = scores.clone()
    expected[:, [1, 4]] = float("-inf")
    if not torch.equal(found, expected):
        return "defect", f"{model.__name__}.compute_logits with suppressed tokens 1 and 4 gives {found.tolist()[0]}"
    for ids in (None, []):
        if not torch.equal(model.compute_logits(stand_in(ids, scores.clone()), hidden), scores):
            return "defect", f"{model.__name__}.compute_logits changes logits with suppress_tokens = {ids}"
    if model.compute_logits(stand_in([1], None), hidden) is not None:
        return "defect", f"{model.__name__}.compute_logits invents logits on a rank that has none"
    for owner in (model, tower_class()):
        code = owner.__init__.__code__
        if "_suppress_token_ids" not in code.co_names or "suppress_tokens" not in code.co_consts:
            return "defect", f"{owner.__name__}.__init__ does not read suppress_tokens, which compute_logits uses"
    return "sound", "the logits of suppressed tokens are -inf, all others are unchanged"


def stand_in(suppressed: list[int] | None, logits: object) -> Any:
    """What compute_logits reads of a model, and nothing else."""
    language_model = types.SimpleNamespace(compute_logits=lambda hidden_states: logits)
    return types.SimpleNamespace(_suppress_token_ids=suppressed, language_model=language_model)


def check_draft_assistant(tree: Path) -> Outcome:
    """The drafter of the unified model becomes Gemma 4 MTP, as the drafter of Gemma 4 does."""
    if "gemma4_assistant" not in (tree / SPECULATIVE).read_text(encoding="utf-8"):
        return "absent", f"{SPECULATIVE} has no Gemma 4 MTP: the literal gemma4_assistant does not occur"
    from transformers import PretrainedConfig

    config = PretrainedConfig(architectures=["Gemma4UnifiedAssistantForCausalLM"])
    config.model_type = "gemma4_unified_assistant"
    speculative = importlib.import_module("vllm.config.speculative").SpeculativeConfig
    found = speculative.hf_config_override(config)
    if found.model_type != "gemma4_mtp" or list(found.architectures or []) != ["Gemma4MTPModel"]:
        return "defect", f"{SPECULATIVE} leaves {found.model_type} with {found.architectures} as it was"
    return "sound", f"gemma4_unified_assistant becomes {found.model_type}"


def check_draft_image_token(tree: Path) -> Outcome:
    """Read, not executed: a drafter takes image_token_id from the target, whose config has no image_token_index."""
    path = next(path for path in PROPOSERS if (tree / path).is_file())
    nodes = [node for node in ast.walk(parsed(tree / path)) if isinstance(node, (ast.List, ast.Tuple, ast.Set))]
    named = [(node.lineno, {item.value for item in node.elts if isinstance(item, ast.Constant)}) for node in nodes]
    lists = [(line, names) for line, names in named if TOWER_ARCHITECTURE in names]
    if not lists:
        return "absent", f"{path} has no list that names {TOWER_ARCHITECTURE}"
    missing = [line for line, names in lists if ARCHITECTURE not in names]
    if missing:
        return "defect", f"{path}:{missing[0]} names {TOWER_ARCHITECTURE} but not the unified model"
    return "sound", f"{path}:{lists[0][0]} (read, not executed)"


@cache
def unified_processor() -> Any:
    """The real Gemma4UnifiedProcessor around a tokenizer of a few words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, "<pad>": 1, "hello": 2}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", pad_token="<pad>", extra_special_tokens=IMAGE_TOKENS | AUDIO_TOKENS
    )
    return unified_part("processing", "Processor")(
        unified_part("feature_extraction", "AudioFeatureExtractor")(),
        unified_part("image_processing", "ImageProcessor")(),
        tokenizer,
        unified_part("video_processing", "VideoProcessor")(),
    )


@cache
def unified_config() -> Any:
    """The real Gemma4UnifiedConfig, with its own defaults."""
    return unified_part("configuration", "Config")()


def unified_part(module: str, name: str) -> Any:
    """One class of the model's package in transformers."""
    package = "transformers.models.gemma4_unified"
    return getattr(importlib.import_module(f"{package}.{module}_gemma4_unified"), f"Gemma4Unified{name}")


def unified_info() -> Any:
    """The tree's processing info (the unified one where the tree has it) on the real configuration and processor."""
    import torch

    context = importlib.import_module("vllm.multimodal.processing.context")
    multimodal = importlib.import_module("vllm.config.multimodal").MultiModalConfig()
    model_config = types.SimpleNamespace(
        model="probe", dtype=torch.float32, multimodal_config=multimodal, get_multimodal_config=lambda: multimodal
    )
    module = sys.modules[(unified_class() or tower_class()).__module__]
    owner = getattr(module, "Gemma4UnifiedProcessingInfo", None) or module.Gemma4ProcessingInfo
    info = owner(context.InputProcessingContext(model_config, unified_processor().tokenizer))
    info.get_hf_config = unified_config
    info.get_hf_processor = lambda **kwargs: unified_processor()
    return info


def unified_class() -> Any:
    """The model class as the registry resolves it; None where it does not, which check_model_class reports."""
    entry = importlib.import_module("vllm.model_executor.models.registry").ModelRegistry.models.get(ARCHITECTURE)
    try:
        return entry.load_model_cls() if entry is not None else None
    except (ImportError, AttributeError):
        return None


def tower_class() -> Any:
    """The Gemma 4 model that the unified one inherits from."""
    return getattr(importlib.import_module("vllm.model_executor.models.gemma4_mm"), TOWER_ARCHITECTURE)


def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file of the tree."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def dict_keys(path: Path) -> Iterator[tuple[str, str, int]]:
    """Table, key and line of each literal key of each module-level table; a repeated key comes repeatedly."""
    for node in parsed(path).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, value = node.target.id, node.value
        else:
            continue
        if isinstance(value, ast.Dict):
            for key in value.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield name, key.value, key.lineno


if __name__ == "__main__":
    try:
        result = main(Path(sys.argv[1]).resolve())
    except BaseException as error:
        result = {"verdict": "unknown", "reason": describe(error), "checks": []}
    sys.stdout.write("\n" + json.dumps(result) + "\n")
    sys.stdout.flush()
    # Exit hooks of the imported libraries must not print after the last line.
    os._exit(0)
