"""Git configurations that change bytes, and a person who works under them: apply, check out, edit, rebase, export, lock.

All of it runs in a process of its own whose environment is the hostile one, the person's own git included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Wish:
    """What the person edits: *line* of *file* in *patch*, amended; the head of *other_file* in *other*, by a fixup.

    ``behind`` is how far behind HEAD the fixup's rebase begins.
    """

    recipe: str
    patch: str
    file: str
    line: str
    other: str
    other_file: str
    behind: int


#: What a person does. Arguments: the clone, a :class:`Wish` as JSON, and the variables that their own git does not run with.
DONE = r"""
import hashlib, json, os, subprocess, sys
from pathlib import Path
from patchset import edit, export, resolve, worktree
from patchset.resolve import Project
from patchset.store import Entry, Store
from patchset.workspace import Workspace

root, wish, not_theirs = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3].split()
workspace, name, said = Workspace(root), wish["recipe"], {}
theirs = {key: value for key, value in os.environ.items() if key not in not_theirs}
log = Path(os.environ["HOOKS_RAN"])

def git(directory, *words):
    return subprocess.run(["git", *words], cwd=directory, env=theirs, check=True, capture_output=True, text=True).stdout

def hooks():
    return log.read_text() if log.exists() else ""

def digest(directory):
    found = {str(p.relative_to(directory)): (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mode)
             for p in directory.rglob("*") if p.is_file() and ".git" not in p.relative_to(directory).parts}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()

def now():
    project = Project.read(workspace)
    return project, project.recipe(name), Store.open(workspace.store)

def relock(step):
    project, recipe, store = now()
    resolve.relock(project, recipe, lambda text: None)
    said["lock " + step] = recipe.file.with_suffix(".lock").read_text()

def write_back(step, directory):
    before = hooks()
    project, recipe, store = now()
    done, written = export.export(project, recipe, directory, write=True)
    assert hooks() == before, "a hook ran"
    said["export " + step] = [done.tree, [item.patch for item in done.exported], [p.name for p in written]]
    project, recipe, store = now()
    assert export.export(project, recipe, directory, write=True)[1] == ()

def change(path, old, new):
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))

project, recipe, store = now()
relock("first")
first = edit.open_patch(project, recipe, wish["patch"], "").directory
assert hooks() == "", "a hook ran"
said["checkout"] = digest(first)
change(first / wish["file"], wish["line"].encode() + b"\n", b"# edited: \xc3\xa9 \t \n" + wish["line"].encode() + b"\n")
git(first, "commit", "-q", "--all", "--amend", "--no-edit")
said["their tree"] = git(first, "rev-parse", "HEAD^{tree}").strip()
write_back("of one patch", first)
relock("second")
project, recipe, store = now()
whole = root / "work" / "whole"
worktree.write_checkout(store, resolve.resolve(project, recipe, store, lambda text: None).applied.commit, whole)
path = whole / wish["other_file"]
path.write_bytes(b"# edited  \n" + path.read_bytes())
(whole / "odd \xe9.txt").write_bytes(b"crlf\r\nlatin \xe9\nno newline")
git(whole, "add", "--all", "--force")
other = git(whole, "log", "-1", "--format=%H", "--grep=^Patch: " + wish["other"] + "$").strip()
git(whole, "commit", "-q", "--fixup", other)
git(whole, "-c", "sequence.editor=true", "rebase", "-q", "-i", "--autosquash", f"HEAD~{wish['behind']}")
said["their last tree"] = git(whole, "rev-parse", "HEAD^{tree}").strip()
write_back("of the series", whole)
relock("third")
base = store.with_files(store.write_object("tree", b""), {"old": Entry("100644", store.write_blob(b"1\n2\n3\n" * 9))})
ours = store.with_files(base, {"old": None, "new": store.entry(base, "old"), "c": Entry("100644", store.write_blob(b"x\n"))})
theirs = store.with_files(base, {"old": Entry("100644", store.write_blob(b"1\n2\n3\n" * 9 + b"4\n")),
                                 "c": Entry("100644", store.write_blob(b"y\n"))})
merged = store.merge(base, ours, theirs)
said["merge with a rename and a conflict"] = [merged.tree, merged.conflicts, store.renames(base, ours)]
assert merged.conflicts == ("c",) and store.read(merged.tree, "new").endswith(b"4\n")
said["tool's commit"] = resolve.resolve(*now(), lambda text: None).applied.commit
for file in sorted((root / "recipes").rglob("*")):
    if file.is_file():
        said[str(file.relative_to(root))] = hashlib.sha256(file.read_bytes()).hexdigest()
print(json.dumps(said))
"""

ATTRIBUTES = "* text eol=crlf ident filter=evil diff=evil merge=union working-tree-encoding=UTF-16 export-subst\n"
HOOKS = (
    "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "post-rewrite", "pre-rebase",
    "reference-transaction", "post-index-change", "applypatch-msg", "post-merge", "fsmonitor",
)  # fmt: skip
GPG = "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED D' >&2\nprintf 'tree 0\\n\\nPatch: other\\n-----END\\n'\n"

CONFIGURATIONS: Mapping[str, str] = {
    "whitespace": "apply.whitespace=fix apply.ignoreWhitespace=change core.whitespace=trailing-space,cr-at-eol",
    "line ends": "core.autocrlf=true core.eol=crlf core.safecrlf=true",
    "attributes": "core.attributesFile={home}/attributes filter.evil.clean=rev filter.evil.smudge=rev "
    "filter.evil.required=true diff.evil.textconv=rev diff.evil.command=/bin/false merge.default=union",
    "hooks and templates": "core.hooksPath={home}/hooks init.templateDir={home}/template core.fsmonitor={home}/hooks/fsmonitor "
    "core.excludesFile={home}/ignored init.defaultBranch=other",
    "diff": "diff.noprefix=true diff.mnemonicPrefix=true diff.context=0 diff.interHunkContext=99 diff.algorithm=patience "
    "diff.renames=copies diff.orderFile={home}/order diff.suppressBlankEmpty=true diff.external=/bin/false "
    "diff.indentHeuristic=false diff.wsErrorHighlight=all diff.relative=true core.abbrev=4 core.quotePath=false "
    "color.ui=always color.diff=always",
    "merge": "merge.conflictStyle=zdiff3 merge.renames=false merge.directoryRenames=true merge.renameLimit=1 "
    "merge.default=union rerere.enabled=true rebase.updateRefs=true rebase.backend=merge rebase.stat=true",
    "identity": "commit.gpgSign=true gpg.program={home}/gpg i18n.commitEncoding=latin1 i18n.logOutputEncoding=latin1 "
    "commit.cleanup=verbatim commit.verbose=true log.showSignature=true format.signOff=true trailer.ifexists=replace",
    "files": "core.fileMode=false core.ignoreCase=true core.symlinks=false core.precomposeUnicode=true core.bigFileThreshold=1 "
    "core.compression=0 core.pager=/bin/false alias.apply=!false transfer.fsckObjects=true core.trustctime=false "
    "core.sharedRepository=0600 feature.experimental=true fetch.prune=true core.logAllRefUpdates=always "
    "core.checkStat=minimal index.version=4 pack.allowPackReuse=false",
    "parent repository": "",
    "environment": "",
}

#: Every setting of those at once, and the parent repository.
EVERYTHING = "everything"
#: No configuration but a name.
NONE = "none"

#: Variables with which no git of a person's could work; the tool must not see them either.
UNUSABLE = {
    "GIT_DIR": "{home}/nowhere", "GIT_WORK_TREE": "{home}/nowhere", "GIT_INDEX_FILE": "{home}/nowhere",
    "GIT_OBJECT_DIRECTORY": "{home}/nowhere", "GIT_EXTERNAL_DIFF": "/bin/false", "GIT_NAMESPACE": "x",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "{home}/nowhere", "GIT_DEFAULT_HASH": "sha256", "GIT_ATTR_SOURCE": "HEAD",
}  # fmt: skip
UNPLEASANT = {
    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "diff.noprefix", "GIT_CONFIG_VALUE_0": "true",
    "GIT_CONFIG_PARAMETERS": "'core.autocrlf=true'", "GIT_DIFF_OPTS": "--unified=0", "GIT_AUTHOR_DATE": "2001-01-01T00:00",
    "GIT_COMMITTER_NAME": "x", "GIT_EDITOR": "/bin/false", "GIT_PAGER": "/bin/false", "TZ": "Asia/Tokyo",
    "LC_ALL": "tr_TR.UTF-8", "LANGUAGE": "de", "GIT_TEMPLATE_DIR": "{home}/template", "GIT_LITERAL_PATHSPECS": "1",
}  # fmt: skip


def _furnish(home: Path) -> None:
    """Hooks that say that they ran, and the files that configurations name."""
    for folder in (home / "hooks", home / "template" / "hooks"):
        folder.mkdir(parents=True)
        for hook in HOOKS:
            (folder / hook).write_text(f'#!/bin/sh\necho {hook} >> "$HOOKS_RAN"\n')
            (folder / hook).chmod(0o755)
    (home / "hooks" / "commit-msg").write_text(
        '#!/bin/sh\necho commit-msg >> "$HOOKS_RAN"\nprintf "\\nReviewed-by: a hook\\n" >> "$1"\n'
    )
    (home / "template" / "config").write_text("[core]\n\tautocrlf = true\n")
    (home / "attributes").write_text(ATTRIBUTES)
    (home / "order").write_text("z*\n")
    (home / "ignored").write_text("*\n")
    (home / "gpg").write_text(GPG)
    (home / "gpg").chmod(0o755)


def _surroundings(name: str, home: Path, around: Path) -> tuple[dict[str, str], list[str]]:
    """The environment of a run, and which of its variables are not for the person's own git."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "HOOKS_RAN": str(home / "hooks-ran"),
        "GIT_CONFIG_SYSTEM": str(home / ".gitconfig"),
    }
    chosen = " ".join(CONFIGURATIONS.values()) if name == EVERYTHING else CONFIGURATIONS.get(name, "")
    for setting in ["user.name=Somebody", "user.email=somebody@host", *chosen.split()]:
        key, value = setting.split("=", 1)
        subprocess.run(["git", "config", "--file", str(home / ".gitconfig"), key, value.format(home=home)], check=True)
    if name in ("parent repository", EVERYTHING):
        subprocess.run(["git", "init", "-q", str(around)], check=True)
        (around / ".gitattributes").write_text(ATTRIBUTES)
        (around / ".gitignore").write_text("*\n")
        for key, value in (("core.autocrlf", "true"), ("core.worktree", "/nonexistent"), ("apply.whitespace", "fix")):
            subprocess.run(["git", "config", "--file", str(around / ".git" / "config"), key, value], check=True)
    if name == "environment":
        env |= {key: value.format(home=home) for key, value in {**UNUSABLE, **UNPLEASANT}.items()}
    return env, list(UNUSABLE)


def run_under(name: str, home: Path, clone: Path, wish: Wish) -> dict[str, Any]:
    """What everything came to for *clone*, which is changed, under the configuration *name*. *home* is made.

    The folder above *clone* becomes the parent repository where there is one.
    """
    home.mkdir(parents=True)
    _furnish(home)
    env, not_theirs = _surroundings(name, home, clone.parent)
    words = [sys.executable, "-B", "-c", DONE, str(clone), json.dumps(asdict(wish)), " ".join(not_theirs)]
    ended = subprocess.run(words, env=env, capture_output=True, text=True, check=False, cwd=clone)
    assert ended.returncode == 0, ended.stderr
    came = json.loads(ended.stdout)
    assert came["export of one patch"][1] == [wish.patch]
    assert came["export of the series"][1] == [wish.other]
    assert came["export of the series"][0] == came["their last tree"]
    assert len({came[f"lock {which}"] for which in ("first", "second", "third")}) == 3
    return came
