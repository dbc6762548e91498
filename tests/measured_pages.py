"""What a page in a browser is measured by."""

from __future__ import annotations

from typing import Any

#: The contrast of every text that is to be seen, against what is painted behind it: [ratio, text, colour, behind].
CONTRASTS = """() => {
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length > 3 ? n : [...n, 1]; };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
    if (!text || !element.checkVisibility({ visibilityProperty: true }) || element.closest("script")) continue;
    const back = behind(element), front = over(parse(getComputedStyle(element).color), back);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    found.push([(a + .05) / (b + .05), text.slice(0, 40), front.join(), back.join()]);
  }
  return found;
}"""


def overflow(shown: Any) -> int:
    """Pixels that the page is wider than its window."""
    return shown.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - innerWidth")
