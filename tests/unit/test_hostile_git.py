"""Ten git configurations that change bytes: trees, commits, locks, checkouts and exported diffs are the same under each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from made_project import write_project

from patchset.store import Store

ROOT = Path(__file__).resolve().parents[2]
LINES = b"".join(b"line_%d = %d\n" % (n, n) for n in range(60)) + b"# $Id$ \ttrailing  \n"
#: CRLF, Latin-1, no newline at the end, a name that git quotes, and a space.
ODD = {"crlf.txt": b"a\r\nb\r\nc\r\n", "d/\u00e9 x.txt": b"\xe9\xff\n", "end.txt": b"no newline"}

#: All that a person does, in a process whose environment and configuration are hostile; it prints what came out.
DONE = """
import hashlib, json, subprocess, sys
from pathlib import Path
from patchset import edit, export, resolve, worktree
from patchset.resolve import Project
from patchset.store import Store
from patchset.workspace import Workspace
root = Path(sys.argv[1])
say = lambda text: None
project = Project.read(Workspace(root))
recipe = project.recipe("r")
resolve.relock(project, recipe, say)
store = Store.open(project.workspace.store)
resolved = resolve.resolve(project, recipe, store, say)
worktree.write_checkout(store, resolved.applied.commit, root / "seen")
files = {str(p.relative_to(root / "seen")): p.read_bytes().hex() for p in sorted((root / "seen").rglob("*"))
         if p.is_file() and ".git" not in p.parts}
opened = edit.open_patch(project, recipe, "first", "")
text = (opened.directory / "a.py").read_bytes()
(opened.directory / "a.py").write_bytes(text.replace(b"line_12 = 12\\n", b"twelve = 12  \\n"))
clean = {"PATH": sys.argv[2], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CEILING_DIRECTORIES": str(root)}
subprocess.run(["git", "-c", "user.name=p", "-c", "user.email=p", "commit", "-qa", "--amend", "--no-edit"],
               cwd=opened.directory, env=clean, check=True)
done, written = export.export(project, recipe, opened.directory, write=True)
again, nothing = export.export(Project.read(project.workspace), recipe, opened.directory, write=True)
patches = {str(p.relative_to(root)): p.read_bytes().hex() for p in sorted((root / "recipes").rglob("*.patch"))}
print(json.dumps({"lock": (root / "recipes" / "r.lock").read_text(), "commit": resolved.applied.commit, "files": files,
                  "exported": done.tree, "written": [p.name for p in written], "again": len(nothing), "patches": patches}))
"""

ATTRIBUTES = "* text eol=crlf ident filter=evil diff=evil merge=union working-tree-encoding=UTF-16 export-subst\n"


def evil_files(home: Path) -> None:
    hooks = home / "hooks"
    hooks.mkdir(parents=True)
    for name in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change", "applypatch-msg"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    (home / "attributes").write_text(ATTRIBUTES)
    (home / "order").write_text("z*\n")
    (home / "template").mkdir()
    (home / "template" / "config").write_text("[core]\n\tautocrlf = true\n\tbare = false\n")
    (home / "ignored").write_text("*\n")


CONFIGURATIONS: Mapping[str, str] = {
    "whitespace": "apply.whitespace=fix apply.ignoreWhitespace=change core.whitespace=trailing-space,cr-at-eol",
    "line ends": "core.autocrlf=true core.eol=crlf core.safecrlf=true",
    "attributes": "core.attributesFile={home}/attributes filter.evil.clean=rev filter.evil.smudge=rev "
    "filter.evil.required=true diff.evil.textconv=rev diff.evil.command=/bin/false merge.default=union",
    "hooks and templates": "core.hooksPath={home}/hooks init.templateDir={home}/template core.fsmonitor={home}/hooks/pre-commit "
    "core.excludesFile={home}/ignored init.defaultBranch=other",
    "diff": "diff.noprefix=true diff.mnemonicPrefix=true diff.context=0 diff.interHunkContext=99 diff.algorithm=patience "
    "diff.renames=copies diff.orderFile={home}/order diff.suppressBlankEmpty=true diff.external=/bin/false "
    "diff.indentHeuristic=false diff.wsErrorHighlight=all diff.relative=true core.abbrev=4 core.quotePath=false "
    "color.ui=always color.diff=always diff.ignoreSubmodules=none",
    "merge": "merge.conflictStyle=zdiff3 merge.renames=false merge.directoryRenames=true merge.renameLimit=1 "
    "merge.union.driver=/bin/false merge.verifySignatures=true rerere.enabled=true",
    "identity": "user.name=Somebody user.email=a@b commit.gpgSign=true gpg.program=/bin/false i18n.commitEncoding=latin1 "
    "i18n.logOutputEncoding=utf-16 commit.cleanup=verbatim log.showSignature=true core.commentChar=P",
    "files": "core.fileMode=false core.ignoreCase=true core.symlinks=false core.precomposeUnicode=true core.bigFileThreshold=1 "
    "core.compression=0 core.pager=/bin/false alias.apply=!false protocol.allow=never transfer.fsckObjects=true "
    "core.sharedRepository=0600 feature.experimental=true fetch.prune=true core.logAllRefUpdates=always",
    "parent repository": "",
    "environment": "",
}


def set_up(name: str, home: Path, clone: Path) -> dict[str, str]:
    """Make that configuration the one of *home*, of the machine, or of a repository around *clone*; the environment."""
    evil_files(home)
    env = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "GIT_CONFIG_SYSTEM": str(home / ".gitconfig"),
    }
    for setting in CONFIGURATIONS[name].split():
        key, value = setting.split("=", 1)
        words = ["git", "config", "--file", str(home / ".gitconfig"), key, value.format(home=home)]
        subprocess.run(words, check=True)
    if name == "parent repository":
        around = clone.parent
        subprocess.run(["git", "init", "-q", str(around)], check=True)
        (around / ".gitattributes").write_text(ATTRIBUTES)
        (around / ".gitignore").write_text("*\n")
        for key, value in (("core.autocrlf", "true"), ("core.worktree", "/nonexistent"), ("apply.whitespace", "fix")):
            subprocess.run(["git", "config", "--file", str(around / ".git" / "config"), key, value], check=True)
    if name == "environment":
        nowhere = str(home / "nowhere")
        env |= {
            "GIT_DIR": nowhere, "GIT_WORK_TREE": nowhere, "GIT_INDEX_FILE": nowhere, "GIT_OBJECT_DIRECTORY": nowhere,
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "diff.noprefix", "GIT_CONFIG_VALUE_0": "true",
            "GIT_CONFIG_PARAMETERS": "'core.autocrlf=true'", "GIT_DIFF_OPTS": "--unified=0", "GIT_EXTERNAL_DIFF": "/bin/false",
            "GIT_AUTHOR_DATE": "2001-01-01", "GIT_COMMITTER_NAME": "x", "GIT_NAMESPACE": "x", "GIT_LITERAL_PATHSPECS": "1",
            "GIT_ATTR_SOURCE": "HEAD", "GIT_DEFAULT_HASH": "sha256", "GIT_REPLACE_REF_BASE": "refs/x/", "TZ": "Asia/Tokyo",
            "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "GIT_EDITOR": "/bin/false", "GIT_PAGER": "/bin/false",
            "GIT_TEMPLATE_DIR": str(home / "template"), "GIT_ALTERNATE_OBJECT_DIRECTORIES": nowhere,
        }  # fmt: skip
    return env


@pytest.fixture
def run(bench: Store, make_tree: Callable[..., str], tmp_path: Path) -> Callable[..., dict[str, object]]:
    """The name of a configuration (or nothing) → what everything came to under it."""

    def under(name: str = "") -> dict[str, object]:
        def diff(number: int) -> bytes:
            new = LINES.replace(b"line_%d = %d\n" % (number, number), b"new_%d = 0 \n" % number)
            return bench.diff(make_tree({"a.py": LINES, **ODD}), make_tree({"a.py": new, **ODD, "crlf.txt": b"a\r\nB\r\nc\r\n"}
                                                                          if number == 10 else {"a.py": new, **ODD}))  # fmt: skip

        variant = '\n[[variant]]\nreleases = "==0.20.0"\ndiff = "a.patch"\n'
        patches = {id: (variant, {"a.patch": diff(number)}) for id, number in (("first", 10), ("second", 30))}
        folder = tmp_path / (name or "plain")
        clone = folder / "around" / "clone"
        write_project(clone, {"0.20.0": {"a.py": LINES, **ODD}}, patches, list(patches))
        home = folder / "home"
        home.mkdir()
        env = (
            set_up(name, home, clone)
            if name
            else {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        )
        words = [sys.executable, "-B", "-c", DONE, str(clone), os.environ["PATH"]]
        ended = subprocess.run(words, env=env, capture_output=True, text=True, check=False, cwd=clone)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    return under


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_same_bytes_under_every_configuration(name: str, run: Callable[..., dict[str, object]]) -> None:
    plain = run()
    assert plain["written"] == ["a.patch"] and plain["again"] == 0
    assert run(name) == plain
