"""Ten git configurations that change bytes: trees, commits, locks, checkouts and exported diffs are the same under each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hostile_git import CONFIGURATIONS, NONE, Wish, run_under
from made_edit import make_project, variant

from patchset.store import Store

LINES = b"".join(b"line_%d = %d\n" % (n, n) for n in range(60)) + b"# $Id$ \ttrailing  \n"
#: CRLF, Latin-1, no newline at the end, a name that git quotes, and attributes that would change bytes.
ODD = {
    "crlf.txt": b"a\r\nb\r\nc\r\n",
    "d/\u00e9 x.txt": b"\xe9\xff\n",
    "end.txt": b"no newline",
    ".gitattributes": b"*.txt text eol=crlf ident filter=evil\n*.py ident export-subst diff=evil\n",
}
WISH = Wish("r", "first", "a.py", "line_12 = 12", "second", "a.py", 3)


@pytest.fixture(scope="module")
def run(
    bench: Store, make_tree: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, Any]]:
    """The name of a configuration → what everything came to under it."""

    def diff(number: int, **more: bytes) -> bytes:
        new = LINES.replace(b"line_%d = %d\n" % (number, number), b"new_%d = 0 \n" % number)
        return bench.diff(make_tree({"a.py": LINES, **ODD}), make_tree({"a.py": new, **ODD, **more}))

    def under(name: str) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp("hostile")
        patches = {
            "first": (variant(), {"a.patch": diff(10, **{"crlf.txt": b"a\r\nB\r\nc\r\n"})}),
            "second": (variant(), {"a.patch": diff(30)}),
        }
        titles = ("\u00e4ndere es", "und gr\u00fc\u00dfe")
        clone = folder / "around" / "clone"
        make_project(clone, {"0.20.0": {"a.py": LINES, **ODD}}, patches, titles)
        return run_under(name, folder / "home", clone, WISH)

    return under


@pytest.fixture(scope="module")
def plain(run: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    return run(NONE)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_same_bytes_under_every_configuration(
    name: str, plain: dict[str, Any], run: Callable[[str], dict[str, Any]]
) -> None:
    came = run(name)
    assert {key: (value, came[key]) for key, value in plain.items() if came[key] != value} == {}
