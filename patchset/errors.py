"""Every failure of this tool: what happened, where, what to type next, and its exit code.

One class a kind of failure; the exit code belongs to the class, so a script can tell them apart. The table in the
README is checked against :func:`exit_codes` by a test.
"""

from __future__ import annotations


class PatchsetError(Exception):
    """A failure that a person can act on.

    :param what: one sentence: what happened, with the thing it happened to.
    :param where: the place: ``file:line``, a patch id, a release, a path. Empty if ``what`` says it all.
    :param next: the next command to type, or what to change. Never empty in practice; a test reads every raise.
    :param detail: longer evidence (the end of a log, a list of hunks), shown below and never needed to act.
    """

    exit_code = 1
    kind = "failure"

    def __init__(self, what: str, *, where: str = "", next: str = "", detail: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.next = next
        self.detail = detail

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f" (next: {self.next})" if self.next else ""
        return f"{place}{self.what}{advice}"

    def as_dict(self) -> dict[str, object]:
        """The failure as ``--json`` prints it."""
        return {
            "kind": self.kind,
            "exit_code": self.exit_code,
            "what": self.what,
            "where": self.where,
            "next": self.next,
            "detail": self.detail,
        }


class DeclarationError(PatchsetError):
    """A recipe, patch.toml, lock or upstreams.toml that does not say what it must; or a wrong task argument."""

    exit_code = 3
    kind = "declaration"


class SourceError(PatchsetError):
    """An upstream that could not be had as pinned: no network, wrong hash, truncated, unsafe archive."""

    exit_code = 4
    kind = "source"


class StoreError(PatchsetError):
    """git failed on the object store, or a tree or commit is not in it."""

    exit_code = 5
    kind = "store"


class DiffRefused(PatchsetError):
    """A diff that the strict reader turns away before git sees it."""

    exit_code = 6
    kind = "diff-refused"


class SeriesError(PatchsetError):
    """A patch of the series did not become what it must on this base."""

    exit_code = 7
    kind = "series"


class ProbeError(PatchsetError):
    """A probe says otherwise than the outcome, or could not say anything."""

    exit_code = 8
    kind = "probe"


class WheelError(PatchsetError):
    """The wheel was not built, or is not what the tree says it should be."""

    exit_code = 9
    kind = "wheel"


class SmokeError(PatchsetError):
    """A kernel is wrong, missing, or was not run where it had to be."""

    exit_code = 10
    kind = "smoke"


class LockError(PatchsetError):
    """The lock and what was found do not agree."""

    exit_code = 11
    kind = "lock"


class MissingTool(PatchsetError):
    """Something that this machine must have is not there: a program, a header, an interpreter, room on disk."""

    exit_code = 12
    kind = "missing-tool"


class Busy(PatchsetError):
    """Another run holds what this one needs."""

    exit_code = 13
    kind = "busy"


class WorktreeError(PatchsetError):
    """A directory of the user's would have been overwritten."""

    exit_code = 14
    kind = "worktree"


class LintError(PatchsetError):
    """A patch, recipe or lock breaks a rule of this project."""

    exit_code = 15
    kind = "lint"


class BisectError(PatchsetError):
    """A bisection that came to no answer: an end is not what it was said to be, or nothing could be told apart."""

    exit_code = 16
    kind = "bisect"


class KernelsError(PatchsetError):
    """A kernels wheel that is unreadable, or that will fail beside this tree, this torch or this Python."""

    exit_code = 17
    kind = "kernels"


class GateError(PatchsetError):
    """A gate that is not passed: a result is wrong, incomplete, or of something else than was asked for."""

    exit_code = 19
    kind = "gate"


class Interrupted(PatchsetError):
    """Ctrl-C."""

    exit_code = 130
    kind = "interrupted"


def exit_codes() -> dict[str, int]:
    """Kind of failure → exit code, for every class above. 0 is success; 1 is Invoke's own for a command line it cannot read."""
    return {cls.kind: cls.exit_code for cls in [PatchsetError, *PatchsetError.__subclasses__()]}
