"""The smoke's page in a real headless Chromium: on a desk and on a phone, without a script; nothing is asked of a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from patchset.errors import MissingTool
from patchset.runtime import Smoked
from patchset.smoke_page import page
from tests.measured_pages import CONTRASTS, overflow
from tests.smoke_documents import WHEEL, hostile, lanes

NOT_RUN = {"spirv": MissingTool("lane spirv cannot run here: no OpenCL runtime")}


@pytest.mark.parametrize("make", [lanes, hostile], ids=["made", "hostile"])
def test_the_page_fits_reads_and_asks_for_nothing(browser: Any, tmp_path: Path, make: Any) -> None:
    file = tmp_path / "smoke.html"
    file.write_text(page("b70-0.23", Smoked(Path(WHEEL), tuple(make()), NOT_RUN), None), encoding="utf-8")
    for width, dark in ((1280, False), (400, True)):
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
        assert overflow(shown) <= 0
        shown.locator("summary").first.click()
        assert shown.locator("table.codes").first.is_visible()
        assert overflow(shown) <= 0
        measured = shown.evaluate(CONTRASTS)
        assert len(measured) > 50 and [item for item in measured if item[0] < 4.5] == []
        bars = [bar.bounding_box()["width"] for bar in shown.locator("svg.bar").all()[:2]]
        assert min(bars) > 60
        assert shown.locator("img, iframe, script, form").count() == 0
        assert shown.get_by_text("no OpenCL runtime").first.is_visible()
        assert said == [] and [url for url in asked if not url.startswith(("file:", "data:,"))] == []
        context.close()
