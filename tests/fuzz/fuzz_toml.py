"""Coverage-guided search for a declaration that breaks its reader: only errors of this tool's own may come out.

The first line of an input says which reader gets the rest: a patch, a recipe, a lock, the upstreams, a remembered
resolution, or the state of a bump.
"""

from __future__ import annotations

import functools
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import atheris
from fuzz_harness import ROOT, main, room

_READERS = ("declared", "toml_lines", "patch", "recipe", "lock", "upstream", "bump.resolutions", "bump.state")

with atheris.instrument_imports(include=[f"patchset.{name}" for name in _READERS]):
    from patchset import lock, patch, recipe, upstream
    from patchset.bump import resolutions, state
    from patchset.errors import PatchsetError
    from patchset.workspace import Workspace


VALUES = (
    *(
        '""',
        '"x"',
        "'x'",
        '"\\u0000"',
        '"\\n"',
        '"a/../b"',
        '".git"',
        '">=0.23.0"',
        '"==0.23.0"',
        '">=0.20.0,<=0.33.0"',
    ),
    *(
        '"==0.23.*"',
        '"https://x"',
        "0",
        "1",
        "-1",
        "1e400",
        "nan",
        "0x10",
        "9" * 5000,
        "true",
        "[]",
        "{}",
        "[[]]",
        "[1, '']",
    ),
    *(
        '["mtp-boundary", "mtp-boundary"]',
        "{ a = 1 }",
        "[{ file = 'f', line = 'l' }]",
        "2026-11-30T00:00:00Z",
        "12:00:00",
    ),
    *(
        "2026-11-30",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2026-11-30T00:00:00",
        '"' + "a" * 64 + '"',
    ),
    *(
        '"\ud7ff\U0010ffff"',
        '"é̀\u202e"',
        '"""\na\n"""',
        "'''\n'''",
        "[" * 2000,
        '"{release}"',
        '"{0}{release}"',
        '"%s"',
    ),
    *(
        "null",
        "[null]",
        "{}",
        '{"a": 1}',
        '["a", 1]',
        "1.5",
        "-0.0",
        "Infinity",
        '"1.0.0"',
        '"1.0"',
        '"0.23.0rc1"',
        '"1!2"',
    ),
)


@functools.cache
def project() -> Path:
    """A project of this run's own to read in."""
    folder = room()
    shutil.copytree(ROOT / "recipes" / "patches", folder / "patches")
    (folder / "one" / "mtp-boundary").mkdir(parents=True)
    for file in (ROOT / "recipes" / "patches" / "mtp-boundary").glob("*.p*"):
        shutil.copy2(file, folder / "one" / "mtp-boundary")
    (folder / "resolutions").mkdir()
    return folder


@functools.cache
def declared() -> tuple[Mapping[str, upstream.Upstream], Mapping[str, patch.Patch]]:
    """What the readers check against: this clone's own upstreams and patches."""
    upstreams = upstream.read_upstreams(ROOT / "vendor" / "upstreams.toml")
    return upstreams, patch.read_patches(project() / "patches", upstreams["vllm"])


def _readers() -> Mapping[bytes, tuple[Path, Callable[[Path], object]]]:
    folder, (upstreams, patches) = project(), declared()
    workspace = Workspace(folder)
    return {
        b"patch": (
            folder / "one" / "mtp-boundary" / "patch.toml",
            lambda file: patch.read_patch(file.parent, upstreams["vllm"]),
        ),
        b"recipe": (folder / "b70-0.23.toml", lambda file: recipe.read_recipe(file, upstreams, patches)),
        b"lock": (folder / "b70-0.23.lock", lock.read_lock),
        b"upstreams": (folder / "upstreams.toml", upstream.read_upstreams),
        b"resolution": (folder / "resolutions" / f"{'a' * 64}.json", lambda file: resolutions.read(file.parent)),
        b"state": (state.state_file(workspace), lambda file: state.read_state(workspace)),
    }


def one(data: bytes) -> None:
    """One input; raises where a reader raises what is not this tool's own."""
    name, _, text = data.partition(b"\n")
    if name not in _readers_once():
        return
    file, read = _readers_once()[name]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text)
    try:
        read(file)
    except PatchsetError as error:
        assert error.next and str(file) in error.where, error


_readers_once = functools.cache(_readers)


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """*data* with a value, a key or a line changed, or with bytes that libFuzzer picks."""
    chance = random.Random(seed)
    if chance.random() < 0.25:
        name, mark, rest = data.partition(b"\n")
        return (name + mark + atheris.Mutate(rest or b"\n", max(1, max_size - len(name) - 1)))[:max_size]
    name, *lines = data.split(b"\n")
    for _ in range(chance.choice((1, 1, 2, 3))):
        lines = lines or [b""]
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        value = chance.choice(VALUES).encode("utf-8", "surrogatepass")
        match chance.randrange(8):
            case 0 | 1 | 2:
                lines[at] = re.sub(rb"([=:]\s*).*?(,?)\Z", lambda found, v=value: found[1] + v + found[2], lines[at])
            case 3:
                strings = list(re.finditer(rb'"[^"]*"', lines[at]))
                if strings:
                    hit = chance.choice(strings)
                    lines[at] = lines[at][: hit.start()] + value + lines[at][hit.end() :]
            case 4:
                del lines[at]
            case 5:
                lines.insert(other, lines[at])
            case 6:
                lines[at] = re.sub(
                    rb"\A[\w-]+", chance.choice((b"x", b"diff", b"releases", b"a.b", b'""', b"upstream")), lines[at]
                )
            case _:
                lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join([name, *lines])[:max_size]


def seeds() -> Iterator[bytes]:
    """This clone's own declarations, and a state and a resolution as they are written."""
    for file in sorted((ROOT / "recipes" / "patches").glob("*/patch.toml")):
        yield b"patch\n" + file.read_bytes()
    for file in sorted((ROOT / "recipes").glob("*.toml")):
        yield b"recipe\n" + file.read_bytes()
        yield b"lock\n" + file.with_suffix(".lock").read_bytes()
    yield b"upstreams\n" + (ROOT / "vendor" / "upstreams.toml").read_bytes()[:2000].rpartition(b"\n[[")[0] + b"\n"
    from datetime import date

    from patchset.bump.state import FORMAT

    attempt = b"a\nb\n<<<<<<< ours\nx\n||||||| base\ny\n=======\nz\n>>>>>>> theirs\nc\nd\n"
    for resolution, clash in resolutions.learn(attempt, b"a\nb\nxz\nc\nd\n", "p", "0.23.0", date(2026, 11, 30)):
        yield b"resolution\n" + resolution.document(clash)
    yield (
        b'state\n{\n "format": %d,\n "recipe": "b70-0.23",\n "to": "0.28.0",\n "name": "b70-0.28",\n "resolved": {\n  "a": "b"\n },\n'
        b' "before": {},\n "skipped": {},\n "waiting": {\n  "patch": "p",\n  "source": "s",\n  "ours": "o",\n  "attempt": "a",\n'
        b'  "written": "w",\n  "paths": [\n   "f"\n  ]\n }\n}\n' % FORMAT
    )


if __name__ == "__main__":
    main(one, mutate, seeds)
