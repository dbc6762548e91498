"""The forecast's page: all of the document is in it, nothing of the document does anything, and it is well-formed HTML."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from jsonschema import Draft202012Validator

from patchset.forecast_page import page
from patchset.forecast_view import Block, anchor, detail_word, gist, is_link, prose, reference, sides, spans, troubles
from patchset.page import visible
from tests.page_documents import HOSTILE, HUGE, RELEASES, document, hostile

SCHEMA = json.loads((Path(__file__).parents[2] / "patchset" / "forecast.schema.json").read_text())
VOID = {"meta", "link", "br"}
#: The tags that the template writes.
TAGS = set(
    re.findall(
        r"\w+",
        """
    html head meta title link style body main header section nav footer div span p h1 h2 h3 h4 h5 ul ol
    li dl dt dd a b br code pre small table caption thead tbody tr th td details summary time script
""",
    )
)
CELLS = document()["cells"]


@dataclass
class Element:
    """One element: its attributes, and what is in it."""

    tag: str
    attrs: dict[str, str | None]
    inside: list[Any] = field(default_factory=list)

    def all(self, tag: str = "", **wanted: str) -> list[Element]:
        """Elements in this one, in order; ``class_`` is one of several classes."""
        found = []
        for child in self.inside:
            if isinstance(child, Element):
                classes = (child.attrs.get("class") or "").split()
                fits = all(
                    value in classes if name == "class_" else child.attrs.get(name) == value
                    for name, value in wanted.items()
                )
                found += [child] if fits and tag in ("", child.tag) else []
                found += child.all(tag, **wanted)
        return found

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.inside)


class Tree(HTMLParser):
    """Reads a page and insists on it being well-formed: every end tag ends what is open."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = [self.root]
        self.feed(text)
        self.close()
        assert self._open == [self.root], [element.tag for element in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute twice: {tag} {attrs}"
        element = Element(tag, dict(attrs))
        self._open[-1].inside.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> while <{self._open[-1].tag}> is open, line {self.getpos()[0]}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].inside.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def read(made: dict[str, Any]) -> Element:
    return Tree(page(made)).root


def by_id(root: Element) -> dict[str, Element]:
    found = {element.attrs["id"]: element for element in root.all() if "id" in element.attrs}
    assert len(found) == sum("id" in element.attrs for element in root.all()), "an id twice"
    return found


@pytest.fixture(scope="module")
def root() -> Element:
    return read(document())


@pytest.fixture(scope="module")
def panels(root: Element) -> dict[str, Element]:
    return by_id(root)


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


# -- the document the tests are made with ------------------------------------------------------------------------------


def test_the_document_made_by_hand_is_one_and_has_every_outcome_state_and_agreement() -> None:
    assert not list(Draft202012Validator(SCHEMA).iter_errors(document()))
    defs = SCHEMA["$defs"]["cell"]["properties"]
    assert {cell["outcome"] for cell in CELLS} == set(defs["outcome"]["enum"])
    assert {cell["state"] for cell in CELLS} == set(defs["state"]["enum"])
    assert {cell["agree"] for cell in CELLS} == {True, False, None}
    states = {hunk["state"] for cell in CELLS for hunk in cell["hunks"]}
    assert states == set(SCHEMA["$defs"]["hunk"]["properties"]["state"]["enum"])


def test_the_hostile_document_differs_from_a_valid_one_only_in_its_links() -> None:
    made = hostile()
    for patch in made["patches"]:
        patch["references"] = []
    assert not list(Draft202012Validator(SCHEMA).iter_errors(made))


# -- nothing is lost ---------------------------------------------------------------------------------------------------


def test_the_matrix_is_a_real_table_with_headers(root: Element) -> None:
    [matrix] = root.all("table", class_="matrix")
    [head] = matrix.all("thead")
    assert [squeezed(th.text) for th in head.all("th")] == ["vllm", "pointer-tables", "zero-counts", "short-groups"]
    assert {th.attrs["scope"] for th in head.all("th")} == {"col"}
    rows = matrix.all("tbody")[0].all("tr")
    assert [squeezed(row.all("th", scope="row")[0].text) for row in rows] == [
        *(f"{release} {date}" for release, date in RELEASES),
        "0.34.0",
    ]
    assert matrix.all("caption")
    assert all(
        th.attrs.get("scope") in ("col", "row", "rowgroup") for table in root.all("table") for th in table.all("th")
    )


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell['patch']}-{cell['release']}")
def test_every_cell_is_in_the_matrix_and_opens_all_of_its_evidence(
    cell: dict[str, Any], root: Element, panels: dict[str, Element]
) -> None:
    [link] = [a for a in root.all("a", class_="cell") if a.attrs["href"] == f"#{cell['patch']}/{cell['release']}"]
    words = squeezed(link.text)
    assert cell["outcome"] in words
    assert words[0] == gist(cell).mark, "a sign beside the colour"
    assert ("not run" in words or "not proved" in words) == (cell["agree"] is None)
    assert ("≠" in words) == (cell["agree"] is False)
    assert ("*" in words) == (not cell["covered"])

    text = squeezed(panels[f"{cell['patch']}/{cell['release']}"].text)
    wanted = [cell["so"], cell["variant"], cell["tree"], cell["outcome"], *cell["evidence"]]
    for clash in cell["conflicts"]:
        wanted += [clash["path"], *clash["base"], *clash["ours"], *clash["theirs"]]
    for item in cell["moved"]:
        wanted += [item["path"], item["to"] or "is gone", *(str(line) for line in item["lines"])]
    wanted += [cell["first_broken"]] if cell["first_broken"] else []
    for finding in filter(None, (cell["probe"]["base"], cell["probe"]["patched"])):
        wanted += [finding["verdict"], finding["reason"], finding["tree"][:12]]
        wanted += [word for check in finding["checks"] for word in (check["name"], check["reason"], check["verdict"])]
    wanted += [f"not run {cell['probe']['not_run']}"] if cell["probe"]["not_run"] else []
    missing = [item for item in wanted if squeezed(item) not in text]
    assert not missing


def test_hunks_are_a_table_with_lines_and_offsets(panels: dict[str, Element]) -> None:
    [table] = panels["zero-counts/0.25.0"].all("table", class_="hunks")
    rows = [
        [squeezed(item.text) for item in row.inside if isinstance(item, Element)]
        for row in table.all("tr")
        if row.all("td")
    ]
    assert rows == [
        ["1", "19", "17", "-2", "✓ fits"],
        ["2", "86", "–", "–", "✕ not found"],
        ["3", "140", "140", "0", "↓ in already"],
        ["1", "19", "–", "–", "✕ file not there"],
    ]
    assert "19, 310" in panels["pointer-tables/0.26.0"].all("table", class_="hunks")[0].text


def test_a_conflict_has_three_sides_and_what_differs_is_marked(panels: dict[str, Element]) -> None:
    panel = panels["zero-counts/0.25.0"]
    side = {name: panel.all("div", class_=name)[0] for name in ("base", "ours", "theirs")}
    marked = {
        name: [
            (row.all("span", class_="gutter")[0].text, row.all("span", class_="text")[0].text.strip()) for row in rows
        ]
        for name, rows in ((name, found.all("div", class_="differs")) for name, found in side.items())
    }
    assert marked == {
        "base": [("~", "def create(self):"), ("−~", "self.table = signed(64)")],
        "ours": [("~", "def create(self, size):"), ("~", "self.table = signed(size)")],
        "theirs": [("+", "self.table = unsigned(64)")],
    }
    # what is alike on a side is folded, and still there
    [folded] = side["ours"].all("details")
    assert folded.all("summary")[0].text == "6 lines alike" and len(folded.all("div", class_="line")) == 6


def test_what_is_needed_where_and_what_breaks_stand_before_the_matrix(root: Element) -> None:
    [main] = root.all("main")
    text = squeezed(main.text)
    order = ["3 patches on 8 releases of vllm", "Which patch is needed where", "What breaks", "Every patch on every"]
    assert [text.index(item) for item in order] == sorted(text.index(item) for item in order)
    [overview] = main.all("ul", class_="overview")
    assert "0.21.0 to 0.22.0: needed, goes in" in squeezed(overview.text)
    assert "0.31.0 to 0.33.0: fixed upstream" in squeezed(overview.text)
    linked = {a.attrs["href"] for a in main.all("ul", class_="troubles")[0].all("a")}
    trouble = {
        f"#{cell['patch']}/{cell['release']}"
        for cell in CELLS
        if cell["agree"] is False or cell["outcome"] in ("partial", "ambiguous", "conflicts", "refused")
    }
    assert linked == trouble


def test_the_counts_of_the_summary_are_shown_and_lead_on(root: Element, panels: dict[str, Element]) -> None:
    summary = document()["summary"]
    shown = {a.attrs["href"]: squeezed(a.text) for a in root.all("a", class_="tile")}
    tiles = [squeezed(a.text).split()[0] for a in root.all("a", class_="tile")]
    assert tiles == [str(summary[name]) for name in ("stops", "disagree", "not_run", "agree")]
    assert {href[1:] for href in shown} <= set(panels)


def test_every_patch_says_why_it_exists_and_names_its_references(root: Element, panels: dict[str, Element]) -> None:
    for patch in document()["patches"]:
        panel = panels[f"patch/{patch['id']}"]
        text = squeezed(panel.text)
        for item in (patch["title"], patch["drop_when"], patch["kind"]):
            assert squeezed(item) in text
        for word in re.findall(r"\w+", patch["why"]):
            assert word in text
        for item in patch["references"]:
            for place in (panel, *(panels[f"{patch['id']}/{release}"] for release, _ in RELEASES)):
                [link] = [a for a in place.all("a") if a.attrs["href"] == item["ref"]]
                assert link.attrs["rel"] == "noopener noreferrer"
                assert item["state"] in place.text and item["what"].replace("`", "") in place.text
    assert "first in 0.31.0: not in this release" in squeezed(panels["pointer-tables/0.26.0"].text)
    assert "first in 0.31.0: in this release" in squeezed(panels["pointer-tables/0.33.0"].text)


def test_what_runs_beside_each_release_and_what_changes_is_there(root: Element, panels: dict[str, Element]) -> None:
    [pins] = root.all("ol", class_="pins")
    for release in document()["releases"]:
        panel = squeezed(panels[f"release/{release['release']}"].text)
        assert release["tree"] in panel and release["date"] in panel
        assert all(f"{name}{specifier}" in panel for name, specifier in release["stack"].items())
        for item in release["changes"]:
            told = f"{item['name']} {item['from']} → {item['to'] or 'not asked for'}"
            assert told in panel and told in squeezed(pins.text) and item["meaning"] in squeezed(pins.text)


def test_what_was_not_run_or_could_not_be_had_is_said_with_the_next_command(root: Element) -> None:
    [gaps] = root.all("ul", class_="gaps")
    text = squeezed(gaps.text)
    [gone] = document()["unavailable"]
    assert gone["why"] in text and gone["next"] in text
    assert f"{document()['summary']['not_run']} cells lack a verdict" in text
    assert "./inv forecast -r b70-0.23 --releases 0.22.0..0.33.0 --probes" in text
    [row] = root.all("tr", class_="gone")
    assert "0.34.0" in row.text and "not forecast" in row.text and gone["why"] in row.text


def test_a_forecast_without_trouble_says_so_and_one_without_probes_claims_nothing() -> None:
    made = document()
    made["patches"], made["unavailable"] = made["patches"][:1], []
    made["cells"] = [cell for cell in made["cells"] if (cell["patch"], cell["release"]) == ("pointer-tables", "0.21.0")]
    made["releases"] = made["releases"][:1]
    made["summary"] = {"cells": 1, "agree": 1, "disagree": 0, "not_run": 0, "stops": 0}
    text = squeezed(read(made).text)
    assert "1 patch on 1 release of vllm, 0.21.0" in text
    assert "Nothing: every patch goes in where it is needed." in text
    assert "All probes that could deny a cell were heard" in text
    made["cells"][0].update(agree=None, state=None, probe={"base": None, "patched": None, "not_run": "no laboratory"})
    text = squeezed(read(made).text)
    assert "as far as the text can tell" in text and "no laboratory" in text and "goes in, not probed" in text


def test_a_forecast_of_nothing_is_a_page_too() -> None:
    made = document()
    made.update(cells=[], releases=[], summary=dict.fromkeys(made["summary"], 0))
    text = squeezed(read(made).text)
    assert "Nothing was forecast." in text and "0.34.0 is not forecast" in text


# -- nothing of it does anything ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [document, hostile])
def test_the_page_is_self_contained_and_only_its_own_style_and_script_may_act(make: Any) -> None:
    root = read(make())
    [policy] = [
        meta.attrs["content"] for meta in root.all("meta") if meta.attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    [style], [script] = root.all("style"), root.all("script")
    hashes = [b64encode(hashlib.sha256(item.text.encode()).digest()).decode() for item in (style, script)]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"url\(|@import|@font-face|expression\(", style.text)
    assert not re.search(r"fetch|XMLHttpRequest|import\(|innerHTML|eval", script.text)
    # every tag that is in a page is one that the template wrote
    assert {element.tag for element in root.all()} <= TAGS
    for element in root.all():
        assert not [
            name for name in element.attrs if name.startswith("on") or name in ("style", "src", "srcdoc", "action")
        ]
        if element.tag == "link":
            assert element.attrs == {"rel": "icon", "href": "data:,"}
        elif "href" in element.attrs:
            assert element.tag == "a" and re.match(r"#|https://", element.attrs["href"] or "")


@pytest.mark.parametrize("make", [document, hostile])
def test_every_link_inside_leads_somewhere_and_no_id_is_there_twice(make: Any) -> None:
    root = read(make())
    ids = by_id(root)
    inside = [a.attrs["href"] for a in root.all("a") if a.attrs["href"].startswith("#")]
    assert inside and {href[1:] for href in inside} <= set(ids)
    cells = {f"{cell['patch']}/{cell['release']}" for cell in CELLS}
    assert cells <= set(ids) and {f"at/{name}" for name in cells} <= set(ids)
    assert all(not re.search(r"\s", name) for name in ids)


def test_hostile_text_is_readable_and_is_only_text() -> None:
    text = page(hostile())
    assert text.encode("utf-8")
    root = Tree(text).root
    panel = by_id(root)["zero-counts/0.25.0"]
    for item in HOSTILE:
        assert visible(item) in panel.text
    assert "access = '⟨U+202E⟩user⟨U+2066⟩ // admin⟨U+2069⟩ ⟨U+2066⟩'⟨U+200B⟩⟨U+2028⟩next⟨U+2029⟩⟨U+FEFF⟩" in panel.text
    assert "a⟨U+0000⟩b⟨U+0007⟩c⟨U+001B⟩[31m" in panel.text and "⟨56 more marks⟩" in panel.text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]", text)
    assert HUGE not in text and "more characters: see --json⟩" in text
    assert len(text) < 4_000_000


def test_only_https_becomes_a_link() -> None:
    root = read(hostile())
    assert {a.attrs["href"] for a in root.all("a") if not a.attrs["href"].startswith("#")} == {
        "https://example.org/good"
    }
    shown = {squeezed(item.text) for item in root.all("span", class_="notlink")}
    assert "javascript:window.pwned=1" in shown and "https://example.org/⟨U+202E⟩gro.elpmaxe" in shown


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("https://github.com/vllm-project/vllm/pull/44665", True),
        ("https://example.org:8443/a?b=c#d", True),
        ("HTTPS://example.org/", False),
        ("http://example.org/", False),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("//example.org/", False),
        ("https://", False),
        ("https:///path", False),
        ("https://user@example.org/", False),
        ("https://github.com@evil.example/", False),
        ("https://example.org\\@evil.example/", False),
        ("https://exаmple.org/", False),  # a Cyrillic letter
        ("https://example.org/ x", False),
        ("https://example.org/\nx", False),
        ("https://[::1", False),
    ],
)
def test_is_link(text: str, links: bool) -> None:
    assert is_link(text) is links
    assert not links or urlsplit(text).hostname


def test_an_anchor_is_unique_and_stands_in_an_attribute_and_a_link_as_it_is() -> None:
    names = ["a", "a/b", "a b", "a%2Fb", "ä", '"><script>', "\ud800", "\u202e", "a#b"]
    found = [anchor("x", name) for name in names]
    assert len(set(found)) == len(names)
    assert all(re.fullmatch(r"[\w.~%/-]+", item, re.ASCII) for item in found)


# -- the same document, the same page ----------------------------------------------------------------------------------


def test_the_same_document_gives_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    file = tmp_path / "document.json"
    file.write_text(json.dumps(document()))
    program = "import json, sys; from patchset.forecast_page import page; sys.stdout.buffer.write(page(json.load(open(sys.argv[1]))).encode())"
    made = {
        subprocess.run(
            [sys.executable, "-c", program, str(file)],
            check=True,
            capture_output=True,
            cwd=Path(__file__).parents[2],
            env={"PYTHONHASHSEED": seed, "LC_ALL": locale, "TZ": zone, "PYTHONPATH": "."},
        ).stdout
        for seed, locale, zone in (("1", "C", "UTC"), ("2", "C.UTF-8", "Asia/Tokyo"))
    }
    assert made == {page(document()).encode()}


def test_the_page_does_not_change_the_document() -> None:
    made = document()
    page(made)
    assert made == document()


# -- words -------------------------------------------------------------------------------------------------------------


def test_gist_never_says_fixed_or_needed_of_what_was_not_asked() -> None:
    for cell in CELLS:
        said = gist(cell)
        assert said.asked == (cell["agree"] is not None)
        if cell["agree"] is None and cell["state"] is None:
            assert "not probed" in said.text
        assert (said.tone == "clash") == (cell["agree"] is False)
    assert Counter(gist(cell).tone for cell in CELLS) == Counter(
        carried=8, fixed=5, absent=3, stops=4, spare=1, clash=3
    )


def test_spans_join_releases_in_a_row_only() -> None:
    def cell(release: str, outcome: str, state: str) -> dict[str, Any]:
        return {"release": release, "outcome": outcome, "state": state, "agree": True, "covered": True}

    row = [cell("1", "applies", "needed"), cell("2", "merges", "needed"), cell("3", "upstream", "fixed")]
    row.append(cell("4", "applies", "needed"))
    found = [(span.first, span.last, span.count, span.gist.text) for span in spans(row)]
    assert found == [
        ("1", "2", 2, "needed, goes in"),
        ("3", "3", 1, "fixed upstream"),
        ("4", "4", 1, "needed, goes in"),
    ]


def test_troubles_that_say_the_same_are_one_group() -> None:
    def cell(release: str, outcome: str, so: str) -> dict[str, Any]:
        return {"release": release, "outcome": outcome, "agree": True, "so": so}

    row = [
        cell("1", "conflicts", "a"),
        cell("2", "conflicts", "a"),
        cell("3", "applies", "a"),
        cell("4", "refused", "b"),
    ]
    assert [[item["release"] for item in group] for group in troubles(row)] == [["1", "2"], ["4"]]


def test_detail_is_the_offset_furthest_from_zero_or_the_hunks_that_fail() -> None:
    hunks = [{"state": "fits", "offset": 3}, {"state": "fits", "offset": -7}]
    assert detail_word({"outcome": "applies", "hunks": hunks}) == "-7"
    assert detail_word({"outcome": "applies", "hunks": [{"state": "fits", "offset": 0}]}) == ""
    assert detail_word({"outcome": "conflicts", "hunks": [*hunks, {"state": "lost", "offset": 0}]}) == "1/3"
    assert detail_word({"outcome": "upstream", "hunks": []}) == ""


def test_sides_that_are_too_long_to_compare_are_shown_whole() -> None:
    long = [f"line {number}" for number in range(600)]
    found = sides({"base": long, "ours": long[::-1], "theirs": long})
    assert all([line.text for run in found["base"] for line in run.lines] == long for _ in found)
    assert not any(run.folded or line.mark for run in found["ours"] for line in run.lines)


def test_prose_fills_paragraphs_and_keeps_lists_and_indented_lines() -> None:
    [patch] = [patch for patch in document()["patches"] if patch["id"] == "pointer-tables"]
    assert prose(patch["why"]) == [
        Block("p", "Addresses have the top bit set, for example `0xffffd556b6400000`. A signed table dies on them:"),
        Block("pre", "OverflowError: Python int too large to convert to C long\nEngineDeadError"),
        Block("p", "So:"),
        Block("li", "the buffers become unsigned;"),
        Block("li", "and nothing else changes."),
        Block("p", "1a  in the first place"),
        Block("p", "1b  in the second"),
    ]


def test_a_reference_of_github_is_short_and_others_are_whole() -> None:
    item = {"what": "w", "state": "merged", "first_release": "0.24.0"}
    short = reference({**item, "ref": "https://github.com/vllm-project/vllm/pull/44665"}, "0.30.0")
    assert (short.name, short.there) == ("vllm-project/vllm#44665", True)
    whole = reference({**item, "ref": "https://github.com/vllm-project/vllm/tree/main"}, "0.9.0")
    assert (whole.name, whole.there) == (whole.url, False)
    assert reference({**item, "ref": "https://a.example/", "first_release": "1.x"}, "0.9.0").there is None
