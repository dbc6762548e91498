"""Patches of others become patches here: their folders, their place, and what became of them; or nothing at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from made_edit import LINES, changed, declared, fresh, three

from patchset import importing, probe, series_show
from patchset.console import Console
from patchset.errors import DeclarationError, DiffRefused, SeriesError
from patchset.importing import Imported
from patchset.resolve import Project, resolve
from patchset.rewrite import omit
from patchset.store import Store

Diff = Callable[[dict[str, bytes], dict[str, bytes]], bytes]
OTHER = b"".join(b"other_%d = %d\n" % (n, n) for n in range(40))


@pytest.fixture
def diff(bench: Store, make_tree: Callable[..., str]) -> Diff:
    return lambda old, new: bench.diff(make_tree(old), make_tree(new))


@pytest.fixture
def project(tmp_path: Path, diff: Diff) -> Project:
    """Three patches of a.py at lines 10, 30 and 50 on 0.20.0, a second recipe that is on 0.21.0, and files beside."""
    made = three(
        tmp_path / "clone", lambda old, new: diff({"a.py": old}, {"a.py": new}), {"0.20.0": LINES, "0.21.0": LINES}
    )
    recipe = made.workspace.recipes / "r.toml"
    text = recipe.read_text("utf-8").replace("0.20.0", "0.21.0")
    for id in ("first", "second", "third"):
        text = omit(text, id, "not there")
    (made.workspace.recipes / "other.toml").write_text("# by hand\n" + text, encoding="utf-8")
    return fresh(made)


@pytest.fixture
def run(project: Project, tmp_path: Path) -> Callable[..., Imported]:
    """The bytes of a file, or a folder, and options → what was imported into the recipe r."""

    def start(source: bytes | Path, **more: object) -> Imported:
        now = fresh(project)
        if isinstance(source, bytes):
            (tmp_path / "given.patch").write_bytes(source)
            source = tmp_path / "given.patch"
        return importing.import_source(now, now.recipe("r"), source, **more)  # type: ignore[arg-type]

    return start


def mail(subject: bytes, data: bytes, text: bytes = b"Why so.\n") -> bytes:
    head = b"From %s Mon Sep 17 00:00:00 2001\nFrom: A <a@x>\nDate: Tue, 1 Dec 2026 10:00:00 +0000\nSubject: " % (
        b"0" * 40
    )
    return head + subject + b"\n\n" + text + b"---\n a.py | 2 +-\n\n" + data + b"-- \n2.39.5\n\n"


def tree_of(project: Project) -> str:
    now = fresh(project)
    return resolve(now, now.recipe("r"), Store.open(project.workspace.store), lambda text: None).applied.tree


def test_series_of_mails_becomes_patches_at_the_end(project: Project, run: Callable[..., Imported], diff: Diff) -> None:
    ends = changed(10, 30, 50)
    one = diff({"a.py": ends}, {"a.py": changed(5, base=ends)})
    two = diff({"a.py": changed(5, base=ends)}, {"a.py": changed(5, 55, base=ends), "n.py": b"n = 1\n"})
    data = (
        mail(b"[PATCH 0/2] All of it", b"") + mail(b"[PATCH 1/2] Mend five", one) + mail(b"[PATCH 2/2] And more", two)
    )
    done = run(data)
    assert [(item.id, item.outcome, item.hunks, item.files) for item in done.patches] == [
        ("mend-five", "applies", 1, 1),
        ("and-more", "applies", 2, 2),
    ]
    assert len(done.skipped) == 1 and "cover letter" in done.skipped[0]
    now = fresh(project)
    assert now.recipe("r").series == ("first", "second", "third", "mend-five", "and-more")
    other = now.recipe("other")
    assert [item.patch for item in other.omitted][3:] == ["mend-five", "and-more"] and other.series == ()
    assert "not tried on 0.21.0" in other.omitted[-1].reason
    assert other.file.read_text("utf-8").startswith("# by hand\n")
    patch = now.patches["mend-five"]
    assert [(v.name, v.diff.read_bytes()) for v in patch.variants if v.diff] == [("==0.20.0", one)]
    assert (patch.title, f"{patch.date:%F %H}") == ("Mend five", "2026-12-01 10")
    digest = sha256(data).hexdigest()
    assert (
        patch.why.startswith("Why so.\n") and digest in patch.why and "A <a@x>" in patch.why and "mail 2" in patch.why
    )
    assert Store.open(project.workspace.store).read(tree_of(project), "n.py") == b"n = 1\n"


def test_generated_probe_says_unknown_so_no_runtime_is_made(
    project: Project, run: Callable[..., Imported], diff: Diff, tmp_path: Path
) -> None:
    run(
        mail(
            b'It\'s {odd} "quoted" \\ =?utf-8?q?=C3=BC=22?=',
            diff({"a.py": changed(10, 30, 50)}, {"a.py": changed(5, 10, 30, 50)}),
        )
    )
    patch = next(item for item in fresh(project).patches.values() if item.id.startswith("it-s"))
    ended = subprocess.run(
        [sys.executable, "-I", "-B", str(patch.probe), str(tmp_path)], check=True, capture_output=True
    )
    found = probe.parse(ended.stdout.splitlines()[-1], patch.id, "t", cached=False)
    assert found.verdict is probe.Verdict.UNKNOWN and found.reason.startswith("no probe written yet: ")
    assert patch.title in found.reason


def test_patch_that_does_not_apply_is_imported_and_told_by_file(
    project: Project, run: Callable[..., Imported], diff: Diff, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = changed(10, 30, 50), changed(10, 30, 50).replace(b"line_40", b"elsewhere")
    data = diff({"a.py": theirs, "gone.py": OTHER}, {"a.py": changed(5, 41, base=theirs), "gone.py": OTHER + b"x\n"})
    assert ours != theirs
    data = b"\n".join(line for line in data.split(b"\n") if not line.startswith(b"index "))
    done = run(data, id="foreign")
    assert done.patches[0].outcome == "conflicts" and not done.patches[0].applies
    assert done.patches[0].failing == (("a.py", 1, 2), ("gone.py", 1, 1))
    assert fresh(project).recipe("r").series[-1] == "foreign"
    series_show.show_imported(Console(), done, "r", project.workspace.root)
    said = capsys.readouterr().out
    assert "1 OF 1 DO NOT APPLY" in said and "2 of 3 hunks go nowhere, in 2 of 2 files" in said
    assert "a.py: 1 of 2 hunks" in said and "No probe is written yet" in said
    with pytest.raises(SeriesError):
        tree_of(project)


def test_hunks_that_are_in_already_are_not_counted_as_lost(run: Callable[..., Imported], diff: Diff) -> None:
    done = run(diff({"a.py": LINES}, {"a.py": changed(10)}), id="again")
    assert (done.patches[0].outcome, done.patches[0].failing) == ("upstream", ())


def test_strict_writes_nothing_where_one_does_not_apply(
    project: Project, run: Callable[..., Imported], diff: Diff
) -> None:
    before = declared(project)
    good = diff({"a.py": changed(10, 30, 50)}, {"a.py": changed(5, 10, 30, 50)})
    bad = diff({"a.py": OTHER}, {"a.py": OTHER + b"x\n"})
    with pytest.raises(SeriesError, match=r"two \(conflicts\)") as error:
        run(mail(b"one", good) + mail(b"two", bad), strict=True)
    assert error.value.exit_code == 7 and declared(project) == before


@pytest.mark.parametrize(
    "edit", [lambda d: d[:-1], lambda d: d.replace(b"b/a.py", b"b/.git/x").replace(b"a/a.py", b"a/.git/x")]
)
def test_refused_diff_writes_nothing(
    edit: Callable[[bytes], bytes], project: Project, run: Callable[..., Imported], diff: Diff
) -> None:
    before = declared(project)
    good = diff({"a.py": changed(10, 30, 50)}, {"a.py": changed(5, 10, 30, 50)})
    with pytest.raises(DiffRefused):
        run(
            mail(b"one", good) + edit(good.replace(b"diff --git", mail(b"two", b"").rstrip(b"\n") + b"\ndiff --git", 1))
        )
    with pytest.raises(DiffRefused):
        run(edit(good))
    assert declared(project) == before


def test_split_is_one_patch_a_file_and_the_same_tree(
    project: Project, run: Callable[..., Imported], diff: Diff
) -> None:
    old = {"a.py": changed(10, 30, 50)}
    new = {"a.py": changed(5, 10, 30, 50), "d/n.py": b"n = 1\n", "d/n.txt": b"n\n"}
    data = diff(old, new)
    done = run(data, id="big", split=True)
    assert [item.id for item in done.patches] == ["big-a", "big-d-n", "big-d-n-txt"]
    now = fresh(project)
    parts = [(now.patches[item.id].folder / "0.20.0.patch").read_bytes() for item in done.patches]
    assert b"".join(parts) == data
    split = tree_of(project)
    for item in done.patches:
        assert now.patches[item.id].title.startswith("given: ")
    store = Store.open(project.workspace.store)
    assert [store.read(split, path) for path in new] == list(new.values())


def test_split_of_renames_deletes_modes_and_binary_makes_the_same_tree(
    project: Project,
    bench: Store,
    make_tree: Callable[..., str],
    git_diff: Callable[..., bytes],
    run: Callable[..., Imported],
) -> None:
    ends = {"a.py": changed(10, 30, 50)}
    gone = {"gone.py": OTHER, "old.py": LINES.replace(b"line", b"thing"), "l.txt": b"x\n", "run.sh": b"#!/bin/sh\n"}
    first = bench.diff(make_tree(ends), make_tree({**ends, **gone}))
    run(first, id="files")
    made = {
        "a.py": changed(5, base=ends["a.py"]),
        "z.py": changed(40, base=ends["a.py"]),
        "new.py": gone["old.py"] + b"x = 1\n",
        "l.txt": ("120000", b"a.py"),
        "run.sh": ("100755", gone["run.sh"]),
        "d/blob.bin": bytes(range(256)),
    }
    base = make_tree({**ends, **gone})
    new = make_tree(made)
    data = git_diff(base, new, "-M", "-C", "--find-copies-harder", "--binary")
    assert all(
        word in data for word in (b"rename from", b"copy from a.py", b"GIT binary", b"new mode 100755", b"deleted")
    )
    done = run(data, id="big", split=True)
    assert [item.outcome for item in done.patches] == ["applies"] * 7
    assert {item.id for item in done.patches} == {
        "big-a", "big-z", "big-new", "big-l-txt", "big-run-sh", "big-d-blob-bin", "big-gone",
    }  # fmt: skip
    store, tree = Store.open(project.workspace.store), tree_of(project)
    found = {path: (entry.mode, store.blob(entry.blob)) for path, entry in store.entries(tree).items()}
    for path, content in made.items():
        assert found[path] == (content if isinstance(content, tuple) else ("100644", content)), path
    assert not found.keys() & {"gone.py", "old.py"}


def test_split_into_too_many_patches_is_refused(
    project: Project, run: Callable[..., Imported], diff: Diff, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, before = diff({}, {f"n{number}.py": b"n = 1\n" for number in range(4)}), declared(project)
    monkeypatch.setattr(importing.foreign, "FILES_LIMIT", 3)
    with pytest.raises(DiffRefused, match="4 patches, a file each; 3 at most") as error:
        run(data, split=True)
    assert error.value.next and declared(project) == before
    assert len(run(data).patches) == 1


def test_patches_that_touch_the_same_lines_are_tried_in_their_order(
    project: Project, run: Callable[..., Imported], diff: Diff
) -> None:
    ends = changed(10, 30, 50)
    once, twice = changed(5, base=ends), changed(5, base=ends).replace(b"LINE_5", b"TWICE_5")
    one, two = diff({"a.py": ends}, {"a.py": once}), diff({"a.py": once}, {"a.py": twice})
    done = run(mail(b"one", one) + mail(b"two", two) + mail(b"two again", two))
    assert [(item.id, item.outcome) for item in done.patches] == [
        ("one", "applies"), ("two", "applies"), ("two-again", "upstream"),
    ]  # fmt: skip
    assert Store.open(project.workspace.store).read(tree_of(project), "a.py") == twice


def test_patch_that_is_in_already_is_said_to_do_nothing_and_to_stop_nothing(
    project: Project, run: Callable[..., Imported], diff: Diff, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(diff({"a.py": LINES}, {"a.py": changed(10)}), id="again")
    series_show.show_imported(Console(), done, "r", project.workspace.root)
    said = capsys.readouterr().out
    assert "again does nothing on 0.20.0: its change is there already; ./inv drop again" in said
    assert "DO NOT APPLY" not in said and "next: ./inv lock -r r" in said
    tree_of(project)  # and so it is


def test_folder_of_links_to_nowhere_is_not_written_into(
    project: Project, run: Callable[..., Imported], diff: Diff
) -> None:
    (project.workspace.patches / "mine").symlink_to(project.workspace.root / "gone")
    ends = changed(10, 30, 50)
    done = run(diff({"a.py": ends}, {"a.py": changed(5, base=ends)}), id="mine")
    assert [item.id for item in done.patches] == ["mine-2"] and not (project.workspace.root / "gone").exists()


def test_recipe_built_from_a_checkout_is_told_what_it_was_tried_on(
    project: Project, run: Callable[..., Imported], diff: Diff
) -> None:
    file = project.workspace.recipes / "r.toml"
    file.write_text(file.read_text("utf-8").replace("[pin]\n", '[pin]\nsource = "checkout"\n'), encoding="utf-8")
    ends = changed(10, 30, 50)
    assert "archive of 0.20.0" in run(diff({"a.py": ends}, {"a.py": changed(5, base=ends)}), id="mine").notes[0]


def test_ids_are_made_unique_and_nothing_is_overwritten(
    project: Project, run: Callable[..., Imported], diff: Diff
) -> None:
    before = (project.patches["first"].folder / "patch.toml").read_bytes()
    (project.workspace.patches / "first-2").mkdir()
    for name in ("patch.toml", "probe.py", "a.patch"):
        (project.workspace.patches / "first-2" / name).write_bytes(
            (project.patches["first"].folder / name).read_bytes()
        )
    for recipe in ("r", "other"):
        file = project.workspace.recipes / f"{recipe}.toml"
        file.write_text(omit(file.read_text("utf-8"), "first-2", "r"), encoding="utf-8")
    ends = changed(10, 30, 50)
    data = [diff({"a.py": ends}, {"a.py": changed(n, base=ends)}) for n in (4, 20)]
    done = run(mail(b"First!", data[0]) + mail(b"first", data[1]))
    assert [item.id for item in done.patches] == ["first-3", "first-4"]
    assert (project.patches["first"].folder / "patch.toml").read_bytes() == before
    with pytest.raises(DeclarationError, match="no patch id"):
        run(data[0], id="Not an id")


def test_release_that_the_patch_was_made_for_is_its_variant(
    project: Project, run: Callable[..., Imported], diff: Diff, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(diff({"a.py": LINES}, {"a.py": changed(5)}), id="later", release="0.21.0")
    series_show.show_imported(Console(), done, "r", project.workspace.root)
    assert not done.covers and "next: ./inv forecast -r r" in capsys.readouterr().out
    assert done.release == "0.21.0" and "no variant yet" in done.notes[0]
    assert [v.name for v in fresh(project).patches["later"].variants] == ["==0.21.0"]
    with pytest.raises(DeclarationError, match=r"9\.9\.9"):
        run(b"", release="9.9.9")


def test_quilt_series_is_imported_and_what_was_added_is_told(
    project: Project, run: Callable[..., Imported], diff: Diff, tmp_path: Path
) -> None:
    ends = changed(10, 30, 50)
    git = diff({"a.py": ends}, {"a.py": changed(5, base=ends)})
    hunks = git[git.index(b"@@ ") :]
    folder = tmp_path / "quilt"
    folder.mkdir()
    (folder / "mend.patch").write_bytes(b"Mend five\n\nIndex: a.py\n===========\n--- a.py.orig\n+++ a.py\n" + hunks)
    (folder / "series").write_text("mend.patch -p0\n", encoding="utf-8")
    done = run(folder)
    assert [(item.id, item.outcome) for item in done.patches] == [("mend-five", "applies")]
    assert "declared -p0" in done.notes[0]
    patch = fresh(project).patches["mend-five"]
    assert (patch.folder / "0.20.0.patch").read_bytes().endswith(hunks) and "declared -p0" in patch.why


def test_import_lands_also_in_a_recipe_that_stops(project: Project, run: Callable[..., Imported], diff: Diff) -> None:
    run(diff({"a.py": OTHER}, {"a.py": OTHER + b"x\n"}), id="bad")
    ends = changed(10, 30, 50)
    done = run(diff({"a.py": ends}, {"a.py": changed(5, base=ends)}), id="good")
    assert done.patches[0].outcome == "applies"
    assert fresh(project).recipe("r").series[-2:] == ("bad", "good")


KILLED = """
import os, sys
from pathlib import Path
from patchset import importing
from patchset.resolve import Project
from patchset.workspace import Workspace
project = Project.read(Workspace(Path(sys.argv[1])))
left, real = int(sys.argv[3]), os.replace
def replace(*words):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)
    real(*words)
os.replace = replace
importing.import_source(project, project.recipe("r"), Path(sys.argv[2]), id="killed")
"""


def test_killed_import_is_whole_or_not_there(project: Project, diff: Diff, tmp_path: Path) -> None:
    from patchset.changes import finish_changes

    ends = changed(10, 30, 50)
    file = tmp_path / "x.patch"
    file.write_bytes(diff({"a.py": ends}, {"a.py": changed(5, base=ends)}))
    before, ended_as = declared(project), set()
    tree_of(project)  # the base is in the store: what is counted below is the import's own
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3])])}
    for moment in range(60):
        words: Sequence[str] = [sys.executable, "-B", "-c", KILLED, str(project.workspace.root), str(file), str(moment)]
        ended = subprocess.run(words, env=env, check=False, capture_output=True)
        finish_changes(project.workspace.journal)
        now = fresh(project)
        whole = now.recipe("r").series[-1] == "killed" and now.recipe("other").omitted[-1].patch == "killed"
        assert whole or declared(project) == before, moment
        ended_as.add(whole)
        if whole:
            break
    assert ended_as == {True, False} and ended.returncode == -9


def test_json_says_it_all(
    project: Project, run: Callable[..., Imported], diff: Diff, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(diff({"a.py": OTHER}, {"a.py": OTHER + b"x\n"}), id="bad")
    series_show.show_imported(Console(as_json=True), done, "r", project.workspace.root)
    document = json.loads(capsys.readouterr().out)
    assert document["patches"][0]["outcome"] == "conflicts" and document["patches"][0]["failing"][0]["path"] == "a.py"
    assert "recipes/patches/bad/probe.py" in document["written"]
