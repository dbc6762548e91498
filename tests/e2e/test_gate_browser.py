"""The gates' pages in a real headless Chromium: on a desk and on a phone, by light and in the dark, without a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchset.gates import compare, document, page
from tests.measured_pages import CONTRASTS, overflow

RESULTS = Path(__file__).parents[1] / "unit" / "gates" / "results"
HOSTILE = '"><img src=http://x/ onerror=alert(1)>\u202e' + "W" * 300


def _good() -> dict[str, Any]:
    return document.checked(RESULTS / "promote-good.json")


def _ladder() -> str:
    """The good result's requests as a ladder of two rungs: the page does not ask whether it was one."""
    made = json.loads((RESULTS / "promote-good.json").read_bytes())
    rungs = [
        {**one, "id": f"c{at_once}-{phase}", "concurrency": at_once, "phase": phase}
        for at_once in (1, 16)
        for phase in ("cold", "warm")
        for one in made["requests"][1:3]
    ]
    return page.page(document.judged({**made, "kind": "ladder", "requests": rungs}))


def _hostile() -> str:
    made = json.loads((RESULTS / "promote-bad.json").read_bytes())
    made["model"]["id"] = made["endpoint"] = HOSTILE
    made["server"]["log"]["fallbacks"] = [HOSTILE]
    made["requests"][0]["id"] = made["requests"][0]["error"] = HOSTILE
    return page.page(document.judged(made))


@pytest.mark.parametrize(
    ("made", "plots"),
    [
        (lambda: page.page(_good()), 1),
        (_ladder, 1),
        (_hostile, 0),
        (lambda: page.comparison(compare.compare(_good(), _good())), 0),
    ],
    ids=["good", "ladder", "hostile", "comparison"],
)
def test_the_page_of_a_gate_fits_reads_and_asks_for_nothing(
    browser: Any, tmp_path: Path, made: Any, plots: int
) -> None:
    file = tmp_path / "gate.html"
    file.write_text(made(), encoding="utf-8")
    for width, dark in ((1280, False), (390, True)):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=False,
        )
        asked: list[str] = []
        said: list[str] = []
        context.on("request", lambda request, asked=asked: asked.append(request.url))
        shown = context.new_page()
        shown.on("console", lambda message, said=said: said.append(message.text))
        shown.goto(file.as_uri())
        for summary in shown.locator("summary").all():
            summary.click()
        assert overflow(shown) <= 0
        assert [item for item in shown.evaluate(CONTRASTS) if item[0] < 4.5] == []
        drawn = shown.locator("figure svg[role=img]")
        assert drawn.count() >= plots and all(box.bounding_box()["width"] > 250 for box in drawn.all())
        assert shown.locator("img, iframe, script, form").count() == 0
        assert said == [] and [url for url in asked if not url.startswith(("file:", "data:,"))] == []
        context.close()
