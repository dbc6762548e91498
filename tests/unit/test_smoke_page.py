"""The smoke's results for a person: what did not run never looks like a pass, on the terminal or on the page."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from patchset import budget, smoke_page, smoke_show, smoke_view
from patchset.console import Console
from patchset.errors import MissingTool
from patchset.runtime import Smoked
from tests.smoke_documents import SHA, WHEEL, codes, hostile, kernel, lanes, native, result

NO_OPENCL = MissingTool("lane spirv cannot run here: no OpenCL <runtime>")


def _smoked(*results: dict[str, Any], **not_run: MissingTool) -> Smoked:
    return Smoked(Path("/somewhere") / WHEEL, results, not_run)


def _page(*results: dict[str, Any], compared: budget.Comparison | None = None, **not_run: MissingTool) -> str:
    return smoke_page.page("b70-0.23", _smoked(*results, **not_run), compared)


class _Words(HTMLParser):
    """The text of each table's cells, by row; and every tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] += data


# -- cells -------------------------------------------------------------------------------------------------------------


def test_a_cell_says_what_became_of_a_kernel_and_only_a_full_pass_is_one() -> None:
    rows = {row.kernel: row for row in smoke_view.rows(lanes(), {"spirv": "no OpenCL"}, list(smoke_view.ABOUT))}
    told = {name: {lane: (cell.tone, cell.text) for lane, cell in row.cells.items()} for name, row in rows.items()}
    assert told == {
        "expand_kernel": {
            "interpret": ("passed", "passed 2/2"),
            "spirv": ("notrun", "not run"),
            "native": ("passed", "passed 2/2"),
            "device": ("passed", "passed 1/1"),
        },
        "greedy_kernel": {
            "interpret": ("known", "known defect 1, passed 1/2"),
            "spirv": ("notrun", "not run"),
            "native": ("passed", "passed 2/2"),
            "device": ("failed", "FAILED 1/1"),
        },
        "precopy_kernel": {
            "interpret": ("absent", "absent"),
            "spirv": ("notrun", "not run"),
            "native": ("notrun", "not run"),
            "device": ("notrun", "not run"),
        },
        "gdn_kernel": {
            "interpret": ("notrun", "not run"),
            "spirv": ("notrun", "not run"),
            "native": ("passed", "passed 2/2"),
            "device": ("notrun", "not run"),
        },
    }
    assert rows["greedy_kernel"].cells["spirv"].why == "no OpenCL"
    assert rows["greedy_kernel"].cells["device"].why == "case odd: out: 3 of 9 elements wrong"
    assert rows["gdn_kernel"].cells["interpret"].why == "this kernel is not for this lane"
    assert [row.mutants for row in rows.values()] == ["2/3", "", "", ""]


@pytest.mark.parametrize(
    ("made", "tone"),
    [
        (kernel(status="missing", message="0.23.0 must have it", cases=()), "failed"),
        (kernel(status="failed", message="the process died", cases=()), "failed"),
        (kernel(cases=()), "notrun"),
    ],
    ids=["missing", "died", "no-case"],
)
def test_without_cases_nothing_is_passed(made: Any, tone: str) -> None:
    cell = smoke_view.cell(result("interpret", made)["kernels"][0])
    assert cell.tone == tone and "passed" not in cell.text and cell.why


def test_what_was_not_run_is_a_lane_without_result_and_a_device_that_is_not_intels() -> None:
    assert smoke_view.gaps(lanes(), {"spirv": "no OpenCL"}) == [
        ("lane spirv", "no OpenCL"),
        ("lane device on Intel", "it ran on NVIDIA H200, not on an Intel GPU"),
    ]
    on_card = result("device", kernel(), kind="xpu", device="Arc Pro B70")
    assert [what for what, _ in smoke_view.gaps([on_card], {})] == ["lane interpret", "lane spirv", "lane native"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (1.254, "1.25\u00a0s"), (0.035, "35\u00a0ms"), (28e-6, "28\u00a0µs")]
)
def test_times_are_as_short_as_they_go(seconds: float | None, text: str) -> None:
    assert smoke_view.span(seconds) == text


# -- terminal ----------------------------------------------------------------------------------------------------------


class _Narrow(Console):
    """A console of so many columns."""

    columns = 80

    @property
    def width(self) -> int:
        return self.columns


def _shown(capsys: pytest.CaptureFixture[str], columns: int, *results: dict[str, Any], **more: Any) -> str:
    console = _Narrow()
    console.columns = columns
    smoke_show.show(console, Path(WHEEL), results, more.pop("not_run", {}), more.pop("compared", None), one=False)
    return capsys.readouterr().out


def test_the_terminal_shows_lanes_resources_times_and_what_is_against_it(capsys: pytest.CaptureFixture[str]) -> None:
    before = native(kernel("greedy_kernel", text="3" * 64, resources=codes(16384, 33000, 16)))
    compared = budget.compare({"smoke": [before]}, {"lanes": lanes()}, "receipt-1.json of 0.23.0+xpu.b70.1")
    text = _shown(capsys, 200, *lanes(), not_run={"spirv": "no OpenCL"}, compared=compared)
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    for line in (
        "kernel interpret spirv native device mutants caught",
        "expand_kernel passed 2/2 not run passed 2/2 passed 1/1 2/3",
        "greedy_kernel known defect 1, passed 1/2 not run passed 2/2 FAILED 1/1",
        "precopy_kernel absent not run not run not run",
        "known greedy_kernel, interpret: the count is reset, pull 50432",
        "FAILED greedy_kernel, device: case odd: out: 3 of 9 elements wrong",
        "greedy_kernel 128 (default) 1 33000 retried 65536 (25 %) 16 (<1 %)",
        "256 1 16500 32768 (12 %) 16 (<1 %)",
        "expand_kernel 1.25 s 28 µs 5 µs 1 same bytes",
        "FAILED lane interpret: expand_kernel: no case saw the planted fault at line 41: < for <=",
        "unknown kernels, which the catalogue has no cases for: gather_kernel (vllm/v1/b.py:7)",
        "not run lane spirv: no OpenCL",
        "not run lane device on Intel: it ran on NVIDIA H200, not on an Intel GPU",
        "budget against receipt-1.json of 0.23.0+xpu.b70.1",
        "this series took greedy_kernel from 16 KiB to 64 KiB of scratch, in the default mode, 25 % of what the card allows",
    ):
        assert line in lines, line


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_no_word_of_a_table_is_cut_in_two(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    long = [
        {**one, "kernels": [{**k, "name": f"a_rather_long_name_of_{k['name']}"} for k in one["kernels"]]}
        for one in lanes()
    ]
    from rich import console as rich

    real = rich.Console.__init__
    monkeypatch.setattr(rich.Console, "__init__", lambda self, **more: real(self, **{**more, "width": columns}))
    text = _shown(capsys, columns, *long, not_run={"spirv": "no OpenCL"})
    words = set(re.split(r"[\s_]+", text))
    assert {"interpret", "registers", "(default)", "retried", "passed", "2/2", "FAILED", "mutants"} <= words
    table = text.partition("known    ")[0]
    assert max(map(len, table.splitlines())) <= columns


@pytest.mark.parametrize("width", [8, 24, 80])
@pytest.mark.parametrize("name", ["a_b", "x" * 90, "_" * 90, "chunk_gated_delta_rule_fwd_kernel_h_blockdim64"])
def test_a_folded_name_loses_no_letter(name: str, width: int) -> None:
    lines = smoke_show.fold(name, width)
    assert "".join(line.strip() for line in lines) == name and max(map(len, lines)) <= width


def test_json_of_several_lanes_has_the_budget_and_of_one_lane_is_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    compared = budget.compare({"smoke": [lanes()[1]]}, {"lanes": lanes()}, "receipt-1.json")
    smoke_show.show(Console(True), Path(WHEEL), lanes(), {"spirv": "no OpenCL"}, compared, one=False)
    document = json.loads(capsys.readouterr().out)
    assert (document["not_run"], document["budget"]["compared"]) == ({"spirv": "no OpenCL"}, 2)
    smoke_show.show(Console(True), Path(WHEEL), lanes()[:1], {}, None, one=True)
    assert json.loads(capsys.readouterr().out) == lanes()[0]


# -- page --------------------------------------------------------------------------------------------------------------


def test_the_page_has_every_lane_and_what_did_not_run_with_its_reason() -> None:
    text = _page(*lanes(), spirv=NO_OPENCL)
    rows = {row[0].partition("vllm/")[0]: row[1:] for row in _Words(text).rows if "vllm/" in row[0]}
    clean = {name: [re.sub(r"^\W+ ", "", cell) for cell in cells] for name, cells in rows.items()}
    assert clean["expand_kernel"] == ["passed 2/2", "not run", "passed 2/2", "passed 1/1", "2/3"]
    assert clean["precopy_kernel"] == ["absentnot in this release", "not run", "not run", "not run", "–"]
    for part in (
        "no OpenCL &lt;runtime&gt;",
        "it ran on NVIDIA H200, not on an Intel GPU",
        "64 KiB, 25\u00a0% of 256 KiB",
        "33000 B, retried",
        "26.27.039122 5c36223d0fc2",
        "1.25\u00a0s",
        "4711",
        SHA,
        "gather_kernel (vllm/v1/b.py:7)",
        "no case saw the planted fault at line 41: &lt; for &lt;=",
        "out: 3 of 9 elements wrong at [1, 2]",
    ):
        assert part in text, part


def test_bars_are_fractions_of_the_cards_limits_and_a_number_that_is_missing_has_none() -> None:
    made = native(kernel("greedy_kernel", resources=codes(65536, 4000, 131072)))
    del made["kernels"][0]["resources"][1]["scratch"]
    tags = _Words(_page(made)).tags
    bars = [
        attrs.get("width") for tag, attrs in tags if tag == "rect" and attrs.get("class") in ("part", "warn", "over")
    ]
    assert bars == ["25.000%", "100.000%", "100.000%", "100.000%", "50.000%"]
    assert [attrs["x"] for tag, attrs in tags if attrs.get("class") == "tick"] == ["25.000%", "25.000%"]


def test_an_empty_page_and_one_without_machine_code_claim_nothing() -> None:
    nothing = _page(interpret=MissingTool("no torch"))
    assert "Nothing was run." in nothing and 'class="fine"' not in nothing and "no torch" in nothing
    plain = _page(result("interpret", kernel()))
    assert "No kernel was compiled to machine code of the B70." in plain and "Only lane device measures times." in plain
    assert plain.count("not asked for") == 3
    assert "Nothing in what was run; see what was not." in plain


def test_the_comparison_stands_on_the_page() -> None:
    before = native(kernel("greedy_kernel", resources=codes(16384, 33000, 16)), ocloc="26.18")
    compared = budget.compare({"smoke": [before]}, {"lanes": lanes()}, "receipt-1.json of 0.23.0+xpu.b70.1")
    text = unescape(_page(*lanes(), compared=compared))
    assert "compilers differ (ocloc 26.18 → 26.27.039122 5c36223d0fc2)" in text
    assert "greedy_kernel went from 16 KiB to 64 KiB of scratch" in text


def test_the_page_needs_nothing_else_and_texts_have_no_effect() -> None:
    text = _page(*hostile(), spirv=MissingTool("<script>alert(1)</script>"))
    words = _Words(text)
    names = {tag for tag, _ in words.tags}
    assert not names & {"script", "img", "iframe", "object", "form"}
    assert not [
        attrs for _, attrs in words.tags if any(name.startswith("on") or name in ("src", "style") for name in attrs)
    ]
    assert all(str(attrs.get("href", "#")).startswith(("#", "data:,")) for _, attrs in words.tags)
    assert "default-src 'none'" in unescape(text) and "script-src 'none'" in unescape(text)
    assert "\u202e" not in text and "⟨U+202E⟩" in text and "more characters: see --json" in text


def test_the_same_results_give_the_same_page() -> None:
    assert _page(*lanes()) == _page(*lanes())
    assert f"<title>{smoke_page.TITLE}" in _page(*lanes())[:20_000]
