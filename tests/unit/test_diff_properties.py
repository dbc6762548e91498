"""Properties of the strict reader over generated changes: what git writes is read, and nothing else but a refusal escapes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchset import diff, diff_check
from patchset.errors import DiffRefused, StoreError
from patchset.outcome import Outcome, apply_diff
from patchset.store import Store

BOUNDED = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

LINE = st.one_of(
    st.sampled_from(
        [
            b"",
            b" ",
            b"a",
            b"b",
            b"-- ",
            b"--- a/f",
            b"+++ b/f",
            b"@@ -1 +1 @@",
            b"diff --git a/f b/f",
            b"\\ x",
            b"\r",
            b"x\r",
            b"\x0c",
            b"\xe2\x80\xa8",
            b"\xff",
        ]
    ),
    st.binary(max_size=6).map(lambda b: b.replace(b"\n", b"")),
)
CONTENT = st.builds(
    lambda lines, end: b"\n".join(lines) + end, st.lists(LINE, max_size=12), st.sampled_from([b"", b"\n"])
)
NAME = st.sampled_from(["f", "d/f", "x b/y", "g h", 'q"q', "t\tt", "ü", "z\udcff", "-o"])
#: A path is a file here and never a folder there: the names above do not collide.
TREE = st.dictionaries(NAME, st.tuples(st.sampled_from(["100644", "100755"]), CONTENT), max_size=4)


def edited(files: dict[str, tuple[str, bytes]], at: int, line: bytes) -> dict[str, tuple[str, bytes]]:
    """*files* with *line* put into each: so that old and new have most in common, as in a real patch."""

    def put(data: bytes) -> bytes:
        lines = data.split(b"\n")
        return b"\n".join([*lines[: at % (len(lines) + 1)], line, *lines[at % (len(lines) + 1) :]])

    return {path: (mode, put(data)) for path, (mode, data) in files.items()}


@BOUNDED
@given(old=TREE, other=TREE, at=st.integers(0, 12), line=LINE, related=st.booleans())
def test_what_git_writes_gives_the_new_tree_or_is_ambiguous(
    old: dict[str, tuple[str, bytes]],
    other: dict[str, tuple[str, bytes]],
    at: int,
    line: bytes,
    related: bool,
    make_tree: Callable[..., str],
    git_diff: Callable[..., bytes],
    bench: Store,
) -> None:
    before, after = make_tree(old), make_tree({**edited(old, at, line), **other} if related else other)
    if before == after:
        return
    data = git_diff(before, after, "--binary", "--find-renames")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "x.patch")
        file.write_bytes(data)
        became = apply_diff(bench, before, file)
        assert apply_diff(bench, before, file, verify=False) == became, "git and this tool differ"
    outcome, evidence, result = became.outcome, became.evidence, became.tree
    assert (outcome, result) in ((Outcome.APPLIES, after), (Outcome.AMBIGUOUS, before)), evidence
    if outcome is Outcome.AMBIGUOUS:
        assert "fits at lines" in evidence[0] or bench.apply(before, data, reverse=True)[0]


MUTATION = st.tuples(
    st.sampled_from(["flip", "insert", "delete", "double", "swap"]),
    st.integers(0, 10**6),
    st.binary(min_size=1, max_size=3),
)


def mutated(data: bytes, kind: str, where: int, filling: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    at, row = where % len(data), where % len(lines)
    if kind == "flip":
        return data[:at] + filling + data[at + len(filling) :]
    if kind == "insert":
        return data[:at] + filling + data[at:]
    if kind == "delete":
        return data[:at] + data[at + len(filling) :]
    if kind == "double":
        return b"".join([*lines[:row], lines[row], *lines[row:]])
    return b"".join([*lines[:row], *reversed(lines[row : row + 2]), *lines[row + 2 :]])


@BOUNDED
@given(old=TREE.filter(bool), at=st.integers(0, 12), line=LINE, mutations=st.lists(MUTATION, min_size=1, max_size=3))
def test_a_damaged_diff_is_refused_or_read_as_git_reads_it(
    old: dict[str, tuple[str, bytes]],
    at: int,
    line: bytes,
    mutations: list[tuple[str, int, bytes]],
    make_tree: Callable[..., str],
    git_diff: Callable[..., bytes],
    bench: Store,
) -> None:
    data = git_diff(make_tree(old), make_tree(edited(old, at, line)), "--binary")
    for kind, where, filling in mutations:
        data = mutated(data, kind, where, filling) or b"\n"
    try:
        files = diff.read(data, "x.patch")
    except DiffRefused as refusal:
        assert refusal.where.startswith("x.patch:")
        return
    try:
        numstat = bench.numstat(data)
    except StoreError:
        return  # git refuses what the reader took; apply_diff turns this into a refusal, which test_diff.py shows
    try:
        diff_check.cross_check(files, numstat, data, "x.patch")
    except DiffRefused:
        return
    assert sorted(file.path for file in files) == sorted(
        path.encode("utf-8", "surrogateescape") for _, _, path in numstat
    )


@BOUNDED
@given(
    data=st.binary(max_size=200)
    | st.lists(
        st.sampled_from(
            [
                b"diff --git a/f b/f\n",
                b"--- a/f\n",
                b"+++ b/f\n",
                b"@@ -1 +1 @@\n",
                b"@@ -1,2 +1 @@\n",
                b"-x\n",
                b"+y\n",
                b" z\n",
                b"\\ No newline\n",
                b"GIT binary patch\n",
                b"literal 1\n",
                b"HcmV?d00001\n",
                b"\n",
                b"-- \n",
                b"index 1111111..2222222\n",
                b"new file mode 120000\n",
                b"rename from f\n",
                b"rename to g\n",
                b"From x\n",
            ]
        ),
        max_size=12,
    ).map(b"".join)
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        files = diff.read(data, "x.patch")
    except DiffRefused as refusal:
        assert refusal.where.startswith("x.patch:") and refusal.next
    else:
        assert files and all(file.path for file in files)
