"""A report as plain lines for a terminal: no colour, and nothing of the input that a terminal would obey."""

from __future__ import annotations

from itertools import groupby

from .model import USAGE, Kind, Report, Unusable

_LONGEST = 2000


def harmless(text: str) -> str:
    r"""*text* with all that does not print (controls, direction marks, lone surrogates) written as ``\xNN`` or ``\uNNNN``."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def lines_of(report: Report) -> list[str]:
    """*report*, a line each."""
    lines = [f"{report.subject:9} {report.target}", *(f"{name:9} {value}" for name, value in report.facts)]
    for check in report.checks:
        partly = "in part not run: " if check.state != "not run" else ""
        note = "" if check.findings else check.note
        words = [check.what, note, partly + check.not_run if check.not_run else ""]
        lines.append(f"  {check.state:8} {': '.join(word for word in words if word)}")
    for (kind, step), findings in groupby(report.findings, key=lambda finding: (finding.kind, finding.next)):
        lines.append(f"{kind.label} (exit code {kind.code})")
        lines += [
            f"    {finding.path}: {finding.what}" if finding.path else f"    {finding.what}" for finding in findings
        ]
        lines += [f"  why:  {kind.why}", f"  next: {step}"]
    return [harmless(line[:_LONGEST]) for line in [*lines, _verdict(report)]]


def error_lines(error: Unusable) -> list[str]:
    """A failure, a line each."""
    lines = [f"error: {error.what}"]
    lines += [f"  {name}: {text}" for name, text in (("where", error.where), ("next", error.next)) if text]
    return [harmless(line[:_LONGEST]) for line in lines]


def code_table() -> str:
    """The exit codes, a line each."""
    rows = [(0, "", "all that was looked at is verified"), (USAGE, "", "nothing was: the target cannot be used")]
    rows += [(kind.code, kind.label, kind.meaning) for kind in Kind]
    return "\n".join(f"  {code:3}  {label:12} {text}" for code, label, text in rows)


def _verdict(report: Report) -> str:
    not_run = sum(bool(check.not_run) for check in report.checks)
    left = f"; {not_run} not run, or not wholly, and that proves nothing" if not_run else ""
    if not report.findings:
        return f"verified: every check that ran is good{left}"
    gravest = report.findings[0].kind
    count = len(report.findings)
    return f"NOT verified: {count} finding{'s' if count > 1 else ''}, the gravest {gravest.label} (exit code {gravest.code}){left}"
