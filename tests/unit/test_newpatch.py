"""A new patch: its folder, its place, its absence by name elsewhere; and ids and texts that cannot be declared as they come."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_edit import fresh
from made_project import write_project

from patchset import newpatch, rewrite
from patchset.changes import commit_changes
from patchset.errors import DeclarationError
from patchset.newpatch import NewPatch
from patchset.patch import Donor, read_patch
from patchset.resolve import Project

DIFF = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-broken\n+whole\xff\r\n"
NEW = NewPatch("mine", "Mend it", "Because.", "fix", datetime(2026, 12, 1, 10, tzinfo=timezone.utc), "0.20.0", DIFF)
VARIANT = '\n[[variant]]\nreleases = "==0.20.0"\ndiff = "a.patch"\n'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A recipe r of two patches, and one on 0.21.0 with a comment, which leaves them out."""
    patches = {id: (VARIANT, {"a.patch": DIFF}) for id in ("one", "two")}
    made = write_project(tmp_path / "clone", {"0.20.0": {}, "0.21.0": {}}, patches, ["one", "two"])
    text = (made.workspace.recipes / "r.toml").read_text("utf-8").replace("0.20.0", "0.21.0")
    text = "# by hand\n" + rewrite.omit_all(text, ["one", "two"], "not there")
    (made.workspace.recipes / "other.toml").write_text(text, encoding="utf-8")
    return fresh(made)


def write(project: Project, patches: Sequence[NewPatch], after: str = "") -> Project:
    now = fresh(project)
    commit_changes(newpatch.changes_for(now, now.recipe("r"), patches, after), project.workspace.journal)
    return fresh(project)


def test_patch_is_what_was_asked_for_byte_for_byte(project: Project) -> None:
    donor = Donor("0.21.0", "b.py", "ab" * 32, "b.py")
    patch = write(project, [replace(NEW, kind="backport", donors=(donor,))]).patches["mine"]
    assert (patch.title, patch.why, patch.kind, patch.date) == ("Mend it", "Because.", "backport", NEW.date)
    (variant,) = patch.variants
    assert variant.diff is not None and variant.diff.read_bytes() == DIFF
    assert (variant.name, variant.diff.name, variant.donors) == ("==0.20.0", "0.20.0.patch", (donor,))
    assert patch.drop_when == newpatch.NOBODY_SAID and patch.references == () and patch.requires == ()


def test_patch_of_donors_alone_has_no_diff(project: Project) -> None:
    donor = Donor("0.21.0", "b.py", "ab" * 32, "to.py")
    patch = write(project, [replace(NEW, diff=None, donors=(donor,))]).patches["mine"]
    assert [(item.diff, item.donors) for item in patch.variants] == [(None, (donor,))]
    assert sorted(path.name for path in patch.folder.iterdir()) == ["patch.toml", "probe.py"]


@pytest.mark.parametrize(
    ("after", "order"),
    [("", ("one", "two", "mine", "yours")), ("one", ("one", "mine", "yours", "two")), ("two", ("one", "two", "mine", "yours"))],
)  # fmt: skip
def test_place_in_one_recipe_and_absence_by_name_in_the_others(
    after: str, order: tuple[str, ...], project: Project
) -> None:
    before = (project.workspace.recipes / "other.toml").read_text("utf-8")
    now = write(project, [NEW, replace(NEW, id="yours")], after)
    assert now.recipe("r").series == order and now.recipe("r").omitted == ()
    other = now.recipe("other")
    assert other.series == () and [item.patch for item in other.omitted] == ["one", "two", "mine", "yours"]
    assert {item.reason for item in other.omitted[2:]} == {"made for r; not tried on 0.21.0 yet"}
    text = other.file.read_text("utf-8")
    at = text.index("[[series.omit]]\npatch = \"mine\"")  # fmt: skip
    assert text[:at] + text[text.index("[stack]") :] == before


def test_many_patches_are_left_out_as_one_by_one(project: Project) -> None:
    text = (project.workspace.recipes / "other.toml").read_text("utf-8")
    text = rewrite.retire(text.replace("patches = []", 'patches = ["p3"]'), "p3", "fixed")
    ids, one_by_one = [f"p{number}" for number in range(8)], text
    for id in ids:
        one_by_one = rewrite.omit(one_by_one, id, "r")
    assert rewrite.omit_all(text, ids, "r") == one_by_one
    assert "retired" not in one_by_one and 'patches = ["p3"]' not in one_by_one


def test_place_that_is_none_is_refused_and_says_which_there_are(project: Project) -> None:
    with pytest.raises(DeclarationError, match=r"no patch 'zeroth'.*one, two") as error:
        newpatch.changes_for(project, project.recipe("r"), [NEW], "zeroth")
    assert error.value.where == str(project.workspace.recipes / "r.toml") and "--after" in error.value.next


@pytest.mark.parametrize("id", ["", "A", "a b", "-a", ".a", "a/b", "..", "ä", "a\n", "a" * 201])
def test_id_that_is_none_is_refused_with_one_that_is(id: str, project: Project) -> None:
    with pytest.raises(DeclarationError, match="is no patch id") as error:
        newpatch.changes_for(project, project.recipe("r"), [replace(NEW, id=id)])
    newpatch.check_form(error.value.next.removeprefix("for example "))


def test_id_that_is_taken_is_refused(project: Project) -> None:
    (project.workspace.patches / "nowhere").symlink_to(project.workspace.root / "gone")
    (project.workspace.patches / "file").write_bytes(b"")
    for id in ("one", "nowhere", "file"):
        with pytest.raises(DeclarationError, match=f"a patch {id} already") as error:
            newpatch.check_id(project, id)
        assert error.value.where == str(project.workspace.patches / id) and error.value.next


def test_free_id_counts_past_what_is_there(project: Project) -> None:
    (project.workspace.patches / "one-2").symlink_to(project.workspace.root / "gone")
    assert newpatch.free_id(project, "three", ()) == "three"
    assert newpatch.free_id(project, "one", ("one-3",)) == "one-4"


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("[XPU] Mend it!", "xpu-mend-it"),
        ("修复", "patch"),
        ("", "patch"),
        ("../../etc/passwd", "etc-passwd"),
        ("\x1b[31mred\x00", "31mred"),
        ("x" * 59 + " y", "x" * 59),
    ],
)
def test_slug_is_an_id_whatever_the_text(text: str, id: str) -> None:
    assert newpatch.slug(text) == id
    newpatch.check_form(newpatch.slug(text))


def test_control_characters_are_shown_as_such_and_lines_kept() -> None:
    assert newpatch.plain("a\r\nb\tc\x1b[1m\x9b\x7f\ud800\u202e\r") == "a\nb\tc�[1m�����"
    assert newpatch.one_line(" a\n\n b\u2028c\x85 ") == "a b c�"
    assert newpatch.plain("日本 ü e\u0301 \u200f") == "日本 ü e\u0301 \u200f"


def test_text_that_is_cut_says_so() -> None:
    assert newpatch.cut("abc", 3) == "abc"
    assert newpatch.cut("ab cd", 3) == "ab … (cut: 5 characters)"


def test_title_is_of_one_bounded_line(project: Project) -> None:
    patch = write(project, [replace(NEW, title="T\n\x1b]0;x\x07 " + "y" * 1000, why="")]).patches["mine"]
    assert patch.title.startswith("T �]0;x� yyy") and patch.title.endswith("(cut: 1009 characters)")
    assert patch.why == patch.title
    assert write(project, [replace(NEW, id="bare", title=" \n", why=" ")]).patches["bare"].title == "bare"


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(title=st.text(max_size=300), why=st.text(max_size=300))
def test_whatever_is_said_can_be_declared_and_read_back(title: str, why: str, project: Project) -> None:
    for change in newpatch.changes_for(project, project.recipe("r"), [replace(NEW, title=title, why=why)]):
        assert change.data is not None
        if change.path.parent.name == NEW.id:
            folder = project.workspace.root / NEW.id
            folder.mkdir(exist_ok=True)
            (folder / change.path.name).write_bytes(change.data)
    patch = read_patch(folder, project.upstreams["vllm"])
    told = newpatch.cut(newpatch.one_line(title), newpatch.TITLE_LIMIT) or NEW.id
    assert (patch.title, patch.why.strip("\n")) == (told, (newpatch.plain(why).strip() or told).strip("\n"))


@pytest.mark.parametrize("title", ['"""', "'''", "\\", "{reason}", "%s", "ü \u2028", '\\"""; raise SystemExit(1)'])
def test_probe_says_unknown_whatever_the_title(title: str, project: Project) -> None:
    probe = write(project, [replace(NEW, title=title)]).patches["mine"].probe
    ended = subprocess.run([sys.executable, "-I", "-B", str(probe), "x"], check=True, capture_output=True)
    found = json.loads(ended.stdout)
    assert (found["verdict"], found["checks"]) == ("unknown", [])
    assert found["reason"] == f"{newpatch.UNWRITTEN}: show what is wrong without it: {newpatch.one_line(title)}"
