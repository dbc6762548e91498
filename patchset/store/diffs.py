"""Diffs and trees: made from two trees, read as git reads them, and applied."""

from __future__ import annotations

import os

from patchset.store.trees import Trees

#: Everything about a diff's bytes that a configuration, an attribute or a later default of git could change. No renames:
#: a move shows as what it is, a file less and a file more, and needs no other file to be applied.
_STABLE = (
    "-r",
    "-p",
    "--full-index",
    "--binary",
    "--no-renames",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--inter-hunk-context=0",
    "--diff-algorithm=myers",
    "--indent-heuristic",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "--ignore-submodules=none",
)

#: How many files may be paired with each other when renames are looked for: more than any release has.
_RENAME_LIMIT = 32_000


class Diffs(Trees):
    """What a store does with diffs."""

    def diff(self, old: str, new: str, *, context: int = 3) -> bytes:
        """The unified diff from tree *old* to tree *new*: the same bytes on every machine, and empty if they agree.

        :param context: how many unchanged lines stand around a change.
        """
        return self.run("diff-tree", *_STABLE, f"--unified={context}", old, new)

    def renames(self, old: str, new: str) -> dict[str, tuple[str, int]]:
        """Files of tree *old* that are gone in *new* and live on elsewhere: path → (new path, likeness in percent).

        git's rename detection decides; it needs half of the lines to be alike.
        """
        out = self.run(
            "diff-tree",
            "-r",
            "-z",
            "--name-status",
            "--find-renames=50%",
            f"-l{_RENAME_LIMIT}",
            "--diff-filter=R",
            old,
            new,
        )
        words = out.split(b"\0")[:-1]
        return {
            os.fsdecode(before): (os.fsdecode(after), int(status[1:]))
            for status, before, after in zip(words[::3], words[1::3], words[2::3], strict=True)
        }

    def apply(self, tree: str, diff: bytes, *, reverse: bool = False, strip: int = 1) -> tuple[str | None, str]:
        """*diff* on *tree*: (the new tree id, '') or (None, what git said). No fuzz, no whitespace leniency.

        *reverse* tells whether the change could be taken out again, that is, whether it is there already.

        git's status 0 is not believed when nothing changed: then the tree id equals *tree*, and the caller sees it.
        """
        with self._index(tree) as index:
            answer = self.attempt(
                "apply",
                "--cached",
                "--whitespace=nowarn",
                f"-p{strip}",
                *(["--reverse"] if reverse else []),
                "-",
                stdin=diff,
                extra=index,
            )
            if answer.status != 0:
                return None, answer.err
            return self.run("write-tree", extra=index).decode().strip(), ""

    def numstat(self, diff: bytes) -> list[tuple[str, str, str]]:
        """git's own reading of *diff*: (added, removed, path) a file, ``-`` for binary. For cross-checking a reader.

        :raises StoreError: git cannot read it.
        """
        out = self.run("apply", "--numstat", "-z", "-p1", "-", stdin=diff)
        rows = []
        for record in out.split(b"\0"):
            if record:
                added, removed, path = record.split(b"\t", 2)
                rows.append((added.decode(), removed.decode(), os.fsdecode(path)))
        return rows
