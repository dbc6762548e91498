"""The forecast's page in a real headless Chromium: on a desk and on a phone, by light and in the dark, without a script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from patchset.forecast_page import page as page_of
from tests.e2e.conftest import Inv
from tests.measured_pages import CONTRASTS, overflow
from tests.page_documents import document, hostile

DESK = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
VIEWS = pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens a document's page. At the end nothing was asked of any network, and nothing was said on the console."""
    asked: list[str] = []
    said: list[str] = []
    contexts = []

    def opens(made: dict[str, Any], size: dict[str, int] = DESK, dark: bool = False, script: bool = True) -> Any:
        file = tmp_path / f"page-{len(contexts)}.html"
        file.write_text(page_of(made), encoding="utf-8")
        context = browser.new_context(
            viewport=size,
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            java_script_enabled=script,
            has_touch=size is PHONE,
            is_mobile=size is PHONE,
        )
        contexts.append(context)
        context.on("request", lambda request: asked.append(request.url))
        shown = context.new_page()
        shown.on("console", lambda message: said.append(message.text))
        shown.on("pageerror", lambda error: said.append(str(error)))
        shown.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        shown.goto(file.as_uri())
        return shown

    yield opens
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith((tmp_path.as_uri(), "data:,"))] == []


def _cell(shown: Any, patch: str, release: str) -> Any:
    return shown.locator(f'a.cell[href="#{patch}/{release}"]')


def _panel(shown: Any, name: str) -> Any:
    return shown.locator(f'[id="{name}"]')


def _panel_ids(shown: Any) -> list[str]:
    return shown.evaluate("[...document.querySelectorAll('.panel')].map((panel) => panel.id)")


def _crowd() -> dict[str, Any]:
    """A forecast of twelve patches: more than a phone can show side by side."""
    made = document()
    for turn in range(1, 4):
        for patch in document()["patches"]:
            made["patches"].append({**patch, "id": f"{patch['id']}-{turn}-with-a-rather-long-name"})
        made["cells"] += [
            {**deepcopy(cell), "patch": f"{cell['patch']}-{turn}-with-a-rather-long-name"}
            for cell in document()["cells"]
        ]
    return made


# -- it fits -----------------------------------------------------------------------------------------------------------


@VIEWS
@pytest.mark.parametrize("make", [document, hostile, _crowd], ids=["made", "hostile", "crowd"])
def test_neither_the_page_nor_any_panel_scrolls_sideways(opened: Any, size: Any, make: Any) -> None:
    shown = opened(make(), size)
    assert overflow(shown) <= 0
    for name in _panel_ids(shown):
        shown.evaluate("(name) => { location.hash = name; }", name)
        wide = _panel(shown, name).evaluate("(panel) => [panel.scrollWidth - panel.clientWidth, panel.clientWidth]")
        assert wide[0] <= 0 < wide[1], name
        assert overflow(shown) <= 0, name


def test_a_wide_matrix_scrolls_in_its_own_box_and_the_releases_stay(opened: Any) -> None:
    shown = opened(_crowd(), PHONE)
    box, first = shown.locator(".box"), shown.locator(".matrix tbody th").first
    assert box.evaluate("(box) => box.scrollWidth - box.clientWidth") > 200
    before = first.bounding_box()["x"]
    box.evaluate("(box) => { box.scrollLeft = 200; }")
    assert first.bounding_box()["x"] == before
    assert box.evaluate("(box) => box.scrollLeft") == 200


@VIEWS
def test_what_a_newcomer_sees_first(opened: Any, size: Any) -> None:
    shown = opened(document(), size)
    for text in (
        "3 patches on 8 releases of vllm",
        "We carry these patches until",
        "cells where a patch does not go in",
    ):
        assert shown.get_by_text(text).first.bounding_box()["y"] < size["height"]
    assert shown.locator("#needed").bounding_box()["y"] < size["height"]


# -- it opens and closes -----------------------------------------------------------------------------------------------


@VIEWS
@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_a_click_opens_the_evidence_and_back_closes_it(opened: Any, size: Any, script: bool) -> None:
    shown = opened(document(), size, script=script)
    panel = _panel(shown, "zero-counts/0.25.0")
    assert not panel.is_visible()
    _cell(shown, "zero-counts", "0.25.0").click()
    assert panel.is_visible()
    for text in ("three-way merge: worker/tables.py conflicts", "self.table = signed(size)", "file not there"):
        assert panel.get_by_text(text).first.is_visible()
    shown.go_back()
    assert not panel.is_visible() and _cell(shown, "zero-counts", "0.25.0").is_visible()
    shown.go_forward()
    panel.locator("a.close").click()
    assert not panel.is_visible() and _cell(shown, "zero-counts", "0.25.0").is_visible()


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_every_cell_is_reached_and_opened_by_the_keyboard(opened: Any, script: bool) -> None:
    shown = opened(document(), script=script)
    reached = []
    shown.locator("#matrix ~ .box").focus()
    for _ in range(60):
        shown.keyboard.press("Tab")
        href = shown.evaluate("document.activeElement.matches('a.cell') ? document.activeElement.hash.slice(1) : ''")
        reached += [href] if href else []
    assert reached == [f"{cell['patch']}/{cell['release']}" for cell in document()["cells"]]
    _cell(shown, "pointer-tables", "0.26.0").focus()
    shown.keyboard.press("Enter")
    panel = _panel(shown, "pointer-tables/0.26.0")
    assert panel.is_visible()
    shown.keyboard.press("Tab")
    assert panel.locator("a.close").evaluate("(link) => link === document.activeElement")
    shown.keyboard.press("Enter")
    assert not panel.is_visible()


def test_arrows_walk_the_matrix_and_escape_closes_where_it_was_opened(opened: Any) -> None:
    shown = opened(document())
    _cell(shown, "pointer-tables", "0.22.0").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft"):
        shown.keyboard.press(key)
    cell = _cell(shown, "zero-counts", "0.22.0")
    assert cell.evaluate("(link) => link === document.activeElement")
    place = shown.evaluate("scrollY")
    shown.keyboard.press("Enter")
    panel = _panel(shown, "zero-counts/0.22.0")
    panel.wait_for(state="visible")
    assert panel.evaluate("(panel) => panel === document.activeElement")
    assert cell.get_attribute("aria-current") == "true"
    shown.keyboard.press("Escape")
    panel.wait_for(state="hidden")
    assert cell.evaluate("(link) => link === document.activeElement")
    assert shown.evaluate("scrollY") == place


def test_from_one_cell_to_the_next_and_to_the_patch_and_back(opened: Any) -> None:
    shown = opened(document())
    _cell(shown, "zero-counts", "0.25.0").click()
    _panel(shown, "zero-counts/0.25.0").locator("a.down").click()
    _panel(shown, "zero-counts/0.26.0").locator("a.right").click()
    open_one = _panel(shown, "short-groups/0.26.0")
    assert open_one.is_visible() and shown.locator(".panel:visible").count() == 1
    open_one.get_by_text("Why this patch exists").click()
    assert _panel(shown, "patch/short-groups").get_by_text("The operator refuses a short group.").is_visible()
    for name in ("short-groups/0.26.0", "zero-counts/0.26.0", "zero-counts/0.25.0"):
        shown.go_back()
        assert _panel(shown, name).is_visible()
    shown.go_back()
    assert shown.locator(".panel:visible").count() == 0


def test_on_a_phone_the_three_sides_of_a_conflict_are_stacked_and_on_a_desk_side_by_side(opened: Any) -> None:
    for size, stacked in ((PHONE, True), (DESK, False)):
        shown = opened(document(), size)
        _cell(shown, "zero-counts", "0.25.0").click()
        sides = _panel(shown, "zero-counts/0.25.0").locator(".sides").first.locator(".side")
        tops = [round(sides.nth(at).bounding_box()["y"]) for at in range(3)]
        assert (tops == sorted(set(tops))) is stacked and (len(set(tops)) == 1) is not stacked


# -- it can be read ----------------------------------------------------------------------------------------------------


@VIEWS
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_has_enough_contrast(opened: Any, size: Any, dark: bool) -> None:
    shown = opened(document(), size, dark=dark)
    assert (
        shown.evaluate("getComputedStyle(document.body.parentElement).backgroundColor") == "rgb(15, 18, 23)"
    ) is dark
    measured = shown.evaluate(CONTRASTS)
    for name in _panel_ids(shown):
        shown.evaluate("(name) => { location.hash = name; }", name)
        measured += shown.evaluate(CONTRASTS)
    assert len(measured) > 2000
    assert [item for item in measured if item[0] < 4.5] == []


@VIEWS
def test_hostile_text_does_nothing_and_is_seen(opened: Any, size: Any) -> None:
    shown = opened(hostile(), size)
    _cell(shown, "zero-counts", "0.25.0").click()
    panel = _panel(shown, "zero-counts/0.25.0")
    assert panel.get_by_text("</script><script>window.pwned = 1</script>").first.is_visible()
    assert panel.get_by_text("access = '⟨U+202E⟩user").first.is_visible()
    panel.hover()
    assert shown.evaluate("window.pwned") is None
    assert shown.locator("img, iframe, object, embed, form").count() == 0


@pytest.mark.parametrize("kept", [True, False], ids=["policy", "no-policy"])
def test_the_policy_holds_against_what_would_get_past_the_escaping(browser: Any, tmp_path: Path, kept: bool) -> None:
    """The second wall: markup put into the page by force runs nothing and asks for nothing; without the policy it does."""
    bad = "<script>window.pwned = 1</script><style>h1 { color: rgb(1, 2, 3) }</style><img src='https://evil.example/x'>"
    text = page_of(document()).replace("<main>", f"<main>{bad}")
    file = tmp_path / "forced.html"
    file.write_text(text if kept else text.replace("Content-Security-Policy", "nothing"), encoding="utf-8")
    asked: list[str] = []
    with _context(browser) as context:
        context.route(re.compile("^https:"), lambda route: (asked.append(route.request.url), route.abort()))
        shown = context.new_page()
        shown.goto(file.as_uri())
        color = shown.evaluate("getComputedStyle(document.querySelector('h1')).color")
        did = (shown.evaluate("window.pwned === 1"), color == "rgb(1, 2, 3)", asked == ["https://evil.example/x"])
    assert did == ((False, False, False) if kept else (True, True, True))


@contextmanager
def _context(browser: Any) -> Iterator[Any]:
    context = browser.new_context()
    yield context
    context.close()


def test_on_paper_the_matrix_and_what_breaks_are_printed_in_ink_on_white(opened: Any) -> None:
    shown = opened(document(), dark=True)
    shown.emulate_media(media="print", color_scheme="dark")
    assert shown.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert shown.locator(".matrix").is_visible()
    assert _panel(shown, "zero-counts/0.25.0").is_visible() and _panel(shown, "patch/zero-counts").is_visible()
    assert not _panel(shown, "pointer-tables/0.21.0").is_visible()
    assert [item for item in shown.evaluate(CONTRASTS) if item[0] < 4.5] == []
    assert shown.pdf(format="A4")[:5] == b"%PDF-"


# -- typed -------------------------------------------------------------------------------------------------------------


def test_inv_forecast_writes_the_page_of_the_real_thing(inv: Inv, browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "forecast.html"
    ended = inv("forecast", "--releases", "0.23.0", "--html", str(file), "--json")
    assert ended.status == 0, ended.err
    cells = ended.json["cells"]
    with _context(browser) as context:
        shown = context.new_page()
        said: list[str] = []
        shown.on("console", lambda message: said.append(message.text))
        shown.goto(file.as_uri())
        assert shown.locator("a.cell").count() == len(cells) == 4
        for cell in cells:
            _cell(shown, cell["patch"], "0.23.0").click()
            panel = _panel(shown, f"{cell['patch']}/0.23.0")
            assert panel.get_by_text(cell["so"]).first.is_visible()
            assert all(line in panel.inner_text() for line in cell["evidence"])
            shown.go_back()
        assert said == []
