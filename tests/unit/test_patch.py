"""What a patch folder declares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patchset.errors import DeclarationError, SeriesError
from patchset.patch import covered, read_patch, read_patches
from patchset.upstream import Upstream

#: The head of the fixture has five lines, so the first line of these is line 6.
DIFF = '[[variant]]\nreleases = ">=1.0,<=1.2"\ndiff = "a.patch"\n'
UP = '[[variant]]\nreleases = ">=1.9,<=1.10"\nupstream = [\n  { file = "f", line = "x" },\n  { file = "g", line = "y" },\n]\n'
FILES = {"a.patch": b"x"}


def reference(**change: str) -> str:
    rows = {"ref": '"https://x/1"', "what": '"w"', "state": '"open"', **change}
    return "[[upstream]]\n" + "".join(f"{key} = {value}\n" for key, value in rows.items())


def test_all_that_is_declared_is_read(patch_folder: Callable[..., Path], upstream: Upstream) -> None:
    donor = f'donors = [{{ release = "1.9", path = "d/f.py", sha256 = "{"cd" * 32}" }}]\n'
    folder = patch_folder(
        reference(state='"merged"', **{"first-release": '"1.9"'}) + DIFF + donor + UP + 'note = "n"\n', FILES
    )
    patch = read_patch(folder, upstream)
    assert (patch.id, patch.title, patch.kind, patch.drop_when, patch.requires) == ("p", "T", "fix", "d", ())
    assert patch.references[0].first_release == "1.9"
    assert patch.variants[0].diff == folder / "a.patch"
    assert patch.variants[0].donors[0].to == "d/f.py"
    assert [(item.file, item.line) for item in patch.variants[1].upstream] == [("f", "x"), ("g", "y")]
    assert [variant.changes_tree for variant in patch.variants] == [True, False]


def test_variant_is_chosen_by_version_order(patch_folder: Callable[..., Path], upstream: Upstream) -> None:
    patch = read_patch(patch_folder(DIFF + UP, FILES), upstream)
    assert [patch.variant_for(release).name for release in ("1.2", "1.10")] == [">=1.0,<=1.2", ">=1.9,<=1.10"]
    assert covered(patch, {**upstream.releases, "2.0": None}) == ("1.0", "1.1", "1.2", "1.9", "1.10")


def test_release_without_a_variant_is_an_error_that_lists_the_ranges(
    patch_folder: Callable[..., Path], upstream: Upstream
) -> None:
    with pytest.raises(SeriesError, match=r">=1\.0,<=1\.2"):
        read_patch(patch_folder(DIFF, FILES), upstream).variant_for("1.9")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (DIFF.replace("diff =", "dif ="), 8, "unknown key 'dif' (known here: absent, diff,"),
        (DIFF + 'extra = "x"\n', 9, "unknown key 'extra'"),
        (DIFF + UP.replace('line = "y"', 'lines = "y"'), 13, "line is missing"),
        (DIFF + UP.replace('line = "y" }', 'line = "y", n = 1 }'), 13, "unknown key 'n'"),
        (DIFF.replace(">=1.0,<=1.2", ">=1.0"), 7, "closed"),
        (DIFF.replace(">=1.0,<=1.2", "<=1.2"), 7, "closed"),
        (DIFF.replace(">=1.0,<=1.2", ">1.0,<1.2"), 7, "closed"),
        (DIFF.replace(">=1.0,<=1.2", ">=1.0,<=1.2,<=1.9"), 7, "closed"),
        (DIFF.replace(">=1.0,<=1.2", "==1.*"), 7, "closed"),
        (DIFF.replace(">=1.0,<=1.2", "~=1.0"), 7, "closed"),
        (DIFF.replace(">=1.0,<=1.2", "1.0"), 7, "not a version specifier"),
        (DIFF.replace(">=1.0,<=1.2", ">=3.0,<=3.2"), 7, "matches no known release"),
        (DIFF.replace(">=1.0,<=1.2", ">=1.2,<=1.0"), 7, "matches no known release"),
        (DIFF + UP.replace(">=1.9", ">=1.2"), 10, "in more than one range"),
        (DIFF.replace("a.patch", "b.patch"), 8, "b.patch is not in p/"),
        (DIFF.replace("a.patch", "../a.patch"), 8, "leaves the tree"),
        (DIFF + 'donors = [\n  { release = "9.9", path = "f", sha256 = "%s" },\n]\n' % ("a" * 64), 10, "not known"),
        (DIFF + 'donors = [\n  { release = "1.0", path = "f", sha256 = "a" },\n]\n', 10, "sha256"),
        (
            DIFF + 'donors = [\n  { release = "1.0", path = "/f", sha256 = "%s" },\n]\n' % ("a" * 64),
            10,
            "leaves the tree",
        ),
        (
            DIFF + 'donors = [\n  { release = "1.0", path = "f", to = ".git/f", sha256 = "%s" },\n]\n' % ("a" * 64),
            10,
            "leaves the tree",
        ),
        (DIFF + UP.replace('"y"', '" y"'), 13, "stripped"),
        (DIFF + UP + 'absent = [{ file = "f" }]\n', 9, "not both"),
        (DIFF + '[[variant]]\nreleases = "==1.9"\n', 9, "needs a diff, donors, or evidence"),
        (DIFF + 'proved = "sound"\n', 9, "proved stands alone"),
        (DIFF + '[[variant]]\nreleases = "==1.9"\nproved = "sound"\n', 11, "proved needs a note"),
        (DIFF + '[[variant]]\nreleases = "==1.9"\nproved = "yes"\nnote = "n"\n', 11, "none of sound, absent"),
        (reference(ref='"http://x"') + DIFF, 7, "https"),
        (reference(state='"done"') + DIFF, 9, "none of"),
        (reference(**{"first-release": '"1.9"'}) + DIFF, 10, "merged"),
        ("", 1, "no [[variant]]"),
    ],
)
def test_what_is_wrong_is_refused_at_its_line(
    text: str, line: int, words: str, patch_folder: Callable[..., Path], upstream: Upstream
) -> None:
    folder = patch_folder(text, FILES)
    with pytest.raises(DeclarationError) as error:
        read_patch(folder, upstream)
    assert words in error.value.what
    assert error.value.where == f"{folder / 'patch.toml'}:{line}"


@pytest.mark.parametrize(
    ("release", "nearest"),
    [("1.0", ">=1.0,<=1.1"), ("1.1", ">=1.0,<=1.1"), ("1.2", ">=1.0,<=1.1"), ("1.9", "==1.10"), ("1.10", "==1.10")],
)
def test_nearest_variant_is_counted_in_releases(
    release: str, nearest: str, patch_folder: Callable[..., Path], upstream: Upstream
) -> None:
    text = '[[variant]]\nreleases = "==1.10"\nproved = "sound"\nnote = "n"\n' + DIFF.replace("<=1.2", "<=1.1")
    patch = read_patch(patch_folder(text, FILES), upstream)
    assert patch.nearest(release, list(upstream.releases)).name == nearest
    assert not patch.variants[0].changes_tree and patch.variants[0].proved == "sound"


def test_older_of_two_variants_as_near_is_taken(patch_folder: Callable[..., Path], upstream: Upstream) -> None:
    text = '[[variant]]\nreleases = "==1.2"\nproved = "absent"\nnote = "n"\n' + DIFF.replace(">=1.0,<=1.2", "==1.0")
    assert read_patch(patch_folder(text, FILES), upstream).nearest("1.1", list(upstream.releases)).name == "==1.0"


def test_patch_file_that_no_variant_uses_is_refused(patch_folder: Callable[..., Path], upstream: Upstream) -> None:
    folder = patch_folder(DIFF, {**FILES, "left-over.patch": b"x"})
    with pytest.raises(DeclarationError, match=r"left-over\.patch lies in the folder and no variant uses it") as error:
        read_patch(folder, upstream)
    assert error.value.where.startswith(f"{folder / 'patch.toml'}:")


def test_key_in_a_multi_line_text_is_not_taken_for_the_key(
    patch_folder: Callable[..., Path], upstream: Upstream
) -> None:
    head = 'title = "T"\nwhy = """\nkind = "no"\n"""\nkind = "odd"\ndate = 2026-11-30T00:00:00Z\ndrop-when = "d"\n'
    with pytest.raises(DeclarationError, match="kind = 'odd'") as error:
        read_patch(patch_folder(DIFF, FILES, head=head), upstream)
    assert error.value.where.endswith("patch.toml:5")


def test_folder_without_probe_or_with_an_odd_name_is_refused(
    patch_folder: Callable[..., Path], upstream: Upstream
) -> None:
    (patch_folder(DIFF, FILES, id="no-probe") / "probe.py").unlink()
    with pytest.raises(DeclarationError, match="no probe"):
        read_patch(patch_folder(DIFF, FILES).parent / "no-probe", upstream)
    with pytest.raises(DeclarationError, match="no patch id"):
        read_patch(patch_folder(DIFF, FILES, id="Odd_Name"), upstream)


def test_patches_come_in_the_order_of_their_names(patch_folder: Callable[..., Path], upstream: Upstream) -> None:
    patch_folder(DIFF, FILES, id="b")
    folders = patch_folder(DIFF, FILES, id="a").parent
    assert list(read_patches(folders, upstream)) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "old", "new", "changes"),
    [
        ("a.patch", b"", b"#\n", True),
        ("probe.py", b"", b"#\n", True),
        ("patch.toml", b'title = "T"', b'title = "U"', True),
        ("patch.toml", b'diff = "a.patch"\n', b'diff = "a.patch"\nnote = "n"\n', True),
        ("patch.toml", b"<=1.2", b"<=1.9", False),
        ("patch.toml", b"", b'\n[[variant]]\nreleases = "==1.10"\nabsent = [{ file = "f" }]\n', False),
        ("patch.toml", b'drop-when = "d"', b'drop-when = "e"', False),
    ],
)
def test_digest_is_of_what_matters_at_one_release(
    name: str, old: bytes, new: bytes, changes: bool, patch_folder: Callable[..., Path], upstream: Upstream
) -> None:
    """Another release that is covered must not make the locks of this one out of date."""
    folder = patch_folder(DIFF, FILES)
    before = read_patch(folder, upstream).digest_for("1.0")
    assert read_patch(folder, upstream).digest_for("1.0") == before
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data.replace(old, new) if old else data + new)
    assert (read_patch(folder, upstream).digest_for("1.0") != before) is changes
