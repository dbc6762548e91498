"""Two real kernels wheels, on either side of the change of the group rule: rules, operators, symbols beside a real torch."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from patchset.kernels import beside, calls, have, read
from patchset.kernels.finding import Verdict, Wish
from patchset.kernels.judge import judge
from patchset.resolve import Project
from patchset.store import Store
from patchset.workspace import Workspace

#: version → the rule for speculative groups, whether mixed batches are refused, and how many operators the objects
#: register when they are loaded (the field notes: 95 in 0.1.12.3; 111 in 0.1.15.4, which registers what 0.1.15.3 does).
FIELD = {"0.1.12.3": ("==", True, 95), "0.1.15.3": ("<=", False, 111)}
SPACES = ("_C", "_C_cache_ops", "_moe_C", "_vllm_fa2_C", "_xpu_C")

#: What torch's own parser makes of each schema: name, and each argument's name, whether by name only, whether given.
PARSE = """
import json, sys, torch
rows = []
for text in json.load(sys.stdin):
    schema = torch._C.parse_schema("ns::" + text)
    arguments = [[a.name, a.kwarg_only, a.has_default_value()] for a in schema.arguments]
    rows.append([schema.name.partition("::")[2], arguments])
json.dump(rows, sys.stdout)
"""

ReadWheel = Callable[[str], tuple[have.Had, read.Contents]]


@pytest.fixture(scope="module")
def wheel(project: Project, workspace: Workspace, room: Path, tmp_path_factory: pytest.TempPathFactory) -> ReadWheel:
    """version → the wheel, fetched once into vendor/, and its contents, read once."""
    known: dict[str, tuple[have.Had, read.Contents]] = {}

    def scratch() -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(dir=room)

    def get(version: str) -> tuple[have.Had, read.Contents]:
        if version not in known:
            had = have.from_index(project.upstreams[have.NAME], version, cache=workspace.archives)
            cache = tmp_path_factory.mktemp("cache")
            known[version] = (had, read.contents(had, cache=cache, scratch=scratch)[0])
            assert read.contents(had, cache=cache, scratch=scratch) == (known[version][1], True)
        return known[version]

    return get


@pytest.mark.parametrize("version", FIELD)
def test_rules_and_operators(version: str, wheel: ReadWheel) -> None:
    had, found = wheel(version)
    rule, refused, count = FIELD[version]
    assert had.pinned and {text for _, text in found.groups} == {rule} and bool(found.mixed) is refused
    assert len({(op.namespace, op.schema.name) for op in found.ops}) == len(found.ops) == count
    counts = Counter(op.namespace for op in found.ops)
    assert tuple(sorted(counts)) == SPACES and counts["_C_cache_ops"] == 11 and found.named == ()
    by_function = {op.namespace for op in found.ops if op.told_by == "function"}
    assert by_function == {"_C", "_C_cache_ops", "_xpu_C"}


@pytest.mark.parametrize("version", FIELD)
def test_torch_reads_each_schema_as_we_do(version: str, wheel: ReadWheel, lab_python: Path) -> None:
    schemas = [op.schema for op in wheel(version)[1].ops]
    done = subprocess.run(
        [str(lab_python), "-c", PARSE],
        input=json.dumps([schema.text for schema in schemas]),
        check=True,
        capture_output=True,
        text=True,
    )
    ours = [[schema.name, [[a.name, a.keyword, a.default is not None] for a in schema.arguments]] for schema in schemas]
    assert json.loads(done.stdout) == ours


@pytest.mark.parametrize("version", FIELD)
def test_objects_beside_the_laboratorys_torch(
    version: str, wheel: ReadWheel, workspace: Workspace, lab_python: Path
) -> None:
    found, torch = wheel(version)[1], beside.laboratory(workspace.environments)
    assert torch is not None and not torch.xpu
    assert torch.folder.resolve().is_relative_to(lab_python.parents[1].resolve())
    for item in found.objects:
        assert "libsycl.so.9" in item.needed and item.search_path == ("$ORIGIN",)
        assert set(item.torch) <= torch.exported and not set(item.xpu) & torch.exported
    special = {name for item in found.objects for name in item.xpu}
    assert 10 <= len(special) <= 15 and found.bundled == ()
    assert any("5torch7Library4_def" in name for item in found.objects for name in item.torch)


def test_the_tree_of_the_release_before_and_after(
    project: Project, store: Store, base_of: Callable[[str], str], wheel: ReadWheel
) -> None:
    """0.33.0 needs what 0.1.15.3 has, and 0.1.12.3 lacks: an operator without which its tree cannot run, and the rule."""
    wanted = calls.wanted(store, base_of("0.33.0"))
    assert wanted.unread == () and len(wanted.uses) > 300
    wish = Wish("r", "0.33.0", {"torch": "==2.14.0+xpu"}, "==0.1.15.4", project.patches["mtp-boundary"], False)
    told = {}
    for version in FIELD:
        had, found = wheel(version)
        told[version] = {finding.about: finding for finding in judge(had, found, wanted, None, wish)}
    new, old = told["0.1.15.3"], told["0.1.12.3"]
    assert not [finding for finding in new.values() if finding.verdict is Verdict.BAD]
    assert new["operators"].verdict is new["imports"].verdict is Verdict.GOOD
    assert old["speculative groups"].verdict is Verdict.BAD and "counts on kernels" in old["speculative groups"].text
    assert old["operators"].verdict is Verdict.BAD and "_xpu_C.fused_input_norm" in old["operators"].text


@pytest.mark.parametrize(
    ("release", "applied"), [("0.22.1", False), ("0.23.0", False), ("0.23.0", True), ("0.30.0", False)]
)
def test_refusing_kernels_matter_where_short_groups_reach_them(
    release: str, applied: bool, project: Project, wheel: ReadWheel
) -> None:
    had, found = wheel("0.1.12.3")
    wish = Wish("r", release, {}, "", project.patches["mtp-boundary"], applied)
    findings = judge(had, found, calls.Wanted((), (), (), ()), None, wish)
    (groups,) = [finding for finding in findings if finding.about == "speculative groups"]
    assert (groups.verdict is Verdict.BAD) is (release in ("0.23.0", "0.30.0") and not applied)
