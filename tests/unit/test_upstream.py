"""Upstreams and their releases, as declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchset.errors import DeclarationError
from patchset.upstream import read_upstreams

SHA = "ab" * 32
HEAD = '[vllm]\ndistribution = "vllm"\nrepository = "https://x/y.git"\ntag = "v{release}"\n'


def release(version: str, **change: str) -> str:
    rows = {"version": f'"{version}"', "date": "2026-01-02T03:04:05Z", "sha256": f'"{SHA}"', "size": "7", **change}
    return "\n[[vllm.release]]\n" + "".join(f"{key} = {value}\n" for key, value in rows.items())


def read(tmp_path: Path, text: str) -> dict[str, object]:
    file = tmp_path / "upstreams.toml"
    file.write_text(text, encoding="utf-8")
    return dict(read_upstreams(file))


def test_our_own_file_knows_the_twenty_releases_in_order() -> None:
    releases = list(read_upstreams(Path(__file__).parents[2] / "vendor" / "upstreams.toml")["vllm"].releases)
    assert (releases[0], releases[-1], len(releases)) == ("0.19.1", "0.33.0", 20)


def test_releases_are_ordered_as_versions_not_as_text(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + release("0.10.0") + release("0.9.1"))
    assert list(found["vllm"].releases) == ["0.9.1", "0.10.0"]  # type: ignore[attr-defined]


def test_unknown_release_names_those_that_are_known(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + release("0.9.1"))
    with pytest.raises(DeclarationError, match=r"release 7\.7 of vllm is not known \(known: 0\.9\.1\)"):
        found["vllm"].release("7.7")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (HEAD + release("0.9.1") + release("0.9.1"), 13, "listed twice"),
        (HEAD + release("0.9.1") + release("0.9.01"), 13, "normal form"),
        (HEAD + release("v0.9.1"), 7, "normal form"),
        (HEAD + release("0.9.1", sha256='"abc"'), 9, "sha256"),
        (HEAD + release("0.9.1", sha256=f'"{SHA.upper()}"'), 9, "sha256"),
        (HEAD + release("0.9.1", size='"7"'), 10, "whole number"),
        (HEAD + release("0.9.1", url='"x"'), 11, "unknown key 'url'"),
        (HEAD.replace("v{release}", "v"), 4, "{release}"),
        (HEAD + "mirror = 1\n", 5, "unknown key 'mirror'"),
    ],
)
def test_what_is_wrong_is_refused_at_its_line(text: str, line: int, words: str, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError) as error:
        read(tmp_path, text)
    assert words in error.value.what
    assert error.value.where == f"{tmp_path / 'upstreams.toml'}:{line}"
